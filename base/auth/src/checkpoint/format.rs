//! Proofs of checkpoints as bytes. Drawing: docs/formats/checkpoint.md.

use super::CheckpointProof;
use crate::{SIGNATURE_MAX, put_signed, read_signed};
use bytes::Bytes;
use quorate_types::{ClusterId, Digest, MembershipId, Reject, Seq};
use quorate_wire::{MEMBERS_MAX, Put, Reader};

const MAGIC: &[u8; 8] = b"QCKPROOF";
const VERSION: u16 = 1;
const CHECKSUM: usize = 8;
/// The bytes before the signatures.
const HEAD: usize = MAGIC.len() + 2 + 16 + 8 + 8 + Digest::BYTES;

/// No proof of a checkpoint is longer than this.
pub const CHECKPOINT_PROOF_BYTES_MAX: usize = HEAD + 1 + MEMBERS_MAX * (3 + SIGNATURE_MAX) + CHECKSUM;

fn checksum(bytes: &[u8]) -> [u8; CHECKSUM] {
    let mut sum = [0; CHECKSUM];
    sum.copy_from_slice(&blake3::hash(bytes).as_bytes()[..CHECKSUM]);
    sum
}

impl CheckpointProof {
    /// Its bytes, as they lie in a backup; at most [`CHECKPOINT_PROOF_BYTES_MAX`].
    pub fn encode(&self) -> Bytes {
        let mut out = MAGIC.to_vec();
        out.put_u16(VERSION);
        out.extend_from_slice(&self.cluster.bits().to_le_bytes());
        out.put_u64(self.membership.number());
        out.put_u64(self.seq.number());
        out.extend_from_slice(self.digest.bytes());
        put_signed(&mut out, &self.signed);
        Self::sealed(out)
    }

    /// These bytes, with the checksum that belongs to them.
    pub fn sealed(mut content: Vec<u8>) -> Bytes {
        let sum = checksum(&content);
        content.extend_from_slice(&sum);
        content.into()
    }

    /// Whether these bytes begin as a proof does.
    pub fn begins(bytes: &[u8]) -> bool {
        bytes.starts_with(MAGIC)
    }

    /// Reads what [`Self::encode`] wrote, and nothing more. That bytes can be read says nothing of whether they prove anything.
    ///
    /// # Errors
    /// When these are not the bytes of a proof, when they are damaged, or when a later version wrote them.
    pub fn decode(bytes: &Bytes) -> Result<Self, Reject> {
        if !Self::begins(bytes) {
            return Err(Reject::Malformed("proof of a checkpoint: it does not begin as one does"));
        }
        if bytes.len() > CHECKPOINT_PROOF_BYTES_MAX {
            let (size, max) = (bytes.len() as u64, CHECKPOINT_PROOF_BYTES_MAX as u64);
            return Err(Reject::TooLarge { what: "proof of a checkpoint", size, max });
        }
        let content = bytes.len().saturating_sub(CHECKSUM).max(MAGIC.len());
        if checksum(&bytes[..content]) != bytes[content..] {
            return Err(Reject::Malformed(
                "proof of a checkpoint: it is damaged, since its checksum is wrong",
            ));
        }
        let mut r = Reader::new(bytes.slice(MAGIC.len()..content), "proof of a checkpoint");
        if r.u16()? != VERSION {
            return Err(Reject::Malformed(
                "proof of a checkpoint: of a version that this program does not know",
            ));
        }
        let (cluster, membership) = (ClusterId::new(r.u128()?), MembershipId::new(r.u64()?));
        let (seq, digest) = (Seq::new(r.u64()?), Digest::new(r.array()?));
        let signed = read_signed(&mut r)?;
        r.end()?;
        Ok(Self { cluster, membership, seq, digest, signed })
    }
}
