//! The engine: it merges what instances decide into one global log, executes that, and answers clients. It also extends agreed time.
//!
//! Decided slots come in, those of each instance in order. The merge puts them into one order, in which they are delivered to execution
//! ([`Engine::next`]). The outcomes of a final batch ([`Engine::finished`]) go to the connections that wait for them ([`Engine::reply`]).
//!
//! Delivery never waits for execution: time, members, levels and borders take effect at delivery, and only final state answers. A read
//! waits until a leader has confirmed its place and this replica has executed up to there (`reads.rs`). Time is extended from what was
//! executed (`time.rs`). No other part changes any of this.
//!
//! Tests: engine/tests.rs, check/sim.

mod answers;
mod clock;
mod leaving;
mod reads;
mod time;
mod wants;

use crate::effects::{Effect, Effects};
use crate::system::System;
use crate::witness::{Logged, Moment, Sealed, Witness, seed_in};
use answers::Answers;
use bytes::Bytes;
pub(crate) use clock::Clock;
use leaving::Leaving;
use quorate_execute::{
    Agreed, CheckpointError, Events, Execution, Executor, Final, ImageParts, MembershipNow, Observer,
    Ordered, Outcome, Outcomes, Parallelism, Publisher, Verified, Version, Worked,
};
use quorate_merge::{Decided, Delivered, Generation, Leader, Merge, Place, Proposer, RecordIndex, Refused};
use quorate_reply::{LetterLimits, LetterRoutes, ReadLimits, ReadPath, RouteLimits, Routes};
use quorate_types::{
    AgreedTime, ClientId, ConnId, Halt, InstanceId, RecordId, ReplicaId, RequestNumber, Seq, SessionId, Slot,
    Span, Time, Trust, View,
};
use quorate_wire::{
    AnswerMode, Batch, FrameKind, Listen, NeighbourCommand, OutFrame, RequestHeader, RequestKind, Requests,
    read_opening, write_position,
};
use std::collections::VecDeque;
use time::Timing;
use wants::Wants;

/// The first instance.
const FIRST: InstanceId = InstanceId::new(1);
/// Bytes of a tracked service's objects that are copied after each batch while a border comes near.
const COPY_BYTES: usize = 256 << 10;

/// The configuration of the engine.
#[derive(Clone, Debug)]
pub(crate) struct EngineConfig {
    /// Whether members may lie. Then the time of their batches must stay near this replica's own, and all answer.
    pub(crate) may_lie: bool,
    /// How long a leader may be silent before the others want another one.
    pub(crate) patience: Span,
    /// Limits of waiting reads.
    pub(crate) reads: ReadLimits,
    /// The cluster's time at its start.
    pub(crate) start_time: AgreedTime,
    /// The seed of the randomness for batches.
    pub(crate) seed: u64,
}

/// Inputs that change the merge, beside decided slots.
#[derive(Clone, Copy, Debug)]
pub(crate) enum In {
    /// An instance has another leader.
    Led(InstanceId, Leader),
    /// The leader of an instance here knows everything that was decided before.
    Settled(InstanceId),
    /// An instance that leads here proposes a batch.
    Proposed(InstanceId),
    /// An instance that leads here could propose more, but the merge has no room.
    WaitsForRoom(InstanceId),
    /// An instance's leader is connected again, and is asked again.
    AskAgain(InstanceId),
    /// A member wants everything up to a place. The trust says how many members may be faulty or lie.
    Wanted(ReplicaId, Place, Trust),
    /// An instance begins again without its history.
    Renewed(InstanceId),
    /// The log was trimmed up to a durable checkpoint.
    Trimmed(Seq),
    /// A leader confirmed a record for the reads of a group.
    ReadConfirmed(u64, InstanceId, RecordIndex),
    /// No leader confirmed anything for the reads of a group.
    ReadFailed(u64),
    /// A connection is gone, with everything that waits on it.
    Closed(ConnId),
    /// The client on a connection asks again, perhaps at another replica: this instance has another leader, or there are other instances.
    Unbound(ConnId, Option<InstanceId>),
}

