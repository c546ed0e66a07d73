//! What `quorate status` shows of a replica; the field names are part of the JSON that programs read.

use serde::Serialize;
use std::collections::BTreeSet;

/// A replica as it sees itself.
#[derive(Clone, Debug, Serialize)]
pub struct NodeStatus {
    /// Its id.
    pub replica: u16,
    /// The cluster's id.
    pub cluster: String,
    /// The view it is in.
    pub view: u64,
    /// Who leads there, when known.
    pub leader: Option<u16>,
    /// Whether it is this one.
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
    /// Who has a place, and who was refused one.
    pub seats: SeatsStatus,
    /// Bytes admitted and not decided.
    pub queue_bytes: usize,
    /// The instances.
    pub instances: InstancesStatus,
    /// The log.
    pub log: LogStatus,
    /// The connections to the others.
    pub peers: Vec<PeerStatus>,
    /// How far the others are, as the leader sees it; empty elsewhere.
    pub members: Vec<MemberStatus>,
    /// Who takes part.
    pub membership: MembershipStatus,
    /// The feature level.
    pub level: LevelStatus,
    /// Its checkpoints.
    pub checkpoints: CheckpointStatus,
    /// Requests executed since the start of the process.
    pub requests: u64,
    /// Batches executed since the start of the process.
    pub batches: u64,
    /// Reads answered since the start of the process.
    pub reads: u64,
    /// Whether this replica answers strong reads by a lease at the moment; none where the configuration has no leases.
    pub lease: Option<bool>,
    /// Frames that broke the rules.
    pub rejected: u64,
    /// Replicas that did what no honest one does; only where they may lie.
    pub suspects: Vec<SuspectStatus>,
    /// Signatures of clients that were checked, since this replica started.
    pub signatures_checked: u64,
    /// Votes that this replica holds back, since it can not say whether what is proposed is from whom it says.
    pub held_back: usize,
    /// What is wrong, with what to do; empty when all is well.
    pub problems: Vec<String>,
}

/// A replica that did what no honest one does.
#[derive(Clone, Debug, Serialize)]
pub struct SuspectStatus {
    /// Which.
    pub replica: u16,
    /// How often, since the start of this process.
    pub times: u64,
    /// What it did last.
    pub what: String,
}

/// How the logs of the instances become one.
#[derive(Clone, Debug, Serialize)]
pub struct InstancesStatus {
    /// How many order batches.
    pub count: u16,
    /// How many will, while that changes.
    pub changing_to: Option<u16>,
    /// Behind which slot.
    pub border: Option<u64>,
    /// Of what was delivered since the start of the process, the part that is empty, between 0 and 1.
    pub noop_share: f64,
    /// How many slots the furthest instance is ahead of the one that is least far.
    pub skew: u64,
    /// The instance that others wait for, if any.
    pub waits_for: Option<u16>,
    /// Each of them.
    pub each: Vec<InstanceStatus>,
}

/// One instance.
#[derive(Clone, Debug, Serialize)]
pub struct InstanceStatus {
    /// Which.
    pub instance: u16,
    /// The lane that has its connections, from 1.
    pub lane: u16,
    /// The view it is in.
    pub view: u64,
    /// Who leads there, when known.
    pub leader: Option<u16>,
    /// Whether it is this replica.
    pub leading: bool,
    /// Clients whose requests go through it: known where it is led.
    pub clients: usize,
    /// The last slot that is decided here.
    pub decided: u64,
    /// How long the others waited for it, since the start of the process, in milliseconds.
    pub waited_ms: u64,
    /// `here`, or `leaves` or `comes` with the change that is under way, or `away`.
    pub state: &'static str,
}

/// Places of connections: how many are taken and how many there are. What is counted is counted since the start of the process.
#[derive(Clone, Debug, Serialize)]
pub struct SeatsStatus {
    /// Clients connected.
    pub clients: usize,
    /// At most so many.
    pub clients_max: usize,
    /// Connections of the client that has the most.
    pub largest_client: usize,
    /// At most so many of one client.
    pub per_client_max: usize,
    /// Operators connected.
    pub operators: usize,
    /// Connections that have not said who they are.
    pub strangers: usize,
    /// At most so many.
    pub strangers_max: usize,
    /// Refused since a limit was reached.
    pub refused: u64,
    /// Turned away since they did not say in time who they were.
    pub late: u64,
    /// Turned away before that, to make room.
    pub crowded_out: u64,
}

