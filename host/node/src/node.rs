//! The node: what it owns, and which part of it takes which input.

use crate::config::NodeConfig;
use crate::effects::{Effect, Effects, Event, Input};
use crate::engine::{self, Engine};
use crate::gate::{self, Access, Change, Conn, Gate};
use crate::group::{self, Group, Groups};
use crate::guide::Guide;
use crate::journal::Journal;
use crate::keeping::{In, Keeping, Why};
use crate::leading::{self, Leading};
use crate::reconfigure::Reconfigure;
use crate::trimmed::Trimming;
use crate::turn::Turn;
use quorate_admit::Intake;
use quorate_execute::Executor;
use quorate_log::{AppendError, Record};
use quorate_merge::INSTANCES_MAX;
use quorate_order::{Input as OrderInput, Nature, OrderMessage};
use quorate_types::{ClientId, ConnId, Halt, MembershipId, ReplicaId, Time, Trust, View};
use quorate_wire::{Frame, FrameKind, Hello, Memberships, Role, Sight, StateMessage, Verified, read_room};

/// One lane of a replica: every stage of it, all instances, no I/O.
pub struct Node {
    pub(crate) config: NodeConfig,
    /// What the protocol is like, as it is configured.
    pub(crate) nature: Nature,
    pub(crate) gate: Gate,
    /// Those of instance 1, 2, ...
    pub(crate) groups: Groups,
    pub(crate) engine: Engine,
    pub(crate) guide: Guide,
    pub(crate) reconfigure: Reconfigure,
    pub(crate) journal: Journal,
    pub(crate) turn: Turn,
    pub(crate) intake: Intake,
    pub(crate) leading: Leading,
    pub(crate) keeping: Keeping,
    /// The log is being trimmed.
    pub(crate) trimming: Option<Trimming>,
    /// The time of the last step.
    pub(crate) now: Time,
}

impl Node {
    /// What all instances say of who takes part.
    pub(crate) fn meet_all_members(&mut self) {
        for at in 0..self.groups.len() {
            self.on_members(at, self.groups[at].status().membership);
        }
    }

    /// Says which clients may use which keys; without a word all may use all.
    pub fn permit(&mut self, access: Access) {
        self.gate.permit(access);
    }

    /// Begins: dials the others, starts the protocol. What recovery rewrote is synced by now.
    pub fn start(&mut self, now: Time, out: &mut Effects) {
        self.engine.start(now);
        self.keep(now, In::Begin, out);
        self.on_log_damage(now, out);
        if let Some(record) = self.gate.begin(self.config.members.me(), self.config.seed) {
            self.write_life(record, out);
        }
        self.begin(now, out);
        self.dial(now, out);
        self.on_turn_end(now, out);
    }

    /// Tells of damage that was found in the log at the start. If what this replica acknowledged may be among it, it takes no part
    /// before it has a checkpoint that holds that.
    fn on_log_damage(&mut self, now: Time, out: &mut Effects) {
        for damage in self.journal.log().damage() {
            let text = format!(
                "the log on this disk is damaged at byte {}: {} records are missing, and it goes on at byte {}",
                damage.position,
                damage.records(),
                damage.end
            );
            out.event(Event::State { text, bad: true });
        }
        if self.needs_checkpoint() {
            // Where the log is whole it is the checkpoint after which it begins that is lost.
            let why = if self.journal.log().damage().is_empty() { Why::Damaged } else { Why::Lost };
            self.keep(now, In::Lacks { at_least: self.engine.merge().seq().next(), why }, out);
        }
    }

    /// Writes down whose life is whose. There is always room: it happens before anything else is written.
    fn write_life(&mut self, record: Record, out: &mut Effects) {
        match self.journal.note(record) {
            Ok(id) => self.gate.wrote_life(id),
            Err(why) => out.push(Effect::Halt(Halt::LogWriteFailed { why: why.to_string() })),
        }
    }

    /// Takes part in agreement from the moment at which all members are known.
    pub(crate) fn begin(&mut self, now: Time, out: &mut Effects) {
        let waits = self.keeping.awaits_state() || !self.unknown_members().is_empty();
        if self.has_begun() || waits || self.needs_checkpoint() {
            return;
        }
        let present = |group: &&mut Group| group.stay().may_begin();
        self.groups.iter_mut().filter(present).for_each(|group| group.start(now));
        self.resume_change(now, out);
        for instance in self.groups.iter_mut() {
            instance.greet(now);
        }
        self.after_order(now, out);
    }

