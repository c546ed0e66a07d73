//! The status that `quorate status` shows. The field names are part of the JSON that programs read.

use quorate_execute::Parallelism;
use quorate_types::Durations;
use serde::Serialize;
use std::collections::BTreeSet;

/// How results are verified. Counts are since the start of the process.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct VerificationStatus {
    /// How often everything that was not final ran again, since the cluster began.
    pub attempt: u64,
    /// The last seq that a ruling made final.
    pub ruled: u64,
    /// Batches with commands that wait for a ruling.
    pub waiting: usize,
    /// Rulings that were carried out.
    pub rulings: u64,
    /// Rulings that came too late or were about nothing.
    pub ignored: u64,
    /// Runs of commands one after the other, because results did not agree.
    pub reruns: u64,
    /// How often this replica took over from another one what was ruled.
    pub learnt: u64,
    /// Batches that had run when they were delivered.
    pub early: u64,
    /// How often something else was delivered than what ran early.
    pub strayed: u64,
    /// Tokens of members that did not count: old, far, or another one than before.
    pub refused: u64,
    /// Whether all executors have to tell the same now (extra protection), as far as this replica knows.
    pub all: bool,
    /// The seq at which the results of this replica are not those that were ruled, until it is repaired.
    pub differs: Option<u64>,
}

/// The status of a replica, as it sees itself.
#[derive(Clone, Debug, Serialize)]
pub struct NodeStatus {
    /// Its id.
    pub replica: u16,
    /// The cluster's id.
    pub cluster: String,
    /// Its view.
    pub view: u64,
    /// The leader of the view, if it is known.
    pub leader: Option<u16>,
    /// Whether it is the leader.
    pub leading: bool,
    /// The last slot decided.
    pub decided: u64,
    /// The last seq executed.
    pub executed: u64,
    /// The cluster's time as of the last batch, in nanoseconds since the Unix epoch.
    pub agreed_time_ns: u64,
    /// Open sessions.
    pub sessions: usize,
    /// Connections of clients and operators.
    pub connections: usize,
    /// Seats of connections, and refusals.
    pub seats: SeatsStatus,
    /// Bytes that are admitted and not decided.
    pub queue_bytes: usize,
    /// The instances.
    pub instances: InstancesStatus,
    /// The log.
    pub log: LogStatus,
    /// The other members.
    pub peers: Vec<PeerStatus>,
    /// How far the other members are, as the leader sees it; empty on other replicas.
    pub members: Vec<MemberStatus>,
    /// The membership.
    pub membership: MembershipStatus,
    /// The feature level.
    pub level: LevelStatus,
    /// The service.
    pub service: ServiceStatus,
    /// The era.
    pub era: EraStatus,
    /// Its checkpoints.
    pub checkpoints: CheckpointStatus,
    /// Requests executed since the start of the process.
    pub requests: u64,
    /// Batches executed since the start of the process.
    pub batches: u64,
    /// Reads answered since the start of the process.
    pub reads: u64,
    /// How commands run on workers; only where they may.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub execution: Option<Parallelism>,
    /// How results are verified; only where they are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verification: Option<VerificationStatus>,
    /// Whether this replica answers strong reads by a lease at the moment; none where the configuration has no leases.
    pub lease: Option<bool>,
    /// Frames that broke the rules.
    pub rejected: u64,
    /// Replicas that did what no honest one does; only where replicas may lie.
    pub suspects: Vec<SuspectStatus>,
    /// What was proved against replicas; only where replicas may lie.
    pub evidence: Vec<EvidenceStatus>,
    /// Client signatures checked since the start of the process.
    pub signatures_checked: u64,
    /// Votes that this replica holds back, since it can not vouch for the requests in the proposal.
    pub held_back: usize,
    /// How long things take.
    pub latencies: LatencyStatus,
    /// The problems, with what to do; empty if there are none.
    pub problems: Vec<String>,
}

/// How long things took, since the start of the process.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct LatencyStatus {
    /// Batches that this replica proposed as a leader: from then until they were delivered here, decided and merged. By agreed time, which
    /// stands still for a moment after an outage.
    pub ordered: Durations,
    /// Writes of the log, until they were as durable as they get.
    pub written: Durations,
}