/// The log of a replica.
#[derive(Clone, Debug, Serialize)]
pub struct LogStatus {
    /// `group`, `async` or `memory`.
    pub durability: &'static str,
    /// Microseconds that are added to each sync, for measurements.
    pub sync_delay_us: u64,
    /// Microseconds that a write took lately, from its beginning to its end.
    pub write_us: u64,
    /// The last record that is durable.
    pub durable: u64,
    /// The last record appended.
    pub appended: u64,
    /// Where the next block goes, in bytes.
    pub position: u64,
    /// Whether there is no room for more.
    pub disk_full: bool,
    /// Members whose disks are full, as far as this replica knows: itself, and those that said so.
    pub full: Vec<u16>,
    /// The segment that a scrub reads, if one runs.
    pub scrubbing: Option<u64>,
    /// The highest segment in which rot was found and that is not trimmed yet.
    pub rotten: Option<u64>,
}

/// The connection to another replica.
#[derive(Clone, Debug, Serialize)]
pub struct PeerStatus {
    /// Its id.
    pub replica: u16,
    /// Where it is dialed.
    pub address: String,
    /// Whether both directions are connected.
    pub connected: bool,
    /// How many connections stand on which this replica sends to it: one for each lane, once it is there.
    pub links: usize,
    /// Why it refuses us, if it does.
    pub refusal: Option<String>,
}

/// Another replica, as the leader sees it.
#[derive(Clone, Debug, Serialize)]
pub struct MemberStatus {
    /// Its id.
    pub replica: u16,
    /// Bytes of the log that it lacks.
    pub lag_bytes: u64,
    /// Whether it was heard of lately.
    pub active: bool,
}

/// The membership, as it was ordered.
#[derive(Clone, Debug, Serialize)]
pub struct MembershipStatus {
    /// Its number.
    pub number: u64,
    /// The number of the membership that a change leads to, while one is under way.
    pub changing_to: Option<u64>,
    /// The members; during a change, those after it.
    pub members: Vec<MembershipMember>,
    /// Those who leave with the change that is under way.
    pub leaving: Vec<u16>,
    /// How many replicas the cluster began with.
    pub created: usize,
    /// The cluster's time at its beginning, in nanoseconds since the Unix epoch: part of every replica's directory.
    pub start_time_ns: u64,
    /// Whether this replica is no member any more.
    pub removed: bool,
    /// Every id that was ever a member's, once the membership changed.
    pub used: BTreeSet<u16>,
}

/// One member.
#[derive(Clone, Debug, Serialize)]
pub struct MembershipMember {
    /// Its id.
    pub replica: u16,
    /// Where it is reached.
    pub address: String,
    /// `voter` or `learner`.
    pub role: &'static str,
    /// Its data directory.
    pub incarnation: String,
    /// Whether it has caught up, as the leader sees it.
    pub caught_up: bool,
}

/// Feature levels, as a replica knows them.
#[derive(Clone, Debug, Serialize)]
pub struct LevelStatus {
    /// The level that the cluster works at, as executed here.
    pub cluster: u32,
    /// The lowest that this replica's program can work at.
    pub lowest: u32,
    /// The highest.
    pub highest: u32,
    /// Whether this replica raises the level by itself when it leads.
    pub automatic: bool,
    /// What the members can do.
    pub members: Vec<MemberLevel>,
}

/// What a member can do.
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
    /// The last border executed; 0 before the first.
    pub last_seq: u64,
    /// The digest of the state there, once it is computed.
    pub last_digest: Option<String>,
    /// The digest of what execution alone has there: equal wherever the same was executed, however it was ordered.
    pub last_state_digest: Option<String>,
    /// The newest border at which the replicas agree on the digest; 0 before the first.
    pub agreed_seq: u64,
    /// The newest checkpoint that is durable here; 0 when there is none.
    pub durable_seq: u64,
    /// The border whose checkpoint is being written.
    pub writing: Option<u64>,
    /// The state up to this slot is no longer in the log.
    pub trimmed: u64,
    /// The border at which this replica's state was found not to be the agreed one; until it is repaired.
    pub diverged: Option<u64>,
    /// What is being fetched from the other replicas.
    pub transfer: Option<TransferStatus>,
    /// Damaged places in checkpoints that are not mended yet.
    pub rotten: u64,
    /// Damaged places that were mended, since the start of the process.
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
    /// Its seq, once one was chosen.
    pub seq: Option<u64>,
    /// Bytes that arrived and were verified.
    pub bytes_done: u64,
    /// Bytes in all; 0 as long as that is not known.
    pub bytes_total: u64,
    /// Chunks that are here, with those that needed no transfer.
    pub chunks_done: u64,
    /// Chunks in all.
    pub chunks_total: u64,
    /// Who is asked.
    pub sources: Vec<u16>,
    /// Bytes per second since it began.
    pub bytes_per_second: u64,
    /// Whether all is here and is being made durable.
    pub installing: bool,
}
