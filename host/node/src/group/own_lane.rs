//! The lane of a pillar, which has a lane of its own: it takes what the main lane tells it, proposes, and sends messages of its protocol.
//! Of the other parts it knows the facts that the main lane told it last. Facts may be old. Old bounds of the merge let it propose less,
//! never more; an old time is the time of a replica that executes late; and what it takes for a new request may be executed already, which
//! execution notices.
//!
//! Tests: own_lane/tests.rs, apart/tests.rs, check/sim (`--apart true`).

use super::admitting::ANSWER_BYTES;
use super::apart::Known;
use super::bridge::{Mail, Reports};
use super::direct::Direct;
use super::inbox::Offered;
use super::pillar::{Ended, Pillar};
use super::{Inbox, MESSAGE_BYTES, Pace};
use crate::effects;
use crate::engine::Clock;
use crate::witness::Sealed;
use bytes::Bytes;
use quorate_admit::{Executed, Terms, verify};
use quorate_merge::{Bounds, Proposer, RecordIndex};
use quorate_order::{Effect, Effects, Input, OrderMessage, Protocol};
use quorate_types::{
    AgreedTime, ConnId, InstanceId, Random, RecordId, ReplicaId, Room, Seq, SessionId, Slot,
};
use quorate_types::{RequestNumber, Span, Time, View, planted};
use quorate_wire::{Batch, BatchHeader, ClientMessage, Frame, FrameKind, OutFrame, Ruling, Verified};
use quorate_wire::{read_order, write_position};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// What a pillar on a lane of its own knows of the other parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Facts {
    /// The view of the instance that the main lane has heard of last.
    pub(crate) view: View,
    /// How far a leader may propose.
    pub(crate) bounds: Option<Bounds>,
    /// The last record of this instance that was handed to the merge.
    pub(crate) handed: RecordIndex,
    /// Whether there are several instances, so that others may wait for no-ops of this one.
    pub(crate) many: bool,
    /// Agreed time, as this replica extends it.
    pub(crate) clock: Clock,
    /// When the main lane said so. A clock that is older than a time-out is not extended: meanwhile the process may have been stopped, or no
    /// leader may have been there, and such a time does not count.
    pub(crate) at: Time,
    /// The agreed time of what was executed, if proposals name it.
    pub(crate) base: Option<AgreedTime>,
    /// How often the main lane has heard that this lane had been stopped. Before it has heard of each time, its clock may count such a time.
    pub(crate) wakes: u64,
    /// The ruling about results that is due in this instance, if this replica leads.
    pub(crate) ruling: Option<Ruling>,
    /// Whether so much is not final that requests of clients have to wait.
    pub(crate) far: bool,
    /// How far this replica has executed.
    pub(crate) executed: Seq,
    /// The room of a majority.
    pub(crate) room: Room,
    /// Whether there will be more room in a moment.
    pub(crate) room_soon: bool,
    /// The connections on which messages of this instance reach other members.
    pub(crate) ways: Vec<(ReplicaId, ConnId)>,
    /// The connections on which messages of other members for this instance come in.
    pub(crate) links: Vec<(ConnId, ReplicaId)>,
    /// Whether messages may bring records: the merge takes more of this instance, and the log has room.
    pub(crate) fits: bool,
}

impl Facts {
    /// The member whose messages for this instance come in on a connection.
    fn member_at(&self, conn: ConnId) -> Option<ReplicaId> {
        self.links.iter().find(|(of, _)| *of == conn).map(|(_, from)| *from)
    }
}

/// Requests of clients that execution does not know, in the order in which they came.
#[derive(Debug)]
pub(crate) struct Passed {
    /// The connection of the client, if it is connected here.
    pub(crate) conn: Option<ConnId>,
    /// The requests.
    pub(crate) requests: Bytes,
    /// The last number that each of their sessions executed.
    pub(crate) last: BTreeMap<SessionId, RequestNumber>,
    /// The view of the instance when execution was asked.
    pub(crate) view: View,
    /// The last record of the instance that was handed to the merge by then.
    pub(crate) handed: RecordIndex,
    /// Whether everything that was handed to the merge by then was executed.
    pub(crate) settled: bool,
    /// Whether they free room.
    pub(crate) frees: bool,
    /// Whether the client may run everything.
    pub(crate) may_all: bool,
}

