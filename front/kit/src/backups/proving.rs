//! Gathers the proof of a backup where replicas may lie: signatures of the present voters under the digest of its checkpoint, of so many that
//! one of them tells the truth.
//!
//! The replicas are asked at once, each over a connection of its own: one with a program of before closes it, and must not take the fetch with
//! it. What one signs is checked with its key, so a liar is noticed here and not by who restores the backup. Tests: `proving/tests.rs`,
//! front/cli/tests/all/proved.rs.

use super::making::Progress;
use super::{NoBackup, links};
use quorate::client::{AdminConnection, ClientFile, Credentials};
use quorate_auth::{CheckpointProof, KnownKeys, PublicKey, Signature, checkpoint_statement};
use quorate_types::{Digest, MembershipId, ReplicaId, Seq};
use quorate_wire::{AttestAnswer, Attested, FrameKind, attest_request};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

#[cfg(test)]
mod tests;

/// How long a replica may take to answer.
const ANSWER: Duration = Duration::from_secs(2);
/// How often those are asked that have not signed: a replica may be a little behind the others.
const ASK_AGAIN: Duration = Duration::from_millis(300);
/// How long to wait for enough signatures at most. Who has not been at that border by then comes by another checkpoint.
const WAIT: Duration = Duration::from_secs(30);

/// The cluster with its present members and their keys, as far as membership links prove them. Where none do, it is as it was.
pub(super) fn present(cluster: &ClientFile) -> ClientFile {
    let mut present = cluster.clone();
    if cluster.faults_of_cluster().may_lie() && present.follow(&[], ANSWER).is_err() {
        return cluster.clone();
    }
    present
}

/// Asks the replicas until enough of them have signed the digest of the checkpoint of this seq, and once more for those that are late.
///
/// # Errors
/// Who did not sign, and why.
pub(super) fn prove(
    cluster: &ClientFile,
    of: (Seq, Digest),
    patience: Duration,
    progress: &dyn Fn(Progress),
) -> Result<CheckpointProof, NoBackup> {
    let own = links::credentials(cluster).map_err(NoBackup::new)?;
    let (mut gathering, until) = (Gathering::new(cluster, of), Instant::now() + patience.min(WAIT));
    let mut is_last = false;
    loop {
        progress(Progress::Waits("waiting for the signatures of the replicas".to_owned()));
        for (from, answer) in ask(cluster, own.as_ref(), &gathering.missing(), of) {
            gathering.heard(from, answer);
        }
        match gathering.proof() {
            Some(proof) if is_last || gathering.missing().is_empty() => return Ok(proof),
            proof => is_last = proof.is_some(),
        }
        if !is_last && Instant::now() >= until {
            return Err(gathering.too_few());
        }
        std::thread::sleep(ASK_AGAIN);
    }
}

/// Asks these replicas at once.
fn ask(
    cluster: &ClientFile,
    own: Option<&Credentials>,
    whom: &[ReplicaId],
    of: (Seq, Digest),
) -> Vec<(ReplicaId, Result<Attested, String>)> {
    let places = cluster.members.iter().filter(|(replica, _)| whom.contains(replica));
    std::thread::scope(|scope| {
        let asked = places.map(|(replica, address)| {
            (*replica, scope.spawn(move || ask_one((*replica, address), cluster, own, of)))
        });
        let asked: Vec<_> = asked.collect();
        let failed = |_| Err("asking it failed".to_owned());
        asked.into_iter().map(|(replica, thread)| (replica, thread.join().unwrap_or_else(failed))).collect()
    })
}

fn ask_one(
    (replica, address): (ReplicaId, &str),
    cluster: &ClientFile,
    own: Option<&Credentials>,
    (seq, digest): (Seq, Digest),
) -> Result<Attested, String> {
    let mut connection = AdminConnection::connect(replica, address, cluster.cluster, own, ANSWER)?;
    // The connection ends with it.
    let mut sender = connection.sender()?;
    sender.send(&attest_request(seq, digest))?;
    let until = Instant::now() + ANSWER;
    while let Some(frame) = connection.receive(until.saturating_duration_since(Instant::now()))? {
        if frame.kind == FrameKind::Attested {
            return Attested::decode(frame.payload)
                .map_err(|why| format!("its answer can not be read: {why}"));
        }
    }
    Err("no answer in time".to_owned())
}

/// What the replicas answered.
#[derive(Debug)]
struct Gathering {
    /// The proof as it will be, without signatures.
    bare: CheckpointProof,
    needed: usize,
    voters: Vec<ReplicaId>,
    /// The public keys that are known. If there are none, nothing is checked here.
    keys: KnownKeys,
    /// By the membership in which they were made.
    signed: BTreeMap<MembershipId, BTreeMap<ReplicaId, Signature>>,
    /// Why others did not sign, as far as is known.
    why: BTreeMap<ReplicaId, String>,
}

