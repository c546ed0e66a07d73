//! Services whose commands may run at the same time, on any threads.
//!
//! Source: Kapritsos, "Replicating Multithreaded Web Services" (Eve), section 3.3: commands that share no keys run in parallel. Here a
//! service names the keys only as hints; what a command really read decides whether its result counts.
//! Tests: `tests/all/ordered.rs`, `tests/all/kinds.rs`.

use crate::around::{MembershipNow, SessionEnd};
use crate::context::Context;
use crate::events::{Events, Observer, Tells};
use crate::letters::Letter;
use crate::objects::ObjectService;
use crate::service::{BatchReplies, KeyUse, ReplySink};
use crate::under_way::{Runs, UnderWay};
use crate::view::{Noted, StateView, Told};
use quorate_state::store::Store;
use quorate_types::{AgreedTime, Items, ItemsBuilder};
use quorate_wire::{ReplyStatus, RequestKind};
use std::any::Any;
use std::sync::Arc;

/// A deterministic service whose commands may run at the same time. The rules are those of [`ObjectService`], and one more: a command reads
/// and writes the state only through its [`StateView`], and gives the same result for the same view. Commands always have the effect of one that
/// runs after the other, in the order of the log. [`Parallel`] makes an [`ObjectService`] of it, so every executor runs it.
///
/// A run that will not count may see a state that no order of commands gives: one key as it was before another command, and another key as
/// it is after it. So a command must end, and need no more memory and stack than usual, whatever it reads. A panic there is caught, and the
/// command runs again at its turn; of a command that does not end the replica lets go after ten seconds, and loses a worker.
pub trait ParallelService: Send + Sync {
    /// Runs one ordered command and writes one reply. It may run several times, on any thread, and only one of these runs counts.
    fn execute(&self, view: &mut StateView<'_>, command: &[u8], ctx: &Context, reply: &mut ReplySink<'_>);

    /// Answers a read, weak or strong.
    fn query(&self, view: &StateView<'_>, query: &[u8], ctx: &Context, reply: &mut ReplySink<'_>);