/// An input of a pillar from the main lane.
#[derive(Debug)]
pub(super) enum Told {
    /// The protocol starts. It may go on from a checkpoint that was installed before.
    Start(Option<Input>),
    /// An input of the protocol.
    Step(Input),
    /// A message of a member, and about how many bytes it has.
    Receive(Verified<OrderMessage>, usize),
    /// The records of the instance up to this one are durable.
    Durable(RecordId),
    /// A batch of the main lane, to be proposed before requests of clients.
    Propose(Batch),
    /// Requests of clients.
    Requests(Passed),
    /// These requests are no longer in flight.
    Ended(Vec<Ended>),
    /// Execution goes on from a checkpoint, so it is unknown which requests are in flight.
    Jumped,
    /// A connection is gone, or its requests go through another instance.
    Unbound(ConnId),
    /// All requests are forgotten.
    Forget,
}

/// What the main lane hears of one turn.
#[derive(Debug, Default)]
pub(super) struct Turn {
    /// Effects of the protocol for other parts.
    pub(super) effects: Vec<Effect>,
    /// How many batches of the main lane were taken.
    pub(super) taken: usize,
    /// The bytes of frames that the lane took itself.
    pub(super) bytes: usize,
    /// The members who sent such frames.
    pub(super) signs: BTreeSet<ReplicaId>,
    /// The batches that were made of requests.
    pub(super) sealed: VecDeque<Sealed>,
    /// How many times requests were taken.
    pub(super) passed: usize,
    /// The slot of the last batch that was proposed.
    pub(super) proposed: Option<Slot>,
    /// Whether requests wait although the merge has no room.
    pub(super) waits_for_room: bool,
    /// How many bytes of messages were taken.
    pub(super) received: usize,
    /// Whether batches wait for a newer clock.
    pub(super) is_late: bool,
    /// The deadline that this turn took much too late: the process was stopped.
    pub(super) woke: Option<Time>,
}

/// What stays as it is as long as the pillar stands.
#[derive(Debug)]
pub(super) struct Setting {
    pub(super) me: ReplicaId,
    pub(super) id: InstanceId,
    pub(super) protocol: Protocol,
    pub(super) pace: Pace,
    /// How long a leader may be silent before the others want another one.
    pub(super) patience: Span,
}

/// A pillar that has a lane of its own, and what its lane knows; see the module.
#[derive(Debug)]
pub struct OwnLane {
    setting: Setting,
    pub(super) pillar: Pillar,
    pub(super) proposer: Proposer,
    facts: Option<Facts>,
    /// The sessions whose requests it takes without the main lane.
    direct: Direct,
    /// Whether the protocol has started.
    started: bool,
    /// How often this lane had been stopped.
    wakes: u64,
    /// Batches of the main lane that are not proposed yet.
    ahead: VecDeque<Batch>,
    /// The last record that was handed to the main lane.
    pub(super) decided: Slot,
    /// The last ruling that was proposed in this leadership.
    ruled: Option<Ruling>,
    random: Random,
    effects: Effects,
    /// The buffer of the last answer, kept to be used again.
    answer: Vec<u8>,
    /// The bytes of answers that this turn may still send.
    answer_room: usize,
}

impl OwnLane {
    pub(super) fn new(setting: Setting, seed: u64, pillar: Pillar) -> Self {
        Self {
            setting,
            pillar,
            proposer: Proposer::default(),
            facts: None,
            direct: Direct::default(),
            started: false,
            wakes: 0,
            ahead: VecDeque::new(),
            decided: Slot::ZERO,
            ruled: None,
            random: Random::new(seed),
            effects: Effects::new(),
            answer: Vec::new(),
            answer_room: ANSWER_BYTES,
        }
    }

    /// Bytes of requests and batches that wait to be proposed.
    pub(super) fn waiting_bytes(&self) -> usize {
        let ahead: usize = self.ahead.iter().map(|batch| batch.bytes().len()).sum();
        self.pillar.admission.waiting_bytes() + ahead
    }

