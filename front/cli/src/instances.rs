//! `quorate instances`: shows how many instances order batches, and changes that number in a running cluster. docs/operations/instances.md
//! has the procedure. Tests: tests/instances.rs.

use crate::member::{self, Asked, View};
use quorate_command::admin::{Admin, Answer};
use quorate_command::cluster::{Cluster, ClusterArgs};
use quorate_command::failure::{Failure, Outcome};
use quorate_command::print;
use quorate_wire::{FrameKind, instances_request};
use serde::Deserialize;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// How long the change may take.
const CHANGE: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(50);

/// Show how many instances order batches, and change their number while the cluster works.
///
/// Each instance has a leader of its own, spread over the replicas, so more of them share the work of leading. The number that the
/// replicas' configuration names is the one that the cluster was made with; since then the log says how many there are.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  quorate instances show
  quorate instances set 4

When to have how many: docs/operations/instances.md")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    Show(ShowArgs),
    Set(SetArgs),
}

/// Show the instances, who leads them, and whether their number is changing.
#[derive(Debug, clap::Args)]
struct ShowArgs {
    #[command(flatten)]
    cluster: ClusterArgs,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// Have another number of instances from a border in the log on. One change at a time, of this or of the membership.
#[derive(Debug, clap::Args)]
struct SetArgs {
    /// How many
    #[arg(value_name = "COUNT", value_parser = clap::value_parser!(u16).range(1..=64))]
    count: u16,
    #[command(flatten)]
    cluster: ClusterArgs,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: Args) -> Outcome {
    match args.command {
        Command::Show(args) => show(&args),
        Command::Set(args) => set(&args),
    }
}

/// What a replica's status says of instances.
#[derive(Clone, Debug, Deserialize)]
struct Said {
    count: u16,
    changing_to: Option<u16>,
    border: Option<u64>,
    #[serde(default)]
    noop_share: f64,
    each: Vec<One>,
}

/// One instance.
#[derive(Clone, Debug, Deserialize)]
struct One {
    instance: u16,
    leader: Option<u16>,
    decided: u64,
    state: String,
}

/// The status of the replica that executed most.
struct Look {
    said: Said,
    raw: Value,
}

impl Look {
    fn at(cluster: &Cluster) -> Outcome<Self> {
        let view = View::of(cluster)?;
        let members = Cluster { members: view.addresses(), ..cluster.clone() };
        let answers = Admin::new(&members)?.ask_all();
        let furthest = |answer: &&Answer| answer.status.as_ref().map_or(0, |status| status.executed);
        let status = answers.iter().max_by_key(furthest).and_then(|answer| answer.status.as_ref().ok());
        let status = status.ok_or_else(|| Failure::new("no replica answers: is one running?"))?;
        let raw = status.raw["instances"].clone();
        let said = Said::deserialize(&raw)
            .map_err(|_| Failure::new("the replicas run a program that is too old to say it"))?;
        Ok(Self { said, raw })
    }

    fn text(&self) -> String {
        let Said { count, changing_to, border, noop_share, each } = &self.said;
        let mut text = match (changing_to, border) {
            (Some(next), Some(border)) => format!("{count} instances, {next} behind slot {border}\n\n"),
            _ => format!("{count} instances\n\n"),
        };
        let _ = writeln!(text, "{:>8}  {:<6}  {:>10}  state", "instance", "leader", "decided");
        for One { instance, leader, decided, state } in each {
            let leader = leader.map_or("-".to_owned(), |leader| leader.to_string());
            let _ = writeln!(text, "{instance:>8}  {leader:<6}  {decided:>10}  {state}");
        }
        let _ = write!(
            text,
            "\n{:.1} % of the global log is empty, since that replica started",
            noop_share * 100.0
        );
        text.trim_end().to_owned()
    }
}

fn show(args: &ShowArgs) -> Outcome {
    let look = Look::at(&Cluster::find(&args.cluster)?)?;
    print::line(if args.json { look.raw.to_string() } else { look.text() })?;
    Ok(ExitCode::SUCCESS)
}

fn set(args: &SetArgs) -> Outcome {
    let cluster = Cluster::find(&args.cluster)?;
    let until = Instant::now() + CHANGE;
    let asked = Asked { frame: &|| instances_request(args.count), reply: FrameKind::InstancesReply };
    member::ask_leader(&cluster, &asked, until)?;
    loop {
        let look = Look::at(&cluster)?;
        if look.said.count == args.count && look.said.changing_to.is_none() {
            let done = format!("{} instances order batches from now on", args.count);
            let mut document = look.raw;
            document["done"] = json!(done);
            print::line(if args.json { document.to_string() } else { done })?;
            return Ok(ExitCode::SUCCESS);
        }
        if Instant::now() >= until {
            return Err(Failure::new(format!(
                "the change to {} instances was proposed and is not over yet: it needs a majority of the voters. `quorate instances show` \
                 shows how it stands",
                args.count
            )));
        }
        std::thread::sleep(LOOK);
    }
}
