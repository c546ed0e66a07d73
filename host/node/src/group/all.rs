//! The groups of a replica: one for each instance. Instances come and go: an ordered command changes their number, at a generation border
//! that follows from the command's slot (docs/protocols/merge.md).
//!
//! When an instance comes, its stay begins with what all replicas know: where its last stay ended, and who the members are (path/3-order,
//! `OrderConfig::next_stay`). The log says so before the instance's first record ([`super::BORN`]), because a replica that starts again
//! reads the instance's records before it executes the command again.
//!
//! When an instance goes, it is led on without requests, so that replicas that lag hear its end. It falls asleep once a checkpoint from
//! after the generation border is durable here and the log before it is trimmed: then it says nothing more, and the checkpoint says where
//! it stands. A replica that still waits for it then fetches a checkpoint.
//!
//! INV-STAY-1: for each instance of the merge there is one stay in force. Tests: all/tests.rs, check/sim,
//! front/cli/tests/all/instances.rs.

use super::inbox::Inboxes;
use super::{At, Birth, Group, Inbox, OwnLanes};
use crate::config::NodeConfig;
use crate::effects::Effects;
use crate::engine::Engine;
use crate::journal::{Loaded, VolumeId, Volumes};
use crate::roster::Roster;
use crate::system::{InstancePart, System};
use quorate_auth::{Keys, Secret};
use quorate_merge::{Generation, Leader, Merge, RecordIndex};
use quorate_order::{Anchor, Effect as OrderEffect, Effects as OrderEffects, Input as OrderInput};
use quorate_types::{ConnId, Halt, InstanceId, ReplicaId, Seq, Slot, Span, Time};
use quorate_wire::{Batch, Memberships, OutFrame};
use std::ops::{Deref, DerefMut};

/// The other parts, as the groups may read them.
#[derive(Clone, Copy)]
pub(crate) struct Look<'a> {
    pub(crate) config: &'a NodeConfig,
    pub(crate) engine: &'a Engine,
    pub(crate) roster: &'a Roster,
}

/// An effect for other parts when instances come and go.
#[derive(Debug)]
pub(crate) enum Out {
    /// An instance begins again in the merge.
    Renewed(InstanceId),
    /// An instance has this leader, for the merge.
    Led(InstanceId, Leader),
    /// Connections are no longer bound to an instance.
    Unbound(usize),
    /// An instance takes no part any more: the memberships that it named do not hold.
    Left(usize),
    /// Records of this volume that are not written yet are not written at all.
    Abandoned(VolumeId),
    /// An instance takes part once the log says where it begins.
    Wake(usize),
    /// Volumes of stays that no group knows any more are closed.
    CloseVolumes,
}

/// The groups of a replica; see the module. The slice has those in force, the group of instance 1 first.
pub(crate) struct Groups {
    pub(super) in_force: Vec<Group>,
    /// Other stays. Later ones are known from the log, until the command that begins them is executed. Earlier ones stay until a checkpoint
    /// is durable that needs none of their records.
    others: Vec<Group>,
    /// The generation of the last delivery.
    seen: Generation,
    /// When this replica last checked whether the others went on without it.
    looked: Time,
    /// Lanes for the pillars, if they have lanes of their own.
    lanes: Option<OwnLanes>,
    /// What came in on lanes that the node keeps itself.
    pub(super) inboxes: Option<Inboxes>,
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

/// Messages.
impl Groups {
    /// Gives the protocol of an instance an input, if there is such an instance.
    pub(crate) fn step_named(&mut self, now: Time, instance: InstanceId, input: OrderInput) {
        if let Some(group) = self.of_mut(instance) {
            group.step(now, input);
        }
    }