    /// A turn of the lane: the pillar takes its mail, what it may of the frames that came in on the lane, and its deadline if that has come.
    /// Gives a report for the main lane, if anything happened. Frames to send are among the effects.
    pub fn turn(
        &mut self,
        now: Time,
        mail: Mail,
        inbox: &mut Inbox,
        out: &mut effects::Effects,
    ) -> Option<Reports> {
        let due = self.deadline().filter(|at| *at <= now);
        let calls = !mail.is_empty() || due.is_some();
        if !calls && inbox.is_empty() {
            return None;
        }
        self.pillar.admission.at(now);
        let woke = due.filter(|at| now.since(*at) > self.setting.patience);
        self.wakes += u64::from(woke.is_some());
        let mut turn = Turn { woke, ..Turn::default() };
        // The newest facts come first: messages must leave over the connections that there are now.
        if let Some(facts) = mail.facts {
            self.facts = Some(*facts);
        }
        for told in mail.told {
            self.take(now, told, &mut turn, out);
        }
        inbox.offer(|conn, frame| self.offered(now, (conn, frame), &mut turn, out));
        if !calls && turn.bytes == 0 {
            return None;
        }
        if self.deadline().is_some_and(|at| at <= now) {
            self.step(now, Input::Deadline, &mut turn, out);
        }
        self.end_turn(now, &mut turn, out);
        let known = Known::of(self);
        Some(Reports(vec![(turn, known)]))
    }

    /// When the pillar must have a turn, if no mail comes.
    pub fn deadline(&self) -> Option<Time> {
        self.started.then(|| self.pillar.deadline()).flatten()
    }

    /// Takes an input.
    fn take(&mut self, now: Time, told: Told, turn: &mut Turn, out: &mut effects::Effects) {
        let effects = &mut self.effects;
        match told {
            Told::Start(installed) => {
                self.started = true;
                self.pillar.start(now, installed, effects);
            }
            Told::Receive(message, bytes) => {
                turn.received += bytes;
                self.pillar.order.step(now, Input::Receive(message), effects);
            }
            Told::Step(input) => {
                if let Input::Installed { slot, .. } = &input {
                    self.decided = *slot;
                }
                self.pillar.order.step(now, input, effects);
            }
            Told::Durable(record) => self.pillar.is_durable(now, record, effects),
            Told::Propose(batch) => {
                turn.taken += 1;
                self.ahead.push_back(batch);
            }
            Told::Requests(passed) => {
                turn.passed += 1;
                self.admit(&passed, out);
            }
            Told::Ended(requests) => {
                for request in requests {
                    if let Ended::Refused(session, _) = request {
                        self.direct.refused(session);
                    }
                    self.pillar.ended(request);
                }
            }
            Told::Unbound(conn) => self.direct.unbound(conn),
            Told::Jumped => {
                self.direct.forget();
                self.pillar.admission.jumped();
            }
            Told::Forget => {
                self.direct.forget();
                self.pillar.admission.reset();
            }
        }
        self.settle(turn, out);
    }

    /// Ends a turn: proposes what may be proposed, and sends messages whose records are durable.
    fn end_turn(&mut self, now: Time, turn: &mut Turn, out: &mut effects::Effects) {
        self.begin_to_propose();
        self.propose_all(now, turn, out);
        self.fill(now, turn, out);
        while let Some((to, message)) = self.pillar.release() {
            self.send(to, &message, out);
        }
        turn.sealed = self.pillar.take_sealed();
        turn.waits_for_room = self.waiting_bytes() > 0 && self.pillar.standing().leading;
        self.answer_room = ANSWER_BYTES;
    }

    /// Carries out the effects of the protocol, until there are none: messages leave, and the rest is for other parts.
    fn settle(&mut self, turn: &mut Turn, out: &mut effects::Effects) {
        let mut list = std::mem::take(&mut self.effects);
        for effect in list.drain() {
            let Some(effect) = self.pillar.settle(effect) else { continue };
            match &effect {
                Effect::Send { to, message, .. } => {
                    self.send(*to, message, out);
                    continue;
                }
                Effect::Decided { slot, .. } => self.decided = *slot,
                Effect::LeaderChanged { .. } => {
                    self.proposer = Proposer::default();
                    self.ahead.clear();
                    self.ruled = None;
                    self.direct.forget();
                    turn.proposed = None;
                }
                _ => {}
            }
            turn.effects.push(effect);
        }
        self.effects = list;
    }

    fn send(&self, to: ReplicaId, message: &OrderMessage, out: &mut effects::Effects) {
        let ways = self.facts.iter().flat_map(|facts| &facts.ways);
        // A message to a member that is not connected is lost, as it would be on the way.
        if let Some((_, conn)) = ways.into_iter().find(|(member, _)| *member == to) {
            out.send(*conn, message.frame(self.setting.id));
        }
    }
}

