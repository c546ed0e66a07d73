//! What a protocol asks of its host, in order.

use crate::OrderMessage;
use crate::mod_smart::evidence::Evidence;
use crate::visigoth::OracleRequest;
use bytes::Bytes;
use quorate_auth::MembershipLink;
use quorate_types::{Digest, Halt, RecordId, Reject, ReplicaId, Slot, View};
use quorate_wire::{Batch, Memberships};
use std::sync::Arc;

/// A protocol's record as the log keeps it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    /// The kind of record, as the protocol numbers its kinds.
    pub kind: u8,
    /// The fixed part.
    pub head: Bytes,
    /// The batch, shared and not copied.
    pub payload: Bytes,
}

/// One thing that the host, or the next stage, is to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Make this record durable, then answer with `Input::Durable`. The protocol numbers its records itself, from 1,
    /// without gaps, in the order of these effects.
    Persist {
        /// The record's number.
        id: RecordId,
        /// The record.
        record: Stored,
        /// It is a vote or a view, so it may use the room that the log keeps in reserve.
        vital: bool,
    },
    /// Send a message. If `after` names a record, the message must not leave before that record is durable.
    Send {
        /// The receiver.
        to: ReplicaId,
        /// The message.
        message: OrderMessage,
        /// The record that must be durable before the message leaves.
        after: Option<RecordId>,
    },
    /// This slot's batch came into the log here; it was proposed in this view, after the batches before it in the log. As long as it is not decided,
    /// another batch may take its place, and those behind are then gone, too. Only with [`crate::OrderConfig::tells_proposed`].
    Proposed {
        /// The slot.
        slot: Slot,
        /// The view in which it was proposed.
        view: View,
        /// The batch.
        batch: Batch,
    },
    /// This slot's batch is decided. Slots come in order, each once between two [`crate::Input::Installed`]. The first slot follows the
    /// checkpoint that the state machine began with, or that was installed last.
    Decided {
        /// The slot.
        slot: Slot,
        /// Its batch.
        batch: Batch,
    },
    /// Another replica leads now, or none.
    LeaderChanged {
        /// The view.
        view: View,
        /// The leader of the view.
        leader: Option<ReplicaId>,
        /// Whether nothing failed in the view before: its leader had led as many slots as it may in a row, or gave up its office.
        planned: bool,
    },
    /// A strong read may run once everything up to this slot is executed.
    ReadConfirmed {
        /// The read's number.
        read: u64,
        /// The slot.
        slot: Slot,
    },
    /// No leader confirmed this read. The host asks again or gives up.
    ReadFailed {
        /// The read's number.
        read: u64,
    },
    /// Read these records back from the log, then answer with `Input::Loaded`.
    Load {
        /// The number of this question.
        load: u64,
        /// Which records, all of them durable.
        records: Vec<RecordId>,
    },
    /// The leader can not send what this replica lacks, so this replica needs a checkpoint of this slot or a later one. Repeated at the
    /// pace of heartbeats until it has one.
    Behind {
        /// The checkpoint must reach this slot at least.
        slot: Slot,
    },
    /// These memberships hold in this instance from here on. As long as they are not committed, a replica that fails may take them back.
    Members {
        /// One, or two while a change is under way.
        memberships: Arc<Memberships>,
        /// Whether they are committed here.
        committed: bool,
    },
    /// A member sent something that the protocol does not allow: evidence, never fatal.
    Rejected {
        /// The member.
        from: ReplicaId,
        /// What was wrong with its message.
        why: Reject,
    },
    /// A member signed what no honest member signs, and this proves it to whoever has its public key. At most one for each member and
    /// kind in one life of the protocol. The host keeps it.
    Proved(Box<Evidence>),
    /// The first instance decided a change of its membership, and this proves the next membership to who knows the one before. The host
    /// keeps it for those who come later. Only where members sign.
    Link(Box<MembershipLink>),
    /// A watched request ([`crate::Input::Watch`]) has waited for too long. The host sends it to the leader. If that does not help, the
    /// protocol complains about the leader.
    Overdue {
        /// The request, by the digest of its bytes.
        request: Digest,
    },
    /// Asks whether every request in this batch is from the client that it names. The host answers with [`crate::Input::Vouched`] once it
    /// knows. Until then this replica alone does not vote for the batch. Only with Byzantine faults. If the batch is proposed again in a
    /// later view before the answer, the question is repeated.
    Examine {
        /// The slot that it is proposed for.
        slot: Slot,
        /// The digest of the batch's bytes.
        digest: Digest,
        /// The batch.
        batch: Batch,
    },
    /// Ask the oracle about this instance, then answer with [`crate::Input::Oracle`]. Only where few members are slow (Visigoth, s < u).
    Oracle(OracleRequest),
    /// These are now all the small quorums beside the usual one; none at the start. Only where few members are slow (Visigoth, s < u).
    SmallQuorums {
        /// The members of each.
        sets: Vec<Vec<ReplicaId>>,
    },
    /// The log can not be trusted any more.
    Halt(Halt),
}

/// The list to which one or several steps append their effects. It is reused from step to step.
#[derive(Debug, Default)]
pub struct Effects {
    list: Vec<Effect>,
}

impl Effects {
    /// An empty list.
    pub fn new() -> Self {
        Self::default()
    }
    /// Appends one effect.
    pub fn push(&mut self, effect: Effect) {
        self.list.push(effect);
    }
    /// Takes all effects, in order.
    pub fn drain(&mut self) -> impl Iterator<Item = Effect> {
        self.list.drain(..)
    }
    /// Whether the list is empty.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }
}
