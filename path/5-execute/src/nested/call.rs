//! What a command has in its hands while it runs: its call, and in it the leg.
//!
//! The executor hands the leg over, polls the command, and gets the leg back when the command halts, ends, or is dropped. So the command can
//! use it without locks, and whatever the command does is in the leg alone, until the executor takes it over.

use super::chain::{Chain, ServiceId};
use super::journal::{Doing, Entry, Journal, LOCK_NAME_MAX, Mark};
use super::rules::NestedRules;
use super::service::{Answer, Deadlock, Failure, Ticket};
use bytes::Bytes;
use quorate_state::store::{KEY_BYTES_MAX, VALUE_BYTES_MAX, Version};
use quorate_types::planted;
use std::collections::{BTreeMap, BTreeSet};
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};
use std::task::Poll;

/// What a command waits for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Want {
    #[default]
    Nothing,
    Lock(Bytes),
    Answer(u32),
}

/// A question that a command asked in this leg.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Asked {
    pub(super) ticket: u32,
    pub(super) backend: ServiceId,
    pub(super) body: Bytes,
}

/// A leg: what a command sees and does between two halts.
pub(super) struct Leg {
    pub(super) rules: Arc<NestedRules>,
    pub(super) chain: Chain,
    /// The objects at the beginning of the leg.
    pub(super) version: Version,
    /// What it wrote since.
    pub(super) own: BTreeMap<Box<[u8]>, Option<Bytes>>,
    pub(super) journal: Journal,
    /// How many entries of the journal the command has behind it. While it is less than all, the command is replayed.
    pub(super) at: usize,
    /// How many questions it has behind it.
    pub(super) asks: u32,
    pub(super) asked: Vec<Asked>,
    /// Answers that are there before anything left.
    pub(super) refused: BTreeMap<u32, Answer>,
    /// The locks that it holds.
    pub(super) locks: BTreeSet<Bytes>,
    pub(super) operations: u64,
    pub(super) want: Want,
    pub(super) failure: Option<Failure>,
}

/// What is thrown where the executor ends a command.
struct Ended;

impl Leg {
    /// Ends the command. Nothing is printed, unlike at a panic.
    fn end(&mut self, why: Failure) -> ! {
        self.failure = Some(why);
        std::panic::resume_unwind(Box::new(Ended))
    }

    /// What the journal has at this place, if the command is replayed.
    fn replayed(&mut self) -> Option<Entry> {
        let entry = self.journal.entries().get(self.at)?.clone();
        self.at += 1;
        Some(entry)
    }

    /// Notes what the command did.
    fn note(&mut self, entry: Entry) {
        self.operations += 1;
        if self.operations > self.rules.operations_per_leg_max {
            self.end(Failure::Operations(self.rules.operations_per_leg_max));
        }
        self.journal.push(entry);
        self.at += 1;
        if self.journal.bytes() > self.rules.journal_bytes_per_command_max {
            self.end(Failure::Journal(self.rules.journal_bytes_per_command_max));
        }
    }

    /// Checks the sizes of what the command names.
    fn check(&mut self, len: usize, max: u64) {
        if len as u64 > max {
            self.end(Failure::TooLong(max));
        }
    }

    fn value(&self, key: &[u8]) -> Option<Bytes> {
        match self.own.get(key) {
            Some(own) => own.clone(),
            None => self.version.get(key).map(Bytes::copy_from_slice),
        }
    }

    fn get(&mut self, key: &[u8]) -> Option<Bytes> {
        let mark = Mark::of(Doing::Get, &[key]);
        match self.replayed() {
            None => {
                let value = self.value(key);
                self.note(Entry::Read(mark, value.clone()));
                value
            }
            Some(Entry::Read(was, _)) if was == mark && planted("journal-without-reads") => self.value(key),
            Some(Entry::Read(was, value)) if was == mark => value,
            Some(_) => self.end(Failure::NotDeterministic),
        }
    }

    fn range(&mut self, start: &[u8], end: Option<&[u8]>, limit: usize) -> Vec<(Bytes, Bytes)> {
        let bound = [&[u8::from(end.is_some())], end.unwrap_or_default()].concat();
        let mark = Mark::of(Doing::Range, &[start, &bound, &(limit as u64).to_le_bytes()]);
        match self.replayed() {
            None => {
                let found = self.found(start, end, limit);
                self.note(Entry::Range(mark, found.clone()));
                found
            }
            Some(Entry::Range(was, found)) if was == mark => found,
            Some(_) => self.end(Failure::NotDeterministic),
        }
    }

