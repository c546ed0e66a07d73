//! The state that batches change: the service, and the sessions in front of it. `execution.rs` decides when each batch runs.
//!
//! Stage 5 (execute). In: delivered batches. Out: [`Outcomes`].
//!
//! The steps of a batch: agreed time moves on, sessions expire, the service's deadline is reached, then each request runs in turn.
//!
//! Invariants: INV-EXEC-1 (every seq is executed once, in order), INV-EXEC-2 (a delivered batch is well formed: stage 2
//! checked it), INV-EXEC-4 (equal histories give equal outcomes and equal images). Tests: `tests/`.

mod asking;
mod following;
mod served;

pub use served::ServiceRaise;

use self::served::Served;
use crate::Lookup;
use crate::agreed::{Agreed, Decided, Moment, alone};
use crate::ahead;
use crate::around::{MembershipNow, SessionEnd};
use crate::checkpoint::{CheckpointError, CheckpointSink, read_exact, read_u32, read_u64};
use crate::context::Context;
use crate::events::{Events, Observer, Tells};
use crate::images::{ImageParts, Shadow};
use crate::neighbours::Neighbours;
use crate::nested::{Nested, NestedPart};
use crate::outcomes::Outcomes;
use crate::parallel::{ParallelService, Ran, no_replies, of_query, write_replies};
use crate::published::Published;
use crate::service::{BatchReplies, KeyUse, ReplySink, ReplyTooLarge, Service};
use crate::sessions::{Handling, SessionLimits, SessionTable};
use crate::under_way::{Runs, UnderWay};
use crate::verified::Chain;
use crate::view::{Noted, Told};
use quorate_state::store::{Store, Version};
use quorate_types::{
    AgreedTime, ClientId, Items, ItemsBuilder, RequestNumber, Seq, SessionId, SessionKey, planted,
};
use quorate_wire::{
    Batch, BatchHeader, FEATURE_LEVEL, ReplyStatus, RequestHeader, RequestKind, read_opening, split_nested,
};
use std::sync::Arc;

/// The first bytes of an executor's part of an image; the last one is the format's version.
const MAGIC: [u8; 8] = *b"quoexec\x01";

/// Results of requests that ran before their turn, on a view.
pub(crate) trait Results {
    /// Whether changes must be said, since results depend on them.
    fn are_open(&self) -> bool;

    /// The result of the request with this index in the batch, if it is the one that the request has at its place.
    fn take(&mut self, index: usize) -> Option<Ran>;

    /// A request that was taken did not run: its writes do not count.
    fn void(&mut self, index: usize);

    /// The request with this index, or the beginning of the batch, changed the objects without a result.
    fn changed(&mut self, index: Option<usize>, before: &Version, after: &Version);
}

/// The service, the sessions, and the seq up to which they are executed.
pub struct Executor {
    service: Box<dyn Service>,
    sessions: SessionTable,
    agreed: Agreed,
    /// The last seq that was executed, and the agreed time then.
    seq: Seq,
    time: AgreedTime,
    /// The service's deadline after the last batch, kept since it is read far more often than batches come.
    deadline: Option<AgreedTime>,
    replies: BatchReplies,
    shadow: Shadow,
    /// The feature level at which the state is read.
    level: u32,
    /// The level of the service, and how it came about.
    served: Served,
    /// What was ruled about results, if they are verified.
    chain: Option<Chain>,
    /// The requests under way, if commands may ask other services.
    nested: Option<Box<Nested>>,
    neighbours: Neighbours,
}

