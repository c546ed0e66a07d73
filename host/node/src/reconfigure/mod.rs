//! Reconfiguration: the membership, the number of instances, and the feature level of the cluster.
//!
//! An operator asks for a change. The leader of the first instance checks it (`planning.rs`) and proposes a command to the engine, which
//! all replicas execute alike ([`Reconfigure::executed`]).
//!
//! A command about the membership only begins a change (`../roster.rs`). Each instance carries the change out in its own log
//! (path/3-order). Once all have, a second command ends it. Connections follow the memberships in force in the instances (`standing.rs`).
//! There is one change at a time.
//!
//! Where replicas may lie it keeps what proves each membership to others (`chain.rs`).
//!
//! This part proposes nothing and connects to nothing itself: it gives effects ([`Out`]).
//! Tests: levels/tests.rs, chain/tests.rs, ../roster/tests.rs, ../node/tests.rs, check/sim, front/cli/tests/all/member.rs and instances.rs.

mod caught_up;
mod chain;
mod eras;
mod levels;
mod neighbours;
mod planning;
mod service;
mod signed;
mod standing;

pub use levels::LevelConfig;
pub(crate) use levels::{LEVEL, Levels, SERVICE_LEVEL, record as level_record};
pub(crate) use planning::{Plan, may_propose};
pub(crate) use standing::Directory;

use crate::config::NodeConfig;
use crate::effects::{Effect, Event};
use crate::engine::Engine;
use crate::eras::Eras;
use crate::gate::{Gate, Wish};
use crate::group::{FIRST, Group, Groups, index_of};
use crate::journal::Journal;
use crate::keeping::Keeping;
use crate::leading::Leading;
use crate::roster::{Done, Roster};
use crate::rulings::Rulings;
use caught_up::CaughtUp;
use chain::Kept;
use quorate_admit::KnownMember;
use quorate_execute::{MembershipNow, ServiceRaise};
use quorate_merge::RecordIndex;
use quorate_order::{Feature, Input as OrderInput, OrderConfig};
use quorate_types::{ConnId, InstanceId, MembershipId, ReplicaId, Room, Seq, Slot, Time, View, planted};
use quorate_wire::{
    Era, FrameKind, LevelOf, Member, MemberRole, Membership, Memberships, NeighbourCommand, OutFrame,
    SignedCommand, SystemCommand, caught_up_frame,
};
use signed::Waiting;
use standing::Standing;
use std::sync::Arc;

/// The other parts, as this one may read them.
#[derive(Clone, Copy)]
pub(crate) struct Look<'a> {
    pub(crate) config: &'a NodeConfig,
    pub(crate) groups: &'a [Group],
    pub(crate) engine: &'a Engine,
    pub(crate) gate: &'a Gate,
    pub(crate) keeping: &'a Keeping,
    pub(crate) journal: &'a Journal,
    pub(crate) leading: &'a Leading,
    pub(crate) rulings: &'a Rulings,
    pub(crate) eras: &'a Eras,
}

impl Look<'_> {
    fn first(&self) -> &Group {
        &self.groups[FIRST]
    }

    fn me(&self) -> ReplicaId {
        self.config.members.me()
    }

    /// The room of a majority.
    fn room(&self) -> Room {
        self.leading.room(self.journal.room(), self.config)
    }

    /// The view of the first instance, in which commands are proposed.
    fn view(&self) -> View {
        self.first().standing().view
    }
}

/// An effect.
#[derive(Debug)]
pub(crate) enum Out {
    /// Propose a command in the first instance, which leads here.
    Propose(SystemCommand),
    /// Tell all instances their listeners.
    NameListeners,
    /// Tell the instances of this change: each makes it in its own log when it can.
    BeginChange(Arc<Memberships>),
    /// Tell the service that a change of the membership is complete.
    Changed(MembershipNow),
    /// Tell keeping the number of replicas, on which borders depend.
    MeetBorders,
    /// Change the number of instances from the next generation border on.
    ChangeInstances(u16),
    /// Take this feature level.
    Level(u32),
    /// The service takes this level, behind the batch that was delivered last.
    Service(u32),
    /// Tell execution that another service is a neighbour, or none any more.
    Neighbour(NeighbourCommand),
    /// Order a border.
    OrderBorder,
    /// End this era here; that one follows.
    EndEra(Box<Era>),
    /// An effect of the node.
    Do(Box<Effect>),
    /// Tell all members of a command that administrators signed.
    Spread(SignedCommand),
    /// Step the first instance: requests that no leader may leave out.
    First(OrderInput),
    /// Tell operators.
    Say(Event),
}