/// A replica that did what no honest one does.
#[derive(Clone, Debug, Serialize)]
pub struct SuspectStatus {
    /// Its id.
    pub replica: u16,
    /// How often it did so, since the start of this process.
    pub times: u64,
    /// What it did last.
    pub what: String,
}

/// Something that a replica signed and no honest one signs; it can be shown to anybody.
#[derive(Clone, Debug, Serialize)]
pub struct EvidenceStatus {
    /// The replica.
    pub replica: u16,
    /// The rule that it broke: `two-accepts`, `two-statements`, `accept-denied` or `impossible-statement`.
    pub kind: &'static str,
    /// The instance.
    pub instance: u16,
    /// The view of the statement that completes the proof.
    pub view: u64,
    /// The slot that this statement is about.
    pub slot: u64,
    /// The name of the file that holds the proof, in the directory `evidence` of the data directory.
    pub file: String,
    /// When it was found, in seconds since the Unix epoch, by the cluster's time.
    pub at: u64,
    /// How often this kind was proved since the start of this process; the first one is kept. 0: an earlier process found it.
    pub times: u64,
    /// The same in words.
    pub what: String,
}

/// The instances, and how their logs become one.
#[derive(Clone, Debug, Serialize)]
pub struct InstancesStatus {
    /// How many instances there are.
    pub count: u16,
    /// How many there will be, while that changes.
    pub changing_to: Option<u16>,
    /// The last slot before the change.
    pub border: Option<u64>,
    /// The empty part of what was delivered since the start of the process, between 0 and 1.
    pub noop_share: f64,
    /// How many slots lie between the furthest instance and the last one.
    pub skew: u64,
    /// The instance that the others wait for, if any.
    pub waits_for: Option<u16>,
    /// Every instance.
    pub each: Vec<InstanceStatus>,
}

/// Small quorums of one instance.
#[derive(Clone, Debug, Serialize)]
pub struct SmallQuorumsStatus {
    /// For how many milliseconds it has known of them, or has not known whether there are some.
    pub ms: u64,
    /// What the oracle granted, by view; none if it did not say yet.
    pub grants: Vec<GrantStatus>,
}

/// A small quorum that the oracle granted.
#[derive(Clone, Debug, Serialize)]
pub struct GrantStatus {
    /// The view in which it is a quorum.
    pub view: u64,
    /// Its members.
    pub members: Vec<u16>,
}

/// One instance.
#[derive(Clone, Debug, Serialize)]
pub struct InstanceStatus {
    /// Its number.
    pub instance: u16,
    /// The link to which its connections belong; 0 if there is only one.
    pub link: u16,
    /// Its view.
    pub view: u64,
    /// The leader of the view, if it is known.
    pub leader: Option<u16>,
    /// Whether this replica is the leader.
    pub leading: bool,
    /// Clients whose requests go through it; known only by its leader.
    pub clients: usize,
    /// The last slot decided here.
    pub decided: u64,
    /// How long the other instances waited for it, since the start of the process, in milliseconds.
    pub waited_ms: u64,
    /// Small quorums that count, or may bind the present view, as far as this replica knows; only where few replicas are slow.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub small_quorums: Option<SmallQuorumsStatus>,
    /// Whether this replica counts in small quorums; only where few replicas are slow, and there is no oracle.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub counts: Option<bool>,
    /// `here`, `leaves` or `comes` with the change under way, or `away`.
    pub state: &'static str,
}

/// Seats of connections: how many are taken and how many there are. Counts are since the start of the process.
#[derive(Clone, Debug, Serialize)]
pub struct SeatsStatus {
    /// Connected clients.
    pub clients: usize,
    /// The most clients that may be connected.
    pub clients_max: usize,
    /// Connections of the client that has most.
    pub largest_client: usize,
    /// The most connections of one client.
    pub per_client_max: usize,
    /// Connected operators.
    pub operators: usize,
    /// Connections whose peers have not introduced themselves.
    pub strangers: usize,
    /// The most such connections.
    pub strangers_max: usize,
    /// Connections refused at a limit.
    pub refused: u64,
    /// Connections closed because their peers did not introduce themselves in time.
    pub late: u64,
    /// Connections closed before that time, to make room.
    pub crowded_out: u64,
}

