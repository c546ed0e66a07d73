//! Who takes part, as the node sees it: ordered commands begin and end changes (`roster.rs`), each instance carries them out in its own
//! log (path/3-order), and connections follow what holds there.
//!
//! Three things say who the members are: the instance's log, what was ordered, and, where this replica lags, what others tell it.
//! The first decides; the last only says whom to dial and whom to let in, so that a replica that was away for long finds those who have
//! replaced everybody it knew.
//!
//! Tests: members/tests.rs, check/sim, front/cli/tests/all/member.rs.

use crate::effects::{Effects, Event};
use crate::group::Group;
use crate::keeping::In;
use crate::levels::WITH_INSTANCES;
use crate::merging::FIRST;
use crate::node::Node;
use crate::roster::Done;
use crate::status::{MembershipMember, MembershipStatus};
use quorate_admit::Member as Known;
use quorate_merge::RecordIndex;
use quorate_order::Input as OrderInput;
use quorate_types::{ConnId, Incarnation, MembershipId, ReplicaId, Room, Time, View, planted};
use quorate_wire::{
    Batch, MEMBERS_MAX, Member, MemberRequest, MemberRole, Membership, Memberships, OutFrame, SystemCommand,
    caught_up_frame, members_frame, read_caught_up,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What a node knows of memberships beside what was ordered.
#[derive(Debug, Default)]
pub(crate) struct Standing {
    /// What holds in each instance, once an entry of its log says so.
    holds: BTreeMap<usize, Arc<Memberships>>,
    /// What another replica told, if that is later.
    told: Option<Memberships>,
    /// Connections do not fit that yet.
    pub(crate) changed: bool,
    /// The highest membership that those were told of who were connected.
    spread: MembershipId,
    /// The end of a change that was proposed, and in which view.
    ended: Option<(View, MembershipId)>,
    /// The view in which a change was proposed that was not executed here yet: operators who ask again and again fill no queue.
    begun: Option<View>,
    /// Whether there are learners.
    learners: bool,
    /// Who has caught up in the instances that others lead, as those told.
    caught_up: BTreeMap<(usize, ReplicaId), Vec<ReplicaId>>,
    /// What this replica told of the instances that it leads, and whom.
    said: BTreeMap<usize, (ReplicaId, Vec<ReplicaId>)>,
}

impl Standing {
    /// Whether a change was proposed in this view that was not executed here yet.
    pub(crate) fn has_begun(&self, view: View) -> bool {
        self.begun == Some(view)
    }

    /// The latest that holds in an instance; of the first one that has it.
    fn newest(&self) -> Option<&Memberships> {
        let newest = self.holds.values().rev().max_by_key(|holds| holds.now().number());
        newest.map(|holds| &**holds)
    }

    fn number(&self) -> MembershipId {
        self.newest().map_or(MembershipId::FIRST, |holds| holds.now().number())
    }

    /// Another replica is connected anew: what it was told is told again.
    pub(crate) fn met(&mut self, replica: ReplicaId) {
        self.said.retain(|_, (to, _)| *to != replica);
    }

    /// An instance takes no part any more.
    pub(crate) fn left(&mut self, at: usize) {
        self.holds.remove(&at);
        self.changed = true;
    }

    /// It is lost: what it said may not be so any more.
    pub(crate) fn lost(&mut self, replica: ReplicaId) {
        self.caught_up.retain(|(_, from), _| *from != replica);
    }
}

/// Lists with commas.
fn list(ids: &[ReplicaId]) -> String {
    let ids: Vec<String> = ids.iter().map(ToString::to_string).collect();
    ids.join(", ")
}

impl Node {
    /// The membership in which the cluster is, as it was ordered; for checks.
    pub fn membership(&self) -> Option<&Membership> {
        self.roster.current()
    }

    /// The change that was ordered and is not over; for checks.
    pub fn change(&self) -> Option<&Memberships> {
        self.roster.change()
    }

    /// Whether this replica is no member any more.
    pub fn is_removed(&self) -> bool {
        let me = self.config.members.me();
        self.roster.used().contains(&me)
            && self.roster.change().is_none()
            && self.roster.current().is_some_and(|current| current.get(me).is_none())
    }

    /// A batch was executed; perhaps it holds a command to the engine.
    pub(crate) fn on_system(&mut self, now: Time, batch: &Batch, out: &mut Effects) {
        let Some(command) = SystemCommand::of(batch) else { return };
        match command {
            SystemCommand::Raise(level) => return self.on_raise(level, out),
            SystemCommand::Instances(count) => return self.on_instances(now, count, out),
            // The protocol's own; it says so itself.
            SystemCommand::Holds(_) => return,
            SystemCommand::Change(_) if self.engine.merge().next_generation().is_some() => {
                self.standing.begun = None;
                let text =
                    "a change of the membership was refused: the number of instances is changing".into();
                return out.event(Event::Members { text });
            }
            SystemCommand::Change(_) if self.config.order.can_change().is_err() => {
                self.standing.begun = None;
                let text = "a change of the membership was refused: the protocol knows none".into();
                return out.event(Event::Members { text });
            }
            SystemCommand::Change(_) | SystemCommand::Changed(_) => self.standing.begun = None,
        }
        match self.roster.execute(command) {
            Done::Begun(change) => {
                let text = format!("a change of the membership to {} begins", change.now().number());
                out.event(Event::Members { text });
                self.carry_out(now, &change);
            }
            Done::Ended(number) => {
                out.event(Event::Members { text: format!("the membership is {number}") });
                self.name_listeners(now);
                self.meet_borders();
                if self.is_removed() {
                    let text = "this replica was removed from the cluster: stop it".into();
                    out.event(Event::Members { text });
                }
            }
            Done::Refused(why) => {
                let text = format!("a change of the membership was refused: {why}");
                out.event(Event::Members { text });
            }
        }
        self.standing.changed = true;
    }

    /// A checkpoint took the place of the state, or the protocol begins: it hears of a change that is under way.
    pub(crate) fn resume_change(&mut self, now: Time) {
        self.standing.changed = true;
        if !self.has_begun() {
            return;
        }
        match self.roster.change().cloned() {
            Some(change) => self.carry_out(now, &change),
            None => self.name_listeners(now),
        }
    }

    /// Memberships that hold in instances and were not executed here, with the last one that was; none where execution knows all.
    fn unexecuted(&self) -> Vec<Arc<Memberships>> {
        let present = self.groups.iter().filter(|instance| instance.stay().is_present());
        self.roster.unexecuted(present.flat_map(|instance| instance.status().memberships).collect())
    }

    /// Whom instances send what they decide, whatever holds in them: nobody is left out for a change that was not executed here yet.
    /// After a restart from a checkpoint there may be many: whoever left with one of them may lead what the others wait for, or be the
    /// only one that can.
    pub(crate) fn listeners(&self) -> Arc<[ReplicaId]> {
        let founders = self.config.members.all().iter().map(|known| known.replica);
        let mut all = self.roster.audience(founders);
        all.extend(self.unexecuted().iter().flat_map(|memberships| memberships.replicas()));
        all.into_iter().collect()
    }

    fn name_listeners(&mut self, now: Time) {
        self.step_present(now, &OrderInput::Listeners(self.listeners()));
    }

    /// Each instance makes the change in its own log, when it can. Until all have, whoever leaves is sent the records of all: it may lead
    /// one, and what the others decided is what it lacks to execute the command, and to hand over.
    fn carry_out(&mut self, now: Time, change: &Memberships) {
        self.name_listeners(now);
        self.step_present(now, &OrderInput::Membership(Arc::new(change.clone())));
    }

    /// What holds in an instance changed.
    pub(crate) fn on_members(&mut self, at: usize, memberships: Arc<Memberships>) {
        let said = memberships.now().number() > MembershipId::FIRST;
        if said && self.groups[at].stay().is_present() {
            self.standing.holds.insert(at, memberships);
        } else {
            self.standing.holds.remove(&at);
        }
        let learner = |member: &Member| member.role == MemberRole::Learner;
        let all = self.standing.newest().map(|newest| newest.now().members());
        self.standing.learners = all.is_some_and(|members| members.iter().any(learner));
        self.standing.changed = true;
        self.leading.majority_changed();
    }

    /// Another replica says who the members are. It may know better; or lie, where the members never change.
    pub(crate) fn on_told(&mut self, memberships: Memberships) {
        if self.may_lie() && !planted("members-of-one") {
            return;
        }
        let number = memberships.now().number();
        let known = self.standing.told.as_ref().map_or(MembershipId::FIRST, |told| told.now().number());
        if number > known && number > self.standing.number() {
            self.standing.told = Some(memberships);
            self.standing.changed = true;
        }
    }

    /// What to tell others of the members, if there is anything that they may not know.
    fn to_tell(&self) -> Option<OutFrame> {
        let told = self.standing.told.as_ref().filter(|told| told.now().number() > self.standing.number());
        told.or(self.standing.newest()).map(members_frame)
    }

    /// Who is connected hears of a membership that this replica did not know when they met. One that lags may know nobody else who
    /// knows, and takes nothing from a leader that it does not know.
    fn spread_members(&mut self, out: &mut Effects) {
        let number = self.config.members.number();
        if number <= self.standing.spread {
            return;
        }
        self.standing.spread = number;
        for member in self.config.members.others() {
            if let Some(conn) = self.peers.to(member.replica) {
                self.tell_members(conn, out);
            }
        }
    }

    /// A member or a client is connected from now on.
    pub(crate) fn tell_members(&self, conn: ConnId, out: &mut Effects) {
        if let Some(frame) = self.to_tell() {
            out.send(conn, frame);
        }
    }

    /// A client hears who the members are, and then again who leads: it may not have known that replica before.
    pub(crate) fn tell_client(&self, conn: ConnId, out: &mut Effects) {
        if let Some(frame) = self.to_tell() {
            out.send(conn, frame);
            out.send(conn, self.leader_notice(conn).frame());
        }
    }

    /// Borders follow from the log alone, so where their distance depends on the number of replicas it is the one that was ordered.
    pub(crate) fn meet_borders(&mut self) {
        let me = self.config.members.me();
        let place = match self.roster.current() {
            Some(current) => current.members().iter().filter(|member| member.replica < me).count(),
            None => self.config.members.all().iter().filter(|member| member.replica < me).count(),
        };
        self.keeping.meet_replicas(self.roster.count(), place);
    }

    /// Whom to dial and to let in: the later of what holds here and what others told, and as long as a change is not over, both
    /// sides of it. Nobody is dropped for what was not executed here yet: an instance may still be led by who leaves, and what it
    /// decides is needed to execute that. None where the configuration says more.
    fn directory(&self) -> Option<(MembershipId, BTreeMap<ReplicaId, Member>)> {
        let mut sources: Vec<&Memberships> = Vec::new();
        let holds = self.standing.holds.values().map(|holds| &**holds);
        let unexecuted = self.unexecuted();
        let own = holds.chain(self.roster.change()).chain(unexecuted.iter().map(|earlier| &**earlier));
        let newest = own.clone().map(|memberships| memberships.now().number()).max();
        let told = self.standing.told.as_ref().filter(|told| newest.is_none_or(|n| told.now().number() > n));
        match told {
            Some(told) => sources.push(told),
            None => sources.extend(own),
        }
        sources.sort_by_key(|memberships| memberships.now().number());
        let number = sources.last()?.now().number();
        if number < self.config.members.number() && self.standing.told.is_none() {
            return None;
        }
        let ordered = self.roster.change().map(|change| change.now().number());
        let ordered = ordered.or(self.roster.current().map(Membership::number));
        let mut all = BTreeMap::new();
        if number > ordered.unwrap_or(MembershipId::FIRST) {
            all.extend(self.config.members.all().iter().map(|known| (known.replica, unnamed(known))));
        }
        for membership in sources.iter().flat_map(|memberships| memberships.all()) {
            all.extend(membership.members().iter().map(|member| (member.replica, member.clone())));
        }
        Some((number, all))
    }

    /// Connections follow the membership. At the end of a turn, when nothing else is under way.
    pub(crate) fn meet_members(&mut self, now: Time, out: &mut Effects) {
        if !std::mem::take(&mut self.standing.changed) {
            return;
        }
        if self.has_begun() {
            self.name_listeners(now);
            self.after_order(now, out);
        }
        let Some((number, all)) = self.directory() else { return };
        let known = all.values().map(|member| Known {
            replica: member.replica,
            address: member.address.clone(),
            incarnation: member.incarnation,
        });
        let lives = all.values().filter(|member| member.life != 0);
        let lives = lives.map(|member| (member.replica, member.life)).collect();
        let removed = self.roster.used().iter().filter(|id| !all.contains_key(id)).copied().collect();
        self.config.members.replace(number, known.collect(), lives, removed);
        self.peers.meet(now, &self.config.members, out);
        let told = self.standing.told.as_ref().filter(|told| told.now().number() == number);
        if let Some(memberships) = told.or(self.standing.newest()) {
            let voters: Vec<ReplicaId> = memberships.now().voters().collect();
            let others: Vec<ReplicaId> = all.keys().copied().collect();
            self.keep(now, In::Members { voters, others }, out);
        }
        self.spread_members(out);
        for conn in self.peers.clients() {
            self.tell_client(conn, out);
        }
        self.after_connections(now, out);
    }

    /// The change that was ordered is done in all instances: whoever leads the first one says so in the log.
    pub(crate) fn end_change(&mut self, now: Time, out: &mut Effects) {
        let Some(number) = self.roster.change().map(|change| change.now().number()) else { return };
        let standing = self.first().standing();
        if !self.may_propose(FIRST) || !standing.settled || !self.journal.log().has_room() {
            return;
        }
        let once = (standing.view, number);
        let through = |instance: &Group| instance.status().committed_membership == number;
        let mut present = self.groups.iter().filter(|instance| instance.stay().is_present());
        if self.standing.ended != Some(once) && present.all(through) {
            self.standing.ended = Some(once);
            self.propose_system(now, &SystemCommand::Changed(number), out);
        }
    }

    pub(crate) fn propose_system(&mut self, now: Time, command: &SystemCommand, out: &mut Effects) {
        let batch = command.batch(self.propose_header(now));
        self.propose_in(FIRST, now, batch, out);
    }

    /// The life of a member's data directory, as far as it is known; else 0.
    fn life_of(&self, member: &Member) -> u64 {
        let known = self.lives.of(member.replica);
        if member.life != 0 { member.life } else { known.unwrap_or(0) }
    }

    /// The membership that a change begins with, with the lives of all whose life is known here.
    fn before_a_change(&self) -> Result<Membership, String> {
        let (number, mut members) = match self.roster.current() {
            Some(current) => (current.number(), current.members().to_vec()),
            None => {
                let created = self.config.members.all().iter().map(|known| Member {
                    replica: known.replica,
                    role: MemberRole::Voter,
                    address: known.address.clone(),
                    incarnation: known.incarnation,
                    life: 0,
                });
                (MembershipId::FIRST, created.collect())
            }
        };
        if self.roster.current().is_none() {
            for member in &mut members {
                member.life = self.life_of(member);
            }
        }
        Membership::new(number, members).map_err(|why| why.to_string())
    }

    /// An operator wants another membership. Says what came of it, in a line.
    pub(crate) fn on_member_request(
        &mut self,
        now: Time,
        request: &MemberRequest,
        out: &mut Effects,
    ) -> String {
        let planned = self.plan_change(request).and_then(|change| {
            self.past_is_held(usize::MAX)?;
            Ok(change)
        });
        match planned {
            Ok(change) => {
                let number = change.now().number();
                self.standing.begun = Some(self.first().standing().view);
                self.propose_system(now, &SystemCommand::Change(change), out);
                format!("begun {number}")
            }
            Err(why) => format!("error: {why}"),
        }
    }

    /// Whether this replica may propose a command to the engine itself: it leads the instance that carries them, and has executed
    /// those that were decided before it led.
    pub(crate) fn may_command(&self) -> Result<(), String> {
        let first = self.first();
        if !first.standing().leading || !first.standing().settled {
            let me = self.config.members.me();
            return Err(match first.leader() {
                Some(leader) if leader != me => format!("{leader} leads, ask it"),
                _ => "nobody leads now, try again".into(),
            });
        }
        let before = first.lead().settled_at().map(|slot| RecordIndex(slot.number()));
        let executed = before.is_some_and(|record| self.engine.merge().has_delivered(first.id(), record));
        if !executed || !self.may_propose(FIRST) {
            return Err("the leader waits for others, try again".into());
        }
        if self.room() == Room::Full {
            return Err("the disks have no room for it: free space first".into());
        }
        Ok(())
    }

    fn plan_change(&self, request: &MemberRequest) -> Result<Memberships, String> {
        self.may_command()?;
        self.config.order.can_change()?;
        if self.groups.len() > 1 && self.level() < WITH_INSTANCES {
            return Err(format!(
                "with several instances that needs feature level {WITH_INSTANCES}: `quorate upgrade raise` first"
            ));
        }
        if let Some(change) = self.roster.change() {
            return Err(format!(
                "a change to {} is under way: wait until it is over (`quorate member list` shows it)",
                change.now().number()
            ));
        }
        let begun = self.standing.begun == Some(self.first().standing().view);
        if begun && !planted("changes-pile-up") {
            return Err("a change is about to begin: look at `quorate member list`, then try again".into());
        }
        if self.levels.begun == Some(self.first().standing().view) {
            return Err("the feature level is about to be raised, try again".into());
        }
        self.no_instances_change(self.first().standing().view)?;
        let before = self.before_a_change()?;
        let mut members = before.members().to_vec();
        self.apply(request, &mut members)?;
        for member in &mut members {
            member.life = self.life_of(member);
        }
        if let Some(unknown) = members.iter().find(|m| m.role == MemberRole::Voter && m.life == 0) {
            return Err(format!("{} was never connected to the leader: start it first", unknown.replica));
        }
        let last = members.iter().all(|member| member.role == MemberRole::Learner);
        if last {
            return Err("that would leave nobody who votes: add and promote another replica first".into());
        }
        let now = Membership::new(before.number().next(), members).map_err(|why| why.to_string())?;
        self.keeps_quorum(&now)?;
        Memberships::change(before, now).map_err(|why| why.to_string())
    }

    fn apply(&self, request: &MemberRequest, members: &mut Vec<Member>) -> Result<(), String> {
        match request {
            MemberRequest::Add { replica, address, incarnation } => {
                self.check_new(*replica, address, *incarnation, members)?;
                let (role, address) = (MemberRole::Learner, address.clone());
                let incarnation = *incarnation;
                members.push(Member { replica: *replica, role, address, incarnation, life: 0 });
            }
            MemberRequest::Promote(replica) => self.promote(*replica, members)?,
            MemberRequest::Remove(replica) => {
                find(members, *replica)?;
                members.retain(|member| member.replica != *replica);
            }
            MemberRequest::Replace { old, new } => {
                find(members, *old)?;
                if old == new {
                    return Err(format!(
                        "{old} can not take its own place: a replacement has an id of its own"
                    ));
                }
                self.promote(*new, members)?;
                members.retain(|member| member.replica != *old);
            }
            MemberRequest::Move { replica, address } => {
                check_address(address, members)?;
                find(members, *replica)?.address.clone_from(address);
            }
        }
        Ok(())
    }

    fn check_new(
        &self,
        replica: ReplicaId,
        address: &str,
        incarnation: Incarnation,
        members: &[Member],
    ) -> Result<(), String> {
        if members.iter().any(|member| member.replica == replica) {
            return Err(format!("{replica} is a member already"));
        }
        let highest = u16::MAX - 1024;
        if replica.number() == 0 || replica.number() > highest {
            return Err(format!("ids of replicas are 1 to {highest}"));
        }
        if self.roster.used().contains(&replica) {
            return Err(format!(
                "{replica} was a member before, and ids are never used again: take another one"
            ));
        }
        if incarnation == Incarnation::default() {
            return Err("a new replica needs a data directory of its own, which has an incarnation".into());
        }
        if members.len() >= MEMBERS_MAX {
            return Err(format!("a cluster has at most {MEMBERS_MAX} replicas"));
        }
        check_address(address, members)
    }

    fn promote(&self, replica: ReplicaId, members: &mut [Member]) -> Result<(), String> {
        let caught_up = self.caught_up().contains(&replica);
        let member = find(members, replica)?;
        if member.role == MemberRole::Voter {
            return Err(format!("{replica} votes already"));
        }
        if !caught_up {
            return Err(format!(
                "{replica} has not caught up with the leaders yet: wait until `quorate member list` says so, and see that it runs"
            ));
        }
        member.role = MemberRole::Voter;
        Ok(())
    }

    /// Those that have caught up in all instances, as the leader of the first one knows.
    fn caught_up(&self) -> Vec<ReplicaId> {
        let me = self.config.members.me();
        let mut all = self.first().status().caught_up;
        let present = |(_, instance): &(usize, &Group)| instance.stay().is_present();
        for (at, instance) in self.groups.iter().enumerate().skip(1).filter(present) {
            let of = match instance.leader() {
                Some(leader) if leader == me => instance.status().caught_up,
                Some(leader) => self.standing.caught_up.get(&(at, leader)).cloned().unwrap_or_default(),
                None => Vec::new(),
            };
            // Who leads there lacks nothing of it.
            all.retain(|replica| of.contains(replica) || instance.leader() == Some(*replica));
        }
        all
    }

    /// At the end of a turn: whoever leads the first instance hears which learners have caught up in those that are led here.
    pub(crate) fn tell_caught_up(&mut self, out: &mut Effects) {
        if self.groups.len() == 1 || !self.standing.learners || self.level() < WITH_INSTANCES {
            return;
        }
        let me = self.config.members.me();
        let Some(to) = self.first().leader().filter(|leader| *leader != me) else { return };
        let Some(conn) = self.peers.to(to) else { return };
        for (at, instance) in self.groups.iter().enumerate().skip(1) {
            if !instance.standing().leading {
                self.standing.said.remove(&at);
                continue;
            }
            let said = (to, instance.status().caught_up);
            if self.standing.said.get(&at) != Some(&said) {
                out.send(conn, caught_up_frame(instance.id(), &said.1));
                self.standing.said.insert(at, said);
            }
        }
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
                let at = usize::from(instance.number()).wrapping_sub(1);
                if at < self.groups.len() {
                    self.standing.caught_up.insert((at, from), replicas);
                }
            }
            Err(why) => self.reject(now, conn, why.to_string(), out),
        }
    }

    /// Whether enough voters of the membership are there to decide by it.
    fn keeps_quorum(&self, now: &Membership) -> Result<(), String> {
        let me = self.config.members.me();
        let status = self.first().status();
        let up: Vec<ReplicaId> = self.peers.peers().filter(|(_, _, up, _)| *up).map(|(id, ..)| id).collect();
        let heard = |id: ReplicaId| id == me || (status.there.contains(&id) && up.contains(&id));
        if Memberships::one(now.clone()).has_quorum(0, heard) {
            return Ok(());
        }
        let (there, missing): (Vec<_>, Vec<_>) = now.voters().partition(|id| heard(*id));
        let there = if there.is_empty() { "none".to_owned() } else { list(&there) };
        Err(format!(
            "of those who would vote then, {there} can be reached and {} can not: no majority, so nothing could be decided any more. \
             Bring back who is missing, or replace it, first",
            list(&missing)
        ))
    }

    /// What `status` shows of the membership.
    pub(crate) fn membership_status(&self) -> MembershipStatus {
        let (change, caught_up) = (self.roster.change(), self.caught_up());
        let me = self.config.members.me();
        let members = match change.map(Memberships::now).or(self.roster.current()) {
            Some(membership) => membership.members().to_vec(),
            None => self.before_a_change().map(|before| before.members().to_vec()).unwrap_or_default(),
        };
        let members = members.into_iter().map(|member| MembershipMember {
            replica: member.replica.number(),
            role: if member.role == MemberRole::Voter { "voter" } else { "learner" },
            incarnation: member.incarnation.to_string(),
            caught_up: member.replica == me || caught_up.contains(&member.replica),
            address: member.address,
        });
        let number = self.roster.current().map_or(MembershipId::FIRST, Membership::number);
        let leaving = change.and_then(Memberships::before).into_iter().flat_map(Membership::members);
        let leaving = leaving.map(|member| member.replica);
        let gone = leaving.filter(|id| change.is_some_and(|change| change.now().get(*id).is_none()));
        MembershipStatus {
            number: number.number(),
            changing_to: change.map(|change| change.now().number().number()),
            members: members.collect(),
            leaving: gone.map(ReplicaId::number).collect(),
            created: self.config.members.created(),
            start_time_ns: self.config.start_time.nanos(),
            removed: self.is_removed(),
            used: self.roster.used().iter().map(|id| id.number()).collect::<BTreeSet<_>>(),
        }
    }
}

/// A member of which no membership is known any more that has it.
fn unnamed(known: &Known) -> Member {
    let (role, address) = (MemberRole::Learner, known.address.clone());
    Member { replica: known.replica, role, address, incarnation: known.incarnation, life: 0 }
}

fn find(members: &mut [Member], replica: ReplicaId) -> Result<&mut Member, String> {
    let all: Vec<ReplicaId> = members.iter().map(|member| member.replica).collect();
    let found = members.iter_mut().find(|member| member.replica == replica);
    found.ok_or_else(|| format!("{replica} is no member: the members are {}", list(&all)))
}

fn check_address(address: &str, members: &[Member]) -> Result<(), String> {
    let port = address.rsplit_once(':').and_then(|(host, port)| (!host.is_empty()).then_some(port));
    if port.and_then(|port| port.parse::<u16>().ok()).is_none_or(|port| port == 0) {
        return Err(format!("`{address}` is no address: host:port"));
    }
    match members.iter().find(|member| member.address == address) {
        Some(other) => Err(format!("{} is reached at {address}", other.replica)),
        None => Ok(()),
    }
}

#[cfg(test)]
pub(crate) mod tests;
