//! Reconfiguring: who the members are, how many instances there are, and at which feature level the cluster works.
//!
//! An operator asks, the leader of the first instance checks what is asked (`planning.rs`) and proposes a command to the engine. All
//! replicas execute it alike ([`Reconfigure::executed`]); of a membership it only begins a change (`../roster.rs`), which each instance carries
//! out in its own log (path/3-order), and once all are through a second command ends it. Connections follow what holds in the instances
//! (`standing.rs`). One thing changes at a time.
//!
//! This part proposes nothing and connects nobody by itself: it says what is to be done ([`Out`]).
//! Tests: members/tests.rs, beside each of the files, check/sim, front/cli/tests/all/member.rs.

mod caught_up;
mod levels;
mod planning;
mod standing;

pub use levels::LevelConfig;
pub(crate) use levels::{LEVEL, Levels, record as level_record};
pub(crate) use planning::{Plan, may_propose};
pub(crate) use standing::Directory;

use crate::config::NodeConfig;
use crate::effects::Event;
use crate::engine::Engine;
use crate::gate::Gate;
use crate::group::{FIRST, Group, Groups, index_of};
use crate::journal::Journal;
use crate::keeping::Keeping;
use crate::leading::Leading;
use crate::roster::{Done, Roster};
use caught_up::CaughtUp;
use quorate_admit::KnownMember;
use quorate_execute::MembershipNow;
use quorate_order::{Feature, OrderConfig};
use quorate_types::{InstanceId, MembershipId, ReplicaId, Room, Seq, Time, View, planted};
use quorate_wire::{Member, MemberRole, Membership, Memberships, SystemCommand};
use standing::Standing;
use std::sync::Arc;

/// What this part may know of the others.
#[derive(Clone, Copy)]
pub(crate) struct Look<'a> {
    pub(crate) config: &'a NodeConfig,
    pub(crate) groups: &'a [Group],
    pub(crate) engine: &'a Engine,
    pub(crate) gate: &'a Gate,
    pub(crate) keeping: &'a Keeping,
    pub(crate) journal: &'a Journal,
    pub(crate) leading: &'a Leading,
}

impl Look<'_> {
    fn first(&self) -> &Group {
        &self.groups[FIRST]
    }

    fn me(&self) -> ReplicaId {
        self.config.members.me()
    }

    /// What a majority has room for.
    fn room(&self) -> Room {
        self.leading.room(self.journal.room(), self.config)
    }

    /// The view of the first instance, in which commands are proposed.
    fn view(&self) -> View {
        self.first().standing().view
    }
}

/// What is to be done.
#[derive(Debug)]
pub(crate) enum Out {
    /// A command goes into the first instance, which leads here.
    Propose(SystemCommand),
    /// All instances are told whom to send what they decide.
    NameListeners,
    /// Each instance makes this change in its own log, when it can.
    BeginChange(Arc<Memberships>),
    /// A change of the membership is done: the service hears it.
    Changed(MembershipNow),
    /// The number of replicas is another one: borders depend on it.
    MeetBorders,
    /// There are so many instances from the next border on.
    ChangeInstances(u16),
    /// The cluster works at this level.
    Level(u32),
    /// A border is to be ordered.
    OrderBorder,
    /// Whoever leads the first instance is told who has caught up in an instance.
    TellCaughtUp { to: ReplicaId, at: usize, replicas: Vec<ReplicaId> },
    /// Said to whoever watches.
    Say(Event),
}

/// The view in which something was proposed that was not executed here yet: operators who ask again and again fill no queue.
#[derive(Debug, Default)]
struct Begun {
    change: Option<View>,
    raise: Option<View>,
    instances: Option<View>,
    /// The end of this change.
    end: Option<(View, MembershipId)>,
}

/// What was ordered about members, instances and levels, and what is under way; see the module.
#[derive(Debug)]
pub(crate) struct Reconfigure {
    roster: Roster,
    levels: Levels,
    standing: Standing,
    caught_up: CaughtUp,
    begun: Begun,
}

/// What others may ask of it.
impl Reconfigure {
    pub(crate) fn new(roster: Roster, levels: Levels) -> Self {
        Self {
            roster,
            levels,
            standing: Standing::default(),
            caught_up: CaughtUp::default(),
            begun: Begun::default(),
        }
    }

    /// What was ordered about the membership.
    pub(crate) const fn roster(&self) -> &Roster {
        &self.roster
    }

    /// Whether this replica is no member any more.
    pub(crate) fn is_removed(&self, me: ReplicaId) -> bool {
        self.roster.used().contains(&me)
            && self.roster.change().is_none()
            && self.roster.current().is_some_and(|current| current.get(me).is_none())
    }