    /// The frames that say once more that this replica leads instances. `way`: the connection on which a member hears of an instance.
    pub(crate) fn heartbeats(
        &self,
        way: impl Fn(ReplicaId, usize) -> Option<ConnId>,
    ) -> Vec<(ConnId, OutFrame)> {
        let mut frames = Vec::new();
        for (at, group) in self.in_force.iter().enumerate() {
            let mut effects = OrderEffects::new();
            match &group.at {
                At::Main(pillar) => pillar.order.heartbeats(&mut effects),
                // Its lane may be the main one, too.
                At::Own(apart) => apart.peek(|lane| lane.pillar.order.heartbeats(&mut effects)),
            }
            for effect in effects.drain() {
                if let OrderEffect::Send { to, message, .. } = effect
                    && let Some(conn) = way(to, at)
                {
                    frames.push((conn, message.frame(group.id())));
                }
            }
        }
        frames
    }
}

/// The index of an instance in the list of groups.
pub(crate) fn index_of(id: InstanceId) -> usize {
    // Instance 0 does not exist; its index is out of range.
    usize::from(id.number()).wrapping_sub(1)
}

/// A group without a history, in this stay.
pub(crate) fn new_instance(config: &NodeConfig, volumes: &mut Volumes, number: u16, stay: u64) -> Group {
    let id = InstanceId::new(number);
    Group::new(id, stay, config.order.build(id, stay), config.admission, volumes.open(id))
}

/// A group without records, whose stay begins there.
///
/// # Errors
/// When the anchor is invalid.
pub(crate) fn born(birth: Birth, config: &NodeConfig, volumes: &mut Volumes) -> Result<Group, Halt> {
    let stay = birth.stay(&config.order)?;
    new_instance(config, volumes, birth.id.number(), stay).born(birth)
}

/// The role of a leader, for the merge.
pub(crate) fn role_of(leader: Option<ReplicaId>, me: ReplicaId) -> Leader {
    match leader {
        Some(leader) if leader == me => Leader::Here,
        Some(_) => Leader::Elsewhere,
        None => Leader::Nobody,
    }
}

/// Questions of other parts.
impl Groups {
    pub(crate) fn new(in_force: Vec<Group>, others: Vec<Group>, seen: Generation) -> Self {
        Self { in_force, others, seen, looked: Time::ZERO, lanes: None, inboxes: None }
    }

    /// Gives the pillars lanes of their own, when their protocols start.
    pub(crate) fn stand_apart(&mut self, lanes: OwnLanes) {
        self.lanes = Some(lanes);
    }

    /// Whether the pillars have lanes of their own.
    pub(crate) const fn have_lanes(&self) -> bool {
        self.lanes.is_some()
    }

    /// Takes the pillar of a group that starts to its lane.
    fn take_to_lane(&mut self, at: usize) {
        if let Some(lanes) = &mut self.lanes {
            let group = self.in_force.remove(at);
            self.in_force.insert(at, group.apart(lanes));
        }
    }

    /// The group of an instance, if there is one.
    pub(crate) fn of(&self, id: InstanceId) -> Option<&Group> {
        self.in_force.get(index_of(id))
    }

    /// The group of the first instance, which carries commands to the engine and borders on request.
    pub(crate) fn first(&self) -> &Group {
        &self.in_force[0]
    }

    /// The group of an instance, to be stepped.
    pub(crate) fn of_mut(&mut self, id: InstanceId) -> Option<&mut Group> {
        self.in_force.get_mut(index_of(id))
    }

    /// The groups that take part in the cluster. Groups that only lead others to their end are left out.
    pub(crate) fn present(&self) -> impl Iterator<Item = &Group> {
        self.in_force.iter().filter(|group| group.stay().is_present())
    }

    /// Whether this replica leads an instance that takes part, and may propose in it.
    pub(crate) fn lead_here(&self) -> bool {
        self.present().any(|group| group.standing().leading)
    }

    /// Bytes of requests that were admitted and are not decided.
    pub(crate) fn queue_bytes(&self) -> usize {
        self.in_force.iter().map(Group::queue_bytes).sum()
    }

    /// All stays that may have records in the log.
    pub(crate) fn stays(&self) -> impl Iterator<Item = &Group> {
        self.in_force.iter().chain(&self.others)
    }

    /// When to check whether the others went on without an instance that this replica waits for, and that nobody leads.
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

/// Inputs of several groups.
impl Groups {
    /// Steps all groups that lead here.
    pub(crate) fn step_led(&mut self, now: Time, input: &OrderInput) {
        for group in self.in_force.iter_mut().filter(|group| group.standing().leading) {
            group.step(now, input.clone());
        }
    }

    /// Steps all groups that take part in the cluster.
    pub(crate) fn step_present(&mut self, now: Time, input: &OrderInput) {
        for group in self.in_force.iter_mut().filter(|group| group.stay().is_present()) {
            group.step(now, input.clone());
        }
    }

