//! Single rotten parts of this replica's checkpoints. Each part is asked for from a member that holds the same checkpoint, and from another
//! one if no answer comes. The keeper verifies the bytes before it writes them. Tests: `repairs/tests.rs`.

use quorate_types::{Digest, ReplicaId, Seq, Span, Time};
use quorate_wire::StateMessage;
use std::collections::BTreeMap;

/// How long an answer may take.
const PATIENCE: Span = Span::from_secs(2);
/// The most parts to ask for: a scrub finds the others again.
const PARTS_MAX: usize = 4096;
/// The most parts to ask for at once.
const AT_ONCE: usize = 16;

#[derive(Debug)]
struct Part {
    digest: Digest,
    asked: Option<(ReplicaId, Time)>,
    tries: usize,
}

/// The missing parts.
#[derive(Debug, Default)]
pub(super) struct Repairs {
    parts: BTreeMap<(Seq, u32), Part>,
}

impl Repairs {
    /// A part is rotten.
    pub(super) fn add(&mut self, seq: Seq, digest: Digest, part: u32) {
        if self.parts.len() < PARTS_MAX {
            self.parts.entry((seq, part)).or_insert(Part { digest, asked: None, tries: 0 });
        }
    }

    /// How many parts are missing.
    pub(super) fn len(&self) -> usize {
        self.parts.len()
    }

    /// A part is sound again, or its checkpoint is gone.
    pub(super) fn done(&mut self, seq: Seq, part: u32) {
        self.parts.remove(&(seq, part));
    }

    /// A checkpoint is gone.
    pub(super) fn forget(&mut self, seq: Seq) {
        self.parts.retain(|(of, _), _| *of != seq);
    }

    /// Whether this answer is for an open question: its part, if so.
    pub(super) fn takes(&mut self, from: ReplicaId, seq: Seq, digest: Digest, part: u32) -> bool {
        self.parts.get(&(seq, part)).is_some_and(|waiting| {
            waiting.digest == digest && waiting.asked.is_some_and(|(asked, _)| asked == from)
        })
    }

    /// The answer was useless, or none came: another member is asked.
    pub(super) fn again(&mut self, seq: Seq, part: u32) {
        if let Some(part) = self.parts.get_mut(&(seq, part)) {
            part.asked = None;
        }
    }

    /// A member does not send the part.
    pub(super) fn refused(&mut self, from: ReplicaId, seq: Seq) {
        for ((of, _), part) in &mut self.parts {
            if *of == seq && part.asked.is_some_and(|(asked, _)| asked == from) {
                // Another member is asked when the time is over.
                part.tries += 1;
            }
        }
    }

    /// What to ask now. It depends on which member holds which checkpoint.
    pub(super) fn ask(
        &mut self,
        now: Time,
        holders: impl Fn(Seq, Digest) -> Vec<ReplicaId>,
    ) -> Vec<(ReplicaId, StateMessage)> {
        let mut out = Vec::new();
        for ((seq, number), part) in self.parts.iter_mut().take(AT_ONCE) {
            if part.asked.is_some_and(|(_, at)| now.since(at) < PATIENCE) {
                continue;
            }
            let holders = holders(*seq, part.digest);
            let Some(from) = holders.get(part.tries % holders.len().max(1)).copied() else {
                // No member holds it now: look again later.
                part.asked = Some((ReplicaId::new(0), now));
                continue;
            };
            part.tries += 1;
            part.asked = Some((from, now));
            let message = StateMessage::FetchChunks { seq: *seq, digest: part.digest, chunks: vec![*number] };
            out.push((from, message));
        }
        out
    }

    pub(super) fn deadline(&self) -> Option<Time> {
        let due = |part: &Part| part.asked.map_or(Time::ZERO, |(_, at)| at.plus(PATIENCE));
        self.parts.values().take(AT_ONCE).map(due).min()
    }
}

#[cfg(test)]
mod tests;