/// For each kind of command: the view in which one was proposed that was not executed here yet. So operators who ask again and again fill
/// no queue.
#[derive(Debug, Default)]
struct Begun {
    change: Option<View>,
    raise: Option<View>,
    instances: Option<View>,
    /// The end of this change.
    end: Option<(View, MembershipId)>,
    /// All instances have this membership. The last slot of the first instance then, and how far this replica had delivered once it had that.
    through: Option<(MembershipId, Slot, Option<Seq>)>,
}

impl Begun {
    /// Up to where results have to be final where those stay that have this membership, which all instances have: everything is delivered that
    /// was decided while others voted.
    fn staying_need(&mut self, look: &Look<'_>, number: MembershipId) -> Option<Seq> {
        let (slot, seq) = match self.through {
            Some((of, slot, seq)) if of == number => (slot, seq),
            _ => (look.first().status().decided, None),
        };
        let delivered = || look.engine.merge().has_delivered(look.first().id(), RecordIndex(slot.number()));
        let seq = seq.or_else(|| delivered().then(|| look.engine.agreed().seq()));
        self.through = Some((number, slot, seq));
        seq
    }
}

/// What was ordered about members, instances and levels, and what is under way; see the module.
#[derive(Debug)]
pub(crate) struct Reconfigure {
    roster: Roster,
    levels: Levels,
    standing: Standing,
    caught_up: CaughtUp,
    begun: Begun,
    waiting: Waiting,
    kept: Kept,
    /// How the last raise of the service ended, as far as it was told.
    service_raise: Option<ServiceRaise>,
}

/// Questions of other parts.
impl Reconfigure {
    pub(crate) fn new(roster: Roster, levels: Levels, config: &NodeConfig) -> Self {
        Self {
            roster,
            levels,
            standing: Standing::default(),
            caught_up: CaughtUp::default(),
            begun: Begun::default(),
            waiting: Waiting::default(),
            kept: Kept::new(config.order.cluster, config.order.faults, &config.chain),
            service_raise: None,
        }
    }

    /// The membership as it was ordered.
    pub(crate) const fn roster(&self) -> &Roster {
        &self.roster
    }

    /// Whether this replica is no longer a member.
    pub(crate) fn is_removed(&self, me: ReplicaId) -> bool {
        self.roster.used().contains(&me)
            && self.roster.change().is_none()
            && self.roster.current().is_some_and(|current| current.get(me).is_none())
    }

    /// The replicas to which instances send what they decide, whatever membership is in force there: no replica is left out for a change
    /// that was not executed here yet. After a restart from a checkpoint there may be many such changes. A replica that left with one of
    /// them may lead an instance that the others wait for, or be the only one that can.
    pub(crate) fn listeners(&self, look: &Look<'_>) -> Arc<[ReplicaId]> {
        let founders = look.config.members.all().iter().map(|known| known.replica);
        let mut all = self.roster.audience(founders);
        all.extend(self.unexecuted(look).iter().flat_map(|memberships| memberships.replicas()));
        all.into_iter().collect()
    }

    /// The memberships in force in instances that were not executed here, with the last executed one; none if all were executed.
    fn unexecuted(&self, look: &Look<'_>) -> Vec<Arc<Memberships>> {
        let present = look.groups.iter().filter(|group| group.stay().is_present());
        self.roster.unexecuted(present.flat_map(|group| group.status().memberships).collect())
    }

    /// The memberships to tell others, if there are any that they may not know.
    pub(crate) fn to_tell(&self) -> Option<&Memberships> {
        self.standing.to_tell()
    }

    /// The replicas to dial and to accept, if the configuration says less.
    pub(crate) fn directory(&self, look: &Look<'_>) -> Option<Directory> {
        self.standing.directory(&self.roster, &self.unexecuted(look), &look.config.members)
    }