    /// Whom instances send what they decide, whatever holds in them: nobody is left out for a change that was not executed here yet.
    /// After a restart from a checkpoint there may be many: whoever left with one of them may lead what the others wait for, or be the
    /// only one that can.
    pub(crate) fn listeners(&self, look: &Look<'_>) -> Arc<[ReplicaId]> {
        let founders = look.config.members.all().iter().map(|known| known.replica);
        let mut all = self.roster.audience(founders);
        all.extend(self.unexecuted(look).iter().flat_map(|memberships| memberships.replicas()));
        all.into_iter().collect()
    }

    /// Memberships that hold in instances and were not executed here, with the last one that was; none where execution knows all.
    fn unexecuted(&self, look: &Look<'_>) -> Vec<Arc<Memberships>> {
        let present = look.groups.iter().filter(|group| group.stay().is_present());
        self.roster.unexecuted(present.flat_map(|group| group.status().memberships).collect())
    }

    /// What to tell others of the members, if there is anything that they may not know.
    pub(crate) fn to_tell(&self) -> Option<&Memberships> {
        self.standing.to_tell()
    }

    /// Whom to dial and to let in, if what is configured says less.
    pub(crate) fn directory(&self, look: &Look<'_>) -> Option<Directory> {
        self.standing.directory(&self.roster, &self.unexecuted(look), &look.config.members)
    }

    /// Those that have caught up in all instances, as the leader of the first one knows.
    pub(crate) fn caught_up(&self, look: &Look<'_>) -> Vec<ReplicaId> {
        self.caught_up.of_all(look.groups, look.me())
    }

    /// How many replicas there are as ordered, and which of them this one is, from 0.
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

    /// When a leader raises the level by itself, if nothing changes.
    pub(crate) fn deadline(&self, config: &LevelConfig) -> Option<Time> {
        self.levels.due(config)
    }
}

/// What it is told.
impl Reconfigure {
    /// Another replica is connected anew.
    pub(crate) fn met(&mut self, replica: ReplicaId) {
        self.caught_up.met(replica);
    }

    /// Another replica is lost.
    pub(crate) fn lost(&mut self, replica: ReplicaId) {
        self.caught_up.lost(replica);
    }

    /// An instance takes no part any more.
    pub(crate) fn left(&mut self, at: usize) {
        self.standing.left(at);
    }

    /// What holds in an instance changed.
    pub(crate) fn in_force(&mut self, at: usize, group: &Group, memberships: Arc<Memberships>) {
        let said = memberships.now().number() > MembershipId::FIRST && group.stay().is_present();
        self.standing.in_force(at, Some(memberships).filter(|_| said));
    }

    /// Another replica says who the members are. It may know better; or lie, where the members never change.
    pub(crate) fn told(&mut self, memberships: Memberships, config: &NodeConfig) {
        if !config.order.faults.may_lie() || planted("members-of-one") {
            self.standing.told(memberships);
        }
    }

    /// Another leader says who has caught up with it.
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

    /// The log says the level.
    pub(crate) fn noted(&mut self, level: u32) {
        self.levels.noted(level);
    }

    /// Whether the log does not say this level yet.
    pub(crate) fn is_unnoted(&self, level: u32) -> bool {
        self.levels.is_unnoted(level)
    }

    /// Whether connections do not fit the members any more; asked once for each change.
    pub(crate) fn takes_change(&mut self) -> bool {
        std::mem::take(&mut self.standing.changed)
    }

    /// Whether those who are connected were not told of this membership.
    pub(crate) fn spreads(&mut self, number: MembershipId) -> bool {
        self.standing.spreads(number)
    }

    /// What a checkpoint says takes the place of what was executed here.
    pub(crate) fn installed(&mut self, roster: Roster) {
        self.roster = roster;
    }

    /// A checkpoint took the place of the state: connections are looked at again.
    pub(crate) fn changed(&mut self) {
        self.standing.changed = true;
    }

    /// The protocol begins, or goes on from a checkpoint: it hears of a change that is under way.
    pub(crate) fn resumed(&mut self, out: &mut Vec<Out>) {
        match self.roster.change().cloned() {
            Some(change) => carry_out(change, out),
            None => out.push(Out::NameListeners),
        }
    }

