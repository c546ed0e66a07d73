//! Where results are verified: tokens, by which replicas compare what batches did, and rulings, which the order says about them.
//!
//! ```text
//! ruling  0         8     16             48
//!         | attempt | seq | token (32) |        with seq 0 and zeros: run everything again
//! tokens  0         8      16      20
//!         | attempt | last | count | seq u64, token (32) ...
//! early   0         8      16      20
//!         | attempt | view | count | seq u64, token (32) ...
//! ```
//! docs/protocols/eve.md. Tests: `tests/all/golden.rs`, `tests/all/properties.rs`.

use crate::codec::{Put, Reader};
use crate::frame::{FrameKind, OutFrame};
use bytes::Bytes;
use quorate_types::{Digest, Reject, Seq, View};

/// What the order says about results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ruling {
    /// In this attempt, the results up to this seq are those with this token, and final.
    Final {
        /// How often everything was run again before.
        attempt: u64,
        /// The last seq of them; at least 1.
        seq: Seq,
        /// The token of that seq.
        token: Digest,
    },
    /// The next attempt begins: what is not final up to here runs again, one command after the other, and is final then.
    Redo {
        /// The attempt that ends.
        attempt: u64,
    },
}

impl Ruling {
    /// How many bytes it has.
    pub(crate) const BYTES: usize = 48;

    /// The attempt that it is about.
    pub const fn attempt(&self) -> u64 {
        match self {
            Self::Final { attempt, .. } | Self::Redo { attempt } => *attempt,
        }
    }

    pub(crate) fn bytes(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..8].copy_from_slice(&self.attempt().to_le_bytes());
        if let Self::Final { seq, token, .. } = self {
            bytes[8..16].copy_from_slice(&seq.number().to_le_bytes());
            bytes[16..].copy_from_slice(token.bytes());
        }
        bytes
    }

    /// Any bytes are a ruling: with seq 0 the token does not count.
    pub(crate) fn read(bytes: &[u8; Self::BYTES]) -> Self {
        let word = |at: usize| {
            let mut word = [0; 8];
            word.copy_from_slice(&bytes[at..at + 8]);
            u64::from_le_bytes(word)
        };
        let (attempt, seq) = (word(0), Seq::new(word(8)));
        let mut token = [0; Digest::BYTES];
        token.copy_from_slice(&bytes[16..]);
        match seq {
            Seq::ZERO => Self::Redo { attempt },
            _ => Self::Final { attempt, seq, token: Digest::new(token) },
        }
    }
}

/// A message has at most this many tokens.
pub const TOKENS_MAX: usize = 1024;

/// The tokens of batches that a replica ran in one attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tokens {
    /// The attempt.
    pub attempt: u64,
    /// Up to here this replica's results are final.
    pub last: Seq,
    /// The tokens, at most [`TOKENS_MAX`].
    pub list: Vec<(Seq, Digest)>,
}

impl Tokens {
    /// The frame that tells another replica.
    ///
    /// # Panics
    /// When there are more than [`TOKENS_MAX`].
    pub fn frame(&self) -> OutFrame {
        frame(FrameKind::Tokens, [self.attempt, self.last.number()], &self.list)
    }

    /// Reads what another replica tells.
    ///
    /// # Errors
    /// When the bytes are not such a message, or have too many tokens.
    pub fn decode(payload: Bytes) -> Result<Self, Reject> {
        let Read { numbers: [attempt, last], list } = read(payload)?;
        Ok(Self { attempt, last: Seq::new(last), list })
    }
}

/// The tokens of batches that a replica ran in one attempt, and that it does not know to be decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EarlyTokens {
    /// The attempt.
    pub attempt: u64,
    /// The view in which the batches were proposed. The tokens count for what is decided in it.
    pub view: View,
    /// The tokens, at most [`TOKENS_MAX`].
    pub list: Vec<(Seq, Digest)>,
}

impl EarlyTokens {
    /// The frame that tells another replica.
    ///
    /// # Panics
    /// When there are more than [`TOKENS_MAX`].
    pub fn frame(&self) -> OutFrame {
        frame(FrameKind::EarlyTokens, [self.attempt, self.view.number()], &self.list)
    }

    /// Reads what another replica tells.
    ///
    /// # Errors
    /// When the bytes are not such a message, or have too many tokens.
    pub fn decode(payload: Bytes) -> Result<Self, Reject> {
        let Read { numbers: [attempt, view], list } = read(payload)?;
        Ok(Self { attempt, view: View::new(view), list })
    }
}

/// `two numbers u64 | tokens u32 | (seq u64, token (32)) each`.
fn frame(kind: FrameKind, numbers: [u64; 2], list: &[(Seq, Digest)]) -> OutFrame {
    assert!(list.len() <= TOKENS_MAX, "a message has at most {TOKENS_MAX} tokens");
    let mut bytes = Vec::with_capacity(20 + list.len() * (8 + Digest::BYTES));
    numbers.iter().for_each(|number| bytes.put_u64(*number));
    bytes.put_u32(list.len() as u32);
    for (seq, token) in list {
        bytes.put_u64(seq.number());
        bytes.extend_from_slice(token.bytes());
    }
    OutFrame::new(kind, &bytes, vec![])
}

/// What [`frame`] writes.
struct Read {
    numbers: [u64; 2],
    list: Vec<(Seq, Digest)>,
}

fn read(payload: Bytes) -> Result<Read, Reject> {
    let mut r = Reader::new(payload, "tokens");
    let (numbers, count) = ([r.u64()?, r.u64()?], r.u32()? as usize);
    if count > TOKENS_MAX {
        return Err(Reject::TooLarge { what: "tokens", size: count as u64, max: TOKENS_MAX as u64 });
    }
    let one = |_| Ok((Seq::new(r.u64()?), Digest::new(r.array()?)));
    let list = (0..count).map(one).collect::<Result<_, Reject>>()?;
    r.end()?;
    Ok(Read { numbers, list })
}

#[cfg(test)]
mod tests;
