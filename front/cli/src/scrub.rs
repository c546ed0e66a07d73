//! `quorate scrub`: makes replicas read their data on disk, compare it, and repair damage.
//!
//! A replica scrubs beside its other work; this command watches its status until it has finished. Damage that a replica can not repair from
//! its own copies is fetched from other replicas. Tests: tests/backup.rs.

use quorate::client::AdminConnection;
use quorate_command::admin::Admin;
use quorate_command::cluster::{Cluster, ClusterArgs};
use quorate_command::failure::{Failure, Outcome};
use quorate_command::print::{self, size};
use quorate_types::ReplicaId;
use quorate_wire::{FrameKind, OutFrame};
use serde_json::{Value, json};
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Have replicas read everything that they keep at rest, and mend it.
///
/// Compares every checksum and digest of the checkpoints, and of the log's files that are full. A damaged part of a checkpoint is
/// fetched from the other replicas and written again; for a damaged log a checkpoint is made, and the log trimmed beyond
/// the damage. Replicas do this by themselves every `scrub_hours`; ask for it after a disk made trouble, or before a backup.
/// The cluster goes on working.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  quorate scrub                 all replicas
  quorate scrub 2               one
  quorate scrub --json | jq '.[] | {replica, damaged, mended}'

Exit codes: 0 everything is sound now, 1 something is not, or a replica could not be asked.")]
pub(crate) struct Args {
    /// Which replica, or all
    #[arg(value_name = "REPLICA|all", default_value = "all", value_parser = parse_which)]
    which: Which,
    #[command(flatten)]
    cluster: ClusterArgs,
    /// Give up when it has not ended after so long; the replicas go on
    #[arg(long, value_name = "SECONDS", default_value_t = 3600, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    timeout: u64,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Which {
    All,
    One(ReplicaId),
}

/// How long a replica may take to answer before it counts as unreachable.
const ANSWER: Duration = Duration::from_secs(2);
/// How often the status is asked for.
const LOOK: Duration = Duration::from_millis(100);
/// How long the other replicas may take to send undamaged copies.
const MEND: Duration = Duration::from_secs(30);

/// The result of one replica's scrub.
pub(crate) struct Scrubbed {
    pub(crate) bytes: u64,
    pub(crate) mended: u64,
    pub(crate) damaged: u64,
}

