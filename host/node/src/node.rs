//! The node: the parts of a replica, joined. This file has its start, its connections, and what others may ask of it. `pipeline.rs` has the
//! inputs and the order of a turn; `together.rs` has the operations that take several parts.

use crate::config::NodeConfig;
use crate::delivering;
use crate::effects::{Effect, Effects, Event, Input};
use crate::engine::{self, Answerers, Engine};
use crate::eras;
use crate::eras::Eras;
use crate::gate::{self, Access, Change, Conn, ConnClass, Gate};
use crate::group::{self, Admitting, Bridges, FIRST, Group, Groups, Locally, OwnLanes, Pace, role_of};
use crate::guide::{self, Guide};
use crate::journal::Journal;
use crate::keeping::{In, Keeping, Why};
use crate::lanes::Part;
use crate::leading::Leading;
use crate::memos::Memos;
use crate::reconfigure::Reconfigure;
use crate::report;
use crate::rulings::{self, Due, Rulings};
use crate::status::NodeStatus;
use quorate_admit::{Intake, KnownMember};
use quorate_execute::{Agreed, Executor, Publisher, Worked};
use quorate_log::{AppendError, Record};
use quorate_merge::Generation;
use quorate_order::{Input as OrderInput, visigoth::OracleAnswer};
use quorate_types::{
    ClientId, ConnId, Halt, InstanceId, MembershipId, ReplicaId, Room, Time, Trust, View, planted,
};
use quorate_wire::{Frame, LeaderNotice, Membership, Memberships, members_frame};
use std::collections::BTreeSet;
use std::net::IpAddr;

/// The most reads that may wait from clients that send much, while other clients wait.
const CONTENDED_READS: usize = 1024;

/// The parts that one part may read while it is stepped: references to them, and to no field of its own.
macro_rules! look {
    ($node:expr, groups) => {
        crate::group::Look {
            config: &$node.config,
            engine: &$node.engine,
            roster: $node.reconfigure.roster(),
        }
    };
    ($node:expr, guide) => {
        look!($node, guide { config, groups, engine, gate })
    };
    ($node:expr, leading) => {
        look!($node, leading { config, groups, engine, gate, journal, keeping })
    };
    ($node:expr, keeping) => {
        crate::keeping::Look {
            config: &$node.config,
            eras: &$node.eras,
            groups: &$node.groups,
            engine: &$node.engine,
            journal: &$node.journal,
            roster: $node.reconfigure.roster(),
        }
    };
    ($node:expr, reconfigure) => {
        look!($node, reconfigure { config, groups, engine, gate, keeping, journal, leading, rulings, eras })
    };
    ($node:expr, $part:ident { $($field:ident),+ }) => {
        crate::$part::Look { $($field: &$node.$field),+ }
    };
}
pub(crate) use look;

/// One replica: all stages and all instances, without I/O.
pub struct Node {
    pub(crate) config: NodeConfig,
    pub(crate) gate: Gate,
    pub(crate) intake: Intake,
    /// The groups of instances 1, 2, ...
    pub(crate) groups: Groups,
    pub(crate) admitting: Admitting,
    pub(crate) engine: Engine,
    pub(crate) guide: Guide,
    pub(crate) leading: Leading,
    pub(crate) reconfigure: Reconfigure,
    pub(crate) keeping: Keeping,
    pub(crate) eras: Eras,
    pub(crate) journal: Journal,
    pub(crate) rulings: Rulings,
    pub(crate) memos: Memos,
    /// The time of the last step.
    pub(crate) now: Time,
}

/// The start.
impl Node {
    /// Sets which clients may use which keys. If it is never called, all clients may use all keys.
    pub fn permit(&mut self, access: Access) {
        self.gate.permit(access);
    }

    /// The number of the era that this replica is in, and of the next one if this one is over.
    pub fn era(&self) -> (u64, Option<u64>) {
        (self.config.era.number, self.eras.next().map(|(era, _)| era.number))
    }

    /// Sets where the final state is published for readers on other threads.
    pub fn publish_to(&mut self, publisher: Box<dyn Publisher>) {
        self.engine.publish_to(publisher);
    }

