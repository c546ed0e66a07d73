//! The whole state at one seq.

use bytes::Bytes;
use quorate_types::{Digest, Seq};

use super::manifest::Manifest;
use crate::store::Version;

/// The system bytes are cut into pieces of this size; the last one is shorter. A constant of format 1.
pub const PIECE_BYTES: usize = 64 * 1024;

/// The whole replicated state at a border. It is cheap to clone, and to hold while requests are executed.
#[derive(Clone)]
pub struct Image {
    /// Everything up to this seq is executed in it, and nothing later.
    pub seq: Seq,
    /// The number of this border, from 1.
    pub border: u64,
    /// All replicated state that is not an object: sessions, agreed time, membership, where each instance stands.
    pub system: Bytes,
    /// The objects.
    pub objects: Version,
}

impl Image {
    /// The digest of the whole image: equal on two replicas exactly when their images are equal. Computes the missing digests of the
    /// objects, so call it where time does not matter, or after [`Version::parts`].
    pub fn digest(&self) -> Digest {
        Manifest::of(self).digest()
    }
}

/// The system bytes, in pieces.
pub(crate) fn pieces(system: &Bytes) -> impl Iterator<Item = Bytes> {
    (0..system.len()).step_by(PIECE_BYTES).map(|from| {
        let to = from.saturating_add(PIECE_BYTES).min(system.len());
        system.slice(from..to)
    })
}
