//! Stage 3: agree on one batch per slot, inside one instance.
//!
//! In: batches from stage 2 (admit). Out: decided batches, slot by slot, to stage 4 (merge). [`Order`] hides which
//! protocol does it. A protocol is a plain state machine: the same inputs in the same order give the same effects, bit
//! for bit. It never touches a clock, disk, socket or thread; it says what must be durable before a message leaves
//! ([`Effect::Send::after`]), and the host can not forget it.
//!
//! A protocol brings its rules. Records, old slots, restarts and delivery are the [`ledger`]'s; what the rest of the program must know of a
//! protocol stands in its row ([`protocols`]) (docs/decisions/0034-a-protocol-is-rules-and-a-nature.md).
//!
//! Start with this file, then `raft/mod.rs`. Golden scripts: check/script/scripts. The suite that every protocol passes:
//! check/script/tests/all/order_suite.rs.

mod anchor;
mod config;
mod effects;
pub mod fuzzing;
pub mod ledger;
mod life;
mod message;
pub mod mod_smart;
mod nature;
pub mod protocols;
pub mod raft;

pub use anchor::{ANCHOR_BYTES_MAX, Anchor};
pub use config::OrderConfig;
pub use effects::{Effect, Effects, Stored};
pub use message::{Message, OrderMessage};
pub use nature::{Changes, Nature};
pub use protocols::Protocol;
pub use quorate_types::{Random, Waited};

use quorate_types::{Digest, Halt, MembershipId, RecordId, ReplicaId, Slot, Time, View};
use quorate_wire::{Batch, Memberships, Verified};
use std::sync::Arc;

/// What a protocol reacts to.
#[derive(Clone, Debug)]
pub enum Input {
    /// Decide this batch. Only for a protocol that leads ([`Order::standing`]); any other drops it.
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
    /// A connection to a member exists from now on, in both directions.
    Connected(ReplicaId),
    /// The connection to a member is gone: a hint that it died, which speeds up an election and proves nothing.
    Disconnected(ReplicaId),
    /// A strong read waits: find a slot which, once executed, holds everything decided before now.
    Read(u64),
    /// Hand leadership to this member, or to the most advanced one.
    Transfer(Option<ReplicaId>),
    /// Everything up to this slot, which was decided here, is in a durable checkpoint: the protocol forgets what it kept of
    /// it, and [`Order::keep_from`] rises. Also says it again after a restart, so that old records can go.
    Trim {
        /// The checkpoint's slot.
        slot: Slot,
    },
    /// A durable checkpoint took the place of the service's state: what follows is handed on from the slot after it, also
    /// if that goes back.
    Installed {
        /// The checkpoint's slot.
        slot: Slot,
        /// What the checkpoint says of this instance.
        anchor: Anchor,
    },
    /// A command that was executed asks for this change of membership; it holds both. Whoever leads begins it, or goes on with
    /// it, and says so with [`Effect::Members`]; all replicas are told, also again. Once it is done here that is no news.
    Membership(Arc<Memberships>),
    /// These are sent the log like members, until the host says otherwise, also where they are none (any more): who leaves one
    /// instance may need it to carry out what is left to do in another.
    Listeners(Arc<[ReplicaId]>),
    /// A request, by the digest of its bytes, arrived here and was authenticated: if it is not decided in time, something is wrong
    /// with the leader. Only protocols that suspect their leaders on their own take notice.
    Watch(Digest),
    /// A request that was watched is no concern any more: it can not be decided, or was answered without that.
    Unwatch(Digest),
    /// The answer to [`Effect::Examine`]: everything in the batch is from whom it says. At any time, also never; taken by its word.
    Vouched {
        /// The slot in the question.
        slot: Slot,
        /// The batch, by its digest.
        digest: Digest,
        /// Since when what is in it waits here; none if all of it is known to be done, or nothing about it is known.
        waited: Option<Waited>,
    },
    /// The moment that [`Order::deadline`] named has come.
    Deadline,
}

/// What the host asks of a protocol at every turn: a few words that each step leaves behind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// The view it is in.
    pub view: View,
    /// It leads, and may propose: no transfer is under way.
    pub leading: bool,
    /// It leads, and everything that was decided before its view was handed on: what execution does not know by now does not exist.
    pub settled: bool,
    /// A batch proposed now could push a live member out of what can still be sent to it: better wait until it has caught up. Only
    /// where old records can not be read back.
    pub holds_back: bool,
    /// Batches proposed here and not decided yet.
    pub in_flight: usize,
    /// Their bytes.
    pub in_flight_bytes: usize,
}

