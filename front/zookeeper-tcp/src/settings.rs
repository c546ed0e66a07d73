//! `[front.zookeeper]`: what the configuration of a replica says of this front. docs/configuration.md explains every key.
//!
//! Tests: `settings/tests.rs`.

use quorate_kit::settings::{self, SettingsError};
use quorate_zookeeper::members::is_address;
use quorate_zookeeper::server::SaslUsers;
use serde::Deserialize;
use std::path::PathBuf;
use toml::Table;

#[cfg(test)]
mod tests;
mod users;

/// The table's name.
const FRONT: &str = "front.zookeeper";

/// Which state a read shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Reads {
    /// That of the server that the client uses: never older than what the client has seen.
    #[default]
    Local,
    /// One that has everything that was acknowledged to anybody before the read.
    Linearizable,
}

/// `[front.zookeeper]`
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ZooKeeperSettings {
    /// Where to listen for clients of ZooKeeper, `host:port`.
    pub listen: String,
    /// Where to listen for whoever uses the admin server, `host:port`; without it there is none.
    pub admin: Option<String>,
    /// Where clients reach it, if not at that address, `host:port`.
    pub announce: Option<String>,
    /// Whether clients may also connect without TLS.
    #[serde(default)]
    pub plain: bool,
    /// The shortest time-out of a session, in milliseconds; without it two ticks.
    pub session_timeout_min_ms: Option<u64>,
    /// The longest one; without it twenty ticks.
    pub session_timeout_max_ms: Option<u64>,
    /// The most connections of one address at once; 0 for no limit.
    #[serde(default = "sixty")]
    pub connections_per_address: u32,
    /// The longest frame of a client, in bytes.
    #[serde(default = "one_mebibyte")]
    pub frame_bytes: u64,
    /// Which state reads show.
    #[serde(default)]
    pub reads: Reads,
    /// Whether clients that say so are served while nothing can be ordered: they only read.
    #[serde(default)]
    pub read_only: bool,
    /// The four-letter words that are answered; `*` stands for all.
    #[serde(default = "only_srvr")]
    pub words: Vec<String>,
    /// The name and digest of whoever may do everything, `name:digest`, as ZooKeeper's `DigestAuthenticationProvider` prints it.
    pub super_digest: Option<String>,
    /// The file of the users who may prove who they are with SASL, one a line, `name:password`.
    pub sasl_users: Option<PathBuf>,
}

const fn sixty() -> u32 {
    60
}

fn only_srvr() -> Vec<String> {
    vec!["srvr".to_owned()]
}

const fn one_mebibyte() -> u64 {
    0xf_ffff
}

impl ZooKeeperSettings {
    /// Reads the table.
    ///
    /// # Errors
    /// Says which key is wrong, and what would be right.
    pub fn read(table: &Table) -> Result<Self, SettingsError> {
        let read: Self = settings::read(FRONT, table)?;
        settings::address(FRONT, "listen", &read.listen)?;
        if let Some(admin) = &read.admin {
            settings::address(FRONT, "admin", admin)?;
        }
        if let Some(announced) = &read.announce {
            settings::address(FRONT, "announce", announced)?;
            if !is_address(announced) {
                let why = format!("announce is host:port, without other characters, not \"{announced}\"");
                return Err(SettingsError::new(FRONT, why));
            }
        }
        settings::range(FRONT, "frame_bytes", read.frame_bytes, (1024..=2 << 20, "2097152 (2 MiB)"))?;
        let times = [
            ("session_timeout_min_ms", read.session_timeout_min_ms),
            ("session_timeout_max_ms", read.session_timeout_max_ms),
        ];
        for (key, value) in times {
            let value = value.unwrap_or(1);
            settings::range(FRONT, key, value, (1..=86_400_000, "86400000, which is a day"))?;
        }
        if let Some(word) = read.words.iter().find(|word| *word != "*" && word.len() != 4) {
            return Err(SettingsError::new(
                FRONT,
                format!("words: \"{word}\" has not four letters, and is not \"*\""),
            ));
        }
        if read.super_digest.as_ref().is_some_and(|digest| digest.split(':').count() != 2) {
            return Err(SettingsError::new(
                FRONT,
                "super_digest is name:digest, as in \"super:xQJmxLMiHGwaqBvst5y6rkB6HQs=\"",
            ));
        }
        if let Some(file) = read.sasl_users.as_ref().filter(|file| !file.is_absolute()) {
            let why = format!("sasl_users is a path that begins with \"/\", not \"{}\"", file.display());
            return Err(SettingsError::new(FRONT, why));
        }
        Ok(read)
    }

    /// Reads the users of SASL; none without a file of them.
    ///
    /// # Errors
    /// Names the file and the line, and says what would be right.
    pub(crate) fn users(&self) -> Result<SaslUsers, SettingsError> {
        let Some(file) = &self.sasl_users else { return Ok(SaslUsers::default()) };
        users::read(file).map_err(|why| SettingsError::new(FRONT, format!("sasl_users: {why}")))
    }

    /// Where clients reach this front, whose replica has this address.
    pub(crate) fn announced(&self, replica: &str) -> String {
        if let Some(announced) = &self.announce {
            return announced.clone();
        }
        let listen = &self.listen;
        match (listen.rsplit_once(':'), replica.rsplit_once(':')) {
            (Some(("0.0.0.0" | "[::]" | "", port)), Some((host, _))) => format!("{host}:{port}"),
            _ => listen.clone(),
        }
    }

    /// Whether a word is answered.
    pub(crate) fn answers(&self, word: &str) -> bool {
        self.words.iter().any(|known| known == "*" || known == word)
    }

    /// The shortest and the longest time-out of a session, where a tick is so many milliseconds.
    pub(crate) fn timeouts_ms(&self, tick_ms: u64) -> (i32, i32) {
        let of = |value: Option<u64>, ticks: u64| {
            i32::try_from(value.unwrap_or(tick_ms.saturating_mul(ticks))).unwrap_or(i32::MAX)
        };
        let min = of(self.session_timeout_min_ms, 2);
        (min, of(self.session_timeout_max_ms, 20).max(min))
    }
}
