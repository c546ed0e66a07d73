//! What a seed decides before anything runs: the cluster, its configuration, the workload, and the faults with their times.
//!
//! Every run draws its own subset of everything (swarm testing: Groce and others, ISSTA 2012): a run with few kinds of faults reaches
//! states that a run with all of them never does. The faults are a plain list, so that a failing run can be made smaller by leaving some
//! out.

mod apart;
mod beginning;
mod calm;
mod dead;
mod disks;
mod eras;
mod executor;
mod focus;
mod guest;
mod instances;
mod leases;
mod liars;
mod members;
mod moments;
mod oracle;
mod profile;
mod state;
mod stops;
mod suspends;
mod upgrades;
mod usual;
mod workers;

use crate::late::Lateness;
use crate::liars::clients::ClientTrick;
use crate::net::NetPlan;
use crate::random::Rng;
use crate::service::{Kind, ServiceConfig};
use crate::work::Work;
pub use apart::Apart;
use apart::{plan_apart, plan_moves};
use beginning::plan_beginning;
use dead::plan_dead;
pub use disks::DiskFault;
use disks::{plan_disks, spare_witnesses};
pub use eras::EraKind;
use eras::plan_eras;
use executor::plan_executor;
pub use executor::{ExecutorKind, SideBySide, Verifying};
pub use focus::Focus;
use focus::plan_focus;
use instances::plan_instances;
use leases::plan_leases;
pub use liars::Liar;
use liars::plan_liars;
pub use members::Change;
use members::{founders, joiners, plan_members};
pub use moments::Moment;
pub use oracle::OraclePlan;
use oracle::plan_oracle;
pub use profile::Profile;
use quorate_log::{LogConfig, SyncMode};
use quorate_node::{BorderConfig, CheckpointMode};
use quorate_order::Protocol;
use quorate_state::transfer::{FetchLimits, ServeLimits};
use quorate_types::FaultModel;
use state::plan_state;
use std::fmt;
pub use suspends::Suspend;
use suspends::plan_suspends;
pub use upgrades::Upgrades;
use upgrades::plan_upgrades;
pub use usual::Workload;
use usual::{log_plan, net_plan, workload};
use workers::plan_workers;
pub use workers::{Fate, Workers};

const MS: u64 = 1_000_000;

