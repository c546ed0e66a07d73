//! A simulated replica: the real node, its disk (`replica/storage.rs`), and the keeper of its checkpoints (`replica/keeping.rs`).
//!
//! It drives the node as host/runtime does: everything that arrived, then the deadline, then the end of the turn, then the effects of the
//! node.

mod keeping;
mod record;
mod storage;

use crate::alone::Alone;
use crate::guest::Hosted;
use crate::late::Late;
use crate::plan::{EraKind, Plan};
use crate::racy::Racy;
use crate::random::Rng;
use crate::service::{CORRUPTED, Tap, Watched};
use crate::watching::Front;
use quorate_admit::{AdmissionLimits, ChecksAway, KnownMember, Members};
use quorate_auth::{Keyed, Keys};
use quorate_execute::{Execution, Sequential, Service, SessionLimits, Verified, Work};
use quorate_log::{Log, SyncMode};
use quorate_node::{
    Effects, EraConfig, LevelConfig, NextEra, Node, NodeConfig, Recovered, Restoring, SeatLimits,
};
use quorate_order::{OrderConfig, Protocol};
use quorate_reply::ReadLimits;
use quorate_state::checkpoint::{Job, Keeper, OpenError, Report, Step};
use quorate_types::{AgreedTime, ClusterId, Halt, Incarnation, MembershipId, ReplicaId, Span};
use quorate_wire::{Administrators, Era, EraNotice};
use std::collections::BTreeMap;
use std::sync::Arc;

pub use keeping::Keeping;
pub use record::Record;
pub use storage::{Side, SideJob, Storage};

/// The cluster's time at its beginning, in nanoseconds since 1970.
pub const START_TIME: u64 = 1_700_000_000_000_000_000;
/// The cluster's id.
pub const CLUSTER: ClusterId = ClusterId::new(0x51_75_6f_72_61_74_65);
/// The largest request in bytes.
pub const REQUEST_MAX: usize = 2048;
/// Cells of the session table.
const SESSION_CELLS: usize = 100_000;

/// The configuration of a replica that joins later.
#[derive(Clone, Debug)]
pub struct Join {
    /// The number of the membership that it will be in.
    pub number: MembershipId,
    /// The members when the configuration was made, without it.
    pub members: Vec<ReplicaId>,
}

/// One replica.
pub struct Replica {
    /// The node, while the process runs.
    pub node: Option<Node>,
    /// Its effects, reused.
    pub effects: Effects,
    /// Its disk, and the threads that work there.
    pub storage: Storage,
    /// How many faults keep the disk from finishing.
    pub stalls: u32,
    /// Whether something finished while the disk was stalled: writing, helping, keeping.
    pub held: (bool, bool, bool),
    /// Its checkpoints.
    pub keeping: Keeping,
    /// What its workers found, before it hears of it.
    pub checked: BTreeMap<u64, Option<Vec<bool>>>,
    /// What workers do that did not answer, by the numbers of the work, and whether they do it.
    pub worked: BTreeMap<u64, (Work, bool)>,
    /// How many pieces of work it gave out.
    pub works: u64,
    /// Where the service reports what it executed.
    pub tap: Tap,
    /// The watching clients at this replica, in this life.
    pub front: Option<Front>,
    /// Why it stopped for good, if it did.
    pub halt: Option<Halt>,
    /// The highest feature level that its program supports.
    pub able: u32,
    /// The highest feature level that any of its programs supported.
    pub once_able: u32,
    /// The era that it is in, if that is not the first: with what it entered.
    pub era: Option<Box<Entered>>,
    /// How it joins, once that is known. A replica that is no founder does not start before.
    pub join: Option<Join>,
}

/// What a replica keeps of an era, beside the state with which it begins.
#[derive(Clone, Debug)]
pub struct Entered {
    /// What it says of it.
    pub notice: EraNotice,
    /// The known lives of the members.
    pub lives: BTreeMap<ReplicaId, u64>,
}

/// Why a replica can not start now.
pub enum NoStart {
    /// There is no room on the disk; there may be later.
    Full,
    /// It died while it was reading the log back.
    Interrupted {
        /// Whether the whole machine stopped.
        machine: bool,
    },
    /// Its log can not be trusted.
    Halt(Halt),
}

