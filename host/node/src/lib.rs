//! The stages of one lane, joined into one state machine without I/O: the only place that knows the order of the stages.
//!
//! [`Node::step`] takes one input (a frame that arrived, a write that completed, a deadline) and appends what is to be
//! done. `host/runtime` drives it with real sockets, disks and clocks; a simulator drives it with its own.
//!
//! A replica is made of parts, which are stepped alone (docs/decisions/0035): stage 2's gate (path/2-admit), the journal (`journal/`: the log), the
//! engine (`engine/`: merge, execution, time, reads, replies) and keeping (`keeping/`: the state beside the path). The other files hand on what
//! the parts want done: `intake.rs` for the gate, `ordering.rs` for the instances' protocols, `merging.rs` for the engine, `state.rs` for
//! keeping. They also hold what is no part yet: connections (`peers.rs`), members (`members.rs`), instances that come and go (`stays.rs`).
//!
//! INV-NODE-1: a message that names a record leaves only after that record is durable.
//! INV-NODE-2: what an instance decided is handed to the merge in order, each record once.
//!
//! Tests: beside each part; whole clusters in check/sim, real processes in front/cli.

mod clients;
mod config;
mod costs;
mod effects;
mod engine;
mod gate;
mod group;
mod guide;
mod intake;
mod journal;
mod keeping;
mod leading;
mod members;
mod merging;
mod node;
mod ordering;
mod problems;
mod reconfigure;
mod recovered;
mod restoring;
mod state;
mod status;
mod stays;
mod system;
mod ticks;
mod trimmed;
mod turn;

pub use config::NodeConfig;
pub use costs::{Costs, Had, Share};
pub use effects::{Effect, Effects, Event, Input, KeeperWork, Unneeded};
pub use gate::{Access, Permissions, Place, SeatLimits};
pub use keeping::{BorderConfig, CheckpointMode, SegmentScrub};
pub use node::Node;
pub use quorate_admit::ServedByReplicas;
pub use quorate_merge::{Config as MergeConfig, Generation};
pub use reconfigure::LevelConfig;
pub use recovered::Recovered;
pub use restoring::Restoring;
pub use status::{
    CheckpointStatus, InstanceStatus, InstancesStatus, LevelStatus, LogStatus, MemberLevel, MemberStatus,
    MembershipMember, MembershipStatus, NodeStatus, PeerStatus, SeatsStatus, SuspectStatus, TransferStatus,
};
pub use system::{InstancePart, System};
