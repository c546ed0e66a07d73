//! What every front needs and no protocol is. A front speaks for one member of a cluster to clients of some protocol, in the member's own
//! process; with this it has to bring that protocol only.
//!
//! | module | what it has |
//! | --- | --- |
//! | `member` | what the program hands to any front: the member that it speaks for |
//! | `own_cluster` | the way to the cluster: commands of many callers as few requests, strong reads that go together, reads of the member |
//! | `own_state` | the newest state of the member, for reads on the front's own thread |
//! | `hub` | what the member executes, on its way to those who watch |
//! | `listener` | connections, with TLS (`tls`) and a limit on their number; `shown`: whom a client's certificate names |
//! | `gather` | what a connection writes in a turn, in one call of the system |
//! | `seen` | what the member says of itself: health, who leads, the members |
//! | `operator` | questions that operators ask, on behalf of clients |
//! | `backups` | the state of the cluster in a file, for clients, one at a time |
//! | `settings` | the front's table of the configuration |
//! | `worker` | what takes long, beside the thread that serves |
//!
//! A front is one thread with an event loop of tokio, beside the lane: start with [`Listen::start`]; `examples/line.rs` is a whole one. How commands and queries are written
//! is the service's, and what clients may do is the front's: the kit looks into neither.

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
pub use own_cluster::{Command, KitError, OwnCluster, Together};
pub use own_state::OwnState;
pub use seen::{Look, See, Seen, SeenMember};
pub use shown::Shown;
pub use worker::Worker;
