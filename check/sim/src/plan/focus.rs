//! The focus of a run. Some mistakes show only when several rare things meet: a focus brings these together, and leaves the rest to the
//! seed. It is drawn from generators of its own, so that the plans of all other seeds stay as they are.

use super::stops::{plan_beginnings, plan_claims, plan_idle};
use super::{Change, Fault, LEADER_ALONE, Liar, MS, Moment, Plan, Profile};
use crate::liars::Trick;
use crate::random::Rng;
use quorate_log::SyncMode;
use quorate_order::Protocol;

/// This many of 1000 runs get a focus, if the caller chose none.
const SHARE: u64 = 30;

/// What a run concentrates on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Focus {
    /// Reads that are not ordered, where one replica lags and a liar answers with an earlier state.
    Reads,
    /// Votes: machines stop right after one, and the winner is cut off.
    Votes,
    /// Promises not to vote: replicas that made one start again.
    Promises,
    /// Changes of membership: operators ask again and again while none can begin.
    Changes,
    /// Liars that lead and hold back what no client asks for: no-ops, and time.
    Idle,
    /// Liars that alter signed or tagged requests.
    Forges,
    /// Clusters made from a backup, whose first leaders die before a client asks for anything.
    Beginnings,
    /// Leaders that report a decision to the next leader, and die before another replica has it.
    Claims,
}

impl Focus {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Reads,
        Self::Votes,
        Self::Promises,
        Self::Changes,
        Self::Idle,
        Self::Forges,
        Self::Beginnings,
        Self::Claims,
    ];

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Reads => "reads",
            Self::Votes => "votes",
            Self::Promises => "promises",
            Self::Changes => "changes",
            Self::Idle => "idle",
            Self::Forges => "forges",
            Self::Beginnings => "beginnings",
            Self::Claims => "claims",
        }
    }

    /// Whether it is about liars.
    #[must_use]
    pub const fn lies(self) -> bool {
        matches!(self, Self::Reads | Self::Idle | Self::Forges)
    }

    /// The only protocol that it is for, with crash faults.
    #[must_use]
    pub const fn protocol(self) -> Option<Protocol> {
        match self {
            Self::Promises => Some(Protocol::RAFT),
            Self::Claims => Some(Protocol::MOD_SMART),
            _ => None,
        }
    }

    /// Whether it is for clusters like these.
    fn fits(self, profile: &Profile) -> bool {
        let crash = !profile.model().may_lie();
        match self {
            Self::Reads | Self::Idle | Self::Forges => !crash,
            Self::Beginnings => profile.sync.is_none_or(|sync| sync != SyncMode::Memory),
            _ => crash && self.protocol().is_none_or(|protocol| protocol == profile.protocol()),
        }
    }
}

impl Profile {
    /// Whether clusters like these can have the chosen focus, if one is chosen.
    #[must_use]
    pub fn has_focus(&self) -> bool {
        self.focus.is_none_or(|focus| focus.fits(self))
    }

    /// The focus of this seed's run.
    pub(super) fn focus_of(&self, seed: u64) -> Option<Focus> {
        let mut rng = Rng::of(seed, 50);
        let fitting: Vec<Focus> = Focus::ALL.into_iter().filter(|focus| focus.fits(self)).collect();
        let drawn = rng.chance(SHARE).then(|| rng.pick(&fitting));
        self.focus.or(drawn).filter(|focus| self.faults && focus.fits(self))
    }

    /// The profile with what a focus needs, as far as the caller left it open.
    #[must_use]
    pub(super) fn with(self, focus: Option<Focus>, seed: u64) -> Self {
        let Some(focus) = focus else { return self };
        let few = Rng::of(seed, 51).pick(&[3, 3, 3, 5]);
        let few = matches!(focus, Focus::Votes | Focus::Promises | Focus::Claims).then_some(few);
        // Most of them idle, or one that has all.
        let mut rng = Rng::of(seed, 53);
        let instances = match focus {
            Focus::Idle => Some(rng.pick(&[1, 1, 2, 3, 4, 8])),
            Focus::Claims => Some(rng.pick(&[1, 1, 2])),
            _ => None,
        };
        Self {
            replicas: self.replicas.or(few),
            instances: self.instances.or(instances),
            sync: self.sync.or(Some(SyncMode::Group)),
            changes: self.changes.or(Some(focus == Focus::Changes)),
            resizes: self.resizes.or(Some(false)),
            upgrades: self.upgrades.or(Some(false)),
            ..self
        }
    }
}

/// Called after everything else was drawn.
pub(super) fn plan_focus(plan: &mut Plan) {
    let mut rng = Rng::of(plan.seed, 52);
    match plan.focus {
        Some(Focus::Reads) => plan_reads(plan, &mut rng),
        Some(Focus::Votes) => plan_votes(plan, &mut rng),
        Some(Focus::Changes) => plan_changes(plan, &mut rng),
        Some(Focus::Idle) => plan_idle(plan, &mut rng),
        Some(Focus::Forges) => plan_forges(plan, &mut rng),
        Some(Focus::Beginnings) => plan_beginnings(plan, &mut rng),
        Some(Focus::Claims) => plan_claims(plan, &mut rng),
        Some(Focus::Promises) | None => {}
    }
    plan.faults.sort_by_key(|(at, _)| *at);
}