/// The log of a replica.
#[derive(Clone, Debug, Serialize)]
pub struct LogStatus {
    /// `group`, `async` or `memory`.
    pub durability: &'static str,
    /// Microseconds added to each sync, for measurements.
    pub sync_delay_us: u64,
    /// The average microseconds of recent writes.
    pub write_us: u64,
    /// The last durable record.
    pub durable: u64,
    /// The last appended record.
    pub appended: u64,
    /// The position of the next block, in bytes.
    pub position: u64,
    /// Whether the disk has no more room.
    pub disk_full: bool,
    /// Replicas whose disks are full: this one, and members that have said so.
    pub full: Vec<u16>,
    /// Whether this replica takes writes where it leads: it has room, and with it a majority, as far as the others have said.
    pub takes_writes: bool,
    /// The segment that a scrub is reading, if any.
    pub scrubbing: Option<u64>,
    /// The highest segment with rot that is not trimmed yet.
    pub rotten: Option<u64>,
}

/// The connection to another replica.
#[derive(Clone, Debug, Serialize)]
pub struct PeerStatus {
    /// Its id.
    pub replica: u16,
    /// The address at which it is dialed.
    pub address: String,
    /// Whether both directions are connected.
    pub connected: bool,
    /// How many connections to it are established: as many as there are links, when all are.
    pub links: usize,
    /// The reason for which it refuses this replica, if it does.
    pub refusal: Option<String>,
}

/// A member, as the leader sees it.
#[derive(Clone, Debug, Serialize)]
pub struct MemberStatus {
    /// Its id.
    pub replica: u16,
    /// Bytes of the log that it lacks.
    pub lag_bytes: u64,
    /// Whether the leader has heard of it lately.
    pub active: bool,
}

/// The membership, as it was ordered.
#[derive(Clone, Debug, Serialize)]
pub struct MembershipStatus {
    /// Its number.
    pub number: u64,
    /// The number of the membership that a change leads to, while one is under way.
    pub changing_to: Option<u64>,
    /// The members; during a change, those of the next membership.
    pub members: Vec<MembershipMember>,
    /// The members that leave with the change under way.
    pub leaving: Vec<u16>,
    /// How many replicas the cluster began with.
    pub created: usize,
    /// The cluster's time at its start, in nanoseconds since the Unix epoch; in every replica's directory.
    pub start_time_ns: u64,
    /// Whether this replica is no longer a member.
    pub removed: bool,
    /// The ids of all present and former members, once the membership has changed.
    pub used: BTreeSet<u16>,
    /// Where replicas may lie: who administers the cluster, and what they commanded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub administration: Option<AdministrationStatus>,
    /// Where replicas may lie: the public key with which this replica has to sign, and whose secret half it does not hold.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lacks_key: Option<String>,
}

/// What administrators commanded, as executed here.
#[derive(Clone, Debug, Serialize)]
pub struct AdministrationStatus {
    /// How many commands were executed.
    pub executed: u64,
    /// How many administrators must sign.
    pub threshold: u8,
    /// Their public keys, in hexadecimal digits.
    pub keys: Vec<String>,
    /// The results of the last commands, by number.
    pub results: Vec<(u64, String)>,
}

/// One member.
#[derive(Clone, Debug, Serialize)]
pub struct MembershipMember {
    /// Its id.
    pub replica: u16,
    /// Its address.
    pub address: String,
    /// `voter` or `learner`.
    pub role: &'static str,
    /// The incarnation of its data directory.
    pub incarnation: String,
    /// Whether it has caught up, as the leader sees it; where replicas may lie, as this replica does.
    pub caught_up: bool,
    /// Where replicas may lie: the public key of its signatures, in hexadecimal digits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
}

/// The era that a replica is in.
#[derive(Clone, Debug, Serialize)]
pub struct EraStatus {
    /// Its number, from 1.
    pub number: u64,
    /// The ordering protocol.
    pub protocol: &'static str,
    /// The fault model.
    pub model: String,
    /// How many faults the members survive.
    pub faults: u32,
    /// Whether members may lie.
    pub may_lie: bool,
    /// The seq at which it began; none in the first era.
    pub began: Option<u64>,
    /// The number of the era that follows, once the command that ends this one was executed.
    pub ends: Option<u64>,
}