/// Requests.
impl OwnLane {
    /// Admits requests. While another replica leads, they are dropped: the main lane tells the client who leads.
    fn admit(&mut self, passed: &Passed, out: &mut effects::Effects) {
        let Some(facts) = self.facts.as_ref().filter(|_| self.pillar.leader() == Some(self.setting.me))
        else {
            return;
        };
        let standing = self.pillar.standing();
        let terms = Terms {
            in_flight: standing.in_flight_bytes,
            room: facts.room,
            room_soon: facts.room_soon,
            settled: passed.settled
                && standing.settled
                && passed.view == self.pillar.view()
                && passed.handed.0 >= self.decided.number(),
            forbids: standing.settled,
            answer_bytes_max: self.answer_room,
        };
        self.direct.learn(passed);
        let mut answer = if passed.conn.is_some() { std::mem::take(&mut self.answer) } else { Vec::new() };
        self.pillar.admission.permitted_requests(
            &passed.requests,
            terms,
            |session, _| passed.last.get(&session).map_or(Executed::NoSession, |last| Executed::Not(*last)),
            |_| true,
            |_, _| passed.frees,
            &mut answer,
        );
        if let Some(conn) = passed.conn {
            self.answer_room = self.answer_room.saturating_sub(answer.len());
            if !answer.is_empty() {
                write_position(&mut answer, facts.executed);
                out.send(conn, OutFrame::new(FrameKind::Replies, &answer, vec![]));
                answer.clear();
            }
            self.answer = answer;
        }
    }
}

/// Frames that come in on the lane.
impl OwnLane {
    /// Takes a frame, if the lane knows all that it must for that.
    fn offered(
        &mut self,
        now: Time,
        (conn, frame): (ConnId, &Frame),
        turn: &mut Turn,
        out: &mut effects::Effects,
    ) -> Offered {
        let taken = match frame.kind {
            FrameKind::Order if !self.is_mine(frame) => return Offered::Other,
            FrameKind::Order => self.take_message(now, (conn, frame), turn, out),
            FrameKind::Requests => self.take_requests((conn, frame), out),
            _ => None,
        };
        if taken.is_none() {
            return Offered::Refused;
        }
        turn.bytes += frame.payload.len() + MESSAGE_BYTES;
        Offered::Taken
    }

    /// A message of a member, while messages may bring records.
    fn take_message(
        &mut self,
        now: Time,
        (conn, frame): (ConnId, &Frame),
        turn: &mut Turn,
        out: &mut effects::Effects,
    ) -> Option<()> {
        let facts = self.facts.as_ref().filter(|facts| facts.fits && self.started)?;
        let from = facts.member_at(conn)?;
        let (_, message) =
            verify(from, frame.payload.clone(), |payload| self.setting.protocol.decode(payload)).ok()?;
        turn.signs.insert(from);
        self.step(now, Input::Receive(message), turn, out);
        Some(())
    }

    /// Requests of sessions that the lane knows, while there is room for everything.
    fn take_requests(&mut self, (conn, frame): (ConnId, &Frame), out: &mut effects::Effects) -> Option<()> {
        let facts = self.facts.as_ref().filter(|facts| facts.room == Room::Data)?;
        if self.pillar.leader() != Some(self.setting.me) || !self.pillar.standing().leading {
            return None;
        }
        let last = self.direct.takes(conn, &frame.payload, &self.pillar.admission)?;
        let Ok(ClientMessage::Requests(requests)) = ClientMessage::decode(frame.clone()) else { return None };
        let (view, handed) = (self.pillar.view(), facts.handed);
        let passed = Passed {
            conn: Some(conn),
            requests,
            last,
            view,
            handed,
            settled: false,
            frees: false,
            may_all: true,
        };
        self.admit(&passed, out);
        Some(())
    }

    fn is_mine(&self, frame: &Frame) -> bool {
        read_order(frame.payload.clone()).is_ok_and(|(id, ..)| id == self.setting.id)
    }

    /// Whether the lane knows the connection of a frame.
    pub(super) fn knows(&self, conn: ConnId, frame: &Frame) -> bool {
        match frame.kind {
            FrameKind::Order => {
                let from = self.facts.as_ref().and_then(|facts| facts.member_at(conn));
                from.is_some() && self.is_mine(frame)
            }
            _ => self.direct.knows(conn),
        }
    }
}

