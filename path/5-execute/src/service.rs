//! What a user of Quorate writes, and where it puts its replies.

use crate::around::{MembershipNow, SessionEnd};
use crate::checkpoint::{CheckpointError, CheckpointSink, CheckpointSource};
use crate::context::Context;
use crate::events::Tells;
use crate::tracked::Tracked;
use quorate_state::store::Store;
use quorate_types::{AgreedTime, Items, ItemsBuilder};
use std::{fmt, io};

/// A deterministic service: the same commands in the same order lead to the same state and the same replies. It takes
/// time and randomness only from the [`Context`], and never iterates over a map whose order differs between processes.
///
/// There are three kinds of them, by what the engine needs to know of their state:
/// - in the store ([`ObjectService`](crate::ObjectService) with [`InStore`](crate::InStore)): nothing at all; the best choice for
///   large states;
/// - tracked ([`Tracked`]): it holds its state as it likes and tells which objects changed;
/// - plain, as this trait alone: at every checkpoint it writes its whole state, and execution waits until it did. Right for
///   small states.
pub trait Service: Send {
    /// Runs one ordered command and writes one reply (which may be empty). Bytes that are no command of this service
    /// are answered with an error of its own; they are in the log already, and every replica sees them.
    fn execute(&mut self, command: &[u8], ctx: &Context, reply: &mut ReplySink<'_>);

    /// Answers a read, weak or strong, from the state as it is. Where replicas may lie their answers are compared: then equal states must give
    /// equal answers, too.
    fn query(&self, query: &[u8], ctx: &Context, reply: &mut ReplySink<'_>);

    /// Writes the state. Equal states must give equal bytes, whatever way led to them.
    ///
    /// # Errors
    /// When the sink fails.
    fn checkpoint(&self, out: &mut dyn CheckpointSink) -> Result<(), CheckpointError>;

    /// Replaces the state by the one that [`Self::checkpoint`] wrote, up to the end of the source.
    ///
    /// # Errors
    /// When the source fails or holds no state of this service.
    fn restore(&mut self, from: &mut dyn CheckpointSource) -> Result<(), CheckpointError>;

    /// Runs all commands of one request. Override it where running many at once is cheaper; push one reply for each
    /// command, or a single one that answers them all.
    fn execute_batch(&mut self, commands: Items<'_>, ctx: &Context, replies: &mut BatchReplies) {
        for (index, command) in commands.iter().enumerate() {
            replies.push_with(|reply| self.execute(command, &ctx.with_command(index as u32), reply));
        }
    }

    /// Whether a command only makes room, whatever the state: such commands are taken, as far as a small reserve goes, when disks are
    /// full and all others are refused. A delete is one. Asked by one replica before a command is ordered.
    fn frees(&self, command: &[u8]) -> bool {
        let _ = command;
        false
    }

    /// When this service wants to be called, if no command comes first.
    fn next_deadline(&self) -> Option<AgreedTime> {
        None
    }

    /// The moment that [`Self::next_deadline`] named has come. Called once in a batch, before its requests: do
    /// everything that is due at `ctx.time()`.
    fn deadline_reached(&mut self, ctx: &Context) {
        let _ = ctx;
    }

    /// The session of `ctx` ended: once for each session that was opened, at the place in the order where it ends. Sessions that expire end
    /// before the deadline and the requests of a batch, in the order of their ids; one that is closed ends where its client asked for that.
    fn session_ended(&mut self, why: SessionEnd, ctx: &Context) {
        let _ = (why, ctx);
    }

    /// A change of the membership is done: called at the end of the batch that says so, at the same place in the order everywhere. `ctx` has no
    /// session. With which members a cluster begins, also one that begins with a backup, is not heard.
    fn membership_changed(&mut self, now: &MembershipNow, ctx: &Context) {
        let _ = (now, ctx);
    }

    /// Names the keys that a command (or a query, if `is_query`) uses, so that an operator can say which clients may use which: each is
    /// handed to `used`. `false` if they are not known; then only clients that may do everything can run it. It must not name fewer
    /// than are used, whatever the state is, and is asked before anything is ordered.
    fn keys(&self, bytes: &[u8], is_query: bool, used: &mut dyn FnMut(KeyUse<'_>)) -> bool {
        let _ = (bytes, is_query, used);
        false
    }

    /// The engine has put the state of a checkpoint in the place of the one that was here, in whatever way this service has its state
    /// restored. For services that tell somebody beside the state what changes.
    fn restored(&mut self) {}

    /// This service as one that tells what it changes, if it does.
    fn tells(&mut self) -> Option<&mut dyn Tells> {
        None
    }

    /// What makes replies differ from replica to replica on their way out, if anything does.
    fn own_replies(&self) -> Option<&dyn OwnReplies> {
        None
    }

    /// The store that holds the whole state, when there is one ([`InStore`](crate::InStore) has one). Its versions are then the
    /// state's; [`Self::checkpoint`] and [`Self::restore`] are not used for it.
    fn store(&self) -> Option<&Store> {
        None
    }

    /// The same store. The engine replaces what is in it when it restores the state.
    fn store_mut(&mut self) -> Option<&mut Store> {
        None
    }

    /// This service as one that tracks its own changes, if it does. [`Self::checkpoint`] and [`Self::restore`] are then not
    /// used for its state.
    fn tracked(&mut self) -> Option<&mut dyn Tracked> {
        None
    }
}

/// Replies that each replica makes its own on their way to a client that survives Byzantine faults; say, the share of a secret that this
/// replica can decrypt. What is executed, kept and compared between replicas stays the same everywhere. Clients need a way to compare
/// such replies (`Combiner`). Only where replicas may lie; with crash faults a client takes the reply of one.
pub trait OwnReplies {
    /// Writes what this replica says for a reply of [`Service::execute`], or of [`Service::query`] where that was ordered. Called each time that the
    /// reply leaves, any number of times. If the replies of one request get longer than `reply_bytes_per_request_max` together, they
    /// leave as they were.
    fn own(&self, reply: &[u8], own: &mut Vec<u8>);
}

/// Keys that a command or query uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyUse<'a> {
    /// This one is read, or its value shows in the reply.
    Read(&'a [u8]),
    /// This one gets a value or loses it.
    Write(&'a [u8]),
    /// All from `start` up to before `end` are read; to the last key if there is no end.
    ReadRange {
        /// The first.
        start: &'a [u8],
        /// What comes after the last.
        end: Option<&'a [u8]>,
    },
}

/// A reply is longer than the limit; what was written of it is void.
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

/// Takes the bytes of one reply. What goes over the limit is thrown away rather than collected, and the whole reply
/// then counts as too large.
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
    /// Forgets what was written.
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
    /// How many bytes there is still room for.
    pub fn room(&self) -> usize {
        self.max - self.len()
    }
    /// Whether more was written than there is room for.
    pub fn overflown(&self) -> bool {
        self.overflown
    }
}

/// So that encoders which write to [`io::Write`] can write a reply. Never fails.
impl io::Write for ReplySink<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        ReplySink::write(self, bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Takes the replies to the commands of one request. Keeps its memory from request to request.
#[derive(Debug)]
pub struct BatchReplies {
    items: ItemsBuilder,
    max: usize,
    overflown: bool,
}

impl BatchReplies {
    /// An empty list that takes at most `max` bytes, counted as they are encoded.
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
            // After an overflow the commands still run, and their replies go nowhere.
            let mut sink = ReplySink::new(out, if *overflown { 0 } else { room });
            write(&mut sink);
            *overflown |= sink.overflown();
        });
    }
    /// How many replies so far.
    pub fn len(&self) -> usize {
        self.items.len()
    }
    /// Whether there is none so far.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }
    /// Forgets all replies and keeps the memory.
    pub fn clear(&mut self) {
        self.items.clear();
        self.overflown = false;
    }
    /// Appends the encoded list ([`Items`]) to `out`.
    ///
    /// # Errors
    /// When it is over the limit; `out` is as it was.
    pub fn write_to(&self, out: &mut Vec<u8>) -> Result<(), ReplyTooLarge> {
        if self.overflown || self.items.encoded_len() > self.max {
            return Err(ReplyTooLarge { max: self.max });
        }
        self.items.write_to(out);
        Ok(())
    }
    /// The most bytes it takes.
    pub fn max(&self) -> usize {
        self.max
    }
}
