//! Which replica leads which instance. This part decides when an instance that leads here is handed to another replica; protocols decide
//! the rest.
//!
//! A leader gives way if it holds up the others ([`Leading::lags_at`]), or has started and must execute much before it can answer
//! (`backlog.rs`). If its disk is full, it hands over to a member that has room
//! (`rooms.rs`). If it does not hear other leaders, it gathers with them (`sights.rs`). And each instance goes to the replica whose turn it
//! is, so that every replica leads about as many ([`Leading::spread_at`]). This part keeps what members say of their room and of the
//! leaders that they hear, and decides what to tell members of this replica.
//!
//! Tests: leading/tests.rs, and beside each of the files; check/sim.

mod backlog;
mod rooms;
mod sights;

use crate::config::NodeConfig;
use crate::engine::Engine;
use crate::gate::Gate;
use crate::group::{Group, index_of};
use crate::journal::Journal;
use crate::keeping::Keeping;
use backlog::Backlog;
use quorate_merge::Generation;
use quorate_order::{Input as OrderInput, Nature};
use quorate_types::{ConnId, ReplicaId, Room, Slot, Span, Time, planted};
use quorate_wire::{OutFrame, Sight, room_frame};
use rooms::Rooms;
use sights::Sights;
use std::collections::BTreeSet;

/// How long a new leader keeps its instance before it hands it over to spread the work. Each time it is twice as long, up to the second
/// value.
const SPREAD_AFTER: Span = Span::from_secs(2);
const SPREAD_AFTER_MAX: Span = Span::from_secs(64);
/// A member that lacks more bytes than this is not handed an instance.
const SPREAD_LAG_MAX: u64 = 4 << 20;
/// A leader with a full disk hands over at most this often: leadership must not go round and round.
const HAND_OVER_AGAIN: Span = Span::from_secs(30);

/// The other parts, as this one may read them.
#[derive(Clone, Copy)]
pub(crate) struct Look<'a> {
    pub(crate) config: &'a NodeConfig,
    pub(crate) groups: &'a [Group],
    pub(crate) engine: &'a Engine,
    pub(crate) gate: &'a Gate,
    pub(crate) journal: &'a Journal,
    pub(crate) keeping: &'a Keeping,
}

/// An input.
#[derive(Debug)]
pub(crate) enum In {
    /// The time of [`Leading::deadline`] may have come.
    Deadline,
    /// The end of a turn: members hear of changes.
    TurnEnd,
    /// A member is connected.
    Connected(ReplicaId),
    /// A member's connection is gone. The member will say everything again.
    Lost(ReplicaId),
    /// A member says what it has room for.
    Room(ReplicaId, Room),
    /// A member says which leaders it hears.
    Sight(ReplicaId, Sight),
    /// A request found no room on this leader's disk.
    Full,
}

/// An effect.
#[derive(Debug)]
pub(crate) enum Out {
    /// Hand an instance that leads here to this member, or to the most advanced one.
    Transfer { at: usize, to: Option<ReplicaId> },
    /// It was checked whose turn it is to lead an instance; `mine`: this replica's.
    Looked { at: usize, mine: bool },
    /// Tell all instances something.
    All(OrderInput),
    /// Send a message to a member.
    Tell { conn: ConnId, frame: OutFrame },
}

/// Which replica leads which instance; see the module.
#[derive(Debug, Default)]
pub(crate) struct Leading {
    rooms: Rooms,
    sights: Sights,
    backlog: Backlog,
    /// When a leader here last gave way because it held up the others.
    gave_way: Time,
    /// When it last handed over because its disk is full.
    handed_over: Option<Time>,
    /// The generation whose instances know that one of them has decided something.
    met: Option<Generation>,
}

