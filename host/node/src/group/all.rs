//! The groups of a replica: one for each instance. Instances come and go: an ordered command changes their number, at a border that follows
//! from its slot (docs/protocols/merge.md).
//!
//! An instance that comes begins with what all replicas know: where its last stay ended, and who the members are
//! (path/3-order, `OrderConfig::next_stay`). Before its first record the log says so ([`super::BORN`]), since a replica that starts again
//! reads the instance's records before it executes the command again. An instance that goes is led on, without work, so that whoever lags
//! hears its end; once a checkpoint behind the border is durable here and the log before it given up, it falls asleep: it says nothing, and
//! the checkpoint says where it stands. Who still waits for it by then fetches a checkpoint.
//!
//! INV-STAY-1: for each instance of the merge there is one stay in force. Tests: all/tests.rs, check/sim,
//! front/cli/tests/all/instances.rs.

use super::{Birth, Group};
use crate::config::NodeConfig;
use crate::engine::Engine;
use crate::journal::{Loaded, VolumeId, Volumes};
use crate::roster::Roster;
use crate::system::{InstancePart, System};
use quorate_merge::{Generation, Leader, Merge, RecordIndex};
use quorate_order::{Anchor, Input as OrderInput};
use quorate_types::{Halt, InstanceId, ReplicaId, Seq, Slot, Span, Time};
use quorate_wire::{Batch, Memberships};
use std::ops::{Deref, DerefMut};

/// What this part may know of the others.
#[derive(Clone, Copy)]
pub(crate) struct Look<'a> {
    pub(crate) config: &'a NodeConfig,
    pub(crate) engine: &'a Engine,
    pub(crate) roster: &'a Roster,
}

/// What others have to do when instances come and go.
#[derive(Debug)]
pub(crate) enum Out {
    /// An instance begins again in the merge.
    Renewed(InstanceId),
    /// It is led by this one, as far as the merge has to know.
    Led(InstanceId, Leader),
    /// No connection is bound to it any more.
    Unbound(usize),
    /// It takes no part any more: what it said of members does not hold.
    Left(usize),
    /// What it did not write down yet is not written.
    Abandoned(VolumeId),
    /// It takes part, once the log says where it begins.
    Wake(usize),
    /// Volumes of stays that nobody knows any more go.
    CloseVolumes,
}

/// The groups of a replica; see the module. Those in force are the slice, that of instance 1 first.
pub(crate) struct Groups {
    in_force: Vec<Group>,
    /// Other stays: what the log holds of later ones, until the command is executed, and earlier ones, until a checkpoint is
    /// durable that needs none of their records.
    others: Vec<Group>,
    /// The generation that was seen last.
    seen: Generation,
    /// When this replica looked last whether others went on without it.
    looked: Time,
}

impl Deref for Groups {
    type Target = [Group];
    fn deref(&self) -> &[Group] {
        &self.in_force
    }
}

impl DerefMut for Groups {
    fn deref_mut(&mut self) -> &mut [Group] {
        &mut self.in_force
    }
}

/// Where an instance stands in the list of all.
pub(crate) fn index_of(id: InstanceId) -> usize {
    // Instance 0 is none; no list is so long.
    usize::from(id.number()).wrapping_sub(1)
}

/// An instance without a history, in this stay.
pub(crate) fn new_instance(config: &NodeConfig, volumes: &mut Volumes, number: u16, stay: u64) -> Group {
    let id = InstanceId::new(number);
    let group = Group::new(id, stay, config.order.build(id, stay), config.admission, volumes.open(id));
    if config.placement.groups { group.apart() } else { group }
}

/// An instance whose stay begins there, with nothing in it yet.
///
/// # Errors
/// When the anchor is none.
pub(crate) fn born(birth: Birth, config: &NodeConfig, volumes: &mut Volumes) -> Result<Group, Halt> {
    let stay = birth.stay(&config.order)?;
    new_instance(config, volumes, birth.id.number(), stay).born(birth)
}

/// What the merge has to know of a leader.
pub(crate) fn role_of(leader: Option<ReplicaId>, me: ReplicaId) -> Leader {
    match leader {
        Some(leader) if leader == me => Leader::Here,
        Some(_) => Leader::Elsewhere,
        None => Leader::Nobody,
    }
}

/// What others may ask.
impl Groups {
    pub(crate) fn new(in_force: Vec<Group>, others: Vec<Group>, seen: Generation) -> Self {
        Self { in_force, others, seen, looked: Time::ZERO }
    }

    /// That of an instance, if there is one.
    pub(crate) fn of(&self, id: InstanceId) -> Option<&Group> {
        self.in_force.get(index_of(id))
    }

