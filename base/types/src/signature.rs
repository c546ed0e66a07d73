//! What a replica signs with.

use crate::Reject;
use std::fmt;

/// No signature is longer, in bytes.
pub const SIGNATURE_MAX: usize = 64;

/// A signature, or whatever the configured authentication puts in its place; empty where there is none.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Signature {
    len: u8,
    bytes: [u8; SIGNATURE_MAX],
}

impl Signature {
    /// No signature.
    pub const NONE: Self = Self { len: 0, bytes: [0; SIGNATURE_MAX] };

    /// The signature with these bytes, of which there are at most [`SIGNATURE_MAX`].
    ///
    /// # Errors
    /// When there are more.
    pub fn new(bytes: &[u8]) -> Result<Self, Reject> {
        if bytes.len() > SIGNATURE_MAX {
            let (size, max) = (bytes.len() as u64, SIGNATURE_MAX as u64);
            return Err(Reject::TooLarge { what: "signature", size, max });
        }
        let mut signature = Self { len: bytes.len() as u8, ..Self::NONE };
        signature.bytes[..bytes.len()].copy_from_slice(bytes);
        Ok(signature)
    }

    /// Its bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

impl fmt::Debug for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Signature(")?;
        self.bytes().iter().take(8).try_for_each(|byte| write!(f, "{byte:02x}"))?;
        write!(f, ")")
    }
}
