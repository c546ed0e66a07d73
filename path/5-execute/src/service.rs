//! The service, which a user of Quorate writes, and the sinks for its replies.

use crate::around::{MembershipNow, SessionEnd};
use crate::checkpoint::{CheckpointError, CheckpointSink, CheckpointSource};
use crate::context::Context;
use crate::events::Tells;
use crate::letters::Letter;
use crate::nested::{AnyJournaled, NestedRules};
use crate::parallel::{ParallelService, Ran};
use crate::tracked::Tracked;
use quorate_state::store::Store;
use quorate_types::{AgreedTime, Items, ItemsBuilder};
use std::sync::Arc;
use std::{fmt, io};

/// A deterministic service: the same commands in the same order lead to the same state and the same replies. It takes
/// time and randomness only from the [`Context`], and never iterates over a map whose order differs between processes.
///
/// There are three kinds of services, by how the engine gets their state for a checkpoint:
/// - in the store ([`ObjectService`](crate::ObjectService) with [`InStore`](crate::InStore)): the engine has the store; the best choice for
///   large states;
/// - tracked ([`Tracked`]): the service holds its state as it likes, and names the objects that changed;
/// - plain, with this trait alone: the service writes its whole state at every checkpoint, and execution waits for that. Right for small
///   states.
pub trait Service: Send {
    /// Runs one ordered command and writes one reply (which may be empty). The service answers bytes that are no command of its own with an
    /// error of its own: they are in the log already, and every replica sees them.
    fn execute(&mut self, command: &[u8], ctx: &Context, reply: &mut ReplySink<'_>);

    /// Answers a read, weak or strong, from the present state. Where replicas may lie, clients compare their answers: then equal states must
    /// give equal answers, too.
    fn query(&self, query: &[u8], ctx: &Context, reply: &mut ReplySink<'_>);

    /// Writes the state. Equal states must give equal bytes, however they came about.
    ///
    /// # Errors
    /// When the sink fails.
    fn checkpoint(&self, out: &mut dyn CheckpointSink) -> Result<(), CheckpointError>;

    /// Replaces the state by the one that [`Self::checkpoint`] wrote, up to the end of the source.
    ///
    /// # Errors
    /// When the source fails or holds no state of this service.
    fn restore(&mut self, from: &mut dyn CheckpointSource) -> Result<(), CheckpointError>;

    /// What the service is called, as its clients, its configuration and its backups name it; empty: it has no name.
    fn name(&self) -> &str {
        ""
    }

    /// The highest version that this program has of the service; the first is 1. The program behaves as the version that
    /// [`Context::service_level`] names.
    fn version(&self) -> u32 {
        1
    }

    /// The level of the service rises from `from` to `ctx.service_level()`: makes the state that of the newer version. Called once at this
    /// place in the order, on all replicas, when all their programs have the version. It may fail only as the state and `ctx` tell it to.
    ///
    /// # Errors
    /// Why the state can not be that of the newer version, for people. Then the level stays, and the state must be as it was.
    fn migrate(&mut self, from: u32, ctx: &Context) -> Result<(), String> {
        Err(no_migration(from, ctx.service_level()))
    }

    /// Runs all commands of one request. Override it where running many at once is cheaper. Push one reply for each command, or a single
    /// one that answers them all.
    fn execute_batch(&mut self, commands: Items<'_>, ctx: &Context, replies: &mut BatchReplies) {
        for (index, command) in commands.iter().enumerate() {
            replies.push_with(|reply| self.execute(command, &ctx.with_command(index as u32), reply));
        }
    }

    /// Whether a command only frees space, whatever the state; a delete does. When disks are full, all other commands are refused, while
    /// these are taken as far as a small reserve goes. One replica asks this before a command is ordered.
    fn frees(&self, command: &[u8]) -> bool {
        let _ = command;
        false
    }

    /// Passes the keys of objects in [`Self::store`] that a command or query will probably use to `each`, so that the engine reads their
    /// memory ahead of several of them at once. Only speed depends on it: some may be left out, and others may be named.
    fn objects(&self, bytes: &[u8], is_query: bool, each: &mut dyn FnMut(&[u8])) {
        let _ = (bytes, is_query, each);
    }

    /// The agreed time at which this service wants [`Self::deadline_reached`] to be called, if any.
    fn next_deadline(&self) -> Option<AgreedTime> {
        None
    }

    /// Called once [`Self::next_deadline`] has passed: once in a batch, before its requests. Do everything that is due at `ctx.time()`.
    fn deadline_reached(&mut self, ctx: &Context) {
        let _ = ctx;
    }

    /// The session of `ctx` ended. Called once for each session that was opened, at the place in the order where it ends. Sessions that
    /// expire end before the deadline and the requests of a batch, in the order of their ids. A session that is closed ends at its client's
    /// request for that.
    fn session_ended(&mut self, why: SessionEnd, ctx: &Context) {
        let _ = (why, ctx);
    }

    /// A change of the membership is done. Called at the end of the batch that ends the change, at the same place in the order on all
    /// replicas. `ctx` has no session. It is not called for the first members of a cluster, also if the cluster begins with a backup.
    fn membership_changed(&mut self, now: &MembershipNow, ctx: &Context) {
        let _ = (now, ctx);
    }

    /// Passes each key that a command (or a query, if `is_query`) uses to `used`, so that an operator can limit clients to certain keys.
    /// Returns `false` if the keys are not known; then only clients that may do everything can run it. No key that is used may be left out,
    /// whatever the state is. Called before anything is ordered.
    fn keys(&self, bytes: &[u8], is_query: bool, used: &mut dyn FnMut(KeyUse<'_>)) -> bool {
        let _ = (bytes, is_query, used);
        false
    }

    /// The engine has replaced the state by that of a checkpoint, in the way of this kind of service. For services that report their changes
    /// to somebody.
    fn restored(&mut self) {}

    /// This service as one that reports its changes, if it does.
    fn tells(&mut self) -> Option<&mut dyn Tells> {
        None
    }

    /// Takes the letters to sessions that this service wrote since the last call, in their order. Called after each batch. Letters of a batch
    /// that is taken back are dropped.
    fn take_letters(&mut self) -> Vec<Letter> {
        Vec::new()
    }

    /// How each replica changes its replies before it sends them, if it does.
    fn own_replies(&self) -> Option<&dyn OwnReplies> {
        None
    }

    /// The store that holds the whole state, if there is one ([`InStore`](crate::InStore) has one). The engine then takes versions of it,
    /// and does not use [`Self::checkpoint`] and [`Self::restore`] for the state.
    fn store(&self) -> Option<&Store> {
        None
    }

    /// The same store. The engine replaces its content when it restores the state.
    fn store_mut(&mut self) -> Option<&mut Store> {
        None
    }

    /// The service whose commands may run at the same time, if this is one ([`Parallel`](crate::Parallel) makes it one).
    fn parallel(&self) -> Option<Arc<dyn ParallelService>> {
        None
    }

    /// The service whose commands ask other services, with its rules, if this is one ([`Journaled`](crate::Journaled) makes it one). The
    /// executor then runs its commands, and does not call [`Self::execute`].
    fn journaled(&self) -> Option<(Arc<dyn AnyJournaled>, NestedRules)> {
        None
    }

    /// Takes over the writes of a command of [`Self::parallel`] that ran on a view, and what it told.
    fn adopt(&mut self, ran: &mut Ran) {
        let _ = ran;
        unreachable!("only a parallel service has commands that ran on a view");
    }

    /// Another service like this one over a copy of its store, which shares nothing with it; it is never asked for an observer. Where results
    /// are verified, one of the two runs ahead and the other has what is final. `None`: results of this service can not be verified.
    fn twin(&self) -> Option<Box<dyn Service>> {
        None
    }

    /// This service as one that tracks its own changes, if it does. The engine then does not use [`Self::checkpoint`] and [`Self::restore`]
    /// for its state.
    fn tracked(&mut self) -> Option<&mut dyn Tracked> {
        None
    }
}

/// Why a level was not raised by a service without a `migrate`.
pub(crate) fn no_migration(from: u32, to: u32) -> String {
    format!(
        "this program says that it has version {to}, and has no `migrate` that makes the state of version {from} one of version {to}"
    )
}

/// Own replies: each replica gives a reply its own form before it sends it, such as the share of a secret that only this replica can
/// decrypt. Execution, state and kept replies stay the same on all replicas. Clients need a way to compare such replies (`Combiner`). Only
/// where replicas may lie; with crash faults a client takes the reply of one replica.
pub trait OwnReplies {
    /// Writes this replica's form of a reply of [`Service::execute`], or of [`Service::query`] if the query was ordered. Called each time
    /// that the reply is sent. If the replies to one request become longer than `reply_bytes_per_request_max` together, they are sent
    /// unchanged.
    fn own(&self, reply: &[u8], own: &mut Vec<u8>);
}

/// A key, or a range of keys, that a command or query uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyUse<'a> {
    /// This key is read, or its value shows in the reply.
    Read(&'a [u8]),
    /// This key gets a value or loses it.
    Write(&'a [u8]),
    /// All keys from `start` up to, and without, `end` are read; up to the last key if there is no end.
    ReadRange {
        /// The first key.
        start: &'a [u8],
        /// The key after the range.
        end: Option<&'a [u8]>,
    },
}

/// A reply is longer than the limit; its bytes are void.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplyTooLarge {
    /// The most bytes that a reply may have.
    pub max: usize,
}

impl fmt::Display for ReplyTooLarge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the reply is over the limit of {} bytes", self.max)
    }
}

impl std::error::Error for ReplyTooLarge {}

/// Takes the bytes of one reply. Bytes over the limit are thrown away, and the whole reply then counts as too large.
pub struct ReplySink<'a> {
    out: &'a mut Vec<u8>,
    start: usize,
    max: usize,
    overflown: bool,
}