/// What the merge must know of a leader here that proposes on another lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Proposes {
    /// How far it has proposed.
    pub(crate) proposer: Proposer,
    /// The slot of its last batch, if it proposed one since the last news.
    pub(crate) batch: Option<Slot>,
    /// Whether requests wait although the merge has no room.
    pub(crate) waits_for_room: bool,
}

/// A delivery.
#[derive(Debug)]
pub(crate) enum Delivery {
    /// A batch.
    Batch {
        /// Its place in the global log.
        seq: Seq,
        /// The instance that decided it.
        instance: InstanceId,
        /// The batch.
        batch: Batch,
        /// Whether a border may come here: the state at the one before is an image already.
        settled: bool,
    },
    /// Slots without batches.
    Nothing,
}

/// Something that became final.
pub(crate) enum Finished {
    /// A batch of this instance; [`Engine::outcomes`] has its outcomes. `proposed`: it was proposed here.
    Batch { instance: InstanceId, proposed: bool },
    /// The objects at the point where capturing begins, for the border with this number.
    Ahead(u64, Version),
    /// The state at a border, with the description of the other parts there; or the reason why the service can not give its state.
    Image(Box<System>, Result<ImageParts, CheckpointError>),
}

/// Which members answer a session. Each session is answered by some of them; a request that is sent again is answered by all.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Answerers {
    /// The position of this replica among the members, from 0.
    pub(crate) place: usize,
    /// How many members there are.
    pub(crate) members: usize,
    /// How many members answer each session.
    pub(crate) answers: usize,
}

impl Answerers {
    /// Whether this replica answers a session.
    fn answer(self, session: SessionId) -> bool {
        (self.place + self.members - session.index as usize % self.members) % self.members < self.answers
    }
}

/// The counts in `status` since the start of the process.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) requests: u64,
    pub(crate) batches: u64,
    pub(crate) reads: u64,
}

/// Those outside of the replica who look at it.
#[derive(Default)]
struct Outside {
    /// Takes the final state for readers on other threads.
    publisher: Option<Box<dyn Publisher>>,
    /// Hears what happens to batches.
    witness: Option<Box<dyn Witness>>,
    /// The service's observer of ordered events, which are handed on when their batch is final.
    observer: Option<Box<dyn Observer>>,
}

impl Outside {
    fn tells(&mut self, moment: Moment<'_>) {
        if let Some(witness) = &mut self.witness {
            witness.hears(moment);
        }
    }
}

/// So many batches may be delivered and not final. Else a long log would be in memory twice at a start.
const UNDER_WAY_MAX: usize = 1024;

/// What was delivered and is not final.
#[derive(Default)]
struct UnderWay {
    /// The batches: their instances, and whether they were proposed here.
    batches: VecDeque<(Seq, InstanceId, bool)>,
    /// Whether something was delivered since execution was last asked to go on.
    fresh: bool,
    /// Whether nothing more is delivered: the era is over.
    stopped: bool,
}

/// Merge, execution and replies of one replica; see the module.
pub(crate) struct Engine {
    may_lie: bool,
    merge: Merge<Batch>,
    execution: Box<dyn Execution>,
    under_way: UnderWay,
    /// The descriptions of the other parts at borders whose state is not final yet.
    borders: VecDeque<Box<System>>,
    outcomes: Outcomes,
    outside: Outside,
    timing: Timing,
    reads: ReadPath,
    answers: Answers,
    routes: Routes,
    letters: LetterRoutes,
    leaving: Leaving,
    wants: Wants,
    counts: Counts,
}

impl Engine {
    /// Goes on from a state, and from a position in the global log.
    pub(crate) fn new(config: &EngineConfig, merge: Merge<Batch>, mut execution: Box<dyn Execution>) -> Self {
        let (observer, restored) = (execution.state_mut().observer(), execution.state_mut().take_events());
        let mut engine = Self {
            may_lie: config.may_lie,
            merge,
            execution,
            under_way: UnderWay::default(),
            borders: VecDeque::new(),
            outcomes: Outcomes::new(),
            outside: Outside { observer, ..Outside::default() },
            timing: Timing::new(config),
            reads: ReadPath::new(config.reads.clone()),
            answers: Answers::new(&config.reads),
            routes: Routes::new(RouteLimits::default()),
            letters: LetterRoutes::new(LetterLimits::default()),
            leaving: Leaving::default(),
            wants: Wants::default(),
            counts: Counts::default(),
        };
        engine.tell(restored);
        engine
    }

