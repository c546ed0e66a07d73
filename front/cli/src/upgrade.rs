//! `quorate upgrade`: shows the feature level of a cluster and the level of its service, and raises them. docs/operations/upgrades.md has the procedure. Tests:
//! tests/upgrades.rs.

use crate::admin::{self, Signing};
use crate::member::{self, Asked, View};
use quorate_command::admin::{Admin, Answer};
use quorate_command::cluster::{Cluster, ClusterArgs};
use quorate_command::failure::{Failure, Outcome};
use quorate_command::print;
use quorate_wire::{AdminCommand, FrameKind, LevelOf, upgrade_request};
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// How long raising the level may take.
const RAISE: Duration = Duration::from_secs(30);
const LOOK: Duration = Duration::from_millis(50);

/// Show which programs the replicas run, and raise the cluster's feature level, or the level of its service.
///
/// A cluster works as programs of its feature level do, whatever newer programs can do. So programs can be replaced one by one, and
/// replaced back. Once all replicas run the newer program and nobody wants to go back, raise the level: from then on older programs are
/// refused.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  quorate upgrade status
  quorate upgrade raise
  quorate upgrade raise --service        the level of your own service, once all replicas run its newer program

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

/// Raise the feature level, or that of the service, for good: all replicas must be there and run a program that can do it.
#[derive(Debug, clap::Args)]
struct RaiseArgs {
    /// To which level [default: the highest that all replicas can do]
    #[arg(value_name = "LEVEL", value_parser = clap::value_parser!(u32).range(1..))]
    level: Option<u32>,
    /// Raise the level of the service, which is the version by which it works
    #[arg(long)]
    service: bool,
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

/// What a replica's status says of the service.
#[derive(Clone, Debug, Default, Deserialize)]
struct Served {
    name: String,
    level: u32,
    version: u32,
    raise_failed: Option<String>,
    raise_failed_at: Option<u64>,
}

/// A replica, and its levels if it answered.
struct Row {
    replica: u16,
    version: String,
    levels: Result<Levels, String>,
    service: Served,
}

/// The levels of all replicas.
struct Look {
    rows: Vec<Row>,
    /// The level of the cluster: the highest that any replica works at.
    level: u32,
    /// The highest level that all members can work at; `None` while one does not answer.
    all: Option<u32>,
    /// The same of the service.
    service_level: u32,
    service_all: Option<u32>,
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
        let answered = || rows.iter().filter(|row| row.levels.is_ok()).map(|row| &row.service);
        let service_level = answered().map(|service| service.level).max().unwrap_or_default();
        let service_all = answered().map(|service| service.version).min().filter(|_| every);
        Ok(Self { level, all, service_level, service_all, rows })
    }

    fn json(&self) -> Value {
        let rows = self.rows.iter().map(|row| match &row.levels {
            Ok(Levels { cluster, lowest, highest }) => json!({
                "replica": row.replica, "version": row.version, "level": cluster, "lowest": lowest, "highest": highest,
                "service_level": row.service.level, "service_version": row.service.version,
            }),
            Err(why) => json!({ "replica": row.replica, "error": why }),
        });
        json!({
            "level": self.level, "possible": self.all, "service_level": self.service_level, "service_possible": self.service_all,
            "service": self.name(), "replicas": rows.collect::<Vec<_>>(),
        })
    }

    fn text(&self) -> String {
        let mut text = format!(
            "the cluster works at feature level {}, its service {} at version {}\n\n",
            self.level,
            self.name(),
            self.service_level
        );
        let _ = writeln!(
            text,
            "{:>7}  {:<12}  {:<8}  {:<8}  service",
            "replica", "version", "can do", "works at"
        );
        for Row { replica, version, levels, service } in &self.rows {
            let _ = match levels {
                Ok(Levels { cluster, lowest, highest }) => {
                    let can = format!("{lowest} to {highest}");
                    let has = service.version;
                    writeln!(text, "{replica:>7}  {version:<12}  {can:<8}  {cluster:<8}  {has}")
                }
                Err(why) => writeln!(text, "{replica:>7}  does not answer: {why}"),
            };
        }
        let _ = write!(text, "\n{}{}", self.advice(), self.service_advice());
        text
    }

