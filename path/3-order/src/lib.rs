//! Stage 3: agree on one batch per slot, inside one instance.
//!
//! In: batches from stage 2 (admit). Out: decided batches, slot by slot, to stage 4 (merge). [`Order`] hides which protocol does this. A
//! protocol is a plain state machine: the same inputs in the same order give the same effects, bit for bit. It never touches a clock, disk,
//! socket or thread. It names the record that must be durable before a message leaves ([`Effect::Send::after`]), and the host holds the
//! message back until then.
//!
//! A protocol brings its rules. The [`ledger`] keeps its records and old slots, and does restarts and delivery. What the rest of the
//! program must know of a protocol stands in its row ([`protocols`], docs/decisions/0034-a-protocol-is-rules-and-a-nature.md).
//!
//! Start with this file, then `raft/mod.rs`. Golden scripts: check/script/scripts. The suite that every protocol passes:
//! check/script/tests/all/order_suite.rs.

mod anchor;
mod config;
mod effects;
pub mod fuzzing;
pub mod ledger;
mod life;
mod limits;
mod message;
pub mod mod_smart;
pub mod modelling;
mod nature;
pub mod protocols;
mod quorums;
pub mod raft;
pub mod visigoth;

pub use anchor::{ANCHOR_BYTES_MAX, Anchor};
pub use config::OrderConfig;
pub use effects::{Effect, Effects, Stored};
pub use limits::Feature;
pub use message::{Message, OrderMessage};
pub use nature::{Changes, Nature};
pub use protocols::Protocol;
pub use quorate_types::{Random, Waited};

use quorate_auth::Secret;
use quorate_types::{Digest, Halt, MembershipId, RecordId, ReplicaId, Slot, Time, View};
use quorate_wire::{Batch, Memberships, Verified};
use std::sync::Arc;

/// What a protocol reacts to.
#[derive(Clone, Debug)]
pub enum Input {
    /// Decide this batch. Only a protocol that leads takes it ([`Order::standing`]); any other drops it.
    Propose(Batch),
    /// A member sent a message.
    Receive(Verified<OrderMessage>),
    /// Every record up to this one is durable.
    Durable(RecordId),
    /// The answer to [`Effect::Load`]: the records that were asked for, in the order in which they were asked for.
    Loaded {
        /// The number in the question.
        load: u64,
        /// The records.
        records: Vec<Stored>,
    },
    /// From now on there is a connection to this member, in both directions.
    Connected(ReplicaId),
    /// The connection to this member is gone. This is a hint that the member died: it speeds up an election and proves nothing.
    Disconnected(ReplicaId),
    /// A strong read waits. Find a slot such that a replica which executed it has executed everything that was decided before now.
    Read(u64),
    /// Hand leadership to this member, or to the most advanced one.
    Transfer(Option<ReplicaId>),
    /// A durable checkpoint here holds everything up to this slot. The protocol forgets what it kept of those slots, and
    /// [`Order::keep_from`] rises. The host says this again after a restart, so that old records can go.
    Trim {
        /// The checkpoint's slot.
        slot: Slot,
    },
    /// A durable checkpoint replaced the service's state. Delivery continues with the slot after the checkpoint, even if that goes back.
    Installed {
        /// The checkpoint's slot.
        slot: Slot,
        /// What the checkpoint says of this instance.
        anchor: Anchor,
    },
    /// An executed command asks for this change of membership; it holds the old and the new one. The leader begins the change, or continues
    /// it, and reports it with [`Effect::Members`]. All replicas get this input, perhaps several times. A change that is already complete
    /// here is ignored.
    Membership(Arc<Memberships>),
    /// The leader sends these replicas the log as if they were members, until the host gives another list. They need not be members: a
    /// replica that leaves one instance may need that instance's log to finish what it has to do in another.
    Listeners(Arc<[ReplicaId]>),
    /// A request, by the digest of its bytes, arrived here and was authenticated. If it is not decided in time, something is wrong with the
    /// leader. Protocols that do not suspect their leaders ignore this.
    Watch(Digest),
    /// From now on this replica holds this secret key, too. It may be the one that is its own from some membership on.
    Hold(Secret),
    /// The host no longer watches this request: it can not be decided any more, or it was answered without being decided.
    Unwatch(Digest),
    /// The answer to [`Effect::Examine`]: every request in the batch is from the client that it names. The answer may come at any time, or
    /// never. The protocol believes it.
    Vouched {
        /// The slot in the question.
        slot: Slot,
        /// The batch, by its digest.
        digest: Digest,
        /// Since when the requests of the batch wait here; none if all are known to be executed, or this replica knows of none of them.
        waited: Option<Waited>,
    },
    /// Whether this replica still has much to execute of what was decided while it was away. Then it is not to be counted on, as far as
    /// others can choose.
    Busy(bool),
    /// Another instance of this replica has decided something. So the usual quorum of the first members met, and compared what they were
    /// configured with.
    Met,
    /// The answer to [`Effect::Oracle`]. It may come late, twice, or never.
    Oracle(visigoth::OracleAnswer),
    /// The moment that [`Order::deadline`] named has come.
    Deadline,
}