/// In most of these runs nothing else goes wrong. If a state is corrupted, no other process may end from then on, and it is unknown when a
/// moment comes.
pub(super) fn calm(plan: &mut Plan, rng: &mut Rng) {
    plan.faults.retain(|(_, fault)| !matches!(fault, Fault::Corrupt { .. }));
    if rng.chance(700) {
        plan.faults.clear();
    }
}

/// A few keys are read right after they were written. The liar is as fast as the first replica to decide, whose decision the others do not
/// hear, and answers reads with the state before it. One of the others hears and sends everything late.
fn plan_reads(plan: &mut Plan, rng: &mut Rng) {
    calm(plan, rng);
    let near = rng.spread(MS / 20, MS);
    (plan.net.delay, plan.net.jitter, plan.net.bandwidth, plan.net.spike) = ((near, near * 2), near, None, 0);
    (plan.disk, plan.costs) = ((MS / 100, MS / 2), false);
    plan.clients = (plan.clients - plan.lying_clients.len()).max(3);
    plan.lying_clients.clear();
    let work = &mut plan.workload;
    (work.keys, work.at_once, work.batch) = (rng.range(1, 2), rng.range(1, 2) as usize, 1);
    (work.shares, work.deadlines, work.padding) = ([2, 8, 0, 0, 0, 0, 0, 0], 0, 0);
    (work.pause, work.operations) = (rng.range(5, 40) * MS, rng.range(60, 150) as u32);
    for Liar { tricks, often, since, .. } in &mut plan.liars {
        *tricks = vec![Trick::OldReads];
        tricks.extend(rng.chance(700).then_some(Trick::KeepsAccepts));
        (*often, *since) = (1000, 0);
    }
    let honest: Vec<usize> = (0..plan.replicas).filter(|who| !plan.is_liar(*who)).collect();
    let late = rng.pick(&honest);
    let (by, time) = (rng.range(5, 60) * MS, plan.heal_at);
    let hears = rng.chance(500);
    for other in (0..plan.replicas).filter(|other| *other != late) {
        plan.faults.push((0, Fault::Slow { from: late, to: other, by, time }));
        if hears {
            plan.faults.push((0, Fault::Slow { from: other, to: late, by, time }));
        }
    }
}

/// Much is written, and the leader alters some of it, seldom enough to stay leader for a while.
fn plan_forges(plan: &mut Plan, rng: &mut Rng) {
    calm(plan, rng);
    plan.signs = rng.chance(500);
    plan.tags = !plan.signs;
    plan.clients = (plan.clients - plan.lying_clients.len()).max(3);
    plan.lying_clients.clear();
    plan.workload.operations = plan.workload.operations.max(80);
    plan.workload.shares[0] = plan.workload.shares[0].max(4);
    for liar in &mut plan.liars {
        liar.tricks = vec![Trick::Forge];
        liar.often = rng.pick(&[30, 100, 300]);
        liar.since = rng.below(plan.heal_at);
    }
}

/// Slow disks, or a slow network, so that much happens between a message and its being durable, or heard. There are many elections, each
/// with a machine that stops, or a leader that is cut off, at that moment.
fn plan_votes(plan: &mut Plan, rng: &mut Rng) {
    calm(plan, rng);
    let slow_disk = rng.chance(500);
    let near = if slow_disk { rng.spread(MS / 50, MS / 2) } else { rng.spread(MS / 2, 8 * MS) };
    plan.disk = if slow_disk { (MS, rng.range(4, 30) * MS) } else { (MS / 100, MS) };
    (plan.net.delay, plan.net.jitter, plan.net.bandwidth, plan.net.spike) = ((near, near * 2), near, None, 0);
    // One entry in a message, one message on its way: what comes first can be cut off from what comes next.
    (plan.sizes.0, plan.sizes.1) = rng.pick(&[(1, 1), (1, 1), (4 << 10, 2 << 10)]);
    let on_the_way = near * 6 + plan.disk.1 * 2;
    let election = plan.timing.2 * MS;
    let style = rng.pick(&[[true, true, true], [true, false, false], [false, false, false]]);
    // Elsewhere no machine may stop.
    let stops = plan.log.sync == SyncMode::Group;
    let every = election * rng.range(5, 30) / 10;
    let mut at = rng.range(200, 800) * MS;
    while at < plan.heal_at {
        let (after, time) = (rng.below(on_the_way), election * rng.range(5, 30) / 10);
        let moment = if rng.pick(&style) && stops {
            Moment::Voted { after, time: rng.spread(MS, 50 * MS), cut: time }
        } else {
            Moment::Leads { after, time }
        };
        plan.faults.push((at, Fault::Moment(moment)));
        at += rng.range(every / 2, every * 3 / 2);
    }
    // Somebody has to be elected first.
    let time = election * 2;
    plan.faults.push((rng.range(200, 800) * MS, Fault::Partition { group: LEADER_ALONE, time }));
}

/// The leader is cut off, and operators ask it all the same.
fn plan_changes(plan: &mut Plan, rng: &mut Rng) {
    let mut at = rng.range(500, 1500) * MS;
    while at < plan.heal_at {
        let time = rng.range(200, 2000) * MS;
        plan.faults.push((at, Fault::Partition { group: LEADER_ALONE, time }));
        for asked in 0..rng.range(20, 200) {
            let what = rng.pick(&[Change::Move, Change::Move, Change::Add, Change::Promote]);
            let pick = rng.number() as u16;
            plan.faults.push((at + asked * 2 * MS, Fault::Member { what, pick }));
        }
        at += time + rng.range(300, 2000) * MS;
    }
    plan.faults.retain(|(at, _)| *at < plan.heal_at);
}
