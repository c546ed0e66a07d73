//! `[kv]`: the limits of the key-value service.

use serde::{Deserialize, Serialize};

/// `[kv]`: the limits of the service `kv`; must be the same on all replicas
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct KvSection {
    /// The longest key, in bytes.
    pub key_bytes: u64,
    /// The longest value, in bytes.
    pub value_bytes: u64,
}

impl Default for KvSection {
    fn default() -> Self {
        Self { key_bytes: 4 << 10, value_bytes: 1 << 20 }
    }
}
