//! A simulated replica: the real node, its disk, and the two threads that work for it.
//!
//! Drives the node as host/runtime does: everything that arrived, then the deadline, then the end of the turn, then what the
//! node wants done. The writer takes all that is queued at once and gives it one sync; the helper prepares and reads back.

use crate::disk::Disk;
use crate::plan::Plan;
use crate::random::Rng;
use crate::service::{Tap, Watched};
use bytes::Bytes;
use quorate_admit::{AdmissionLimits, Member, Members};
use quorate_execute::SessionLimits;
use quorate_log::{Log, LogEffect, Place, RecoverError, Recovery, SyncId, SyncMode, Write};
use quorate_node::{Effects, Node, NodeConfig, Restoring};
use quorate_order::raft::RaftConfig;
use quorate_reply::ReadLimits;
use quorate_types::{AgreedTime, ClusterId, Halt, Incarnation, ReplicaId, Span};
use std::collections::VecDeque;

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
}

/// One replica.
pub struct Replica {
    /// The node, while the process runs.
    pub node: Option<Node>,
    /// Its effects, reused.
    pub effects: Effects,
    /// The disk, which outlives the process.
    pub disk: Disk,
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
    pub held: (bool, bool),
    /// Where the service tells what it executed.
    pub tap: Tap,
    /// How many commands this life has executed.
    pub executed: usize,
    /// Why it stopped for good.
    pub halt: Option<Halt>,
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

impl Replica {
    /// A replica whose disk is empty.
    pub fn new(rng: Rng) -> Self {
        Self {
            node: None,
            effects: Effects::new(),
            disk: Disk::default(),
            jobs: VecDeque::new(),
            at_disk: Vec::new(),
            side: VecDeque::new(),
            side_busy: false,
            stalls: 0,
            held: (false, false),
            tap: Tap::default(),
            executed: 0,
            halt: None,
            witnessed: 0,
            rng,
        }
    }

    /// The configuration of replica `who` in its life `life`.
    pub fn config(plan: &Plan, who: usize, life: u32) -> NodeConfig {
        let me = ReplicaId::new(who as u16 + 1);
        let ids: Vec<ReplicaId> = (1..=plan.replicas as u16).map(ReplicaId::new).collect();
        let member = |id: &ReplicaId| Member {
            replica: *id,
            address: format!("r{}", id.number()),
            incarnation: incarnation(*id),
        };
        let members = Members::new(CLUSTER, me, ids.iter().map(member).collect());
        let seed = Rng::of(plan.seed, 1000 + who as u64 * 7919 + u64::from(life)).number();
        let (heartbeat, election_min, election_max) = plan.timing;
        let memory = plan.log.sync == SyncMode::Memory;
        let raft = RaftConfig {
            heartbeat: Span::from_millis(heartbeat),
            election_min: Span::from_millis(election_min),
            election_max: Span::from_millis(election_max),
            window_bytes: plan.sizes.0,
            message_bytes_max: plan.sizes.1,
            // What can not be read back has to stay.
            cache_bytes: if memory { 64 << 20 } else { plan.sizes.2 },
            reload: !memory,
            ..RaftConfig::new(me, ids, seed)
        };
        NodeConfig {
            members,
            incarnation: incarnation(me),
            log_id: plan.seed ^ (who as u64) << 48,
            log: plan.log.clone(),
            raft,
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
            connections_max: 64,
            seed,
        }
    }

    /// Reads the log back, rewrites and syncs its tail, and makes the node. Unless it is `calm`, that may be interrupted.
    ///
    /// # Errors
    /// When it can not start.
    pub fn recover(&mut self, plan: &Plan, config: NodeConfig, calm: bool) -> Result<(), NoStart> {
        self.tap = Tap::default();
        self.executed = 0;
        let service = Box::new(Watched::new(Some(self.tap.clone())));
        let (log_id, log) = (config.log_id, config.log.clone());
        let mut restoring = Restoring::new(config);
        if log.sync == SyncMode::Memory {
            self.node = Some(restoring.finish(Log::create(log_id, log), service));
            return Ok(());
        }
        if self.disk.is_empty() {
            self.disk.prepare(0, log.segment_bytes).map_err(|_| NoStart::Full)?;
        }
        let segments = self.disk.segments();
        let mut recovery = Recovery::new(log_id, plan.log.clone(), segments[0]);
        let mut records = Vec::new();
        for segment in segments {
            recovery.segment(segment, &self.disk.segment(segment), &mut records).map_err(no_start)?;
            for (id, record) in records.drain(..) {
                restoring.record(id, record).map_err(NoStart::Halt)?;
            }
        }
        let recovered = recovery.finish().map_err(no_start)?;
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
                }
                return Err(NoStart::Interrupted);
            }
        }
        self.disk.sync(&rewritten);
        self.witnessed = self.witnessed.max(recovered.synced_to);
        self.node = Some(restoring.finish(recovered.rewritten(), service));
        Ok(())
    }

    /// Takes work for the disk.
    pub fn submit(&mut self, effect: LogEffect) {
        match effect {
            LogEffect::Write(write) => self.jobs.push_back(Job::Write(write)),
            LogEffect::Sync { id, segments } => self.jobs.push_back(Job::Sync(id, segments.collect())),
            LogEffect::Prepare { segment } => self.side.push_back(SideJob::Prepare(segment)),
        }
    }

    /// The writer begins with everything that waits: the page cache has it from now on.
    pub fn begin_writing(&mut self) {
        self.at_disk = self.jobs.drain(..).collect();
    }

    /// The writer is done: everything is written, and synced where that was asked for.
    pub fn end_writing(&mut self) -> Vec<Job> {
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
        self.disk.sync(&dirty);
        self.witnessed = witnessed;
        done
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
        // A file that was being made is there, or is not.
        if let Some(SideJob::Prepare(segment)) = self.side.pop_front()
            && let Some(bytes) = self.disk.segment_bytes()
            && self.rng.chance(500)
        {
            let _ = self.disk.prepare(segment, bytes);
        }
        self.side.clear();
        self.side_busy = false;
        self.held = (false, false);
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

/// The life of a replica's data directory.
fn incarnation(id: ReplicaId) -> Incarnation {
    Incarnation::new(0xd15c_0000 + u64::from(id.number()))
}
