//! `quorate lanes`: shows which instances stand on which lanes of each replica, and moves them while the replicas work.
//! docs/operations/lanes.md says when. Tests: tests/all/lanes.rs.

use quorate::client::AdminConnection;
use quorate_command::admin::Admin;
use quorate_command::cluster::{Cluster, ClusterArgs};
use quorate_command::failure::{Failure, Outcome};
use quorate_command::print;
use quorate_types::{InstanceId, ReplicaId};
use quorate_wire::{FrameKind, lanes_request};
use serde::Deserialize;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// How long a replica may take to answer before it counts as unreachable.
const ANSWER: Duration = Duration::from_secs(2);

/// Show which instances stand on which lanes, and move them while the cluster works.
///
/// A replica with several lanes (`lanes` or `cores` in its configuration) does the work of each instance on one of them: its requests, its
/// protocol, its connections. Lane 1 also merges, executes and answers. Replicas move instances by themselves from a lane that has too much
/// work to one that has time. Each replica places for itself, and nothing of this is kept across a restart.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  quorate lanes show
  quorate lanes set 2=3                 instance 2 on lane 3 of every replica
  quorate lanes set 1=2 3=2 --replica 1
  quorate lanes set auto                replicas place by themselves again")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    Show(ShowArgs),
    Set(SetArgs),
}