    /// Gives the pillars of all instances lanes of their own, which the host steps. Before [`Self::start`].
    pub fn bridge(&mut self, bridges: Box<dyn Bridges>) {
        self.config.placement.groups = true;
        let (me, pace) = (self.config.members.me(), Pace::of(&self.config, &self.config.order.nature()));
        let (patience, seed) = (self.config.order.patience(), self.config.seed);
        let protocol = self.config.order.protocol;
        self.groups.stand_apart(OwnLanes { me, pace, patience, protocol, seed, bridges });
    }

    /// Starts: dials the other members and starts the protocol. Everything that recovery wrote again is synced before.
    pub fn start(&mut self, now: Time, out: &mut Effects) {
        if self.config.placement.groups && !self.groups.have_lanes() {
            self.bridge(Box::new(Locally));
            if !self.config.placement.gate {
                self.groups.keep_inboxes();
            }
        }
        self.engine.start(now);
        self.keep(now, In::Begin, out);
        self.on_log_damage(now, out);
        if let Some(record) = self.gate.begin(self.config.members.me(), self.config.seed) {
            self.write_life(record, out);
        }
        self.begin(now, out);
        self.dial(now, out);
        self.end_turn(now, out);
        self.ask_lanes(now, out);
    }

    /// Reports damage that was found in the log at the start. If the missing records may hold something that this replica acknowledged, it
    /// takes no part until it has a checkpoint that holds that.
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
            // If the log is whole, the checkpoint in front of it is lost.
            let why = if self.journal.log().damage().is_empty() { Why::Damaged } else { Why::Lost };
            self.keep(now, In::Lacks { at_least: self.engine.merge().seq().next(), why }, out);
        }
    }

    /// Writes down the lives of the members. There is always room: nothing else was written before.
    fn write_life(&mut self, record: Record, out: &mut Effects) {
        match self.journal.note(record) {
            Ok(id) => self.gate.wrote_life(id),
            Err(why) => out.push(Effect::Halt(Halt::LogWriteFailed { why: why.to_string() })),
        }
    }

    /// Takes part in agreement as soon as all members are known.
    pub(crate) fn begin(&mut self, now: Time, out: &mut Effects) {
        let waits = self.keeping.awaits_state() || !self.unknown_members().is_empty();
        if self.has_begun() || waits || self.needs_checkpoint() {
            return;
        }
        self.groups.begin(now);
        self.resume_change(now, out);
        self.groups.greet(now);
        self.after_order(now, out);
    }

    /// Whether an instance must not start until there is a checkpoint from other replicas.
    fn needs_checkpoint(&self) -> bool {
        self.groups.iter().any(|group| group.restored().needs_checkpoint)
    }
}

/// Instances wake and rest.
impl Node {
    /// Wakes an instance: it takes part once the log says where it begins. If the log has no room for that, the instance waits.
    pub(crate) fn wake(&mut self, now: Time, at: usize) {
        let begun = self.has_begun();
        let group = &mut self.groups[at];
        if let Some(birth) = group.stay().birth.as_ref().filter(|_| group.stay().unborn) {
            let unborn = self.journal.note(birth.to_record()).is_err();
            group.stay_mut().unborn = unborn;
        }
        if !begun || !self.groups.wake(at, now) {
            return;
        }
        let leader = role_of(self.groups[at].leader(), self.config.members.me());
        self.engine.step(engine::In::Led(self.groups[at].id(), leader));
        let listeners = self.listeners();
        let peers = self.gate.peers();
        let up: BTreeSet<ReplicaId> =
            peers.peers().map(|(id, ..)| id).filter(|id| peers.is_up_in(*id, at)).collect();
        let group = &mut self.groups[at];
        group.step(now, OrderInput::Listeners(listeners));
        group.finds(now, up);
        self.on_members(at, self.groups[at].status().membership);
    }

    /// Wakes the instances for which the log had no room.
    pub(crate) fn wake_waiting(&mut self, now: Time, out: &mut Effects) {
        for at in 0..self.groups.len() {
            if self.groups[at].stay().unborn {
                self.wake(now, at);
                self.after_order(now, out);
            }
        }
    }

    /// Closes the volumes of stays that no group knows any more.
    pub(crate) fn close_volumes(&mut self) {
        let live: BTreeSet<_> = self.groups.stays().map(|group| group.volume()).collect();
        self.journal.retain_volumes(|volume| live.contains(&volume));
    }
}

/// Connections.
impl Node {
    /// Steps the gate.
    pub(crate) fn at_gate(&mut self, now: Time, input: gate::In, out: &mut Effects) {
        self.gate.step(now, (&self.config, self.journal.log().durable()), input, out);
    }