    /// The replicas that have caught up in all instances, as far as the leader of the first one knows.
    pub(crate) fn caught_up(&self, look: &Look<'_>) -> Vec<ReplicaId> {
        self.caught_up.of_all(look.groups, look.me())
    }

    /// The ordered number of replicas, and this one's position among them, from 0.
    pub(crate) fn replicas(&self, look: &Look<'_>) -> (usize, usize) {
        let me = look.me();
        let place = match self.roster.current() {
            Some(current) => current.members().iter().filter(|member| member.replica < me).count(),
            None => look.config.members.all().iter().filter(|member| member.replica < me).count(),
        };
        (self.roster.count(), place)
    }

    /// The members, as ordered.
    pub(crate) fn ordered_members(&self, look: &Look<'_>) -> Vec<ReplicaId> {
        match self.roster.current() {
            Some(current) => current.members().iter().map(|member| member.replica).collect(),
            None => look.config.members.all().iter().map(|member| member.replica).collect(),
        }
    }

    /// The public key with which this replica has to sign, now or once the change under way holds, and whose secret half it does not hold.
    pub(crate) fn lacks_key(&self, config: &NodeConfig) -> Option<[u8; 32]> {
        let (me, keys) = (config.members.me(), &config.order.keys);
        let newest = self.roster.change().map(Memberships::now).or(self.roster.current());
        let key = match newest {
            Some(membership) => membership.get(me).and_then(|member| member.key),
            None => keys.public_of(me),
        };
        key.filter(|key| !keys.holds(key))
    }

    /// When a leader raises the level by itself, or membership links are asked for, if nothing changes.
    pub(crate) fn deadline(&self, config: &LevelConfig) -> Option<Time> {
        self.levels.due(config).into_iter().chain(self.ask_due()).min()
    }
}

/// Inputs.
impl Reconfigure {
    /// A replica is connected.
    pub(crate) fn met(&mut self, replica: ReplicaId) {
        self.caught_up.met(replica);
    }

    /// A replica is lost.
    pub(crate) fn lost(&mut self, replica: ReplicaId) {
        self.caught_up.lost(replica);
    }

    /// An instance takes no part any more.
    pub(crate) fn left(&mut self, at: usize) {
        self.standing.left(at);
    }

    /// The membership in force in an instance changed.
    pub(crate) fn in_force(&mut self, at: usize, group: &Group, memberships: Arc<Memberships>) {
        let said = memberships.now().number() > MembershipId::FIRST && group.stay().is_present();
        self.standing.in_force(at, Some(memberships).filter(|_| said));
    }

    /// Another replica says who the members are. It may know more than this one. Where replicas may lie, the members never change, and the message is ignored.
    pub(crate) fn told(&mut self, memberships: Memberships, config: &NodeConfig) {
        if !config.order.faults.may_lie() || planted("members-of-one") {
            self.standing.told(memberships);
        }
    }

    /// A leader says which replicas have caught up with its instance.
    pub(crate) fn told_caught_up(
        &mut self,
        groups: &Groups,
        instance: InstanceId,
        from: ReplicaId,
        replicas: Vec<ReplicaId>,
    ) {
        if groups.of(instance).is_some() {
            self.caught_up.told(index_of(instance), from, replicas);
        }
    }

    /// Whether this log does not have the level of the service yet; if so, it gets it now.
    pub(crate) fn notes_service(&mut self, level: u32) -> bool {
        std::mem::replace(&mut self.levels.service_noted, level) < level && level > 1
    }

    /// This log has the level.
    pub(crate) fn noted(&mut self, level: u32) {
        self.levels.noted(level);
    }

    /// Whether this log does not have the level yet.
    pub(crate) fn is_unnoted(&self, level: u32) -> bool {
        self.levels.is_unnoted(level)
    }

    /// Whether connections do not fit the members any more; true once for each change.
    pub(crate) fn takes_change(&mut self) -> bool {
        std::mem::take(&mut self.standing.changed)
    }

    /// Whether the connected members were not told of this membership yet.
    pub(crate) fn spreads(&mut self, number: MembershipId) -> bool {
        self.standing.spreads(number)
    }

    /// A checkpoint was installed, with this roster.
    pub(crate) fn installed(&mut self, roster: Roster) {
        self.roster = roster;
    }

    /// A checkpoint was installed: connections are checked again.
    pub(crate) fn changed(&mut self) {
        self.standing.changed = true;
    }