/// Show the lanes of each replica: what stands on them, and how busy they are.
#[derive(Debug, clap::Args)]
struct ShowArgs {
    #[command(flatten)]
    cluster: ClusterArgs,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// Have instances on other lanes. They stay there until the replica starts again, or until `set auto`.
#[derive(Debug, clap::Args)]
struct SetArgs {
    /// Which instance on which lane, both from 1; or `auto`
    #[arg(value_name = "INSTANCE=LANE", required = true, value_parser = parse_place)]
    places: Vec<Place>,
    /// Only at this replica [default: at all of them]
    #[arg(long, value_name = "REPLICA")]
    replica: Option<u16>,
    #[command(flatten)]
    cluster: ClusterArgs,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Auto,
    On(InstanceId, u16),
}

fn parse_place(text: &str) -> Result<Place, String> {
    if text == "auto" {
        return Ok(Place::Auto);
    }
    let wrong = || "write INSTANCE=LANE, as in 2=3, or auto".to_owned();
    let (instance, lane) = text.split_once('=').ok_or_else(wrong)?;
    match (instance.parse::<u16>(), lane.parse::<u16>()) {
        (Ok(instance @ 1..), Ok(lane @ 1..)) => Ok(Place::On(InstanceId::new(instance), lane)),
        _ => Err(wrong()),
    }
}

pub(crate) fn run(args: &Args) -> Outcome {
    match &args.command {
        Command::Show(args) => show(args),
        Command::Set(args) => set(args),
    }
}

/// What a replica's status says of its lanes.
#[derive(Clone, Debug, Deserialize)]
struct Said {
    lanes: Vec<Lane>,
    instances: Instances,
}

#[derive(Clone, Debug, Deserialize)]
struct Lane {
    lane: u16,
    /// In a staged replica: the step of the work that it does.
    step: Option<String>,
    connections: usize,
    busy: u64,
    links: Vec<u16>,
}

#[derive(Clone, Debug, Deserialize)]
struct Instances {
    each: Vec<One>,
}

#[derive(Clone, Debug, Deserialize)]
struct One {
    instance: u16,
    link: u16,
}

impl Said {
    /// The instances that stand on a lane.
    fn on(&self, lane: &Lane) -> Vec<u16> {
        let here = |one: &&One| one.link == 0 && lane.lane == 1 || lane.links.contains(&one.link);
        self.instances.each.iter().filter(here).map(|one| one.instance).collect()
    }
}

fn show(args: &ShowArgs) -> Outcome {
    let cluster = Cluster::find(&args.cluster)?;
    let mut said: Vec<(ReplicaId, Result<Said, String>)> = Vec::new();
    for answer in Admin::new(&cluster)?.ask_all() {
        let status = answer.status.map_err(|why| why.to_string());
        let read =
            |raw: &Value| Said::deserialize(raw).map_err(|_| "its program is too old to say it".to_owned());
        said.push((answer.replica, status.and_then(|status| read(&status.raw))));
    }
    if said.iter().all(|(_, said)| said.is_err()) {
        return Err(Failure::new("no replica answers: is one running?"));
    }
    print::line(if args.json { document(&said).to_string() } else { text(&said) })?;
    Ok(ExitCode::SUCCESS)
}

fn text(all: &[(ReplicaId, Result<Said, String>)]) -> String {
    let mut text =
        format!("{:>7}  {:>4}  {:>6}  {:>11}  instances\n", "replica", "lane", "busy", "connections");
    for (replica, said) in all {
        let replica = replica.number();
        match said {
            Err(why) => {
                let _ = writeln!(text, "{replica:>7}  {why}");
            }
            Ok(said) => {
                for lane in &said.lanes {
                    let here: Vec<String> = said.on(lane).iter().map(u16::to_string).collect();
                    let here = if here.is_empty() { "-".to_owned() } else { here.join(", ") };
                    let here = lane.step.iter().fold(here, |here, step| format!("{here} ({step})"));
                    let busy = format!("{:.1} %", lane.busy as f64 / 10.0);
                    let (number, connections) = (lane.lane, lane.connections);
                    let _ = writeln!(text, "{replica:>7}  {number:>4}  {busy:>6}  {connections:>11}  {here}");
                }
            }
        }
    }
    text.trim_end().to_owned()
}

fn document(all: &[(ReplicaId, Result<Said, String>)]) -> Value {
    let one = |(replica, said): &(ReplicaId, Result<Said, String>)| match said {
        Err(why) => json!({ "replica": replica.number(), "error": why }),
        Ok(said) => {
            let lane = |lane: &Lane| {
                json!({
                    "lane": lane.lane, "busy": lane.busy, "connections": lane.connections, "links": lane.links,
                    "instances": said.on(lane), "step": lane.step,
                })
            };
            json!({ "replica": replica.number(), "lanes": said.lanes.iter().map(lane).collect::<Vec<_>>() })
        }
    };
    Value::Array(all.iter().map(one).collect())
}

fn set(args: &SetArgs) -> Outcome {
    let cluster = Cluster::find(&args.cluster)?;
    let wish: Vec<(InstanceId, u16)> = args
        .places
        .iter()
        .filter_map(|place| match place {
            Place::On(instance, lane) => Some((*instance, *lane)),
            Place::Auto => None,
        })
        .collect();
    if !wish.is_empty() && wish.len() != args.places.len() {
        return Err(Failure::usage("either auto, or instances and their lanes"));
    }
    let of = |(replica, _): &&(ReplicaId, String)| args.replica.is_none_or(|of| of == replica.number());
    let asked: Vec<_> = cluster.members.iter().filter(of).collect();
    if asked.is_empty() {
        return Err(Failure::usage("this cluster has no such replica: `quorate status` names them"));
    }
    let answers: Vec<_> =
        asked.into_iter().map(|(replica, at)| (*replica, ask(&cluster, *replica, at, &wish))).collect();
    report(&answers, args.json, if wish.is_empty() { "places instances by itself" } else { "moves them" })
}

fn report(answers: &[(ReplicaId, Result<(), String>)], json: bool, done: &str) -> Outcome {
    let (good, bad): (Vec<_>, Vec<_>) = answers.iter().cloned().partition(|(_, answer)| answer.is_ok());
    let said = |(replica, answer): &(ReplicaId, Result<(), String>)| match answer {
        Ok(()) => format!("replica {} {done}", replica.number()),
        Err(why) => format!("replica {}: {why}", replica.number()),
    };
    let lines =
        |list: &[(ReplicaId, Result<(), String>)]| list.iter().map(said).collect::<Vec<_>>().join("\n");
    if json {
        let one = |(replica, answer): &(ReplicaId, Result<(), String>)| match answer {
            Ok(()) => json!({ "replica": replica.number() }),
            Err(why) => json!({ "replica": replica.number(), "error": why }),
        };
        print::line(Value::Array(answers.iter().map(one).collect()).to_string())?;
        return Ok(if bad.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE });
    }
    if !good.is_empty() {
        print::line(lines(&good))?;
    }
    if bad.is_empty() { Ok(ExitCode::SUCCESS) } else { Err(Failure::new(lines(&bad))) }
}

/// Asks one replica.
fn ask(
    cluster: &Cluster,
    replica: ReplicaId,
    address: &str,
    wish: &[(InstanceId, u16)],
) -> Result<(), String> {
    let credentials = cluster.credentials().map_err(|why| why.to_string())?;
    let mut connection =
        AdminConnection::connect(replica, address, cluster.id, credentials.as_deref(), ANSWER)?;
    let mut sender = connection.sender()?;
    sender.send(&lanes_request(wish))?;
    let until = Instant::now() + ANSWER;
    while let Some(frame) = connection.receive(until.saturating_duration_since(Instant::now()))? {
        if frame.kind == FrameKind::LanesReply {
            let text = String::from_utf8_lossy(&frame.payload).into_owned();
            return text.strip_prefix("error: ").map_or(Ok(()), |why| Err(why.to_owned()));
        }
    }
    Err("no answer in time; a program that is too old does not know the request".to_owned())
}

#[cfg(test)]
mod tests;
