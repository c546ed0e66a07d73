//! Something that speaks for a replica in place of its node: for clusters in which some lie on purpose, to see what the others make of it.
//!
//! A replica has none unless whoever starts it gives it one ([`crate::Options::mouth`]). What the node thinks, writes and answers
//! operators is not touched.

use quorate_types::{ConnId, ReplicaId, Span, Time};
use quorate_wire::{Frame, OutFrame};
use std::collections::BTreeMap;

/// The other end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listener {
    /// The connection.
    pub conn: ConnId,
    /// The member there; none for clients, operators and strangers.
    pub member: Option<ReplicaId>,
}

/// A frame that leaves.
#[derive(Clone, Debug)]
pub struct Saying {
    /// On which connection.
    pub conn: ConnId,
    /// So much later.
    pub after: Span,
    /// What.
    pub frame: OutFrame,
}

/// Speaks for a replica.
pub trait Mouth: Send {
    /// What leaves in place of what the node sends.
    fn instead(&mut self, now: Time, to: Listener, frame: OutFrame) -> Vec<Saying>;

    /// Somebody said this; what leaves for that.
    fn hears(&mut self, now: Time, from: Listener, frame: &Frame) -> Vec<Saying>;
}

/// A mouth, and what it says later.
pub(crate) struct Speech {
    pub(crate) mouth: Box<dyn Mouth>,
    /// By time, and by number among those of the same time.
    later: BTreeMap<(Time, u64), (ConnId, OutFrame)>,
    number: u64,
}

/// So much waits to be said at most: whoever says more late says less.
const LATER_MAX: usize = 1 << 16;

impl Speech {
    pub(crate) fn of(mouth: Box<dyn Mouth>) -> Self {
        Self { mouth, later: BTreeMap::new(), number: 0 }
    }

    /// Keeps what is to be said later.
    pub(crate) fn note(&mut self, now: Time, sayings: Vec<Saying>) {
        for saying in sayings {
            self.number += 1;
            self.later.insert((now.plus(saying.after), self.number), (saying.conn, saying.frame));
        }
        while self.later.len() > LATER_MAX {
            self.later.pop_last();
        }
    }

    /// The next thing that is due.
    pub(crate) fn due(&mut self, now: Time) -> Option<(ConnId, OutFrame)> {
        let next = self.later.first_entry().filter(|next| next.key().0 <= now)?;
        Some(next.remove())
    }

    /// When there is something to be said.
    pub(crate) fn deadline(&self) -> Option<Time> {
        self.later.first_key_value().map(|((at, _), _)| *at)
    }
}

#[cfg(test)]
mod tests;
