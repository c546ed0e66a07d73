//! `quorate upgrade`: shows the feature level of a cluster, and raises it. docs/operations/upgrades.md has the procedure. Tests:
//! tests/upgrades.rs.

use crate::admin::{self, Signing};
use crate::member::{self, Asked, View};
use quorate_command::admin::{Admin, Answer};
use quorate_command::cluster::{Cluster, ClusterArgs};
use quorate_command::failure::{Failure, Outcome};
use quorate_command::print;
use quorate_wire::{AdminCommand, FrameKind, upgrade_request};
use serde::Deserialize;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// How long raising the level may take.
const RAISE: Duration = Duration::from_secs(30);
const LOOK: Duration = Duration::from_millis(50);

/// Show which programs the replicas run, and raise the cluster's feature level.
///
/// A cluster works as programs of its feature level do, whatever newer programs can do. So programs can be replaced one by one, and
/// replaced back. Once all replicas run the newer program and nobody wants to go back, raise the level: from then on older programs are
/// refused.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  quorate upgrade status
  quorate upgrade raise

The procedure: docs/operations/upgrades.md")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    Status(StatusArgs),
    Raise(RaiseArgs),
}

/// Show the cluster's feature level, and what the program of each replica can do.
#[derive(Debug, clap::Args)]
struct StatusArgs {
    #[command(flatten)]
    cluster: ClusterArgs,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// Raise the feature level, for good: all replicas must be there and run a program that can do it.
#[derive(Debug, clap::Args)]
struct RaiseArgs {
    /// To which level [default: the highest that all replicas can do]
    #[arg(value_name = "LEVEL", value_parser = clap::value_parser!(u32).range(1..))]
    level: Option<u32>,
    #[command(flatten)]
    signing: Signing,
    #[command(flatten)]
    cluster: ClusterArgs,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: Args) -> Outcome {
    match args.command {
        Command::Status(args) => status(&args),
        Command::Raise(args) => raise(&args),
    }
}

/// What a replica's status says of levels.
#[derive(Clone, Debug, Deserialize)]
struct Levels {
    cluster: u32,
    lowest: u32,
    highest: u32,
}

/// A replica, and its levels if it answered.
struct Row {
    replica: u16,
    version: String,
    levels: Result<Levels, String>,
}

/// The levels of all replicas.
struct Look {
    rows: Vec<Row>,
    /// The level of the cluster: the highest that any replica works at.
    level: u32,
    /// The highest level that all members can work at; `None` while one does not answer.
    all: Option<u32>,
}

impl Look {
    fn at(cluster: &Cluster, view: &View) -> Outcome<Self> {
        let members = Cluster { members: view.addresses(), ..cluster.clone() };
        let rows: Vec<Row> = Admin::new(&members)?.ask_all().iter().map(row).collect();
        let levels = || rows.iter().filter_map(|row| row.levels.as_ref().ok());
        let Some(level) = levels().map(|levels| levels.cluster).max() else {
            return Err(Failure::new("no replica says at which feature level it works: is one running?"));
        };
        let every = levels().count() == rows.len();
        let all = levels().map(|levels| levels.highest).min().filter(|_| every);
        Ok(Self { rows, level, all })
    }

    fn json(&self) -> Value {
        let rows = self.rows.iter().map(|row| match &row.levels {
            Ok(Levels { cluster, lowest, highest }) => json!({
                "replica": row.replica, "version": row.version, "level": cluster, "lowest": lowest, "highest": highest,
            }),
            Err(why) => json!({ "replica": row.replica, "error": why }),
        });
        json!({ "level": self.level, "possible": self.all, "replicas": rows.collect::<Vec<_>>() })
    }

