//! What `quorate status` shows of a replica; the field names are part of the JSON that programs read.

use serde::Serialize;

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
    /// Bytes admitted and not decided.
    pub queue_bytes: usize,
    /// The log.
    pub log: LogStatus,
    /// The connections to the others.
    pub peers: Vec<PeerStatus>,
    /// How far the others are, as the leader sees it; empty elsewhere.
    pub members: Vec<MemberStatus>,
    /// Requests executed since the start of the process.
    pub requests: u64,
    /// Batches executed since the start of the process.
    pub batches: u64,
    /// Reads answered since the start of the process.
    pub reads: u64,
    /// Frames that broke the rules.
    pub rejected: u64,
    /// What is wrong, with what to do; empty when all is well.
    pub problems: Vec<String>,
}

/// The log of a replica.
#[derive(Clone, Debug, Serialize)]
pub struct LogStatus {
    /// `group`, `async` or `memory`.
    pub durability: &'static str,
    /// The last record that is durable.
    pub durable: u64,
    /// The last record appended.
    pub appended: u64,
    /// Where the next block goes, in bytes.
    pub position: u64,
    /// Whether there is no room for more.
    pub disk_full: bool,
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
