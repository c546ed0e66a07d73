//! `[signing]`: the keys with which this replica signs what others must be able to pass on. Only where replicas may lie.
//!
//! The first key lies in the file that the configuration names, and each later one beside it, under the same name, a dot, and the first 16
//! digits of its public half. Memberships say which one counts; a replica reads a new file while it runs.
//! Tests: config/tests.rs.

use super::{Config, ConfigError, invalid};
use quorate_auth::{Ed25519, Keys, PublicKey, Secret};
use quorate_order::mod_smart::Group;
use quorate_types::{MembershipId, ReplicaId, Visigoth};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
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

/// So many bytes of a public key tell the files of a replica's keys apart.
const NAMED_BYTES: usize = 8;

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

    /// Where a replica with this first key, that `[signing]` names, has this one: beside it, under the beginning of the public half.
    pub fn beside(&self, first: &Path) -> PathBuf {
        let mut name = first.file_name().unwrap_or_default().to_owned();
        name.push(".");
        name.push(hex(&Ed25519::public(self.0).bytes()[..NAMED_BYTES]));
        first.with_file_name(name)
    }

    /// As whoever signs takes it.
    pub const fn secret(&self) -> Secret {
        Secret::new(self.0)
    }

    /// The files of a replica's keys: the first one, which need not be there any more, and those that came later, by name.
    pub(crate) fn files(first: &Path) -> Vec<PathBuf> {
        let name = first.file_name().unwrap_or_default().to_string_lossy().into_owned() + ".";
        let place = first.parent().filter(|place| !place.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let is_key = |path: &PathBuf| {
            let of_it = path.file_name().and_then(|file| file.to_str()?.strip_prefix(&name));
            of_it
                .is_some_and(|key| key.len() == 2 * NAMED_BYTES && key.bytes().all(|c| c.is_ascii_hexdigit()))
        };
        let entries = std::fs::read_dir(place).into_iter().flatten().flatten();
        let mut later: Vec<PathBuf> = entries.map(|entry| entry.path()).filter(is_key).collect();
        later.sort();
        std::iter::once(first.to_owned()).chain(later).collect()
    }

    /// All keys of a replica. The first one may be gone once another one counts.
    ///
    /// # Errors
    /// When there is none, or a file holds something else.
    fn read_all(first: &Path) -> Result<Vec<Self>, ConfigError> {
        let mut files = Self::files(first);
        if files.len() > 1 && !first.exists() {
            files.remove(0);
        }
        files.iter().map(|file| Self::read(file)).collect()
    }

    /// The public key.
    pub fn public_key(&self) -> PublicKey {
        Ed25519::public(self.0)
    }

    /// The contents of its file.
    pub fn to_text(&self) -> String {
        hex(&self.0) + "\n"
    }

    /// Reads a file.
    ///
    /// # Errors
    /// When it can not be read, or holds something else.
    pub(crate) fn read(path: &Path) -> Result<Self, ConfigError> {
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

/// Looks for files of keys that are new.
#[derive(Debug)]
pub(crate) struct NewKeys {
    first: PathBuf,
    /// The files that were read.
    read: BTreeSet<PathBuf>,
}

impl NewKeys {
    /// Those beside this one. What lies there at the start is read again: it may have come after the configuration was read.
    pub(crate) fn beside(first: &Path) -> Self {
        Self { first: first.to_owned(), read: BTreeSet::from([first.to_owned()]) }
    }

    /// Reads the files that came since. Each is read once: it is written whole under another name first.
    pub(crate) fn look(&mut self) -> Vec<Result<SigningKey, ConfigError>> {
        let files = SigningKey::files(&self.first).into_iter();
        let new: Vec<PathBuf> = files.filter(|file| file.exists() && !self.read.contains(file)).collect();
        self.read.extend(new.iter().cloned());
        new.iter().map(|file| SigningKey::read(file)).collect()
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
            // The section is for an era in which replicas may lie.
            return Ok(());
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
        let (secrets, public) = (SigningKey::read_all(&signing.key)?, self.public_keys()?);
        let own = public.iter().find(|(id, _)| id.number() == self.replica).map(|(_, key)| *key);
        // Where there are later keys, the memberships in the log say which one counts; status tells if it is missing.
        if secrets.len() == 1 && signing.key.exists() && own != Some(Ed25519::public(secrets[0].0)) {
            return invalid(format!(
                "signing: {} is not the key that the members know replica {} by. If it was given another key (`quorate member rekey`), \
                 the file of that is to lie beside this one, under the name that `quorate member newkey` gave it",
                signing.key.display(),
                self.replica
            ));
        }
        let secrets: Vec<Secret> = secrets.iter().map(SigningKey::secret).collect();
        match Ed25519::since(
            MembershipId::new(self.membership),
            ReplicaId::new(self.replica),
            &secrets,
            public,
        ) {
            Ok(keys) => Ok(Keys::Ed25519(Box::new(keys))),
            Err(why) => invalid(format!("members: {why}")),
        }
    }
}
