//! `[administration]`: whose signatures change the members and the feature level, where replicas may lie. Tests: config/tests.rs.

use super::{Config, ConfigError, invalid, signing::from_hex};
use quorate_auth::PublicKey;
use quorate_types::SessionKey;
use quorate_wire::Administrators;
use serde::{Deserialize, Serialize};
use std::fmt::Write as _;

const fn one() -> u8 {
    1
}

/// `[administration]`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AdministrationConfig {
    /// The public keys of administrators, each 64 hexadecimal digits; the same on all replicas.
    pub keys: Vec<String>,
    /// How many of them must sign.
    #[serde(default = "one")]
    pub threshold: u8,
}

impl Config {
    /// Who administers the cluster until a command names others; nobody if there is no such section. Where replicas only crash, operators
    /// change the members by themselves, and these are for an era in which replicas may lie.
    ///
    /// # Errors
    /// When a key is none, or more have to sign than there are.
    pub fn administrators(&self) -> Result<Option<Administrators>, ConfigError> {
        let Some(administration) = &self.administration else { return Ok(None) };
        let mut keys = Vec::new();
        for text in &administration.keys {
            match from_hex(text).and_then(|bytes| PublicKey::new(bytes).ok()) {
                Some(key) => keys.push(SessionKey::new(*key.bytes())),
                None => {
                    return invalid(format!(
                        "administration: `{text}` is no public key: 64 hexadecimal digits, as `quorate admin keygen` prints them"
                    ));
                }
            }
        }
        match Administrators::new(administration.threshold, keys) {
            Ok(administrators) => Ok(Some(administrators)),
            Err(_) => invalid(format!(
                "administration: {} of {} keys can not sign: there are 1 to 16 different keys, and threshold is at most their number",
                administration.threshold,
                administration.keys.len()
            )),
        }
    }

    /// The same, as a part of the settings that must be the same on all replicas.
    pub(super) fn agreed_administration(&self) -> String {
        let mut text = String::new();
        if let Some(administration) = &self.administration {
            let mut keys = administration.keys.clone();
            keys.sort_unstable();
            let _ = write!(text, " administration {} {}", administration.threshold, keys.join(" "));
        }
        text
    }
}
