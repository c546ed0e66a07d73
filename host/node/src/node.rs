//! The node: the parts of a replica, joined. What may be asked of it stands here; which part takes what, and the order of a turn, in
//! `pipeline.rs`; what several parts do together in `together.rs`.

use crate::config::NodeConfig;
use crate::effects::{Effect, Effects, Event, Input};
use crate::engine::{self, Answerers, Engine};
use crate::gate::{self, Access, Change, Conn, ConnClass, Gate};
use crate::group::{Admitting, Group, Groups};
use crate::guide::{self, Guide};
use crate::journal::Journal;
use crate::keeping::{In, Keeping, Why};
use crate::lanes::Part;
use crate::leading::Leading;
use crate::reconfigure::Reconfigure;
use crate::report;
use crate::status::NodeStatus;
use quorate_admit::Intake;
use quorate_execute::{Agreed, Executor};
use quorate_log::{AppendError, Record};
use quorate_merge::Generation;
use quorate_order::{Input as OrderInput, Nature};
use quorate_types::{ClientId, ConnId, Halt, MembershipId, ReplicaId, Room, Time, Trust, View, planted};
use quorate_wire::{Frame, LeaderNotice, Membership, Memberships, members_frame};
use std::net::IpAddr;

/// So many reads wait of clients that ask for much, while others wait.
const CONTENDED_READS: usize = 1024;

/// What a part may know of the others while it is stepped: references to them, and to nothing that it owns itself.
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
        look!($node, leading { config, nature, groups, engine, gate, journal, keeping })
    };
    ($node:expr, keeping) => {
        crate::keeping::Look {
            config: &$node.config,
            groups: &$node.groups,
            engine: &$node.engine,
            journal: &$node.journal,
            roster: $node.reconfigure.roster(),
        }
    };
    ($node:expr, reconfigure) => {
        look!($node, reconfigure { config, groups, engine, gate, keeping, journal, leading })
    };
    ($node:expr, $part:ident { $($field:ident),+ }) => {
        crate::$part::Look { $($field: &$node.$field),+ }
    };
}
pub(crate) use look;

/// One replica: every stage of it, all instances, no I/O.
pub struct Node {
    pub(crate) config: NodeConfig,
    /// What the protocol is like, as it is configured.
    pub(crate) nature: Nature,
    pub(crate) gate: Gate,
    pub(crate) intake: Intake,
    /// Those of instance 1, 2, ...
    pub(crate) groups: Groups,
    pub(crate) admitting: Admitting,
    pub(crate) engine: Engine,
    pub(crate) guide: Guide,
    pub(crate) leading: Leading,
    pub(crate) reconfigure: Reconfigure,
    pub(crate) keeping: Keeping,
    pub(crate) journal: Journal,
    /// The time of the last step.
    pub(crate) now: Time,
}

/// The beginning.
impl Node {
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
        self.end_turn(now, out);
        self.ask_lanes(out);
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
        self.groups.begin(now);
        self.resume_change(now, out);
        self.groups.greet(now);
        self.after_order(now, out);
    }

    /// Whether an instance must not start before there is a checkpoint of the others.
    fn needs_checkpoint(&self) -> bool {
        self.groups.iter().any(|group| group.restored().needs_checkpoint)
    }
}

/// Connections.
impl Node {
    /// The gate takes note of something.
    pub(crate) fn at_gate(&mut self, now: Time, input: gate::In, out: &mut Effects) {
        self.gate.step(now, (&self.config, self.journal.log().durable()), input, out);
    }

    /// Something happened to a connection, and it may be gone.
    pub(crate) fn on_happened(&mut self, now: Time, input: Input, out: &mut Effects) {
        let Some(happened) = gate::In::of(input) else { return };
        match (happened.ends(), happened) {
            (Some(conn), gate::In::Closed(_)) => self.on_closed(now, conn, out),
            (Some(conn), happened) => {
                self.at_gate(now, happened, out);
                self.on_closed(now, conn, out);
            }
            (None, happened) => self.at_gate(now, happened, out),
        }
    }

