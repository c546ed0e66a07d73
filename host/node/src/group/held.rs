//! Messages that wait until a record of their instance is durable (INV-NODE-1).

use quorate_order::OrderMessage;
use quorate_types::{RecordId, ReplicaId};
use std::collections::VecDeque;

/// A message that may not leave yet.
#[derive(Debug)]
struct Waiting {
    /// The instance's record that must be durable first.
    after: RecordId,
    to: ReplicaId,
    message: OrderMessage,
}

/// The messages of an instance that wait.
#[derive(Debug, Default)]
pub(super) struct Held {
    waiting: VecDeque<Waiting>,
    /// The last record of the instance that its protocol knows to be durable.
    durable: RecordId,
}

impl Held {
    /// The instance's records up to this one are durable.
    pub(super) fn durable(&mut self, record: RecordId) {
        self.durable = record;
    }

    /// The last record of the instance that is known to be durable.
    pub(super) const fn known_durable(&self) -> RecordId {
        self.durable
    }

    /// Whether a message that names this record has to wait.
    pub(super) fn holds(&self, after: RecordId) -> bool {
        after > self.durable
    }

    pub(super) fn hold(&mut self, after: RecordId, to: ReplicaId, message: OrderMessage) {
        self.waiting.push_back(Waiting { after, to, message });
    }

    /// The next message whose record is durable.
    pub(super) fn release(&mut self) -> Option<(ReplicaId, OrderMessage)> {
        if self.waiting.is_empty() {
            return None; // in nearly every turn
        }
        let durable = self.durable;
        let Waiting { to, message, .. } = self.waiting.pop_front_if(|wait| wait.after <= durable)?;
        Some((to, message))
    }

    /// The record that the next message waits for.
    pub(super) fn awaited(&self) -> Option<RecordId> {
        self.waiting.front().map(|wait| wait.after)
    }
}