    /// The first entries of a range, as the leg sees them. It stops where the journal has no room for more.
    fn found(&self, start: &[u8], end: Option<&[u8]>, limit: usize) -> Vec<(Bytes, Bytes)> {
        let (mut found, mut bytes) = (Vec::new(), 0);
        if end.is_some_and(|end| end <= start) {
            return found;
        }
        let mut below = self.version.range(start, end).peekable();
        let mut own = self.own.range::<[u8], _>(crate::hints::within(start, end)).peekable();
        while found.len() < limit && bytes <= self.rules.journal_bytes_per_command_max {
            let own_is_next = match (below.peek(), own.peek()) {
                (None, None) => break,
                (Some((key, _)), Some((own, _))) => ***own <= **key,
                (below, _) => below.is_none(),
            };
            let entry = if own_is_next {
                own.next().and_then(|(key, value)| {
                    below.next_if(|(at, _)| **at == **key);
                    Some((Bytes::copy_from_slice(key), value.clone()?))
                })
            } else {
                below.next().map(|(key, value)| (Bytes::copy_from_slice(key), Bytes::copy_from_slice(value)))
            };
            if let Some((key, value)) = entry {
                bytes += (key.len() + value.len()) as u64;
                found.push((key, value));
            }
        }
        found
    }

    fn write(&mut self, key: &[u8], value: Option<&[u8]>) {
        let mark = match value {
            Some(value) => Mark::of(Doing::Put, &[key, value]),
            None => Mark::of(Doing::Remove, &[key]),
        };
        match self.replayed() {
            None => {
                self.check(key.len(), KEY_BYTES_MAX as u64);
                self.check(value.map_or(0, <[u8]>::len), VALUE_BYTES_MAX as u64);
                self.note(Entry::Wrote(mark));
                self.own.insert(key.into(), value.map(Bytes::copy_from_slice));
            }
            Some(Entry::Wrote(was)) if was == mark => {
                if planted("writes-repeated-by-a-replay") {
                    self.own.insert(key.into(), value.map(Bytes::copy_from_slice));
                }
            }
            Some(_) => self.end(Failure::NotDeterministic),
        }
    }

    fn ask(&mut self, backend: ServiceId, body: &[u8]) -> Ticket {
        let mark = Mark::of(Doing::Ask, &[&backend.0.to_le_bytes(), body]);
        let ticket = self.asks;
        self.asks += 1;
        match self.replayed() {
            None => {
                if ticket >= self.rules.asks_per_command_max {
                    self.end(Failure::Asks(self.rules.asks_per_command_max));
                }
                self.check(body.len(), self.rules.message_bytes_max);
                self.note(Entry::Asked(mark, body.len() as u32));
                let chain = self.chain.then(self.rules.service);
                match chain.refusal(backend, self.rules.chain_max as usize) {
                    Some(why) => drop(self.refused.insert(ticket, Answer::Refused(why))),
                    None => self.asked.push(Asked { ticket, backend, body: Bytes::copy_from_slice(body) }),
                }
            }
            Some(Entry::Asked(was, _)) if was == mark => {}
            Some(_) => self.end(Failure::NotDeterministic),
        }
        Ticket(ticket)
    }

    fn unlock(&mut self, name: &[u8]) {
        let mark = Mark::of(Doing::Unlock, &[name]);
        match self.replayed() {
            None => {
                self.note(Entry::Unlocked(mark));
                self.locks.remove(name);
            }
            Some(Entry::Unlocked(was)) if was == mark => {}
            Some(_) => self.end(Failure::NotDeterministic),
        }
    }
}

/// What a command may use: the objects, locks, and other services. Everything that it gives is in the journal, or follows from it.
pub struct Call {
    leg: Option<Box<Leg>>,
    comes: Receiver<Box<Leg>>,
    goes: Sender<Box<Leg>>,
}

impl Call {
    pub(super) fn new(comes: Receiver<Box<Leg>>, goes: Sender<Box<Leg>>) -> Self {
        Self { leg: None, comes, goes }
    }

    /// The leg that runs.
    ///
    /// # Panics
    /// When the command goes on without what it waits for; the executor then ends it.
    fn leg(&mut self) -> &mut Leg {
        if self.leg.is_none() {
            self.leg = self.comes.try_recv().ok();
        }
        self.leg.as_deref_mut().expect("a command first waits for what it asked for, then goes on")
    }