/// How its instances agree.
fn order_config(
    plan: &Plan,
    me: ReplicaId,
    ids: Vec<ReplicaId>,
    seed: u64,
    era: Option<&Entered>,
) -> OrderConfig {
    let (heartbeat, election_min, election_max) = plan.timing;
    let memory = plan.log.sync == SyncMode::Memory;
    // What can not be read back has to stay.
    let cache_bytes = if memory { 64 << 20 } else { plan.sizes.2 };
    let (number, kind) = (number_of(era), kind_of(plan, era));
    let survives = if plan.eras.is_some() { kind.faults().counted() } else { plan.survives() };
    let lies = survives.may_lie();
    let keys = if lies { Keys::Keyed(Keyed::new(me, plan.seed)) } else { Keys::Trusting };
    OrderConfig {
        faults: survives,
        heavy: plan.heavy(),
        oracle: plan.oracle.is_some(),
        cluster: Era::signed_as(CLUSTER, number),
        heartbeat: Span::from_millis(heartbeat),
        timeout: Span::from_millis(election_min),
        timeout_max: Span::from_millis(election_max),
        adapts: plan.adapts,
        tells_at_once: plan.verified.is_some_and(|verifying| verifying.tells_at_once),
        tells_proposed: plan.verified.is_some() && !lies,
        rotate_after: plan.rotate_after,
        lease_drift_percent: plan.lease,
        window_bytes: plan.sizes.0,
        message_bytes_max: plan.sizes.1,
        cache_bytes,
        reload: !memory,
        keys,
        ..OrderConfig::new(kind.protocol, me, ids, seed)
    }
}

/// The number of the era that a replica is in.
fn number_of(era: Option<&Entered>) -> u64 {
    era.map_or(1, |era| era.notice.era.number)
}

/// What that era is like.
pub fn kind_of(plan: &Plan, era: Option<&Entered>) -> EraKind {
    let first = EraKind { model: plan.fault_model, protocol: plan.protocol };
    let Some(Entered { notice, .. }) = era else { return plan.eras.unwrap_or(first) };
    let number = notice.era.protocol;
    let protocol = Protocol::ALL.into_iter().find(|protocol| protocol.row().number == number);
    EraKind { model: notice.era.faults.model, protocol: protocol.unwrap_or_default() }
}

/// The eras, as the host of a replica knows them.
fn era_config(plan: &Plan, ids: &[ReplicaId], era: Option<&Entered>) -> EraConfig {
    if plan.eras.is_none() {
        return EraConfig::only("this run has one era");
    }
    EraConfig {
        number: number_of(era),
        notice: era.map(|era| era.notice.clone()),
        lives: era.map(|era| era.lives.clone()).unwrap_or_default(),
        keys: ids.iter().map(|id| (*id, [id.number() as u8; 32])).collect(),
        administrators: Some(crate::world::administrators(plan.seed)),
        judge: Arc::new(|_| Ok(())),
    }
}

impl Replica {
    /// Whether members may lie in the era that it is in.
    pub fn may_lie(&self, plan: &Plan) -> bool {
        kind_of(plan, self.era.as_deref()).model.may_lie()
    }

    /// The number of the era that it is in.
    pub fn era_number(&self) -> u64 {
        number_of(self.era.as_deref())
    }

    /// Its disk holds the state with which another era begins, and nothing else. The process is dead.
    pub fn enter(&mut self, next: &NextEra) {
        let (rng, files) = (Rng::of(self.storage.rng().number(), 3), Rng::of(self.storage.rng().number(), 4));
        (self.storage, self.keeping) = (Storage::new(rng), Keeping::new(files));
        let files = &mut self.keeping.files;
        let (mut keeper, _) = Keeper::open(files, false).expect("an empty directory");
        keeper.submit(Job::Install { image: next.image.clone() });
        let mut written = false;
        while !written {
            let step = keeper.step(files);
            written = keeper.reports().any(|report| matches!(report, Report::Written { .. }));
            assert!(written || step != Step::Idle, "a checkpoint is written in an empty directory");
        }
        drop(files.take_published());
        self.era = Some(Box::new(Entered { notice: next.notice.clone(), lives: next.lives.clone() }));
    }

    /// A replica whose disk is empty, and whose program can do this feature level.
    pub fn new(mut rng: Rng, able: u32) -> Self {
        let files = Rng::of(rng.number(), 1);
        Self {
            node: None,
            effects: Effects::new(),
            storage: Storage::new(rng),
            stalls: 0,
            held: (false, false, false),
            keeping: Keeping::new(files),
            checked: BTreeMap::new(),
            worked: BTreeMap::new(),
            works: 0,
            tap: Tap::default(),
            front: None,
            halt: None,
            able,
            once_able: able,
            era: None,
            join: None,
        }
    }

