//! A service of somebody else's that is all that a simulated cluster runs, with a report of everything that was executed.
//!
//! After each command it also reports a digest of the state, as far as that costs little. So the first command after which two replicas
//! differ is known, and not only the border at which they were seen to differ.

use crate::campaign::{fail, panicked};
use crate::guest::Holds;
use crate::service::{GUEST, NAME, Row, Tap, Told, op_of};
use quorate_execute::{
    CheckpointError, CheckpointSink, CheckpointSource, Context, KeyUse, Letter, MembershipNow, OwnReplies,
    ReplySink, Service, SessionEnd, Store, Tells, Tracked,
};
use quorate_types::AgreedTime;
use std::panic::{self, AssertUnwindSafe};

/// A state outside of the store has a digest after each command while it has at most so many bytes.
const SMALL: usize = 16 << 10;

/// The service of a replica.
pub struct Alone {
    service: Box<dyn Service>,
    holds: Option<Holds>,
    tap: Tap,
}

impl Alone {
    /// One that reports what it executes, and panics if something does not hold.
    pub fn new(service: Box<dyn Service>, holds: Option<Holds>, tap: Tap) -> Self {
        Self { service, holds, tap }
    }

    /// A digest of the state; of a service in the store, of what changed since `before`.
    fn digest(&self, before: Option<&quorate_execute::Version>) -> Option<u32> {
        if let (Some(before), Some(store)) = (before, self.service.store()) {
            let now = store.version();
            return Some(now.changes_since(before).fold(0, |sum, (key, value)| {
                let sum =
                    crc32c::crc32c_append(crc32c::crc32c_append(sum, key), &[u8::from(value.is_some())]);
                crc32c::crc32c_append(sum, value.unwrap_or_default())
            }));
        }
        let mut image = Image { sum: 0, left: SMALL };
        self.service.checkpoint(&mut image).is_ok().then_some(image.sum)
    }
}

/// Takes a state that is small, for its digest.
struct Image {
    sum: u32,
    left: usize,
}

impl CheckpointSink for Image {
    fn write(&mut self, bytes: &[u8]) -> Result<(), CheckpointError> {
        let left = self.left.checked_sub(bytes.len());
        self.left = left
            .ok_or(CheckpointError::Malformed("a state that is too large for a digest after each command"))?;
        self.sum = crc32c::crc32c_append(self.sum, bytes);
        Ok(())
    }
}

/// A command, for people.
fn named(command: &[u8]) -> String {
    let (client, number) = op_of(command);
    let own = command.get(NAME + 1..).unwrap_or_default();
    format!("command {} of client {client}, \"{}\"", number + 1, own.escape_ascii())
}

/// The guest's part of a command. Nothing else is sent to a service that is alone.
fn of_guest(command: &[u8]) -> Option<&[u8]> {
    command.strip_prefix(&[GUEST])
}

impl Service for Alone {
    fn execute(&mut self, command: &[u8], ctx: &Context, reply: &mut ReplySink<'_>) {
        let before = self.service.store().map(Store::version);
        let mut answer = Vec::new();
        if let Some(own) = command.get(NAME..).and_then(of_guest) {
            let mut sink = ReplySink::new(&mut answer, reply.room());
            let ran = panic::catch_unwind(AssertUnwindSafe(|| self.service.execute(own, ctx, &mut sink)));
            if let Err(why) = ran {
                fail("panic", format!("{} at {}", panicked(&*why), named(command)));
            }
            let held = self.holds.as_ref().map_or(Ok(()), |holds| holds(&*self.service, ctx));
            if let Err(why) = held {
                fail("invariant", format!("an invariant does not hold after {}: {why}", named(command)));
            }
        }
        reply.write(&answer);
        self.tap.tell(Told::Ran(Row {
            seq: ctx.seq().number(),
            time: ctx.time().nanos(),
            seed: ctx.seed(),
            op: op_of(command),
            command: command.to_vec(),
            reply: answer,
            state: self.digest(before.as_ref()),
        }));
    }

    fn query(&self, query: &[u8], ctx: &Context, reply: &mut ReplySink<'_>) {
        if let Some(query) = of_guest(query) {
            self.service.query(query, ctx, reply);
        }
    }

    fn checkpoint(&self, out: &mut dyn CheckpointSink) -> Result<(), CheckpointError> {
        self.service.checkpoint(out)
    }

    fn restore(&mut self, from: &mut dyn CheckpointSource) -> Result<(), CheckpointError> {
        self.service.restore(from)
    }

    fn name(&self) -> &str {
        self.service.name()
    }

    fn version(&self) -> u32 {
        self.service.version()
    }

    fn migrate(&mut self, from: u32, ctx: &Context) -> Result<(), String> {
        self.service.migrate(from, ctx)
    }

    fn frees(&self, command: &[u8]) -> bool {
        command.get(NAME..).and_then(of_guest).is_some_and(|command| self.service.frees(command))
    }

    fn objects(&self, bytes: &[u8], is_query: bool, each: &mut dyn FnMut(&[u8])) {
        let bytes = if is_query { bytes } else { bytes.get(NAME..).unwrap_or_default() };
        if let Some(bytes) = of_guest(bytes) {
            self.service.objects(bytes, is_query, each);
        }
    }

    fn next_deadline(&self) -> Option<AgreedTime> {
        self.service.next_deadline()
    }

    fn deadline_reached(&mut self, ctx: &Context) {
        self.service.deadline_reached(ctx);
    }

    fn session_ended(&mut self, why: SessionEnd, ctx: &Context) {
        self.service.session_ended(why, ctx);
    }

    fn membership_changed(&mut self, now: &MembershipNow, ctx: &Context) {
        self.service.membership_changed(now, ctx);
    }

    fn keys(&self, bytes: &[u8], is_query: bool, used: &mut dyn FnMut(KeyUse<'_>)) -> bool {
        let bytes = if is_query { bytes } else { bytes.get(NAME..).unwrap_or_default() };
        of_guest(bytes).is_some_and(|bytes| self.service.keys(bytes, is_query, used))
    }

    fn restored(&mut self) {
        self.service.restored();
        self.tap.tell(Told::Restored);
    }

    fn tells(&mut self) -> Option<&mut dyn Tells> {
        self.service.tells()
    }

    fn take_letters(&mut self) -> Vec<Letter> {
        self.service.take_letters()
    }

    fn own_replies(&self) -> Option<&dyn OwnReplies> {
        self.service.own_replies()
    }

    fn store(&self) -> Option<&Store> {
        self.service.store()
    }

    fn store_mut(&mut self) -> Option<&mut Store> {
        self.service.store_mut()
    }

    fn tracked(&mut self) -> Option<&mut dyn Tracked> {
        self.service.tracked()
    }
}