    /// All instances, also those that come later, sign with this key where it is this replica's.
    pub(crate) fn hold(&mut self, now: Time, keys: &mut Keys, secret: &Secret) {
        keys.hold(secret);
        self.step_present(now, &OrderInput::Hold(secret.clone()));
    }

    /// Names the groups whose lanes have something to take and were not asked yet.
    pub(crate) fn ask_lanes(&mut self, mut ask: impl FnMut(InstanceId)) {
        for group in &mut self.in_force {
            if group.asks_lane() {
                ask(group.id());
            }
        }
        self.answered_frames();
    }

    /// The main lane hears the turns of all lanes. Whether there were any.
    pub(crate) fn hear_lanes(&mut self) -> bool {
        self.in_force.iter_mut().filter_map(|group| group.hear_lane().then_some(())).count() > 0
    }

    /// Holds the lanes of all groups: they have no turn of their own until they are asked for one again.
    pub(crate) fn hold_lanes(&mut self) {
        self.in_force.iter_mut().for_each(Group::hold_lane);
    }

    /// Gives the lanes of all groups a turn.
    pub(crate) fn take_turns(&mut self, now: Time, out: &mut Effects) {
        for group in &mut self.in_force {
            group.take_turn(now, &mut Inbox::default(), out);
        }
    }

    /// The disk has read records for one of the groups.
    pub(crate) fn loaded(&mut self, now: Time, loaded: &Loaded) {
        let Loaded { volume, load, records } = loaded;
        for group in self.in_force.iter_mut().filter(|group| group.volume() == *volume) {
            group.step(now, OrderInput::Loaded { load: *load, records: records.clone() });
        }
    }

    /// Steps the groups whose deadline has come. Whether there were any.
    pub(crate) fn on_deadline(&mut self, now: Time) -> bool {
        let mut any = false;
        for group in &mut self.in_force {
            any |= group.on_deadline(now);
        }
        any
    }

    /// Messages reach a member and come back from now on, in the groups for which `is_up` says so.
    pub(crate) fn connects(&mut self, now: Time, replica: ReplicaId, is_up: impl Fn(usize) -> bool) {
        for (_, group) in self.in_force.iter_mut().enumerate().filter(|(at, _)| is_up(*at)) {
            group.connects(now, replica);
        }
    }

    /// Messages of a member may have been lost, in the groups for which `is_cut` says so.
    pub(crate) fn disconnects(&mut self, now: Time, replica: ReplicaId, is_cut: impl Fn(usize) -> bool) {
        for (_, group) in self.in_force.iter_mut().enumerate().filter(|(at, _)| is_cut(*at)) {
            group.disconnects(now, replica);
        }
    }

    /// Starts the groups. Before they hear which members are connected ([`Self::greet`]), other parts are told that they have started.
    pub(crate) fn begin(&mut self, now: Time) {
        for at in 0..self.in_force.len() {
            if self.in_force[at].stay().may_begin() {
                self.take_to_lane(at);
                self.in_force[at].start(now);
            }
        }
    }

    /// A group takes part if its stay begins ([`Group::wakes`]). Whether it does.
    pub(crate) fn wake(&mut self, at: usize, now: Time) -> bool {
        let group = &self.in_force[at];
        if !group.has_started() && !group.stay().unborn && group.stay().is_present() {
            self.take_to_lane(at);
        }
        self.in_force[at].wakes(now)
    }

    /// Tells all groups which members are connected.
    pub(crate) fn greet(&mut self, now: Time) {
        self.in_force.iter_mut().for_each(|group| group.greet(now));
    }
}

/// Instances come and go.
impl Groups {
    /// The number of instances changes from the next generation border on, from `before` to `count`.
    ///
    /// # Errors
    /// When the protocol can not begin a stay.
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

    /// Where the next stay of an instance begins; the same on all replicas.
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

    /// The group of a stay that begins: the one that is known from the log, or a new one.
    fn take_stay(&mut self, birth: Birth, look: &Look<'_>, volumes: &mut Volumes) -> Result<Group, Halt> {
        let stay = birth.stay(&look.config.order)?;
        if let Some(known) = self.take_known((birth.id, stay)) {
            return Ok(known);
        }
        let mut group = born(birth, look.config, volumes)?;
        group.stay_mut().unborn = true;
        Ok(group)
    }

