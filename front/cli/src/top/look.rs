//! What one look at a cluster shows: the answers of its replicas, read with care, since a replica may be of another version or may lie.

use super::took::Took;
use crate::problems::Problem;
use quorate_command::admin::Answer;
use serde_json::Value;
use std::time::Instant;

/// Lists of an answer that are longer than this are cut: an honest replica has no such lists.
const MOST: usize = 256;
/// So are texts, in characters.
const TEXT: usize = 600;
/// And names, of calls and of their fronts.
const NAME: usize = 40;

/// A cluster at one moment.
#[derive(Clone, Debug)]
pub(super) struct Look {
    /// When, in milliseconds since 1970.
    pub(super) time_ms: u64,
    /// What was looked at, or why nothing was found: text with what to do.
    pub(super) found: Result<Found, String>,
}

/// A cluster that was found, whether its replicas answer or not.
#[derive(Clone, Debug)]
pub(super) struct Found {
    /// The whole id.
    pub(super) cluster: String,
    /// Which faults it survives, in the words of the configuration.
    pub(super) model: String,
    /// Its replicas, in the order of its `client.toml`.
    pub(super) replicas: Vec<Seen>,
    /// Its problems, the newest first.
    pub(super) problems: Vec<Known>,
}

/// A problem, and for how long it is known.
#[derive(Clone, Debug)]
pub(super) struct Known {
    pub(super) problem: Problem,
    /// How many seconds ago it was seen first.
    pub(super) seconds: u64,
}

/// What was seen of a replica.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    pub(super) id: u16,
    pub(super) address: String,
    /// When it answered, or did not.
    pub(super) at: Instant,
    /// What it said, or why it did not answer.
    pub(super) facts: Result<Facts, String>,
}

/// What a replica says of itself. What it does not say is none.
#[derive(Clone, Debug, Default)]
pub(super) struct Facts {
    /// Its process: the id, and when it began, in seconds since 1970. Counters of another process begin at 0.
    pub(super) process: (Option<u64>, Option<u64>),
    pub(super) removed: bool,
    pub(super) learner: bool,
    pub(super) requests: Option<u64>,
    pub(super) reads: Option<u64>,
    pub(super) executed: Option<u64>,
    /// Bytes of the log ever written.
    pub(super) log_bytes: Option<u64>,
    /// From a leader's proposal of a batch until it is decided and delivered there.
    pub(super) ordered: Took,
    /// Writes of the log.
    pub(super) written: Took,
    pub(super) cpu_s: Option<f64>,
    pub(super) memory: Option<u64>,
    pub(super) disk_free: Option<u64>,
    pub(super) disk_full: bool,
    pub(super) clients: Option<u64>,
    /// Bytes of requests that are admitted and not decided.
    pub(super) waiting: Option<u64>,
    /// The share of its time in which each lane worked lately, from 0 to 1.
    pub(super) lanes: Vec<f64>,
    pub(super) checkpoints: Checkpoints,
    pub(super) instances: Vec<Instance>,
    /// What others lack of its log, in bytes, where it leads.
    pub(super) lags: Vec<(u16, u64)>,
    pub(super) calls: Vec<Call>,
}

/// How far a replica is with its checkpoints.
#[derive(Clone, Debug, Default)]
pub(super) struct Checkpoints {
    /// The last border; 0 before the first.
    pub(super) last: u64,
    pub(super) agreed: u64,
    pub(super) durable: u64,
    pub(super) writing: Option<u64>,
    pub(super) diverged: Option<u64>,
    pub(super) transfer: Option<Transfer>,
}

/// A checkpoint on its way to a replica, in bytes; all of them are 0 until that is known.
#[derive(Clone, Copy, Debug)]
pub(super) struct Transfer {
    pub(super) done: u64,
    pub(super) all: u64,
    pub(super) installing: bool,
}

/// What a replica says of an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Instance {
    pub(super) number: u16,
    pub(super) view: u64,
    pub(super) leader: Option<u16>,
}

/// What a replica says of one kind of calls of its clients.
#[derive(Clone, Debug)]
pub(super) struct Call {
    pub(super) front: String,
    pub(super) name: String,
    pub(super) failed: Option<u64>,
    pub(super) took: Took,
}

impl Look {
    /// Nothing was found, for this reason.
    pub(super) const fn nothing(time_ms: u64, why: String) -> Self {
        Self { time_ms, found: Err(why) }
    }

    /// The replicas; none where nothing was found.
    pub(super) fn replicas(&self) -> &[Seen] {
        self.found.as_ref().map_or(&[], |found| &found.replicas)
    }
}

impl Seen {
    pub(super) fn of(answer: &Answer) -> Self {
        let facts = match &answer.status {
            Ok(status) => Ok(Facts::of(answer.replica.number(), &status.raw)),
            Err(why) => Err(short(why, TEXT)),
        };
        Self { id: answer.replica.number(), address: answer.address.clone(), at: answer.at, facts }
    }
}

