//! Whether a backup is what the replicas agreed on: its signatures, and keys that the operator has from elsewhere.
//!
//! A file of a cluster whose replicas only crash has no signatures. Of one whose replicas may lie it has a proof (`quorate_auth`), unless
//! somebody took it out; so a restore asks for one wherever there could be one. Tests: `proof/tests.rs`, tests/all/proved.rs.

use super::facts::BackupFacts;
use crate::evidence::configurations;
use quorate::client::ClientFile;
use quorate_auth::{KnownKeys, PublicKey};
use quorate_command::cluster::CLIENT_FILE;
use quorate_command::failure::{Failure, Outcome};
use quorate_types::{ClusterId, FaultModel, Faults, MembershipId, ReplicaId};
use serde::Deserialize;
use std::fs;
use std::path::{Path, PathBuf};

#[cfg(test)]
mod tests;

/// Whose signatures count.
#[derive(Clone, Debug, Default, clap::Args)]
pub(super) struct KeyArgs {
    /// The client.toml of the cluster that was saved, or the replica.toml of a member: so many of its replicas must have signed the backup that
    /// one of them tells the truth
    #[arg(long, value_name = "FILE")]
    keys: Option<PathBuf>,
    /// The public key of a replica, 64 hexadecimal digits; also one that it had before. As often as needed
    #[arg(long = "key", value_name = "rID=KEY")]
    key: Vec<String>,
    /// How many replicas must have signed [default: one more than may lie, by --keys]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u16).range(1..=64))]
    signatures: Option<u16>,
}

/// The keys that count, and where they are from.
#[derive(Clone, Debug)]
pub(super) struct Known {
    /// The cluster, if the source says so.
    cluster: Option<ClusterId>,
    /// The membership whose keys these are, if the source says so.
    membership: Option<MembershipId>,
    /// Whether a replica of the cluster may lie. Otherwise nobody signs.
    may_lie: bool,
    keys: KnownKeys,
    needed: usize,
    from: String,
}

/// What keys say of a backup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Judged {
    /// No keys were given.
    Unchecked,
    /// Its cluster has no replicas that lie.
    NotNeeded,
    /// These replicas signed it, by the keys that were given.
    Proved(Vec<ReplicaId>),
}

impl Judged {
    /// For programs: whether it is proved; null where nobody asked, or nobody signs.
    pub(super) fn json(&self) -> Option<bool> {
        matches!(self, Self::Proved(_)).then_some(true)
    }
}

/// What of a configuration is read here. Other settings are of no interest.
#[derive(Deserialize)]
struct File {
    cluster: String,
    #[serde(default)]
    fault_model: FaultModel,
    faults: Option<u32>,
    membership: Option<u64>,
    #[serde(default)]
    members: Vec<Member>,
}

#[derive(Deserialize)]
struct Member {
    replica: u16,
    #[serde(default)]
    learner: bool,
    key: Option<String>,
}

fn parse_key(text: &str) -> Option<PublicKey> {
    ClientFile::parse_key(text).and_then(|key| PublicKey::new(key).ok())
}

/// Reads `r1=KEY`, or `1=KEY`.
fn parse_named(text: &str) -> Outcome<(ReplicaId, PublicKey)> {
    let parts = text.split_once('=');
    let id = parts.and_then(|(id, _)| id.trim_start_matches('r').parse().ok()).filter(|id| *id > 0);
    let key = parts.and_then(|(_, key)| parse_key(key));
    match (id, key) {
        (Some(id), Some(key)) => Ok((ReplicaId::new(id), key)),
        _ => Err(Failure::usage(format!(
            "--key {text}: give the id of a replica and its public key, which has 64 hexadecimal digits, as r1=KEY"
        ))),
    }
}

impl Known {
    fn read(path: &Path) -> Outcome<Self> {
        let wrong = |why: String| Failure::usage(format!("{} is not usable: {why}", path.display()));
        let text = fs::read_to_string(path).map_err(|why| wrong(why.to_string()))?;
        let file: File = toml::from_str(&text).map_err(|why| wrong(why.to_string()))?;
        let cluster = ClusterId::parse(&file.cluster)
            .ok_or_else(|| wrong("cluster: an id has 32 hexadecimal digits".into()))?;
        let voters = file.members.iter().filter(|member| !member.learner).count();
        let faults = Faults::of(file.fault_model);
        let faults = file.faults.map_or(faults, |most| faults.at_most(most));
        let mut keys = KnownKeys::new();
        for Member { replica, key, .. } in &file.members {
            if let Some(text) = key {
                let key = parse_key(text)
                    .ok_or_else(|| wrong(format!("members: the key of replica {replica} is none")))?;
                keys.entry(ReplicaId::new(*replica)).or_default().push(key);
            }
        }
        Ok(Self {
            cluster: Some(cluster),
            membership: file.membership.map(MembershipId::new),
            may_lie: faults.may_lie(),
            keys,
            needed: faults.among(u32::try_from(voters).unwrap_or(u32::MAX).max(1)).truth() as usize,
            from: path.display().to_string(),
        })
    }

