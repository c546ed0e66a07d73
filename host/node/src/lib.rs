//! The stages of one lane, joined into one state machine without I/O: the only place that knows the order of the stages.
//!
//! [`Node::step`] takes one input (a frame that arrived, a write that completed, a deadline) and appends what is to be
//! done. `host/runtime` drives it with real sockets, disks and clocks; a simulator drives it with its own.
//!
//! A replica is made of parts, which are stepped alone (docs/decisions/0035): `gate/` has the connections, stage 2's intake (path/2-admit) what
//! clients ask where replicas may lie, `group/` one instance of the ordering protocol each, `journal/` the log, `engine/` the global log,
//! execution, time, reads and replies, `keeping/` the state beside the path; `guide/` says where clients go, `leading/` who leads what,
//! `reconfigure/` who the members are. `pipeline.rs` says which part takes what, and in which order; `together.rs` has what takes several.
//!
//! INV-NODE-1: a message that names a record leaves only after that record is durable.
//! INV-NODE-2: what an instance decided is handed to the merge in order, each record once.
//!
//! Tests: beside each part; whole clusters in check/sim, real processes in front/cli.

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
mod lanes;
mod leading;
mod node;
mod pipeline;
mod problems;
mod reconfigure;
mod recovered;
mod report;
mod restoring;
mod roster;
mod status;
mod system;
mod together;

pub use config::NodeConfig;
pub use costs::{Costs, Had, Share};
pub use effects::{Effect, Effects, Event, Input, KeeperWork, Unneeded};
pub use gate::{Access, ConnClass, Permissions, SeatLimits};
pub use keeping::{BorderConfig, CheckpointMode, SegmentScrub};
pub use lanes::{Part, Placement};
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
