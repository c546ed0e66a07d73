//! How a replica must answer a client's requests. The client tells each replica, where an answer counts only when several give it.
//!
//! One replica sends whole replies, some send digests, and the others send nothing until they are asked. One byte:
//!
//! | mode | byte |
//! | --- | --- |
//! | full | 1 |
//! | digests | 2 |
//! | silent | 3 |
//!
//! Source: Bessani, Sousa, Alchieri, "State Machine Replication for the Masses with BFT-SMaRt", DSN 2014 (one full reply, hashes of the
//! others), and Castro, Liskov, "Practical Byzantine Fault Tolerance", OSDI 1999, section 5.1. There, the request names the replica that
//! answers in full; here it is told over the connection, so that the request's bytes stay the same whichever replica is slow. Tests:
//! `tests/all/golden.rs`, `tests/all/properties.rs`.

use crate::client::{Reply, ReplyStatus};
use crate::frame::{FrameKind, OutFrame};
use quorate_types::{Digest, Reject};

/// A reply longer than this, in bytes, is replaced by its digest; for shorter ones that saves nothing.
pub const DIGEST_ABOVE: usize = 256;

/// How a replica answers requests that come over a connection. Ordered: a mode that sends more is smaller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum AnswerMode {
    /// Every reply, whole.
    Full,
    /// Every reply; long ones as digests.
    Digests,
    /// No reply of execution. Requests that are not executed are refused as usual.
    Silent,
}

impl AnswerMode {
    /// The frame that tells a replica this mode.
    pub fn frame(self) -> OutFrame {
        let byte = match self {
            Self::Full => 1,
            Self::Digests => 2,
            Self::Silent => 3,
        };
        OutFrame::new(FrameKind::AnswerMode, &[byte], vec![])
    }

    /// Reads the mode that a client tells.
    ///
    /// # Errors
    /// When the byte is not a mode.
    pub fn decode(payload: &[u8]) -> Result<Self, Reject> {
        match payload {
            [1] => Ok(Self::Full),
            [2] => Ok(Self::Digests),
            [3] => Ok(Self::Silent),
            _ => Err(Reject::Malformed("answer mode: not one byte from 1 to 3")),
        }
    }

    /// What is sent of the reply to an executed request, if anything. `digest`: memory for the digest, if that is sent.
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

/// The digest of a reply's body: its BLAKE3 hash.
pub fn reply_digest(body: &[u8]) -> Digest {
    Digest::new(*blake3::hash(body).as_bytes())
}