impl Executor {
    /// An executor before the first batch. `start_time` is the agreed time with which the cluster was set up.
    ///
    /// # Panics
    /// When the service overrides only one of `store` and `store_mut`.
    pub fn new(mut service: Box<dyn Service>, limits: SessionLimits, start_time: AgreedTime) -> Self {
        let (read, write) = (service.store().is_some(), service.store_mut().is_some());
        assert_eq!(read, write, "a service overrides both of store and store_mut, or none");
        let replies = replies_for(&limits);
        let sessions = SessionTable::new(limits);
        let (seq, shadow, level) = (Seq::ZERO, Shadow::new(), FEATURE_LEVEL);
        let (time, deadline) = (start_time, service.next_deadline());
        let agreed = Agreed::at(seq, time, level);
        let nested = service.journaled().map(|(service, rules)| Box::new(Nested::new(service, rules)));
        let (chain, neighbours) = (None, Neighbours::default());
        Self {
            service,
            sessions,
            agreed,
            seq,
            time,
            deadline,
            replies,
            shadow,
            level,
            served: Served::default(),
            chain,
            nested,
            neighbours,
        }
    }

    /// The facts that are agreed at delivery: how far the log was delivered, and the agreed time there.
    pub fn agreed(&self) -> &Agreed {
        &self.agreed
    }

    /// The cluster works at this feature level from the next batch on. Without a call it is the newest one.
    pub fn set_level(&mut self, level: u32) {
        self.agree_on_level(level);
        self.read_at(level);
    }

    pub(crate) fn agree_on_level(&mut self, level: u32) {
        self.agreed.set_level(level);
    }

    pub(crate) fn read_at(&mut self, level: u32) {
        self.level = level;
    }

    /// Sets whether several leaders propose, from the next batch on, and whether a leader may lie.
    pub fn set_leaders(&mut self, many: bool, liars: bool) {
        self.agreed.set_leaders(many, liars);
    }

    /// Delivers the next batch. Returns its moment, for its execution.
    ///
    /// # Panics
    /// When `seq` is not the next: a bug of ours.
    pub(crate) fn deliver(&mut self, seq: Seq, place: Decided, header: &BatchHeader) -> Moment {
        self.agreed.deliver(seq, place, header)
    }

    pub(crate) fn deliver_nothing(&mut self, seq: Seq) {
        self.agreed.pass(seq);
    }

    /// Delivers and runs the next batch, of a cluster with one instance. Afterwards `out` holds its outcomes, and only these.
    ///
    /// # Panics
    /// When `seq` is not the next, or the batch was never checked: bugs of ours.
    pub fn execute(&mut self, seq: Seq, batch: &Batch, out: &mut Outcomes) {
        let moment = self.deliver(seq, alone(seq), &batch.header());
        self.run_batch(seq, batch, moment, None, out);
        self.close(out);
        out.set_events(self.take_events());
    }

    /// Runs the next of the delivered batches. Requests that have a result already take that.
    pub(crate) fn run_batch(
        &mut self,
        seq: Seq,
        batch: &Batch,
        moment: Moment,
        mut results: Option<&mut dyn Results>,
        out: &mut Outcomes,
    ) {
        assert_eq!(seq, self.seq.next(), "INV-EXEC-1: batches are executed in order, each once");
        let Moment { time, due, .. } = moment;
        (self.seq, self.time) = (seq, time);
        out.begin(seq);
        let ctx = self.ctx_of(seq, &moment, batch);
        let before = self.watched(&results);
        let ended = self.sessions.expire(due);
        if !ended.is_empty() {
            self.tell_expired(&ended, &ctx);
        }
        if self.deadline.is_some_and(|deadline| deadline <= due) {
            let _runs = Runs::new(UnderWay { seq, request: None, bytes: 0 });
            self.service.deadline_reached(&ctx.with_time(due).with_request(u32::MAX));
        }
        self.changed(None, before, &mut results);
        self.neighbours.tidy(&mut self.sessions);
        if self.nested.is_some() {
            self.begin_nested(ctx, batch.header().count, due, out);
        }
        let mut arrivals = Vec::new();
        let (mut requests, mut index, mut next_window) = (batch.requests(), 0_usize, 0);
        loop {
            if index == next_window {
                next_window = index.saturating_add(ahead::of_requests(&*self.service, requests.clone()));
            }
            let Some(request) = requests.next() else { break };
            let (header, body, _) = request.expect("INV-EXEC-2: a delivered batch is well formed");
            match header.kind {
                RequestKind::OpenSession => self.open(header.number, body, out),
                // The host carries it out, not the service.
                RequestKind::System => {}
                _ => {
                    let ctx = ctx.with_request(index as u32);
                    match &mut results {
                        None if self.nested.is_some() => {
                            arrivals.extend(self.take_up(&header, body, ctx, out));
                        }
                        None => drop(self.run(&header, body, &ctx, None, out)),
                        Some(results) => self.settle((index, &header), body, &ctx, *results, out),
                    }
                }
            }
            index += 1;
        }
        self.hear(&arrivals, out);
        self.deadline = self.service.next_deadline();
    }

