//! The whole state at one seq.

use quorate_types::{Digest, Seq};

use super::manifest::{Digests, Manifest};
use super::system::SystemPart;
use crate::store::Version;

/// The whole replicated state at a border. It is cheap to clone, and to hold while requests are executed.
#[derive(Clone)]
pub struct Image {
    /// Everything up to this seq is executed in it, and nothing later.
    pub seq: Seq,
    /// The number of this border, from 1.
    pub border: u64,
    /// All replicated state that is not an object: sessions, agreed time, membership, where each instance stands.
    pub system: SystemPart,
    /// The objects.
    pub objects: Version,
}

impl Image {
    /// The digest of the whole image: equal on two replicas exactly when their images are equal. Computes the missing digests of the
    /// objects, so call it where time does not matter, or after [`Version::parts`].
    pub fn digest(&self) -> Digest {
        self.digests().image
    }

    /// The same, and what stands for the state alone.
    pub fn digests(&self) -> Digests {
        Manifest::of(self).digests()
    }
}
