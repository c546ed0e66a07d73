//! What a node is told at its start.

use crate::gate::SeatLimits;
use crate::keeping::BorderConfig;
use crate::lanes::Placement;
use crate::reconfigure::LevelConfig;
use quorate_admit::{AdmissionLimits, Members, ServedByReplicas};
use quorate_execute::SessionLimits;
use quorate_log::LogConfig;
use quorate_order::OrderConfig;
use quorate_state::transfer::{FetchLimits, ServeLimits};
use quorate_types::{AgreedTime, Incarnation, Span};

/// Everything that one lane needs to know.
#[derive(Clone, Debug)]
pub struct NodeConfig {
    /// The cluster, this replica, and the others.
    pub members: Members,
    /// The life of this replica's data directory.
    pub incarnation: Incarnation,
    /// Tells this log's blocks from any other's.
    pub log_id: u64,
    /// The log's sizes and durability.
    pub log: LogConfig,
    /// Where replicas may lie: clients sign what they ask, and sessions without a key are refused.
    pub signed_only: bool,
    /// For whom other replicas may come, because they serve them by another protocol.
    pub served_by_replicas: ServedByReplicas,
    /// How many instances order batches, side by side.
    pub instances: u16,
    /// How many lanes the host runs. With more than one, the first has the node, and the others the connections of instances.
    pub lanes: u16,
    /// Which parts have lanes of their own.
    pub placement: Placement,
    /// How their logs become one.
    pub merge: quorate_merge::Config,
    /// How they agree, and how that is timed and bounded.
    pub order: OrderConfig,
    /// What is admitted.
    pub admission: AdmissionLimits,
    /// How many sessions, for how long.
    pub sessions: SessionLimits,
    /// What waiting reads may hold.
    pub reads: quorate_reply::ReadLimits,
    /// The cluster's time at its beginning, as `init` read it.
    pub start_time: AgreedTime,
    /// Small batches in flight at once; large ones are bounded by bytes alone.
    pub batches_in_flight_max: usize,
    /// Bytes of batches in flight at once.
    pub bytes_in_flight_max: usize,
    /// The largest frame that members and clients may send.
    pub frame_bytes_max: u32,
    /// A connection that has not said who it is after this long is closed.
    pub handshake_time: Span,
    /// How many may be connected at once.
    pub seats: SeatLimits,
    /// When the state becomes a checkpoint, and how.
    pub borders: BorderConfig,
    /// Log kept since the last agreed checkpoint, in bytes, even if this replica has newer ones of its own.
    pub log_bytes_max: u64,
    /// What is added to each sync for a measurement; only shown here.
    pub sync_delay: Span,
    /// How often everything at rest is read; never without it.
    pub scrub_every: Option<Span>,
    /// A leader whose disk finishes nothing for so long hands over.
    pub disk_stall: Span,
    /// What bounds a transfer at this replica when it fetches.
    pub fetch: FetchLimits,
    /// What bounds it when it sends.
    pub serve: ServeLimits,
    /// Feature levels.
    pub level: LevelConfig,
    /// All randomness of this node follows from it.
    pub seed: u64,
}

/// The largest frame before the handshake: a hello is far smaller.
pub(crate) const HELLO_BYTES_MAX: u32 = 1024;

/// The largest frame of replies that is put together; a single reply can be larger.
pub(crate) const REPLY_FRAME_BYTES: usize = 256 << 10;