    /// A frame came in.
    pub(crate) fn on_frame(&mut self, now: Time, conn: ConnId, frame: Frame, out: &mut Effects) {
        let arrived = self.gate.arrived(now, conn, frame, &self.config.order);
        self.on_arrived(now, conn, arrived, out);
    }

    /// A connection could not be made safe: it is gone.
    pub(crate) fn on_unsafe(&mut self, now: Time, conn: ConnId, why: String, out: &mut Effects) {
        self.at_gate(now, gate::In::Unsafe { conn, why }, out);
        self.on_closed(now, conn, out);
    }

    /// Dials the members that are due, once this replica's own life is durable: no other replica may hear of a life that a crash could take
    /// back.
    pub(crate) fn dial(&mut self, now: Time, out: &mut Effects) {
        self.at_gate(now, gate::In::Deadline, out);
    }

    /// A peer introduces itself.
    pub(crate) fn on_hello(
        &mut self,
        now: Time,
        (conn, client): (ConnId, Option<ClientId>),
        frame: Frame,
        out: &mut Effects,
    ) {
        let notice = self.notice_for(client);
        let learned = self.gate.hello(now, (conn, frame), (&self.config, notice), out);
        self.on_met(now, conn, learned, out);
        self.after_connections(now, out);
    }

    /// A peer introduced itself. It may be a member whose life this replica hears of for the first time.
    pub(crate) fn on_met(
        &mut self,
        now: Time,
        conn: ConnId,
        learned: Option<(ReplicaId, Record)>,
        out: &mut Effects,
    ) {
        if let Some((replica, record)) = learned {
            match self.journal.note(record) {
                // Before the cluster began there is always room. Later the member is one that joins: its life counts from the membership
                // that makes it a voter.
                Err(AppendError::NoRoom) if self.has_begun() => self.gate.unlearn(replica),
                Err(why) => out.push(Effect::Halt(Halt::LogWriteFailed { why: why.to_string() })),
                Ok(_) => self.begin(now, out),
            }
        }
        if let Some(Conn::Client(_)) = self.gate.peers().conn(conn) {
            eras::tell_era(self, conn, out);
            self.tell_client(conn, out);
        }
    }

    /// A member that was dialed answered.
    pub(crate) fn on_answered(&self, conn: ConnId, replica: ReplicaId, out: &mut Effects) {
        if self.gate.peers().to(replica) == Some(conn) {
            self.tell_members(conn, out);
        }
    }

    /// A connection broke the rules: it is counted and closed.
    pub(crate) fn reject(&mut self, now: Time, conn: ConnId, text: String, out: &mut Effects) {
        self.gate.reject(conn, text, out);
        self.on_closed(now, conn, out);
    }

    pub(crate) fn on_closed(&mut self, now: Time, conn: ConnId, out: &mut Effects) {
        self.forget_conn(now, conn, out);
        self.at_gate(now, gate::In::Closed(conn), out);
        self.after_connections(now, out);
    }

    /// Forgets everything that waits for this connection.
    pub(crate) fn forget_conn(&mut self, now: Time, conn: ConnId, out: &mut Effects) {
        self.engine.step(engine::In::Closed(conn));
        self.guide.forget(conn);
        self.gate.neighbours.closed(now, conn);
        self.keep(now, In::Left(conn), out);
    }

    /// A member can be reached: tells the instances whose messages reach it and come back.
    pub(crate) fn connect(&mut self, now: Time, replica: ReplicaId) {
        self.leading.majority_changed();
        let peers = self.gate.peers();
        self.groups.connects(now, replica, |at| peers.is_up_in(replica, at));
    }

    /// A member can not be reached: tells the instances whose messages may have been lost.
    pub(crate) fn disconnect(&mut self, now: Time, replica: ReplicaId, change: Change) {
        self.leading.majority_changed();
        self.groups.disconnects(now, replica, |at| change.cuts(at));
    }

    /// What a client asks from now on is answered elsewhere, or here once it asks again, over the main lane. What was decided before is answered.
    pub(crate) fn unbind(&mut self, conn: ConnId, of: Option<InstanceId>) {
        self.engine.step(engine::In::Unbound(conn, of));
        self.groups.iter_mut().for_each(|group| group.unbound(conn));
    }

