//! Tokens: what batches did, each in one digest with everything before; and what a checkpoint holds about them.
//!
//! Source: Kapritsos (Eve), section 3.4: a token stands for the state and the replies of all batches up to one. Two replicas with one token
//! did the same since the beginning, whatever a liar claims of a single batch.

use super::memo::write_told;
use crate::checkpoint::{CheckpointError, read_exact, read_u64};
use crate::outcomes::Outcomes;
use crate::parallel::ParallelService;
use quorate_state::store::Changed;
use quorate_types::{ClientId, Digest, Seq, planted};

/// What was ruled about results, as a checkpoint has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Chain {
    /// How often everything was run again, by the rulings up to the checkpoint.
    pub(crate) attempt: u64,
    /// The last seq that those rulings made final.
    pub(crate) ruled: Seq,
    /// The last seq up to the checkpoint that a ruling has to make final.
    pub(crate) loud: Seq,
    /// The token of the checkpoint's seq.
    pub(crate) token: Digest,
}

impl Chain {
    /// How many bytes it has in a checkpoint.
    pub(crate) const BYTES: usize = 24 + Digest::BYTES;

    /// Before the first batch.
    pub(crate) const fn begin() -> Self {
        Self { attempt: 0, ruled: Seq::ZERO, loud: Seq::ZERO, token: Digest::new([0; Digest::BYTES]) }
    }

    /// `attempt u64 | ruled u64 | loud u64 | token (32)`.
    pub(crate) fn write_to(&self, out: &mut Vec<u8>) {
        for number in [self.attempt, self.ruled.number(), self.loud.number()] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        out.extend_from_slice(self.token.bytes());
    }

    /// Reads what [`Self::write_to`] writes.
    pub(crate) fn read(mut bytes: &[u8]) -> Result<Self, CheckpointError> {
        let from = &mut bytes;
        let (attempt, ruled, loud) = (read_u64(from)?, Seq::new(read_u64(from)?), Seq::new(read_u64(from)?));
        let mut token = [0; Digest::BYTES];
        read_exact(from, &mut token)?;
        Ok(Self { attempt, ruled, loud, token: Digest::new(token) })
    }
}

/// The token after a batch: of the token before, and of what the batch did.
pub(super) fn chained(before: &Digest, did: &Digest) -> Digest {
    let mut hash = blake3::Hasher::new();
    if !planted("token-without-chain") {
        hash.update(before.bytes());
    }
    hash.update(did.bytes());
    Digest::new(*hash.finalize().as_bytes())
}

/// What a batch did: the seq, the outcomes, what the batch told observers, and the objects that it changed.
pub(super) fn did(outcomes: &Outcomes, service: Option<&dyn ParallelService>, changed: &Changed) -> Digest {
    let mut hash = blake3::Hasher::new();
    let mut bytes = Vec::with_capacity(64 + outcomes.list().len() * 40);
    bytes.extend_from_slice(&outcomes.seq().number().to_le_bytes());
    // Lengths come before what they are about: the same bytes never are something else that was done.
    bytes.extend_from_slice(&(outcomes.list().len() as u64).to_le_bytes());
    for outcome in outcomes.list() {
        bytes.extend_from_slice(&outcome.session.number().to_le_bytes());
        bytes.extend_from_slice(&outcome.number.number().to_le_bytes());
        bytes.push(outcome.status as u8);
        bytes.push(u8::from(outcome.withheld) | u8::from(outcome.opening.is_some()) << 1);
        bytes.extend_from_slice(&outcome.opening.map_or(0, ClientId::number).to_le_bytes());
        bytes.extend_from_slice(&(outcome.body.len() as u64).to_le_bytes());
    }
    hash.update(&bytes);
    hash.update(outcomes.arena());
    bytes.clear();
    write_told(service, outcomes, &mut bytes);
    hash.update(&bytes);
    for (key, value) in changed.iter() {
        let kept = value.map_or(u64::MAX, |value| value.len() as u64);
        hash.update(&(key.len() as u64).to_le_bytes());
        hash.update(&kept.to_le_bytes());
        hash.update(key);
        hash.update(value.unwrap_or_default());
    }
    Digest::new(*hash.finalize().as_bytes())
}

#[cfg(test)]
mod tests;