    /// Whether all members have been there once, so that this replica takes part.
    pub fn has_begun(&self) -> bool {
        self.first().has_started()
    }

    /// Whether an instance must not start before there is a checkpoint of the others.
    pub(crate) fn needs_checkpoint(&self) -> bool {
        self.groups.iter().any(|instance| instance.restored().needs_checkpoint)
    }

    /// Members that were never heard of. Where somebody joined or left, the log says whose life is whose: nobody has to be waited for.
    pub(crate) fn unknown_members(&self) -> Vec<ReplicaId> {
        let changed = self.config.members.number() > MembershipId::FIRST
            || self.reconfigure.roster().current().is_some();
        let later = |instance: &Group| instance.status().membership.now().number() > MembershipId::FIRST;
        if changed || self.groups.iter().any(later) {
            return Vec::new();
        }
        let members = self.config.members.all().iter().map(|member| member.replica);
        members.filter(|replica| !self.gate.lives().is_known(*replica)).collect()
    }

    /// Dials who is due, once this replica's own life is durable: nobody may hear of one that a crash could take back.
    fn dial(&mut self, now: Time, out: &mut Effects) {
        self.step_gate(now, gate::In::Deadline, out);
    }

    fn step_gate(&mut self, now: Time, input: gate::In, out: &mut Effects) {
        self.gate.step(now, (&self.config, self.journal.log().durable()), input, out);
    }

    /// Reacts to one input. `now` was read after what the input brings had arrived; that of [`Input::TurnEnd`] after everything in
    /// the turn had. A host that can be stopped between the two would answer reads by a lease that is over.
    pub fn step(&mut self, now: Time, input: Input, out: &mut Effects) {
        self.notice_pause(now);
        self.now = now;
        match input {
            Input::Frame { conn, frame } => self.on_frame(now, conn, frame, out),
            Input::TurnEnd => self.on_turn_end(now, out),
            Input::Written(id) => {
                self.journal.written(now, id, out);
                self.on_durable(now, out);
                self.dial(now, out);
            }
            Input::Synced(id) => {
                self.journal.synced(id);
                self.on_durable(now, out);
                self.dial(now, out);
            }
            Input::Prepared { segment, result } => self.on_prepared(now, segment, result, out),
            Input::Loaded { load, records } => self.on_loaded(now, load, &records, out),
            Input::Accepted { conn, from } => self.step_gate(now, gate::In::Accepted { conn, from }, out),
            Input::Identified { conn, identity } => {
                self.step_gate(now, gate::In::Identified { conn, identity }, out)
            }
            Input::Unsafe { conn, why } => {
                self.step_gate(now, gate::In::Unsafe { conn, why }, out);
                self.on_closed(now, conn, out);
            }
            Input::Dialed { conn, replica, link } => {
                self.step_gate(now, gate::In::Dialed { conn, replica, link }, out)
            }
            Input::DialFailed { replica, link } => {
                self.step_gate(now, gate::In::DialFailed { replica, link }, out)
            }
            Input::Closed(conn) => self.on_closed(now, conn, out),
            Input::Scrubbed { segment, result } => self.keep(now, In::Scrubbed { segment, result }, out),
            Input::Kept(report) => self.keep(now, In::Kept(report), out),
            Input::Deadline => self.on_deadline(now, out),
        }
    }