    /// The configuration of replica `who` in its life `life`.
    pub fn config(
        plan: &Plan,
        who: usize,
        life: u32,
        join: Option<&Join>,
        era: Option<&Entered>,
    ) -> NodeConfig {
        let me = ReplicaId::new(who as u16 + 1);
        let founders: Vec<ReplicaId> = (1..=plan.founders as u16).map(ReplicaId::new).collect();
        let ids = join.map_or(founders, |join| join.members.clone());
        let member = |id: &ReplicaId| KnownMember {
            replica: *id,
            address: format!("r{}", id.number()),
            incarnation: incarnation(*id),
        };
        let listed = ids.iter().chain(join.map(|_| &me)).map(member).collect();
        let members = Members::new(CLUSTER, me, listed);
        let seed = Rng::of(plan.seed, 1000 + who as u64 * 7919 + u64::from(life)).number();
        NodeConfig {
            signed_only: false,
            administrators: administrators_of(plan, era),
            checks_away: plan.workers.map_or(ChecksAway::NONE, |workers| workers.checks),
            served_by_replicas: quorate_node::ServedByReplicas::ClientsAndOperators,
            members: match join {
                Some(join) => members.joined(join.number, plan.founders),
                None => members,
            },
            incarnation: incarnation(me),
            log_id: plan.seed ^ (who as u64) << 48 ^ (number_of(era) - 1) << 32,
            log: plan.log.clone(),
            era: era_config(plan, &ids, era),
            order: order_config(plan, me, ids, seed, era),
            instances: plan.instances,
            links: plan.links_of(who, life),
            placement: plan.placement(),
            merge: quorate_node::MergeConfig {
                window: plan.window,
                held_bytes_max: if plan.work.is_some() { 64 << 20 } else { 1 << 20 },
            },
            admission: admission_of(plan),
            sessions: SessionLimits {
                ttl: Span::from_millis(plan.sessions.0),
                window: plan.sessions.1,
                ..SessionLimits::default()
            },
            extra_protection: plan.verified.map_or(0, |verifying| verifying.extra),
            reads: ReadLimits::default(),
            start_time: AgreedTime::from_nanos(START_TIME),
            batches_in_flight_max: plan.in_flight.0,
            bytes_in_flight_max: plan.in_flight.1,
            frame_bytes_max: 1 << 20,
            handshake_time: Span::from_secs(2),
            seats: seats_of(plan),
            borders: plan.borders,
            log_bytes_max: plan.log_bytes_max,
            evidence: Vec::new(),
            chain: Vec::new(),
            fetch: plan.fetch.clone(),
            serve: plan.serve.clone(),
            sync_delay: Span::ZERO,
            scrub_every: plan.scrub_every.map(Span::from_millis),
            disk_stall: Span::from_millis(plan.disk_stall),
            level: LevelConfig::made_with(1),
            service: quorate_node::ServiceConfig::default(),
            seed,
        }
    }

    /// Opens the checkpoints, reads the log back, rewrites and syncs its tail, and makes the node. Unless it is `calm`, this may be
    /// interrupted.
    ///
    /// # Errors
    /// When it can not start.
    pub fn recover(
        &mut self,
        plan: &Plan,
        config: NodeConfig,
        guest: Option<Hosted>,
        calm: bool,
    ) -> Result<(), NoStart> {
        self.tap = Tap::default();
        // Its randomness is of this life, and not that of the disk.
        self.front = plan.service.watched.then(|| Front::new(Rng::of(config.seed, 9071)));
        let (config_of, tap) = (plan.service, self.tap.clone());
        let service: Box<dyn Service> = match (&self.front, guest) {
            (_, Some(Hosted::Alone(service, holds))) => Box::new(Alone::new(service, holds, tap)),
            (Some(front), _) => Box::new(Watched::fed(config_of, tap, front.feed())),
            (None, Some(Hosted::Beside(guest))) => Box::new(Watched::hosting(config_of, tap, guest)),
            (None, None) => Box::new(Watched::new(config_of, Some(tap))),
        };
        let (log_id, log, seed) = (config.log_id, config.log.clone(), config.seed);
        let me = usize::from(config.members.me().number());
        let memory = log.sync == SyncMode::Memory;
        let opened = Keeper::open(&mut self.keeping.files, memory);
        if self.keeping.files.take_death() {
            return Err(NoStart::Interrupted { machine: false });
        }
        let (keeper, opened) = opened.map_err(|error| no_checkpoints(&error))?;
        let recovered = Recovered::new(opened, plan.replicas == 1).map_err(NoStart::Halt)?;
        let mut restoring = Restoring::new(config, recovered).map_err(NoStart::Halt)?;
        let log = match memory {
            true => Ok(Log::create(log_id, log)),
            false => self.storage.recover((log_id, log), &mut restoring, calm),
        };
        if let Err(NoStart::Interrupted { machine: true }) = log {
            self.keeping.files.power_loss();
        }
        let (tap, rng) = (self.tap.clone(), Rng::of(seed, 9090));
        let side_by_side = plan.executor.filter(|executor| executor.is_for(me));
        let ahead = |executor| -> Box<dyn Execution> {
            match (plan.lateness, side_by_side) {
                (Some(lateness), _) => Box::new(Late::new(executor, lateness, rng, tap)),
                (None, Some(plan)) => plan.execution(executor, rng),
                (None, None) => Box::new(Sequential::new(executor)),
            }
        };
        let luck = (self.tap.clone(), Rng::of(seed, 9091));
        let node = restoring.finish_with(log?, service, |executor| -> Box<dyn Execution> {
            let Some(verifying) = plan.verified else { return ahead(executor) };
            let (tap, rng) = luck;
            let racy = |executor| -> Box<dyn Execution> {
                let varies = plan.executor.is_some_and(|plan| plan.early.is_some());
                let racy = Racy::new(ahead(executor), (verifying.races, me as u64), rng, tap);
                Box::new(racy.varies(varies))
            };
            let verified = Verified::new(executor, racy);
            let mut verified = verified.unwrap_or_else(|_| panic!("the simulated service has a twin"));
            if !verifying.early || (me as u64 + seed).is_multiple_of(5) {
                verified.waits_for_delivery();
            }
            Box::new(verified)
        });
        let node = node.map_err(NoStart::Halt)?;
        self.node = Some(node);
        self.keeping.keeper = Some(keeper);
        Ok(())
    }