impl Leading {
    /// Takes an input, and gives effects.
    pub(crate) fn step(&mut self, now: Time, look: &Look<'_>, input: In, out: &mut Vec<Out>) {
        match input {
            In::Deadline => {
                self.look_at_backlog(now, look, out);
                self.give_way(now, look, out);
                self.gather(now, look, out);
                self.spread(now, look, out);
            }
            In::TurnEnd => {
                self.look_at_backlog(now, look, out);
                self.tell_met(look, out);
                self.tell_room(look, out);
                self.tell_sight(now, look, out);
            }
            In::Connected(member) => {
                if self.rooms.told != Room::Data {
                    self.tell_room_to(member, look, out);
                }
                if !seen_together(look).is_empty() {
                    self.tell_sight_to(member, look, out);
                }
            }
            In::Lost(member) => {
                self.rooms.others.remove(&member);
                self.sights.others.remove(&member);
            }
            In::Room(member, room) => drop(self.rooms.others.insert(member, room)),
            // A liar could draw every instance to itself.
            In::Sight(..) if may_lie(look) => {}
            In::Sight(member, sight) => {
                self.sights.others.insert(member, sight);
                self.sights.looked = None;
            }
            In::Full => self.hand_over(now, look, out),
        }
    }

    /// Checks whether this replica can hand over what it leads, as an operator wants: to the member with this number, or for 0 to the most
    /// advanced one. Gives the member.
    ///
    /// # Errors
    /// The reason, in words.
    pub(crate) fn may_hand_over(
        &self,
        look: &Look<'_>,
        to: Option<u16>,
    ) -> Result<Option<ReplicaId>, String> {
        let Some(id) = to else {
            return Err("name the replica to hand over to, or 0 for the most advanced one".into());
        };
        let to = Some(id).filter(|id| *id != 0).map(ReplicaId::new);
        let Some(first) = look.groups.first() else { return Err("nothing is led here".into()) };
        if let Some(to) = to.filter(|to| look.config.members.get(*to).is_none()) {
            return Err(format!("{to} is no member of this cluster"));
        }
        if let Some(to) = to.filter(|to| !first.status().membership.is_voter(*to)) {
            return Err(format!("{to} is a learner, and leads only once it was promoted"));
        }
        if !look.groups.iter().any(|group| group.stay().is_present() && group.standing().leading) {
            return Err(match first.leader() {
                Some(leader) => format!("{leader} leads, ask it"),
                None => "nobody leads now, try again".into(),
            });
        }
        Ok(to)
    }

    /// Execution goes on from another state: there may be much to execute until this replica is where the others are.
    pub(crate) fn restored(&mut self) {
        self.backlog.restart();
    }

    /// Members or connections have changed: whether there is a majority is checked again.
    pub(crate) fn majority_changed(&mut self) {
        self.sights.majority_changed();
    }

    /// When to step it with [`In::Deadline`], if nothing else happens.
    pub(crate) fn deadline(&self, look: &Look<'_>) -> Option<Time> {
        [self.lags_at(look), self.gathers_at(look), self.spread_at(look)].into_iter().flatten().min()
    }

    /// The room for requests of clients at this replica, if it leads.
    pub(crate) fn room(&self, own: Room, config: &NodeConfig) -> Room {
        self.rooms.to_take(own, others(config), config.order.faults)
    }

    /// The members without room, if they keep a quorum from taking requests.
    pub(crate) fn without_room(&self, look: &Look<'_>) -> Vec<ReplicaId> {
        if self.room(look.journal.room(), look.config) == Room::Data {
            return Vec::new();
        }
        others(look.config).filter(|member| !self.rooms.has_all(*member)).collect()
    }

    /// Whether a leader here takes requests that need room. While a segment is only being prepared it does, soon.
    pub(crate) fn takes_writes(&self, look: &Look<'_>) -> bool {
        let own = if look.journal.disk().is_full() { look.journal.room() } else { Room::Data };
        self.room(own, look.config) == Room::Data
    }

    /// The replicas that have said that their disks are full.
    pub(crate) fn full_disks(&self, look: &Look<'_>) -> Vec<u16> {
        let own = look.journal.disk().is_full().then_some(look.config.members.me());
        let others = others(look.config).filter(|member| !self.rooms.has_all(*member));
        own.into_iter().chain(others).map(ReplicaId::number).collect()
    }
}

