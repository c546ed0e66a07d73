//! Instances come and go: an ordered command changes their number, at a border that follows from its slot (docs/protocols/merge.md).
//!
//! An instance that comes begins with what all replicas know: where its last stay ended, and who the members are
//! (path/3-order, `OrderConfig::next_stay`). Before its first record the log says so ([`crate::group::BORN`]), since a replica that starts again reads the
//! instance's records before it executes the command again. An instance that goes is led on, without work, so that whoever lags hears its
//! end; once a checkpoint behind the border is durable here and the log before it given up, it falls asleep: it says nothing, and the
//! checkpoint says where it stands. Who still waits for it by then fetches a checkpoint.
//!
//! INV-STAY-1: for each instance of the merge there is one stay in force. Tests: `stays/tests.rs`, check/sim,
//! front/cli/tests/all/instances.rs.

use crate::config::NodeConfig;
use crate::effects::{Effect, Effects, Event};
use crate::engine;
use crate::group::{Birth, Group};
use crate::journal::Volumes;
use crate::keeping::In;
use crate::node::Node;
use crate::system::{InstancePart, System};
use quorate_merge::{Generation, Leader, RecordIndex, Refused};
use quorate_order::{Anchor, Input as OrderInput};
use quorate_types::{Halt, InstanceId, ReplicaId, Seq, Slot, Time};
use quorate_wire::Memberships;
use std::collections::BTreeSet;

/// What a node knows of instances beside those in force.
pub(crate) struct Stays {
    /// The generation that was seen last.
    seen: Generation,
    /// Other stays: what the log holds of later ones, until the command is executed, and earlier ones, until a checkpoint is
    /// durable that needs none of their records.
    pub(crate) others: Vec<Group>,
    /// When this replica looked last whether others went on without it.
    looked: Time,
}

impl Stays {
    pub(crate) fn new(seen: Generation, others: Vec<Group>) -> Self {
        Self { seen, others, looked: Time::ZERO }
    }

    /// What is known of a stay that comes in force. Where the state went back to before that, it may have ended meanwhile: not any more.
    fn take(&mut self, (id, stay): (InstanceId, u64)) -> Option<Group> {
        let known = self.others.iter().position(|other| (other.id(), other.stay().number()) == (id, stay))?;
        let mut instance = self.others.swap_remove(known);
        instance.stay_mut().away = None;
        Some(instance)
    }

    /// With this stay in force at a seq, all before it are over: also those that are known from the log only, since a checkpoint of
    /// later was installed before they came in force here.
    fn end_before(&mut self, (id, stay): (InstanceId, u64), seq: Seq) {
        for other in self.others.iter_mut().filter(|other| other.id() == id && other.stay().number() < stay) {
            other.stay_mut().away.get_or_insert(seq);
        }
    }
}

/// An instance without a history, in this stay.
pub(crate) fn new_instance(config: &NodeConfig, volumes: &mut Volumes, number: u16, stay: u64) -> Group {
    let id = InstanceId::new(number);
    Group::new(id, stay, config.order.build(id, stay), config.admission, volumes.open(id))
}

/// An instance whose stay begins there, with nothing in it yet.
///
/// # Errors
/// When the anchor is none.
pub(crate) fn born(birth: Birth, config: &NodeConfig, volumes: &mut Volumes) -> Result<Group, Halt> {
    let stay = birth.stay(&config.order)?;
    new_instance(config, volumes, birth.id.number(), stay).born(birth)
}

impl Node {
    /// How slots map to seqs now, and behind the border that comes, if one does; for checks.
    pub fn generations(&self) -> (Generation, Option<Generation>) {
        (self.engine.merge().generation(), self.engine.merge().next_generation())
    }