    /// Hands final events to the observer, and letters to the connections that listen for them.
    fn tell(&mut self, events: Option<Events>) {
        let Some(mut events) = events else { return };
        for letter in events.take_letters() {
            // Nobody gets a letter to a session that is over by now.
            if let Some(client) = self.execution.state().client(letter.to) {
                self.letters.send(client, letter);
            }
        }
        if events.are_told()
            && let Some(observer) = &mut self.outside.observer
        {
            observer.told(events);
        }
    }

    /// A client listens for the letters of these sessions.
    pub(crate) fn listen(&mut self, from: (ConnId, ClientId), sessions: &[Listen]) {
        self.letters.listen(from, sessions);
    }

    /// Sets who hears what happens to batches.
    pub(crate) fn is_seen_by(&mut self, witness: Option<Box<dyn Witness>>) {
        self.outside.witness = witness;
    }

    /// The log was given a batch.
    pub(crate) fn logged(&mut self, at: Time, logged: Option<Logged>) {
        if let Some(Logged { seed, record, durable }) = logged {
            self.outside.tells(Moment::Logged { seed, record, at, durable });
        }
    }

    /// The log is durable up to this record.
    pub(crate) fn durable(&mut self, now: Time, record: RecordId) {
        self.outside.tells(Moment::Durable(record, now));
    }

    /// Batches were made of requests of clients.
    pub(crate) fn sealed(&mut self, batches: impl FnOnce() -> VecDeque<Sealed>) {
        if self.outside.witness.is_some() {
            batches().into_iter().for_each(|sealed| self.outside.tells(Moment::Sealed(sealed)));
        }
    }

    /// The process starts. How long ago the last batch was executed is unknown.
    pub(crate) fn start(&mut self, now: Time) {
        self.timing.start(self.execution.agreed().time(), now);
        self.meet_leaders();
    }

    /// The global log.
    pub(crate) const fn merge(&self) -> &Merge<Batch> {
        &self.merge
    }

    /// The final state.
    pub(crate) fn executor(&self) -> &Executor {
        self.execution.state()
    }

    /// What follows from the order of the delivered batches alone.
    pub(crate) fn agreed(&self) -> &Agreed {
        self.execution.agreed()
    }

    /// Whether the last delivered border has no image yet.
    pub(crate) fn is_at_border(&self) -> bool {
        !self.borders.is_empty()
    }

    /// Whether a delivered batch is not final yet.
    pub(crate) fn is_behind(&self) -> bool {
        self.execution.is_behind()
    }

    /// When more may become final without another delivery.
    pub(crate) fn execution_deadline(&self, now: Time) -> Option<Time> {
        let record = self.foreseeable();
        if record.is_some_and(|record| self.verified().is_some_and(|verified| verified.foresees(record))) {
            // In a turn of its own: what was proposed leaves first.
            return Some(now);
        }
        self.execution.deadline()
    }

    /// The requests that came under way in the batch that became final last.
    pub(crate) fn begun(&self) -> &[(SessionId, RequestNumber)] {
        self.outcomes.begun()
    }

    /// The outcomes of the requests in the batch that became final last.
    pub(crate) fn outcomes(&self) -> &[Outcome] {
        self.outcomes.list()
    }

    /// The counts since the start.
    pub(crate) const fn counts(&self) -> Counts {
        self.counts
    }

    /// Takes an input that changes the merge.
    pub(crate) fn step(&mut self, input: In) {
        match input {
            In::Led(instance, leader) => self.merge.leader(instance, leader),
            In::Settled(instance) => self.merge.settled(instance),
            In::Proposed(instance) => drop(self.merge.proposed(instance)),
            In::WaitsForRoom(instance) => self.merge.waits_for_room(instance),
            In::AskAgain(instance) => self.merge.ask_again(instance),
            In::Wanted(from, place, trust) => {
                if let Some(place) = self.wants.wants(from, place, trust.truth() as usize) {
                    self.merge.asked(place);
                }
            }
            In::Renewed(instance) => self.merge.renew(instance),
            In::Trimmed(seq) => self.merge.trim(seq),
            In::ReadConfirmed(group, instance, record) => self.merge.read_confirmed(group, instance, record),
            In::ReadFailed(group) => self.fail_reads(group),
            In::Closed(conn) => {
                self.leaving.forget(conn);
                self.routes.unbind_conn(conn);
                self.letters.unbind_conn(conn);
                self.reads.drop_conn(conn);
            }
            In::Unbound(conn, instance) => {
                let last = instance.map(|instance| (instance, self.handed(instance)));
                self.leaving.leaves(conn, last, self.merge.seq());
            }
        }
    }