pub(crate) fn run(args: &Args) -> Outcome {
    let cluster = Cluster::find(&args.cluster)?;
    let asked: Vec<(ReplicaId, String)> = match args.which {
        Which::All => cluster.members.clone(),
        Which::One(id) => cluster.members.iter().filter(|(replica, _)| *replica == id).cloned().collect(),
    };
    if asked.is_empty() {
        return Err(Failure::usage("this cluster has no such replica: `quorate status` names them"));
    }
    let admin = Admin::new(&cluster)?;
    let until = Instant::now() + Duration::from_secs(args.timeout);
    let cluster = &cluster;
    let ended: Vec<(ReplicaId, Result<Scrubbed, String>)> = std::thread::scope(|scope| {
        let begin = |(replica, address): &(ReplicaId, String)| {
            let (admin, replica, address) = (&admin, *replica, address.clone());
            (replica, scope.spawn(move || scrub(admin, cluster, replica, &address, until)))
        };
        let begun: Vec<_> = asked.iter().map(begin).collect();
        let end = |(replica, thread): (ReplicaId, std::thread::ScopedJoinHandle<'_, _>)| {
            (replica, thread.join().unwrap_or_else(|_| Err("asking it failed".to_owned())))
        };
        begun.into_iter().map(end).collect()
    });
    let sound = ended.iter().all(|(_, ended)| ended.as_ref().is_ok_and(|scrubbed| scrubbed.damaged == 0));
    print::line(if args.json { json(&ended) } else { text(&ended) })?;
    Ok(if sound { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// What a replica's status says of its data on disk.
struct Look {
    scrubs: u64,
    bytes: u64,
    mended: u64,
    damaged: u64,
    /// Whether it is reading its log.
    reads_log: bool,
    /// Whether its log has damage.
    log_damaged: bool,
}

fn look(admin: &Admin, replica: ReplicaId) -> Result<Look, String> {
    let status = admin.ask(replica)?;
    let number = |key: &str| status.raw["checkpoints"][key].as_u64();
    let all = || {
        Some(Look {
            scrubs: number("scrubs")?,
            bytes: number("scrubbed_bytes").unwrap_or(0),
            mended: number("repaired")?,
            damaged: number("rotten")?,
            reads_log: status.raw["log"]["scrubbing"].is_u64(),
            log_damaged: status.raw["log"]["rotten"].is_u64(),
        })
    };
    all().ok_or_else(|| "its status is of another version of this program".to_owned())
}

/// Lets a replica scrub, and waits for the end.
///
/// # Errors
/// Why it is not known what it found.
pub(crate) fn scrub(
    admin: &Admin,
    cluster: &Cluster,
    replica: ReplicaId,
    address: &str,
    until: Instant,
) -> Result<Scrubbed, String> {
    let before = look(admin, replica)?;
    begin(cluster, replica, address)?;
    let (mut ended_at, mut log_damaged) = (None, before.log_damaged);
    loop {
        std::thread::sleep(LOOK);
        let now = look(admin, replica)?;
        if now.scrubs < before.scrubs || now.mended < before.mended {
            return Err("it was started again meanwhile: ask once more".to_owned());
        }
        log_damaged |= now.log_damaged;
        if now.scrubs > before.scrubs && !now.reads_log {
            let ended_at = *ended_at.get_or_insert_with(Instant::now);
            let damaged = now.damaged + u64::from(now.log_damaged);
            if damaged == 0 || ended_at.elapsed() >= MEND {
                let mended = now.mended - before.mended + u64::from(log_damaged && !now.log_damaged);
                return Ok(Scrubbed { bytes: now.bytes, mended, damaged });
            }
        } else if Instant::now() >= until {
            return Err("it has not ended in time, and goes on: `quorate status --json` shows what it finds"
                .to_owned());
        }
    }
}

fn begin(cluster: &Cluster, replica: ReplicaId, address: &str) -> Result<(), String> {
    let credentials = cluster.credentials().map_err(|why| why.to_string())?;
    let mut connection =
        AdminConnection::connect(replica, address, cluster.id, credentials.as_deref(), ANSWER)?;
    let mut sender = connection.sender()?;
    sender.send(&OutFrame::new(FrameKind::ScrubRequest, &[], vec![]))?;
    let until = Instant::now() + ANSWER;
    while let Some(frame) = connection.receive(until.saturating_duration_since(Instant::now()))? {
        if frame.kind == FrameKind::ScrubReply {
            let text = String::from_utf8_lossy(&frame.payload).into_owned();
            return text.strip_prefix("error: ").map_or(Ok(()), |why| Err(why.to_owned()));
        }
    }
    Err("no answer in time".to_owned())
}

fn text(ended: &[(ReplicaId, Result<Scrubbed, String>)]) -> String {
    let line = |(replica, ended): &(ReplicaId, Result<Scrubbed, String>)| match ended {
        Err(why) => format!("replica {}: {why}", replica.number()),
        Ok(scrubbed) => format!("replica {}: {}", replica.number(), scrubbed.text()),
    };
    ended.iter().map(line).collect::<Vec<_>>().join("\n")
}

impl Scrubbed {
    /// What was read and found, in words.
    pub(crate) fn text(&self) -> String {
        let Self { bytes, mended, damaged } = self;
        let places = |count: u64| {
            if count == 1 { "1 damaged place".to_owned() } else { format!("{count} damaged places") }
        };
        let found = match (mended, damaged) {
            (0, 0) => "all of it is sound".to_owned(),
            (mended, 0) => format!("{} found and mended", places(*mended)),
            (0, damaged) => format!("{} can not be mended now", places(*damaged)),
            (mended, damaged) => {
                format!("{} found and mended, {} can not be mended now", places(*mended), places(*damaged))
            }
        };
        format!("{} of checkpoints read, and the log: {found}", size(*bytes))
    }

    /// The same, for programs.
    pub(crate) fn json(&self) -> Value {
        json!({ "bytes": self.bytes, "mended": self.mended, "damaged": self.damaged })
    }
}

fn json(ended: &[(ReplicaId, Result<Scrubbed, String>)]) -> String {
    let one = |(replica, ended): &(ReplicaId, Result<Scrubbed, String>)| match ended {
        Err(why) => json!({ "replica": replica.number(), "error": why }),
        Ok(Scrubbed { bytes, mended, damaged }) => {
            json!({ "replica": replica.number(), "bytes": bytes, "mended": mended, "damaged": damaged })
        }
    };
    Value::Array(ended.iter().map(one).collect()).to_string()
}

fn parse_which(text: &str) -> Result<Which, String> {
    match text {
        "all" => Ok(Which::All),
        _ => match text.parse() {
            Ok(id) if id > 0 => Ok(Which::One(ReplicaId::new(id))),
            _ => Err("name a replica by its number, or all".to_owned()),
        },
    }
}
