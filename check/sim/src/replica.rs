//! A simulated replica: the real node, its disk, and the three threads that work for it.
//!
//! Drives the node as host/runtime does: everything that arrived, then the deadline, then the end of the turn, then what the
//! node wants done. The writer takes all that is queued at once and gives it one sync; the helper prepares, reads back and
//! deletes segments; the keeper, the real one, does one piece of its work after the other.

use crate::disk::Disk;
use crate::files::SimFiles;
use crate::late::Late;
use crate::plan::{Lie, Phase, Plan};
use crate::processes::Arrival;
use crate::random::Rng;
use crate::service::{CORRUPTED, Tap, Watched};
use crate::watching::Front;
use bytes::Bytes;
use quorate_admit::{AdmissionLimits, Member, Members};
use quorate_auth::{Keyed, Keys};
use quorate_execute::{Execution, Sequential, SessionLimits};
use quorate_log::{Log, LogEffect, Place, RecoverError, Recovery, SyncId, SyncMode, Write};
use quorate_node::{
    Effect, Effects, LevelConfig, Node, NodeConfig, Recovered, Restoring, SeatLimits, SegmentScrub,
};
use quorate_order::OrderConfig;
use quorate_reply::ReadLimits;
use quorate_state::checkpoint::{Job as KeeperJob, Keeper, OpenError, Report, Step};
use quorate_types::{
    AgreedTime, ClusterId, FaultModel, Faults, Halt, Incarnation, MembershipId, ReplicaId, Span, planted,
};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;

/// The cluster's time at its beginning, in nanoseconds since 1970.
pub const START_TIME: u64 = 1_700_000_000_000_000_000;
/// The cluster's id.
pub const CLUSTER: ClusterId = ClusterId::new(0x51_75_6f_72_61_74_65);
/// The largest request in bytes.
pub const REQUEST_MAX: usize = 2048;
/// Places in the session table.
const SESSION_PLACES: usize = 100_000;

/// Work of the thread that writes.
#[derive(Clone, Debug)]
pub enum Job {
    /// Write a block.
    Write(Write),
    /// Sync segments.
    Sync(SyncId, Vec<u64>),
}

/// Work of the thread that helps.
#[derive(Clone, Debug)]
pub enum SideJob {
    /// Make a segment.
    Prepare(u64),
    /// Read records back.
    Load(u64, Vec<Place>),
    /// Delete segments, lowest first.
    Remove(Range<u64>),
    /// Check a segment.
    Scrub(SegmentScrub),
}

/// What the thread that helps has done.
#[derive(Debug)]
pub enum Side {
    /// It deleted a segment.
    Removed,
    /// The node hears of it.
    Done(Arrival),
}

/// So much of a disk goes back at once.
const BLOCK: u64 = 4096;

/// What the configuration of a replica that joins later says.
#[derive(Clone, Debug)]
pub struct Join {
    /// Which membership it is to be in.
    pub number: MembershipId,
    /// Who the members were when it was made, without it.
    pub members: Vec<ReplicaId>,
}

/// The keeper of checkpoints, as the thread that it is.
pub struct Keeping {
    /// The keeper, while the process runs.
    pub keeper: Option<Keeper>,
    /// Its directory, which outlives the process.
    pub files: SimFiles,
    /// What it was not given yet.
    pub queued: VecDeque<KeeperJob>,
    /// It is at a piece of its work.
    pub busy: bool,
    /// It has nothing left to do.
    pub idle: bool,
    /// It had nothing left to do since it was asked for something of its own: with scrubs that follow each other, or a liar that never
    /// stops fetching, all keepers may never be idle at one time.
    pub rested: bool,
    /// The process waits until it has, and what the process does then.
    pub rest: VecDeque<Effect>,
    /// The seq of the fetched checkpoint that is being made durable.
    pub installs: Option<u64>,
    /// The replica dies when its keeper is at this point (after so many times); the machine too; how long it is down.
    pub trap: Option<(Phase, u32, bool, u64)>,
    /// What is wrong with what it sends of its checkpoints.
    pub lie: Option<Lie>,
    /// What it captured was given up: until it captures again, its checkpoints may be other files than those of others, with the
    /// same content. Of these borders they are.
    disturbed: bool,
    captured: Option<u64>,
    fetched: u64,
    /// See `disturbed`.
    pub strange: BTreeSet<u64>,
    /// The seqs of checkpoints that it has written in this life, with where the log stood when their borders came.
    pub written: Vec<(u64, u64)>,
    /// Borders whose checkpoints it was asked to write, with where the log stood.
    pub asked: VecDeque<(u64, u64)>,
    /// Where the log stood when a border was reached for the first time, with several instances by anybody; later lives reach it again with a
    /// log that goes on behind it.
    first_asked: BTreeMap<u64, u64>,
}