    /// An instance decided its next record.
    ///
    /// # Errors
    /// When it does not fit into the global log.
    pub(crate) fn decided(&mut self, instance: InstanceId, slot: Slot, batch: Batch) -> Result<(), Halt> {
        let what = match batch.no_op_target() {
            Some(target) => Decided::Noop { target },
            None => Decided::Batch { bytes: batch.bytes().len(), payload: batch },
        };
        self.merge.decided(instance, RecordIndex(slot.number()), what).map_err(|why| {
            let why = format!("what instance {instance} decided does not fit into the global log: {why}");
            Halt::LogInconsistent { why }
        })
    }

    /// As [`Self::decided`], now, for whoever watches, too.
    pub(crate) fn takes(
        &mut self,
        now: Time,
        (instance, slot): (InstanceId, Slot),
        batch: Batch,
    ) -> Result<(), Halt> {
        if self.outside.witness.is_some()
            && let Some(seed) = seed_in(batch.bytes())
        {
            self.outside.tells(Moment::Decided { seed, at: now });
        }
        self.decided(instance, slot, batch)
    }

    /// Delivers nothing more from here on. [E5]
    pub(crate) const fn stop(&mut self) {
        self.under_way.stopped = true;
    }

    /// Delivers what comes next in the global log, if it is known. Behind a border nothing is delivered until the border's image is there:
    /// the distance to the next border depends on the size of the state at this one.
    pub(crate) fn next(&mut self, now: Time) -> Option<Delivery> {
        // Where results are verified, the ruling for the state at the border lies behind it.
        let settled = self.verified().is_none() || self.execution.is_settled();
        if self.under_way.stopped || self.is_at_border() && settled && !self.differs() || !self.has_room() {
            return None;
        }
        let delivered = self.merge.next(now)?;
        self.under_way.fresh = true;
        match delivered {
            Delivered::Batch { seq, place, payload } => {
                self.meet_leaders();
                self.execution.batch_of(seq, (place.instance, place.slot), payload.clone());
                if place.instance == FIRST
                    && let (Some(verified), Some(record)) =
                        (self.execution.verified_mut(), self.merge.delivered_record(FIRST))
                {
                    verified.is_placed(seq, record.0, &payload);
                }
                if self.verified().is_some()
                    && place.instance == FIRST
                    && let Some(ruling) = payload.header().ruling
                {
                    self.execution.deliver(Ordered::Ruled(seq, ruling));
                }
                self.counts.batches += 1;
                Some(Delivery::Batch { seq, instance: place.instance, batch: payload, settled })
            }
            Delivered::Noops { last, .. } => {
                self.execution.pass(last);
                Some(Delivery::Nothing)
            }
        }
    }

    /// Whether something was delivered since execution was last asked to go on: another turn must end.
    pub(crate) fn owes_turn(&self) -> bool {
        self.under_way.fresh
    }

    /// Whether execution may wait until the end of a turn. Another execution than the plain one wants to go on as soon as it may.
    pub(crate) fn postpones(&self) -> bool {
        self.execution.postpones()
    }

    /// Whether more may be delivered now. Where results are verified, the ruling that all wait for may come with the next delivery.
    fn has_room(&self) -> bool {
        let few = !self.postpones() || self.under_way.batches.len() < UNDER_WAY_MAX;
        few && self.execution.has_room()
    }

    /// Whether this replica's results are not those that were ruled: nothing becomes final until the state is replaced.
    fn differs(&self) -> bool {
        self.verified().is_some_and(|verified| verified.differs().is_some())
    }

    /// The execution, if it verifies results.
    pub(crate) fn verified(&self) -> Option<&Verified> {
        self.execution.verified()
    }