    /// Dials who is due, once this replica's own life is durable: nobody may hear of one that a crash could take back.
    pub(crate) fn dial(&mut self, now: Time, out: &mut Effects) {
        self.at_gate(now, gate::In::Deadline, out);
    }

    /// Somebody says who it is.
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

    /// Somebody said who it is: perhaps a member of whose life this replica hears for the first time.
    pub(crate) fn on_met(
        &mut self,
        now: Time,
        conn: ConnId,
        learned: Option<(ReplicaId, Record)>,
        out: &mut Effects,
    ) {
        if let Some((replica, record)) = learned {
            match self.journal.note(record) {
                // Before the cluster began there is always room. Later it is a replica that joins, whose life counts from
                // the membership on that makes it a voter.
                Err(AppendError::NoRoom) if self.has_begun() => self.gate.unlearn(replica),
                Err(why) => out.push(Effect::Halt(Halt::LogWriteFailed { why: why.to_string() })),
                Ok(_) => self.begin(now, out),
            }
        }
        if let Some(Conn::Client(_)) = self.gate.peers().conn(conn) {
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

    /// Nobody waits there any more.
    pub(crate) fn forget_conn(&mut self, now: Time, conn: ConnId, out: &mut Effects) {
        self.engine.step(engine::In::Closed(conn));
        self.guide.forget(conn);
        self.keep(now, In::Left(conn), out);
    }

    /// Tells the instances whose messages get to a member and back.
    pub(crate) fn connect(&mut self, now: Time, replica: ReplicaId) {
        self.leading.majority_changed();
        let peers = self.gate.peers();
        self.groups.connects(now, replica, |at| peers.is_up_in(replica, at));
    }

    /// Tells the instances whose messages may have been lost.
    pub(crate) fn disconnect(&mut self, now: Time, replica: ReplicaId, change: Change) {
        self.leading.majority_changed();
        self.groups.disconnects(now, replica, |at| change.cuts(at));
    }

    /// A member or a client is connected from now on.
    pub(crate) fn tell_members(&self, conn: ConnId, out: &mut Effects) {
        if let Some(memberships) = self.reconfigure.to_tell() {
            out.send(conn, members_frame(memberships));
        }
    }

    /// A client hears who the members are, and then again who leads: it may not have known that replica before.
    pub(crate) fn tell_client(&self, conn: ConnId, out: &mut Effects) {
        if let Some(memberships) = self.reconfigure.to_tell() {
            out.send(conn, members_frame(memberships));
            out.send(conn, self.leader_notice(conn).frame());
        }
    }

    /// An operator wants leadership to be handed over. Says what came of it, in a line.
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
    /// Gives an input to the lane that it is for. Whether it is for another one than the main lane's.
    pub(crate) fn is_for_lane(&mut self, now: Time, input: &Input, out: &mut Effects) -> bool {
        match (input, self.gate.lane()) {
            (Input::Run(Part::Main), _) => return false,
            (Input::Run(Part::Gate), Some(lane)) => lane.take_turn(now, out),
            (Input::Run(Part::Group(id)), _) => {
                if let Some(group) = self.groups.of_mut(*id) {
                    group.take_turn(now);
                }
            }
            (Input::Frame { conn, frame }, Some(lane)) => lane.framed(now, *conn, frame.clone(), out),
            (input, Some(lane)) => match gate::In::of(input.clone()) {
                Some(happened) => lane.happened(now, happened, out),
                None => return false,
            },
            (_, None) => return false,
        }
        out.push(Effect::Run(Part::Main));
        true
    }

    /// What other lanes said until now arrives at the main lane.
    pub(crate) fn hear_lanes(&mut self, now: Time, out: &mut Effects) {
        self.groups.hear_lanes();
        self.after_order(now, out);
        while let Some(said) = self.gate.hear() {
            self.on_gate(now, said, out);
        }
    }

    /// The main lane waits until the lanes of all groups have taken everything, and hears what they say.
    pub(crate) fn call_in(&mut self, now: Time, out: &mut Effects) {
        if !self.config.placement.groups || planted("lane-not-called-in") {
            return;
        }
        loop {
            self.groups.take_turns(now);
            // A lane may have had a turn before, of which the main lane did not hear yet.
            if !self.groups.hear_lanes() {
                break;
            }
            self.after_order(now, out);
        }
    }

    /// Keeping takes this, which may make a checkpoint take the place of everything: all lanes have to be done with what was before.
    pub(crate) fn keep_called_in(&mut self, now: Time, input: In, out: &mut Effects) {
        self.call_in(now, out);
        self.keep(now, input, out);
    }

    /// Lanes are told how the main lane stands, and are asked to take what their parts were told.
    pub(crate) fn ask_lanes(&mut self, out: &mut Effects) {
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
            self.groups.ask_lanes(|id| out.push(Effect::Run(Part::Group(id))));
        }
    }
}

/// What the parts ask, where the answer takes several of them.
impl Node {
    /// Members that were never heard of. Where somebody joined or left, the log says whose life is whose: nobody has to be waited for.
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

