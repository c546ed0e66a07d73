//! What all fronts share. A front serves clients of some protocol on behalf of one member of a cluster, in the member's own process. With
//! this crate a front has to bring only its protocol.
//!
//! | module | what it holds |
//! | --- | --- |
//! | `member` | the member that a front serves for, as the program passes it to any front |
//! | `own_cluster` | the way to the cluster: commands of many callers in few requests, strong reads that share one, reads of the member |
//! | `own_state` | the newest state of the member, for reads on the front's own thread |
//! | `hub` | the queue of changes, from the member that executes them to the clients that watch |
//! | `listener` | connections, with TLS (`tls`) and a limit on their number; `shown`: the holder of a client's certificate |
//! | `gather` | writes of a connection in one turn, as one system call |
//! | `seen` | the status of the member: its health, the leader, the members |
//! | `operator` | requests of operators, sent on behalf of clients |
//! | `backups` | backups of the cluster in a file, for clients, one at a time |
//! | `settings` | the front's table of the configuration |
//! | `worker` | long work, on a thread other than the one that serves |
//!
//! A front is one thread with an event loop of tokio, beside the lane. It begins with [`Listen::start`]; `examples/line.rs` is a complete
//! front. The service defines the format of commands and queries, and the front decides what clients may do; the kit knows neither.

pub mod backups;
pub mod gather;
mod hub;
mod listener;
mod member;
mod operator;
mod own_cluster;
mod own_state;
mod seen;
pub mod settings;
mod shown;
mod tls;
mod worker;

pub use backups::{Backups, MakeBackup};
pub use hub::{Hub, Teller};
pub use listener::{Connection, Connections, Listen, Listener, Running, StartError, Stream};
pub use member::{Lies, Member, MemberError, Needs};
pub use operator::{Operator, OperatorError};
pub use own_cluster::{Command, KitError, Line, OwnCluster, Together};
pub use own_state::OwnState;
/// The memory that this process has in use, in bytes.
pub use quorate_runtime::memory_bytes;
pub use quorate_runtime::{Calls, FrontCalls};
pub use seen::{Look, See, Seen, SeenMember};
pub use shown::Shown;
pub use worker::Worker;
