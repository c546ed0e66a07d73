//! The engine: what instances decide becomes one global log, which is executed; who asked is answered; agreed time goes on with it.
//!
//! Decided slots come in, each instance's in order. The merge puts them in one order, in which they are delivered to execution
//! ([`Engine::next`]). What became final ([`Engine::finished`]) goes to the connections that wait for it ([`Engine::reply`]). Delivery
//! never waits for execution: time, members, levels and borders take effect at delivery, and only final state answers. Reads wait here until a leader confirmed their place and this replica executed it
//! (`reads.rs`). Time is extended from what was executed (`time.rs`). Nobody else writes any of this.
//!
//! Tests: engine/tests.rs, check/sim.

mod answers;
mod clock;
mod reads;
mod time;
mod wants;

use crate::effects::Effects;
use crate::system::System;
use answers::Answers;
use bytes::Bytes;
use quorate_execute::{
    Agreed, CheckpointError, Events, Execution, Executor, Final, ImageParts, MembershipNow, Observer,
    Ordered, Outcome, Outcomes, Version,
};
use quorate_merge::{Decided, Delivered, Generation, Leader, Merge, Place, RecordIndex, Refused};
use quorate_reply::{ReadLimits, ReadPath, RouteLimits, Routes};
use quorate_types::{
    AgreedTime, ClientId, ConnId, Halt, InstanceId, ReplicaId, Seq, SessionId, Slot, Span, Time, Trust,
};
use quorate_wire::{
    AnswerMode, Batch, FrameKind, OutFrame, RequestHeader, RequestKind, Requests, read_opening,
    write_position,
};
use std::collections::VecDeque;
use time::Timing;
use wants::Wants;

/// What the engine is told once.
#[derive(Clone, Debug)]
pub(crate) struct EngineConfig {
    /// Members may lie: their time has to stay near this replica's own, and all answer.
    pub(crate) may_lie: bool,
    /// After how long without a word of its leader everybody wants another one.
    pub(crate) patience: Span,
    /// What waiting reads may hold.
    pub(crate) reads: ReadLimits,
    /// The cluster's time at its beginning.
    pub(crate) start_time: AgreedTime,
    /// Randomness for batches follows from it.
    pub(crate) seed: u64,
}

/// What changes the merge beside decided slots.
#[derive(Clone, Copy, Debug)]
pub(crate) enum In {
    /// An instance has another leader.
    Led(InstanceId, Leader),
    /// Who leads an instance here knows all that was decided before.
    Settled(InstanceId),
    /// An instance that leads here proposes a batch.
    Proposed(InstanceId),
    /// It could propose more, and the merge has no room for it.
    WaitsForRoom(InstanceId),
    /// Its leader is connected again, and is asked again for what it was asked.
    AskAgain(InstanceId),
    /// A member wants everything up to a place; how far the members are trusted.
    Wanted(ReplicaId, Place, Trust),
    /// An instance begins again, with nothing of before.
    Renewed(InstanceId),
    /// What a durable checkpoint holds is forgotten.
    Trimmed(Seq),
    /// A leader confirmed a record for the reads of a group.
    ReadConfirmed(u64, InstanceId, RecordIndex),
    /// No leader confirmed anything for them.
    ReadFailed(u64),
    /// A connection is gone: nobody waits there.
    Closed(ConnId),
    /// Who waits on a connection asks again, elsewhere.
    Unbound(ConnId),
}

/// What was delivered.
#[derive(Debug)]
pub(crate) enum Delivery {
    /// A batch.
    Batch {
        /// Its place in the global log.
        seq: Seq,
        /// Whose it is.
        instance: InstanceId,
        /// The batch.
        batch: Batch,
    },
    /// Slots that hold nothing.
    Nothing,
}

/// What became final.
pub(crate) enum Finished {
    /// A batch of this instance; its outcomes are those of [`Engine::outcomes`]. `proposed`: it was proposed here.
    Batch { instance: InstanceId, proposed: bool },
    /// The objects where capturing begins for the border with this number.
    Ahead(u64, Version),
    /// The state at a border, with what was said of the other parts there; or why the service can not give it.
    Image(Box<System>, Result<ImageParts, CheckpointError>),
}

