//! The dashboard of a cluster: one page without outside resources, what it shows as server-sent events, and buttons where the cluster is a toy.
//!
//! It runs where an operator is: in `quorate dev`, or as `quorate web` with an operator's certificate. A [`Source`] says what there is to see
//! and carries out what buttons say. Whoever wants to see or do anything shows the token that the address of the page carries; the page itself
//! holds nothing secret. Why it stands beside the cluster and not in its replicas: docs/decisions/0055-the-dashboard-is-an-operators.md.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `page.html` | the page |
//! | `server.rs` | the ways of the server: the page, the events, the buttons, and who may use them |
//! | `events.rs` | one look at the cluster per second for all viewers, and none without any |
//! | `policy.rs` | what a browser may do with the page |

mod events;
mod policy;
mod server;

pub use server::{Web, WebError};

use serde::Deserialize;
use serde_json::Value;

/// What a button says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verb {
    /// Ends a replica's process at once.
    Kill,
    /// Stops it where it is.
    Pause,
    /// Lets it go on.
    Resume,
    /// Starts it; if it runs, stops it before.
    Restart,
    /// Lets nothing pass between it and the others.
    Partition,
    /// Ends the partition, for all replicas.
    Heal,
}

/// A button, and the replica that it is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Act {
    /// What it says.
    pub verb: Verb,
    /// The replica.
    pub replica: u16,
}

/// A cluster to look at. Both may take some time; they are called on threads of their own.
pub trait Source: Send + Sync + 'static {
    /// What there is to see: `cluster`, `dev`, and `replicas` with the status of each, as `page.html` says.
    fn state(&self) -> Value;

    /// Carries out what a button says, and says in words what that did.
    ///
    /// # Errors
    /// Why not, and what to do.
    fn act(&self, act: Act) -> Result<String, String>;
}
