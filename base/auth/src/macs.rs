//! Tags under requests: each convinces one replica and costs next to nothing. BLAKE3 with a key that only the client and that replica know.
//!
//! A client makes a secret when it starts. From it follow its keys, one for each replica and epoch, and a number by which replicas know
//! them. The client tells each replica its key over an authenticated connection. A request carries a tag for every replica, so that a
//! leader's proposal shows each of them that the client sent the request. A replica can check only its own tag. What one replica accepts
//! proves nothing to the others, since a client may make some of its tags wrong on purpose.
//!
//! A tag covers the request's statement ([`request_statement`]), which is hashed once, and the receiver. Tests: auth/tests/macs.rs.

use super::requests::request_statement;
use quorate_types::{ClusterId, Digest, ReplicaId};
use quorate_wire::{KEY_ID_BYTES, REQUEST_HEADER, RequestTagger, RequestTags, SharedKey, TAG_BYTES};
use std::fmt;

/// The bytes that show one replica that a client sent a request.
pub type Tag = [u8; TAG_BYTES];

/// The tag of a statement for this replica.
fn tag(secret: &[u8; 32], to: ReplicaId, statement: &Digest) -> Tag {
    // Both together are shorter than a block.
    let mut message = [0; 34];
    message[..32].copy_from_slice(statement.bytes());
    message[32..].copy_from_slice(&to.number().to_le_bytes());
    let hash = blake3::keyed_hash(secret, &message);
    let mut tag = [0; TAG_BYTES];
    tag.copy_from_slice(&hash.as_bytes()[..TAG_BYTES]);
    tag
}

/// Whether a client that shares this secret with replica `to` made this tag of this statement. Takes the same time wherever they differ.
pub fn is_tag(secret: &[u8; 32], to: ReplicaId, statement: &Digest, found: &Tag) -> bool {
    let right = tag(secret, to, statement);
    let differences = right.iter().zip(found).map(|(a, b)| a ^ b);
    differences.fold(0, |all, difference| all | difference) == 0
}

/// The number of the keys that made these tags, and the tag at this index. `proof`: the bytes after the request's body.
pub fn tag_at(proof: &[u8], place: usize) -> Option<(u64, Tag)> {
    let (id, tags) = proof.split_first_chunk::<KEY_ID_BYTES>()?;
    let tag = tags.chunks_exact(TAG_BYTES).nth(place)?.first_chunk()?;
    Some((u64::from_le_bytes(*id), *tag))
}

/// The secret of which a client makes its keys for one cluster.
#[derive(Clone)]
pub struct ClientMacs {
    cluster: ClusterId,
    secret: [u8; 32],
}

impl ClientMacs {
    /// Of 32 random bytes that no other client has and nobody else knows.
    pub const fn new(cluster: ClusterId, secret: [u8; 32]) -> Self {
        Self { cluster, secret }
    }

    fn derived(&self, what: &'static str, epoch: u64, replica: ReplicaId) -> [u8; 32] {
        let mut hasher = blake3::Hasher::new_derive_key(what);
        hasher.update(&self.secret);
        hasher.update(&self.cluster.bits().to_le_bytes());
        hasher.update(&epoch.to_le_bytes());
        hasher.update(&replica.number().to_le_bytes());
        *hasher.finalize().as_bytes()
    }
}

impl fmt::Debug for ClientMacs {
    /// Without the secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ClientMacs({})", self.cluster)
    }
}

impl RequestTagger for ClientMacs {
    fn keys(&self, epoch: u64, replicas: &[ReplicaId]) -> Box<dyn RequestTags> {
        // Several clients may have one name, so that their keys must not have one number.
        let id = self.derived("quorate 2026 number of tag keys", epoch, ReplicaId::new(0));
        let id = id.first_chunk().map_or(0, |id| u64::from_le_bytes(*id));
        let secret = |replica| self.derived("quorate 2026 tag key", epoch, replica);
        let keys = replicas.iter().map(|replica| (*replica, secret(*replica))).collect();
        Box::new(EpochKeys { cluster: self.cluster, id, keys })
    }
}

/// A client's keys of one epoch.
struct EpochKeys {
    cluster: ClusterId,
    id: u64,
    /// In the order of the replicas' ids.
    keys: Vec<(ReplicaId, [u8; 32])>,
}

impl fmt::Debug for EpochKeys {
    /// Without the secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EpochKeys({:016x})", self.id)
    }
}

impl RequestTags for EpochKeys {
    fn shared_with(&self, replica: ReplicaId) -> Option<SharedKey> {
        let (_, secret) = self.keys.iter().find(|(of, _)| *of == replica)?;
        Some(SharedKey { id: self.id, secret: *secret })
    }
    fn write(&self, header: &[u8; REQUEST_HEADER], body: &[u8], out: &mut Vec<u8>) {
        let statement = request_statement(self.cluster, header, body);
        out.extend_from_slice(&self.id.to_le_bytes());
        for (replica, secret) in &self.keys {
            out.extend_from_slice(&tag(secret, *replica, &statement));
        }
    }
}
