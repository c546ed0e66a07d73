//! Messages that wait until a record of their instance is durable (INV-NODE-1).

use crate::journal::VolumeId;
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
#[derive(Debug)]
pub(super) struct Held {
    volume: VolumeId,
    waiting: VecDeque<Waiting>,
    /// The last record of the instance that its protocol knows to be durable.
    durable: RecordId,
    /// How much of the log was durable when that was looked up.
    seen: RecordId,
}

impl Held {
    pub(super) const fn new(volume: VolumeId) -> Self {
        Self { volume, waiting: VecDeque::new(), durable: RecordId::ZERO, seen: RecordId::ZERO }
    }

    pub(super) const fn volume(&self) -> VolumeId {
        self.volume
    }

    /// Whether this much of the log was already durable at the last look.
    pub(super) fn has_seen(&self, log: RecordId) -> bool {
        self.seen == log
    }

    /// This much of the log is durable. Whether that is new.
    pub(super) fn sees(&mut self, log: RecordId) -> bool {
        std::mem::replace(&mut self.seen, log) != log
    }

    /// The instance's records up to this one are durable.
    pub(super) fn durable(&mut self, record: RecordId) {
        self.durable = record;
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
        let durable = self.durable;
        let Waiting { to, message, .. } = self.waiting.pop_front_if(|wait| wait.after <= durable)?;
        Some((to, message))
    }

    /// The record that the next message waits for.
    pub(super) fn awaited(&self) -> Option<RecordId> {
        self.waiting.front().map(|wait| wait.after)
    }
}
