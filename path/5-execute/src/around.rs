//! Events around a service that the service hears: ends of sessions, and changes of the membership.
//!
//! Each has a place in the order, like a command, and the service may change its state there: all replicas hear the same at the same place,
//! however late they execute. A change of the membership is final with the batch that ends it, so nobody sees the state between the two.
//! After an image is installed, the service does not hear again what came before it: the service's state already includes that. After
//! batches are taken back, it hears their events again. Tests: `tests/all/around.rs`, and check/sim with an execution that is late.

use quorate_types::{MembershipId, ReplicaId};

/// Why a session ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionEnd {
    /// Its client closed it.
    Closed,
    /// It executed nothing for longer than the limits allow (`SessionLimits::ttl`).
    Expired,
}

/// The membership after a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MembershipNow {
    /// Its number; the first membership has number 1.
    pub number: MembershipId,
    /// The members, voters and learners, in order.
    pub replicas: Vec<ReplicaId>,
}
