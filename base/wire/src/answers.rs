//! How a replica is to answer a client's requests: what the client tells each of them where an answer is what several say alike.
//!
//! One of them sends replies whole, some send what stands for them, and the others say nothing until they are asked to. One byte:
//!
//! | mode | byte |
//! | --- | --- |
//! | full | 1 |
//! | digests | 2 |
//! | silent | 3 |
//!
//! Source: Bessani, Sousa, Alchieri, "State Machine Replication for the Masses with BFT-SMaRt", DSN 2014 (one reply in full, hashes of the
//! others), and Castro, Liskov, "Practical Byzantine Fault Tolerance", OSDI 1999, section 5.1. There the request names who answers in full; here the
//! connection does, so that the request's bytes stay the same whoever is slow. Tests: `tests/all/golden.rs`, `tests/all/properties.rs`.

use crate::client::{Reply, ReplyStatus};
use crate::frame::{FrameKind, OutFrame};
use quorate_types::{Digest, Reject};

/// Replies with more bytes than this have a digest sent for them; it saves nothing for shorter ones.
pub const DIGEST_ABOVE: usize = 256;

/// How a replica answers what comes over a connection; the more it sends, the less.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum AnswerMode {
    /// Every reply, whole.
    Full,
    /// Every reply; of long ones the digest.
    Digests,
    /// None of those that execution gives. What was not executed is refused as ever.
    Silent,
}

impl AnswerMode {
    /// The frame that says so.
    pub fn frame(self) -> OutFrame {
        let byte = match self {
            Self::Full => 1,
            Self::Digests => 2,
            Self::Silent => 3,
        };
        OutFrame::new(FrameKind::AnswerMode, &[byte], vec![])
    }

    /// Reads what a client says.
    ///
    /// # Errors
    /// When it is none of these.
    pub fn decode(payload: &[u8]) -> Result<Self, Reject> {
        match payload {
            [1] => Ok(Self::Full),
            [2] => Ok(Self::Digests),
            [3] => Ok(Self::Silent),
            _ => Err(Reject::Malformed("answer mode: not one byte from 1 to 3")),
        }
    }

    /// What of a reply to an executed request is sent. `digest`: where the digest is put, if it is one.
    pub fn shape<'a>(self, reply: Reply<'a>, digest: &'a mut [u8; Digest::BYTES]) -> Option<Reply<'a>> {
        match self {
            Self::Full => Some(reply),
            Self::Silent => None,
            Self::Digests if reply.status == ReplyStatus::Done && reply.body.len() > DIGEST_ABOVE => {
                *digest = *reply_digest(reply.body).bytes();
                Some(Reply { status: ReplyStatus::DoneDigest, body: digest, ..reply })
            }
            Self::Digests => Some(reply),
        }
    }
}

/// What stands for a reply's body: its BLAKE3 hash.
pub fn reply_digest(body: &[u8]) -> Digest {
    Digest::new(*blake3::hash(body).as_bytes())
}