    /// As [`Self::verified`].
    pub(crate) fn verified_mut(&mut self) -> Option<&mut Verified> {
        self.execution.verified_mut()
    }

    /// Workers answered.
    pub(crate) fn worked(&mut self, done: Worked) {
        self.execution.worked(done);
    }

    /// Ends the turn: the next one has room for answers again. Gives out what workers should do.
    pub(crate) fn end_turn(&mut self, out: &mut Effects) {
        self.answers.end_turn();
        if let Some(verified) = self.verified_mut() {
            verified.end_turn();
        }
        self.leaving.look(&self.merge, &*self.execution, |conn| self.routes.unbind_conn(conn));
        while let Some(work) = self.execution.work() {
            out.push(Effect::Work(work));
        }
    }

    /// How much runs on workers, if anything may.
    pub(crate) fn parallelism(&self) -> Option<Parallelism> {
        self.execution.parallelism()
    }

    /// Notes the instance of the batch that was delivered last, whether it was proposed here, and with which time.
    pub(crate) fn is_under_way(
        &mut self,
        (seq, instance, proposed): (Seq, InstanceId, bool),
        now: Time,
        dated: AgreedTime,
    ) {
        if proposed {
            self.is_ordered(now, dated);
        }
        if !self.differs() {
            self.under_way.batches.push_back((seq, instance, proposed));
        }
    }

    /// A batch was delivered, in this view of its instance. `proposed`: it was proposed here.
    pub(crate) fn gives(
        &mut self,
        (seq, instance): (Seq, InstanceId),
        (view, proposed): (View, bool),
        now: Time,
        batch: &Batch,
    ) {
        self.is_under_way((seq, instance, proposed), now, batch.header().time);
        self.outside.tells(Moment::Delivered { seq, batch, instance: (instance, view), proposed, at: now });
    }

    /// Begins to capture for the border with this number.
    pub(crate) fn ahead(&mut self, border: u64) {
        self.execution.deliver(Ordered::Ahead(border));
    }

    /// A border was delivered. The description of the other parts is kept until the state there is an image.
    pub(crate) fn border(&mut self, of_others: Box<System>) {
        self.borders.push_back(of_others);
        self.execution.deliver(Ordered::Border);
    }

    /// A batch was proposed here or by the leader that this replica follows.
    pub(crate) fn proposed(&mut self, instance: InstanceId, slot: Slot, view: View, batch: Batch) {
        if instance == FIRST
            && self.foreseeable().is_some()
            && let Some(verified) = self.verified_mut()
        {
            verified.proposed(slot.number(), view, batch);
        }
    }

    /// Lets run what will probably be delivered next. Whether anything runs early.
    pub(crate) fn foresee(&mut self) -> bool {
        let Some(record) = self.foreseeable() else { return false };
        let Place { instance, slot } = self.merge.cursor();
        self.verified_mut().is_some_and(|verified| verified.foresee_behind(record, (instance, slot)))
    }

    /// The last record that is delivered, while the next ones of its instance are the next ones of the global log.
    fn foreseeable(&self) -> Option<u64> {
        self.verified()?;
        // While a change of their number is under way, the next ones may be those of others.
        let one = self.merge.generation().instances == 1 && self.merge.next_generation().is_none();
        self.merge.delivered_record(FIRST).filter(|_| one).map(|record| record.0)
    }

    /// The next batch, state or image that became final, if there is one.
    pub(crate) fn finished(&mut self, now: Time) -> Option<Finished> {
        self.under_way.fresh = false;
        if self.outside.witness.is_some() && self.postpones() && self.is_behind() {
            self.outside.tells(Moment::Executes);
        }
        loop {
            match self.execution.next(now, &mut self.outcomes)? {
                Final::Nothing | Final::Ahead(_, None) => {
                    let events = self.outcomes.take_events();
                    self.tell(events);
                }
                Final::Ahead(border, Some(version)) => return Some(Finished::Ahead(border, version)),
                Final::Batch(seq) => {
                    self.counts.requests += self.outcomes.list().len() as u64;
                    let (outcomes, executor) = (self.outcomes.list(), self.execution.state());
                    self.outside.tells(Moment::Executed { seq, outcomes, executor });
                    let events = self.outcomes.take_events();
                    self.tell(events);
                    let (delivered, instance, proposed) = self.under_way.batches.pop_front()?;
                    assert_eq!(seq, delivered, "INV-EXEC-7: batches become final in the order of delivery");
                    return Some(Finished::Batch { instance, proposed });
                }
                Final::Image(image) => return Some(Finished::Image(self.borders.pop_front()?, image)),
            }
        }
    }