impl Keeping {
    fn new(rng: Rng) -> Self {
        Self {
            keeper: None,
            files: SimFiles::new(rng),
            queued: VecDeque::new(),
            busy: false,
            idle: true,
            rested: true,
            rest: VecDeque::new(),
            installs: None,
            trap: None,
            lie: None,
            disturbed: false,
            captured: None,
            fetched: 0,
            strange: BTreeSet::new(),
            written: Vec::new(),
            asked: VecDeque::new(),
            first_asked: BTreeMap::new(),
        }
    }

    /// Whether somebody reached this border before.
    pub fn knows_border(&self, seq: u64) -> bool {
        self.first_asked.contains_key(&seq)
    }

    /// Somebody reaches a border while the log stands here.
    pub fn border_comes(&mut self, seq: u64, log_position: u64) {
        self.first_asked.entry(seq).or_insert(log_position);
    }

    /// Takes a job.
    pub fn submit(&mut self, job: KeeperJob, log_position: u64) {
        let passes =
            matches!(job, KeeperJob::Scrub | KeeperJob::ReadManifest { .. } | KeeperJob::ReadChunk { .. });
        self.rested &= passes;
        match &job {
            KeeperJob::Ahead { border, .. } => {
                self.files.capturing = true;
                // What is captured for a border before the one of a fetched checkpoint is not taken.
                self.captured = Some(*border).filter(|border| *border > self.fetched);
            }
            KeeperJob::Discard { .. } => (self.disturbed, self.captured) = (true, None),
            KeeperJob::Border { image, write } => {
                self.files.capturing = false;
                self.disturbed &= self.captured != Some(image.border);
                if self.disturbed {
                    self.strange.insert(image.seq.number());
                }
                if write.is_some() {
                    let seq = image.seq.number();
                    self.asked.push_back((seq, *self.first_asked.entry(seq).or_insert(log_position)));
                }
            }
            KeeperJob::Install { image } => {
                self.installs = Some(image.seq.number());
                (self.files.installing, self.files.capturing) = (true, false);
                (self.disturbed, self.captured, self.fetched) = (true, None, image.border);
            }
            _ => {}
        }
        self.queued.push_back(job);
    }

    /// A checkpoint is written.
    pub fn wrote(&mut self, seq: u64) {
        if self.installs == Some(seq) {
            self.installs = None;
            self.files.installing = false;
        }
        while self.asked.front().is_some_and(|(asked, _)| *asked < seq) {
            self.asked.pop_front();
        }
        if let Some((_, position)) = self.asked.front().copied().filter(|(asked, _)| *asked == seq) {
            // It may be there already, with another state: what was repaired takes its place.
            self.written.retain(|(other, _)| *other < seq);
            self.written.push((seq, position));
        }
    }

    /// Whether the replica is to die at this point, now.
    pub fn is_trapped(&mut self, at: Phase) -> bool {
        match &mut self.trap {
            Some((point, skip, ..)) if *point == at => {
                let now = *skip == 0;
                *skip = skip.saturating_sub(1);
                now
            }
            _ => false,
        }
    }

    /// Whether it is at something, or has nothing to do.
    pub fn is_engaged(&self) -> bool {
        self.busy || (self.idle && self.queued.is_empty())
    }

    /// The thread has done a piece of its work; what it reports.
    pub fn step(&mut self) -> Option<(Step, Vec<Report>)> {
        self.busy = false;
        let keeper = self.keeper.as_mut()?;
        let step = keeper.step(&mut self.files);
        Some((step, keeper.reports().collect()))
    }

    /// The thread takes everything that is there, and begins with a piece of it.
    pub fn begin(&mut self) {
        (self.busy, self.idle) = (true, false);
        if let Some(keeper) = &mut self.keeper {
            self.queued.drain(..).for_each(|job| keeper.submit(job));
        }
    }