    /// The protocol begins, or goes on from a checkpoint: it is told of a change that is under way.
    pub(crate) fn resumed(&mut self, out: &mut Vec<Out>) {
        match self.roster.change().cloned() {
            Some(change) => carry_out(change, out),
            None => out.push(Out::NameListeners),
        }
    }

    /// A batch with a command to the engine was delivered.
    pub(crate) fn executed(&mut self, look: &Look<'_>, command: SystemCommand, out: &mut Vec<Out>) {
        let unsigned = look.config.order.faults.may_lie() && !planted("unsigned-commands");
        match command {
            // These belong to the protocol, which acts on them by itself.
            SystemCommand::Holds(_) | SystemCommand::Back(_) => {}
            SystemCommand::Signed(signed) => self.execute_signed(look, signed, out),
            SystemCommand::Raise(_)
            | SystemCommand::RaiseService(_)
            | SystemCommand::Instances(_)
            | SystemCommand::Change(_)
            | SystemCommand::Era(_)
            | SystemCommand::Neighbour(_)
                if unsigned =>
            {
                out.push(say("a command to the engine was refused: no administrator signed it".into()));
            }
            SystemCommand::Raise(level) => self.raised(look, level, out),
            SystemCommand::RaiseService(level) => self.service_raised(look, level, out),
            SystemCommand::Neighbour(command) => Self::neighbour_ordered(command, out),
            SystemCommand::Era(era) => {
                if let Err(why) = self.end_era(look, era, out) {
                    out.push(say(format!("the end of the era was refused: {why}")));
                }
            }
            SystemCommand::Instances(count) => self.resized(look, count, out),
            SystemCommand::Change(change) => {
                self.begun.change = None;
                if let Err(why) = self.begin_change(look, change, out) {
                    out.push(say(format!("a change of the membership was refused: {why}")));
                }
            }
            SystemCommand::Changed(number) => {
                self.begun.change = None;
                self.ended(look, number, out);
            }
        }
    }

    /// A change of the membership begins. All replicas give the same answer.
    fn begin_change(
        &mut self,
        look: &Look<'_>,
        change: Memberships,
        out: &mut Vec<Out>,
    ) -> Result<(), String> {
        self.standing.changed = true;
        if look.engine.merge().next_generation().is_some() {
            return Err("the number of instances is changing".into());
        }
        if look.config.order.nature().can(Feature::ChangeMembers).is_err() {
            return Err("the protocol knows none".into());
        }
        if !look.config.order.faults.fit(change.now().voters().count() as u32) {
            return Err("so few voters do not survive what the cluster was made for".into());
        }
        match self.roster.execute(SystemCommand::Change(change)) {
            Done::Begun(change) => {
                out.push(say(format!("a change of the membership to {} begins", change.now().number())));
                carry_out(change, out);
                Ok(())
            }
            Done::Refused(why) => Err(why.into()),
            Done::Ended(_) => Ok(()),
        }
    }

    /// A change of the membership is complete.
    fn ended(&mut self, look: &Look<'_>, number: MembershipId, out: &mut Vec<Out>) {
        self.standing.changed = true;
        match self.roster.execute(SystemCommand::Changed(number)) {
            Done::Refused(why) => out.push(say(format!("a change of the membership was refused: {why}"))),
            _ => {
                out.push(say(format!("the membership is {number}")));
                let replicas = self.ordered_members(look);
                out.extend([
                    Out::NameListeners,
                    Out::Changed(MembershipNow { number, replicas }),
                    Out::MeetBorders,
                ]);
                if self.is_removed(look.me()) {
                    out.push(say("this replica was removed from the cluster: stop it".into()));
                }
            }
        }
    }

    /// An ordered command raised the level.
    fn raised(&mut self, look: &Look<'_>, level: u32, out: &mut Vec<Out>) {
        self.begun.raise = None;
        if level > look.config.level.cluster {
            out.push(Out::Level(level));
        }
    }

    /// An ordered command asks for another number of instances. All replicas give the same answer.
    fn resized(&mut self, look: &Look<'_>, count: u16, out: &mut Vec<Out>) {
        self.begun.instances = None;
        match self.may_resize(&look.config.order) {
            Ok(()) => out.push(Out::ChangeInstances(count)),
            Err(why) => {
                let text = format!("{count} instances were refused: {why}");
                out.push(Out::Say(Event::Instances { text }));
            }
        }
    }