/// One fault. Replicas and processes by number, from 0; times in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A disk misbehaves once.
    Disk(DiskFault),
    /// A machine stands still, and its clock with it.
    Suspend(Suspend),
    /// A fault that waits for a certain moment and begins then.
    Moment(Moment),
    /// The process dies and starts again. What it wrote stays in the page cache.
    Crash {
        /// The replica.
        who: usize,
        /// For how long.
        time: u64,
    },
    /// The machine stops. What was not synced is lost or torn.
    PowerLoss {
        /// The replica.
        who: usize,
        /// For how long.
        time: u64,
    },
    /// All machines stop at once.
    Blackout {
        /// For how long.
        time: u64,
    },
    /// The process does nothing for a while.
    Pause {
        /// The process.
        who: usize,
        /// For how long.
        time: u64,
    },
    /// Nothing gets from one process to another; the other direction works.
    Cut {
        /// From.
        from: usize,
        /// To.
        to: usize,
        /// For how long.
        time: u64,
    },
    /// Nothing gets from this set of processes to the others, or back.
    Partition {
        /// The set, as bits.
        group: u64,
        /// For how long.
        time: u64,
    },
    /// All connections between two processes break.
    Reset {
        /// One process.
        a: usize,
        /// The other process.
        b: usize,
    },
    /// A bit flips in what one process sends to the other.
    Damage {
        /// From.
        from: usize,
        /// To.
        to: usize,
    },
    /// A direction is slow.
    Slow {
        /// From.
        from: usize,
        /// To.
        to: usize,
        /// By how much.
        by: u64,
        /// For how long.
        time: u64,
    },
    /// A disk finishes nothing.
    Stall {
        /// The replica.
        who: usize,
        /// For how long.
        time: u64,
    },
    /// A disk has no room for more segments.
    Full {
        /// The replica.
        who: usize,
        /// For how long.
        time: u64,
    },
    /// A clock jumps ahead.
    Jump {
        /// The process.
        who: usize,
        /// By how much.
        by: u64,
    },
    /// A clock runs at another rate.
    Drift {
        /// The process.
        who: usize,
        /// Parts per million.
        rate: i64,
    },
    /// An operator asks a replica to hand over leadership.
    Transfer {
        /// The replica that is asked.
        who: usize,
        /// The new leader; 0 for the most advanced replica.
        to: u16,
    },
    /// A bit flips in a replica's log, where it is known to be synced; then the replica starts again.
    Rot {
        /// The replica.
        who: usize,
        /// The position, in parts of 65,536 of what is known to be synced.
        part: u16,
    },
    /// A disk is lost. Its replica stays away, since with a new disk it would be another replica.
    Lose {
        /// The replica.
        who: usize,
    },
    /// Bits flip in a replica's checkpoints. Then the replica starts again, or scrubs them.
    RotCheckpoint {
        /// The replica.
        who: usize,
        /// The position, in parts of 65,536 of all files.
        part: u16,
        /// Whether many bits of a sector flip, rather than one.
        sector: bool,
        /// Whether it starts again.
        restart: bool,
    },
    /// A replica's state gets something that no client asked for.
    Corrupt {
        /// The replica.
        who: usize,
    },
    /// A replica scrubs its checkpoints.
    Scrub {
        /// The replica.
        who: usize,
    },
    /// A replica dies the next time that its keeper is at a certain point.
    CrashInCheckpoint {
        /// The replica.
        who: usize,
        /// The point.
        phase: Phase,
        /// How often the keeper passes that point first.
        skip: u32,
        /// Whether the machine stops, too.
        machine: bool,
        /// For how long it is down.
        time: u64,
    },
    /// A replica is away for so long that the others continue without it.
    Away {
        /// The replica.
        who: usize,
        /// For how long.
        time: u64,
    },
    /// A replica sends wrong parts of its checkpoints, or none.
    Lie {
        /// The replica.
        who: usize,
        /// The kind of the lie.
        how: Lie,
        /// For how long.
        time: u64,
    },
    /// A replica needs an extra border.
    WantBorder {
        /// The replica that is asked.
        who: usize,
    },
    /// An operator asks the leader for another membership.
    Member {
        /// The kind of change.
        what: Change,
        /// Which of the possible replicas it is about.
        pick: u16,
    },
    /// A replica's program is replaced by a newer or an older one. Once a raise was proposed it is not replaced by an older one, unless
    /// operators are careless.
    Program {
        /// The replica.
        who: usize,
        /// The highest feature level that the new program supports.
        level: u32,
        /// How long the replica is down.
        time: u64,
    },
    /// An operator asks the leader to raise the feature level.
    Raise,
    /// An operator asks for the end of the era.
    Era(EraKind),
    /// An operator asks the leader for another number of instances.
    Instances {
        /// How many.
        count: u16,
    },
}

/// A point in the work of a keeper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// It writes a capture ahead of a border.
    Capture,
    /// It writes at a border.
    Write,
    /// Everything is written, and the file does not have its name yet.
    BeforePublish,
    /// The file has its name, and that is not durable.
    InPublish,
    /// The name is durable, and the keeper has not reported it.
    AfterPublish,
    /// It deletes old checkpoints.
    Trim,
    /// The replica deletes old segments of the log.
    TrimLog,
    /// It makes a fetched checkpoint durable.
    Install,
    /// It keeps a part of a transfer.
    Partial,
    /// It writes a damaged part again.
    Repair,
}

/// What is wrong with the parts of checkpoints that a replica sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lie {
    /// A bit is flipped.
    Flip,
    /// The end is missing.
    Truncate,
    /// It is another part than it says.
    Other,
    /// Nothing is sent.
    Silent,
}

/// Instead of a replica's number: the leader at the beginning of the fault.
pub const LEADER: usize = usize::MAX;
/// This plus a number, instead of a replica's number: this many after the leader, cyclically among the founders.
pub const AFTER_LEADER: usize = usize::MAX / 2;
/// Instead of a group: the leader alone. Together with others: the leader and those.
pub const LEADER_ALONE: u64 = 1 << 63;