/// What the host asks of a protocol at every turn. Each step leaves it behind, so that reading it costs nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// The view it is in.
    pub view: View,
    /// It leads, and may propose: no transfer is under way.
    pub leading: bool,
    /// It leads its view, perhaps without proposing any more, and everything decided before the view was handed on.
    pub handed_on: bool,
    /// It leads and may propose, and everything decided before its view was handed on. So execution knows every command of earlier views.
    /// Where replicas may have gone on without it, a quorum has answered it in its view.
    pub settled: bool,
    /// The host should not propose now. Another batch could push entries out of memory that a live member still needs; that member must
    /// catch up first. Only where old records can not be read back.
    pub holds_back: bool,
    /// It leads although it has heard no quorum for longer than a leader may be silent: it gives the others time, for a while.
    pub alone: bool,
    /// How many batches were proposed here and are not decided yet.
    pub in_flight: usize,
    /// The bytes of those batches.
    pub in_flight_bytes: usize,
}

/// What an operator and the other stages may know about a protocol beside its [`Standing`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// The view it is in.
    pub view: View,
    /// The leader of the view, if known.
    pub leader: Option<ReplicaId>,
    /// The last slot decided here.
    pub decided: Slot,
    /// Where few members are slow: it knows a decision of this cluster. If the cluster was made from a backup, the slots of that are none.
    /// Elsewhere this is not said.
    pub knows_decision: bool,
    /// What the leader knows of each other member: its id, how many bytes of the log it lacks, and whether the leader heard of it lately.
    /// Empty on other replicas. `u64::MAX` bytes: the member needs entries that are neither in memory nor in the log any more, and is told
    /// to fetch a checkpoint.
    pub members: Vec<(ReplicaId, u64, bool)>,
    /// The members that lately got everything about as fast as it came, so that a learner among them may become a voter. Empty on other
    /// replicas.
    pub caught_up: Vec<ReplicaId>,
    /// The members that the leader heard of lately and that accepted entries in this view: as far as can be known, they are up. Empty on
    /// other replicas.
    pub there: Vec<ReplicaId>,
    /// Members whose logs lost entries that they had acknowledged to this replica, and how many entries since this replica started.
    pub lost: Vec<(ReplicaId, u64)>,
    /// Batches in its log that are not decided yet. Sending one of them again is of no use.
    pub open: Vec<Batch>,
    /// Small quorums that count, or may bind the present view, as far as is known here. Only where few members are slow.
    pub small_quorums: Option<visigoth::SmallQuorums>,
    /// Whether this replica counts in small quorums, where there is no oracle; none elsewhere.
    pub counts: Option<bool>,
    /// Whether it holds a lease at the time of its last step; none where there are no leases.
    pub lease: Option<bool>,
    /// How many questions for reads it answered by leases since the start. Checkers read it.
    pub answered_by_lease: u64,
    /// The memberships that hold here, committed or not.
    pub membership: Arc<Memberships>,
    /// The last membership that is committed here, without a change under way.
    pub committed_membership: MembershipId,
    /// The memberships that its log names, oldest first, with every one that an anchor or a later entry names. Their members may have taken
    /// part in slots that are not executed yet.
    pub memberships: Vec<Arc<Memberships>>,
}

impl Status {
    /// The status of a replica in this view that follows this leader and decided up to this slot. Everything else is empty or none.
    pub fn of(view: View, leader: Option<ReplicaId>, decided: Slot, membership: Arc<Memberships>) -> Self {
        Self {
            view,
            leader,
            decided,
            members: Vec::new(),
            caught_up: Vec::new(),
            there: Vec::new(),
            lost: Vec::new(),
            open: Vec::new(),
            small_quorums: None,
            counts: None,
            lease: None,
            answered_by_lease: 0,
            knows_decision: false,
            committed_membership: membership.now().number(),
            memberships: vec![membership.clone()],
            membership,
        }
    }
}

