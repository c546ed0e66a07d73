//! What the node does for reconfiguring, the part that knows who the members are: it tells it what happened, and does what it wants done.

use crate::effects::{Effect, Effects, Event};
use crate::group::index_of;
use crate::keeping::In;
use crate::merging::FIRST;
use crate::node::Node;
use crate::reconfigure::{Directory, Look, Out, Plan, Reconfigure, level_record};
use crate::status::{LevelStatus, MembershipStatus};
use quorate_admit::Member as Known;
use quorate_order::Input as OrderInput;
use quorate_types::{ConnId, ReplicaId, Time, planted};
use quorate_wire::{
    Batch, Frame, FrameKind, MemberRequest, Membership, Memberships, OutFrame, SystemCommand,
    caught_up_frame, members_frame, read_caught_up, read_instances_request, read_upgrade_request,
};
use std::sync::Arc;

/// What reconfiguring may know of the others.
macro_rules! look {
    ($node:ident) => {
        Look {
            config: &$node.config,
            groups: &$node.groups,
            engine: &$node.engine,
            gate: &$node.gate,
            keeping: &$node.keeping,
            journal: &$node.journal,
            leading: &$node.leading,
        }
    };
}

/// For checks and for the status.
impl Node {
    /// The membership in which the cluster is, as it was ordered; for checks.
    pub fn membership(&self) -> Option<&Membership> {
        self.reconfigure.roster().current()
    }

    /// The change that was ordered and is not over; for checks.
    pub fn change(&self) -> Option<&Memberships> {
        self.reconfigure.roster().change()
    }

    /// Whether this replica is no member any more.
    pub fn is_removed(&self) -> bool {
        self.reconfigure.is_removed(self.config.members.me())
    }

    /// The feature level that the cluster works at, as it was executed here.
    pub fn level(&self) -> u32 {
        self.config.level.cluster
    }

    /// The level by which a checkpoint is written.
    pub(crate) fn level_of_checkpoints(&self) -> u32 {
        if planted("level-by-own-binary") { self.config.level.highest } else { self.level() }
    }

    pub(crate) fn membership_status(&self) -> MembershipStatus {
        Plan::new(&self.reconfigure, &look!(self)).membership_status()
    }

    pub(crate) fn level_status(&self) -> LevelStatus {
        Plan::new(&self.reconfigure, &look!(self)).level_status()
    }

    /// Whom instances send what they decide.
    pub(crate) fn listeners(&self) -> Arc<[ReplicaId]> {
        self.reconfigure.listeners(&look!(self))
    }
}