/// The feature levels, as a replica knows them.
#[derive(Clone, Debug, Serialize)]
pub struct LevelStatus {
    /// The cluster's level, as executed here.
    pub cluster: u32,
    /// The lowest level that this replica's program can work at.
    pub lowest: u32,
    /// The highest level that it can work at.
    pub highest: u32,
    /// Whether this replica raises the level by itself when it leads.
    pub automatic: bool,
    /// The levels of the members' programs.
    pub members: Vec<MemberLevel>,
}

/// The service, as a replica knows it.
#[derive(Clone, Debug, Serialize)]
pub struct ServiceStatus {
    /// What the cluster calls it; empty: nothing.
    pub name: String,
    /// Its level, as executed here.
    pub level: u32,
    /// The highest version of this replica's program.
    pub version: u32,
    /// Why the last raise left the level as it was, if it did.
    pub raise_failed: Option<String>,
    /// The seq behind which that was.
    pub raise_failed_at: Option<u64>,
    /// The versions of the members' programs.
    pub members: Vec<MemberVersion>,
}

/// The version of a member's program.
#[derive(Clone, Debug, Serialize)]
pub struct MemberVersion {
    /// Its id.
    pub replica: u16,
    /// The highest version of the service that its program has; unknown while it is not connected.
    pub version: Option<u32>,
}

/// The level of a member's program.
#[derive(Clone, Debug, Serialize)]
pub struct MemberLevel {
    /// Its id.
    pub replica: u16,
    /// The highest level that its program can work at; unknown while it is not connected.
    pub highest: Option<u32>,
}

/// The checkpoints of a replica.
#[derive(Clone, Debug, Serialize)]
pub struct CheckpointStatus {
    /// `stop-and-copy`, `staggered`, `full` or `differential`.
    pub mode: &'static str,
    /// The last border; 0 before the first.
    pub last_seq: u64,
    /// The digest of the state there, once it is computed.
    pub last_digest: Option<String>,
    /// The digest of execution's part of the state there: equal wherever the same was executed, however it was ordered.
    pub last_state_digest: Option<String>,
    /// The newest border with an agreed digest; 0 before the first.
    pub agreed_seq: u64,
    /// The newest durable checkpoint here; 0 if there is none.
    pub durable_seq: u64,
    /// The border whose checkpoint is being written, if any.
    pub writing: Option<u64>,
    /// The seq up to which the log was trimmed.
    pub trimmed: u64,
    /// The border at which this replica's state was found to differ from the agreed one, until it is repaired.
    pub diverged: Option<u64>,
    /// How often the state here differed from the agreed one since the start of the process, whether it was repaired or not.
    pub divergences: u64,
    /// The checkpoint that is being fetched, if any.
    pub transfer: Option<TransferStatus>,
    /// Damaged places in checkpoints that are not mended yet.
    pub rotten: u64,
    /// Damaged places mended since the start of the process.
    pub repaired: u64,
    /// Scrubs that ended since the start of the process.
    pub scrubs: u64,
    /// Bytes that the last scrub of the checkpoints read, if there was one since the start of the process.
    pub scrubbed_bytes: Option<u64>,
    /// Bytes of checkpoints sent to others since the start of the process.
    pub sent_bytes: u64,
}

/// A checkpoint on its way to this replica.
#[derive(Clone, Debug, Serialize)]
pub struct TransferStatus {
    /// `behind`, `diverged` or `damaged`.
    pub why: &'static str,
    /// Its seq, once it is chosen.
    pub seq: Option<u64>,
    /// Bytes that have arrived and were verified.
    pub bytes_done: u64,
    /// All bytes; 0 until that is known.
    pub bytes_total: u64,
    /// Chunks that are here, including those that were here before.
    pub chunks_done: u64,
    /// All chunks.
    pub chunks_total: u64,
    /// The replicas that are asked.
    pub sources: Vec<u16>,
    /// Bytes per second since it began.
    pub bytes_per_second: u64,
    /// Whether everything is here and is being made durable.
    pub installing: bool,
}