    /// Lets a request have its turn while other results may depend on it.
    fn settle(
        &mut self,
        (index, header): (usize, &RequestHeader),
        body: &[u8],
        ctx: &Context,
        results: &mut dyn Results,
        out: &mut Outcomes,
    ) {
        let ran = results.take(index);
        let here = ran.is_none();
        let mut results = Some(results);
        let before = if here { self.watched(&results) } else { None };
        let did_run = self.run(header, body, ctx, ran, out);
        if here {
            self.changed(Some(index), before, &mut results);
        } else if !did_run && let Some(results) = results {
            results.void(index);
        }
    }

    /// The objects before a step that may change them, if results of others may depend on that.
    fn watched(&self, results: &Option<&mut dyn Results>) -> Option<Version> {
        let watched = results.as_ref().is_some_and(|results| results.are_open());
        watched.then(|| self.service.store().map(Store::version)).flatten()
    }

    /// Says what a step changed here: of the request with this index, or at the beginning of the batch.
    fn changed(&self, index: Option<usize>, before: Option<Version>, results: &mut Option<&mut dyn Results>) {
        let Some(before) = before else { return };
        if let (Some(results), Some(store)) = (results, self.service.store()) {
            results.changed(index, &before, &store.version());
        }
    }

    /// Tells the service that these sessions expired.
    #[cold]
    fn tell_expired(&mut self, ended: &[(SessionId, ClientId)], ctx: &Context) {
        // An index that no request has, nor the deadline.
        let ctx = ctx.with_request(u32::MAX - 1);
        for (index, (id, client)) in (0..).zip(ended) {
            let ctx = ctx.with_command(index).with_session(*client, *id);
            self.service.session_ended(SessionEnd::Expired, &ctx);
        }
    }

    /// Tells the service that a change of the membership is done, in the batch that was executed last.
    pub(crate) fn meet_members(&mut self, now: &MembershipNow) {
        let ctx = self.ctx();
        self.service.membership_changed(now, &ctx);
        self.deadline = self.service.next_deadline();
    }

    /// The observer of the service's events; asked for once.
    pub fn observer(&mut self) -> Option<Box<dyn Observer>> {
        self.service.tells()?.observer()
    }

    /// Takes the events that the service reported since the last call, with its letters: those of a batch, or that another state replaced
    /// the one here.
    pub fn take_events(&mut self) -> Option<Events> {
        let letters = self.service.take_letters();
        Events::with_letters(self.service.tells().and_then(Tells::take_events), letters)
    }

    /// Delivers and executes a gap: the global log has no batches after the executed ones, up to this seq.
    ///
    /// # Panics
    /// When `seq` is not a later one: a bug of ours.
    pub fn pass(&mut self, seq: Seq) {
        self.deliver_nothing(seq);
        self.pass_over(seq);
    }

    pub(crate) fn pass_over(&mut self, seq: Seq) {
        self.seq = seq;
    }

    fn open(&mut self, nonce: RequestNumber, body: &[u8], out: &mut Outcomes) {
        let (client, key) = read_opening(body);
        out.push_opening(client, nonce, self.sessions.open(client, nonce.number(), key, self.time));
    }

    /// Whether this replica sends own replies.
    pub fn has_own_replies(&self) -> bool {
        self.service.own_replies().is_some()
    }