    /// Execution goes on from another state.
    pub(crate) fn restored(&mut self) {
        self.rulings.restart();
        self.leading.restored();
    }

    /// Fewer members are enough for now in an instance, or are not any more. What the first instance says goes for results and states, too.
    pub(crate) fn on_few(&mut self, at: usize, sets: Vec<Vec<ReplicaId>>) {
        if at == FIRST {
            self.rulings.few_are_enough(sets.clone());
            self.keeping.few_are_enough(sets);
        }
    }

    /// What is agreed on now that fewer are enough. At the end of a turn: what follows steps groups, whose effects are carried out in order.
    pub(crate) fn look_at_few(&mut self, now: Time, out: &mut Effects) {
        if self.keeping.has_news_of_few() {
            self.keep(now, In::Few, out);
            self.after_order(now, out);
        }
    }

    /// Tells a member or a client that has just connected who the members are.
    pub(crate) fn tell_members(&self, conn: ConnId, out: &mut Effects) {
        if let Some(memberships) = self.reconfigure.to_tell() {
            out.send(conn, members_frame(memberships));
        }
    }

    /// Tells a client who the members are, and then again who leads: the client may not have known that replica before.
    pub(crate) fn tell_client(&self, conn: ConnId, out: &mut Effects) {
        if let Some(memberships) = self.reconfigure.to_tell() {
            out.send(conn, members_frame(memberships));
            out.send(conn, self.leader_notice(conn).frame());
        }
    }

    /// Others checked signatures, or tell that they will not.
    pub(crate) fn on_checked(&mut self, now: Time, id: u64, right: Option<Vec<bool>>, out: &mut Effects) {
        self.intake(now, out, |intake, facts, outs| intake.checked(facts, id, right, outs));
    }

    /// The oracle answered a question about an instance.
    pub(crate) fn on_oracle(&mut self, now: Time, of: InstanceId, answer: OracleAnswer, out: &mut Effects) {
        self.groups.step_named(now, of, OrderInput::Oracle(answer));
        self.after_order(now, out);
    }

    /// This replica was given a secret key. [mod_smart L175]
    pub(crate) fn on_secret(&mut self, now: Time, secret: &quorate_auth::Secret, out: &mut Effects) {
        self.groups.hold(now, &mut self.config.order.keys, secret);
        self.after_order(now, out);
    }

    /// An operator asks to hand leadership over. Gives the result in one line.
    pub(crate) fn transfer(&mut self, now: Time, to: Option<u16>, out: &mut Effects) -> String {
        match self.leading.may_hand_over(&look!(self, leading), to) {
            Ok(to) => {
                self.groups.step_led(now, &OrderInput::Transfer(to));
                self.after_order(now, out);
                "begun".into()
            }
            Err(why) => format!("error: {why}"),
        }
    }
}

/// Parts that have lanes of their own.
impl Node {
    /// Gives an input to another lane if it is for a part there. Whether it was.
    pub(crate) fn is_for_lane(&mut self, now: Time, input: &Input, out: &mut Effects) -> bool {
        match (input, self.gate.lane()) {
            (Input::Run(Part::Main), _) => return false,
            (Input::Run(Part::Gate), Some(lane)) => lane.take_turn(now, out),
            (Input::Run(Part::Group(id)), _) => self.groups.run_lane(now, *id, out),
            (Input::Frame { conn, frame }, Some(lane)) => lane.framed(now, *conn, frame.clone(), out),
            (input, Some(lane)) => match gate::In::of(input) {
                Some(happened) => lane.happened(now, happened, out),
                None => return false,
            },
            (Input::Frame { conn, frame }, None) => return self.groups.comes_in(*conn, frame, out),
            (Input::Closed(conn) | Input::Unsafe { conn, .. }, None) => {
                self.groups.lose(*conn);
                return false;
            }
            (_, None) => return false,
        }
        out.push(Effect::Run(Part::Main));
        true
    }

    /// Workers ran commands: more may be final, and delivered.
    pub(crate) fn on_worked(&mut self, now: Time, done: Worked, out: &mut Effects) {
        self.engine.worked(done);
        delivering::deliver(self, now, out);
        self.after_order(now, out);
    }