impl<'a> ReplySink<'a> {
    /// A sink that appends at most `max` bytes to `out`.
    pub fn new(out: &'a mut Vec<u8>, max: usize) -> Self {
        Self { start: out.len(), out, max, overflown: false }
    }
    /// Appends to the reply.
    pub fn write(&mut self, bytes: &[u8]) {
        if self.overflown || bytes.len() > self.max - self.len() {
            self.overflown = true;
        } else {
            self.out.extend_from_slice(bytes);
        }
    }
    /// Drops the bytes written so far.
    pub fn restart(&mut self) {
        self.out.truncate(self.start);
        self.overflown = false;
    }
    /// Bytes written so far.
    pub fn len(&self) -> usize {
        self.out.len() - self.start
    }
    /// Whether none was written so far.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// How many more bytes the limit allows.
    pub fn room(&self) -> usize {
        self.max - self.len()
    }
    /// Whether more bytes were written than the limit allows.
    pub fn overflown(&self) -> bool {
        self.overflown
    }
}

/// For encoders that write to [`io::Write`]. Never fails.
impl io::Write for ReplySink<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        ReplySink::write(self, bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Takes the replies to the commands of one request. Its memory is used again for the next request.
#[derive(Debug)]
pub struct BatchReplies {
    items: ItemsBuilder,
    max: usize,
    overflown: bool,
}

impl BatchReplies {
    /// An empty list that takes at most `max` bytes in encoded form.
    pub fn new(max: usize) -> Self {
        Self { items: ItemsBuilder::new(), max, overflown: false }
    }
    /// Adds one reply.
    pub fn push(&mut self, reply: &[u8]) {
        self.push_with(|sink| sink.write(reply));
    }
    /// Adds one reply that `write` writes.
    pub fn push_with(&mut self, write: impl FnOnce(&mut ReplySink<'_>)) {
        let room = self.max.saturating_sub(self.items.byte_len());
        let overflown = &mut self.overflown;
        self.items.push_with(|out| {
            // Commands still run after an overflow; their replies are dropped.
            let mut sink = ReplySink::new(out, if *overflown { 0 } else { room });
            write(&mut sink);
            *overflown |= sink.overflown();
        });
    }
    /// The number of replies so far.
    pub fn len(&self) -> usize {
        self.items.len()
    }
    /// Whether there is none so far.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }
    /// Drops all replies and keeps the memory.
    pub fn clear(&mut self) {
        self.items.clear();
        self.overflown = false;
    }
    /// Appends the encoded list ([`Items`]) to `out`.
    ///
    /// # Errors
    /// When the list is over the limit; `out` is then unchanged.
    pub fn write_to(&self, out: &mut Vec<u8>) -> Result<(), ReplyTooLarge> {
        if self.overflown || self.items.encoded_len() > self.max {
            return Err(ReplyTooLarge { max: self.max });
        }
        self.items.write_to(out);
        Ok(())
    }
    /// The limit in bytes.
    pub fn max(&self) -> usize {
        self.max
    }
}