    /// Sends the outcomes of the last batch to the clients that wait. If the batch was proposed here, this replica also answers requests
    /// that are only refused. Where members may lie, a client counts the answers of all.
    pub(crate) fn reply(&mut self, proposed: bool, answerers: Answerers) {
        let executor = self.execution.state();
        let owns = Some(executor).filter(|_| self.may_lie && executor.has_own_replies());
        let answers = |session| answerers.answer(session);
        self.routes.route(&self.outcomes, self.may_lie || proposed, answers, owns);
    }

    /// Whether several leaders may propose what follows. Once there were several, it stays so: leases that one of them renewed may be ended
    /// by another.
    pub(crate) fn leads_many(&self) -> bool {
        self.merge.next_generation().is_some() || self.merge.generation() != Generation::begin(1)
    }

    /// Tells execution how many leaders there may be.
    pub(crate) fn meet_leaders(&mut self) {
        let (many, liars) = (self.leads_many(), self.may_lie);
        self.execution.state_mut().set_leaders(many, liars);
    }

    /// Sets the cluster's feature level.
    pub(crate) fn set_level(&mut self, level: u32) {
        self.execution.set_level(level);
    }

    /// The service takes this level, behind the batch that was delivered last.
    pub(crate) fn raise_service(&mut self, level: u32) {
        self.execution.raise_service(level);
    }

    /// Whether the level of the service can be raised.
    pub(crate) fn raises_service(&self) -> bool {
        self.execution.raises_service()
    }

    /// Another service is a neighbour from this position in the order on, or none any more.
    pub(crate) fn neighbour(&mut self, command: NeighbourCommand) {
        self.execution.deliver(Ordered::Neighbour(command));
    }

    /// A change of the membership is complete: the service hears of it at this position in the order.
    pub(crate) fn members_changed(&mut self, now: MembershipNow) {
        self.execution.deliver(Ordered::Members(now));
    }

    /// From the next border on there are this many instances.
    pub(crate) fn change_instances(&mut self, count: u16) -> Result<Generation, Refused> {
        self.merge.change(count)
    }

    /// The last record of an instance that was handed to the merge.
    pub(crate) fn handed(&self, instance: InstanceId) -> RecordIndex {
        RecordIndex(self.merge.next_record(instance).map_or(0, |next| next.0.saturating_sub(1)))
    }

    /// The leader of an instance here proposes on another lane. `settled`: the first instance knows everything that was ordered before.
    pub(crate) fn proposes(&mut self, now: Time, instance: InstanceId, news: Proposes, settled: bool) {
        let Proposes { proposer, batch, waits_for_room } = news;
        if settled && batch.is_some() {
            self.propose_time(now);
        }
        self.merge.proposes_apart(instance, proposer, batch);
        if waits_for_room {
            self.merge.waits_for_room(instance);
        }
    }

    /// The next no-op that an instance, which leads here, must propose.
    pub(crate) fn fill(&mut self, instance: InstanceId) -> Option<Slot> {
        self.merge.fill(instance)
    }

    /// Names the instances that are led elsewhere and whose slots are missing here.
    pub(crate) fn asks(&mut self, ask: impl FnMut(InstanceId, Place)) {
        self.merge.asks(ask);
    }

    /// Copies a part of the state before the next image.
    pub(crate) fn prepare_image(&mut self) {
        self.execution.state_mut().prepare_image(COPY_BYTES);
    }

    /// Replaces the state by another one. Clients that wait here for what it covers get their replies.
    ///
    /// # Errors
    /// When it can not be restored.
    pub(crate) fn restore(
        &mut self,
        system: &[u8],
        objects: &Version,
        answerers: Answerers,
    ) -> Result<(), CheckpointError> {
        self.under_way.batches.clear();
        self.borders.clear();
        self.withdraw();
        let before = self.routes.reached(self.execution.state());
        self.execution.restore(system, objects)?;
        let restored = self.execution.state_mut().take_events();
        self.tell(restored);
        let executor = self.execution.state();
        let own = self.may_lie && executor.has_own_replies();
        self.routes.covered(&before, executor, |session| answerers.answer(session), own);
        Ok(())
    }

