//! Asks every replica for its status: an operator needs from each replica an answer, or the reason why there is none.

use crate::cluster::Cluster;
use crate::failure::{Doing as _, Outcome};
use quorate::BlockingClient;
use quorate_types::ReplicaId;
use serde::Deserialize;
use std::time::{Duration, Instant};

/// A replica that has not answered after this time counts as unreachable.
const ANSWER: Duration = Duration::from_secs(1);
/// How often to ask again while waiting for a change.
const ASK_AGAIN: Duration = Duration::from_millis(10);

/// The part of a replica's status that commands use.
#[derive(Clone, Debug, Deserialize)]
pub struct Status {
    /// The view that it is in.
    pub view: u64,
    /// The replica that leads, as far as this one knows.
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
    /// The other replicas, as the leader sees them; empty in a status of a follower.
    pub members: Vec<MemberStatus>,
    /// Problems that an operator should know of, as text.
    pub problems: Vec<String>,
    /// Its process.
    pub process: Process,
    /// The whole answer, as the replica sent it.
    #[serde(skip)]
    pub raw: serde_json::Value,
}

/// The log of a replica.
#[derive(Clone, Debug, Deserialize)]
pub struct LogStatus {
    /// When a write counts as durable: `group`, `async` or `memory`.
    pub durability: String,
    /// By how much every sync is delayed, in microseconds; for benchmarks.
    #[serde(default)]
    pub sync_delay_us: u64,
    /// Replicas whose disks are full, as far as it knows.
    #[serde(default)]
    pub full: Vec<u16>,
    /// Whether it takes writes where it leads: too many disks may be full. Older programs do not say so.
    #[serde(default = "yes")]
    pub takes_writes: bool,
}

fn yes() -> bool {
    true
}

impl LogStatus {
    /// The durability mode, with the delay where there is one.
    pub fn shown(&self) -> String {
        shown_durability(&self.durability, self.sync_delay_us)
    }
}

/// A durability mode as it is printed beside figures: `group`, or `group, +1 ms per sync`.
pub fn shown_durability(mode: &str, sync_delay_us: u64) -> String {
    match sync_delay_us {
        0 => mode.to_owned(),
        us => format!("{mode}, +{} ms per sync", us as f64 / 1000.0),
    }
}

/// Another replica, as the leader sees it.
#[derive(Clone, Debug, Deserialize)]
pub struct MemberStatus {
    /// Its number.
    pub replica: u16,
    /// Bytes of the log that it has not confirmed yet.
    pub lag_bytes: u64,
}

/// The process of a replica.
#[derive(Clone, Debug, Deserialize)]
pub struct Process {
    /// Resident memory.
    pub memory_bytes: u64,
    /// Processor time in user mode, in seconds.
    pub cpu_user_s: f64,
    /// Processor time in the kernel, in seconds.
    pub cpu_system_s: f64,
}

/// The result of asking one replica.
pub struct Answer {
    /// The replica that was asked.
    pub replica: ReplicaId,
    /// Its address.
    pub address: String,
    /// Its status, or why there is none.
    pub status: Result<Status, String>,
    /// When that was known.
    pub at: Instant,
}

/// The addresses of the replicas' fronts with this name, by what they say.
pub fn front(name: &str, answers: &[Answer]) -> Vec<String> {
    let statuses = answers.iter().filter_map(|answer| answer.status.as_ref().ok());
    statuses.filter_map(|status| status.raw["fronts"][name].as_str().map(str::to_owned)).collect()
}

/// Asks replicas for their status.
pub struct Admin {
    client: BlockingClient,
    members: Vec<(ReplicaId, String)>,
}

impl Admin {
    /// Asks the replicas of this cluster.
    pub fn new(cluster: &Cluster) -> Outcome<Self> {
        let builder = cluster.client();
        let client = builder.timeout(ANSWER).build_blocking().doing("ask the replicas")?;
        Ok(Self { client, members: cluster.members.clone() })
    }

    /// Asks all replicas at the same time.
    pub fn ask_all(&self) -> Vec<Answer> {
        std::thread::scope(|scope| {
            let asked: Vec<_> = self
                .members
                .iter()
                .map(|(replica, address)| {
                    (*replica, address, scope.spawn(|| (self.ask(*replica), Instant::now())))
                })
                .collect();
            asked
                .into_iter()
                .map(|(replica, address, thread)| {
                    let failed = |_| (Err("asking it failed".into()), Instant::now());
                    let (status, at) = thread.join().unwrap_or_else(failed);
                    Answer { replica, address: address.clone(), status, at }
                })
                .collect()
        })
    }

    /// Asks one replica. The error says why it did not answer.
    pub fn ask(&self, replica: ReplicaId) -> Result<Status, String> {
        let text = self.client.status(replica).map_err(|why| match why {
            quorate::Error::Connection { text, .. } => text,
            quorate::Error::DeadlineExceeded { .. } => {
                "no answer in time; if it executes a command that takes long, its log names it".to_owned()
            }
            other => other.to_string(),
        })?;
        let raw: serde_json::Value =
            serde_json::from_str(&text).map_err(|why| format!("its answer is no JSON document: {why}"))?;
        let status = Status::deserialize(&raw)
            .map_err(|why| format!("its answer is of another version of this program: {why}"))?;
        Ok(Status { raw, ..status })
    }

    /// Waits until a replica leads.
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

/// The leader: of the replicas that say that they lead, the one in the highest view. With several instances the first one counts, which
/// carries operators' commands.
pub fn leader(answers: &[Answer]) -> Option<ReplicaId> {
    let answered = answers.iter().filter_map(|answer| Some((answer.replica, answer.status.as_ref().ok()?)));
    answered
        .filter(|(_, status)| status.leading)
        .max_by_key(|(replica, status)| (status.leader == Some(replica.number()), status.view))
        .map(|(replica, _)| replica)
}

/// The replicas whose disks are full, if the leader therefore refuses writes.
pub fn refuses_writes(answers: &[Answer], leader: Option<ReplicaId>) -> Option<&[u16]> {
    let answer = answers.iter().find(|answer| Some(answer.replica) == leader)?;
    let log = &answer.status.as_ref().ok()?.log;
    (!log.takes_writes).then_some(&log.full)
}

/// How many replicas know that `leader` leads.
pub fn followers_of(answers: &[Answer], leader: ReplicaId) -> usize {
    let knows =
        |answer: &&Answer| answer.status.as_ref().is_ok_and(|status| status.leader == Some(leader.number()));
    answers.iter().filter(knows).count()
}
