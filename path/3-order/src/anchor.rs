//! What a checkpoint says of an instance: where the checkpoint's slot lies in the protocol's log. Only the protocol that made an anchor
//! reads it. For the rest of the program it is a few bytes, the same on all replicas.
//!
//! Tests: anchor/tests.rs.

use bytes::Bytes;
use quorate_types::Reject;
use quorate_wire::MEMBERSHIPS_BYTES_MAX;
use std::fmt;

/// No anchor is longer.
pub const ANCHOR_BYTES_MAX: usize = 64 + MEMBERSHIPS_BYTES_MAX;

/// What a checkpoint says of an instance at a slot: opaque, canonical bytes.
#[derive(Clone, PartialEq, Eq)]
pub struct Anchor {
    bytes: Bytes,
}

impl Anchor {
    /// An anchor that says nothing.
    pub const EMPTY: Self = Self { bytes: Bytes::new() };

    /// The anchor that consists of these bytes.
    ///
    /// # Errors
    /// When there are too many.
    pub fn decode(bytes: &[u8]) -> Result<Self, Reject> {
        if bytes.len() > ANCHOR_BYTES_MAX {
            let (size, max) = (bytes.len() as u64, ANCHOR_BYTES_MAX as u64);
            return Err(Reject::TooLarge { what: "anchor", size, max });
        }
        Ok(Self { bytes: Bytes::copy_from_slice(bytes) })
    }

    /// Its bytes, as [`Self::decode`] takes them.
    pub fn encode(&self) -> &[u8] {
        &self.bytes
    }
}

impl fmt::Debug for Anchor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Anchor(")?;
        self.encode().iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
        write!(f, ")")
    }
}

#[cfg(test)]
mod tests;
