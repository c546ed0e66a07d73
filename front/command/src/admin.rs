//! Asks each replica how it is: an operator needs an answer, or the reason why there is none, from each of them.

use crate::cluster::Cluster;
use crate::failure::{Doing as _, Outcome};
use quorate::BlockingClient;
use quorate_types::ReplicaId;
use serde::Deserialize;
use std::time::{Duration, Instant};

/// Who has not answered after this counts as unreachable.
const ANSWER: Duration = Duration::from_secs(1);
/// How often we ask again while we wait for something.
const ASK_AGAIN: Duration = Duration::from_millis(10);

/// What a replica says of itself; a part of what it sends.
#[derive(Clone, Debug, Deserialize)]
pub struct Status {
    /// The view that it is in.
    pub view: u64,
    /// Who leads, as far as it knows.
    pub leader: Option<u16>,
    /// Whether it leads itself.
    pub leading: bool,
    /// The last slot that it knows to be decided.
    pub decided: u64,
    /// The last slot that it executed.
    pub executed: u64,
    /// How many sessions are open.
    pub sessions: u64,
    /// Its log.
    pub log: LogStatus,
    /// The other replicas, where it leads.
    pub members: Vec<MemberStatus>,
    /// What an operator should know, for people.
    pub problems: Vec<String>,
    /// Its process.
    pub process: Process,
    /// The whole answer.
    #[serde(skip)]
    pub raw: serde_json::Value,
}

/// The log of a replica.
#[derive(Clone, Debug, Deserialize)]
pub struct LogStatus {
    /// When a write counts as durable: `group`, `async` or `memory`.
    pub durability: String,
    /// What every sync takes longer, as configured for benchmarks.
    #[serde(default)]
    pub sync_delay_us: u64,
}

impl LogStatus {
    /// The durability mode, with the delay where there is one.
    pub fn shown(&self) -> String {
        shown_durability(&self.durability, self.sync_delay_us)
    }
}

/// A durability mode as it stands beside figures: `group`, or `group, +1 ms per sync`.
pub fn shown_durability(mode: &str, sync_delay_us: u64) -> String {
    match sync_delay_us {
        0 => mode.to_owned(),
        us => format!("{mode}, +{} ms per sync", us as f64 / 1000.0),
    }
}

/// Another replica, as the leader sees it.
#[derive(Clone, Debug, Deserialize)]
pub struct MemberStatus {
    /// Which one.
    pub replica: u16,
    /// How much of the log it has not confirmed yet.
    pub lag_bytes: u64,
}

/// The process of a replica.
#[derive(Clone, Debug, Deserialize)]
pub struct Process {
    /// Resident memory.
    pub memory_bytes: u64,
    /// Processor time in the program, in seconds.
    pub cpu_user_s: f64,
    /// Processor time in the system, in seconds.
    pub cpu_system_s: f64,
}

/// What became of asking one replica.
pub struct Answer {
    /// Who was asked.
    pub replica: ReplicaId,
    /// Where.
    pub address: String,
    /// Its status, or why there is none.
    pub status: Result<Status, String>,
}

/// Where clients of etcd are served, as the replicas say.
pub fn etcd(answers: &[Answer]) -> Vec<String> {
    let statuses = answers.iter().filter_map(|answer| answer.status.as_ref().ok());
    statuses.filter_map(|status| status.raw["fronts"]["etcd"].as_str().map(str::to_owned)).collect()
}

/// Somebody who asks.
pub struct Admin {
    client: BlockingClient,
    members: Vec<(ReplicaId, String)>,
}

impl Admin {
    /// For the replicas of this cluster.
    pub fn new(cluster: &Cluster) -> Outcome<Self> {
        let builder = cluster.client();
        let client = builder.timeout(ANSWER).build_blocking().doing("ask the replicas")?;
        Ok(Self { client, members: cluster.members.clone() })
    }

    /// Asks all replicas at once.
    pub fn ask_all(&self) -> Vec<Answer> {
        std::thread::scope(|scope| {
            let asked: Vec<_> = self
                .members
                .iter()
                .map(|(replica, address)| (*replica, address, scope.spawn(|| self.ask(*replica))))
                .collect();
            asked
                .into_iter()
                .map(|(replica, address, thread)| {
                    let status = thread.join().unwrap_or_else(|_| Err("asking it failed".into()));
                    Answer { replica, address: address.clone(), status }
                })
                .collect()
        })
    }

    /// Asks one replica; says why it did not answer.
    pub fn ask(&self, replica: ReplicaId) -> Result<Status, String> {
        let text = self.client.status(replica).map_err(|why| match why {
            quorate::Error::Connection { text, .. } => text,
            other => other.to_string(),
        })?;
        let raw: serde_json::Value =
            serde_json::from_str(&text).map_err(|why| format!("its answer is no JSON document: {why}"))?;
        let status = Status::deserialize(&raw)
            .map_err(|why| format!("its answer is of another version of this program: {why}"))?;
        Ok(Status { raw, ..status })
    }

    /// Waits until somebody leads.
    pub fn wait_for_leader(&self, limit: Duration) -> Option<ReplicaId> {
        let until = Instant::now() + limit;
        loop {
            if let Some(leader) = leader(&self.ask_all()) {
                return Some(leader);
            }
            if Instant::now() >= until {
                return None;
            }
            std::thread::sleep(ASK_AGAIN);
        }
    }

    /// Waits until this replica answers.
    pub fn wait_for(&self, replica: ReplicaId, limit: Duration) -> bool {
        let until = Instant::now() + limit;
        loop {
            if self.ask(replica).is_ok() {
                return true;
            }
            if Instant::now() >= until {
                return false;
            }
            std::thread::sleep(ASK_AGAIN);
        }
    }
}

/// Who leads: a replica that says so itself, in the highest view of those that do; with several instances it is the first one that
/// counts, which carries what operators ask for.
pub fn leader(answers: &[Answer]) -> Option<ReplicaId> {
    let answered = answers.iter().filter_map(|answer| Some((answer.replica, answer.status.as_ref().ok()?)));
    answered
        .filter(|(_, status)| status.leading)
        .max_by_key(|(replica, status)| (status.leader == Some(replica.number()), status.view))
        .map(|(replica, _)| replica)
}

/// How many replicas know that `leader` leads.
pub fn followers_of(answers: &[Answer], leader: ReplicaId) -> usize {
    let knows =
        |answer: &&Answer| answer.status.as_ref().is_ok_and(|status| status.leader == Some(leader.number()));
    answers.iter().filter(knows).count()
}