    /// The same; of a `client.toml` without keys those of a configuration beside it.
    fn find(path: &Path) -> Outcome<Self> {
        let known = Self::read(path)?;
        if !known.may_lie || !known.keys.is_empty() {
            return Ok(known);
        }
        let is_client = path.file_name().is_some_and(|name| name == CLIENT_FILE);
        let beside = is_client.then(|| configurations(path.parent().unwrap_or(Path::new(""))));
        match beside.into_iter().flatten().next() {
            Some(path) => Self::read(&path),
            None => Err(Failure::usage(format!(
                "{} has no public keys, so nobody's signature can be checked with it: name the replica.toml of a member with --keys, or each \
                 key with --key",
                path.display()
            ))),
        }
    }
}

impl KeyArgs {
    /// The keys that are given; none if nothing is.
    ///
    /// # Errors
    /// When a file or a key is none, or it is not said how many signatures are needed.
    pub(super) fn known(&self) -> Outcome<Option<Known>> {
        let file = self.keys.as_deref().map(Known::find).transpose()?;
        let mut keys = KnownKeys::new();
        for text in &self.key {
            let (id, key) = parse_named(text)?;
            keys.entry(id).or_default().push(key);
        }
        let wanted = self.signatures.map(usize::from);
        let mut known = match (file, wanted) {
            (None, None) if keys.is_empty() => return Ok(None),
            (None, Some(_)) if keys.is_empty() => {
                return Err(Failure::usage(
                    "--signatures: whose? Name the cluster's client.toml with --keys, or keys with --key",
                ));
            }
            (None, None) => {
                return Err(Failure::usage(
                    "--key: say with --signatures how many of these replicas must have signed: one more than may lie (of four or more a third \
                     may). With the cluster's client.toml, --keys, that is known",
                ));
            }
            (None, Some(needed)) => Known {
                cluster: None,
                membership: None,
                may_lie: true,
                keys: KnownKeys::new(),
                needed,
                from: "--key".into(),
            },
            (Some(file), Some(wanted)) if wanted < file.needed => {
                return Err(Failure::usage(format!(
                    "--signatures {wanted}: by {} so many of its replicas may lie: {} are needed",
                    file.from, file.needed
                )));
            }
            (Some(file), wanted) => Known { needed: wanted.unwrap_or(file.needed), ..file },
        };
        for (id, more) in keys {
            known.may_lie = true;
            known.keys.entry(id).or_default().extend(more);
        }
        Ok(Some(known))
    }
}

/// What these keys say of a backup.
///
/// # Errors
/// Why it is not proved, and what to give.
pub(super) fn judge(path: &Path, facts: &BackupFacts, known: Option<&Known>) -> Outcome<Judged> {
    let Some(known) = known else { return Ok(Judged::Unchecked) };
    let refused = |why: String| Failure::new(format!("the backup {} is not proved: {why}", path.display()));
    if let Some(cluster) = known.cluster.filter(|cluster| *cluster != facts.cluster) {
        return Err(refused(format!(
            "it is of cluster {}, and {} is of cluster {cluster}. Name the client.toml of the cluster that was saved, or use another backup",
            facts.cluster, known.from
        )));
    }
    if !known.may_lie {
        return Ok(Judged::NotNeeded);
    }
    let Some(proof) = &facts.proof else {
        return Err(refused(
            "no replica signed it, and one of them, or whoever kept the file, may have made it up. Use a backup that `quorate backup create` \
             made of this cluster without --unproved"
                .into(),
        ));
    };
    let of = (facts.cluster, facts.seq, facts.digests.image);
    proof.verify(of, &known.keys, known.needed).map(Judged::Proved).map_err(|why| {
        let number = proof.membership;
        let other = known.membership.is_none_or(|known| known != number);
        let remedy = if other {
            format!(
                ". It was signed in membership {}: give the client.toml of that time with --keys (`quorate member history` writes one), or \
                 the keys that replicas had then with --key r1=KEY. If these are the right ones, somebody made this backup up: use another one",
                number.number()
            )
        } else {
            ". Somebody made this backup up, or took its signatures from another one: use another backup".into()
        };
        refused(format!("by the keys in {}, {why}{remedy}", known.from))
    })
}

/// Whether a new cluster may begin with a backup. `may_lie`: whether replicas of the new cluster may.
///
/// # Errors
/// Why not, and what to give.
pub(super) fn admit(
    path: &Path,
    facts: &BackupFacts,
    known: Option<&Known>,
    (unproved, may_lie): (bool, bool),
) -> Outcome<Judged> {
    let judged = judge(path, facts, known)?;
    if judged != Judged::Unchecked || unproved {
        return Ok(judged);
    }
    let path = path.display();
    let either = "name its client.toml, or the replica.toml of a member, with --keys; or take the backup as it is, with --unproved";
    match &facts.proof {
        Some(proof) => Err(Failure::new(format!(
            "the backup {path} is signed in the names of {}, and nobody has checked that: to do it, {either}",
            super::names(&proof.signers())
        ))),
        None if facts.may_be_of_liars => Err(Failure::new(format!(
            "the backup {path} has no proof, and replicas of its cluster may lie, by the protocol that ordered it. Use one that \
             `quorate backup create` made without --unproved. If they only crash, {either}"
        ))),
        None if may_lie => Err(Failure::new(format!(
            "the backup {path} has no proof, and replicas of the new cluster may lie: it would begin with what one of them, or whoever kept \
             the file, may have made up. If replicas of the old cluster only crash, {either}"
        ))),
        None => Ok(judged),
    }
}
