//! The stages of one lane, joined into one state machine without I/O: the only place that knows the order of the stages.
//!
//! [`Node::step`] takes one input (a frame that arrived, a write that completed, a deadline) and appends what is to be
//! done. `host/runtime` drives it with real sockets, disks and clocks; a simulator drives it with its own. A request
//! passes `clients.rs` (admit), `ordering.rs` (order, log), `merging.rs` (merge, execute) and `turn.rs` (reply). The state beside the path
//! is kept by a part of its own, `keeping/`, for which `state.rs` does what it wants done.
//!
//! INV-NODE-1: a message that names a record leaves only after that record is durable.
//! INV-NODE-2: what an instance decided is handed to the merge in order, each record once.
//!
//! Tests: `tests/` (a cluster of nodes joined by hand), and every test with real processes.

mod access;
mod clients;
mod config;
mod costs;
mod effects;
mod engine;
mod gathering;
mod intake;
mod journal;
mod keeping;
mod levels;
mod links;
mod lives;
mod members;
mod merging;
mod node;
mod ordering;
mod peers;
mod problems;
mod ranks;
mod recovered;
mod restoring;
mod rooms;
mod roster;
mod seats;
mod sights;
mod state;
mod status;
mod stays;
mod system;
mod ticks;
mod trimmed;
mod turn;

pub use access::{Access, Permissions};
pub use config::NodeConfig;
pub use costs::{Costs, Had, Share};
pub use effects::{Effect, Effects, Event, Input, KeeperWork, Unneeded};
pub use keeping::{BorderConfig, CheckpointMode, SegmentScrub};
pub use levels::LevelConfig;
pub use node::Node;
pub use quorate_admit::ServedByReplicas;
pub use quorate_merge::{Config as MergeConfig, Generation};
pub use recovered::Recovered;
pub use restoring::Restoring;
pub use seats::{Place, SeatLimits};
pub use status::{
    CheckpointStatus, InstanceStatus, InstancesStatus, LevelStatus, LogStatus, MemberLevel, MemberStatus,
    MembershipMember, MembershipStatus, NodeStatus, PeerStatus, SeatsStatus, SuspectStatus, TransferStatus,
};
pub use system::{InstancePart, System};