    /// The list of replies in this replica's own form; `None` if the list is sent as it is.
    pub fn own_replies(&self, list: &[u8]) -> Option<Vec<u8>> {
        let owns = self.service.own_replies()?;
        let mut own = ItemsBuilder::new();
        for reply in Items::parse(list).ok()?.iter() {
            let mut bytes = Vec::new();
            owns.own(reply, &mut bytes);
            own.push(&bytes);
        }
        let mut bytes = Vec::new();
        own.write_to(&mut bytes);
        (bytes.len() as u64 <= self.sessions.limits().reply_bytes_per_request_max).then_some(bytes)
    }

    /// Whether a request frees space, or is needed for a request that does: sessions are small.
    pub fn frees(&self, kind: RequestKind, body: &[u8]) -> bool {
        match kind {
            RequestKind::Commands => Items::parse(body)
                .is_ok_and(|commands| commands.iter().all(|command| self.service.frees(command))),
            RequestKind::OpenSession
            | RequestKind::CloseSession
            | RequestKind::Empty
            | RequestKind::System => true,
            RequestKind::Nested => {
                split_nested(body).is_some_and(|(_, commands)| self.frees(RequestKind::Commands, commands))
            }
            // What waits for it may need it to end.
            RequestKind::Answer => true,
            // A query takes space in the logs like any other request, and frees none.
            RequestKind::Query => false,
        }
    }

    /// Whether it ran now.
    fn run(
        &mut self,
        header: &RequestHeader,
        body: &[u8],
        ctx: &Context,
        ran: Option<Ran>,
        out: &mut Outcomes,
    ) -> bool {
        let full = out.arena().len() as u64 > self.sessions.limits().reply_bytes_per_batch_max;
        let (id, number) = (header.session, header.number);
        if !self.is_for_session(header) {
            out.push(id, number, |_| ReplyStatus::SessionExpired);
            return false;
        }
        let handling = self.sessions.handling(header);
        match handling {
            // Closing frees what the session keeps, so it needs no room.
            Handling::Run { .. } | Handling::Overloaded if header.kind == RequestKind::CloseSession => {
                if let Some(client) = self.sessions.remove(id) {
                    self.service.session_ended(SessionEnd::Closed, &ctx.with_session(client, id));
                }
                out.push(id, number, no_replies);
            }
            Handling::Run { .. } if full => {
                out.push(id, number, |_| ReplyStatus::Overloaded);
            }
            Handling::Run { client } => {
                self.run_next(header, body, &ctx.with_session(client, id), ran, out);
                return true;
            }
            _ => answer(id, number, handling, full, out),
        }
        false
    }

    /// Runs the session's next request, for whose reply there is room, or takes over how it ran before.
    fn run_next(
        &mut self,
        header: &RequestHeader,
        body: &[u8],
        ctx: &Context,
        ran: Option<Ran>,
        out: &mut Outcomes,
    ) {
        let (service, replies) = (&mut self.service, &mut self.replies);
        let reply = out.push(header.session, header.number, |arena| {
            if matches!(header.kind, RequestKind::Empty | RequestKind::Answer) {
                return no_replies(arena);
            }
            if let Some(mut ran) = ran {
                service.adopt(&mut ran);
                arena.extend_from_slice(&ran.reply);
                return ran.status;
            }
            replies.clear();
            let request = Some((ctx.client(), Some(header.number)));
            let _runs = Runs::new(UnderWay { seq: ctx.seq(), request, bytes: body.len() });
            if header.kind == RequestKind::Query {
                replies.push_with(|reply| service.query(body, &of_query(ctx), reply));
            } else {
                let commands = match header.kind {
                    RequestKind::Nested => split_nested(body).map_or(body, |(_, commands)| commands),
                    _ => body,
                };
                let commands = Items::parse(commands).expect("INV-EXEC-2: commands are a list");
                service.execute_batch(commands, ctx, replies);
            }
            write_replies(replies, arena)
        });
        self.sessions.record(header.session, header.number, reply.status, reply.body, self.time);
    }

