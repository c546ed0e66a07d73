//! Where results may come out differently: what batches did, from a replica that has what was ruled to one that has something else.
//!
//! ```text
//! wanted  0       8       16
//!         | after | up to | from |
//! memos   0               24        32      36
//!         | as in wanted  | through | count | step: seq u64, digest (32) ... | count u32 | memo: seq u64, before (32), bytes u32, body ...
//! ```
//! The steps are those of all batches behind `after`, up to `up to`: with the token before them they give the last token, so nothing in
//! them has to be believed. docs/protocols/speculative.md. Tests: `memos/tests.rs`, `tests/all/golden.rs`.

use crate::codec::{Put, Reader};
use crate::frame::{FrameKind, OutFrame};
use bytes::Bytes;
use quorate_types::{Digest, Reject, Seq};

/// A message has at most this many steps, and this many memos.
pub const STEPS_MAX: usize = 4096;

/// Asks for what batches did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemosWanted {
    /// The asker has what was ruled up to this seq.
    pub after: Seq,
    /// It lacks what was ruled up to this one.
    pub up_to: Seq,
    /// The first seq whose memo it lacks. The steps are wanted if that is the first of all.
    pub from: Seq,
}

/// What batches did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Memos {
    /// The question.
    pub wanted: MemosWanted,
    /// The digest of what each batch did, at most [`STEPS_MAX`].
    pub steps: Vec<(Seq, Digest)>,
    /// The memos up to this seq are here, or came before.
    pub through: Seq,
    /// The memos, at most [`STEPS_MAX`]. A batch without one does the same whenever it runs one request after the other.
    pub list: Vec<SentMemo>,
}

/// What a batch did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SentMemo {
    /// The batch.
    pub seq: Seq,
    /// The token before it.
    pub before: Digest,
    /// Outcomes and changed objects.
    pub body: Bytes,
}

impl MemosWanted {
    /// Whether steps are wanted.
    pub fn wants_steps(&self) -> bool {
        self.from == self.after.next()
    }

    /// The frame that asks another replica.
    pub fn frame(&self) -> OutFrame {
        let mut bytes = Vec::with_capacity(24);
        self.write_to(&mut bytes);
        OutFrame::new(FrameKind::MemosWanted, &bytes, vec![])
    }

    /// Reads what another replica asks.
    ///
    /// # Errors
    /// When the bytes are not such a question.
    pub fn decode(payload: Bytes) -> Result<Self, Reject> {
        let mut r = Reader::new(payload, "question for memos");
        let wanted = Self::read(&mut r)?;
        r.end()?;
        Ok(wanted)
    }

    fn write_to(&self, bytes: &mut Vec<u8>) {
        for seq in [self.after, self.up_to, self.from] {
            bytes.put_u64(seq.number());
        }
    }

    fn read(r: &mut Reader) -> Result<Self, Reject> {
        let (after, up_to, from) = (Seq::new(r.u64()?), Seq::new(r.u64()?), Seq::new(r.u64()?));
        if after < from && from <= up_to && after.number() < u64::MAX {
            return Ok(Self { after, up_to, from });
        }
        Err(Reject::Malformed("question for memos: no seqs"))
    }
}

impl Memos {
    /// The frame that tells another replica.
    ///
    /// # Panics
    /// When there are more than [`STEPS_MAX`] of something.
    pub fn frame(&self) -> OutFrame {
        let most = self.steps.len().max(self.list.len());
        assert!(most <= STEPS_MAX, "a message has at most {STEPS_MAX} steps, and as many memos");
        let bodies: usize = self.list.iter().map(|memo| 12 + Digest::BYTES + memo.body.len()).sum();
        let mut bytes = Vec::with_capacity(40 + self.steps.len() * (8 + Digest::BYTES) + bodies);
        self.wanted.write_to(&mut bytes);
        bytes.put_u64(self.through.number());
        bytes.put_u32(self.steps.len() as u32);
        for (seq, digest) in &self.steps {
            bytes.put_u64(seq.number());
            bytes.extend_from_slice(digest.bytes());
        }
        bytes.put_u32(self.list.len() as u32);
        for SentMemo { seq, before, body } in &self.list {
            bytes.put_u64(seq.number());
            bytes.extend_from_slice(before.bytes());
            bytes.put_u32(body.len() as u32);
            bytes.extend_from_slice(body);
        }
        OutFrame::new(FrameKind::Memos, &bytes, vec![])
    }

    /// Reads what another replica tells.
    ///
    /// # Errors
    /// When the bytes are not such a message, or have too many steps or memos.
    pub fn decode(payload: Bytes) -> Result<Self, Reject> {
        let mut r = Reader::new(payload, "memos");
        let (wanted, through) = (MemosWanted::read(&mut r)?, Seq::new(r.u64()?));
        let count = count(&mut r)?;
        let step = |_| Ok((Seq::new(r.u64()?), Digest::new(r.array()?)));
        let steps = (0..count).map(step).collect::<Result<_, Reject>>()?;
        let count = self::count(&mut r)?;
        let memo = |_| {
            let (seq, before) = (Seq::new(r.u64()?), Digest::new(r.array()?));
            let len = r.u32()? as usize;
            Ok(SentMemo { seq, before, body: r.bytes(len)? })
        };
        let list = (0..count).map(memo).collect::<Result<_, Reject>>()?;
        r.end()?;
        Ok(Self { wanted, steps, through, list })
    }
}

fn count(r: &mut Reader) -> Result<usize, Reject> {
    match r.u32()? as usize {
        count if count > STEPS_MAX => {
            Err(Reject::TooLarge { what: "memos", size: count as u64, max: STEPS_MAX as u64 })
        }
        count => Ok(count),
    }
}

#[cfg(test)]
mod tests;
