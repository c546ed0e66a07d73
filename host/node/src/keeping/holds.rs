//! Who fetches which checkpoint from here. It stays until they have it, and so does the log since: all of a state may change faster
//! than it can be sent, and whoever had to begin anew with each border would never be done.
//!
//! Members say what they have reached at each border, and operators who make backups leave. The log grows no further for them than the
//! configuration allows (`log_bytes_max`), and not at all on a full disk. Whoever asks for nothing for [`IDLE`] has given up, though its
//! connection stands. Tests: `holds/tests.rs`, front/cli/tests/hurt/state.rs.

use super::own::Own;
use quorate_types::{ReplicaId, Seq, Span, Time};
use std::collections::BTreeMap;

/// A checkpoint is kept for so long after the last part of it was asked for.
pub(super) const IDLE: Span = Span::from_secs(300);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Hold {
    /// It needs the log from here on.
    seq: Seq,
    /// It needs the checkpoint itself, too: when it asked for a part of it last.
    fetches: Option<Time>,
}

/// What is held back, and for whom.
#[derive(Debug, Default)]
pub(super) struct Holds(BTreeMap<ReplicaId, Hold>);

impl Holds {
    /// Somebody asks for parts of a checkpoint; `here`: this replica has it.
    pub(super) fn asked(&mut self, now: Time, by: ReplicaId, seq: Seq, here: bool) {
        if here {
            self.0.insert(by, Hold { seq, fetches: Some(now) });
        } else {
            // What it fetched before it has given up.
            self.0.remove(&by);
        }
    }

    /// Somebody has the state at a border; `newest` is the newest one that is durable here.
    pub(super) fn reached(&mut self, by: ReplicaId, seq: Seq, newest: Seq) {
        let Some(hold) = self.0.get_mut(&by).filter(|hold| hold.seq <= seq) else { return };
        *hold = Hold { seq, fetches: None };
        if seq >= newest {
            self.0.remove(&by);
        }
    }

    /// Its connection is gone.
    pub(super) fn left(&mut self, by: ReplicaId) {
        self.0.remove(&by);
    }

    /// Lets go what nobody asked for in a long time.
    pub(super) fn expire(&mut self, now: Time) {
        self.0.retain(|_, hold| hold.fetches.is_none_or(|asked| now.since(asked) < IDLE));
    }

    /// When to call [`Self::expire`].
    pub(super) fn deadline(&self) -> Option<Time> {
        self.0.values().filter_map(|hold| hold.fetches).min().map(|asked| asked.plus(IDLE))
    }

    /// The checkpoints that are being fetched.
    pub(super) fn fetched(&self) -> Vec<Seq> {
        let mut seqs: Vec<Seq> =
            self.0.values().filter(|hold| hold.fetches.is_some()).map(|hold| hold.seq).collect();
        seqs.sort_unstable();
        seqs.dedup();
        seqs
    }

    /// For whom the log is held back.
    pub(super) fn members(&self) -> impl Iterator<Item = ReplicaId> {
        self.0.keys().copied()
    }

    /// How far the log may be trimmed where all else would let it be trimmed up to `to`. `own`: the checkpoints here, oldest first;
    /// `log`: where the log begins and ends, in bytes.
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