    /// Takes the known group of a stay that comes in force. The stay may have ended before the state went back; that no longer holds.
    fn take_known(&mut self, (id, stay): (InstanceId, u64)) -> Option<Group> {
        let known = self.others.iter().position(|other| (other.id(), other.stay().number()) == (id, stay))?;
        let mut group = self.others.swap_remove(known);
        group.stay_mut().away = None;
        group.returns();
        Some(group)
    }

    /// Puts a stay of an instance in force. The stay before is kept while its records are needed.
    fn put_in_force(&mut self, at: usize, group: Group, look: &Look<'_>, out: &mut Vec<Out>) {
        out.push(Out::Unbound(at));
        let (id, stay) = (group.id(), group.stay().number());
        if at == self.in_force.len() {
            self.in_force.push(group);
        } else {
            let mut before = std::mem::replace(&mut self.in_force[at], group);
            before.rests();
            out.push(Out::Abandoned(before.volume()));
            self.others.extend(Some(before).filter(|before| !before.stay().asleep));
        }
        self.end_before((id, stay), look.engine.merge().seq());
    }

    /// Ends all earlier stays of an instance at the seq at which this one is in force. Some are known only from the log: a later checkpoint
    /// was installed before they came in force here.
    fn end_before(&mut self, (id, stay): (InstanceId, u64), seq: Seq) {
        for other in self.others.iter_mut().filter(|other| other.id() == id && other.stay().number() < stay) {
            other.stay_mut().away.get_or_insert(seq);
        }
    }

    /// Something was delivered. If a generation with fewer instances has begun, the others leave. Whether a generation has begun.
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

    /// The log was trimmed up to this seq: groups that left before need no records any more.
    ///
    /// # Errors
    /// When the protocol can not begin a stay.
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

    /// Puts a group in force, whatever the merge says.
    #[cfg(test)]
    pub(crate) fn push(&mut self, group: Group) {
        self.in_force.push(group);
    }

    /// This replica has checked whether the others went on without it.
    pub(crate) fn looked(&mut self, now: Time) {
        self.looked = now;
    }
}

/// A checkpoint is installed.
impl Groups {
    /// Takes the instances of a checkpoint that was installed in the merge. Gives the indices of those that begin with it.
    ///
    /// # Errors
    /// When the protocol can not begin a stay.
    pub(crate) fn meet(
        &mut self,
        system: &System,
        look: &Look<'_>,
        volumes: &mut Volumes,
        out: &mut Vec<Out>,
    ) -> Result<Vec<usize>, Halt> {
        while self.in_force.len() > system.instances.len() {
            // The state goes back to before these instances came.
            let mut later = self.in_force.pop();
            later.iter_mut().for_each(Group::rests);
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

    /// Lets the groups go on from a checkpoint. A group that is further on keeps its position, since the merge keeps what it decided. If
    /// the checkpoint lies before what was executed, everything behind it is delivered again.
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
        for (group, part) in self.in_force.iter_mut().zip(&system.instances) {
            if group.stay().asleep {
                continue; // the checkpoint says where it stands
            }
            if group.stay().unborn {
                begin_at(group, part, look.config, volumes)?;
                continue;
            }
            let next = look.engine.merge().next_record(group.id());
            let stays = group.has_started()
                && group.decided() >= part.record
                && next == Some(RecordIndex(group.decided().next().number()));
            if stays {
                group.jumped();
            } else {
                group.go_on(now, part.record, &part.anchor)?;
            }
        }
        Ok(())
    }
}

/// The last record of an instance that is in the global log, and its anchor.
fn stands_at(group: &Group, merge: &Merge<Batch>) -> (Slot, Anchor) {
    let record = Slot::new(merge.delivered_record(group.id()).map_or(0, |record| record.0));
    let Some(anchor) = group.anchor(record) else {
        panic!("INV-NODE-8 record {record} of {} of {} has an anchor", group.id(), group.decided());
    };
    (record, anchor)
}

/// Begins an instance with a checkpoint, because the log had no room to say that it began earlier.
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