    /// From the next border on there are so many instances.
    pub(crate) fn change_instances(&mut self, now: Time, count: u16, out: &mut Effects) {
        let before = self.engine.merge().generation().instances;
        match self.engine.change_instances(count) {
            Ok(next) => {
                let text = format!("from slot {} on {count} instances, {before} up to there", next.first);
                out.event(Event::Instances { text });
                for at in usize::from(before)..usize::from(count) {
                    self.come_in(now, at, out);
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

    /// An instance begins, or begins again.
    fn come_in(&mut self, now: Time, at: usize, out: &mut Effects) {
        let id = InstanceId::new(at as u16 + 1);
        match self.birth(id).and_then(|birth| self.take_stay(birth)) {
            Ok(instance) => self.put_in_force(at, instance),
            Err(halt) => return out.push(Effect::Halt(halt)),
        }
        self.engine.step(engine::In::Renewed(id));
        self.wake(now, at);
    }

    /// Where the next stay of an instance begins: the same on all replicas.
    fn birth(&self, id: InstanceId) -> Result<Birth, Halt> {
        let members = self.reconfigure.roster().current().cloned().map(Memberships::one);
        let Some(last) = self.groups.get(usize::from(id.number()) - 1) else {
            let anchor = self.config.order.next_stay(None, members.as_ref())?;
            return Ok(Birth { id, record: Slot::ZERO, anchor });
        };
        let (record, anchor) = self.stands_at(last);
        let anchor = self.config.order.next_stay(Some((record, &anchor)), members.as_ref())?;
        Ok(Birth { id, record, anchor })
    }

    /// The last record of an instance that is in the global log.
    fn stands_at(&self, instance: &Group) -> (Slot, Anchor) {
        let record = self.engine.merge().delivered_record(instance.id()).map_or(0, |record| record.0);
        let record = Slot::new(record);
        let Some(anchor) = instance.anchor(record) else {
            panic!("INV-NODE-8 record {record} of {} of {} has an anchor", instance.id(), instance.decided());
        };
        (record, anchor)
    }

    /// The stay that begins there: what the log holds of it, or a new one.
    fn take_stay(&mut self, birth: Birth) -> Result<Group, Halt> {
        let stay = birth.stay(&self.config.order)?;
        match self.stays.take((birth.id, stay)) {
            Some(known) => Ok(known),
            None => born(birth, &self.config, self.journal.volumes()).map(|mut group| {
                group.stay_mut().unborn = true;
                group
            }),
        }
    }

    /// This stay of an instance counts from now on; those before are kept for their records.
    fn put_in_force(&mut self, at: usize, instance: Group) {
        self.guide.forget_instance(at);
        let (id, stay) = (instance.id(), instance.stay().number());
        if at == self.groups.len() {
            self.groups.push(instance);
        } else {
            let before = std::mem::replace(&mut self.groups[at], instance);
            self.journal.leave(before.volume());
            self.stays.others.extend(Some(before).filter(|before| !before.stay().asleep));
        }
        self.stays.end_before((id, stay), self.engine.merge().seq());
    }

    /// An instance takes part, once the log says where it begins. Without room for that it waits.
    fn wake(&mut self, now: Time, at: usize) {
        let begun = self.has_begun();
        let instance = &mut self.groups[at];
        if let Some(birth) = instance.stay().birth.as_ref().filter(|_| instance.stay().unborn) {
            let unborn = self.journal.note(birth.to_record()).is_err();
            instance.stay_mut().unborn = unborn;
        }
        if instance.stay().unborn || instance.stay().away.is_some() || !begun {
            return;
        }
        match instance.stay().birth.clone().filter(|_| instance.has_started()) {
            // The state went back to before it began: all is handed on again.
            Some(birth) => instance.begin_again(now, birth),
            None => instance.start(now),
        }
        instance.touch();
        let (id, leader) = (instance.id(), instance.leader());
        self.engine.step(engine::In::Led(id, self.role_of(leader)));
        let up =
            self.gate.peers().peers().map(|(id, ..)| id).filter(|id| self.gate.peers().is_up_in(*id, at));
        let up: BTreeSet<ReplicaId> = up.collect();
        self.step_in(at, now, OrderInput::Listeners(self.listeners()));
        self.groups[at].finds(now, up);
        self.on_members(at, self.groups[at].status().membership);
    }

    /// At the end of a turn: those for which the log had no room.
    pub(crate) fn wake_waiting(&mut self, now: Time, out: &mut Effects) {
        let waiting: Vec<usize> =
            (0..self.groups.len()).filter(|at| self.groups[*at].stay().unborn).collect();
        for at in waiting {
            self.wake(now, at);
            self.after_order(now, out);
        }
    }

    pub(crate) fn role_of(&self, leader: Option<ReplicaId>) -> Leader {
        match leader {
            Some(leader) if leader == self.config.members.me() => Leader::Here,
            Some(_) => Leader::Elsewhere,
            None => Leader::Nobody,
        }
    }

    /// Something was delivered: perhaps a border.
    pub(crate) fn look_at_generation(&mut self, out: &mut Effects) {
        let generation = self.engine.merge().generation();
        if generation == self.stays.seen {
            return;
        }
        self.stays.seen = generation;
        let Generation { instances, first, base } = generation;
        let text = format!("{instances} instances since slot {first}, behind seq {base}");
        out.event(Event::Instances { text });
        for at in usize::from(instances)..self.groups.len() {
            if self.groups[at].stay().is_present() {
                self.leave(at, base);
            }
        }
        for conn in self.gate.peers().clients() {
            // Whoever waits for one that went asks again.
            self.engine.step(engine::In::Unbound(conn));
        }
        self.tell_clients(None, out);
    }

    fn leave(&mut self, at: usize, base: Seq) {
        self.groups[at].leave(base);
        self.guide.forget_instance(at);
        self.reconfigure.left(at);
    }

    /// The log was given up to this seq: what is behind a border before it needs no records any more.
    pub(crate) fn fall_asleep(&mut self, trimmed: Seq, out: &mut Effects) {
        let over = |instance: &Group| instance.stay().away.is_some_and(|base| base <= trimmed);
        self.stays.others.retain(|other| !over(other));
        for at in 0..self.groups.len() {
            let instance = &self.groups[at];
            if instance.stay().asleep || !over(instance) {
                continue;
            }
            let (id, away, view) = (instance.id(), instance.stay().away, instance.view());
            let (record, anchor) = self.stands_at(instance);
            match born(Birth { id, record, anchor }, &self.config, self.journal.volumes()) {
                Ok(asleep) => self.groups[at] = asleep,
                Err(halt) => return out.push(Effect::Halt(halt)),
            }
            let instance = &mut self.groups[at];
            (instance.stay_mut().asleep, instance.stay_mut().away) = (true, away);
            instance.is_led(view, None);
            self.engine.step(engine::In::Led(id, Leader::Nobody));
        }
        self.close_volumes();
    }

    /// The global log goes on from a checkpoint. An instance that is further on goes on where it is, since the merge keeps what it said,
    /// unless the checkpoint lies before what was executed: then it is all handed on again.
    /// Gives the instances that begin with it.
    pub(crate) fn jump(&mut self, now: Time, system: &System) -> Result<Vec<usize>, Halt> {
        let unusable = |why: &str| Halt::CheckpointUnusable {
            why: format!("the checkpoint of seq {} does not fit into the global log: {why}", system.seq),
        };
        let checkpoint = system.merge(self.config.merge.window).ok_or_else(|| unusable("its generations"))?;
        self.engine.jump(&checkpoint).map_err(|why| unusable(&why))?;
        let new = self.meet_instances(system)?;
        let many = self.groups.len() > 1;
        for (instance, part) in self.groups.iter_mut().zip(&system.instances) {
            if instance.stay().asleep {
                continue; // it stands where the checkpoint says
            }
            if instance.stay().unborn {
                begin_at(instance, part, &self.config, self.journal.volumes())?;
                continue;
            }
            let next = self.engine.merge().next_record(instance.id());
            let stays = many
                && instance.has_started()
                && instance.decided() >= part.record
                && next == Some(RecordIndex(instance.decided().next().number()));
            if stays {
                instance.admission_mut().jumped();
            } else {
                instance.go_on(now, part.record, &part.anchor)?;
            }
        }
        self.close_volumes();
        Ok(new)
    }

    /// The instances are those of a checkpoint that was installed in the merge. Those that begin with it are in the list that is given.
    fn meet_instances(&mut self, system: &System) -> Result<Vec<usize>, Halt> {
        while self.groups.len() > system.instances.len() {
            // The state goes back to before they came.
            let later = self.groups.pop();
            self.stays.others.extend(later.filter(|later| !later.stay().asleep));
        }
        let mut new = Vec::new();
        for (at, part) in system.instances.iter().enumerate() {
            let birth = Birth::of(part);
            let stay = birth.stay(&self.config.order)?;
            if self.groups.get(at).is_none_or(|instance| instance.stay().number() != stay) {
                let instance = self.take_stay(birth.clone())?;
                if !instance.has_started() {
                    new.push(at);
                }
                let leader = instance.leader();
                self.put_in_force(at, instance);
                self.groups[at].touch();
                self.engine.step(engine::In::Renewed(part.instance));
                self.engine.step(engine::In::Led(part.instance, self.role_of(leader)));
            }
            let away =
                self.engine.merge().is_away(part.instance).then(|| self.engine.merge().generation().base);
            if away.is_some() && !self.groups[at].stay().asleep {
                self.groups[at] = born(birth, &self.config, self.journal.volumes())?;
                self.groups[at].stay_mut().asleep = true;
                self.reconfigure.left(at);
                new.retain(|new| *new != at);
            }
            self.groups[at].stay_mut().away = away;
        }
        self.stays.seen = self.engine.merge().generation();
        Ok(new)
    }

    /// Those that begin with a checkpoint that was installed take part.
    pub(crate) fn wake_new(&mut self, now: Time, new: &[usize]) {
        new.iter().for_each(|at| self.wake(now, *at));
    }

    /// When to look whether the others went on without what this replica waits for: nobody leads it any more.
    pub(crate) fn left_behind_at(&self) -> Option<Time> {
        if self.groups.len() == 1 || self.keeping.transfers() || !self.has_begun() {
            return None;
        }
        let waits = self.engine.merge().waits()?;
        let instance = self.groups.get(usize::from(waits.instance.number()).checked_sub(1)?)?;
        let since = waits.since.max(instance.lead().since()).max(self.stays.looked);
        instance.leader().is_none().then(|| since.plus(self.config.order.patience().times(4)))
    }

    /// Nobody leads what the merge waits for, for long. Where others have a checkpoint of later, it will not come any more.
    pub(crate) fn look_behind(&mut self, now: Time, out: &mut Effects) {
        if self.left_behind_at().is_none_or(|at| at > now) {
            return;
        }
        self.stays.looked = now;
        self.keep(now, In::LeftBehind(self.engine.merge().seq().next()), out);
    }
}

/// An instance of which the log says nothing yet, since it had no room, begins with a checkpoint and not before.
fn begin_at(
    instance: &mut Group,
    part: &InstancePart,
    config: &NodeConfig,
    volumes: &mut Volumes,
) -> Result<(), Halt> {
    let (away, view, leader) = (instance.stay().away, instance.view(), instance.leader());
    *instance = born(Birth::of(part), config, volumes)?;
    (instance.stay_mut().unborn, instance.stay_mut().away) = (true, away);
    instance.is_led(view, leader);
    Ok(())
}

#[cfg(test)]
mod tests;