    /// When to call again with [`Input::Deadline`], if nothing arrives first.
    pub fn deadline(&self) -> Option<Time> {
        let peers = self.gate.deadline(self.journal.log().durable());
        let (reads, state) = (self.engine.reads_deadline(), self.keeping.deadline());
        let stall = self.journal.disk().stalls_at();
        let raise = self.reconfigure.deadline(&self.config.level);
        let answers = self.keeping.sound().then(|| self.engine.put_off_deadline()).flatten();
        let order = self.groups.iter().filter_map(Group::deadline).min();
        [
            order,
            self.leading.deadline(&self.look()),
            self.left_behind_at(),
            peers,
            reads,
            answers,
            self.journal.deadline(),
            state,
            stall,
            raise,
            self.tick_at(),
            self.overdue_at(),
            self.intake.deadline(),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// Whether a member may lie.
    pub(crate) fn may_lie(&self) -> bool {
        self.config.order.faults.may_lie()
    }

    /// How far the members are trusted.
    pub(crate) fn trust(&self) -> Trust {
        let members = u32::try_from(self.config.members.all().len()).unwrap_or(u32::MAX).max(1);
        self.config.order.faults.among(members)
    }

    /// The view that was announced last in the first instance.
    pub fn view(&self) -> View {
        self.first().view()
    }

    /// What was executed so far; for checks.
    pub fn executor(&self) -> &Executor {
        self.engine.executor()
    }

    /// Of each instance its view, whether it is led here, and how many questions for strong reads were answered by leases; for checks.
    pub fn leases(&self) -> Vec<(View, bool, u64)> {
        let me = Some(self.config.members.me());
        let of = |instance: &Group| {
            (instance.view(), instance.leader() == me, instance.status().answered_by_lease)
        };
        self.groups.iter().map(of).collect()
    }

    /// Panics with the name of an invariant that does not hold; `thorough` scans everything.
    pub fn invariants(&self, thorough: bool) {
        self.journal.invariants();
        self.engine.invariants(thorough);
        if thorough {
            self.intake.invariants();
            self.keeping.invariants();
        }
        for instance in self.groups.iter() {
            instance.invariants(thorough, self.journal.durable(instance.volume()));
        }
    }

    fn on_frame(&mut self, now: Time, conn: ConnId, frame: Frame, out: &mut Effects) {
        match self.gate.peers().conn(conn) {
            Some(Conn::From(replica, _)) => self.on_peer_frame(now, conn, replica, frame, out),
            Some(Conn::Better(_)) => {
                // What else it sends is for a member.
                if frame.kind == FrameKind::Members
                    && let Ok(memberships) = Memberships::decode(frame.payload)
                {
                    self.on_told(memberships);
                }
            }
            Some(Conn::Client(client)) => self.on_client_frame(now, conn, client, frame, out),
            Some(Conn::Admin) => self.on_admin_frame(now, conn, frame, out),
            Some(Conn::Stranger { .. }) => {
                let notice = self.notice_for(client_of(&frame));
                let known = self.gate.hello(now, (conn, frame), (&self.config, notice), out);
                if let Some((replica, record)) = known {
                    match self.journal.note(record) {
                        // Before the cluster began there is always room. Later it is a replica that joins, whose life counts from
                        // the membership on that makes it a voter.
                        Err(AppendError::NoRoom) if self.has_begun() => self.gate.unlearn(replica),
                        Err(why) => {
                            out.push(Effect::Halt(Halt::LogWriteFailed { why: why.to_string() }));
                        }
                        Ok(_) => self.begin(now, out),
                    }
                }
                if let Some(Conn::Client(_)) = self.gate.peers().conn(conn) {
                    self.tell_client(conn, out);
                }
                self.after_connections(now, out);
            }
            Some(Conn::Dialed { replica, link, .. }) => {
                self.step_gate(now, gate::In::Answer { conn, replica, link, frame }, out);
                if self.gate.peers().to(replica) == Some(conn) {
                    self.tell_members(conn, out);
                }
                self.after_connections(now, out);
            }
            Some(Conn::To(..)) => {
                self.reject(now, conn, "a member answers where it only listens".into(), out)
            }
            None => {}
        }
    }

    fn on_peer_frame(
        &mut self,
        now: Time,
        conn: ConnId,
        replica: ReplicaId,
        frame: Frame,
        out: &mut Effects,
    ) {
        self.step_gate(now, gate::In::Heard(replica), out);
        if frame.kind == FrameKind::State {
            return match StateMessage::decode(frame.payload) {
                Ok(message) => self.keep(now, In::Heard { from: replica, message }, out),
                Err(why) => self.reject(now, conn, why.to_string(), out),
            };
        }
        if frame.kind == FrameKind::Room {
            return match read_room(&frame.payload) {
                Ok(room) => self.lead(now, leading::In::Room(replica, room), out),
                Err(why) => self.reject(now, conn, why.to_string(), out),
            };
        }
        if frame.kind == FrameKind::Sight {
            return match Sight::decode(&frame.payload) {
                Ok(sight) => self.lead(now, leading::In::Sight(replica, sight), out),
                Err(why) => self.reject(now, conn, why.to_string(), out),
            };
        }
        if frame.kind == FrameKind::Members {
            return match Memberships::decode(frame.payload) {
                Ok(memberships) => self.on_told(memberships),
                Err(why) => self.reject(now, conn, why.to_string(), out),
            };
        }
        if frame.kind == FrameKind::CaughtUp {
            return self.on_caught_up(now, (conn, replica), &frame.payload, out);
        }
        if frame.kind == FrameKind::Fill {
            return self.on_fill(now, (conn, replica), &frame.payload, out);
        }
        if frame.kind == FrameKind::Requests {
            return self.on_sent_on(now, (conn, replica), frame, out);
        }
        if frame.kind != FrameKind::Order {
            return self.reject(now, conn, format!("a member sends {:?}", frame.kind), out);
        }
        match quorate_admit::verify(replica, frame.payload, |payload| self.config.order.decode(payload)) {
            Ok((instance, message)) => {
                let at = group::index_of(instance);
                let Some(instance) = self.groups.get_mut(at) else {
                    if (1..=INSTANCES_MAX).contains(&instance.number()) {
                        return; // as if lost: this replica did not execute yet that it comes
                    }
                    return self.reject(now, conn, format!("there is no instance {instance}"), out);
                };
                if !self.journal.fits(instance.volume(), self.engine.merge().is_open(instance.id()), || {
                    brings(instance, &message)
                }) {
                    return; // as if lost: the sender sends it again, and heartbeats still pass
                }
                instance.step(now, OrderInput::Receive(message));
                self.after_order(now, out);
            }
            Err(why) => self.reject(now, conn, why.to_string(), out),
        }
    }

    /// A connection broke the rules: it is counted and closed.
    pub(crate) fn reject(&mut self, now: Time, conn: ConnId, text: String, out: &mut Effects) {
        self.gate.reject(conn, text, out);
        self.on_closed(now, conn, out);
    }

    fn on_closed(&mut self, now: Time, conn: ConnId, out: &mut Effects) {
        self.engine.step(engine::In::Closed(conn));
        self.guide.forget(conn);
        self.keep(now, In::Left(conn), out);
        self.step_gate(now, gate::In::Closed(conn), out);
        self.after_connections(now, out);
    }

    /// Tells the protocol which members came and went.
    pub(crate) fn after_connections(&mut self, now: Time, out: &mut Effects) {
        for change in self.gate.changes(out) {
            match change {
                Change::Up(replica) => {
                    out.event(Event::PeerUp(replica));
                    self.reconfigure.met(replica);
                    self.connect(now, replica);
                    self.ask_again(replica);
                    self.keep(now, In::Connected(replica), out);
                    self.lead(now, leading::In::Connected(replica), out);
                }
                Change::Down(replica) => {
                    out.event(Event::PeerDown(replica));
                    self.reconfigure.lost(replica);
                    self.disconnect(now, replica, change);
                    self.keep(now, In::Disconnected(replica), out);
                    self.lead(now, leading::In::Lost(replica), out);
                }
                Change::Joined(replica) => self.connect(now, replica),
                Change::Cut(replica, _) => self.disconnect(now, replica, change),
            }
            self.after_order(now, out);
        }
    }

    /// Tells the instances whose messages get to a member and back.
    fn connect(&mut self, now: Time, replica: ReplicaId) {
        self.leading.majority_changed();
        for (at, instance) in self.groups.iter_mut().enumerate() {
            if self.gate.peers().is_up_in(replica, at) {
                instance.connects(now, replica);
            }
        }
    }

    /// Tells the instances whose messages may have been lost.
    fn disconnect(&mut self, now: Time, replica: ReplicaId, change: Change) {
        self.leading.majority_changed();
        for (at, instance) in self.groups.iter_mut().enumerate() {
            if change.cuts(at) {
                instance.disconnects(now, replica);
            }
        }
    }

    fn on_deadline(&mut self, now: Time, out: &mut Effects) {
        self.dial(now, out);
        self.after_connections(now, out);
        let mut due = false;
        for instance in self.groups.iter_mut() {
            due |= instance.on_deadline(now);
        }
        if due {
            self.after_order(now, out);
        }
        self.lead(now, leading::In::Deadline, out);
        self.look_behind(now, out);
        self.engine.expire_reads(now);
        self.keep(now, In::Deadline, out);
        self.check_stall(now, out);
        self.keep(now, In::ScrubInTurn, out);
        self.journal.on_deadline(now);
        self.look_at_late(now, out);
        self.watch_deadline(now, out);
    }
}

/// How many bytes each batch has that a message makes an instance write down.
fn brings(instance: &Group, message: &Verified<OrderMessage>) -> Vec<u64> {
    let mut brings = message.message().brings();
    if !brings.is_empty() {
        let known = instance.status().open;
        brings.retain(|batch| !known.contains(batch));
    }
    brings.iter().map(|batch| batch.bytes().len() as u64).collect()
}

/// Which client says hello, if one does.
fn client_of(frame: &Frame) -> Option<ClientId> {
    match (frame.kind, Hello::decode(frame.payload.clone())) {
        (FrameKind::Hello, Ok(Hello { role: Role::Client(client), .. })) => Some(client),
        _ => None,
    }
}
