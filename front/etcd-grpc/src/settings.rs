//! `[front.etcd]`: what the configuration of a replica says of this front. docs/configuration.md explains every key.
//!
//! Tests: `settings/tests.rs`.

use crate::upkeep::{AutoCompaction, UpkeepConfig};
use quorate_kit::settings::{self, SettingsError};
use serde::Deserialize;
use std::path::{Path, PathBuf};
use toml::Table;

#[cfg(test)]
mod tests;

/// The table's name, and that of the one in it.
const FRONT: &str = "front.etcd";
const TOKENS: &str = "front.etcd.tokens";

/// `[front.etcd]`
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EtcdSettings {
    /// Where to listen for clients of etcd, `host:port`.
    pub listen: String,
    /// Where clients reach it, if not at that address, `host:port`.
    pub announce: Option<String>,
    /// The most bytes that the store may hold, as `etcdctl endpoint status` shows them; 0: no limit.
    #[serde(default = "two_gib")]
    pub quota_bytes: u64,
    /// Which old revisions go by themselves: `"1h"`, `"10000 revisions"` or `"off"`.
    #[serde(default)]
    pub auto_compaction: AutoCompaction,
    /// Tokens that members sign; without them the store keeps tokens.
    pub tokens: Option<TokenSettings>,
}

/// `[front.etcd.tokens]`; the same at all members
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TokenSettings {
    /// How members sign: `RS256`, `ES256`, `HS256` and so on.
    pub sign_method: String,
    /// The file of the key, in PEM; for `HS...` of the secret itself.
    pub key: PathBuf,
    /// How long a token is good, in seconds.
    #[serde(default = "five_minutes")]
    pub ttl_s: u64,
}

const fn five_minutes() -> u64 {
    300
}

/// As in etcd.
const fn two_gib() -> u64 {
    2 << 30
}

impl EtcdSettings {
    /// Reads the table; relative paths in it begin at `place`, the directory of the configuration.
    ///
    /// # Errors
    /// Says which key is wrong, and what would be right.
    pub fn read(table: &Table, place: &Path) -> Result<Self, SettingsError> {
        let mut read: Self = settings::read(FRONT, table)?;
        settings::address(FRONT, "listen", &read.listen)?;
        if let Some(announced) = &read.announce {
            settings::address(FRONT, "announce", announced)?;
        }
        if let Some(tokens) = &mut read.tokens {
            settings::range(TOKENS, "ttl_s", tokens.ttl_s, (1..=86_400, "86400, which is a day"))?;
            tokens.key = place.join(&tokens.key);
        }
        Ok(read)
    }
}

impl EtcdSettings {
    /// How the member keeps the store within bounds.
    pub const fn upkeep(&self) -> UpkeepConfig {
        UpkeepConfig { quota_bytes: self.quota_bytes, compaction: self.auto_compaction }
    }
}

impl TokenSettings {
    /// The key, as it stands in its file.
    ///
    /// # Errors
    /// When it can not be read.
    pub fn read_key(&self) -> Result<Vec<u8>, SettingsError> {
        let unread = |why| format!("the key {} can not be read: {why}", self.key.display());
        std::fs::read(&self.key).map_err(|why| SettingsError::new(TOKENS, unread(why)))
    }
}