    /// The process dies; what the keeper was at is done to some extent.
    fn die(&mut self, machine: bool) {
        if let Some(mut keeper) = self.keeper.take().filter(|_| self.busy) {
            self.files.die_soon();
            let _ = keeper.step(&mut self.files);
        }
        self.files.take_death();
        drop(self.files.take_published());
        self.queued.clear();
        self.rest.clear();
        self.written.clear();
        self.asked.clear();
        (self.busy, self.idle, self.rested, self.installs) = (false, true, true, None);
        (self.disturbed, self.captured, self.fetched) = (false, None, 0);
        self.strange.clear();
        (self.files.capturing, self.files.installing) = (false, false);
        if machine {
            self.files.power_loss();
        }
    }
}

/// One replica.
pub struct Replica {
    /// The node, while the process runs.
    pub node: Option<Node>,
    /// Its effects, reused.
    pub effects: Effects,
    /// The disk, which outlives the process.
    pub disk: Disk,
    /// The next sync fails.
    pub fails_sync: bool,
    /// Work that waits for the writer.
    pub jobs: VecDeque<Job>,
    /// What the writer is at.
    pub at_disk: Vec<Job>,
    /// Work that waits for the helper, its first being worked at.
    pub side: VecDeque<SideJob>,
    /// Whether the helper works.
    pub side_busy: bool,
    /// How many faults keep the disk from finishing.
    pub stalls: u32,
    /// Something finished while it was stalled.
    pub held: (bool, bool, bool),
    /// Its checkpoints.
    pub keeping: Keeping,
    /// Where the service tells what it executed.
    pub tap: Tap,
    /// Clients that watch at it, in this life.
    pub front: Option<Front>,
    /// Why it stopped for good.
    pub halt: Option<Halt>,
    /// The highest feature level that its program can do, and the highest that one of its programs could.
    pub able: u32,
    /// See `able`.
    pub once_able: u32,
    /// How it joins, once it does; nobody starts a replica that is no founder before.
    pub join: Option<Join>,
    /// Everything below this position of the log is known, by what is on the disk, to be synced.
    pub witnessed: u64,
    /// The disk's own randomness.
    pub rng: Rng,
}

/// Why a replica can not start now.
pub enum NoStart {
    /// There is no room on the disk; later there may be.
    Full,
    /// It died while it was reading the log back.
    Interrupted,
    /// Its log can not be trusted.
    Halt(Halt),
}

/// How its instances agree.
fn order_config(plan: &Plan, me: ReplicaId, ids: Vec<ReplicaId>, seed: u64) -> OrderConfig {
    let (heartbeat, election_min, election_max) = plan.timing;
    let memory = plan.log.sync == SyncMode::Memory;
    // What can not be read back has to stay.
    let cache_bytes = if memory { 64 << 20 } else { plan.sizes.2 };
    let keys = match plan.fault_model {
        FaultModel::Crash => Keys::Trusting,
        FaultModel::Byzantine => Keys::Keyed(Keyed::new(me, plan.seed)),
    };
    OrderConfig {
        faults: Faults::of(plan.fault_model),
        cluster: CLUSTER,
        heartbeat: Span::from_millis(heartbeat),
        timeout: Span::from_millis(election_min),
        timeout_max: Span::from_millis(election_max),
        rotate_after: plan.rotate_after,
        lease_drift_percent: plan.lease,
        window_bytes: plan.sizes.0,
        message_bytes_max: plan.sizes.1,
        cache_bytes,
        reload: !memory,
        keys,
        ..OrderConfig::new(plan.protocol, me, ids, seed)
    }
}

impl Replica {
    /// A replica whose disk is empty, and whose program can do this feature level.
    pub fn new(mut rng: Rng, able: u32) -> Self {
        let files = Rng::of(rng.number(), 1);
        Self {
            node: None,
            effects: Effects::new(),
            disk: Disk::default(),
            fails_sync: false,
            jobs: VecDeque::new(),
            at_disk: Vec::new(),
            side: VecDeque::new(),
            side_busy: false,
            stalls: 0,
            held: (false, false, false),
            keeping: Keeping::new(files),
            tap: Tap::default(),
            front: None,
            halt: None,
            able,
            once_able: able,
            join: None,
            witnessed: 0,
            rng,
        }
    }

