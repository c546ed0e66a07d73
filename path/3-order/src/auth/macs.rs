//! Tags that convince one receiver: BLAKE3 keyed with a key that only the two ends know.
//!
//! A vector of them, one per receiver, goes with a message to many. Each receiver can check its own and no other, so what one of them
//! accepts proves nothing to the rest: whoever sends may have made the others' tags wrong on purpose. Protocols sign what has to be
//! shown to third parties, and never rest anything on a tag that somebody else is said to have accepted.
//!
//! Keys are replaced while messages are under way: the one before the present key is still taken until the next replacement.
//! Tests: auth/tests.rs.

use quorate_types::ReplicaId;
use std::collections::BTreeMap;
use std::fmt;

/// Bytes of a tag.
pub const TAG_BYTES: usize = 16;

/// What shows one receiver that the sender knows their common key.
pub type Tag = [u8; TAG_BYTES];

/// The key of one link, in one direction each.
struct Link {
    present: [u8; 32],
    before: Option<[u8; 32]>,
}

/// This replica's keys for its links with the others.
pub struct Macs {
    me: ReplicaId,
    links: BTreeMap<ReplicaId, Link>,
}

impl fmt::Debug for Macs {
    /// Without the keys.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Macs of {} with {:?}", self.me, self.links.keys())
    }
}

impl Macs {
    /// Without any key: nothing can be sent or taken yet.
    pub const fn new(me: ReplicaId) -> Self {
        Self { me, links: BTreeMap::new() }
    }

    /// The two ends agreed on this secret from now on. The secret before it is still taken for what is under way.
    pub fn agree(&mut self, peer: ReplicaId, secret: [u8; 32]) {
        let before = self.links.remove(&peer).map(|link| link.present);
        self.links.insert(peer, Link { present: secret, before });
    }

    /// Nothing under the secret before the present one is taken any more.
    pub fn retire(&mut self, peer: ReplicaId) {
        if let Some(link) = self.links.get_mut(&peer) {
            link.before = None;
        }
    }

    /// The direction is part of what is hashed: a message can not be sent back to where it came from.
    fn tag_of(secret: &[u8; 32], from: ReplicaId, to: ReplicaId, message: &[u8]) -> blake3::Hash {
        let mut hasher = blake3::Hasher::new_keyed(secret);
        hasher.update(&from.number().to_le_bytes());
        hasher.update(&to.number().to_le_bytes());
        hasher.update(message);
        hasher.finalize()
    }

    /// The tag of a message to this receiver; none without a key.
    pub fn tag(&self, to: ReplicaId, message: &[u8]) -> Option<Tag> {
        let link = self.links.get(&to)?;
        let hash = Self::tag_of(&link.present, self.me, to, message);
        hash.as_bytes().first_chunk().copied()
    }

    /// The tags of a message to all of these, in their order; none without all keys.
    pub fn vector(&self, to: &[ReplicaId], message: &[u8]) -> Option<Vec<Tag>> {
        to.iter().map(|to| self.tag(*to, message)).collect()
    }

    /// Whether this sender made the tag for us. Takes the same time wherever the tags differ.
    pub fn check(&self, from: ReplicaId, message: &[u8], tag: &Tag) -> bool {
        let Some(link) = self.links.get(&from) else { return false };
        let fits = |secret: &[u8; 32]| {
            let hash = Self::tag_of(secret, from, self.me, message);
            let differences = hash.as_bytes().iter().zip(tag).map(|(a, b)| a ^ b);
            differences.fold(0, |all, difference| all | difference) == 0
        };
        fits(&link.present) || link.before.as_ref().is_some_and(fits)
    }
}