    /// How far the members are trusted.
    pub(crate) fn trust(&self) -> Trust {
        let members = u32::try_from(self.config.members.all().len()).unwrap_or(u32::MAX).max(1);
        self.config.order.faults.among(members)
    }

    /// Who of them answers a session.
    pub(crate) fn answerers(&self) -> Answerers {
        let (place, members) = (self.config.members.place(), self.config.members.all().len());
        Answerers { place, members, answers: self.trust().answers() as usize }
    }

    /// What this replica may take from clients, if it leads.
    pub(crate) fn room(&self) -> Room {
        self.leading.room(self.journal.room(), &self.config)
    }

    /// Where a client finds somebody who leads.
    pub(crate) fn notice_for(&self, client: Option<ClientId>) -> LeaderNotice {
        self.guide.notice(&look!(self, guide), client)
    }

    /// The same, for whoever is at the other end of a connection.
    pub(crate) fn leader_notice(&self, conn: ConnId) -> LeaderNotice {
        self.notice_for(self.gate.peers().client(conn))
    }

    /// The guide, and what it may know of the others.
    pub(crate) fn guide(&mut self) -> (&mut Guide, guide::Look<'_>) {
        (&mut self.guide, look!(self, guide))
    }

    /// When a batch is ordered for the time alone, if this replica does that.
    pub(crate) fn tick_at(&self) -> Option<Time> {
        // Mostly there is no deadline, and nothing else has to be asked.
        let at = self.engine.tick_at()?;
        (self.groups.first().is_idle(self.engine.merge()) && self.journal.log().has_room()).then_some(at)
    }

