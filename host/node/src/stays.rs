//! Instances come and go: what the groups want done is done here.

use crate::effects::{Effect, Effects, Event};
use crate::engine;
use crate::group::{self, role_of};
use crate::keeping::In;
use crate::node::Node;
use crate::system::System;
use quorate_merge::{Generation, Refused};
use quorate_order::Input as OrderInput;
use quorate_types::{Halt, ReplicaId, Seq, Time};
use std::collections::BTreeSet;

/// What the groups may know of the others.
macro_rules! look {
    ($node:ident) => {
        group::Look {
            config: &$node.config,
            merge: $node.engine.merge(),
            membership: $node.reconfigure.roster().current(),
        }
    };
}

impl Node {
    /// How slots map to seqs now, and behind the border that comes, if one does; for checks.
    pub fn generations(&self) -> (Generation, Option<Generation>) {
        (self.engine.merge().generation(), self.engine.merge().next_generation())
    }

    fn do_groups(&mut self, now: Time, outs: Vec<group::Out>) {
        for wanted in outs {
            match wanted {
                group::Out::Renewed(id) => self.engine.step(engine::In::Renewed(id)),
                group::Out::Led(id, leader) => self.engine.step(engine::In::Led(id, leader)),
                group::Out::Unbound(at) => self.guide.forget_instance(at),
                group::Out::Left(at) => self.reconfigure.left(at),
                group::Out::Abandoned(volume) => self.journal.leave(volume),
                group::Out::Wake(at) => self.wake(now, at),
                group::Out::CloseVolumes => self.close_volumes(),
            }
        }
    }

    /// From the next border on there are so many instances.
    pub(crate) fn change_instances(&mut self, now: Time, count: u16, out: &mut Effects) {
        let before = self.engine.merge().generation().instances;
        match self.engine.change_instances(count) {
            Ok(next) => {
                let text = format!("from slot {} on {count} instances, {before} up to there", next.first);
                out.event(Event::Instances { text });
                let mut outs = Vec::new();
                let resized =
                    self.groups.resized((before, count), &look!(self), self.journal.volumes(), &mut outs);
                self.do_groups(now, outs);
                if let Err(halt) = resized {
                    out.push(Effect::Halt(halt));
                }
            }
            Err(why @ Refused::AcrossBorder) => {
                out.push(Effect::Halt(Halt::LogInconsistent { why: why.to_string() }));
            }
            Err(why) => {
                out.event(Event::Instances { text: format!("{count} instances were refused: {why}") })
            }
        }
    }

    /// An instance takes part, once the log says where it begins. Without room for that it waits.
    fn wake(&mut self, now: Time, at: usize) {
        let begun = self.has_begun();
        let group = &mut self.groups[at];
        if let Some(birth) = group.stay().birth.as_ref().filter(|_| group.stay().unborn) {
            let unborn = self.journal.note(birth.to_record()).is_err();
            group.stay_mut().unborn = unborn;
        }
        if !begun || !group.wakes(now) {
            return;
        }
        let leader = role_of(group.leader(), self.config.members.me());
        self.engine.step(engine::In::Led(group.id(), leader));
        let peers = self.gate.peers();
        let up: BTreeSet<ReplicaId> =
            peers.peers().map(|(id, ..)| id).filter(|id| peers.is_up_in(*id, at)).collect();
        self.step_in(at, now, OrderInput::Listeners(self.listeners()));
        self.groups[at].finds(now, up);
        self.on_members(at, self.groups[at].status().membership);
    }

    /// At the end of a turn: those for which the log had no room.
    pub(crate) fn wake_waiting(&mut self, now: Time, out: &mut Effects) {
        for at in 0..self.groups.len() {
            if self.groups[at].stay().unborn {
                self.wake(now, at);
                self.after_order(now, out);
            }
        }
    }

    /// Something was delivered: perhaps a border.
    pub(crate) fn look_at_generation(&mut self, now: Time, out: &mut Effects) {
        let generation = self.engine.merge().generation();
        let mut outs = Vec::new();
        if !self.groups.delivered(generation, &mut outs) {
            return;
        }
        let Generation { instances, first, base } = generation;
        let text = format!("{instances} instances since slot {first}, behind seq {base}");
        out.event(Event::Instances { text });
        self.do_groups(now, outs);
        for conn in self.gate.peers().clients() {
            // Whoever waits for one that went asks again.
            self.engine.step(engine::In::Unbound(conn));
        }
        self.tell_clients(None, out);
    }

    /// The log was given up to this seq: what is behind a border before it needs no records any more.
    pub(crate) fn fall_asleep(&mut self, now: Time, trimmed: Seq, out: &mut Effects) {
        let mut outs = Vec::new();
        let done = self.groups.fall_asleep(trimmed, &look!(self), self.journal.volumes(), &mut outs);
        self.do_groups(now, outs);
        if let Err(halt) = done {
            out.push(Effect::Halt(halt));
        }
    }

    /// The global log goes on from a checkpoint. Gives the instances that begin with it.
    pub(crate) fn jump(&mut self, now: Time, system: &System) -> Result<Vec<usize>, Halt> {
        let unusable = |why: &str| Halt::CheckpointUnusable {
            why: format!("the checkpoint of seq {} does not fit into the global log: {why}", system.seq),
        };
        let checkpoint = system.merge(self.config.merge.window).ok_or_else(|| unusable("its generations"))?;
        self.engine.jump(&checkpoint).map_err(|why| unusable(&why))?;
        let mut outs = Vec::new();
        let new = self.groups.meet(system, &look!(self), self.journal.volumes(), &mut outs)?;
        self.do_groups(now, outs);
        self.groups.go_on(now, system, &look!(self), self.journal.volumes())?;
        self.close_volumes();
        Ok(new)
    }

    /// Those that begin with a checkpoint that was installed take part.
    pub(crate) fn wake_new(&mut self, now: Time, new: &[usize]) {
        new.iter().for_each(|at| self.wake(now, *at));
    }

    /// When to look whether the others went on without what this replica waits for.
    pub(crate) fn left_behind_at(&self) -> Option<Time> {
        let at = self.groups.left_behind_at(self.engine.merge(), self.config.order.patience());
        at.filter(|_| !self.keeping.transfers())
    }

    /// Nobody leads what the merge waits for, for long. Where others have a checkpoint of later, it will not come any more.
    pub(crate) fn look_behind(&mut self, now: Time, out: &mut Effects) {
        if self.left_behind_at().is_some_and(|at| at <= now) {
            self.groups.looked(now);
            self.keep(now, In::LeftBehind(self.engine.merge().seq().next()), out);
        }
    }
}

#[cfg(test)]
mod tests;