    /// The global log goes on from a checkpoint, at a later or an earlier position. After an earlier one everything is delivered again.
    ///
    /// # Errors
    /// When it does not fit.
    pub(crate) fn jump(&mut self, system: &System, window: u64) -> Result<(), Halt> {
        let unusable = |why: &str| Halt::CheckpointUnusable {
            why: format!("the checkpoint of seq {:#} does not fit into the global log: {why}", system.seq),
        };
        let checkpoint = system.merge(window).ok_or_else(|| unusable("its generations"))?;
        let done = match checkpoint.seq >= self.merge.seq() {
            true => self.merge.jump(&checkpoint),
            false => self.merge.begin_again(&checkpoint),
        };
        done.map_err(|why| unusable(&why.to_string()))
    }

    /// The seq that a checkpoint must reach, when a leader's log does not go back to this record of an instance. With several instances
    /// (not `alone`) the seq of a record is unknown. A checkpoint that is here already does not help: the leader's log may begin after a
    /// record that has no seq.
    pub(crate) fn lacks(&self, instance: InstanceId, slot: Slot, alone: bool) -> Seq {
        let next = self.merge.seq().next();
        if alone { self.merge.estimate(instance, RecordIndex(slot.number())).max(next) } else { next }
    }

    /// Binds the replies to these requests to this connection. A request that can not be bound is over a limit and gets no reply; its
    /// client sends it again. `takes`: whether requests of this kind are accepted at all.
    ///
    /// # Errors
    /// When the client breaks a rule, in words: a client may only use its own sessions.
    pub(crate) fn bind(
        &mut self,
        (conn, client): (ConnId, ClientId),
        requests: &[u8],
        takes: impl Fn(&RequestHeader) -> Result<(), &'static str>,
    ) -> Result<(), String> {
        self.leaving.forget(conn);
        for (header, body, _) in Requests::new(requests).flatten() {
            takes(&header)?;
            if header.kind == RequestKind::OpenSession {
                let (opener, _) = read_opening(body);
                if opener != client {
                    return Err(format!("{client} opens a session for {opener}"));
                }
                self.routes.bind_opening(client, header.number, conn);
            } else {
                match self.execution.state().client(header.session) {
                    Some(owner) if owner != client => {
                        return Err(format!("{client} uses {} of {owner}", header.session));
                    }
                    Some(_) => {
                        self.routes.bind(header.session, conn);
                    }
                    // The session is over, or a batch opened it that was not executed here yet: its client is unknown.
                    None => {}
                }
            }
        }
        Ok(())
    }

    /// The connection to which replies of a session go, if there is one.
    pub(crate) fn conn(&self, session: SessionId) -> Option<ConnId> {
        self.routes.conn(session)
    }

    /// How a connection wants to be answered.
    pub(crate) fn mode(&self, conn: ConnId) -> AnswerMode {
        self.routes.mode(conn)
    }

    /// Sets how a client wants to be answered.
    pub(crate) fn set_mode(&mut self, conn: ConnId, mode: AnswerMode) {
        self.routes.set_mode(conn, mode);
    }

    /// Sends the replies at the end of a turn.
    pub(crate) fn send_replies(&mut self, out: &mut Effects) {
        if !self.routes.is_empty() {
            for (conn, mut body) in self.routes.drain() {
                write_position(&mut body, self.execution.state().seq());
                out.send(conn, OutFrame::new(FrameKind::Replies, &[], vec![Bytes::from(body)]));
            }
        }
        if !self.letters.is_empty() {
            for (conn, body) in self.letters.drain() {
                out.send(conn, OutFrame::new(FrameKind::Letters, &[], vec![Bytes::from(body)]));
            }
        }
        self.send_answers(out);
        self.outside.tells(Moment::Replied);
    }

    /// Panics with the name of a broken invariant; `thorough` scans everything.
    pub(crate) fn invariants(&self, thorough: bool) {
        self.merge.invariants(thorough);
        if thorough {
            self.execution.invariants();
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