    fn text(&self) -> String {
        let mut text = format!("the cluster works at feature level {}\n\n", self.level);
        let _ = writeln!(text, "{:>7}  {:<12}  {:<8}  works at", "replica", "version", "can do");
        for Row { replica, version, levels } in &self.rows {
            let _ = match levels {
                Ok(Levels { cluster, lowest, highest }) => {
                    let can = format!("{lowest} to {highest}");
                    writeln!(text, "{replica:>7}  {version:<12}  {can:<8}  {cluster}")
                }
                Err(why) => writeln!(text, "{replica:>7}  does not answer: {why}"),
            };
        }
        let _ = write!(text, "\n{}", self.advice());
        text
    }

    fn advice(&self) -> String {
        match self.all {
            Some(all) if all > self.level => format!(
                "All replicas can work at level {all}. When nobody wants to go back to the programs before: quorate upgrade raise"
            ),
            Some(_) => {
                "There is nothing to raise: that is the highest level that all replicas can do.".to_owned()
            }
            None => "The level can be raised once all replicas are there.".to_owned(),
        }
    }
}

fn row(answer: &Answer) -> Row {
    let replica = answer.replica.number();
    let levels = answer.status.as_ref().map_err(Clone::clone).and_then(|status| {
        Levels::deserialize(&status.raw["level"])
            .map_err(|_| "its program is too old to say what it can do".to_owned())
    });
    let raw = answer.status.as_ref().ok().map(|status| &status.raw["process"]["version"]);
    let version = raw.and_then(Value::as_str).unwrap_or("?").to_owned();
    Row { replica, version, levels }
}

fn status(args: &StatusArgs) -> Outcome {
    let cluster = Cluster::find(&args.cluster)?;
    let look = Look::at(&cluster, &View::of(&cluster)?)?;
    print::line(if args.json { look.json().to_string() } else { look.text() })?;
    Ok(ExitCode::SUCCESS)
}

/// Asks for the raise. Gives the level; none if administrators are to sign it elsewhere.
fn begin(args: &RaiseArgs, cluster: &Cluster, until: Instant) -> Outcome<Option<u32>> {
    if cluster.fault_model.may_lie() {
        let look = Look::at(cluster, &View::of(cluster)?)?;
        let level = args.level.or(look.all).ok_or_else(|| {
            Failure::new(
                "not all replicas answer, so nobody knows what their programs can do: bring them back first",
            )
        })?;
        let number = admin::Standing::of(cluster)?.executed + 1;
        let done = admin::carry_out(cluster, &args.signing, (number, AdminCommand::Raise(level)), "")?;
        if args.signing.is_later() {
            print::line(done)?;
            return Ok(None);
        }
        return Ok(Some(level));
    }
    let frame = || upgrade_request(args.level.unwrap_or(0));
    let asked = Asked { frame: &frame, reply: FrameKind::UpgradeReply };
    let text = member::ask_leader(cluster, &asked, until)?;
    let level = text.strip_prefix("begun ").and_then(|level| level.parse().ok()).ok_or_else(|| {
        Failure::new(format!("the leader answered `{text}`, which this program does not understand"))
    })?;
    Ok(Some(level))
}

fn raise(args: &RaiseArgs) -> Outcome {
    let cluster = Cluster::find(&args.cluster)?;
    let until = Instant::now() + RAISE;
    let Some(level) = begin(args, &cluster, until)? else { return Ok(ExitCode::SUCCESS) };
    loop {
        let look = Look::at(&cluster, &View::of(&cluster)?)?;
        if look.level >= level {
            let done =
                format!("the cluster works at feature level {level}: older programs are refused from now on");
            let mut document = look.json();
            document["done"] = json!(done);
            print::line(if args.json { document.to_string() } else { done })?;
            return Ok(ExitCode::SUCCESS);
        }
        if Instant::now() >= until {
            return Err(Failure::new(format!(
                "the raise to level {level} was proposed and is not executed yet: it needs a majority of the voters. `quorate upgrade \
                 status` shows how it stands"
            )));
        }
        std::thread::sleep(LOOK);
    }
}
