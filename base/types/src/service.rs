//! What a service is called, and the version of its program.

use std::fmt;

/// The name of a service: up to [`ServiceName::BYTES_MAX`] letters, digits, `-` and `_`, or none at all. It is a value without an allocation,
/// since it stands in handshakes.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ServiceName {
    len: u8,
    bytes: [u8; Self::BYTES_MAX],
}

impl ServiceName {
    /// The most bytes of a name.
    pub const BYTES_MAX: usize = 64;
    /// No name.
    pub const NONE: Self = Self { len: 0, bytes: [0; Self::BYTES_MAX] };

    /// The name with this text; `None` if it is too long, or has other characters than a name may have. An empty text is no name, which is
    /// allowed.
    pub fn new(text: &str) -> Option<Self> {
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        if text.len() > Self::BYTES_MAX || !text.bytes().all(fits) {
            return None;
        }
        let mut name = Self::NONE;
        name.len = text.len() as u8;
        name.bytes[..text.len()].copy_from_slice(text.as_bytes());
        Some(name)
    }

    /// The text; empty if there is no name.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.bytes[..usize::from(self.len)]).unwrap_or_default()
    }

    /// Whether there is no name.
    pub const fn is_none(&self) -> bool {
        self.len == 0
    }

    /// Whether two sides mean different services: both have a name, and not the same one.
    pub fn differs(&self, other: &Self) -> bool {
        !self.is_none() && !other.is_none() && self != other
    }
}

impl Default for ServiceName {
    fn default() -> Self {
        Self::NONE
    }
}

impl fmt::Display for ServiceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl fmt::Debug for ServiceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

/// A service as its program knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServiceVersion {
    /// What it is called.
    pub name: ServiceName,
    /// The highest version that the program has; the first is 1.
    pub version: u32,
}

impl ServiceVersion {
    /// A service without a name that never changed.
    pub const UNNAMED: Self = Self { name: ServiceName::NONE, version: 1 };
}

impl Default for ServiceVersion {
    fn default() -> Self {
        Self::UNNAMED
    }
}

#[cfg(test)]
mod tests;