impl Node {
    /// Steps reconfiguring, and does what it wants done.
    fn reconfigure<R>(
        &mut self,
        now: Time,
        out: &mut Effects,
        step: impl FnOnce(&mut Reconfigure, &Look<'_>, &mut Vec<Out>) -> R,
    ) -> R {
        let mut outs = Vec::new();
        let given = step(&mut self.reconfigure, &look!(self), &mut outs);
        if outs.is_empty() {
            return given; // in nearly every turn
        }
        for wanted in outs {
            self.do_reconfigure(now, wanted, out);
        }
        given
    }

    fn do_reconfigure(&mut self, now: Time, wanted: Out, out: &mut Effects) {
        match wanted {
            Out::Propose(command) => {
                let batch = command.batch(self.propose_header(now));
                self.propose_in(FIRST, now, batch, out);
            }
            Out::NameListeners => self.step_present(now, &OrderInput::Listeners(self.listeners())),
            Out::BeginChange(change) => self.step_present(now, &OrderInput::Membership(change)),
            Out::MeetBorders => self.meet_borders(),
            Out::ChangeInstances(count) => self.change_instances(now, count, out),
            Out::Level(level) => {
                // Also where this program can not do it: what it executes until it stops is not right, but it is not called level 1 either.
                self.set_level(level);
                if let Err(halt) = self.config.level.check(level) {
                    return out.push(Effect::Halt(halt));
                }
                out.event(Event::Level { level, begun: false });
                self.note_level();
            }
            Out::OrderBorder => self.keeping.order_border(),
            Out::TellCaughtUp { to, at, replicas } => {
                if let Some(conn) = self.gate.peers().to(to) {
                    out.send(conn, caught_up_frame(self.groups[at].id(), &replicas));
                }
            }
            Out::Say(event) => out.event(event),
        }
    }

    /// A batch was executed; perhaps it holds a command to the engine.
    pub(crate) fn on_system(&mut self, now: Time, batch: &Batch, out: &mut Effects) {
        if let Some(command) = SystemCommand::of(batch) {
            self.reconfigure(now, out, |part, look, outs| part.executed(look, command, outs));
        }
    }

    /// A checkpoint took the place of the state, or the protocol begins: it hears of a change that is under way.
    pub(crate) fn resume_change(&mut self, now: Time, out: &mut Effects) {
        self.reconfigure.changed();
        if self.has_begun() {
            self.reconfigure(now, out, |part, _, outs| part.resumed(outs));
        }
    }

    /// What holds in an instance changed.
    pub(crate) fn on_members(&mut self, at: usize, memberships: Arc<Memberships>) {
        self.reconfigure.in_force(at, &self.groups[at], memberships);
        self.leading.majority_changed();
    }

    /// Another replica says who the members are.
    pub(crate) fn on_told(&mut self, memberships: Memberships) {
        self.reconfigure.told(memberships, self.config.order.faults.may_lie());
    }

    /// Another leader says who has caught up with it.
    pub(crate) fn on_caught_up(
        &mut self,
        now: Time,
        (conn, from): (ConnId, ReplicaId),
        payload: &[u8],
        out: &mut Effects,
    ) {
        match read_caught_up(payload) {
            Ok((instance, replicas)) => {
                let at = index_of(instance);
                if at < self.groups.len() {
                    self.reconfigure.told_caught_up(at, from, replicas);
                }
            }
            Err(why) => self.reject(now, conn, why.to_string(), out),
        }
    }

    /// At the end of a turn: what is due is proposed.
    pub(crate) fn end_change(&mut self, now: Time, out: &mut Effects) {
        self.reconfigure(now, out, |part, look, outs| part.end_turn(now, look, outs));
    }

    /// At the end of a turn: leaders hear which learners have caught up.
    pub(crate) fn tell_caught_up(&mut self, now: Time, out: &mut Effects) {
        self.reconfigure(now, out, |part, look, outs| part.tell_caught_up(look, outs));
    }

    /// Connections follow the membership. At the end of a turn, when nothing else is under way.
    pub(crate) fn meet_members(&mut self, now: Time, out: &mut Effects) {
        if !self.reconfigure.takes_change() {
            return;
        }
        if self.has_begun() {
            self.step_present(now, &OrderInput::Listeners(self.listeners()));
            self.after_order(now, out);
        }
        let Some(directory) = self.reconfigure.directory(&look!(self)) else { return };
        let Directory { number, members, voters } = directory;
        let known = members.values().map(|member| Known {
            replica: member.replica,
            address: member.address.clone(),
            incarnation: member.incarnation,
        });
        let lives = members.values().filter(|member| member.life != 0);
        let lives = lives.map(|member| (member.replica, member.life)).collect();
        let used = self.reconfigure.roster().used().iter();
        let removed = used.filter(|id| !members.contains_key(id)).copied().collect();
        self.config.members.replace(number, known.collect(), lives, removed);
        self.gate.meet(now, &self.config.members, out);
        if let Some(voters) = voters {
            let others = members.into_keys().collect();
            self.keep(now, In::Members { voters, others }, out);
        }
        self.spread_members(out);
        for conn in self.gate.peers().clients() {
            self.tell_client(conn, out);
        }
        self.after_connections(now, out);
    }

    /// Who is connected hears of a membership that this replica did not know when they met. One that lags may know nobody else who
    /// knows, and takes nothing from a leader that it does not know.
    fn spread_members(&mut self, out: &mut Effects) {
        if self.reconfigure.spreads(self.config.members.number()) {
            for member in self.config.members.others() {
                if let Some(conn) = self.gate.peers().to(member.replica) {
                    self.tell_members(conn, out);
                }
            }
        }
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

    /// Borders follow from the log alone, so where their distance depends on the number of replicas it is the one that was ordered.
    pub(crate) fn meet_borders(&mut self) {
        let (count, place) = self.reconfigure.replicas(&look!(self));
        self.keeping.meet_replicas(count, place);
    }

    /// The state of a checkpoint took the place of what was executed here.
    pub(crate) fn take_level(&mut self, level: u32) {
        self.set_level(level);
        self.note_level();
    }

    fn set_level(&mut self, level: u32) {
        self.config.level.cluster = level;
        let own = planted("service-level-by-own-binary");
        self.engine.set_level(if own { self.config.level.highest } else { level });
    }

    /// Writes the level down, so that an older program stops before it says a word. Without room there is no such record: then it stops
    /// when it hears of the level.
    fn note_level(&mut self) {
        let level = self.level();
        if self.reconfigure.is_unnoted(level) && self.journal.note(level_record(level)).is_ok() {
            self.reconfigure.noted(level);
        }
    }
}

/// What operators ask for.
impl Node {
    /// Another membership. Says what came of it, in a line.
    pub(crate) fn on_member_request(
        &mut self,
        now: Time,
        request: &MemberRequest,
        out: &mut Effects,
    ) -> String {
        self.reconfigure(now, out, |part, look, outs| part.change(look, request, outs))
    }

    /// Another feature level.
    pub(crate) fn on_upgrade_request(&mut self, now: Time, conn: ConnId, frame: Frame, out: &mut Effects) {
        let wanted = match read_upgrade_request(frame.payload) {
            Ok(wanted) => wanted,
            Err(why) => return self.reject(now, conn, why.to_string(), out),
        };
        let text = self.reconfigure(now, out, |part, look, outs| part.raise(look, wanted, outs));
        let what = format!("raise the feature level to {wanted} (0: as far as possible)");
        self.audit(conn, what, text.clone(), out);
        out.send(conn, OutFrame::new(FrameKind::UpgradeReply, text.as_bytes(), vec![]));
    }

    /// Another number of instances.
    pub(crate) fn on_instances_request(&mut self, now: Time, conn: ConnId, frame: Frame, out: &mut Effects) {
        let count = match read_instances_request(frame.payload) {
            Ok(count) => count,
            Err(why) => return self.reject(now, conn, why.to_string(), out),
        };
        let text = self.reconfigure(now, out, |part, look, outs| part.resize(look, count, outs));
        self.audit(conn, format!("have {count} instances"), text.clone(), out);
        out.send(conn, OutFrame::new(FrameKind::InstancesReply, text.as_bytes(), vec![]));
    }
}

#[cfg(test)]
pub(crate) mod tests;