impl Fault {
    /// The same fault of this replica, if it was a fault of the leader.
    #[must_use]
    pub fn resolved(self, leader: usize, founders: usize) -> Self {
        let mut fault = self;
        let found = |who: usize| match who {
            LEADER => leader,
            AFTER_LEADER.. => (leader + who - AFTER_LEADER) % founders,
            _ => who,
        };
        match &mut fault {
            Self::Crash { who, .. }
            | Self::PowerLoss { who, .. }
            | Self::Pause { who, .. }
            | Self::Stall { who, .. }
            | Self::Full { who, .. }
            | Self::Jump { who, .. }
            | Self::Drift { who, .. }
            | Self::Transfer { who, .. }
            | Self::Corrupt { who }
            | Self::CrashInCheckpoint { who, .. }
            | Self::Away { who, .. }
                if *who >= AFTER_LEADER =>
            {
                *who = found(*who);
            }
            Self::Partition { group, .. } if *group & LEADER_ALONE != 0 => {
                *group = *group & !LEADER_ALONE | 1 << leader;
            }
            Self::Cut { from, to, .. } => (*from, *to) = (found(*from), found(*to)),
            _ => {}
        }
        fault
    }

    /// Whether it takes a replica away for good, or may do so.
    pub fn is_final(&self) -> bool {
        match self {
            Self::Disk(fault) => fault.damages(),
            _ => {
                matches!(
                    self,
                    Self::Rot { .. } | Self::Lose { .. } | Self::Moment(Moment::ClaimsAlone { .. })
                )
            }
        }
    }

    /// The processes that end with it: none (`Some(None)`), one, or some (`None`).
    fn ends_life_of(&self) -> Option<Option<usize>> {
        match self {
            Self::Crash { who, .. }
            | Self::PowerLoss { who, .. }
            | Self::CrashInCheckpoint { who, .. }
            | Self::Away { who, .. }
            | Self::Rot { who, .. }
            | Self::RotCheckpoint { who, .. }
            | Self::Program { who, .. }
            | Self::Lose { who } => Some(Some(*who).filter(|who| *who < AFTER_LEADER)),
            Self::Disk(fault) => Some(Some(fault.who())),
            Self::Blackout { .. } | Self::Moment(Moment::Voted { .. } | Moment::ClaimsAlone { .. }) => {
                Some(None)
            }
            _ => None,
        }
    }