    /// What the service is called.
    fn name(&self) -> &str {
        let mut names = self.rows.iter().map(|row| row.service.name.as_str());
        names.find(|name| !name.is_empty()).unwrap_or("?")
    }

    /// How raises of the service failed: where they were executed, and why.
    fn failures(&self) -> BTreeMap<u64, &str> {
        self.rows
            .iter()
            .filter_map(|row| row.service.raise_failed_at.zip(row.service.raise_failed.as_deref()))
            .collect()
    }

    fn service_advice(&self) -> String {
        let failed = self.failures().pop_last().map(|(seq, why)| {
            format!("\nThe last raise of the service, at seq {seq}, left it as it was: {why}")
        });
        let more = self.service_all.filter(|all| *all > self.service_level).map(|all| {
            format!(
                "\nAll replicas have version {all} of the service. When nobody wants to go back: quorate upgrade raise --service"
            )
        });
        failed.unwrap_or_default() + &more.unwrap_or_default()
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
    let service =
        answer.status.as_ref().ok().and_then(|status| Served::deserialize(&status.raw["service"]).ok());
    Row { replica, version, levels, service: service.unwrap_or_default() }
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
        let all = if args.service { look.service_all } else { look.all };
        let level = args.level.or(all).ok_or_else(|| {
            Failure::new(
                "not all replicas answer, so nobody knows what their programs can do: bring them back first",
            )
        })?;
        let number = admin::Standing::of(cluster)?.executed + 1;
        let command =
            if args.service { AdminCommand::RaiseService(level) } else { AdminCommand::Raise(level) };
        let done = admin::carry_out(cluster, &args.signing, (number, command), "")?;
        if args.signing.is_later() {
            print::line(done)?;
            return Ok(None);
        }
        return Ok(Some(level));
    }
    let of = if args.service { LevelOf::Service } else { LevelOf::Cluster };
    let frame = || upgrade_request(of, args.level.unwrap_or(0));
    let asked = Asked { frame: &frame, reply: FrameKind::UpgradeReply };
    let text = member::ask_leader(cluster, &asked, until)?;
    let level = text.strip_prefix("begun ").and_then(|level| level.parse().ok()).ok_or_else(|| {
        Failure::new(format!("the leader answered `{text}`, which this program does not understand"))
    })?;
    Ok(Some(level))
}

/// Where the last raise of the service failed.
fn failed_at(look: &Look) -> Option<u64> {
    look.failures().pop_last().map(|(seq, _)| seq)
}

fn raise(args: &RaiseArgs) -> Outcome {
    let cluster = Cluster::find(&args.cluster)?;
    let until = Instant::now() + RAISE;
    let failed_before = failed_at(&Look::at(&cluster, &View::of(&cluster)?)?);
    let Some(level) = begin(args, &cluster, until)? else { return Ok(ExitCode::SUCCESS) };
    loop {
        let look = Look::at(&cluster, &View::of(&cluster)?)?;
        let reached = if args.service { look.service_level } else { look.level };
        if reached >= level {
            let what = if args.service {
                format!("the service is at version {level}")
            } else {
                format!("the cluster works at feature level {level}")
            };
            let done = format!("{what}: older programs are refused from now on");
            let mut document = look.json();
            document["done"] = json!(done);
            print::line(if args.json { document.to_string() } else { done })?;
            return Ok(ExitCode::SUCCESS);
        }
        if args.service
            && let Some((seq, why)) = look.failures().pop_last().filter(|(seq, _)| Some(*seq) > failed_before)
        {
            return Err(Failure::new(format!(
                "the service stays at version {reached}, with the state that it had: at seq {seq} its `migrate` failed: {why}"
            )));
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
