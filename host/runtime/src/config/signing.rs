//! `[signing]`: the key with which this replica signs what others must be able to pass on. Only where replicas may lie.
//! Tests: config/tests.rs.

use super::{Config, ConfigError, invalid};
use quorate_auth::{Ed25519, Keys, PublicKey};
use quorate_order::mod_smart::Group;
use quorate_types::{ReplicaId, Visigoth};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::{Path, PathBuf};

/// The fewest replicas that survive a Byzantine fault.
const MEMBERS_MIN: usize = 4;

/// `[signing]`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SigningConfig {
    /// The file of the secret key: 64 hexadecimal digits; relative to the configuration.
    pub key: PathBuf,
}

/// The secret key of a replica, for Ed25519.
#[derive(Clone, PartialEq, Eq)]
pub struct SigningKey([u8; 32]);

impl fmt::Debug for SigningKey {
    /// Prints no secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SigningKey({})", self.public())
    }
}

impl SigningKey {
    /// The key with these 32 secret bytes.
    pub const fn new(secret: [u8; 32]) -> Self {
        Self(secret)
    }

    /// The public key, as the configuration of all replicas names it: 64 hexadecimal digits.
    pub fn public(&self) -> String {
        hex(Ed25519::public(self.0).bytes())
    }

    /// The contents of its file.
    pub fn to_text(&self) -> String {
        hex(&self.0) + "\n"
    }

    fn read(path: &Path) -> Result<Self, ConfigError> {
        let text = std::fs::read_to_string(path).or_else(|why| {
            invalid(format!(
                "signing: can not read {}: {why}. It was made with the cluster (`quorate init`); nobody else has it",
                path.display()
            ))
        })?;
        match from_hex(text.trim()) {
            Some(secret) => Ok(Self(secret)),
            None => invalid(format!("signing: {} has to hold 64 hexadecimal digits", path.display())),
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

pub(super) fn from_hex(text: &str) -> Option<[u8; 32]> {
    if text.len() != 64 || !text.bytes().all(|c| c.is_ascii_hexdigit()) {
        return None;
    }
    let mut bytes = [0; 32];
    for (at, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(text.get(2 * at..2 * at + 2)?, 16).ok()?;
    }
    Some(bytes)
}

impl Config {
    pub(super) fn check_signing(&self) -> Result<(), ConfigError> {
        if !self.fault_model.may_lie() && self.sessions.require_signed {
            return invalid(
                "sessions: require_signed: with fault_model = \"crash\" nobody checks signatures: leave it out, or write \"byzantine\"",
            );
        }
        if !self.fault_model.may_lie() {
            return match &self.signing {
                None => Ok(()),
                Some(_) => invalid(
                    "signing: nothing is signed with fault_model = \"crash\": leave `[signing]` out, or write \"byzantine\"",
                ),
            };
        }
        if self.members.len() < MEMBERS_MIN {
            return invalid(format!(
                "members: to survive one replica that lies, a cluster needs {MEMBERS_MIN}; here are {}",
                self.members.len()
            ));
        }
        if self.signing.is_none() {
            return invalid(
                "signing: with fault_model = \"byzantine\" a replica signs: name the file of its key in `[signing]` (`quorate init` \
                 makes it)",
            );
        }
        self.public_keys().map(drop)
    }

    /// The members as an oracle is told of them, where few are slow and some may lie.
    pub(crate) fn group(&self) -> Result<Option<Group>, ConfigError> {
        let sizes = self.fault_model.visigoth();
        let Some(sizes) = sizes.filter(|sizes| self.fault_model.few_are_slow() && sizes.o > 0) else {
            return Ok(None);
        };
        let mut members = self.public_keys()?;
        members.sort_unstable();
        // The time is not part of who they are.
        let sizes = Visigoth { t_ms: 1, ..sizes };
        Ok(Some(Group { cluster: self.cluster_id()?, sizes, members }))
    }

    fn public_keys(&self) -> Result<Vec<(ReplicaId, PublicKey)>, ConfigError> {
        let read = |member: &super::MemberConfig| {
            let bytes = member.key.as_deref().and_then(from_hex);
            match bytes.and_then(|bytes| PublicKey::new(bytes).ok()) {
                Some(key) => Ok((ReplicaId::new(member.replica), key)),
                None => invalid(format!(
                    "members: replica {} needs its public key, `key` with 64 hexadecimal digits, since replicas may lie",
                    member.replica
                )),
            }
        };
        self.members.iter().map(read).collect()
    }

    /// The keys to sign with, and to check the signatures of others.
    ///
    /// # Errors
    /// When a key is missing, or does not belong to its replica.
    pub fn signing_keys(&self) -> Result<Keys, ConfigError> {
        let Some(signing) = self.signing.as_ref().filter(|_| self.fault_model.may_lie()) else {
            return Ok(Keys::Trusting);
        };
        let (secret, public) = (SigningKey::read(&signing.key)?, self.public_keys()?);
        let own = public.iter().find(|(id, _)| id.number() == self.replica);
        if own.is_none_or(|(_, key)| *key != Ed25519::public(secret.0)) {
            return invalid(format!(
                "signing: {} is not the key that the members know replica {} by",
                signing.key.display(),
                self.replica
            ));
        }
        match Ed25519::new(secret.0, public) {
            Ok(keys) => Ok(Keys::Ed25519(Box::new(keys))),
            Err(why) => invalid(format!("members: {why}")),
        }
    }
}