impl Gathering {
    /// Nobody was asked yet for the checkpoint with this seq and digest.
    fn new(cluster: &ClientFile, (seq, digest): (Seq, Digest)) -> Self {
        let voters = cluster.members.iter().map(|(replica, _)| *replica);
        let voters: Vec<ReplicaId> = voters.filter(|id| !cluster.learners.contains(id)).collect();
        let count = u32::try_from(voters.len()).unwrap_or(u32::MAX).max(1);
        let key = |(id, key): (&ReplicaId, &[u8; 32])| Some((*id, vec![PublicKey::new(*key).ok()?]));
        let bare = CheckpointProof {
            cluster: cluster.cluster,
            membership: MembershipId::FIRST,
            seq,
            digest,
            signed: Vec::new(),
        };
        Self {
            bare,
            needed: cluster.faults_of_cluster().among(count).truth() as usize,
            voters,
            keys: cluster.keys.iter().filter_map(key).collect(),
            signed: BTreeMap::new(),
            why: BTreeMap::new(),
        }
    }

    /// The voters that have not signed with the others: who signed in an older membership is about to learn of the newest one.
    fn missing(&self) -> Vec<ReplicaId> {
        let enough = self.signed.values().rev().find(|signed| signed.len() >= self.needed);
        let with = enough.or(self.signed.values().next_back());
        let has = |id: &ReplicaId| with.is_some_and(|signed| signed.contains_key(id));
        self.voters.iter().copied().filter(|id| !has(id)).collect()
    }

    /// Takes the answer of a replica. Only a right signature of a voter counts.
    fn heard(&mut self, from: ReplicaId, answer: Result<Attested, String>) {
        match answer.and_then(|attested| self.check(from, attested)) {
            Ok((membership, signature)) => {
                self.why.remove(&from);
                self.signed.entry(membership).or_default().insert(from, signature);
            }
            Err(why) => drop(self.why.insert(from, why)),
        }
    }

    fn check(&self, from: ReplicaId, attested: Attested) -> Result<(MembershipId, Signature), String> {
        if !self.voters.contains(&from) {
            return Err("it does not vote".into());
        }
        if (attested.seq, attested.digest) != (self.bare.seq, self.bare.digest) {
            return Err("it answers about another checkpoint".into());
        }
        let (membership, signature) = match attested.answer {
            AttestAnswer::Refused(why) => return Err(why),
            AttestAnswer::Signed { membership, signature } => (membership, signature),
        };
        let signature = Signature::new(&signature).map_err(|why| why.to_string())?;
        let text = checkpoint_statement(self.bare.cluster, membership, (attested.seq, attested.digest));
        match self.keys.get(&from) {
            None if self.keys.is_empty() => {}
            None => return Err("its public key is not known here".into()),
            Some(keys) if keys.iter().any(|key| key.verifies(&text.bytes, &signature)) => {}
            Some(_) => {
                return Err(
                    "its signature is wrong: it lies, or it has another key than client.toml says".into()
                );
            }
        }
        Ok((membership, signature))
    }

    /// The proof, once enough voters signed in the same membership.
    fn proof(&self) -> Option<CheckpointProof> {
        let enough = |(_, signed): &(&MembershipId, &BTreeMap<_, _>)| signed.len() >= self.needed;
        let (membership, signed) = self.signed.iter().rev().find(enough)?;
        let signed = signed.iter().map(|(id, signature)| (*id, *signature)).collect();
        Some(CheckpointProof { membership: *membership, signed, ..self.bare.clone() })
    }

    fn too_few(&self) -> NoBackup {
        let signed: Vec<String> = self
            .signed
            .iter()
            .flat_map(|(membership, signed)| {
                signed
                    .keys()
                    .map(move |id| format!("\n  {id}: signed, in membership {}", membership.number()))
            })
            .collect();
        let why: Vec<String> = self.why.iter().map(|(id, why)| format!("\n  {id}: {why}")).collect();
        NoBackup::new(format!(
            "replicas of this cluster may lie, and fewer than {} signed the state at seq {}, so nobody could prove the backup later:{}{}\nSee \
             `quorate status`, and try again with --fresh. A replica with a program of before signs nothing: upgrade it, or make the backup \
             with --unproved",
            self.needed,
            self.bare.seq.number(),
            signed.concat(),
            why.concat(),
        ))
    }
}