    /// The configuration of replica `who` in its life `life`.
    pub fn config(plan: &Plan, who: usize, life: u32, join: Option<&Join>) -> NodeConfig {
        let me = ReplicaId::new(who as u16 + 1);
        let founders: Vec<ReplicaId> = (1..=plan.founders as u16).map(ReplicaId::new).collect();
        let ids = join.map_or(founders, |join| join.members.clone());
        let member = |id: &ReplicaId| Member {
            replica: *id,
            address: format!("r{}", id.number()),
            incarnation: incarnation(*id),
        };
        let listed = ids.iter().chain(join.map(|_| &me)).map(member).collect();
        let members = Members::new(CLUSTER, me, listed);
        let members = match join {
            Some(join) => members.joined(join.number, plan.founders),
            None => members,
        };
        let seed = Rng::of(plan.seed, 1000 + who as u64 * 7919 + u64::from(life)).number();
        NodeConfig {
            signed_only: false,
            served_by_replicas: quorate_node::ServedByReplicas::ClientsAndOperators,
            members,
            incarnation: incarnation(me),
            log_id: plan.seed ^ (who as u64) << 48,
            log: plan.log.clone(),
            order: order_config(plan, me, ids, seed),
            instances: plan.instances,
            lanes: plan.lanes_of(who, life),
            merge: quorate_node::MergeConfig { window: plan.window, held_bytes_max: 1 << 20 },
            admission: AdmissionLimits {
                request_bytes_max: REQUEST_MAX,
                batch_bytes: plan.admission.0,
                queue_bytes_max: plan.admission.1,
                places_max: SESSION_PLACES,
            },
            sessions: SessionLimits {
                ttl: Span::from_millis(plan.sessions.0),
                window: plan.sessions.1,
                ..SessionLimits::default()
            },
            reads: ReadLimits::default(),
            start_time: AgreedTime::from_nanos(START_TIME),
            batches_in_flight_max: plan.in_flight.0,
            bytes_in_flight_max: plan.in_flight.1,
            frame_bytes_max: 1 << 20,
            handshake_time: Span::from_secs(2),
            seats: SeatLimits { clients_max: 64, per_client_max: 64, strangers_max: 64 },
            borders: plan.borders,
            log_bytes_max: plan.log_bytes_max,
            fetch: plan.fetch.clone(),
            serve: plan.serve.clone(),
            sync_delay: Span::ZERO,
            scrub_every: plan.scrub_every.map(Span::from_millis),
            disk_stall: Span::from_millis(plan.disk_stall),
            level: LevelConfig::made_with(1),
            seed,
        }
    }

    /// Opens the checkpoints, reads the log back, rewrites and syncs its tail, and makes the node. Unless it is `calm`, that
    /// may be interrupted.
    ///
    /// # Errors
    /// When it can not start.
    pub fn recover(&mut self, plan: &Plan, config: NodeConfig, calm: bool) -> Result<(), NoStart> {
        self.tap = Tap::default();
        // Its randomness is of this life, and not that of the disk.
        self.front = plan.service.watched.then(|| Front::new(Rng::of(config.seed, 9071)));
        let service = Box::new(match &self.front {
            Some(front) => Watched::fed(plan.service, self.tap.clone(), front.feed()),
            None => Watched::new(plan.service, Some(self.tap.clone())),
        });
        let (log_id, log, seed) = (config.log_id, config.log.clone(), config.seed);
        let memory = log.sync == SyncMode::Memory;
        let opened = Keeper::open(&mut self.keeping.files, memory);
        if self.keeping.files.take_death() {
            return Err(NoStart::Interrupted);
        }
        let (keeper, opened) = opened.map_err(|error| no_checkpoints(&error))?;
        let recovered = Recovered::new(opened, plan.replicas == 1).map_err(NoStart::Halt)?;
        let mut restoring = Restoring::new(config, recovered).map_err(NoStart::Halt)?;
        let log = match memory {
            true => Log::create(log_id, log),
            false => self.read_log(plan, log_id, &mut restoring, calm)?,
        };
        let (tap, rng) = (self.tap.clone(), Rng::of(seed, 9090));
        let node = restoring.finish_with(log, service, |executor| -> Box<dyn Execution> {
            match plan.lateness {
                Some(lateness) => Box::new(Late::new(executor, lateness, rng, tap)),
                None => Box::new(Sequential::new(executor)),
            }
        });
        let node = node.map_err(NoStart::Halt)?;
        self.node = Some(node);
        self.keeping.keeper = Some(keeper);
        Ok(())
    }