    fn may_resize(&self, order: &OrderConfig) -> Result<(), String> {
        if self.roster.change().is_some() {
            return Err("a change of the membership is under way".into());
        }
        Ok(order.nature().can(Feature::ChangeInstances)?)
    }

    /// Proposes what is due at the end of a turn.
    pub(crate) fn end_turn(&mut self, now: Time, look: &Look<'_>, out: &mut Vec<Out>) {
        self.end_change(look, out);
        self.propose_signed(look, out);
        self.raise_in_turn(now, look, out);
        self.ask_for_links(now, look, out);
    }

    /// Ends an ordered change that is complete in all instances: the leader of the first instance orders its end. Replicas that leave do so
    /// then, so those that stay have to have what was ruled while the others voted.
    fn end_change(&mut self, look: &Look<'_>, out: &mut Vec<Out>) {
        let Some(number) = self.roster.change().map(|change| change.now().number()) else { return };
        if !self.is_complete(look, number) {
            return;
        }
        if look.config.order.faults.may_lie() {
            self.watch_end(number, out);
        }
        let standing = look.first().standing();
        let once = (standing.view, number);
        let may = may_propose(look.first(), look.engine.merge());
        if may && standing.settled && look.journal.log().has_room() && self.begun.end != Some(once) {
            self.begun.end = Some(once);
            out.push(Out::Propose(SystemCommand::Changed(number)));
        }
    }

    /// Whether all instances made this change, and results are final up to where the others voted.
    fn is_complete(&mut self, look: &Look<'_>, number: MembershipId) -> bool {
        let through = |group: &Group| group.status().committed_membership == number;
        let mut present = look.groups.iter().filter(|group| group.stay().is_present());
        let need = present.all(through).then(|| self.begun.staying_need(look, number)).flatten();
        need.is_some_and(|seq| look.rulings.are_final(seq, look.engine.verified()))
    }

    /// Raises the level without a request, if all members could work at a higher one for long enough.
    fn raise_in_turn(&mut self, now: Time, look: &Look<'_>, out: &mut Vec<Out>) {
        let level = &look.config.level;
        let signed = look.config.order.faults.may_lie();
        if signed || level.raise_after.is_none() || level.cluster >= level.highest {
            return;
        }
        let possible = Plan::new(self, look).raise(0).ok();
        if let Some(level) = self.levels.raises(now, level, possible) {
            self.begin_raise(look, level, out);
        }
    }

    fn begin_raise(&mut self, look: &Look<'_>, level: u32, out: &mut Vec<Out>) {
        self.begun.raise = Some(look.view());
        out.push(Out::Say(Event::Level { level, begun: true }));
        out.push(Out::Propose(SystemCommand::Raise(level)));
    }

    /// Tells the leader of the first instance, at the end of a turn, which learners have caught up with the instances that lead here.
    pub(crate) fn tell_caught_up(&mut self, look: &Look<'_>, out: &mut Vec<Out>) {
        if look.groups.len() == 1 || !self.standing.has_learners() {
            return;
        }
        let Some(to) = look.first().leader().filter(|leader| *leader != look.me()) else { return };
        if let Some(conn) = look.gate.peers().to(to) {
            let news = self.caught_up.news(look.groups, to).into_iter();
            let frame =
                |(at, replicas): (usize, Vec<ReplicaId>)| caught_up_frame(look.groups[at].id(), &replicas);
            out.extend(news.map(|news| send(conn, frame(news))));
        }
    }
}

/// Requests of operators; each answer is one line.
impl Reconfigure {
    /// An operator asks for a change. Gives the kind of the answer, and its text.
    pub(crate) fn asked(&mut self, look: &Look<'_>, wish: Wish, out: &mut Vec<Out>) -> (FrameKind, String) {
        match wish {
            Wish::Members(request) => (FrameKind::MemberReply, self.change(look, &request, out)),
            Wish::Signed(signed, _) => (FrameKind::SignedReply, self.submitted(look, signed, out)),
            Wish::Level(LevelOf::Cluster, level) => (FrameKind::UpgradeReply, self.raise(look, level, out)),
            Wish::Level(LevelOf::Service, level) => {
                (FrameKind::UpgradeReply, self.raise_service(look, level, out))
            }
            Wish::Instances(count) => (FrameKind::InstancesReply, self.resize(look, count, out)),
            Wish::Neighbour(command) => (FrameKind::NeighbourReply, self.neighbour(look, command, out)),
            Wish::Faults(request) => (FrameKind::FaultsReply, self.faults(look, &request, out)),
        }
    }

