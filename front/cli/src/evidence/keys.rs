//! The members' public keys, from somewhere else than the evidence: `replica.toml` of any member.

use quorate_auth::PublicKey;
use quorate_command::cluster::{CLIENT_FILE, Cluster, ClusterArgs};
use quorate_command::failure::{Failure, Outcome};
use quorate_command::layout::REPLICA_FILE;
use quorate_order::mod_smart::evidence::Evidence;
use quorate_types::{ClusterId, ReplicaId};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Keys, and where they are from.
#[derive(Clone, Debug)]
pub(super) struct Known {
    /// The cluster, if the source says so.
    cluster: Option<ClusterId>,
    keys: BTreeMap<ReplicaId, PublicKey>,
    pub(super) from: String,
}

/// What of a configuration is read here. Other keys are of no interest.
#[derive(Deserialize)]
struct File {
    cluster: String,
    #[serde(default)]
    members: Vec<Member>,
}

#[derive(Deserialize)]
struct Member {
    replica: u16,
    key: Option<String>,
}

fn parse(text: &str) -> Option<PublicKey> {
    let mut bytes = [0; 32];
    if text.len() != 64 || !text.is_ascii() {
        return None;
    }
    for (at, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[2 * at..2 * at + 2], 16).ok()?;
    }
    PublicKey::new(bytes).ok()
}

impl Known {
    /// This key is the accused replica's.
    pub(super) fn of(evidence: &Evidence, text: &str) -> Outcome<Self> {
        let key = parse(text).ok_or_else(|| {
            Failure::usage("--key is no public key: it has 64 hexadecimal digits, as `key` of `[[members]]` in replica.toml")
        })?;
        Ok(Self { cluster: None, keys: [(evidence.accused, key)].into(), from: "--key".into() })
    }

    /// What the members of a running cluster name as the replica's key; `None`: it is no key.
    pub(super) fn of_members(cluster: ClusterId, replica: ReplicaId, key: &str) -> Option<Self> {
        let keys = [(replica, parse(key)?)].into();
        Some(Self { cluster: Some(cluster), keys, from: "the membership".into() })
    }

    /// The keys in a configuration; there may be none.
    fn read(path: &Path) -> Outcome<Self> {
        let wrong = |why: String| Failure::usage(format!("{} is not usable: {why}", path.display()));
        let text = std::fs::read_to_string(path).map_err(|why| wrong(why.to_string()))?;
        let file: File = toml::from_str(&text).map_err(|why| wrong(why.to_string()))?;
        let cluster = ClusterId::parse(&file.cluster)
            .ok_or_else(|| wrong("cluster: an id has 32 hexadecimal digits".into()))?;
        let mut keys = BTreeMap::new();
        for Member { replica, key } in file.members {
            if let Some(text) = key {
                let key = parse(&text)
                    .ok_or_else(|| wrong(format!("members: the key of replica {replica} is none")))?;
                keys.insert(ReplicaId::new(replica), key);
            }
        }
        Ok(Self { cluster: Some(cluster), keys, from: path.display().to_string() })
    }

    /// Whether the evidence proves what it says, to somebody who knows these keys.
    ///
    /// # Errors
    /// Why it does not.
    pub(super) fn judge(&self, evidence: &Evidence) -> Result<(), String> {
        if self.cluster.is_some_and(|cluster| cluster != evidence.cluster) {
            return Err(format!(
                "it is of cluster {:032x}, and {} is of another one",
                evidence.cluster.bits(),
                self.from
            ));
        }
        let Some(key) = self.keys.get(&evidence.accused) else {
            return Err(format!(
                "{} has no key of {}: name the {REPLICA_FILE} of a member with --config, or the key with --key",
                self.from, evidence.accused
            ));
        };
        evidence.verify(key).map_err(|why| match evidence.key {
            Some(other) if other != *key && evidence.verify(&other).is_ok() => {
                format!(
                    "{why}; it was signed with another key than the one in {}, in membership {}. If the replica had another key then \
                     (`quorate member rekey`), name it with --key",
                    self.from, evidence.membership
                )
            }
            _ => why.to_owned(),
        })
    }
}

/// The keys in the configuration that the arguments name; or, beside a `client.toml` that has none, in a `replica.toml`.
pub(super) fn find(args: &ClusterArgs) -> Outcome<Known> {
    let named = args.config.as_ref().filter(|path| path.is_file());
    let directory = match (named, &args.dir) {
        (Some(path), _) => {
            let known = Known::read(path)?;
            if !known.keys.is_empty() || path.file_name().is_none_or(|name| name != CLIENT_FILE) {
                return Ok(known);
            }
            path.parent().map(Path::to_path_buf).unwrap_or_default()
        }
        (None, Some(directory)) => directory.clone(),
        (None, None) => Cluster::find(args)?.directory,
    };
    let Some(path) = configurations(&directory).into_iter().next() else {
        return Err(Failure::usage(format!(
            "no public key is known here: {} has no {REPLICA_FILE}. Name that of a member with --config, or the key with --key",
            directory.display()
        )));
    };
    Known::read(&path)
}

/// The configurations of replicas in this directory and in those below it.
pub(crate) fn configurations(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let below = entries.map(|entry| entry.path().join(REPLICA_FILE));
    let mut found: Vec<PathBuf> =
        std::iter::once(directory.join(REPLICA_FILE)).chain(below).filter(|path| path.is_file()).collect();
    found.sort_unstable();
    found
}
