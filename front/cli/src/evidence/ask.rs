//! Where evidence comes from: running replicas, or files.

use quorate::client::AdminConnection;
use quorate_command::cluster::{Cluster, ClusterArgs};
use quorate_command::failure::{Doing as _, Outcome};
use quorate_order::mod_smart::evidence::Evidence;
use quorate_types::ReplicaId;
use quorate_wire::{EVIDENCE_MAX, FrameKind, OutFrame, read_evidence};
use serde_json::{Value, json};
use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use std::time::{Duration, Instant};

/// How the names of files of evidence end.
pub(super) const NAME: &str = ".proof";
/// How long a replica may take to answer.
const ANSWER: Duration = Duration::from_secs(2);

/// A piece of evidence, and who holds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Held {
    pub(super) evidence: Evidence,
    /// The replicas that hold it, or the file.
    pub(super) by: Vec<String>,
}

impl Held {
    pub(super) fn name(&self) -> String {
        self.evidence.file_name()
    }

    pub(super) fn text(&self) -> String {
        format!("{}\n    {}, held by {}", self.evidence, self.name(), self.by.join(", "))
    }

    pub(super) fn json(&self) -> Value {
        let mut document = head(&self.evidence);
        document["held_by"] = self.by.clone().into();
        document
    }
}

/// Reads a file.
///
/// # Errors
/// Why it is no evidence.
pub(super) fn read(path: &Path) -> Result<Evidence, String> {
    let file = File::open(path).map_err(|error| error.to_string())?;
    let mut bytes = Vec::new();
    file.take(EVIDENCE_MAX as u64 + 1).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    Evidence::decode(bytes.into()).map_err(|why| format!("it can not be read: {why}"))
}

/// The files in a data directory, or in this directory.
pub(super) fn in_directory(directory: &Path) -> Outcome<Vec<Held>> {
    let inner = directory.join("evidence");
    let directory = if inner.is_dir() { &inner } else { directory };
    let entries = std::fs::read_dir(directory).doing(format_args!("read {}", directory.display()))?;
    let paths = entries.flatten().map(|entry| entry.path());
    let mut paths: Vec<_> = paths.filter(|path| path.to_string_lossy().ends_with(NAME)).collect();
    paths.sort_unstable();
    let held = |path: &std::path::PathBuf| match read(path) {
        Ok(evidence) => Some(Held { evidence, by: vec![path.display().to_string()] }),
        Err(why) => {
            eprintln!("{}: {why}", path.display());
            None
        }
    };
    Ok(paths.iter().filter_map(held).collect())
}

/// How many replicas the cluster has.
pub(super) fn members(args: &ClusterArgs) -> Outcome<usize> {
    Ok(Cluster::find(args)?.members.len())
}

/// What could be had of replicas, and of which nothing, with the reason.
type Asked = (Vec<Held>, Vec<(u16, String)>);

/// Asks all replicas at once.
pub(super) fn replicas(args: &ClusterArgs) -> Outcome<Asked> {
    let cluster = Cluster::find(args)?;
    let credentials = cluster.credentials()?;
    let (cluster, credentials) = (&cluster, credentials.as_deref());
    let answers: Vec<(ReplicaId, Result<Vec<Evidence>, String>)> = std::thread::scope(|scope| {
        let ask = |(replica, address): &(ReplicaId, String)| {
            let (replica, address) = (*replica, address.clone());
            let connect =
                move || AdminConnection::connect(replica, &address, cluster.id, credentials, ANSWER);
            (replica, scope.spawn(move || ask(connect()?)))
        };
        let asked: Vec<_> = cluster.members.iter().map(ask).collect();
        let failed = || Err("asking it failed".to_owned());
        asked
            .into_iter()
            .map(|(replica, thread)| (replica, thread.join().unwrap_or_else(|_| failed())))
            .collect()
    });
    Ok(together(answers))
}

/// What several hold is listed once.
pub(super) fn together(answers: Vec<(ReplicaId, Result<Vec<Evidence>, String>)>) -> Asked {
    let (mut held, mut silent): (Vec<Held>, _) = (Vec::new(), Vec::new());
    for (replica, answer) in answers {
        match answer {
            Err(why) => silent.push((replica.number(), why)),
            Ok(all) => {
                for evidence in all {
                    match held.iter_mut().find(|held| held.evidence == evidence) {
                        Some(held) => held.by.push(replica.to_string()),
                        None => held.push(Held { evidence, by: vec![replica.to_string()] }),
                    }
                }
            }
        }
    }
    held.sort_by_key(Held::name);
    (held, silent)
}

fn ask(mut connection: AdminConnection) -> Result<Vec<Evidence>, String> {
    let mut sender = connection.sender()?;
    sender.send(&OutFrame::new(FrameKind::EvidenceRequest, &[], vec![]))?;
    let until = Instant::now() + ANSWER;
    while let Some(frame) = connection.receive(until.saturating_duration_since(Instant::now()))? {
        if frame.kind == FrameKind::Evidence {
            let pieces =
                read_evidence(frame.payload).map_err(|why| format!("its answer can not be read: {why}"))?;
            let all = pieces.into_iter().map(Evidence::decode).collect::<Result<_, _>>();
            return all.map_err(|why| format!("its answer holds what is no evidence: {why}"));
        }
    }
    Err("no answer in time".to_owned())
}

/// The first fields of JSON documents about evidence.
pub(super) fn head(evidence: &Evidence) -> Value {
    json!({
        "file": evidence.file_name(),
        "replica": evidence.accused.number(),
        "kind": evidence.kind.name(),
        "instance": evidence.instance.number(),
        "view": evidence.last().view().number(),
        "slot": evidence.last().slot().number(),
        "what": evidence.to_string(),
    })
}