    fn read_log(
        &mut self,
        plan: &Plan,
        log_id: u64,
        restoring: &mut Restoring,
        calm: bool,
    ) -> Result<Log, NoStart> {
        let log = plan.log.clone();
        if self.disk.is_empty() {
            self.disk.prepare(0, log.segment_bytes).map_err(|_| NoStart::Full)?;
        }
        let segments = self.disk.segments();
        let mut recovery = Recovery::new(log_id, log.clone(), segments[0]);
        let mut records = Vec::new();
        for segment in segments {
            recovery.segment(segment, &self.disk.segment(segment), &mut records).map_err(no_start)?;
            for (id, record) in records.drain(..) {
                restoring.record(id, record).map_err(NoStart::Halt)?;
            }
        }
        let recovered = recovery.finish(&mut records).map_err(no_start)?;
        for (id, record) in records.drain(..) {
            restoring.record(id, record).map_err(NoStart::Halt)?;
        }
        // Before anything is written: whoever halts leaves the disk as it is.
        restoring.check(&recovered.damage).map_err(NoStart::Halt)?;
        if let Some(segment) = recovered.prepare {
            self.disk.prepare(segment, log.segment_bytes).map_err(|_| NoStart::Full)?;
        }
        let mut rewritten = Vec::new();
        for part in &recovered.rewrite {
            self.disk.write(part.segment, part.offset, part.data.clone());
            rewritten.push(part.segment);
            if !calm && self.rng.chance(50) {
                if log.sync == SyncMode::Group && self.rng.chance(500) {
                    self.disk.power_loss(&mut self.rng);
                    self.keeping.files.power_loss();
                }
                return Err(NoStart::Interrupted);
            }
        }
        self.disk.sync(&rewritten);
        self.witnessed = self.witnessed.max(recovered.synced_to);
        Ok(recovered.rewritten())
    }

    /// Takes work for the disk.
    pub fn submit(&mut self, effect: LogEffect) {
        match effect {
            LogEffect::Write(write) => self.jobs.push_back(Job::Write(write)),
            LogEffect::Sync { id, segments } => self.jobs.push_back(Job::Sync(id, segments.collect())),
            LogEffect::Prepare { segment } => self.side.push_back(SideJob::Prepare(segment)),
        }
    }

    /// Writer and helper begin what waits, if they have nothing to do: how long they take for it, from the least to the most that they may.
    pub fn begin_disk_work(&mut self, (low, high): (u64, u64)) -> (Option<u64>, Option<u64>) {
        let (mut writer, mut helper) = (None, None);
        if self.at_disk.is_empty() && !self.jobs.is_empty() {
            // The page cache has it from now on.
            self.at_disk = self.jobs.drain(..).collect();
            writer = Some(self.rng.range(low, high));
        }
        if !self.side_busy && !self.side.is_empty() {
            self.side_busy = true;
            helper = Some(self.rng.range(low, high));
        }
        (writer, helper)
    }

    /// The writer is done: everything is written, and synced where that was asked for. None: a sync failed, and the process ends.
    pub fn end_writing(&mut self) -> Option<Vec<Arrival>> {
        let done = std::mem::take(&mut self.at_disk);
        let mut dirty = Vec::new();
        let mut witnessed = self.witnessed;
        for job in &done {
            match job {
                Job::Write(write) => {
                    let bytes = Bytes::from(write.data.concat());
                    // What its header says was synced before it; see docs/formats/log.md.
                    let mark = bytes.get(40..48).and_then(|b| b.first_chunk::<8>()).copied();
                    if write.sync {
                        dirty.push(write.segment);
                        witnessed = witnessed.max(u64::from_le_bytes(mark.unwrap_or_default()));
                    }
                    self.disk.write(write.segment, write.offset, bytes);
                }
                Job::Sync(_, segments) => dirty.extend(segments),
            }
        }
        if !dirty.is_empty() && std::mem::take(&mut self.fails_sync) {
            self.disk.fail_sync(&dirty, &mut self.rng);
            // Whoever asks again is told that all is well.
            if !planted("sync-asked-again") {
                return None;
            }
        }
        self.disk.sync(&dirty);
        self.witnessed = witnessed;
        let arrival = |job| match job {
            Job::Write(write) => Arrival::Written(write.id),
            Job::Sync(id, _) => Arrival::Synced(id),
        };
        Some(done.into_iter().map(arrival).collect())
    }