    /// That of the instance that carries what is about all of them.
    pub(crate) fn first(&self) -> &Group {
        &self.in_force[0]
    }

    /// The same, to be told something.
    pub(crate) fn of_mut(&mut self, id: InstanceId) -> Option<&mut Group> {
        self.in_force.get_mut(index_of(id))
    }

    /// Those that take part in the cluster, and not only as some that others may still need.
    pub(crate) fn present(&self) -> impl Iterator<Item = &Group> {
        self.in_force.iter().filter(|group| group.stay().is_present())
    }

    /// Whether this replica leads one that takes part, and may propose there.
    pub(crate) fn lead_here(&self) -> bool {
        self.present().any(|group| group.standing().leading)
    }

    /// Bytes that were admitted and are not decided.
    pub(crate) fn queue_bytes(&self) -> usize {
        self.in_force.iter().map(Group::queue_bytes).sum()
    }

    /// All stays that may have records in the log.
    pub(crate) fn stays(&self) -> impl Iterator<Item = &Group> {
        self.in_force.iter().chain(&self.others)
    }

    /// When to look whether the others went on without what this replica waits for: nobody leads it any more.
    pub(crate) fn left_behind_at(&self, merge: &Merge<Batch>, patience: Span) -> Option<Time> {
        if self.len() == 1 || !self.first().has_started() {
            return None;
        }
        let waits = merge.waits()?;
        let group = self.of(waits.instance)?;
        let since = waits.since.max(group.lead().since()).max(self.looked);
        group.leader().is_none().then(|| since.plus(patience.times(4)))
    }
}

/// What several of them are told.
impl Groups {
    /// All that lead here are told this.
    pub(crate) fn step_led(&mut self, now: Time, input: &OrderInput) {
        for group in self.in_force.iter_mut().filter(|group| group.standing().leading) {
            group.step(now, input.clone());
        }
    }

    /// All that take part in the cluster are.
    pub(crate) fn step_present(&mut self, now: Time, input: &OrderInput) {
        for group in self.in_force.iter_mut().filter(|group| group.stay().is_present()) {
            group.step(now, input.clone());
        }
    }

    /// Names those whose lanes have to be asked to take what they were told.
    pub(crate) fn ask_lanes(&mut self, mut ask: impl FnMut(InstanceId)) {
        for group in &mut self.in_force {
            if group.asks_lane() {
                ask(group.id());
            }
        }
    }

    /// The main lane hears what their lanes did until now. Whether there was anything.
    pub(crate) fn hear_lanes(&mut self) -> bool {
        self.in_force.iter_mut().filter_map(|group| group.hear_lane().then_some(())).count() > 0
    }

    /// The lanes of all have their turns now.
    pub(crate) fn take_turns(&mut self, now: Time) {
        for group in &mut self.in_force {
            group.take_turn(now);
        }
    }

    /// The disk read what one of them asked for.
    pub(crate) fn loaded(&mut self, now: Time, loaded: &Loaded) {
        let Loaded { volume, load, records } = loaded;
        for group in self.in_force.iter_mut().filter(|group| group.volume() == *volume) {
            group.step(now, OrderInput::Loaded { load: *load, records: records.clone() });
        }
    }

    /// The time is up of those whose deadline it is. Whether there were any.
    pub(crate) fn on_deadline(&mut self, now: Time) -> bool {
        let mut any = false;
        for group in &mut self.in_force {
            any |= group.on_deadline(now);
        }
        any
    }

    /// A member's messages get through from now on, in those for which `is_up` says so.
    pub(crate) fn connects(&mut self, now: Time, replica: ReplicaId, is_up: impl Fn(usize) -> bool) {
        for (_, group) in self.in_force.iter_mut().enumerate().filter(|(at, _)| is_up(*at)) {
            group.connects(now, replica);
        }
    }

    /// They may have been lost, in those for which `is_cut` says so.
    pub(crate) fn disconnects(&mut self, now: Time, replica: ReplicaId, is_cut: impl Fn(usize) -> bool) {
        for (_, group) in self.in_force.iter_mut().enumerate().filter(|(at, _)| is_cut(*at)) {
            group.disconnects(now, replica);
        }
    }

    /// They take part from now on, and hear who is there; in between others are told that they do.
    pub(crate) fn begin(&mut self, now: Time) {
        self.in_force.iter_mut().filter(|group| group.stay().may_begin()).for_each(|group| group.start(now));
    }