    /// As [`Self::recover`], with another service, without interruptions.
    ///
    /// # Errors
    /// When it can not start.
    pub fn recover_with(&mut self, config: NodeConfig, service: Box<dyn Service>) -> Result<(), NoStart> {
        let (keeper, opened) =
            Keeper::open(&mut self.keeping.files, false).map_err(|error| no_checkpoints(&error))?;
        let recovered = Recovered::new(opened, false).map_err(NoStart::Halt)?;
        let (log_id, log) = (config.log_id, config.log.clone());
        let mut restoring = Restoring::new(config, recovered).map_err(NoStart::Halt)?;
        let log = self.storage.recover((log_id, log), &mut restoring, true)?;
        self.node = Some(restoring.finish(log, service).map_err(NoStart::Halt)?);
        self.keeping.keeper = Some(keeper);
        Ok(())
    }

    /// Its disk is full, or no longer.
    pub fn fill(&mut self, full: bool) {
        self.storage.fill(full);
        self.keeping.files.full = full;
    }

    /// Faults are over, so disk and program work again.
    pub fn heal(&mut self) {
        self.stalls = 0;
        self.storage.fail_sync(false);
        self.fill(false);
        (self.keeping.trap, self.keeping.lie) = (None, None);
        self.keeping.files.disarm();
    }

    /// The process dies; with `machine`, the whole machine stops.
    pub fn die(&mut self, machine: bool) {
        self.node = None;
        while !self.effects.is_empty() {
            self.effects.drain().for_each(drop);
        }
        self.storage.die(machine);
        self.keeping.die(machine);
        self.checked.clear();
        self.worked.clear();
        self.held = (false, false, false);
    }
}

fn no_checkpoints(error: &OpenError) -> NoStart {
    NoStart::Halt(Halt::CheckpointUnusable { why: error.to_string() })
}

/// The seq since which a node has something in its state that does not belong there.
pub fn corrupt_since(node: &Node) -> Option<u64> {
    let mut answer = Vec::new();
    node.executor().query(&[CORRUPTED], &mut answer).ok()?;
    answer.first_chunk::<8>().map(|bytes| u64::from_le_bytes(*bytes))
}

/// The life of a replica's data directory.
pub fn incarnation(id: ReplicaId) -> Incarnation {
    Incarnation::new(0xd15c_0000 + u64::from(id.number()))
}

/// Who administers the cluster: somebody only where replicas may lie.
fn administrators_of(plan: &Plan, era: Option<&Entered>) -> Option<Administrators> {
    kind_of(plan, era).model.may_lie().then(|| crate::world::administrators(plan.seed))
}

fn admission_of(plan: &Plan) -> AdmissionLimits {
    AdmissionLimits {
        request_bytes_max: REQUEST_MAX,
        batch_bytes: plan.admission.0,
        queue_bytes_max: plan.admission.1,
        cells_max: SESSION_CELLS,
    }
}

/// As many replicas as there are connect over as many links at once.
fn seats_of(plan: &Plan) -> SeatLimits {
    SeatLimits {
        clients_max: plan.clients.max(64),
        per_client_max: 64,
        strangers_max: if plan.work.is_some() { 4096 } else { 64 },
    }
}