/// What an operator and the other stages may know about a protocol beside its [`Standing`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// The view it is in.
    pub view: View,
    /// Who leads in it, when known.
    pub leader: Option<ReplicaId>,
    /// The last slot decided here.
    pub decided: Slot,
    /// What the leader knows of each other member: the member, how many bytes of the log it lacks, and whether it was
    /// heard of lately. Empty elsewhere. `u64::MAX` bytes: it needs what is neither in memory nor in the log any more, and
    /// is told to fetch a checkpoint.
    pub members: Vec<(ReplicaId, u64, bool)>,
    /// Those of them that lately got everything about as fast as it came: a learner may become a voter. Empty elsewhere.
    pub caught_up: Vec<ReplicaId>,
    /// Those of them that were heard of lately and accepted entries in this view: they are there, as far as can be known. Empty
    /// elsewhere.
    pub there: Vec<ReplicaId>,
    /// Members whose logs lost what they had acknowledged to this replica, and how many entries since it started.
    pub lost: Vec<(ReplicaId, u64)>,
    /// Batches that lie in its log and are not decided: who sends one of them again brings nothing new.
    pub open: Vec<Batch>,
    /// Whether it holds a lease, by the time of its last step; none where there are no leases.
    pub lease: Option<bool>,
    /// How many questions for reads it answered by leases since the start; for checks.
    pub answered_by_lease: u64,
    /// What holds here, committed or not.
    pub membership: Arc<Memberships>,
    /// The last membership that is committed here, alone.
    pub committed_membership: MembershipId,
    /// The memberships that its log names, oldest first: who may have had a part in what is not executed yet. Each that an anchor
    /// or a later entry names is among them.
    pub memberships: Vec<Arc<Memberships>>,
}

impl Status {
    /// Of who is in this view, follows this leader, and decided that much; nothing is known of others.
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
            lease: None,
            answered_by_lease: 0,
            committed_membership: membership.now().number(),
            memberships: vec![membership.clone()],
            membership,
        }
    }
}

/// What the records that were given back tell, before the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Restored {
    /// It is known how this replica voted: what comes after the last gap says it whole. If not, it must never take part again.
    pub knows_vote: bool,
    /// It must not start before a checkpoint is here that covers what it may have acknowledged ([`Order::covers`]).
    pub needs_checkpoint: bool,
    /// The slot after which its log begins: who lacks that one, or one before, can only be given a checkpoint. The slot of the anchor if
    /// it is not known where the log begins.
    pub begins_after: Slot,
}

/// One ordering protocol in one instance: it is told what the log holds, started, and stepped.
pub trait Order: std::any::Any + Send + std::fmt::Debug {
    /// The service's state comes from a durable checkpoint, and the log begins after it; before any [`Order::restore`].
    ///
    /// # Errors
    /// When the anchor is none of this protocol's.
    fn restore_anchor(&mut self, slot: Slot, anchor: &Anchor) -> Result<(), Halt>;

    /// A checkpoint later than the one of [`Order::restore_anchor`] was here and can not be used any more; before any
    /// [`Order::restore`]. If the log begins only after it, that is no reason to halt: [`Order::restored`] says so.
    fn restore_outdated(&mut self);

    /// Takes back a record of an earlier run, in the order in which they were persisted; before [`Order::start`]. The first
    /// one given is number 1, whatever it was before. Where the log was trimmed, more old records than
    /// [`Order::keep_from`] said may be there; never fewer.
    ///
    /// # Errors
    /// When the records do not fit together: the log can not be trusted.
    fn restore(&mut self, id: RecordId, record: Stored) -> Result<(), Halt>;

    /// So many records at most are missing here: they were damaged on disk. Of what the records before say nothing is certain any
    /// more, since the missing ones may have replaced it; what was acknowledged may be among the missing.
    fn restore_gap(&mut self, missing: u64);

    /// What all that was given so far tells.
    fn restored(&self) -> Restored;

    /// Whether a checkpoint at this slot with this anchor holds everything that this replica may have acknowledged, and that may
    /// be decided; before [`Order::start`].
    fn covers(&self, slot: Slot, anchor: &Anchor) -> bool;

    /// The durable checkpoint that it needs; before [`Order::start`]. The log begins anew after it.
    ///
    /// # Errors
    /// When the anchor is none of this protocol's.
    fn restore_installed(&mut self, slot: Slot, anchor: &Anchor) -> Result<(), Halt>;

    /// Begins. Everything restored counts as durable: the host rewrote and synced the log's tail. Says
    /// [`Effect::Halt`] when the records as a whole do not continue the checkpoint. Hands nothing on yet: the first input may be
    /// [`Input::Installed`].
    fn start(&mut self, now: Time, out: &mut Effects);

    /// Reacts to one input. `now` was read after what the input brings had arrived.
    fn step(&mut self, now: Time, input: Input, out: &mut Effects);

    /// When to call again with [`Input::Deadline`], if nothing arrives first.
    fn deadline(&self) -> Option<Time>;

    /// How it stands after its last step. Costs nothing.
    fn standing(&self) -> Standing;

    /// Where it stands, whole.
    fn status(&self) -> Status;

    /// What a checkpoint at this slot says of the instance: the same on all replicas. Known from the last
    /// [`Input::Trim`] (or the checkpoint that it began with) to the last slot decided here.
    fn anchor(&self, slot: Slot) -> Option<Anchor>;

    /// The lowest of its own records that must stay in the log, given what is durable now; none when it has no records.
    fn keep_from(&self) -> Option<RecordId>;

    /// Panics with the name of an invariant that does not hold. Cheap ones always; `thorough` scans everything.
    fn invariants(&self, thorough: bool);
}
