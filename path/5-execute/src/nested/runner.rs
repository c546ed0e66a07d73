//! A command that runs: its future, polled by hand, and the two ends through which the leg goes to and fro.

use super::call::{Call, Leg, was_ended};
use super::service::{AnyJournaled, Failure, Running};
use crate::context::Context;
use bytes::Bytes;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::task::{self, Poll, Waker};

/// How far a command came.
pub(super) enum Went {
    /// It waits for what the leg says.
    Halts,
    Ends(Vec<u8>),
    /// With words for whoever has to mend the service. They may differ between replicas.
    Fails(Failure, String),
}

/// A command between two legs. It is a cache: its request and its journal make another one like it.
pub(super) struct Runner {
    future: Option<Running>,
    goes: Sender<Box<Leg>>,
    comes: Receiver<Box<Leg>>,
    /// How many entries of the journal, and how many questions, it has behind it.
    pub(super) at: usize,
    pub(super) asks: u32,
}

impl Runner {
    pub(super) fn begin(service: Arc<dyn AnyJournaled>, command: Bytes, ctx: Context) -> Self {
        let ((goes, takes), (gives, comes)) = (channel(), channel());
        let future = service.begin(Call::new(takes, gives), command, ctx);
        Self { future: Some(future), goes, comes, at: 0, asks: 0 }
    }

    /// Polls the command once, with this leg, and gives the leg back.
    ///
    /// # Panics
    /// When the leg is lost, which only a bug of ours can do.
    pub(super) fn go_on(&mut self, leg: Box<Leg>) -> (Box<Leg>, Went) {
        // The command has the other end, and lives.
        let _ = self.goes.send(leg);
        let polled = catch_unwind(AssertUnwindSafe(|| match &mut self.future {
            Some(future) => future.as_mut().poll(&mut task::Context::from_waker(Waker::noop())),
            None => Poll::Pending,
        }));
        let mut back = self.comes.try_recv().ok();
        if !(matches!(polled, Ok(Poll::Pending)) && back.is_some()) {
            let future = self.future.take();
            let dropped = catch_unwind(AssertUnwindSafe(|| drop(future)));
            back = back.or_else(|| self.comes.try_recv().ok());
            let mut leg = back.expect("INV-NESTED-1: a command that is gone has given its leg back");
            let mut went = match (polled, dropped) {
                (Ok(Poll::Ready(reply)), Ok(())) => Went::Ends(reply),
                (Ok(Poll::Pending), Ok(())) => Went::Fails(Failure::Foreign, String::new()),
                (Err(why), _) | (_, Err(why)) => Went::Fails(Failure::Panicked, words(&*why)),
            };
            if leg.at < leg.journal.len() && matches!(went, Went::Ends(_)) {
                leg.failure = leg.failure.or(Some(Failure::NotDeterministic));
            }
            if let Some(why) = leg.failure.take() {
                went = Went::Fails(why, place(&leg, why));
            }
            return (leg, went);
        }
        let leg = back.expect("INV-NESTED-1: it was there");
        (self.at, self.asks) = (leg.at, leg.asks);
        (leg, Went::Halts)
    }
}

/// What a service does when its command is dropped harms nobody else.
impl Drop for Runner {
    fn drop(&mut self) {
        let future = self.future.take();
        let _ = catch_unwind(AssertUnwindSafe(|| drop(future)));
    }
}

/// Where a service turned out not to be deterministic.
fn place(leg: &Leg, why: Failure) -> String {
    if why != Failure::NotDeterministic {
        return String::new();
    }
    // A command that does something else has the entry behind it already.
    let of = leg.journal.len();
    match leg.journal.entries().get(leg.at.saturating_sub(1)) {
        Some(entry) => {
            let (number, before) = (leg.at, entry.name());
            format!(
                "operation {number} of {of}: before, the command {before} there; now it does something else"
            )
        }
        None => format!("it ends before the first of {of} operations that it did before"),
    }
}

/// What a panic says.
fn words(why: &(dyn Any + Send)) -> String {
    if was_ended(why) {
        return String::new();
    }
    match (why.downcast_ref::<&str>(), why.downcast_ref::<String>()) {
        (Some(text), _) => (*text).to_owned(),
        (_, Some(text)) => text.clone(),
        _ => "a panic without words".to_owned(),
    }
}

#[cfg(test)]
mod tests;
