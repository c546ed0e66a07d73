//! Proofs of checkpoints: who knows the public keys of a cluster's members sees that its replicas had this state at this seq, whoever kept the
//! bytes meanwhile.
//!
//! A replica attests a checkpoint: it signs the digest of the image, if it has that state itself and its cluster agrees on the digest. Of so
//! many members that one of them tells the truth, the signatures are a proof. The keys are not in it: whoever checks it has them from
//! elsewhere, or it proves nothing.
//!
//! The key of a signature is the one with which the member signs what the protocol says. The statement begins with a kind of its own, as
//! each of the protocol does, so no signature is of use for another purpose; clients and administrators sign 32 bytes, and no statement is so
//! short. Drawing: docs/formats/checkpoint.md. Tests: checkpoint/tests.rs.

mod format;

use crate::{PublicKey, Signed, Text};
use quorate_types::{ClusterId, Digest, MembershipId, ReplicaId, Seq};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

pub use format::CHECKPOINT_PROOF_BYTES_MAX;

const ATTEST: &[u8; 8] = b"qck/att1";

/// What a member of this membership signs when it attests a checkpoint of this seq, whose image has this digest.
pub fn checkpoint_statement(
    cluster: ClusterId,
    membership: MembershipId,
    (seq, digest): (Seq, Digest),
) -> Text {
    let mut bytes = Vec::with_capacity(72);
    bytes.extend_from_slice(ATTEST);
    bytes.extend_from_slice(&cluster.bits().to_le_bytes());
    bytes.extend_from_slice(&membership.number().to_le_bytes());
    bytes.extend_from_slice(&seq.number().to_le_bytes());
    bytes.extend_from_slice(digest.bytes());
    Text { membership, bytes }
}

/// Public keys of members, from somewhere else than the proof. A member that changed its key may have several.
pub type KnownKeys = BTreeMap<ReplicaId, Vec<PublicKey>>;

/// The signatures under one checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckpointProof {
    /// The cluster.
    pub cluster: ClusterId,
    /// The membership in which they were made. It tells which key of a member counts.
    pub membership: MembershipId,
    /// The seq of the checkpoint.
    pub seq: Seq,
    /// The digest of its image.
    pub digest: Digest,
    /// Who attests it.
    pub signed: Signed,
}

/// Why a proof does not prove a checkpoint to who knows certain keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoProof {
    /// It is of another cluster.
    OtherCluster(ClusterId),
    /// It is of a checkpoint of another seq.
    OtherSeq(Seq),
    /// It is of another state at this seq.
    OtherDigest(Digest),
    /// Too few of its signatures are of the keys that are known.
    TooFew {
        /// How many are right.
        right: usize,
        /// How many are needed.
        needed: usize,
        /// The signers of whom no key is known.
        unknown: Vec<ReplicaId>,
        /// The signers whose signatures are of none of the keys that are known, or of a key that counts for another signer already.
        wrong: Vec<ReplicaId>,
    },
}

impl fmt::Display for NoProof {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = |ids: &[ReplicaId]| ids.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        match self {
            Self::OtherCluster(cluster) => write!(f, "its proof is of another cluster, {cluster}"),
            Self::OtherSeq(seq) => write!(f, "its proof is of another checkpoint, of seq {seq:#}"),
            Self::OtherDigest(digest) => write!(f, "its proof is of another state, with digest {digest}"),
            Self::TooFew { right, needed, unknown, wrong } => {
                let are = if *right == 1 { "signature is" } else { "signatures are" };
                write!(f, "{right} {are} right, and {needed} are needed")?;
                if !wrong.is_empty() {
                    write!(f, "; not of the key that is known: {}", names(wrong))?;
                }
                if !unknown.is_empty() {
                    write!(f, "; no key is known of {}", names(unknown))?;
                }
                Ok(())
            }
        }
    }
}

impl std::error::Error for NoProof {}

impl CheckpointProof {
    /// What its members signed.
    pub fn statement(&self) -> Text {
        checkpoint_statement(self.cluster, self.membership, (self.seq, self.digest))
    }

    /// Who signed, as it says.
    pub fn signers(&self) -> Vec<ReplicaId> {
        self.signed.iter().map(|(id, _)| *id).collect()
    }

    /// Who of the members with these keys signed that the checkpoint of this cluster, seq and digest is theirs: at least `needed` of them,
    /// and never fewer than one. Each key counts once. Signatures of others count for nothing and do no harm.
    ///
    /// # Errors
    /// Why it proves nothing.
    pub fn verify(
        &self,
        (cluster, seq, digest): (ClusterId, Seq, Digest),
        keys: &KnownKeys,
        needed: usize,
    ) -> Result<Vec<ReplicaId>, NoProof> {
        if self.cluster != cluster {
            return Err(NoProof::OtherCluster(self.cluster));
        }
        if self.seq != seq {
            return Err(NoProof::OtherSeq(self.seq));
        }
        if self.digest != digest {
            return Err(NoProof::OtherDigest(self.digest));
        }
        let (text, needed) = (self.statement(), needed.max(1));
        let (mut right, mut unknown, mut wrong) = (Vec::new(), Vec::new(), Vec::new());
        let mut used = BTreeSet::new();
        for (id, signature) in &self.signed {
            let Some(own) = keys.get(id).filter(|own| !own.is_empty()) else {
                unknown.push(*id);
                continue;
            };
            match own.iter().find(|key| key.verifies(&text.bytes, signature)) {
                Some(key) if used.insert(*key) => right.push(*id),
                _ => wrong.push(*id),
            }
        }
        if right.len() < needed {
            return Err(NoProof::TooFew { right: right.len(), needed, unknown, wrong });
        }
        Ok(right)
    }
}

#[cfg(test)]
mod tests;