    /// The main lane hears everything that other lanes have said until now.
    pub(crate) fn hear_lanes(&mut self, now: Time, out: &mut Effects) {
        while self.hear_groups(now, out) {}
        for (conn, frame) in self.groups.hear_frames() {
            self.on_frame(now, conn, frame, out);
        }
        while let Some(said) = self.gate.hear() {
            self.on_gate(now, said, out);
        }
    }

    /// Waits until the lanes of all groups have taken everything, and hears what they say.
    pub(crate) fn call_in(&mut self, now: Time, out: &mut Effects) {
        if !self.config.placement.groups || planted("lane-not-called-in") {
            return;
        }
        self.groups.hold_lanes();
        loop {
            self.turn_lanes(now, out);
            // A lane may have had a turn before, of which the main lane did not hear yet.
            if !self.hear_groups(now, out) {
                break;
            }
        }
    }

    /// The main lane hears the next turn of each group's lane. Whether there was one. The engine is told first that lanes were stopped: what a
    /// lane says then about leaders is about a time that does not count.
    fn hear_groups(&mut self, now: Time, out: &mut Effects) -> bool {
        let any = self.groups.hear_lanes();
        for group in self.groups.iter_mut() {
            if let Some(since) = group.woke() {
                self.engine.woke(since, now);
            }
            group.signs().into_iter().for_each(|member| self.gate.heard(now, member));
        }
        if any {
            self.after_order(now, out);
        }
        any
    }

    /// Gives all lanes a turn, here and now. The main lane hears of it later.
    pub(crate) fn turn_lanes(&mut self, now: Time, out: &mut Effects) {
        if self.config.placement.groups {
            self.tell_facts(now);
            self.groups.take_turns(now, out);
            out.push(Effect::Run(Part::Main));
        }
    }

    fn tell_facts(&mut self, now: Time) {
        for at in 0..self.groups.len() {
            let facts = self.facts_for(at, now);
            self.groups[at].learn(facts);
        }
    }

    /// Steps keeping with an input that may install a checkpoint. Before, all lanes must finish with the old state.
    pub(crate) fn keep_called_in(&mut self, now: Time, input: In, out: &mut Effects) {
        self.call_in(now, out);
        self.keep(now, input, out);
    }

    /// Tells the lanes how the main lane stands, and asks for a turn of each lane for which something waits.
    pub(crate) fn ask_lanes(&mut self, now: Time, out: &mut Effects) {
        if self.config.placement.gate {
            let (notice, durable) = (self.notice_for(None), self.journal.log().durable());
            match self.gate.lane() {
                Some(lane) => {
                    lane.learn(&self.config, notice, durable);
                    if lane.asks() {
                        out.push(Effect::Run(Part::Gate));
                    }
                }
                None => self.gate.stands_apart(&self.config, notice, durable),
            }
        }
        if self.config.placement.groups {
            for (conn, at) in self.guide.left() {
                if let Some(group) = self.groups.get_mut(at) {
                    group.unbound(conn);
                }
            }
            self.tell_facts(now);
            self.groups.ask_lanes(|id| out.push(Effect::Run(Part::Group(id))));
        }
    }
}

/// Questions of the parts, whose answers take several parts.
impl Node {
    /// What the lane of an instance may know of the other parts.
    fn facts_for(&self, at: usize, now: Time) -> group::Facts {
        let (id, merge, peers) = (self.groups[at].id(), self.engine.merge(), self.gate.peers());
        let way = |member: &KnownMember| Some((member.replica, peers.way(member.replica, at)?));
        let ((clock, base), far) =
            (self.engine.time_of_proposals(now), rulings::is_far(self.engine.verified()));
        group::Facts {
            view: self.groups[at].view(),
            bounds: merge.bounds(id),
            handed: self.engine.handed(id),
            many: self.groups.len() > 1,
            clock,
            at: now,
            wakes: 0,
            base,
            ruling: self.rulings.due(now, self.engine.verified()).filter(|_| at == FIRST),
            far,
            executed: self.engine.executor().seq(),
            room: if far { Room::Full } else { self.room() },
            room_soon: far || !self.journal.log().has_room() && !self.journal.disk().is_full(),
            ways: self.config.members.all().iter().filter_map(way).collect(),
            links: peers.links(at).collect(),
            fits: self.journal.fits_all(self.groups[at].volume(), merge.is_open(id)),
        }
    }