/// Who of the members answers a session: each session has some of them that do. Who asks again is answered by all.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Answerers {
    /// The place of this replica among the members, from 0.
    pub(crate) place: usize,
    /// How many members there are.
    pub(crate) members: usize,
    /// How many of them answer each session.
    pub(crate) answers: usize,
}

impl Answerers {
    /// Whether this replica answers a session.
    fn answer(self, session: SessionId) -> bool {
        (self.place + self.members - session.index as usize % self.members) % self.members < self.answers
    }
}

/// What `status` counts since the start of the process.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) requests: u64,
    pub(crate) batches: u64,
    pub(crate) reads: u64,
}

/// Merge, execution and replies of one replica; see the module.
pub(crate) struct Engine {
    may_lie: bool,
    merge: Merge<Batch>,
    execution: Box<dyn Execution>,
    /// The batches that were delivered and are not final: whose they are, and whether they were proposed here.
    under_way: VecDeque<(Seq, InstanceId, bool)>,
    /// What is said of the other parts at borders at which the state is not final yet.
    borders: VecDeque<Box<System>>,
    outcomes: Outcomes,
    /// Who hears what batches changed, once they are final.
    observer: Option<Box<dyn Observer>>,
    timing: Timing,
    reads: ReadPath,
    answers: Answers,
    routes: Routes,
    wants: Wants,
    counts: Counts,
}

impl Engine {
    /// Goes on from a state and from where the global log stands.
    pub(crate) fn new(config: &EngineConfig, merge: Merge<Batch>, mut execution: Box<dyn Execution>) -> Self {
        let (observer, restored) = (execution.state_mut().observer(), execution.state_mut().take_events());
        let mut engine = Self {
            may_lie: config.may_lie,
            merge,
            execution,
            under_way: VecDeque::new(),
            borders: VecDeque::new(),
            outcomes: Outcomes::new(),
            observer,
            timing: Timing::new(config),
            reads: ReadPath::new(config.reads.clone()),
            answers: Answers::new(&config.reads),
            routes: Routes::new(RouteLimits::default()),
            wants: Wants::default(),
            counts: Counts::default(),
        };
        engine.tell(restored);
        engine
    }

    /// Whoever watches hears what is final.
    fn tell(&mut self, events: Option<Events>) {
        if let Some((observer, events)) = self.observer.as_mut().zip(events) {
            observer.told(events);
        }
    }

    /// The process begins: nobody knows how long ago the last batch was executed.
    pub(crate) fn start(&mut self, now: Time) {
        self.timing.start(self.execution.agreed().time(), now);
        self.meet_leaders();
    }

    /// The global log, to be looked at.
    pub(crate) const fn merge(&self) -> &Merge<Batch> {
        &self.merge
    }

    /// The final state, to be looked at.
    pub(crate) fn executor(&self) -> &Executor {
        self.execution.state()
    }

    /// What is agreed on with what was delivered.
    pub(crate) fn agreed(&self) -> &Agreed {
        self.execution.agreed()
    }

    /// Whether there is no image yet of the last border that was delivered.
    pub(crate) fn is_at_border(&self) -> bool {
        !self.borders.is_empty()
    }

    /// Whether something was delivered that is not final yet.
    pub(crate) fn is_behind(&self) -> bool {
        self.execution.is_behind()
    }

    /// When more may be final, if nothing else is delivered.
    pub(crate) fn execution_deadline(&self) -> Option<Time> {
        self.execution.deadline()
    }

    /// How the requests of the batch that was executed last ended.
    pub(crate) fn outcomes(&self) -> &[Outcome] {
        self.outcomes.list()
    }

    /// What was done since the start.
    pub(crate) const fn counts(&self) -> Counts {
        self.counts
    }