    /// A batch was executed that holds a command to the engine.
    pub(crate) fn executed(&mut self, look: &Look<'_>, command: SystemCommand, out: &mut Vec<Out>) {
        let refused = |why: &str| say(format!("a change of the membership was refused: {why}"));
        match command {
            SystemCommand::Raise(level) => return self.raised(look, level, out),
            SystemCommand::Instances(count) => return self.resized(look, count, out),
            // The protocol's own; it says so itself.
            SystemCommand::Holds(_) => return,
            SystemCommand::Change(_) | SystemCommand::Changed(_) => self.begun.change = None,
        }
        if matches!(command, SystemCommand::Change(_)) {
            if look.engine.merge().next_generation().is_some() {
                return out.push(refused("the number of instances is changing"));
            }
            if look.config.order.nature().can(Feature::ChangeMembers).is_err() {
                return out.push(refused("the protocol knows none"));
            }
        }
        match self.roster.execute(command) {
            Done::Begun(change) => {
                out.push(say(format!("a change of the membership to {} begins", change.now().number())));
                carry_out(change, out);
            }
            Done::Ended(number) => {
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
            Done::Refused(why) => out.push(refused(why)),
        }
        self.standing.changed = true;
    }

    /// The level was raised by an ordered command.
    fn raised(&mut self, look: &Look<'_>, level: u32, out: &mut Vec<Out>) {
        self.begun.raise = None;
        if level > look.config.level.cluster {
            out.push(Out::Level(level));
        }
    }

    /// A command asks for another number of instances. All replicas come to the same answer.
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

    /// The end of a turn: what is due is proposed.
    pub(crate) fn end_turn(&mut self, now: Time, look: &Look<'_>, out: &mut Vec<Out>) {
        self.end_change(look, out);
        self.raise_in_turn(now, look, out);
    }

    /// The change that was ordered is done in all instances: whoever leads the first one says so in the log.
    fn end_change(&mut self, look: &Look<'_>, out: &mut Vec<Out>) {
        let Some(number) = self.roster.change().map(|change| change.now().number()) else { return };
        let standing = look.first().standing();
        if !may_propose(look.first(), look.engine.merge())
            || !standing.settled
            || !look.journal.log().has_room()
        {
            return;
        }
        let once = (standing.view, number);
        let through = |group: &Group| group.status().committed_membership == number;
        let mut present = look.groups.iter().filter(|group| group.stay().is_present());
        if self.begun.end != Some(once) && present.all(through) {
            self.begun.end = Some(once);
            out.push(Out::Propose(SystemCommand::Changed(number)));
        }
    }

    /// A leader that is to raise the level by itself does so when all could do more for long enough.
    fn raise_in_turn(&mut self, now: Time, look: &Look<'_>, out: &mut Vec<Out>) {
        let level = &look.config.level;
        if level.raise_after.is_none() || level.cluster >= level.highest {
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

    /// At the end of a turn: whoever leads the first instance hears which learners have caught up in those that are led here.
    pub(crate) fn tell_caught_up(&mut self, look: &Look<'_>, out: &mut Vec<Out>) {
        if look.groups.len() == 1 || !self.standing.has_learners() {
            return;
        }
        let Some(to) = look.first().leader().filter(|leader| *leader != look.me()) else { return };
        if look.gate.peers().to(to).is_some() {
            let news = self.caught_up.news(look.groups, to);
            out.extend(news.into_iter().map(|(at, replicas)| Out::TellCaughtUp { to, at, replicas }));
        }
    }
}

/// What an operator asks for: each says in a line what came of it.
impl Reconfigure {
    /// Another membership.
    pub(crate) fn change(
        &mut self,
        look: &Look<'_>,
        request: &quorate_wire::MemberRequest,
        out: &mut Vec<Out>,
    ) -> String {
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

    /// Another level; 0 for the highest possible.
    pub(crate) fn raise(&mut self, look: &Look<'_>, wanted: u32, out: &mut Vec<Out>) -> String {
        match Plan::new(self, look).raise(wanted) {
            Ok(level) => {
                self.begin_raise(look, level, out);
                format!("begun {level}")
            }
            Err(why) => format!("error: {why}"),
        }
    }

    /// Another number of instances.
    pub(crate) fn resize(&mut self, look: &Look<'_>, count: u16, out: &mut Vec<Out>) -> String {
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

/// Until all instances have made the change, whoever leaves is sent the records of all: it may lead one, and what the others decided is
/// what it lacks to execute the command, and to hand over.
fn carry_out(change: Memberships, out: &mut Vec<Out>) {
    out.extend([Out::NameListeners, Out::BeginChange(Arc::new(change))]);
}

fn say(text: String) -> Out {
    Out::Say(Event::Members { text })
}

/// What instances said that left is of no use any more where a majority has a checkpoint of after that: whoever lags finds one with
/// every majority. Else those who are in one stay and those who are in the next could be too few in both; and who joins could not
/// learn what it never was sent. Asks for a checkpoint if there is none.
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

/// A member of which no membership is known any more that has it.
fn unnamed(known: &KnownMember) -> Member {
    let (role, address) = (MemberRole::Learner, known.address.clone());
    Member { replica: known.replica, role, address, incarnation: known.incarnation, life: 0 }
}

/// What was ordered, for the status.
fn number_of(current: Option<&Membership>) -> MembershipId {
    current.map_or(MembershipId::FIRST, Membership::number)
}
