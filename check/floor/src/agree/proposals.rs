//! The leader's batches: the one being filled, and those that some replica or the log file does not have yet.

use super::message::{Kind, Message, Sender};
use crate::tag::{self, Digest};
use std::collections::VecDeque;
use std::rc::Rc;

/// The most bytes of proposals that are kept for slow replicas, and the most proposals.
const KEPT_BYTES_MAX: usize = 64 << 20;
const KEPT_MAX: usize = 1024;

/// A proposal, and the digest of its batch.
pub(crate) type Proposal = (Rc<Message>, Digest);

pub(crate) struct Proposals {
    replicas: usize,
    batch_bytes: usize,
    command_bytes: usize,
    open: Message,
    /// Bytes of commands in `open`.
    filled: usize,
    kept: VecDeque<Rc<Message>>,
    kept_max: usize,
    free: Vec<Message>,
}

impl Proposals {
    pub(crate) fn new(replicas: usize, batch_bytes: usize, command_bytes: usize) -> Proposals {
        Proposals {
            replicas,
            batch_bytes,
            command_bytes,
            open: Message::new(replicas, batch_bytes),
            filled: 0,
            kept: VecDeque::new(),
            kept_max: (KEPT_BYTES_MAX / batch_bytes).clamp(8, KEPT_MAX),
            free: Vec::new(),
        }
    }

    /// Where the next bytes of commands go. If it is empty, the batch must be sealed first.
    pub(crate) fn unfilled(&mut self) -> &mut [u8] {
        &mut self.open.batch()[self.filled..]
    }

    /// Whether there is room for more bytes of commands.
    pub(crate) fn takes_commands(&self) -> bool {
        self.filled < self.batch_bytes
    }

    /// `n` more bytes of commands are in place.
    pub(crate) fn filled(&mut self, n: usize) {
        self.filled += n;
    }

    /// Puts one command into the open batch. `false`: there is no room.
    pub(crate) fn push(&mut self, command: &[u8]) -> bool {
        match self.unfilled().get_mut(..command.len()) {
            Some(place) => place.copy_from_slice(command),
            None => return false,
        }
        self.filled(command.len());
        true
    }

    /// Whether the open batch has a whole command.
    pub(crate) fn is_due(&self) -> bool {
        self.filled >= self.command_bytes
    }

    /// Closes the open batch after its last whole command and proposes it for this slot. `None`: it has no whole command, or too much is
    /// kept for slow replicas.
    pub(crate) fn seal(&mut self, slot: u64, sender: &Sender) -> Option<Proposal> {
        while self.kept.front().is_some_and(|oldest| Rc::strong_count(oldest) == 1) {
            self.free.extend(self.kept.pop_front().and_then(Rc::into_inner));
        }
        if !self.is_due() || self.kept.len() >= self.kept_max {
            return None;
        }
        let whole = self.filled / self.command_bytes * self.command_bytes;
        let mut next = self.free.pop().unwrap_or_else(|| Message::new(self.replicas, self.batch_bytes));
        let batch = self.open.batch();
        let left = &batch[whole..self.filled];
        next.batch()[..left.len()].copy_from_slice(left);
        let digest = tag::digest(&batch[..whole]);
        self.filled -= whole;
        let mut sealed = std::mem::replace(&mut self.open, next);
        sealed.seal(whole, Kind::Propose, slot, &digest, sender);
        let sealed = Rc::new(sealed);
        self.kept.push_back(sealed.clone());
        Some((sealed, digest))
    }
}

#[cfg(test)]
mod tests;
