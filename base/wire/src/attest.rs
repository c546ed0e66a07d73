//! Who asks a replica to sign the digest of a checkpoint, and its answer. What the signature proves, `base/auth` says.
//!
//! Drawing: docs/formats/wire.md. Tests: base/wire/tests.

use crate::{FrameKind, OutFrame, Put, Reader};
use bytes::Bytes;
use quorate_types::{Digest, MembershipId, Reject, Seq};

/// A signature under the digest of a checkpoint has at most this many bytes.
const SIGNATURE_MAX: usize = 64;
/// The text of a refusal has at most this many bytes.
const WHY_MAX: usize = 512;

const SIGNED: u8 = 1;
const REFUSED: u8 = 2;

/// A replica's answer to who asks it to attest a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attested {
    /// The seq of the checkpoint.
    pub seq: Seq,
    /// The digest of its image.
    pub digest: Digest,
    /// What the replica says of it.
    pub answer: AttestAnswer,
}

/// What a replica says of a checkpoint that it is asked to attest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AttestAnswer {
    /// It signs the digest.
    Signed {
        /// The membership in which it signs: it votes there, and that tells which of its keys counts.
        membership: MembershipId,
        /// Its signature; what it covers is `checkpoint_statement` of `base/auth`.
        signature: Bytes,
    },
    /// It does not, for this reason, in words.
    Refused(String),
}

/// The frame that asks a replica to sign the digest of a checkpoint.
pub fn attest_request(seq: Seq, digest: Digest) -> OutFrame {
    let mut out = Vec::with_capacity(8 + Digest::BYTES);
    out.put_u64(seq.number());
    out.extend_from_slice(digest.bytes());
    OutFrame::new(FrameKind::AttestRequest, &out, vec![])
}

/// Reads the payload of such a frame.
///
/// # Errors
/// When the bytes are no seq and digest.
pub fn read_attest_request(payload: Bytes) -> Result<(Seq, Digest), Reject> {
    let mut r = Reader::new(payload, "attest request");
    let of = (Seq::new(r.u64()?), Digest::new(r.array()?));
    r.end()?;
    Ok(of)
}

impl Attested {
    /// The frame. Of a long refusal only the beginning is sent.
    ///
    /// # Panics
    /// When a signature has more than 64 bytes.
    pub fn frame(&self) -> OutFrame {
        let mut out = Vec::with_capacity(128);
        out.put_u64(self.seq.number());
        out.extend_from_slice(self.digest.bytes());
        match &self.answer {
            AttestAnswer::Signed { membership, signature } => {
                assert!(signature.len() <= SIGNATURE_MAX, "a signature is small");
                out.put_u8(SIGNED);
                out.put_u64(membership.number());
                out.put_u8(signature.len() as u8);
                out.extend_from_slice(signature);
            }
            AttestAnswer::Refused(why) => {
                let mut end = why.len().min(WHY_MAX);
                while !why.is_char_boundary(end) {
                    end -= 1;
                }
                out.put_u8(REFUSED);
                out.extend_from_slice(&why.as_bytes()[..end]);
            }
        }
        OutFrame::new(FrameKind::Attested, &out, vec![])
    }

    /// Reads the payload of such a frame.
    ///
    /// # Errors
    /// When the bytes are no answer, or a signature or a text is longer than it may be.
    pub fn decode(payload: Bytes) -> Result<Self, Reject> {
        let too_large = |what, size: usize, max: usize| {
            Err(Reject::TooLarge { what, size: size as u64, max: max as u64 })
        };
        let mut r = Reader::new(payload, "attested");
        let (seq, digest) = (Seq::new(r.u64()?), Digest::new(r.array()?));
        let answer = match r.u8()? {
            SIGNED => {
                let (membership, len) = (MembershipId::new(r.u64()?), usize::from(r.u8()?));
                if len > SIGNATURE_MAX {
                    return too_large("signature", len, SIGNATURE_MAX);
                }
                let signature = r.bytes(len)?;
                r.end()?;
                AttestAnswer::Signed { membership, signature }
            }
            REFUSED => {
                let why = r.rest();
                if why.len() > WHY_MAX {
                    return too_large("refusal", why.len(), WHY_MAX);
                }
                let why = std::str::from_utf8(&why).map_err(|_| Reject::Malformed("attested: text"))?;
                AttestAnswer::Refused(why.to_owned())
            }
            _ => return Err(Reject::Malformed("attested: answer")),
        };
        Ok(Self { seq, digest, answer })
    }
}