    /// Passes the keys that a command will probably use to `uses`, so that commands that use the same ones run one after the other. Keys may be
    /// left out, and others named; the first 256 count. Only speed depends on it, and how often a command sees a state that no order gives.
    /// Returns `false` if nothing is known.
    fn hints(&self, command: &[u8], uses: &mut dyn FnMut(KeyUse<'_>)) -> bool {
        self.keys(command, false, uses)
    }

    /// Names the keys that a command or query uses, for permissions, as [`Service::keys`](crate::Service::keys) does: none is left out.
    fn keys(&self, bytes: &[u8], is_query: bool, used: &mut dyn FnMut(KeyUse<'_>)) -> bool {
        let _ = (bytes, is_query, used);
        false
    }

    /// Names the objects that a command or query will probably use, as [`Service::objects`](crate::Service::objects) does.
    fn objects(&self, bytes: &[u8], is_query: bool, each: &mut dyn FnMut(&[u8])) {
        let _ = (bytes, is_query, each);
    }

    /// Whether the command only frees space, as [`Service::frees`](crate::Service::frees) says.
    fn frees(&self, command: &[u8]) -> bool {
        let _ = command;
        false
    }

    /// When this service wants to be called if no command comes before. It must follow from the contents of the store.
    fn next_deadline(&self, view: &StateView<'_>) -> Option<AgreedTime> {
        let _ = view;
        None
    }

    /// The moment that [`Self::next_deadline`] named has come: do everything that is due at `ctx.time()`.
    fn deadline_reached(&self, view: &mut StateView<'_>, ctx: &Context) {
        let _ = (view, ctx);
    }

    /// The session of `ctx` ended, as [`Service::session_ended`](crate::Service::session_ended) says.
    fn session_ended(&self, view: &mut StateView<'_>, why: SessionEnd, ctx: &Context) {
        let _ = (view, why, ctx);
    }

    /// A change of the membership is done, as [`Service::membership_changed`](crate::Service::membership_changed) says.
    fn membership_changed(&self, view: &mut StateView<'_>, now: &MembershipNow, ctx: &Context) {
        let _ = (view, now, ctx);
    }

    /// Another state took the place of the present one. Returns what the observer is told of it.
    fn restored(&self, view: &StateView<'_>) -> Option<Box<dyn Any + Send>> {
        let _ = view;
        None
    }

    /// The observer of what commands tell ([`StateView::tell`]). Its events are a `Vec<Box<dyn Any + Send>>`, never empty, in the order of the
    /// log. Asked once, before the first batch.
    fn observer(&self) -> Option<Box<dyn Observer>> {
        None
    }

    /// Appends something that a command told to `out`, so that it can be told again after a restart ([`Self::read_told`]). Whether that is possible. If
    /// not, a batch in which it was told runs again, one command after the other, if its result might be another one next time. Only
    /// [`crate::Speculative`] needs it.
    fn write_told(&self, told: &(dyn Any + Send), out: &mut Vec<u8>) -> bool {
        let _ = (told, out);
        false
    }

    /// Reads what [`Self::write_told`] wrote. The bytes may come from another replica, which may lie: `None` for all others.
    fn read_told(&self, bytes: &[u8]) -> Option<Box<dyn Any + Send>> {
        let _ = bytes;
        None
    }
}

/// The adapter from [`ParallelService`] to [`ObjectService`].
pub struct Parallel<S> {
    service: Arc<S>,
    told: Vec<Told>,
}

impl<S> Parallel<S> {
    /// A service whose commands may run at the same time.
    pub fn new(service: S) -> Self {
        Self { service: Arc::new(service), told: Vec::new() }
    }

    /// The wrapped service.
    pub fn service(&self) -> &S {
        &self.service
    }

    fn change(&mut self, store: &mut Store, change: impl FnOnce(&S, &mut StateView<'_>)) {
        change(&self.service, &mut StateView::direct(store, &mut self.told));
    }
}

impl<S: Default> Default for Parallel<S> {
    fn default() -> Self {
        Self::new(S::default())
    }
}

impl<S: ParallelService + 'static> ObjectService for Parallel<S> {
    fn execute(&mut self, store: &mut Store, command: &[u8], ctx: &Context, reply: &mut ReplySink<'_>) {
        self.change(store, |service, view| service.execute(view, command, ctx, reply));
    }
    fn query(&self, store: &Store, query: &[u8], ctx: &Context, reply: &mut ReplySink<'_>) {
        self.service.query(&StateView::reading(store), query, ctx, reply);
    }
    fn objects(&self, bytes: &[u8], is_query: bool, each: &mut dyn FnMut(&[u8])) {
        self.service.objects(bytes, is_query, each);
    }
    fn frees(&self, command: &[u8]) -> bool {
        self.service.frees(command)
    }
    fn keys(&self, bytes: &[u8], is_query: bool, used: &mut dyn FnMut(KeyUse<'_>)) -> bool {
        self.service.keys(bytes, is_query, used)
    }
    fn next_deadline(&self, store: &Store) -> Option<AgreedTime> {
        self.service.next_deadline(&StateView::reading(store))
    }
    fn deadline_reached(&mut self, store: &mut Store, ctx: &Context) {
        self.change(store, |service, view| service.deadline_reached(view, ctx));
    }
    fn session_ended(&mut self, store: &mut Store, why: SessionEnd, ctx: &Context) {
        self.change(store, |service, view| service.session_ended(view, why, ctx));
    }
    fn membership_changed(&mut self, store: &mut Store, now: &MembershipNow, ctx: &Context) {
        self.change(store, |service, view| service.membership_changed(view, now, ctx));
    }
    fn restored(&mut self, store: &Store) {
        self.told.extend(self.service.restored(&StateView::reading(store)));
    }
    fn tells(&mut self) -> Option<&mut dyn Tells> {
        Some(self)
    }
    /// What commands told that is a letter.
    fn take_letters(&mut self) -> Vec<Letter> {
        if !self.told.iter().any(|told| told.is::<Letter>()) {
            return Vec::new();
        }
        let (letters, told) =
            std::mem::take(&mut self.told).into_iter().partition(|told| told.is::<Letter>());
        self.told = told;
        let letters: Vec<Told> = letters;
        letters.into_iter().filter_map(|letter| letter.downcast().ok()).map(|letter| *letter).collect()
    }
    fn parallel(&self) -> Option<Arc<dyn ParallelService>> {
        Some(self.service.clone())
    }
    fn twin(&self) -> Option<Self> {
        Some(Self { service: self.service.clone(), told: Vec::new() })
    }
    fn adopt(&mut self, store: &mut Store, ran: &mut Ran) {
        for (key, value) in &ran.noted.writes {
            match value {
                Some(value) => drop(store.put(key, value)),
                None => drop(store.remove(key)),
            }
        }
        self.told.append(&mut ran.noted.told);
    }
}

impl<S: ParallelService> Tells for Parallel<S> {
    fn observer(&mut self) -> Option<Box<dyn Observer>> {
        self.service.observer()
    }
    fn take_events(&mut self) -> Option<Events> {
        let told: Vec<Box<dyn Any + Send>> = std::mem::take(&mut self.told);
        (!told.is_empty()).then(|| Events::new(told))
    }
}

/// How one run of a request on a view went. Only the executor can look inside.
pub struct Ran {
    pub(crate) noted: Noted,
    pub(crate) status: ReplyStatus,
    /// The replies to its commands ([`Items`]), or the words of the status.
    pub(crate) reply: Vec<u8>,
}

/// Runs a request on a view that notes everything.
pub(crate) fn run(
    service: &dyn ParallelService,
    mut view: StateView<'_>,
    (kind, body): (RequestKind, &[u8]),
    ctx: &Context,
    replies_max: usize,
) -> Ran {
    let (mut replies, mut reply) = (BatchReplies::new(replies_max), Vec::new());
    let _runs =
        Runs::new(UnderWay { seq: ctx.seq(), request: Some((ctx.client(), None)), bytes: body.len() });
    if kind == RequestKind::Query {
        replies.push_with(|reply| service.query(&view, body, &of_query(ctx), reply));
    } else {
        let commands = Items::parse(body).expect("INV-EXEC-2: commands are a list");
        for (index, command) in commands.iter().enumerate() {
            let ctx = ctx.with_command(index as u32);
            replies.push_with(|reply| service.execute(&mut view, command, &ctx, reply));
        }
    }
    let status = write_replies(&replies, &mut reply);
    Ran { noted: view.noted(), status, reply }
}

/// The context of a query, which does not depend on how it was asked.
pub(crate) fn of_query(ctx: &Context) -> Context {
    let level = ctx.service_level();
    Context::at(ctx.seq(), ctx.time()).with_level(ctx.level()).with_service_level(level)
}

/// Appends the replies to the commands of a request, or why there are none.
pub(crate) fn write_replies(replies: &BatchReplies, out: &mut Vec<u8>) -> ReplyStatus {
    match replies.write_to(out) {
        Ok(()) => ReplyStatus::Done,
        Err(too_large) => {
            let text = "executed, but its replies are over reply_bytes_per_request_max";
            out.extend_from_slice(format!("{text} ({} bytes)", too_large.max).as_bytes());
            ReplyStatus::TooLarge
        }
    }
}

/// The reply to a request without commands: an empty list.
pub(crate) fn no_replies(out: &mut Vec<u8>) -> ReplyStatus {
    ItemsBuilder::new().write_to(out);
    ReplyStatus::Done
}