    /// The ruling that the next batch of the first instance should have, if this replica leads there. A lane of its own takes rulings by itself.
    pub(crate) fn ruling_due(&mut self, now: Time) -> Option<Due> {
        if !self.rulings.are_on() {
            return None;
        }
        let group = self.groups.first();
        let standing = group.standing();
        let may = standing.leading && !group.is_apart();
        self.rulings.learn(standing, &self.engine);
        self.rulings.proposal(now, self.engine.verified().filter(|_| may))
    }

    /// The members whose lives are not known. After a change of the membership there are none: the log says whose life is whose.
    pub(crate) fn unknown_members(&self) -> Vec<ReplicaId> {
        let changed = self.config.members.number() > MembershipId::FIRST
            || self.reconfigure.roster().current().is_some();
        let later = |group: &Group| group.status().membership.now().number() > MembershipId::FIRST;
        if changed || self.groups.iter().any(later) {
            return Vec::new();
        }
        let members = self.config.members.all().iter().map(|member| member.replica);
        members.filter(|replica| !self.gate.lives().is_known(*replica)).collect()
    }

    /// How many of the members may be faulty, and how many may lie.
    pub(crate) fn trust(&self) -> Trust {
        let members = u32::try_from(self.config.members.all().len()).unwrap_or(u32::MAX).max(1);
        self.config.order.faults.among(members)
    }

    /// The replicas that answer a session.
    pub(crate) fn answerers(&self) -> Answerers {
        let (place, members) = (self.config.members.place(), self.config.members.all().len());
        Answerers { place, members, answers: self.trust().answers() as usize }
    }

    /// The room for requests of clients at this replica, if it leads.
    pub(crate) fn room(&self) -> Room {
        self.leading.room(self.journal.room(), &self.config)
    }

    /// The notice that tells a client which replicas lead.
    pub(crate) fn notice_for(&self, client: Option<ClientId>) -> LeaderNotice {
        self.guide.notice(&look!(self, guide), client)
    }

    /// The notice for the client at the other end of a connection.
    pub(crate) fn leader_notice(&self, conn: ConnId) -> LeaderNotice {
        self.notice_for(self.gate.peers().client(conn))
    }

    /// The guide, and the parts that it may read.
    pub(crate) fn guide(&mut self) -> (&mut Guide, guide::Look<'_>) {
        (&mut self.guide, look!(self, guide))
    }

    /// When to order a batch that carries only the time, if this replica has to.
    pub(crate) fn tick_at(&self) -> Option<Time> {
        // There is mostly no deadline; then nothing else is asked.
        let at = self.engine.tick_at().filter(|_| !self.eras.has_ended())?;
        (self.groups.first().is_idle(self.engine.merge()) && self.journal.log().has_room()).then_some(at)
    }

    /// When to check whether the other replicas went on without something that this replica waits for.
    pub(crate) fn left_behind_at(&self) -> Option<Time> {
        let at = self.groups.left_behind_at(self.engine.merge(), self.config.order.patience());
        at.filter(|_| !self.keeping.transfers())
    }
}

/// Questions of hosts and checks.
impl Node {
    /// Whether something was delivered behind the end of the last turn: another turn must end.
    pub fn owes_turn(&self) -> bool {
        self.engine.owes_turn()
    }