impl Facts {
    /// From a whole status of a replica.
    pub(super) fn of(me: u16, status: &Value) -> Self {
        let number = |at: &str| status.pointer(at).and_then(Value::as_u64);
        let members = list(&status["membership"]["members"]);
        let mine = members.iter().find(|member| member["replica"] == me);
        Self {
            process: (number("/process/pid"), number("/process/start_time_s")),
            removed: status["membership"]["removed"] == true,
            learner: mine.is_some_and(|member| member["role"] == "learner"),
            requests: number("/requests"),
            reads: number("/reads"),
            executed: number("/executed"),
            log_bytes: number("/log/position"),
            ordered: Took::of(&status["latencies"]["ordered"]),
            written: Took::of(&status["latencies"]["written"]),
            cpu_s: cpu_s(&status["process"]),
            memory: number("/process/memory_bytes"),
            disk_free: number("/disk/free_bytes"),
            disk_full: status["log"]["disk_full"] == true,
            clients: number("/seats/clients"),
            waiting: number("/queue_bytes"),
            lanes: list(&status["lanes"]).iter().filter_map(busy).collect(),
            checkpoints: Checkpoints::of(&status["checkpoints"]),
            instances: instances(status),
            lags: list(&status["members"]).iter().filter_map(lag).collect(),
            calls: calls(&status["calls"]),
        }
    }

    /// Whether both are of one process, so that counters may be compared.
    pub(super) fn same_process(&self, other: &Self) -> bool {
        self.process == other.process
    }
}

impl Checkpoints {
    fn of(status: &Value) -> Self {
        let number = |name: &str| status[name].as_u64();
        let transfer = &status["transfer"];
        Self {
            last: number("last_seq").unwrap_or(0),
            agreed: number("agreed_seq").unwrap_or(0),
            durable: number("durable_seq").unwrap_or(0),
            writing: number("writing"),
            diverged: number("diverged"),
            transfer: transfer.is_object().then(|| Transfer {
                done: transfer["bytes_done"].as_u64().unwrap_or(0),
                all: transfer["bytes_total"].as_u64().unwrap_or(0),
                installing: transfer["installing"] == true,
            }),
        }
    }
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], |list| &list[..list.len().min(MOST)])
}

fn small(value: &Value) -> Option<u16> {
    value.as_u64().and_then(|number| u16::try_from(number).ok())
}

fn cpu_s(process: &Value) -> Option<f64> {
    let of = |name: &str| process[name].as_f64();
    of("cpu_s").or_else(|| Some(of("cpu_user_s")? + of("cpu_system_s")?))
}

fn busy(lane: &Value) -> Option<f64> {
    lane["busy"].as_f64().map(|permille| (permille / 1000.0).clamp(0.0, 1.0))
}

fn lag(member: &Value) -> Option<(u16, u64)> {
    Some((small(&member["replica"])?, member["lag_bytes"].as_u64()?))
}

/// The instances; a program that does not list them has one.
fn instances(status: &Value) -> Vec<Instance> {
    let of = |each: &Value, number: Option<u16>| {
        Some(Instance { number: number?, view: each["view"].as_u64()?, leader: small(&each["leader"]) })
    };
    let here = |each: &&Value| each["state"] != "away";
    let each = list(&status["instances"]["each"]).iter().filter(here);
    let found: Vec<Instance> = each.filter_map(|each| of(each, small(&each["instance"]))).collect();
    if found.is_empty() { of(status, Some(1)).into_iter().collect() } else { found }
}

fn calls(fronts: &Value) -> Vec<Call> {
    let Some(fronts) = fronts.as_object() else { return Vec::new() };
    let of = |front: &str, call: &Value| {
        Some(Call {
            front: short(front, NAME),
            name: short(call["call"].as_str()?, NAME),
            failed: call["failed"].as_u64(),
            took: Took::of(&call["took"]),
        })
    };
    let each = fronts.iter().flat_map(|(front, calls)| list(calls).iter().map(move |call| (front, call)));
    each.take(MOST).filter_map(|(front, call)| of(front, call)).collect()
}

/// At most this much of a text.
pub(super) fn short(text: &str, chars: usize) -> String {
    match text.char_indices().nth(chars) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}

/// A problem with a text that is not too long.
pub(super) fn cut(problem: Problem) -> Problem {
    match problem {
        Problem::Said { replica, text } => Problem::Said { replica, text: short(&text, TEXT) },
        Problem::Away { replica, text } => Problem::Away { replica, text: short(&text, TEXT) },
        Problem::Whole(text) => Problem::Whole(short(&text, TEXT)),
    }
}