    /// Whether repairing it needs a majority of the others.
    fn needs_others(&self) -> bool {
        match self {
            Self::RotCheckpoint { .. } | Self::Corrupt { .. } => true,
            Self::Lie { how, .. } => *how != Lie::Silent,
            _ => false,
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}

/// Everything that is decided before a run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The seed.
    pub seed: u64,
    /// The focus of the run, if it has one.
    pub focus: Option<Focus>,
    /// How many replicas there ever are. Those beyond the founders join while the cluster runs, if at all.
    pub replicas: usize,
    /// With how many replicas the cluster begins.
    pub founders: usize,
    /// The protocol.
    pub protocol: Protocol,
    /// The faults that the cluster survives.
    pub fault_model: FaultModel,
    /// The first era, if others may follow. Then `fault_model` and `protocol` are the strongest of any.
    pub eras: Option<EraKind>,
    /// The replicas that lie.
    pub liars: Vec<Liar>,
    /// The tricks of the clients that lie; these are the last clients.
    pub lying_clients: Vec<ClientTrick>,
    /// How late execution is. None: every batch is final as soon as it is delivered.
    pub lateness: Option<Lateness>,
    /// Which parts of a replica have lanes of their own.
    pub apart: Option<Apart>,
    /// Whether clients sign their requests.
    pub signs: bool,
    /// The threads on which replicas have signatures checked. None: lanes check them.
    pub workers: Option<Workers>,
    /// How commands run side by side. None: they run one after the other.
    pub executor: Option<SideBySide>,
    /// Whether replicas compare results before they are final.
    pub verified: Option<Verifying>,
    /// Whether one fault is survived, and the votes of the first members count more, where there are members enough.
    pub weighted: bool,
    /// How well the oracle does, where there is one.
    pub oracle: Option<OraclePlan>,
    /// Whether clients put tags for the replicas under their requests, and send to the leader first.
    pub tags: bool,
    /// After this many slots the next replica leads; 0: leaders do not rotate.
    pub rotate_after: u64,
    /// How many instances order batches.
    pub instances: u16,
    /// How many lanes a replica has at most.
    pub lanes: u16,
    /// Whether followers doubt a silent leader sooner while its words come regularly.
    pub adapts: bool,
    /// Whether the number of instances changes.
    pub resizes: bool,
    /// How far instances may run ahead of the global log.
    pub window: u64,
    /// Whether the cluster is made from a backup of another cluster.
    pub restored: bool,
    /// How many clients.
    pub clients: usize,
    /// How many of them, the last ones, carry what a guest wants and do nothing else.
    pub carriers: usize,
    /// The log's sizes and durability.
    pub log: LogConfig,
    /// The network.
    pub net: NetPlan,
    /// The workload.
    pub workload: Workload,
    /// The protocol's times in milliseconds: heartbeat, and the least and the longest time after which a leader is replaced.
    pub timing: (u64, u64, u64),
    /// The protocol's sizes in bytes: window, message, cache; with mod-smart only the cache.
    pub sizes: (usize, usize, usize),
    /// Sizes of admission: the largest batch, and the queue.
    pub admission: (usize, usize),
    /// How many batches may be in flight, and their bytes.
    pub in_flight: (usize, usize),
    /// How long an idle session lives, in milliseconds, and its window.
    pub sessions: (u64, u64),
    /// How long the disk takes, in nanoseconds: least and most.
    pub disk: (u64, u64),
    /// By how many percent clocks may differ, if leaders have leases.
    pub lease: Option<u8>,
    /// How wrong a clock's rate may be, in parts per million.
    pub drift: u64,
    /// In this many of 1000 cases a fault is aimed at the leader.
    pub aim: u64,
    /// Whether messages cost time.
    pub costs: bool,
    /// Until faults end, each replica has a core for so long out of every so long, in nanoseconds, at different times. None: always.
    pub starved: Option<(u64, u64)>,
    /// What the work of lanes costs, if a rate is wanted.
    pub work: Option<Work>,
    /// When checkpoints are made, and how.
    pub borders: BorderConfig,
    /// How much log a replica keeps at most after the last agreed checkpoint.
    pub log_bytes_max: u64,
    /// Limits of a transfer at the receiver.
    pub fetch: FetchLimits,
    /// Limits of a transfer at the sender.
    pub serve: ServeLimits,
    /// How long a piece of the keeper's work takes, in nanoseconds: least and most.
    pub keeping: (u64, u64),
    /// Every how many milliseconds a replica scrubs, if it does.
    pub scrub_every: Option<u64>,
    /// A leader whose disk has not written for this many milliseconds hands over.
    pub disk_stall: u64,
    /// Feature levels.
    pub upgrades: Upgrades,
    /// What the cluster runs.
    pub service: ServiceConfig,
    /// Faults with their times, in order.
    pub faults: Vec<(u64, Fault)>,
    /// When faults are over.
    pub heal_at: u64,
    /// How long after that everything must be finished.
    pub bound: u64,
}

/// The borders of a plan until its state is planned.
const NO_BORDERS: BorderConfig = BorderConfig {
    mode: CheckpointMode::Full,
    interval_bytes: 0,
    state_percent: 0,
    interval_bytes_max: 0,
    ahead_percent: 0,
    full_every: 1,
    every: None,
};

/// The sizes of [`Plan::sizes`].
fn sizes(rng: &mut Rng) -> (usize, usize, usize) {
    (
        rng.pick(&[1, 4 << 10, 1 << 20]),
        rng.pick(&[1, 2 << 10, 64 << 10]),
        rng.pick(&[0, 1 << 10, 16 << 10, 1 << 20]),
    )
}

/// How many members clusters usually have.
const USUAL: [usize; 12] = [1, 2, 3, 3, 3, 3, 3, 4, 5, 5, 5, 7];

impl Plan {
    /// The plan of this seed.
    pub fn new(seed: u64, profile: &Profile) -> Self {
        let profile = &profile.with_eras();
        let (fault_model, protocol, focus) = (profile.model(), profile.protocol(), profile.focus_of(seed));
        let (profile, mut rng) = (&profile.with(focus, seed).of(protocol), Rng::of(seed, 1));
        let (founders, spares) = joiners(seed, profile, founders(seed, profile, rng.pick(&USUAL)));
        let (clients, log, net) = (rng.range(1, 4) as usize, log_plan(&mut rng, profile), net_plan(&mut rng));
        let (heal_at, heartbeat) = (rng.range(2_000, 8_000) * MS, rng.pick(&[20, 50]));
        let election = heartbeat * rng.range(5, 8);
        // Those that lie close together split votes.
        let election_max = if rng.chance(300) { election + rng.range(1, 10) } else { election * 2 };
        let mut plan = Self {
            seed,
            focus,
            replicas: founders + spares,
            founders,
            protocol,
            fault_model,
            eras: None,
            liars: Vec::new(),
            lying_clients: Vec::new(),
            lateness: None,
            apart: None,
            signs: false,
            workers: None,
            executor: None,
            verified: None,
            weighted: profile.weighted,
            oracle: None,
            tags: false,
            rotate_after: 0,
            instances: 1,
            costs: false,
            starved: None,
            work: None,
            lanes: 1,
            adapts: false,
            resizes: false,
            window: 256,
            restored: false,
            clients,
            carriers: 0,
            log,
            net,
            workload: workload(&mut rng, heal_at, profile.length),
            timing: (heartbeat, election, election_max),
            sizes: sizes(&mut rng),
            admission: (rng.pick(&[1, 256, 1024]), rng.pick(&[1024, 4096, 64 << 10])),
            in_flight: (rng.range(1, 4) as usize, rng.pick(&[1, 2048, 64 << 10])),
            sessions: (rng.pick(&[2_000, 10_000, 60_000]), rng.pick(&[4, 16, 1024])),
            disk: (rng.spread(10_000, MS), rng.spread(MS, 20 * MS)),
            lease: None,
            drift: rng.pick(&[0, 100, 20_000]),
            aim: rng.pick(&[0, 300, 800]),
            borders: NO_BORDERS,
            log_bytes_max: 0,
            fetch: FetchLimits::default(),
            serve: ServeLimits::default(),
            keeping: (0, 0),
            scrub_every: None,
            disk_stall: 0,
            upgrades: Upgrades { made_with: 1, able: Vec::new(), raise_after: None, careless: false },
            service: ServiceConfig::default(),
            faults: Vec::new(),
            heal_at,
            bound: 60_000 * MS,
        };
        plan.complete(profile, &mut rng);
        plan
    }

