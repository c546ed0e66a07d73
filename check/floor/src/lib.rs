//! The null program: the fastest thing that only replicates, the yardstick for speed.
//!
//! One leader, its followers and a load generator, each a process of its own, joined by loopback TCP. The byte
//! stream that a follower receives is the log; it answers with the number of bytes it holds; a command is
//! committed when a majority holds it, durably where the configuration asks for that; the load generator gets
//! cumulative replies. There are no elections, no recovery, no sessions, no membership and no service. So no
//! replication engine on the same machine can be faster, and a benchmark figure means something only beside
//! this program's figure from the same run.
//!
//! A cluster that survives Byzantine faults pays for another pattern of messages, so it has a floor of its own
//! ([`FaultModel::Byzantine`]): PROPOSE, WRITE and ACCEPT among 3f+1 replicas, a digest of each batch, a MAC for every
//! receiver on each message, and answers of all replicas, of which f+1 must say the same. One slot is under way at a time
//! unless the configuration says otherwise. There are no signatures and no other views. Its commands come in one stream, or from callers
//! with connections of their own ([`Config::callers`]), which cost a read and a write for each command at each replica that hears and
//! answers them.
//!
//! The host program is started again for each role: it must call [`maybe_child`] before anything else in `main`.
//!
//! Files: `config` (what to run), `parent` (starts the processes, collects the report), `roles` (what parent and
//! children tell each other), `leader`, `follower`, `agree` (a replica with Byzantine faults), `load` (the roles), `disk`
//! (the log file and the leader's disk thread), `net` (sockets), `frame` (the bytes between leader and follower), `tag`
//! (digests and MACs), `report`. Below `agree`: `mesh` (who connects to whom), `peer` (one connection), `message` (the bytes
//! on it), `proposals` (the leader's batches), `slots` (the rules), `crowd` (callers with connections of their own; their other side is
//! `load/crowd`).
//! Tests: `tests/processes.rs` runs real processes; `src/*/tests.rs` covers the parts.

mod agree;
mod config;
mod disk;
mod follower;
mod frame;
mod leader;
mod load;
mod net;
mod parent;
mod report;
mod roles;
mod tag;

pub use config::{Config, HeardBy, Sync};
pub use parent::{run, run_closed_loop};
/// Which faults the replicas agree for.
pub use quorate_types::FaultModel;
pub use report::{Cpu, Latency, ReplicaReport, Report};
pub use roles::maybe_child;

/// Why a run gave no report.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The configuration asks for something that cannot run.
    #[error("floor: {0}")]
    Config(String),
    /// The operating system refused something.
    #[error("floor: {what}: {source}")]
    Io {
        /// What was being done.
        what: String,
        /// What the system answered.
        source: std::io::Error,
    },
    /// A replica or the load generator ended early or said something unexpected.
    #[error("floor: the {role} {what}")]
    Child {
        /// The process.
        role: String,
        /// What it did.
        what: String,
    },
}

/// What every function here returns.
pub type Result<T> = std::result::Result<T, Error>;

/// Says what was being done when an I/O call failed.
trait Doing<T> {
    fn doing(self, what: impl Into<String>) -> Result<T>;
}

impl<T, E: Into<std::io::Error>> Doing<T> for std::result::Result<T, E> {
    fn doing(self, what: impl Into<String>) -> Result<T> {
        self.map_err(|e| Error::Io { what: what.into(), source: e.into() })
    }
}