/// Giving way, and handing over without room.
impl Leading {
    /// When a leader here that holds up the merge must hand over. It holds it up if its proposals lie too far ahead of what is executed
    /// here, or if it lacks a checkpoint: the others may then need a border, which it can not order.
    fn lags_at(&self, look: &Look<'_>) -> Option<Time> {
        let backlog = self.backlog_at(look);
        if !look.groups.iter().any(|group| holds_up(look, group)) {
            return backlog;
        }
        // While the instance that the merge waits for has no leader, it needs an election first, and then some time.
        let waits = look.engine.merge().waits().and_then(|waits| {
            let group = look.groups.get(index_of(waits.instance))?;
            group.leader().map(|_| waits.since.max(group.lead().since()))
        });
        let since = waits.into_iter().chain(look.keeping.fetches_since()).min();
        let held_up = since.map(|since| since.max(self.gave_way).plus(look.config.order.patience()));
        [held_up, backlog].into_iter().flatten().min()
    }

    fn look_at_backlog(&mut self, now: Time, look: &Look<'_>, out: &mut Vec<Out>) {
        if self.backlog.is_settled(now) {
            return; // in nearly every turn
        }
        let news = self.backlog.look(now, look.config.order.patience(), behind(look));
        // Where results are compared, those of all that decide are awaited; otherwise it may decide, and gives way if it leads.
        out.extend(
            news.filter(|_| look.engine.verified().is_some()).map(|busy| Out::All(OrderInput::Busy(busy))),
        );
    }

    /// Tells all instances once one of them has decided something. In an instance that has not, no leader could do with few members before.
    /// [visigoth L27]
    fn tell_met(&mut self, look: &Look<'_>, out: &mut Vec<Out>) {
        let generation = look.engine.merge().generation();
        let few = look.config.order.faults.slow_after_ms().is_some();
        if look.groups.len() == 1 || !few || self.met == Some(generation) {
            return; // in nearly every turn
        }
        let knows = |group: &Group| group.decided() > Slot::ZERO && group.status().knows_decision;
        if look.groups.iter().any(knows) {
            self.met = Some(generation);
            out.push(Out::All(OrderInput::Met));
        }
    }

    /// When a leader here gives way since it has started and executes what was decided before, if another member may lead.
    fn backlog_at(&self, look: &Look<'_>) -> Option<Time> {
        if !self.backlog.is_busy() {
            return None; // in nearly every turn
        }
        let before = Some(self.gave_way).filter(|at| *at > Time::ZERO);
        let at = self.backlog.gives_way_at(before, look.config.order.patience(), behind(look))?;
        let leads = look.groups.iter().any(|group| group.standing().leading);
        let there = |member| look.gate.peers().to(member).is_some();
        (leads && others(look.config).any(there)).then_some(at)
    }

    /// Hands over where this replica holds up the others: a replica that has executed more leads better.
    fn give_way(&mut self, now: Time, look: &Look<'_>, out: &mut Vec<Out>) {
        if self.lags_at(look).is_none_or(|at| at > now) {
            return;
        }
        let backlog = self.backlog_at(look).is_some_and(|at| at <= now);
        self.gave_way = now;
        let leads = |group: &Group| holds_up(look, group) || backlog && group.standing().leading;
        for (at, _) in look.groups.iter().enumerate().filter(|(_, group)| leads(group)) {
            transfer(at, None, out);
        }
    }

    /// Hands over because the disk is full, if another member has room.
    fn hand_over(&mut self, now: Time, look: &Look<'_>, out: &mut Vec<Out>) {
        let due = self.handed_over.is_none_or(|at| now.since(at) >= HAND_OVER_AGAIN);
        let Some(member) = self.with_room(look).filter(|_| due) else { return };
        self.handed_over = Some(now);
        for (at, _) in look.groups.iter().enumerate().filter(|(_, group)| group.standing().leading) {
            transfer(at, Some(member), out);
        }
    }

    /// The member that leads better since this replica's disk is full. It has room, and with it a quorum has.
    fn with_room(&self, look: &Look<'_>) -> Option<ReplicaId> {
        let faults = look.config.order.faults;
        let enough = self.rooms.of_quorum(Room::Full, others(look.config), faults) == Room::Data;
        let able =
            |member: &ReplicaId| look.gate.peers().to(*member).is_some() && self.rooms.has_all(*member);
        others(look.config).find(able).filter(|_| enough)
    }