    /// All hear who is there.
    pub(crate) fn greet(&mut self, now: Time) {
        self.in_force.iter_mut().for_each(|group| group.greet(now));
    }
}

/// Instances come and go.
impl Groups {
    /// There are so many instances from the next border on, and were so many before.
    ///
    /// # Errors
    /// When the protocol can not begin one.
    pub(crate) fn resized(
        &mut self,
        (before, count): (u16, u16),
        look: &Look<'_>,
        volumes: &mut Volumes,
        out: &mut Vec<Out>,
    ) -> Result<(), Halt> {
        for at in usize::from(before)..usize::from(count) {
            let id = InstanceId::new(at as u16 + 1);
            let birth = self.birth(id, look)?;
            let group = self.take_stay(birth, look, volumes)?;
            self.put_in_force(at, group, look, out);
            out.extend([Out::Renewed(id), Out::Wake(at)]);
        }
        Ok(())
    }

    /// Where the next stay of an instance begins: the same on all replicas.
    fn birth(&self, id: InstanceId, look: &Look<'_>) -> Result<Birth, Halt> {
        let members = look.roster.current().cloned().map(Memberships::one);
        let Some(last) = self.of(id) else {
            let anchor = look.config.order.next_stay(None, members.as_ref())?;
            return Ok(Birth { id, record: Slot::ZERO, anchor });
        };
        let (record, anchor) = stands_at(last, look.engine.merge());
        let anchor = look.config.order.next_stay(Some((record, &anchor)), members.as_ref())?;
        Ok(Birth { id, record, anchor })
    }

    /// The stay that begins there: what the log holds of it, or a new one.
    fn take_stay(&mut self, birth: Birth, look: &Look<'_>, volumes: &mut Volumes) -> Result<Group, Halt> {
        let stay = birth.stay(&look.config.order)?;
        if let Some(known) = self.take_known((birth.id, stay)) {
            return Ok(known);
        }
        let mut group = born(birth, look.config, volumes)?;
        group.stay_mut().unborn = true;
        Ok(group)
    }

    /// What is known of a stay that comes in force. Where the state went back to before that, it may have ended meanwhile: not any more.
    fn take_known(&mut self, (id, stay): (InstanceId, u64)) -> Option<Group> {
        let known = self.others.iter().position(|other| (other.id(), other.stay().number()) == (id, stay))?;
        let mut group = self.others.swap_remove(known);
        group.stay_mut().away = None;
        Some(group)
    }

    /// This stay of an instance counts from now on; those before are kept for their records.
    fn put_in_force(&mut self, at: usize, group: Group, look: &Look<'_>, out: &mut Vec<Out>) {
        out.push(Out::Unbound(at));
        let (id, stay) = (group.id(), group.stay().number());
        if at == self.in_force.len() {
            self.in_force.push(group);
        } else {
            let before = std::mem::replace(&mut self.in_force[at], group);
            out.push(Out::Abandoned(before.volume()));
            self.others.extend(Some(before).filter(|before| !before.stay().asleep));
        }
        self.end_before((id, stay), look.engine.merge().seq());
    }

    /// With this stay in force at a seq, all before it are over: also those that are known from the log only, since a checkpoint of
    /// later was installed before they came in force here.
    fn end_before(&mut self, (id, stay): (InstanceId, u64), seq: Seq) {
        for other in self.others.iter_mut().filter(|other| other.id() == id && other.stay().number() < stay) {
            other.stay_mut().away.get_or_insert(seq);
        }
    }

    /// Something was delivered. Whether there is another number of instances since: then those that are not among them leave.
    pub(crate) fn delivered(&mut self, generation: Generation, out: &mut Vec<Out>) -> bool {
        if generation == self.seen {
            return false;
        }
        self.seen = generation;
        for at in usize::from(generation.instances)..self.len() {
            if self.in_force[at].stay().is_present() {
                self.in_force[at].leave(generation.base);
                out.extend([Out::Unbound(at), Out::Left(at)]);
            }
        }
        true
    }

    /// The log was given up to this seq: what is behind a border before it needs no records any more.
    ///
    /// # Errors
    /// When the protocol can not begin one.
    pub(crate) fn fall_asleep(
        &mut self,
        trimmed: Seq,
        look: &Look<'_>,
        volumes: &mut Volumes,
        out: &mut Vec<Out>,
    ) -> Result<(), Halt> {
        let over = |group: &Group| group.stay().away.is_some_and(|base| base <= trimmed);
        self.others.retain(|other| !over(other));
        for group in self.in_force.iter_mut().filter(|group| !group.stay().asleep && over(group)) {
            let (id, away, view) = (group.id(), group.stay().away, group.view());
            let (record, anchor) = stands_at(group, look.engine.merge());
            *group = born(Birth { id, record, anchor }, look.config, volumes)?;
            (group.stay_mut().asleep, group.stay_mut().away) = (true, away);
            group.is_led(view, None);
            out.push(Out::Led(id, Leader::Nobody));
        }
        out.push(Out::CloseVolumes);
        Ok(())
    }

