//! Which request a thread executes: for whoever catches a panic of the service, and for whoever watches a command that takes long.
//!
//! A panic of a command is the same at every replica, and comes again when the log is read back; a command that takes long takes long
//! everywhere, and its thread does nothing else. So an operator has to learn which command it is. For a panic that is noted while the thread
//! unwinds. A thread that is watched writes down what it begins: once for each request, and not for each command.

use quorate_types::{ClientId, RequestNumber, Seq};
use std::cell::{Cell, OnceCell};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

#[cfg(test)]
mod tests;

/// What a thread executes, or executed when the service panicked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnderWay {
    /// The seq of the batch.
    pub seq: Seq,
    /// The client, and the number of its request, if whoever ran it knew that; none when a deadline was reached.
    pub request: Option<(ClientId, Option<RequestNumber>)>,
    /// The bytes of the request's commands together.
    pub bytes: usize,
}

thread_local! {
    static LAST: Cell<Option<UnderWay>> = const { Cell::new(None) };
    static WATCHED: OnceCell<Watched> = const { OnceCell::new() };
}

impl UnderWay {
    /// What ran when a service panicked last on this thread, since the last call.
    pub fn panicked() -> Option<Self> {
        LAST.take()
    }
}

impl fmt::Display for UnderWay {
    /// As in `request 7 of client 12, which has 300 bytes, at seq 99`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.request {
            Some((client, Some(number))) => {
                write!(f, "request {} of client {}", number.number(), client.number())?;
            }
            Some((client, None)) => write!(f, "a request of client {}", client.number())?,
            None => return write!(f, "what a deadline brings, at seq {}", self.seq.number()),
        }
        write!(f, ", which has {} bytes, at seq {}", self.bytes, self.seq.number())
    }
}

/// What another thread executes. The numbers are written one by one, so they count only for what lasts.
#[derive(Clone, Debug, Default)]
pub struct Watched(Arc<Numbers>);

#[derive(Debug, Default)]
struct Numbers {
    /// 0: nothing is under way.
    seq: AtomicU64,
    /// 1 more than the client; 0: a deadline.
    client: AtomicU64,
    /// 0: not known.
    number: AtomicU64,
    bytes: AtomicU64,
}

impl Watched {
    /// From now on this is about the thread that calls it. A thread is watched once in its life.
    pub fn this_thread(&self) {
        WATCHED.with(|watched| {
            let _ = watched.set(self.clone());
        });
    }

    /// What the thread executes, if it executes something.
    pub fn look(&self) -> Option<UnderWay> {
        let number = |of: &AtomicU64| of.load(Ordering::Relaxed);
        let seq = Some(number(&self.0.seq)).filter(|seq| *seq > 0)?;
        let client = number(&self.0.client).checked_sub(1).map(ClientId::new);
        let request = Some(number(&self.0.number)).filter(|number| *number > 0).map(RequestNumber::new);
        Some(UnderWay {
            seq: Seq::new(seq),
            request: client.map(|client| (client, request)),
            bytes: number(&self.0.bytes) as usize,
        })
    }

    /// Writes down what runs from now on, or that nothing does.
    pub fn note(&self, what: Option<UnderWay>) {
        let Some(what) = what else {
            return self.0.seq.store(0, Ordering::Relaxed);
        };
        let (client, number) = match what.request {
            None => (0, 0),
            Some((client, number)) => (client.number() + 1, number.map_or(0, RequestNumber::number)),
        };
        self.0.client.store(client, Ordering::Relaxed);
        self.0.number.store(number, Ordering::Relaxed);
        self.0.bytes.store(what.bytes as u64, Ordering::Relaxed);
        self.0.seq.store(what.seq.number(), Ordering::Relaxed);
    }
}

/// Writes it down where this thread is watched.
fn note(what: Option<UnderWay>) {
    WATCHED.with(|watched| {
        if let Some(watched) = watched.get() {
            watched.note(what);
        }
    });
}

/// Something runs as long as this lives.
pub(crate) struct Runs(UnderWay);

impl Runs {
    pub(crate) fn new(what: UnderWay) -> Self {
        note(Some(what));
        Self(what)
    }
}

impl Drop for Runs {
    fn drop(&mut self) {
        if std::thread::panicking() {
            LAST.set(Some(self.0));
        }
        note(None);
    }
}