    /// Tells the members if the room has changed. While a segment is only being prepared there is room.
    fn tell_room(&mut self, look: &Look<'_>, out: &mut Vec<Out>) {
        let room = if look.journal.disk().is_full() { look.journal.room() } else { Room::Data };
        if room != self.rooms.told {
            self.rooms.told = room;
            others(look.config).for_each(|member| self.tell_room_to(member, look, out));
        }
    }

    fn tell_room_to(&self, member: ReplicaId, look: &Look<'_>, out: &mut Vec<Out>) {
        if let Some(conn) = look.gate.peers().to(member) {
            out.push(Out::Tell { conn, frame: room_frame(self.rooms.told) });
        }
    }
}

/// Gathering with leaders that are not heard here.
impl Leading {
    /// The instances whose leaders are heard here. A replica that reaches no majority can not lead, and says that it hears none.
    fn sight(&mut self, look: &Look<'_>) -> Sight {
        if !self.reaches_majority(look) {
            return Sight::default();
        }
        look.groups.iter().filter(|group| group.leader().is_some()).map(Group::id).collect()
    }

    fn reaches_majority(&mut self, look: &Look<'_>) -> bool {
        *self.sights.reaches.get_or_insert_with(|| {
            let Some(first) = look.groups.first() else { return false };
            let me = look.config.members.me();
            first.status().membership.has_quorum(0, |id| id == me || first.is_connected(id))
        })
    }

    /// Tells the members which leaders are heard here, if that has changed.
    fn tell_sight(&mut self, now: Time, look: &Look<'_>, out: &mut Vec<Out>) {
        let present = seen_together(look);
        if present.is_empty() {
            return;
        }
        let own = self.sight(look);
        if own != self.sights.told {
            self.sights.told = own;
            others(look.config).for_each(|member| self.tell_sight_to(member, look, out));
        }
        let blind = self.sights.is_blind(&own, &present);
        self.sights.blind_since = blind.then(|| self.sights.blind_since.unwrap_or(now));
    }

    fn tell_sight_to(&self, member: ReplicaId, look: &Look<'_>, out: &mut Vec<Out>) {
        if let Some(conn) = look.gate.peers().to(member) {
            out.push(Out::Tell { conn, frame: self.sights.told.frame() });
        }
    }

    /// When a leader here looks for a member that hears more leaders. It waits for a moment, since one replica hears of an election sooner
    /// than another.
    fn gathers_at(&self, look: &Look<'_>) -> Option<Time> {
        let since = self.sights.blind_since?;
        let gather = !look.config.order.nature().fetches && !planted("leaders-apart");
        if !gather || !look.groups.iter().any(|group| group.standing().leading) {
            return None;
        }
        let patience = look.config.order.patience();
        let due = since.plus(patience.divided(4));
        Some(self.sights.looked.map_or(due, |looked| due.max(looked.plus(patience))))
    }

    /// Hands the instances that lead here to the member that hears the most leaders.
    fn gather(&mut self, now: Time, look: &Look<'_>, out: &mut Vec<Out>) {
        if self.gathers_at(look).is_none_or(|at| at > now) {
            return;
        }
        self.sights.looked = Some(now);
        let (present, own, me) = (seen_together(look), self.sight(look), look.config.members.me());
        let leaders: BTreeSet<ReplicaId> = look.groups.iter().filter_map(Group::leader).collect();
        for (at, _) in look.groups.iter().enumerate().filter(|(_, group)| group.standing().leading) {
            let (able, leads) = (|id| self.may_lead(look, at, id), |id| leaders.contains(&id));
            if let Some(to) = self.sights.best((me, &own), &present, able, leads) {
                transfer(at, Some(to), out);
            }
        }
    }
}

/// Spreading: every replica leads about as many instances.
impl Leading {
    /// When to check next whether it is another replica's turn to lead an instance that leads here.
    fn spread_at(&self, look: &Look<'_>) -> Option<Time> {
        if look.groups.len() == 1 || look.config.order.nature().rotates {
            return None;
        }
        let due = look.groups.iter().filter_map(|group| spread_due(look, group)).min()?;
        Some(due.max(calm_at(look)))
    }