    /// Answers a read from the present state; appends the answer to `out`.
    ///
    /// # Errors
    /// When the answer is over the limit for replies; `out` is then unchanged.
    pub fn query(&self, query: &[u8], out: &mut Vec<u8>) -> Result<(), ReplyTooLarge> {
        let max = self.replies.max();
        let mut sink = ReplySink::new(out, max);
        let ctx = self.ctx();
        self.service.query(query, &ctx, &mut sink);
        if sink.overflown() {
            sink.restart();
            return Err(ReplyTooLarge { max });
        }
        Ok(())
    }

    /// Reads the memory that the next of these queries need. Gives how many of them it was: then it is due again, before the one that
    /// follows.
    pub fn read_ahead<'q>(&self, queries: impl Iterator<Item = &'q [u8]>) -> usize {
        ahead::of_queries(&*self.service, queries)
    }

    /// The service, if its commands may run at the same time.
    pub fn parallel(&self) -> Option<Arc<dyn ParallelService>> {
        // Runs begin with a version of the store.
        self.service.parallel().filter(|_| self.service.store().is_some())
    }

    pub(crate) fn service(&self) -> &dyn Service {
        &*self.service
    }

    /// The most bytes in the replies to one request.
    pub(crate) fn replies_max(&self) -> usize {
        self.replies.max()
    }

    /// The present state for readers on other threads; only services in the store have one.
    pub fn published(&self) -> Option<Published> {
        let objects = self.service.store()?.version();
        Some(Published {
            objects,
            seq: self.seq,
            time: self.time,
            level: self.level,
            service_level: self.served.level(),
        })
    }

    /// Whether the service names the keys that these bytes use, and `allowed` is true for all of them.
    pub fn uses_only(&self, bytes: &[u8], is_query: bool, allowed: impl Fn(&KeyUse<'_>) -> bool) -> bool {
        let mut all = true;
        self.service.keys(bytes, is_query, &mut |used| all &= allowed(&used)) && all
    }

    /// What admission may know of a request before it is ordered.
    pub fn lookup(&self, session: SessionId, number: RequestNumber) -> Lookup<'_> {
        self.sessions.lookup(session, number)
    }
    /// The replies after this number that a session keeps.
    pub fn kept_after(
        &self,
        session: SessionId,
        after: RequestNumber,
    ) -> impl Iterator<Item = (RequestNumber, ReplyStatus, &[u8])> {
        self.sessions.kept_after(session, after)
    }
    /// The last number that a session took, while it lives: executed, or under way.
    pub fn last_number(&self, session: SessionId) -> Option<RequestNumber> {
        self.sessions.last_number(session)
    }
    /// The client of a session, while it lives.
    pub fn client(&self, session: SessionId) -> Option<ClientId> {
        self.sessions.client(session)
    }
    /// The session that this client opened with this nonce, while it lives and has executed nothing.
    pub fn opened(&self, client: ClientId, nonce: RequestNumber) -> Option<SessionId> {
        self.sessions.opened(client, nonce.number())
    }
    /// The key for the signatures of a session's requests, while it lives and if they are signed.
    pub fn key(&self, session: SessionId) -> Option<SessionKey> {
        self.sessions.key(session)
    }
    /// The last seq that was executed.
    pub fn seq(&self) -> Seq {
        self.seq
    }
    /// The agreed time of the last batch that was executed.
    pub fn time(&self) -> AgreedTime {
        self.time
    }
    /// How many sessions live.
    pub fn session_count(&self) -> usize {
        self.sessions.len()
    }
    /// The agreed time from which on the service is called for its deadline. Once this time comes and nothing else is ordered, a leader
    /// submits an empty batch with the time.
    pub fn next_deadline(&self) -> Option<AgreedTime> {
        let nested = self.nested.as_ref().and_then(|nested| nested.next_deadline());
        let first = self.deadline.into_iter().chain(nested).min();
        first.map(|deadline| deadline.plus(self.agreed.apart()))
    }
    /// Commands of the last batch told this.
    pub(crate) fn tell(&mut self, told: Vec<Told>) {
        if !told.is_empty() {
            let noted = Noted { told, ..Noted::default() };
            self.service.adopt(&mut Ran { noted, status: ReplyStatus::Done, reply: Vec::new() });
        }
    }

    /// Whether a session ends, or the service is called, before the commands of a batch with this time.
    pub(crate) fn has_due(&mut self, due: AgreedTime) -> bool {
        self.deadline.is_some_and(|deadline| deadline <= due) || self.sessions.is_due(due)
    }

    /// The sessions.
    pub fn sessions(&self) -> &SessionTable {
        &self.sessions
    }

    /// Copies about `bytes` bytes of a tracked service ahead of the next image, between batches. Returns whether nothing is left to copy;
    /// other services have nothing to copy ahead.
    pub fn prepare_image(&mut self, bytes: usize) -> bool {
        self.shadow.prepare(&mut *self.service, bytes)
    }

    /// The whole present state. Executors with equal histories give equal parts, whenever images were prepared or taken.
    ///
    /// The time does not grow with the state for a service in the store. For a tracked one it grows with the changes since the last image
    /// (the first time, with the part that is not copied yet), for a plain one with the whole state.
    ///
    /// # Errors
    /// When the service can not give its state.
    pub fn image(&mut self) -> Result<ImageParts, CheckpointError> {
        let objects = self.shadow.image(&mut *self.service)?;
        Ok(ImageParts { system: self.system(), objects })
    }

    /// The service's objects: the present ones if it is in the store, else those of the last image, if there was one.
    pub fn objects(&self) -> Option<Version> {
        self.shadow.objects(&*self.service)
    }

    /// Replaces the whole state, including the limits, by that of an image.
    ///
    /// # Errors
    /// When the parts are not those of an image of this service. If `system` is at fault, nothing has changed. After other errors a service
    /// that is not in the store may be half restored: do not use this executor then.
    pub fn restore_image(&mut self, system: &[u8], objects: &Version) -> Result<(), CheckpointError> {
        let Read { seq, time, level, served, mut sessions, chain, nested, mut neighbours } =
            read_system(system)?;
        served.check(&*self.service)?;
        let nested = self.restored_nested(seq, time, nested, &mut sessions)?;
        self.shadow.restore(&mut *self.service, objects)?;
        if !(planted("sessions-kept-over-a-rollback") && seq < self.seq) {
            (self.replies, self.sessions) = (replies_for(sessions.limits()), sessions);
        }
        (self.seq, self.time, self.level) = (seq, time, level);
        self.served = served;
        self.chain = chain;
        self.nested = nested;
        neighbours.go_on_from(&self.neighbours);
        self.neighbours = neighbours;
        self.deadline = self.service.next_deadline();
        self.agreed.go_on(seq, time, level);
        Ok(())
    }

    /// Takes back the batches that were executed since an image was taken. The state is then that of the image, while those batches still
    /// count as delivered. Only for services in the store: others would have to begin their copy for the next image anew.
    ///
    /// # Errors
    /// Those of [`Self::restore_image`].
    pub fn roll_back(&mut self, image: &ImageParts) -> Result<(), CheckpointError> {
        let agreed = self.agreed.clone();
        self.restore_image(&image.system, &image.objects)?;
        self.agreed = agreed;
        // Nothing was reported of the batches taken back, so a report of the replaced state would be wrong.
        drop(self.take_events());
        Ok(())
    }

    /// Writes the whole state as one stream, by which replicas can be compared: the system part of an image, then the service's own bytes.
    ///
    /// # Errors
    /// When the sink fails.
    pub fn checkpoint(&self, out: &mut dyn CheckpointSink) -> Result<(), CheckpointError> {
        out.write(&self.system())?;
        self.service.checkpoint(out)
    }

    /// `magic (8) | seq u64 | agreed time u64 | feature level u32 | sessions`, the level of the service if it is not the first one, the neighbours if
    /// there are some, and the requests under way where commands may ask other services, or what was ruled about results where they are
    /// verified.
    fn system(&self) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        out.extend_from_slice(&self.seq.number().to_le_bytes());
        out.extend_from_slice(&self.time.nanos().to_le_bytes());
        out.extend_from_slice(&self.level.to_le_bytes());
        if planted("sessions-outside-digest") {
            SessionTable::new(self.sessions.limits().clone()).write_to(&mut out);
        } else {
            self.sessions.write_to(&mut out);
        }
        self.served.write_to(&mut out);
        self.neighbours.write_to(&mut out);
        if let Some(nested) = &self.nested {
            nested.write_to(&mut out);
        }
        if let Some(chain) = &self.chain {
            chain.write_to(&mut out);
        }
        out
    }

    /// Panics with the name of an invariant that does not hold. `thorough` checks all sessions.
    pub fn invariants(&self, thorough: bool) {
        if thorough {
            self.sessions.invariants();
            self.nested.iter().for_each(|nested| nested.invariants());
            self.neighbours.invariants(&self.sessions);
        }
    }
}

