//! What a service hears of what is around it: sessions that end, and who the members are.
//!
//! Both stand at a place in the order, like commands, and the service may change its state there: all replicas hear the same at the same
//! place, however late they execute. A change of the membership is final with the batch that ends it, so that nobody sees the state in between. Who goes on from an image does not hear again what is in it, and what a service made of it is in its
//! state. What was executed and is taken back is heard again. Tests: `tests/all/around.rs`, and check/sim with an executor that is late.

use quorate_types::{MembershipId, ReplicaId};

/// Why a session ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionEnd {
    /// Its client closed it.
    Closed,
    /// Its client asked for nothing for as long as sessions live.
    Expired,
}

/// The membership that a change led to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MembershipNow {
    /// Its number; that of the first one is 1.
    pub number: MembershipId,
    /// The members, voters and learners, in order.
    pub replicas: Vec<ReplicaId>,
}