/// What can be concluded from the restored records, before the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Restored {
    /// It is known how this replica voted, because the records after the last gap say all of it. If not, the replica must never vote again.
    pub knows_vote: bool,
    /// The replica must not start before it has a checkpoint that covers everything it may have acknowledged ([`Order::covers`]).
    pub needs_checkpoint: bool,
    /// The slot after which its log begins: a replica that lacks this slot, or an earlier one, can only be given a checkpoint. If it is not
    /// known where the log begins: the slot of the anchor.
    pub begins_after: Slot,
}

/// One ordering protocol in one instance: it is told what the log holds, started, and stepped.
pub trait Order: std::any::Any + Send + std::fmt::Debug {
    /// Before any [`Order::restore`]: the service's state comes from a durable checkpoint with this anchor, and the log begins after it.
    ///
    /// # Errors
    /// When the anchor is not one of this protocol.
    fn restore_anchor(&mut self, slot: Slot, anchor: &Anchor) -> Result<(), Halt>;

    /// Before any [`Order::restore`]: there was a checkpoint later than that of [`Order::restore_anchor`], and it can not be used any more.
    /// If the log begins only after it, the protocol does not halt; [`Order::restored`] says so.
    fn restore_outdated(&mut self);

    /// Before [`Order::start`]: takes back a record of an earlier run, in the order in which records were persisted. The first record given
    /// gets number 1, whatever its number was. Where the log was trimmed, there may be more old records than [`Order::keep_from`] asked
    /// for, never fewer.
    ///
    /// # Errors
    /// When the records do not fit together: the log can not be trusted.
    fn restore(&mut self, id: RecordId, record: Stored) -> Result<(), Halt>;

    /// At most this many records are missing at this point, because they were damaged on disk. Earlier records prove nothing certain any
    /// more, since a missing record may have replaced them. Missing records may have been acknowledged.
    fn restore_gap(&mut self, missing: u64);

    /// What can be concluded from everything given so far.
    fn restored(&self) -> Restored;

    /// Whether a checkpoint at this slot with this anchor holds everything that this replica may have acknowledged and that may be decided.
    /// Before [`Order::start`].
    fn covers(&self, slot: Slot, anchor: &Anchor) -> bool;

    /// Gives the durable checkpoint that the protocol needs; the log begins anew after it. Before [`Order::start`].
    ///
    /// # Errors
    /// When the anchor is not one of this protocol.
    fn restore_installed(&mut self, slot: Slot, anchor: &Anchor) -> Result<(), Halt>;

    /// Begins. Everything restored counts as durable, since the host rewrote and synced the log's tail. Emits [`Effect::Halt`] when the
    /// records do not continue the checkpoint. Hands nothing on yet, because the first input may be [`Input::Installed`].
    fn start(&mut self, now: Time, out: &mut Effects);

    /// Reacts to one input. The host read `now` after everything in the input had arrived.
    fn step(&mut self, now: Time, input: Input, out: &mut Effects);

    /// When to call [`Order::step`] with [`Input::Deadline`], if no other input comes first.
    fn deadline(&self) -> Option<Time>;

    /// If this replica leads, the messages that say so to the others once more. A host sends them while its thread executes for long. They
    /// change nothing here, and at most the time of what they repeat at the others.
    fn heartbeats(&self, out: &mut Effects);

    /// The protocol's standing after its last step. Costs nothing.
    fn standing(&self) -> Standing;

    /// The protocol's full status.
    fn status(&self) -> Status;

    /// What a checkpoint at this slot says of the instance: the same on all replicas. Known for the slots from the last [`Input::Trim`] (or
    /// the checkpoint that the protocol began with) to the last slot decided here.
    fn anchor(&self, slot: Slot) -> Option<Anchor>;

    /// The lowest of its own records that must stay in the log, given what is durable now; none when the protocol has no records.
    fn keep_from(&self) -> Option<RecordId>;

    /// Panics with the name of the invariant that does not hold. Cheap invariants are always checked; `thorough` scans everything.
    fn invariants(&self, thorough: bool);
}