    /// Draws the faults, and everything that is drawn from generators of its own.
    fn complete(&mut self, profile: &Profile, rng: &mut Rng) {
        let seed = self.seed;
        if profile.faults {
            self.faults = faults(self, rng);
        }
        plan_state(self, profile, &mut Rng::of(seed, 6));
        if self.replicas > self.founders {
            plan_members(self, &mut Rng::of(seed, 8));
        }
        plan_instances(self, profile);
        if self.protocol.able().leases {
            plan_leases(self, &mut Rng::of(seed, 9));
        }
        if self.protocol.able().rotates {
            let mut rng = Rng::of(seed, 25);
            self.rotate_after = if rng.chance(300) { rng.pick(&[1, 3, 10, 50, 200]) } else { 0 };
        }
        plan_disks(self, &mut Rng::of(seed, 40));
        plan_suspends(self, &mut Rng::of(seed, 9080));
        plan_upgrades(self, profile);
        plan_liars(self, profile);
        plan_focus(self);
        plan_dead(self, profile);
        spare_witnesses(self);
        plan_beginning(self);
        if profile.late {
            plan_lateness(self, &mut Rng::of(seed, 9100));
        }
        plan_apart(self, profile, &mut Rng::of(seed, 9110));
        plan_moves(self, profile, &mut Rng::of(seed, 9111));
        plan_workers(self, &mut Rng::of(seed, 9113));
        plan_oracle(self, profile, &mut Rng::of(seed, 9114));
        plan_executor(self, profile, &mut Rng::of(seed, 9115));
        plan_eras(self, profile);
        self.adapts = profile.adapts.unwrap_or(Rng::of(seed, 9112).chance(250));
    }