    /// One more is in force, whatever the merge says.
    #[cfg(test)]
    pub(crate) fn push(&mut self, group: Group) {
        self.in_force.push(group);
    }

    /// It was looked whether others went on without what this replica waits for.
    pub(crate) fn looked(&mut self, now: Time) {
        self.looked = now;
    }
}

/// The state of a checkpoint takes the place of what was executed.
impl Groups {
    /// The instances are those of a checkpoint that was installed in the merge. Those that begin with it are in the list that is given.
    ///
    /// # Errors
    /// When the protocol can not begin one.
    pub(crate) fn meet(
        &mut self,
        system: &System,
        look: &Look<'_>,
        volumes: &mut Volumes,
        out: &mut Vec<Out>,
    ) -> Result<Vec<usize>, Halt> {
        while self.in_force.len() > system.instances.len() {
            // The state goes back to before they came.
            let later = self.in_force.pop();
            self.others.extend(later.filter(|later| !later.stay().asleep));
        }
        let mut new = Vec::new();
        for (at, part) in system.instances.iter().enumerate() {
            let birth = Birth::of(part);
            let stay = birth.stay(&look.config.order)?;
            if self.get(at).is_none_or(|group| group.stay().number() != stay) {
                let mut group = self.take_stay(birth.clone(), look, volumes)?;
                if !group.has_started() {
                    new.push(at);
                }
                group.touch();
                let leader = role_of(group.leader(), look.config.members.me());
                self.put_in_force(at, group, look, out);
                out.extend([Out::Renewed(part.instance), Out::Led(part.instance, leader)]);
            }
            let away =
                look.engine.merge().is_away(part.instance).then(|| look.engine.merge().generation().base);
            if away.is_some() && !self.in_force[at].stay().asleep {
                self.in_force[at] = born(birth, look.config, volumes)?;
                self.in_force[at].stay_mut().asleep = true;
                out.push(Out::Left(at));
                new.retain(|new| *new != at);
            }
            self.in_force[at].stay_mut().away = away;
        }
        self.seen = look.engine.merge().generation();
        Ok(new)
    }

    /// An instance that is further on than the checkpoint goes on where it is, since the merge keeps what it said, unless the checkpoint
    /// lies before what was executed: then it is all handed on again.
    ///
    /// # Errors
    /// When the protocol can not go on from it.
    pub(crate) fn go_on(
        &mut self,
        now: Time,
        system: &System,
        look: &Look<'_>,
        volumes: &mut Volumes,
    ) -> Result<(), Halt> {
        let many = self.len() > 1;
        for (group, part) in self.in_force.iter_mut().zip(&system.instances) {
            if group.stay().asleep {
                continue; // it stands where the checkpoint says
            }
            if group.stay().unborn {
                begin_at(group, part, look.config, volumes)?;
                continue;
            }
            let next = look.engine.merge().next_record(group.id());
            let stays = many
                && group.has_started()
                && group.decided() >= part.record
                && next == Some(RecordIndex(group.decided().next().number()));
            if stays {
                group.admission_mut().jumped();
            } else {
                group.go_on(now, part.record, &part.anchor)?;
            }
        }
        Ok(())
    }
}

/// The last record of an instance that is in the global log.
fn stands_at(group: &Group, merge: &Merge<Batch>) -> (Slot, Anchor) {
    let record = Slot::new(merge.delivered_record(group.id()).map_or(0, |record| record.0));
    let Some(anchor) = group.anchor(record) else {
        panic!("INV-NODE-8 record {record} of {} of {} has an anchor", group.id(), group.decided());
    };
    (record, anchor)
}

/// An instance of which the log says nothing yet, since it had no room, begins with a checkpoint and not before.
fn begin_at(
    group: &mut Group,
    part: &InstancePart,
    config: &NodeConfig,
    volumes: &mut Volumes,
) -> Result<(), Halt> {
    let (away, view, leader) = (group.stay().away, group.view(), group.leader());
    *group = born(Birth::of(part), config, volumes)?;
    (group.stay_mut().unborn, group.stay_mut().away) = (true, away);
    group.is_led(view, leader);
    Ok(())
}

#[cfg(test)]
mod tests;