/// Proposals.
impl OwnLane {
    /// The leader may propose once everything that was decided before its view was handed to the merge [merge L12], and once the main lane
    /// has heard of its view: only then the clock counts the time without a leader.
    fn begin_to_propose(&mut self) {
        let Some(Facts { view, bounds: Some(bounds), handed, .. }) = &self.facts else { return };
        let heard = *view == self.pillar.view() && handed.0 >= self.decided.number();
        let has_all = heard || planted("proposes-before-handed");
        if self.pillar.standing().settled && has_all {
            self.proposer.settle(bounds);
        }
    }

    fn may_propose(&self) -> bool {
        let bounds = self.facts.as_ref().and_then(|facts| facts.bounds);
        self.pillar.standing().leading && bounds.is_some_and(|bounds| self.proposer.room(&bounds) > 0)
    }

    fn propose_all(&mut self, now: Time, turn: &mut Turn, out: &mut effects::Effects) {
        while self.may_propose()
            && let Some(batch) = self.ahead.pop_front()
        {
            self.propose(now, batch, turn, out);
        }
        let Some(Facts { bounds: Some(bounds), far, .. }) = self.facts else { return };
        let ruling = self.ruling();
        let is_wanted = || ruling.is_some() || self.proposer.is_wanted(&bounds);
        if self.pillar.gathers(now, &self.setting.pace, is_wanted) {
            return;
        }
        while self.pillar.admission.waiting_bytes() > 0 && self.may_propose() && !far {
            let Some(header) = self.header(now, turn) else { return };
            let Some(batch) = self.pillar.next_batch(now, &self.setting.pace, || header) else { break };
            self.propose(now, batch, turn, out);
        }
        let most = if self.setting.pace.pipelined { self.setting.pace.batches_max } else { 1 };
        if self.ruling().is_some() && self.may_propose() && self.pillar.standing().in_flight < most {
            self.propose_ruling(now, turn, out);
        }
    }

    /// The ruling that is due and was not proposed.
    fn ruling(&self) -> Option<Ruling> {
        self.facts.as_ref()?.ruling.filter(|ruling| self.ruled != Some(*ruling))
    }

    /// Proposes the ruling that is due in a batch of its own.
    fn propose_ruling(&mut self, now: Time, turn: &mut Turn, out: &mut effects::Effects) {
        let Some(header) = self.header(now, turn) else { return };
        let mut bytes = Vec::new();
        Batch::begin(&mut bytes);
        self.propose(now, Batch::seal(bytes, header), turn, out);
    }

    /// The header of a batch that is proposed now; none while the clock is old.
    fn header(&mut self, now: Time, turn: &mut Turn) -> Option<BatchHeader> {
        let Facts { clock, base, at, wakes, .. } = self.facts.as_ref()?;
        let is_late = now > at.plus(self.setting.patience) || *wakes < self.wakes;
        if is_late && !planted("old-clock-extended") {
            turn.is_late = true;
            return None;
        }
        let (time, base, ruling) = (clock.read(now), *base, self.ruling());
        Some(BatchHeader { time, base, seed: self.random.next(), ruling, ..BatchHeader::default() })
    }

    fn propose(&mut self, now: Time, batch: Batch, turn: &mut Turn, out: &mut effects::Effects) {
        let Some(Facts { bounds: Some(bounds), .. }) = &self.facts else { return };
        turn.proposed = Some(self.proposer.propose(bounds));
        self.ruled = batch.header().ruling.or(self.ruled);
        self.step(now, Input::Propose(batch), turn, out);
    }

    /// Proposes a no-op if the merge waits for one. [merge L14]
    fn fill(&mut self, now: Time, turn: &mut Turn, out: &mut effects::Effects) {
        let Some(Facts { bounds: Some(bounds), many: true, .. }) = &self.facts else { return };
        // A leader may have no more than this slot.
        if self.proposer.is_wanted(bounds) && self.ruling().is_some() && self.may_propose() {
            self.propose_ruling(now, turn, out);
        }
        let Some(Facts { bounds: Some(bounds), .. }) = &self.facts else { return };
        if self.pillar.standing().leading
            && let Some(target) = self.proposer.fill(bounds)
        {
            self.step(now, Input::Propose(Batch::no_op(target)), turn, out);
        }
    }

    fn step(&mut self, now: Time, input: Input, turn: &mut Turn, out: &mut effects::Effects) {
        self.pillar.order.step(now, input, &mut self.effects);
        self.settle(turn, out);
    }
}

#[cfg(test)]
mod tests;