    /// The helper is done with its first job.
    pub fn end_side(&mut self, segment_bytes: u64) -> Option<Side> {
        self.side_busy = false;
        let arrival = match self.side.pop_front()? {
            SideJob::Prepare(segment) => {
                Arrival::Prepared(segment, self.disk.prepare(segment, segment_bytes))
            }
            SideJob::Remove(mut segments) => {
                // One at a time: the process may die between two of them.
                if let Some(segment) = segments.next() {
                    self.disk.remove(segment);
                }
                if !segments.is_empty() {
                    self.side.push_front(SideJob::Remove(segments));
                }
                return Some(Side::Removed);
            }
            SideJob::Scrub(SegmentScrub { log_id, config, segment }) => {
                let read = self.disk.segment(segment);
                Arrival::Scrubbed(segment, quorate_log::scrub(log_id, &config, segment, &read))
            }
            SideJob::Load(load, places) => {
                let read = places.iter().map(|p| self.disk.read(p.segment, p.offset, p.len)).collect();
                Arrival::Loaded(load, read)
            }
        };
        Some(Side::Done(arrival))
    }

    /// Its disk is full, or no longer.
    pub fn fill(&mut self, full: bool) {
        self.disk.full = full;
        self.keeping.files.full = full;
    }

    /// A place in its log, below what is known to be synced and behind what is deleted.
    fn place_in_log(&self, segment_bytes: u64, part: u16) -> Option<u64> {
        let from = self.disk.segments().first().map_or(0, |first| first * segment_bytes);
        let below = self.witnessed;
        (below > from).then(|| from + (below - from - 1) * u64::from(part) / 65_536)
    }

    /// A bit flips there; the replica notices when it starts again, or when it reads there.
    pub fn rot(&mut self, segment_bytes: u64, part: u16) {
        if let Some(at) = self.place_in_log(segment_bytes, part) {
            self.disk.rot(at / segment_bytes, at % segment_bytes, part as u8);
        }
    }

    /// A block there is again what it was. What follows what is known to be synced stays: it says what must be there.
    pub fn go_back(&mut self, segment_bytes: u64, part: u16) -> Option<(u64, Range<usize>)> {
        let at = self.place_in_log(segment_bytes, part)?;
        let at = at - at % segment_bytes % BLOCK;
        let segment = at / segment_bytes;
        let end = (at + BLOCK).min(self.witnessed).min((segment + 1) * segment_bytes);
        let sectors = (at % segment_bytes) as usize..(end - segment * segment_bytes) as usize;
        self.disk.go_back(segment, sectors.clone());
        Some((segment, sectors))
    }

    /// Faults are over: what is at hand works again.
    pub fn heal(&mut self) {
        (self.stalls, self.fails_sync) = (0, false);
        self.fill(false);
        (self.keeping.trap, self.keeping.lie) = (None, None);
        self.keeping.files.disarm();
    }

    /// The process dies; with `machine`, everything does.
    pub fn die(&mut self, machine: bool) {
        self.node = None;
        while !self.effects.is_empty() {
            self.effects.drain().for_each(drop);
        }
        for job in std::mem::take(&mut self.at_disk) {
            if let Job::Write(write) = job {
                let bytes = Bytes::from(write.data.concat());
                self.disk.write_partly(write.segment, write.offset, &bytes, &mut self.rng);
            }
        }
        self.jobs.clear();
        // A file that was being made is there, or is not; one that was being deleted as well.
        match (self.side.pop_front(), self.disk.segment_bytes()) {
            (Some(SideJob::Prepare(segment)), Some(bytes)) if self.rng.chance(500) => {
                let _ = self.disk.prepare(segment, bytes);
            }
            (Some(SideJob::Remove(segments)), _) if self.rng.chance(500) => self.disk.remove(segments.start),
            _ => {}
        }
        self.side.clear();
        self.side_busy = false;
        self.held = (false, false, false);
        self.keeping.die(machine);
        if machine {
            self.disk.power_loss(&mut self.rng);
        }
    }
}

fn no_start(error: RecoverError) -> NoStart {
    match error {
        RecoverError::Halt(halt) => NoStart::Halt(halt),
        other => NoStart::Halt(Halt::LogInconsistent { why: other.to_string() }),
    }
}

fn no_checkpoints(error: &OpenError) -> NoStart {
    NoStart::Halt(Halt::CheckpointUnusable { why: error.to_string() })
}

/// Since which seq a node has something in its state that does not belong there.
pub fn corrupt_since(node: &Node) -> Option<u64> {
    let mut answer = Vec::new();
    node.executor().query(&[CORRUPTED], &mut answer).ok()?;
    answer.first_chunk::<8>().map(|bytes| u64::from_le_bytes(*bytes))
}

/// The life of a replica's data directory.
pub fn incarnation(id: ReplicaId) -> Incarnation {
    Incarnation::new(0xd15c_0000 + u64::from(id.number()))
}
