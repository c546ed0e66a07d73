//! What a protocol is like, as far as the rest of the program must know. It is data that is read once, in place of one question for each
//! property.

/// What a protocol can do at all (its row in [`crate::protocols`]), or what it does in one cluster
/// ([`crate::OrderConfig::nature`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Nature {
    /// Many slots are under way at a time. Otherwise a slot begins only when the one before is decided, so that handing over a batch early
    /// gains nothing.
    pub pipelined: bool,
    /// Leaders change although nothing is wrong.
    pub rotates: bool,
    /// The number of a view says who leads it: in the first view instance i is led by the voter at place i, counted from 0 and around.
    pub named_by_views: bool,
    /// A leader may answer strong reads by a lease.
    pub leases: bool,
    /// How its members change.
    pub membership: Changes,
    /// Instances come and go while it runs.
    pub stays: bool,
    /// It survives replicas that lie.
    pub lies: bool,
    /// A replica that does not hear a leader learns from the others what was decided. Otherwise it waits for the leader.
    pub fetches: bool,
    /// Where few members are slow, it goes on with small quorums.
    pub few: bool,
    /// The votes of some members may count more.
    pub weighs: bool,
}

impl Nature {
    /// The nature of a protocol that does one slot after the other and nothing else.
    pub const PLAIN: Self = Self {
        pipelined: false,
        rotates: false,
        named_by_views: false,
        leases: false,
        membership: Changes::Fixed,
        stays: false,
        lies: false,
        fetches: false,
        few: false,
        weighs: false,
    };
}

/// How the members of a cluster change while it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Changes {
    /// Both memberships count while a change is under way (Ongaro's dissertation, section 4.3).
    Joint,
    /// A slot ends one membership, and the next slot belongs to another one.
    Tenure,
    /// Not at all.
    Fixed,
}