    /// Takes note of what changes the merge.
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
                self.routes.unbind_conn(conn);
                self.reads.drop_conn(conn);
            }
            // What is under way is answered where it was asked: it may be that nobody else does.
            In::Unbound(_) if self.is_behind() => {}
            In::Unbound(conn) => self.routes.unbind_conn(conn),
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

    /// Delivers what comes next in the global log, if it is known. Behind a border nothing is delivered until its image is there: how far the next
    /// one is depends on how large the state is at this one.
    pub(crate) fn next(&mut self, now: Time) -> Option<Delivery> {
        if self.is_at_border() {
            return None;
        }
        match self.merge.next(now)? {
            Delivered::Batch { seq, place, payload } => {
                self.meet_leaders();
                self.execution.batch(seq, payload.clone());
                self.counts.batches += 1;
                Some(Delivery::Batch { seq, instance: place.instance, batch: payload })
            }
            Delivered::Noops { last, .. } => {
                self.execution.pass(last);
                Some(Delivery::Nothing)
            }
        }
    }

    /// Of the batch that was delivered last: whose it is, and whether it was proposed here.
    pub(crate) fn is_under_way(&mut self, seq: Seq, instance: InstanceId, proposed: bool) {
        self.under_way.push_back((seq, instance, proposed));
    }

    /// Capturing begins here for the border with this number.
    pub(crate) fn ahead(&mut self, border: u64) {
        self.execution.deliver(Ordered::Ahead(border));
    }

    /// A border was delivered, at which this is to be said of the other parts: the state there becomes an image.
    pub(crate) fn border(&mut self, of_others: Box<System>) {
        self.borders.push_back(of_others);
        self.execution.deliver(Ordered::Border);
    }

    /// What became final next, if anything did.
    pub(crate) fn finished(&mut self, now: Time) -> Option<Finished> {
        loop {
            match self.execution.next(now, &mut self.outcomes)? {
                Final::Nothing | Final::Ahead(_, None) => {
                    let events = self.outcomes.take_events();
                    self.tell(events);
                }
                Final::Ahead(border, Some(version)) => return Some(Finished::Ahead(border, version)),
                Final::Batch(seq) => {
                    self.counts.requests += self.outcomes.list().len() as u64;
                    let events = self.outcomes.take_events();
                    self.tell(events);
                    let (delivered, instance, proposed) = self.under_way.pop_front()?;
                    assert_eq!(seq, delivered, "INV-EXEC-7: batches become final in the order of delivery");
                    return Some(Finished::Batch { instance, proposed });
                }
                Final::Image(image) => return Some(Finished::Image(self.borders.pop_front()?, image)),
            }
        }
    }

    /// Sends the outcomes of the last batch to those who wait. `proposed`: it was proposed here, so that this replica answers what it only
    /// refuses, too; where members may lie a client counts what each of them says.
    pub(crate) fn reply(&mut self, proposed: bool, answerers: Answerers) {
        let executor = self.execution.state();
        let owns = Some(executor).filter(|_| self.may_lie && executor.has_own_replies());
        let answers = |session| answerers.answer(session);
        self.routes.route(&self.outcomes, self.may_lie || proposed, answers, owns);
    }

    /// Whether several leaders may propose what follows what was delivered. Once they did, it stays so: leases that were renewed by one of
    /// them may end by another one.
    pub(crate) fn leads_many(&self) -> bool {
        self.merge.next_generation().is_some() || self.merge.generation() != Generation::begin(1)
    }

    /// Execution is told how many leaders there may be.
    pub(crate) fn meet_leaders(&mut self) {
        let (many, liars) = (self.leads_many(), self.may_lie);
        self.execution.state_mut().set_leaders(many, liars);
    }

    /// The cluster works at another feature level.
    pub(crate) fn set_level(&mut self, level: u32) {
        self.execution.set_level(level);
    }

    /// A change of the membership is done: the service hears it where that stands in the order.
    pub(crate) fn members_changed(&mut self, now: MembershipNow) {
        self.execution.deliver(Ordered::Members(now));
    }

    /// From the next border on there are so many instances.
    pub(crate) fn change_instances(&mut self, count: u16) -> Result<Generation, Refused> {
        self.merge.change(count)
    }

    /// The next no-op that an instance is to propose, which leads here.
    pub(crate) fn fill(&mut self, instance: InstanceId) -> Option<Slot> {
        self.merge.fill(instance)
    }

    /// Names the instances that are led elsewhere and lack what is waited for here.
    pub(crate) fn asks(&mut self, ask: impl FnMut(InstanceId, Place)) {
        self.merge.asks(ask);
    }

    /// Copies a part of the state ahead of the next image.
    pub(crate) fn prepare_image(&mut self, bytes: usize) {
        self.execution.state_mut().prepare_image(bytes);
    }

    /// Another state takes the place of this one.
    ///
    /// # Errors
    /// When it can not be restored.
    pub(crate) fn restore(&mut self, system: &[u8], objects: &Version) -> Result<(), CheckpointError> {
        self.under_way.clear();
        self.borders.clear();
        self.execution.restore(system, objects)?;
        let restored = self.execution.state_mut().take_events();
        self.tell(restored);
        Ok(())
    }

    /// The global log goes on from a checkpoint: from a later place, or from an earlier one, after which all is handed on again.
    ///
    /// # Errors
    /// When it does not fit.
    pub(crate) fn jump(&mut self, system: &System, window: u64) -> Result<(), Halt> {
        let unusable = |why: &str| Halt::CheckpointUnusable {
            why: format!("the checkpoint of seq {} does not fit into the global log: {why}", system.seq),
        };
        let checkpoint = system.merge(window).ok_or_else(|| unusable("its generations"))?;
        let done = match checkpoint.seq >= self.merge.seq() {
            true => self.merge.jump(&checkpoint),
            false => self.merge.begin_again(&checkpoint),
        };
        done.map_err(|why| unusable(&why.to_string()))
    }

    /// A leader does not have the log any more before this record of an instance. Gives the seq that a checkpoint has to reach. `alone`: there is
    /// no other instance. Of many nobody knows which seq such a record has. A checkpoint that is here already is no help: the leader's log may
    /// begin after a record that has no seq.
    pub(crate) fn lacks(&self, instance: InstanceId, slot: Slot, alone: bool) -> Seq {
        let next = self.merge.seq().next();
        if alone { self.merge.estimate(instance, RecordIndex(slot.number())).max(next) } else { next }
    }

    /// Notes that replies to these requests go to this connection. What can not be bound is over a limit and is answered by nobody; its
    /// client asks again. `takes`: whether requests of such a kind are taken at all.
    ///
    /// # Errors
    /// When the client does what none may, in words: it speaks for its own sessions only.
    pub(crate) fn bind(
        &mut self,
        (conn, client): (ConnId, ClientId),
        requests: &[u8],
        takes: impl Fn(&RequestHeader) -> Result<(), &'static str>,
    ) -> Result<(), String> {
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
                    // It is over, or was opened by a batch that was not executed here yet: nobody knows whose it is.
                    None => {}
                }
            }
        }
        Ok(())
    }

    /// The connection to which replies of a session go, if it is here.
    pub(crate) fn conn(&self, session: SessionId) -> Option<ConnId> {
        self.routes.conn(session)
    }

    /// How a connection wants to be answered.
    pub(crate) fn mode(&self, conn: ConnId) -> AnswerMode {
        self.routes.mode(conn)
    }

    /// A client says how it wants to be answered.
    pub(crate) fn set_mode(&mut self, conn: ConnId, mode: AnswerMode) {
        self.routes.set_mode(conn, mode);
    }

    /// The end of a turn: replies leave.
    pub(crate) fn send_replies(&mut self, out: &mut Effects) {
        if self.routes.is_empty() {
            return self.send_answers(out);
        }
        for (conn, mut body) in self.routes.drain() {
            write_position(&mut body, self.execution.state().seq());
            out.send(conn, OutFrame::new(FrameKind::Replies, &[], vec![Bytes::from(body)]));
        }
        self.send_answers(out);
    }

    /// Panics with the name of an invariant that does not hold; `thorough` scans everything.
    pub(crate) fn invariants(&self, thorough: bool) {
        self.merge.invariants(thorough);
    }
}

#[cfg(test)]
mod tests;