/// The content of what [`Executor::system`] writes.
struct Read {
    seq: Seq,
    time: AgreedTime,
    level: u32,
    served: Served,
    sessions: SessionTable,
    chain: Option<Chain>,
    nested: Option<NestedPart>,
    neighbours: Neighbours,
}

/// Makes the executor's part of an image that of a cluster which begins with it: no ruling is to come for what it holds.
///
/// # Errors
/// When it is not the part of an image.
pub fn system_begins_anew(system: &[u8]) -> Result<Vec<u8>, CheckpointError> {
    let mut out = system.to_vec();
    if let Read { seq, chain: Some(chain), .. } = read_system(system)? {
        out.truncate(system.len() - Chain::BYTES);
        Chain { ruled: seq, loud: seq, ..chain }.write_to(&mut out);
    }
    Ok(out)
}

/// Reads what [`Executor::system`] writes.
fn read_system(mut bytes: &[u8]) -> Result<Read, CheckpointError> {
    let from = &mut bytes;
    let mut magic = [0; 8];
    read_exact(from, &mut magic)?;
    if magic != MAGIC {
        return Err(CheckpointError::Malformed("not an executor's state of this version"));
    }
    let seq = Seq::new(read_u64(from)?);
    let time = AgreedTime::from_nanos(read_u64(from)?);
    let level = read_u32(from)?;
    let sessions = SessionTable::restored(from, time)?;
    let served = Served::read(&mut bytes)?;
    let neighbours = Neighbours::read(&mut bytes)?;
    if !neighbours.fit(&sessions) {
        return Err(CheckpointError::Malformed("the sessions of neighbours"));
    }
    let nested = NestedPart::is_next(bytes).then(|| NestedPart::read(bytes)).transpose()?;
    let chain = match bytes.len() {
        _ if nested.is_some() => None,
        0 => None,
        Chain::BYTES => Some(Chain::read(bytes)?),
        _ => return Err(CheckpointError::Malformed("bytes after the sessions")),
    };
    Ok(Read { seq, time, level, served, sessions, chain, nested, neighbours })
}

fn replies_for(limits: &SessionLimits) -> BatchReplies {
    BatchReplies::new(usize::try_from(limits.reply_bytes_per_request_max).unwrap_or(usize::MAX))
}

/// Pushes the outcome of a request that does not run now.
fn answer(id: SessionId, number: RequestNumber, handling: Handling<'_>, full: bool, out: &mut Outcomes) {
    match handling {
        Handling::Answered { status, .. } if full => out.push_withheld(id, number, status),
        _ => {
            out.push(id, number, |arena| match handling {
                Handling::Answered { status, body } => {
                    arena.extend_from_slice(body);
                    status
                }
                Handling::Forgotten => ReplyStatus::ReplyForgotten,
                Handling::Expected(expected) => {
                    arena.extend_from_slice(&expected.number().to_le_bytes());
                    ReplyStatus::ExpectedNumber
                }
                Handling::Overloaded => ReplyStatus::Overloaded,
                Handling::Expired => ReplyStatus::SessionExpired,
                Handling::UnderWay | Handling::Run { .. } => {
                    unreachable!("INV-SESSION-1: a request that is to run is run")
                }
            });
        }
    }
}