    /// One line for people.
    pub fn summary(&self) -> String {
        format!(
            "{}{} replicas{}{} ({}, {} faults{}){}{}{}, {} clients{}, {:?}, segments of {} KiB, {:?} every {} bytes{}, {} operations each, {} faults in {:.1} s",
            self.focus.map_or(String::new(), |focus| format!("about {}: ", focus.name())),
            self.founders,
            if self.replicas > self.founders { " that come and go" } else { "" },
            if self.restored { " with a backup" } else { "" },
            self.protocol.name(),
            self.fault_model,
            self.rotation_in_words(),
            self.lanes_in_words(),
            if self.resizes { " and then other numbers of them" } else { "" },
            match (self.lease, self.eras) {
                (_, Some(_)) => " and other eras",
                (Some(_), None) => " with leases",
                (None, None) => "",
            },
            self.clients,
            self.liars_in_words(),
            self.log.sync,
            self.log.segment_bytes >> 10,
            self.borders.mode,
            self.borders.interval_bytes,
            if self.carriers == self.clients {
                String::new()
            } else {
                format!(", {:?} {}", self.service.kind, self.service.bulk)
            },
            self.workload.operations,
            self.faults.len(),
            self.heal_at as f64 / 1e9
        )
    }
}

/// Draws how late execution is.
fn plan_lateness(plan: &mut Plan, rng: &mut Rng) {
    // Others than services in the store have no state to go back to.
    let takes_back = if plan.service.kind == Kind::InStore { rng.pick(&[0, 50, 300]) } else { 0 };
    let lateness =
        Lateness { behind: rng.pick(&[1, 3, 10, 50]), patience: rng.spread(MS / 10, 10 * MS), takes_back };
    plan.lateness = Some(lateness);
    plan.service.hears = true;
}

/// The kinds of faults that a mode of durability survives. A replica that lost its memory, or what it had acknowledged, would be
/// another replica.
fn kinds(plan: &Plan) -> Vec<u8> {
    match plan.log.sync {
        SyncMode::Group => (0..17).collect(),
        SyncMode::Async => (0..17).filter(|kind| ![1, 2, 14].contains(kind)).collect(),
        SyncMode::Memory => (3..17).filter(|kind| ![9, 10, 14].contains(kind)).collect(),
    }
}

fn faults(plan: &Plan, rng: &mut Rng) -> Vec<(u64, Fault)> {
    let mut allowed = kinds(plan);
    let keep = rng.range(30, 100) * 10;
    allowed.retain(|kind| {
        // What takes a replica away for good is rare.
        rng.chance(if [14, 16].contains(kind) { keep / 4 } else { keep })
    });
    let every = rng.spread(20 * MS, 1000 * MS);
    let mut list = Vec::new();
    let mut at = rng.range(0, 1000) * MS;
    let mut lost = 0;
    while at < plan.heal_at && !allowed.is_empty() {
        let kind = rng.pick(&allowed);
        let fault = draw(kind, plan, rng);
        // Never more than a minority: what a majority lost is lost.
        if !fault.is_final() || lost < plan.spare() {
            lost += usize::from(fault.is_final());
            list.push((at, fault));
        }
        at += rng.range(0, every * 2);
    }
    list
}

fn draw(kind: u8, plan: &Plan, rng: &mut Rng) -> Fault {
    let (replicas, all) = (plan.replicas as u64, (plan.replicas + plan.clients) as u64);
    let who = rng.below(replicas) as usize;
    // A fault at the leader makes the others vote: half of the interesting runs begin that way.
    let leads = rng.chance(plan.aim);
    let any = if leads { LEADER } else { who };
    let time = rng.spread(MS, 3000 * MS);
    let from = rng.below(all) as usize;
    let to = rng.below(if from < plan.replicas { all } else { replicas }) as usize;
    let process = if leads { LEADER } else { from };
    match kind {
        0 => Fault::Crash { who: any, time },
        1 => Fault::PowerLoss { who: any, time },
        2 => Fault::Blackout { time },
        3 => Fault::Pause { who: process, time },
        4 => Fault::Cut { from, to, time },
        5 | 6 => Fault::Partition { group: if leads { LEADER_ALONE } else { rng.below(1 << all) }, time },
        7 => Fault::Reset { a: from, b: to },
        8 => Fault::Damage { from, to },
        9 => Fault::Stall { who: any, time },
        10 => Fault::Full { who: any, time },
        11 => Fault::Jump { who: process, by: rng.spread(MS, 20_000 * MS) },
        12 => Fault::Drift { who: process, rate: rng.range(0, 200_000) as i64 - 100_000 },
        13 => Fault::Transfer { who: any, to: rng.below(replicas + 1) as u16 },
        14 => Fault::Rot { who, part: rng.number() as u16 },
        16 => Fault::Lose { who },
        _ => Fault::Slow { from, to, by: time / 10, time },
    }
}
