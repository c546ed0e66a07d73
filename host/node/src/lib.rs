//! A replica as one state machine without I/O: it joins the stages of the path, and it alone knows their order.
//!
//! [`Node::step`] takes one input (a frame that arrived, a write that completed, a deadline) and appends effects: what the host must do.
//! `host/runtime` drives it with real sockets, disks and clocks; the simulator drives it with its own.
//!
//! A replica is made of parts, each of which is stepped alone (docs/decisions/0035).
//! `gate/` has the connections. The intake of stage 2 (path/2-admit) has the requests of clients where replicas may lie. Each `group/` has
//! one instance of the ordering protocol. `journal/` has the log. `engine/` has the global log, execution, time, reads and replies.
//! `eras/` ends an era and begins the next one. `keeping/` has checkpoints and transfer. `guide/` sends clients to instances, `leading/` decides which replica leads which instance, and
//! `reconfigure/` has the membership.
//! `pipeline.rs` says which part takes which input, and in which order; `together.rs` has the operations that take several parts.
//!
//! INV-NODE-1: a message that names a record leaves only after that record is durable.
//! INV-NODE-2: what an instance decided is handed to the merge in order, each record once.
//!
//! Tests: beside each part; whole clusters in check/sim, real processes in front/cli.

mod attesting;
mod config;
mod costs;
mod delivering;
mod effects;
mod engine;
mod eras;
mod gate;
mod group;
mod guide;
mod intake;
mod journal;
mod keeping;
mod lanes;
mod leading;
mod memos;
mod neighbours;
mod node;
mod pipeline;
mod problems;
mod reconfigure;
mod recovered;
mod report;
mod restoring;
mod roster;
mod rulings;
mod status;
mod system;
mod together;
mod witness;

pub use config::{NodeConfig, ServiceConfig};
pub use costs::{Costs, Had, Share};
pub use effects::{Effect, Effects, Event, Input, KeeperWork, OracleWork, Unneeded};
pub use eras::{EraConfig, JudgeEra, NextEra};
pub use gate::{Access, ConnClass, Found, Permissions, SeatLimits};
pub use group::{Bridge, Bridges, Inbox, Mail, OwnLane, Reports};
pub use keeping::{BorderConfig, CheckpointMode, SegmentScrub};
pub use lanes::{Part, Placement, link_of};
pub use neighbours::{NeighbourStatus, neighbours};
pub use node::Node;
pub use quorate_admit::ServedByReplicas;
pub use quorate_merge::{Config as MergeConfig, Generation};
pub use reconfigure::LevelConfig;
pub use recovered::Recovered;
pub use report::{draft, draft_era, memberships_in_force};
pub use restoring::Restoring;
pub use status::{
    AdministrationStatus, CheckpointStatus, EraStatus, GrantStatus, InstanceStatus, InstancesStatus,
    LevelStatus, LogStatus, MemberLevel, MemberStatus, MemberVersion, MembershipMember, MembershipStatus,
    NodeStatus, PeerStatus, SeatsStatus, ServiceStatus, SmallQuorumsStatus, SuspectStatus, TransferStatus,
    VerificationStatus,
};
pub use system::{InstancePart, System};
pub use witness::{Moment, Sealed, Witness};