    /// The value of a key.
    pub fn get(&mut self, key: &[u8]) -> Option<Bytes> {
        self.leg().get(key)
    }

    /// The first entries from `start` to before `end`, or to the last key, in key order, and at most `limit`. All of them go into the journal.
    pub fn range(&mut self, start: &[u8], end: Option<&[u8]>, limit: usize) -> Vec<(Bytes, Bytes)> {
        self.leg().range(start, end, limit)
    }

    /// Gives a key this value. Others see it once the command halts or ends.
    pub fn put(&mut self, key: &[u8], value: &[u8]) {
        self.leg().write(key, Some(value));
    }

    /// Removes a key, as [`Self::put`] writes one.
    pub fn remove(&mut self, key: &[u8]) {
        self.leg().write(key, None);
    }

    /// Asks a service to run a command, and goes on at once. The question leaves when the batch ends in which it was asked.
    pub fn ask(&mut self, backend: ServiceId, command: &[u8]) -> Ticket {
        self.leg().ask(backend, command)
    }

    /// The answer to a question. The command halts here, unless the answer is there already.
    /// Source: Kapritsos (Adam), section 4.3.2 (readResponse).
    pub async fn answer(&mut self, ticket: Ticket) -> Answer {
        loop {
            let leg = self.leg();
            match leg.replayed() {
                Some(Entry::Answered(was, answer)) if was == ticket.0 => return answer,
                Some(_) => leg.end(Failure::NotDeterministic),
                None => self.halt(Want::Answer(ticket.0)).await,
            }
        }
    }

    /// Takes a lock, whose name has at most 256 bytes. This command holds it until it gives it back or ends. If another command holds it, this command's leg is taken back, and
    /// runs again once the lock is free. A lock that this command holds already is taken at once.
    /// Source: Kapritsos (Adam), section 4.3.1, figure 4.3 (trylock).
    ///
    /// # Errors
    /// When the lock's holder waits for a lock that this command took before its last halt.
    pub async fn lock(&mut self, name: &[u8]) -> Result<(), Deadlock> {
        let mark = Mark::of(Doing::Lock, &[name]);
        loop {
            let leg = self.leg();
            match leg.replayed() {
                Some(Entry::Locked(was, got)) if was == mark => {
                    return if got { Ok(()) } else { Err(Deadlock) };
                }
                Some(_) => leg.end(Failure::NotDeterministic),
                None => {
                    leg.check(name.len(), LOCK_NAME_MAX as u64);
                    self.halt(Want::Lock(Bytes::copy_from_slice(name))).await;
                }
            }
        }
    }

    /// Gives a lock back. Nothing happens if this command does not hold it.
    pub fn unlock(&mut self, name: &[u8]) {
        self.leg().unlock(name);
    }

    /// Hands the leg to the executor, and waits for it.
    async fn halt(&mut self, want: Want) {
        let Some(mut leg) = self.leg.take() else { return };
        leg.operations += 1;
        let NestedRules { operations_per_leg_max, journal_bytes_per_command_max, .. } = *leg.rules;
        if leg.operations > operations_per_leg_max {
            self.leg.insert(leg).end(Failure::Operations(operations_per_leg_max));
        }
        if leg.journal.bytes() > journal_bytes_per_command_max {
            self.leg.insert(leg).end(Failure::Journal(journal_bytes_per_command_max));
        }
        leg.want = want;
        // Whoever polls this command has the other end.
        let _ = self.goes.send(leg);
        poll_fn(|_| self.poll_leg()).await;
    }

    fn poll_leg(&mut self) -> Poll<()> {
        match self.comes.try_recv() {
            Ok(leg) => {
                self.leg = Some(leg);
                Poll::Ready(())
            }
            Err(_) => Poll::Pending,
        }
    }
}

/// The leg goes back however the command ends.
impl Drop for Call {
    fn drop(&mut self) {
        if let Some(leg) = self.leg.take().or_else(|| self.comes.try_recv().ok()) {
            let _ = self.goes.send(leg);
        }
    }
}

/// Whether the executor ended the command, and it did not panic by itself.
pub(super) fn was_ended(payload: &(dyn std::any::Any + Send)) -> bool {
    payload.is::<Ended>()
}