    /// Changes the membership.
    fn change(
        &mut self,
        look: &Look<'_>,
        request: &quorate_wire::MemberRequest,
        out: &mut Vec<Out>,
    ) -> String {
        if look.config.order.faults.may_lie() {
            let draft = Plan::new(self, look).draft(request);
            return draft.unwrap_or_else(|why| format!("error: {why}"));
        }
        let planned = Plan::new(self, look).change(request);
        match planned.and_then(|change| past_is_held(look, usize::MAX, out).map(|()| change)) {
            Ok(change) => {
                let number = change.now().number();
                self.begun.change = Some(look.view());
                out.push(Out::Propose(SystemCommand::Change(change)));
                format!("begun {number}")
            }
            Err(why) => format!("error: {why}"),
        }
    }

    /// Raises the level; 0 stands for the highest possible.
    fn raise(&mut self, look: &Look<'_>, wanted: u32, out: &mut Vec<Out>) -> String {
        if look.config.order.faults.may_lie() {
            return "error: where replicas may lie, administrators sign this (`quorate admin`)".into();
        }
        match Plan::new(self, look).raise(wanted) {
            Ok(level) => {
                self.begin_raise(look, level, out);
                format!("begun {level}")
            }
            Err(why) => format!("error: {why}"),
        }
    }

    /// Changes the number of instances.
    fn resize(&mut self, look: &Look<'_>, count: u16, out: &mut Vec<Out>) -> String {
        let planned = Plan::new(self, look).resize(count);
        match planned.and_then(|()| past_is_held(look, usize::from(count), out)) {
            Ok(()) => {
                self.begun.instances = Some(look.view());
                out.push(Out::Propose(SystemCommand::Instances(count)));
                format!("begun {count}")
            }
            Err(why) => format!("error: {why}"),
        }
    }
}

/// Begins a change. Until all instances have made it, replicas that leave are sent the records of all instances: such a replica may lead
/// one, and needs what the others decided to execute the command and to hand over.
fn carry_out(change: Memberships, out: &mut Vec<Out>) {
    out.extend([Out::NameListeners, Out::BeginChange(Arc::new(change))]);
}

fn send(conn: ConnId, frame: OutFrame) -> Out {
    Out::Do(Box::new(Effect::Send { conn, frame }))
}

fn say(text: String) -> Out {
    Out::Say(Event::Members { text })
}

/// Checks that a majority has a checkpoint behind the last stay that ended. Then what the instances decided in that stay is not needed: a
/// replica that lags finds the checkpoint in every majority. Otherwise the replicas in one stay and those in the next could each be too
/// few, and a replica that joins could not learn what it was never sent. Asks for a checkpoint if there is none.
fn past_is_held(look: &Look<'_>, among: usize, out: &mut Vec<Out>) -> Result<(), String> {
    let left: Option<Seq> = look.groups.iter().take(among).filter_map(|group| group.stay().away).max();
    let Some(left) = left.filter(|_| !planted("stays-overlap")) else { return Ok(()) };
    let holders = look.keeping.holders(left);
    if look.first().status().membership.has_quorum(0, |replica| holders.contains(&replica)) {
        return Ok(());
    }
    out.push(Out::OrderBorder);
    Err("instances left, and most replicas have no checkpoint of after that yet; it is being made, try again"
        .into())
}

/// A member of which no known membership has more than this.
fn unnamed(known: &KnownMember) -> Member {
    let (role, address) = (MemberRole::Learner, known.address.clone());
    let (replica, incarnation) = (known.replica, known.incarnation);
    Member { replica, role, address, incarnation, life: 0, key: None }
}

/// The number of the ordered membership, for the status.
fn number_of(current: Option<&Membership>) -> MembershipId {
    current.map_or(MembershipId::FIRST, Membership::number)
}
