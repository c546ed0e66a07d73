//! What a protocol wants done, in order.

use crate::OrderMessage;
use bytes::Bytes;
use quorate_types::{Digest, Halt, RecordId, Reject, ReplicaId, Slot, View};
use quorate_wire::{Batch, Memberships};
use std::sync::Arc;

/// A protocol's record as the log keeps it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    /// Which of the protocol's records it is.
    pub kind: u8,
    /// The fixed part.
    pub head: Bytes,
    /// The batch, shared.
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
        /// A vote or a view: may use the room that the log keeps in reserve.
        vital: bool,
    },
    /// Send a message. It must not leave before the record `after`, if one is named, is durable.
    Send {
        /// To whom.
        to: ReplicaId,
        /// What.
        message: OrderMessage,
        /// What must be durable before.
        after: Option<RecordId>,
    },
    /// This slot's batch is decided. Slots come in order, each once between two [`crate::Input::Installed`]; the first one
    /// follows the checkpoint that the state machine began with, or that was installed last.
    Decided {
        /// The slot.
        slot: Slot,
        /// Its batch.
        batch: Batch,
    },
    /// Somebody else leads now, or nobody.
    LeaderChanged {
        /// The view.
        view: View,
        /// Who leads in it.
        leader: Option<ReplicaId>,
        /// Whether the leader before had led all that it may at a time: nothing failed.
        rotated: bool,
    },
    /// A strong read may run once everything up to this slot is executed.
    ReadConfirmed {
        /// The read's number.
        read: u64,
        /// The slot.
        slot: Slot,
    },
    /// No leader confirmed this read; the host asks again or gives up.
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
    /// The leader can not send what this replica lacks: it needs a checkpoint of this slot or a later one. Repeated while
    /// that is so, at the pace of heartbeats.
    Behind {
        /// The slot that the checkpoint must reach at least.
        slot: Slot,
    },
    /// These memberships hold in this instance from here on. Not committed: a replica that fails may take them back.
    Members {
        /// One, or two while a change is under way.
        memberships: Arc<Memberships>,
        /// Whether they are committed here.
        committed: bool,
    },
    /// A member sent something that is no part of the protocol: evidence, never fatal.
    Rejected {
        /// Who.
        from: ReplicaId,
        /// What was wrong.
        why: Reject,
    },
    /// A request that is watched ([`crate::Input::Watch`]) waits for too long: the host sends it to the leader. If that does not
    /// help, the protocol complains about the leader.
    Overdue {
        /// The request, by the digest of its bytes.
        request: Digest,
    },
    /// Is everything in this batch from whom it says? The host answers with [`crate::Input::Vouched`] once it knows. As long as it does not,
    /// this replica alone does not vote for the batch. Only with Byzantine faults; asked again in a later view, if the batch is proposed
    /// again before it was answered.
    Examine {
        /// The slot that it is proposed for.
        slot: Slot,
        /// The digest of the batch's bytes.
        digest: Digest,
        /// The batch.
        batch: Batch,
    },
    /// The log can not be trusted any more.
    Halt(Halt),
}

/// The list of effects that one or several steps appended, reused from step to step.
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
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }
}