    /// Hands over instances whose turn is another replica's, those of one replica at a time: the next replica may not hear that one. A
    /// replica that does not keep an instance is not asked again soon.
    fn spread(&mut self, now: Time, look: &Look<'_>, out: &mut Vec<Out>) {
        if self.spread_at(look).is_none_or(|at| at > now) {
            return;
        }
        let (mut chosen, present) = (None, seen_together(look));
        for (at, group) in look.groups.iter().enumerate() {
            if spread_due(look, group).is_none_or(|due| due > now) {
                continue;
            }
            let to = whose_turn(&look.config.order.nature(), at, group);
            let mine = to == Some(look.config.members.me());
            let hears_all = |to| self.sights.hears_all(to, &present);
            let able = to.filter(|to| !mine && self.may_lead(look, at, *to) && hears_all(*to));
            if able.is_some() && able != *chosen.get_or_insert(able) {
                continue;
            }
            out.push(Out::Looked { at, mine });
            if able.is_some() {
                transfer(at, able, out);
            }
        }
    }

    /// Whether another replica could lead an instance as well as this one.
    fn may_lead(&self, look: &Look<'_>, at: usize, other: ReplicaId) -> bool {
        let status = look.groups[at].status();
        if !status.membership.now().is_voter(other) {
            return false;
        }
        let near =
            status.members.iter().any(|(id, lag, active)| *id == other && *active && *lag <= SPREAD_LAG_MAX);
        let there = status.there.contains(&other) && look.gate.peers().way(other, at).is_some();
        near && there && self.rooms.has_all(other)
    }
}

fn others(config: &NodeConfig) -> impl Iterator<Item = ReplicaId> {
    config.members.others().map(|member| member.replica)
}

fn may_lie(look: &Look<'_>) -> bool {
    look.config.order.faults.may_lie()
}

/// Adds a transfer, unless the instance is being handed over already.
fn transfer(at: usize, to: Option<ReplicaId>, out: &mut Vec<Out>) {
    let begun = |known: &Out| matches!(known, Out::Transfer { at: known, .. } if *known == at);
    if !out.iter().any(begun) {
        out.push(Out::Transfer { at, to });
    }
}

/// By how much agreed time is ahead of execution.
fn behind(look: &Look<'_>) -> Span {
    look.engine.agreed().time().since(look.engine.executor().time())
}

/// Whether an instance that leads here can not go on: too little is executed here, the state differs from that of the others, or a
/// checkpoint is missing.
fn holds_up(look: &Look<'_>, group: &Group) -> bool {
    let lacks = !look.keeping.sound() || look.keeping.fetches_since().is_some();
    let full = group.standing().settled && look.engine.merge().lags(group.id());
    group.standing().leading && look.engine.merge().expects(group.id()) && (lacks || full)
}

/// The instances that take part and whose leaders have to hear each other.
fn seen_together(look: &Look<'_>) -> Sight {
    if look.groups.len() == 1 || may_lie(look) {
        return Sight::default();
    }
    let here = usize::from(look.engine.merge().generation().instances);
    look.groups.iter().take(here).filter(|group| group.stay().is_present()).map(Group::id).collect()
}

/// The replica whose turn it is to lead an instance: the voters take turns. Where a view's number says who leads it, that is the leader of a new
/// cluster's first view, so a new cluster is as it should be.
fn whose_turn(nature: &Nature, at: usize, group: &Group) -> Option<ReplicaId> {
    let membership = group.status().membership;
    let voters: Vec<ReplicaId> = membership.now().voters().collect();
    let place = if nature.named_by_views { usize::from(group.id().number()) } else { at };
    voters.get(place % voters.len().max(1)).copied()
}

/// When to check an instance, if it leads here.
fn spread_due(look: &Look<'_>, group: &Group) -> Option<Time> {
    let looks = group.standing().leading && !group.lead().settled && look.engine.merge().stays(group.id());
    looks.then(|| group.lead().due(SPREAD_AFTER, SPREAD_AFTER_MAX))
}

/// When the members have had time to say whether they hear the newest leaders.
fn calm_at(look: &Look<'_>) -> Time {
    let patience = look.config.order.patience();
    let last = look.groups.iter().map(|group| group.lead().since()).max().unwrap_or_default();
    last.plus(patience).plus(patience.divided(2))
}

#[cfg(test)]
mod tests;
