//! Services whose whole state lies in the object store. They need no code for checkpoints, digests, transfers or going back.
//!
//! Stage 5 (execute). Source: Distler, "Resource-Aware System Software for Replicated Services", section 5.2: the first of its
//! two ways to learn what changed. The store sees every change, so the engine needs nothing else of the service.
//! Tests: `tests/all/images.rs`, `tests/all/kinds.rs`.

use crate::ahead;
use crate::around::{MembershipNow, SessionEnd};
use crate::checkpoint::{
    CheckpointError, CheckpointSink, CheckpointSource, NO_MORE_OBJECTS, read_append, read_u32, write_object,
};
use crate::context::Context;
use crate::events::Tells;
use crate::letters::Letter;
use crate::nested::{AnyJournaled, NestedRules};
use crate::parallel::{ParallelService, Ran};
use crate::service::{BatchReplies, KeyUse, ReplySink, Service, no_migration};
use quorate_state::store::{KEY_BYTES_MAX, Store, VALUE_BYTES_MAX};
use quorate_types::{AgreedTime, Items};
use std::sync::Arc;

/// A deterministic service that keeps its state in a [`Store`]; [`InStore`] makes a [`Service`] of it. The rules are those of [`Service`],
/// and one more: all state lies in the store. `self` is for configuration, and for buffers that hold nothing from one command to the next,
/// since a restart, a transfer or going back replaces only the store. Check what clients send before you put it into the store: it takes
/// keys up to 64 KiB and values up to 16 MiB, and panics at longer ones.
pub trait ObjectService: Send {
    /// Runs one ordered command and writes one reply, as [`Service::execute`] does.
    fn execute(&mut self, store: &mut Store, command: &[u8], ctx: &Context, reply: &mut ReplySink<'_>);

    /// Answers a read, weak or strong, from the present state.
    fn query(&self, store: &Store, query: &[u8], ctx: &Context, reply: &mut ReplySink<'_>);

    /// What the service is called, as [`Service::name`] says.
    fn name(&self) -> &str {
        ""
    }

    /// The highest version that this program has of the service, as [`Service::version`] says.
    fn version(&self) -> u32 {
        1
    }

    /// The level of the service rises, as [`Service::migrate`] says. After an error the store is as it was before.
    ///
    /// # Errors
    /// Why the state can not be that of the newer version, for people.
    fn migrate(&mut self, store: &mut Store, from: u32, ctx: &Context) -> Result<(), String> {
        let _ = store;
        Err(no_migration(from, ctx.service_level()))
    }

    /// Runs all commands of one request, as [`Service::execute_batch`] does.
    fn execute_batch(
        &mut self,
        store: &mut Store,
        commands: Items<'_>,
        ctx: &Context,
        replies: &mut BatchReplies,
    ) {
        let reads_ahead = commands.len() >= ahead::MANY && ahead::pays(store);
        let mut next_window = if reads_ahead { 0 } else { usize::MAX };
        for (index, command) in commands.iter().enumerate() {
            if index == next_window {
                let rest = commands.iter().skip(index);
                next_window += ahead::of_commands(store, rest, |command, each| {
                    self.objects(command, false, each);
                });
            }
            let ctx = ctx.with_command(index as u32);
            replies.push_with(|reply| self.execute(store, command, &ctx, reply));
        }
    }

    /// Names the objects that a command or query will probably use, as [`Service::objects`] does.
    fn objects(&self, bytes: &[u8], is_query: bool, each: &mut dyn FnMut(&[u8])) {
        let _ = (bytes, is_query, each);
    }

    /// Whether the command only frees space, as [`Service::frees`] says.
    fn frees(&self, command: &[u8]) -> bool {
        let _ = command;
        false
    }

    /// Names the keys that a command or query uses, as [`Service::keys`] does.
    fn keys(&self, bytes: &[u8], is_query: bool, used: &mut dyn FnMut(KeyUse<'_>)) -> bool {
        let _ = (bytes, is_query, used);
        false
    }

    /// When this service wants to be called if no command comes before. It must follow from the contents of the store.
    fn next_deadline(&self, store: &Store) -> Option<AgreedTime> {
        let _ = store;
        None
    }

    /// The moment that [`Self::next_deadline`] named has come: do everything that is due at `ctx.time()`.
    fn deadline_reached(&mut self, store: &mut Store, ctx: &Context) {
        let _ = (store, ctx);
    }

    /// The session of `ctx` ended, as [`Service::session_ended`] says.
    fn session_ended(&mut self, store: &mut Store, why: SessionEnd, ctx: &Context) {
        let _ = (store, why, ctx);
    }

    /// A change of the membership is done, as [`Service::membership_changed`] says.
    fn membership_changed(&mut self, store: &mut Store, now: &MembershipNow, ctx: &Context) {
        let _ = (store, now, ctx);
    }

    /// Another state was put into the store, as [`Service::restored`] says.
    fn restored(&mut self, store: &Store) {
        let _ = store;
    }

    /// This service as one that reports its changes, as [`Service::tells`] says.
    fn tells(&mut self) -> Option<&mut dyn Tells> {
        None
    }

    /// Takes the letters since the last call, as [`Service::take_letters`] says. Their numbers must follow from the contents of the store.
    fn take_letters(&mut self) -> Vec<Letter> {
        Vec::new()
    }

    /// The service whose commands may run at the same time, as [`Service::parallel`] says.
    fn parallel(&self) -> Option<Arc<dyn ParallelService>> {
        None
    }

    /// The service whose commands ask other services, with its rules, as [`Service::journaled`] says.
    fn journaled(&self) -> Option<(Arc<dyn AnyJournaled>, NestedRules)> {
        None
    }

    /// Another service like this one, which shares nothing with it, as [`Service::twin`] says.
    fn twin(&self) -> Option<Self>
    where
        Self: Sized,
    {
        None
    }

    /// Takes over how a command ran on a view, as [`Service::adopt`] does.
    fn adopt(&mut self, store: &mut Store, ran: &mut Ran) {
        let _ = (store, ran);
        unreachable!("only a parallel service has commands that ran on a view");
    }
}

/// The adapter from [`ObjectService`] to [`Service`]: the service and its store.
pub struct InStore<S> {
    service: S,
    store: Store,
}

impl<S> InStore<S> {
    /// The service with an empty store.
    pub fn new(service: S) -> Self {
        Self::with(service, Store::new())
    }
    /// The service with these objects.
    pub const fn with(service: S, store: Store) -> Self {
        Self { service, store }
    }
    /// The wrapped service.
    pub fn service(&self) -> &S {
        &self.service
    }
    /// The store.
    pub fn objects(&self) -> &Store {
        &self.store
    }
}

impl<S: Default> Default for InStore<S> {
    fn default() -> Self {
        Self::new(S::default())
    }
}

impl<S: ObjectService + 'static> Service for InStore<S> {
    fn name(&self) -> &str {
        self.service.name()
    }

    fn version(&self) -> u32 {
        self.service.version()
    }

    fn migrate(&mut self, from: u32, ctx: &Context) -> Result<(), String> {
        let before = self.store.version();
        let done = self.service.migrate(&mut self.store, from, ctx);
        if done.is_err() {
            self.store.roll_back(&before);
        }
        done
    }

    fn execute(&mut self, command: &[u8], ctx: &Context, reply: &mut ReplySink<'_>) {
        self.service.execute(&mut self.store, command, ctx, reply);
    }
    fn query(&self, query: &[u8], ctx: &Context, reply: &mut ReplySink<'_>) {
        self.service.query(&self.store, query, ctx, reply);
    }
    /// Writes all objects in key order (`key length u32 | value length u32 | key | value`), then `0xffff_ffff`. Images do not use it.
    fn checkpoint(&self, out: &mut dyn CheckpointSink) -> Result<(), CheckpointError> {
        self.store.range(b"", None).try_for_each(|(key, value)| write_object(out, key, value))?;
        out.write(&NO_MORE_OBJECTS.to_le_bytes())
    }
    fn restore(&mut self, from: &mut dyn CheckpointSource) -> Result<(), CheckpointError> {
        self.store = read_objects(from)?;
        Ok(())
    }
    fn execute_batch(&mut self, commands: Items<'_>, ctx: &Context, replies: &mut BatchReplies) {
        self.service.execute_batch(&mut self.store, commands, ctx, replies);
    }
    fn frees(&self, command: &[u8]) -> bool {
        self.service.frees(command)
    }
    fn objects(&self, bytes: &[u8], is_query: bool, each: &mut dyn FnMut(&[u8])) {
        self.service.objects(bytes, is_query, each);
    }
    fn next_deadline(&self) -> Option<AgreedTime> {
        self.service.next_deadline(&self.store)
    }
    fn deadline_reached(&mut self, ctx: &Context) {
        self.service.deadline_reached(&mut self.store, ctx);
    }
    fn session_ended(&mut self, why: SessionEnd, ctx: &Context) {
        self.service.session_ended(&mut self.store, why, ctx);
    }
    fn membership_changed(&mut self, now: &MembershipNow, ctx: &Context) {
        self.service.membership_changed(&mut self.store, now, ctx);
    }
    fn keys(&self, bytes: &[u8], is_query: bool, used: &mut dyn FnMut(KeyUse<'_>)) -> bool {
        self.service.keys(bytes, is_query, used)
    }
    fn restored(&mut self) {
        self.service.restored(&self.store);
    }
    fn tells(&mut self) -> Option<&mut dyn Tells> {
        self.service.tells()
    }
    fn take_letters(&mut self) -> Vec<Letter> {
        self.service.take_letters()
    }
    fn parallel(&self) -> Option<Arc<dyn ParallelService>> {
        self.service.parallel()
    }
    fn journaled(&self) -> Option<(Arc<dyn AnyJournaled>, NestedRules)> {
        self.service.journaled()
    }
    fn adopt(&mut self, ran: &mut Ran) {
        self.service.adopt(&mut self.store, ran);
    }
    fn twin(&self) -> Option<Box<dyn Service>> {
        let service = self.service.twin()?;
        Some(Box::new(Self { service, store: Store::from_version(&self.store.version()) }))
    }
    fn store(&self) -> Option<&Store> {
        Some(&self.store)
    }
    fn store_mut(&mut self) -> Option<&mut Store> {
        Some(&mut self.store)
    }
}

/// Reads a stream of objects, to the end of the source.
pub(crate) fn read_objects(from: &mut dyn CheckpointSource) -> Result<Store, CheckpointError> {
    let mut store = Store::new();
    let (mut key, mut value, mut before) = (Vec::new(), Vec::new(), None::<Vec<u8>>);
    loop {
        let key_len = read_u32(from)?;
        if key_len == NO_MORE_OBJECTS {
            break;
        }
        let value_len = read_u32(from)?;
        if key_len as usize > KEY_BYTES_MAX || value_len as usize > VALUE_BYTES_MAX {
            return Err(CheckpointError::Malformed("an object over the store's limits"));
        }
        key.clear();
        value.clear();
        read_append(from, key_len as usize, &mut key)?;
        read_append(from, value_len as usize, &mut value)?;
        if before.as_ref().is_some_and(|before| *before >= key) {
            return Err(CheckpointError::Malformed("objects out of order"));
        }
        store.put(&key, &value);
        std::mem::swap(before.get_or_insert_default(), &mut key);
    }
    match from.read(&mut [0])? {
        0 => Ok(store),
        _ => Err(CheckpointError::Malformed("bytes after the last object")),
    }
}