    /// When to call again with [`crate::Input::Deadline`], if nothing arrives first.
    pub fn deadline(&self) -> Option<Time> {
        let reads = self.keeping.sound() && !self.eras.has_ended();
        let answers = reads.then(|| self.engine.put_off_deadline()).flatten();
        [
            self.groups.iter().filter_map(Group::deadline).min(),
            self.leading.deadline(&look!(self, leading)),
            self.left_behind_at(),
            self.gate.deadline(self.journal.log().durable()),
            self.engine.execution_deadline(self.now),
            self.engine.reads_deadline(),
            answers,
            self.journal.deadline(),
            self.keeping.deadline(),
            self.eras.deadline(),
            self.journal.disk().stalls_at(),
            self.reconfigure.deadline(&self.config.level),
            self.tick_at(),
            self.engine.overdue_at(self.now).filter(|_| !self.eras.has_ended()),
            self.intake.deadline(),
            self.rulings.deadline(),
            self.gate.neighbours.deadline(),
            self.engine.verified().filter(|verified| verified.has_tokens()).map(|_| self.now),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// The status of this replica.
    pub fn status(&self) -> NodeStatus {
        report::status(self)
    }

    /// Whether to accept a connection from this address. To refuse it costs least if the host closes it at once.
    pub fn lets_in(&mut self, from: Option<IpAddr>) -> bool {
        self.gate.lets_in(from)
    }

    /// The class of a connection, by which the host treats it.
    pub fn class(&self, conn: ConnId) -> ConnClass {
        self.gate.own_peers().class(conn)
    }

    /// The member at the other end of a connection, if it is one.
    pub fn member_at(&self, conn: ConnId) -> Option<ReplicaId> {
        match self.gate.own_peers().conn(conn)? {
            Conn::Dialed { replica, .. } | Conn::To(replica, _) | Conn::From(replica, _) => Some(replica),
            Conn::Across(replica) | Conn::ToAcross(replica) => Some(replica),
            Conn::Stranger { .. } | Conn::Better(_) | Conn::Client(_) | Conn::Admin => None,
        }
    }

    /// Whether the member at the other end of a connection is a suspect, and has misbehaved lately. The host gives such a member only a
    /// small part of its time.
    pub fn suspects_lately(&self, now: Time, conn: ConnId) -> bool {
        self.member_at(conn).is_some_and(|member| self.intake.suspects_lately(now, member))
    }

    /// Whether there is room for more requests and reads of clients that send much. `contended`: clients that send little wait behind them,
    /// so the room is small.
    pub fn takes_more(&self, contended: bool) -> bool {
        let config = &self.config;
        let in_flight = config.bytes_in_flight_max.saturating_mul(guide::led_count(&self.groups).max(1));
        let (waiting, bytes) = self.engine.waiting_reads();
        let (requests, reads) = match contended {
            true => (in_flight / 64, CONTENDED_READS),
            false => (in_flight.saturating_mul(2), config.reads.reads_max / 2),
        };
        self.groups.queue_bytes() < requests.min(config.admission.queue_bytes_max)
            && !self.intake.checks_much()
            && !(contended && self.engine.has_put_off())
            && waiting < reads
            && bytes < config.reads.bytes_max / 2
    }

    /// Whether this replica believes that it leads an instance.
    pub fn leads(&self) -> bool {
        self.groups.present().any(|group| group.leader() == Some(self.config.members.me()))
    }

    /// The cluster's feature level, as far as it was executed here.
    pub fn level(&self) -> u32 {
        self.config.level.cluster
    }

    /// Whether this replica is no longer a member.
    pub fn is_removed(&self) -> bool {
        self.reconfigure.is_removed(self.config.members.me())
    }

    /// Whether all members have been connected once, so that this replica takes part.
    pub fn has_begun(&self) -> bool {
        self.groups.first().has_started()
    }

    /// The view that the first instance announced last.
    pub fn view(&self) -> View {
        self.groups.first().view()
    }

    /// What follows from the order of the delivered batches alone.
    pub fn agreed(&self) -> &Agreed {
        self.engine.agreed()
    }

    /// The final state.
    pub fn executor(&self) -> &Executor {
        self.engine.executor()
    }

    /// For each instance: its view, whether it is led here, and how many questions for strong reads were answered by leases.
    pub fn leases(&self) -> Vec<(View, bool, u64)> {
        self.groups.iter().map(|group| group.leases(self.config.members.me())).collect()
    }

    /// How slots map to seqs now, and behind the coming border if there is one.
    pub fn generations(&self) -> (Generation, Option<Generation>) {
        (self.engine.merge().generation(), self.engine.merge().next_generation())
    }

    /// The present membership of the cluster, as it was ordered.
    pub fn membership(&self) -> Option<&Membership> {
        self.reconfigure.roster().current()
    }

    /// The ordered change that is not over yet.
    pub fn change(&self) -> Option<&Memberships> {
        self.reconfigure.roster().change()
    }

    /// The replicas for which the log is held back.
    pub fn holds_back_for(&self) -> impl Iterator<Item = ReplicaId> {
        self.keeping.holds_back_for()
    }

    /// Panics with the name of a broken invariant; `thorough` scans everything.
    pub fn invariants(&self, thorough: bool) {
        self.journal.invariants();
        self.engine.invariants(thorough);
        if thorough {
            self.intake.invariants();
            self.gate.neighbours.invariants();
            self.rulings.invariants();
            self.keeping.invariants();
        }
        for group in self.groups.iter() {
            group.invariants(thorough, self.journal.durable(group.volume()));
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
