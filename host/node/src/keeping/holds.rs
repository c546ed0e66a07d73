//! Which peer fetches which checkpoint from here. The checkpoint stays until it has been sent, and so does the log since then: the state
//! may change faster than it can be sent, and a peer that had to begin anew at each border would never finish.
//!
//! A hold ends when a member says that it has reached a border, or when an operator who makes a backup disconnects. The log grows for them
//! only as far as the configuration allows (`log_bytes_max`), and not at all on a full disk. A peer that asks for nothing for [`IDLE`] has
//! given up, even if its connection is open. Tests: `holds/tests.rs`, front/cli/tests/hurt/state.rs.

use super::own::Own;
use quorate_types::{ReplicaId, Seq, Span, Time};
use std::collections::BTreeMap;

/// How long a checkpoint is kept after a peer last asked for a part of it.
pub(super) const IDLE: Span = Span::from_secs(300);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Hold {
    /// The seq from which the peer needs the log.
    seq: Seq,
    /// If the peer needs the checkpoint itself, too: when it last asked for a part of it.
    fetches: Option<Time>,
}

/// What is held back, and for which peers.
#[derive(Debug, Default)]
pub(super) struct Holds(BTreeMap<ReplicaId, Hold>);

impl Holds {
    /// A peer asks for a part of a checkpoint; `here`: whether this replica has the checkpoint.
    pub(super) fn asked(&mut self, now: Time, by: ReplicaId, seq: Seq, here: bool) {
        if here {
            self.0.insert(by, Hold { seq, fetches: Some(now) });
        } else {
            // The peer has given up the checkpoint that it fetched before.
            self.0.remove(&by);
        }
    }

    /// A member has the state at a border; `newest` is the newest durable checkpoint here.
    pub(super) fn reached(&mut self, by: ReplicaId, seq: Seq, newest: Seq) {
        let Some(hold) = self.0.get_mut(&by).filter(|hold| hold.seq <= seq) else { return };
        *hold = Hold { seq, fetches: None };
        if seq >= newest {
            self.0.remove(&by);
        }
    }

    /// A peer's connection is gone.
    pub(super) fn left(&mut self, by: ReplicaId) {
        self.0.remove(&by);
    }

    /// Drops holds that no peer used for long.
    pub(super) fn expire(&mut self, now: Time) {
        self.0.retain(|_, hold| hold.fetches.is_none_or(|asked| now.since(asked) < IDLE));
    }

    /// When to call [`Self::expire`].
    pub(super) fn deadline(&self) -> Option<Time> {
        self.0.values().filter_map(|hold| hold.fetches).min().map(|asked| asked.plus(IDLE))
    }

    /// The checkpoints that peers are fetching.
    pub(super) fn fetched(&self) -> Vec<Seq> {
        let mut seqs: Vec<Seq> =
            self.0.values().filter(|hold| hold.fetches.is_some()).map(|hold| hold.seq).collect();
        seqs.sort_unstable();
        seqs.dedup();
        seqs
    }

    /// The peers for which the log is held back.
    pub(super) fn members(&self) -> impl Iterator<Item = ReplicaId> {
        self.0.keys().copied()
    }

    /// How far the log may be trimmed, if everything else allows `to`. `own`: the checkpoints here, oldest first; `log`: the bytes at which
    /// the log begins and ends.
    pub(super) fn hold_back<'a>(
        &self,
        to: Own,
        own: impl DoubleEndedIterator<Item = &'a Own>,
        log: (u64, u64),
        log_bytes_max: u64,
    ) -> Option<Own> {
        let oldest = self.0.values().map(|hold| hold.seq).min();
        let Some(oldest) = oldest.filter(|oldest| *oldest < to.seq) else { return Some(to) };
        let kept = own.rev().find(|own| own.seq <= oldest).copied();
        let since = kept.map_or(0, |own| own.log_position).max(log.0);
        if log.1.saturating_sub(since) > log_bytes_max { Some(to) } else { kept }
    }
}

#[cfg(test)]
mod tests;
