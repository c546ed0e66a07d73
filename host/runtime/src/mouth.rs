//! Sends other messages in place of a replica's node: for clusters in which some replicas lie on purpose, to test the others.
//!
//! A replica has no mouth unless it is started with one ([`crate::Options::mouth`]). The node's execution, its log and its answers to
//! operators are not affected.

use quorate_types::{ConnId, ReplicaId, Span, Time};
use quorate_wire::{Frame, OutFrame};
use std::collections::BTreeMap;

/// The other end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listener {
    /// The connection.
    pub conn: ConnId,
    /// The member there; `None` for clients, operators and unknown sides.
    pub member: Option<ReplicaId>,
}

/// A frame to send.
#[derive(Clone, Debug)]
pub struct Saying {
    /// The connection.
    pub conn: ConnId,
    /// How much later it leaves.
    pub after: Span,
    /// The frame.
    pub frame: OutFrame,
}

/// Replaces the messages of a replica.
pub trait Mouth: Send {
    /// The frames to send in place of a frame of the node.
    fn instead(&mut self, now: Time, to: Listener, frame: OutFrame) -> Vec<Saying>;

    /// The frames to send because of a frame that was received.
    fn hears(&mut self, now: Time, from: Listener, frame: &Frame) -> Vec<Saying>;
}

/// A mouth, and its delayed frames.
pub(crate) struct Speech {
    pub(crate) mouth: Box<dyn Mouth>,
    /// By time, then by number.
    later: BTreeMap<(Time, u64), (ConnId, OutFrame)>,
    number: u64,
}

/// The most delayed frames; further ones are dropped.
const LATER_MAX: usize = 1 << 16;

impl Speech {
    pub(crate) fn of(mouth: Box<dyn Mouth>) -> Self {
        Self { mouth, later: BTreeMap::new(), number: 0 }
    }

    /// Keeps frames to be sent later.
    pub(crate) fn note(&mut self, now: Time, sayings: Vec<Saying>) {
        for saying in sayings {
            self.number += 1;
            self.later.insert((now.plus(saying.after), self.number), (saying.conn, saying.frame));
        }
        while self.later.len() > LATER_MAX {
            self.later.pop_last();
        }
    }

    /// The next frame that is due.
    pub(crate) fn due(&mut self, now: Time) -> Option<(ConnId, OutFrame)> {
        let next = self.later.first_entry().filter(|next| next.key().0 <= now)?;
        Some(next.remove())
    }

    /// When the next frame is due.
    pub(crate) fn deadline(&self) -> Option<Time> {
        self.later.first_key_value().map(|((at, _), _)| *at)
    }
}

#[cfg(test)]
mod tests;
