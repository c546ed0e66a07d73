//! Fewer members where few are slow: u may be faulty, at most s correct ones are slow at a time, and at most o lie in concert, with s < u.
//!
//! The rules are Mod-SMaRt's, and so are the messages; what differs is which sets are quorums. n-s members always are. When fewer answer in
//! time, n-u of them become one, for one view: the oracle grants it. `register` has the rule for that, `gather` asks. Then any two quorums
//! share a member that tells the truth, so all that Mod-SMaRt concludes from quorums stands. If more than s are slow, nothing is decided
//! until they come back; nothing wrong is decided. An operator may do without the oracle: then `rounds` finds the sets, among the members that
//! are `counted`, and that holds only as long as no more than s are slow.
//!
//! Source: Porto, Leitão, Li, Clement, Kate, Junqueira, Rodrigues, "Visigoth Fault Tolerance", EuroSys 2015. Retold line by line in
//! docs/protocols/visigoth.md, with what differs. Tests: tests/ beside this file; tests/few.rs of Mod-SMaRt; check/sim.

mod claim;
mod counted;
mod gather;
mod reach;
mod register;
mod rounds;

pub use claim::{Claim, Missing};
pub(crate) use claim::{put_ids, read_ids};
pub use counted::Counted;
pub(crate) use gather::Gather;
pub(crate) use reach::Reach;
pub use register::{Grant, Refusal, Register};
pub use rounds::{Gathering, Rounds};

use bytes::Bytes;
use quorate_types::{MembershipId, ReplicaId, Time, Trust, View};

/// What a protocol asks the oracle about its instance: read the register of this membership, or change it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OracleRequest {
    /// The membership whose register it is.
    pub membership: MembershipId,
    /// What it wants.
    pub wish: Wish,
}

/// What a protocol wants of a register; in any case it is told what the register holds then.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wish {
    /// Nothing.
    Read,
    /// If it still has this version, it gets this value.
    Swap(u64, Bytes),
    /// It grants what this [`Claim`] shows: an oracle that knows the rule, where members may lie.
    Claim(Bytes),
}

/// What the register holds. A register that nobody wrote has version 0 and no bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OracleAnswer {
    /// The membership whose register it is.
    pub membership: MembershipId,
    /// The version, which grows with each swap.
    pub version: u64,
    /// The value.
    pub value: Bytes,
}

/// Small quorums that count, or may bind later views, as far as a replica knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SmallQuorums {
    /// Since when it knows of them, or does not know whether there are some.
    pub since: Time,
    /// They, by view; none if the oracle did not answer yet.
    pub grants: Vec<Grant>,
}

/// What the register is judged by: who votes, and where this replica is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Here<'a> {
    pub(crate) membership: MembershipId,
    pub(crate) view: View,
    /// The highest view in which something is known to be decided.
    pub(crate) decided: View,
    pub(crate) voters: &'a [ReplicaId],
    pub(crate) trust: Trust,
}

#[cfg(test)]
pub(crate) mod tests;