    /// When to look whether the others went on without what this replica waits for.
    pub(crate) fn left_behind_at(&self) -> Option<Time> {
        let at = self.groups.left_behind_at(self.engine.merge(), self.config.order.patience());
        at.filter(|_| !self.keeping.transfers())
    }
}

/// What hosts ask.
impl Node {
    /// When to call again with [`crate::Input::Deadline`], if nothing arrives first.
    pub fn deadline(&self) -> Option<Time> {
        let answers = self.keeping.sound().then(|| self.engine.put_off_deadline()).flatten();
        [
            self.groups.iter().filter_map(Group::deadline).min(),
            self.leading.deadline(&look!(self, leading)),
            self.left_behind_at(),
            self.gate.deadline(self.journal.log().durable()),
            self.engine.execution_deadline(),
            self.engine.reads_deadline(),
            answers,
            self.journal.deadline(),
            self.keeping.deadline(),
            self.journal.disk().stalls_at(),
            self.reconfigure.deadline(&self.config.level),
            self.tick_at(),
            self.engine.overdue_at(self.now),
            self.intake.deadline(),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// Where this replica stands.
    pub fn status(&self) -> NodeStatus {
        report::status(self)
    }

    /// Whether to let somebody in who comes from there. Whoever is not costs least when the host closes the connection at once.
    pub fn lets_in(&mut self, from: Option<IpAddr>) -> bool {
        self.gate.lets_in(from)
    }

    /// What a connection is, as far as the host has to know.
    pub fn class(&self, conn: ConnId) -> ConnClass {
        self.gate.own_peers().class(conn)
    }

    /// The member at the other end of a connection, if it is one.
    pub fn member_at(&self, conn: ConnId) -> Option<ReplicaId> {
        match self.gate.own_peers().conn(conn)? {
            Conn::Dialed { replica, .. } | Conn::To(replica, _) | Conn::From(replica, _) => Some(replica),
            Conn::Stranger { .. } | Conn::Better(_) | Conn::Client(_) | Conn::Admin => None,
        }
    }

    /// Whether the member at the other end of a connection did what no honest one does, and was not silent about it for long since: the
    /// host gives it a small part of its time.
    pub fn suspects_lately(&self, now: Time, conn: ConnId) -> bool {
        self.member_at(conn).is_some_and(|member| self.intake.suspects_lately(now, member))
    }

    /// Whether there is room for more of clients that send much. `contended`: others, who send little, wait behind what is taken of
    /// them, so that has to be little, too.
    pub fn takes_more(&self, contended: bool) -> bool {
        let config = &self.config;
        let in_flight = config.bytes_in_flight_max.saturating_mul(guide::led_count(&self.groups).max(1));
        let (waiting, bytes) = self.engine.waiting_reads();
        let (requests, reads) = if contended {
            (in_flight / 64, CONTENDED_READS)
        } else {
            (in_flight.saturating_mul(2), config.reads.reads_max / 2)
        };
        self.groups.queue_bytes() < requests.min(config.admission.queue_bytes_max)
            && !(contended && self.engine.has_put_off())
            && waiting < reads
            && bytes < config.reads.bytes_max / 2
    }

    /// Whether this replica leads an instance, as far as it knows.
    pub fn leads(&self) -> bool {
        let me = Some(self.config.members.me());
        self.groups.present().any(|group| group.leader() == me)
    }

    /// The feature level that the cluster works at, as it was executed here.
    pub fn level(&self) -> u32 {
        self.config.level.cluster
    }

    /// Whether this replica is no member any more.
    pub fn is_removed(&self) -> bool {
        self.reconfigure.is_removed(self.config.members.me())
    }

    /// Whether all members have been there once, so that this replica takes part.
    pub fn has_begun(&self) -> bool {
        self.groups.first().has_started()
    }
}

/// What checks ask.
impl Node {
    /// The view that was announced last in the first instance.
    pub fn view(&self) -> View {
        self.groups.first().view()
    }

    /// What is agreed on with what was delivered to execution.
    pub fn agreed(&self) -> &Agreed {
        self.engine.agreed()
    }

    /// What was executed so far, and is final.
    pub fn executor(&self) -> &Executor {
        self.engine.executor()
    }

    /// Of each instance its view, whether it is led here, and how many questions for strong reads were answered by leases.
    pub fn leases(&self) -> Vec<(View, bool, u64)> {
        self.groups.iter().map(|group| group.leases(self.config.members.me())).collect()
    }

    /// How slots map to seqs now, and behind the border that comes, if one does.
    pub fn generations(&self) -> (Generation, Option<Generation>) {
        (self.engine.merge().generation(), self.engine.merge().next_generation())
    }

    /// The membership in which the cluster is, as it was ordered.
    pub fn membership(&self) -> Option<&Membership> {
        self.reconfigure.roster().current()
    }

    /// The change that was ordered and is not over.
    pub fn change(&self) -> Option<&Memberships> {
        self.reconfigure.roster().change()
    }

    /// For whom the log is held back.
    pub fn holds_back_for(&self) -> impl Iterator<Item = ReplicaId> {
        self.keeping.holds_back_for()
    }

    /// Panics with the name of an invariant that does not hold; `thorough` scans everything.
    pub fn invariants(&self, thorough: bool) {
        self.journal.invariants();
        self.engine.invariants(thorough);
        if thorough {
            self.intake.invariants();
            self.keeping.invariants();
        }
        for group in self.groups.iter() {
            group.invariants(thorough, self.journal.durable(group.volume()));
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
