//! `bench zookeeper`: compares three replicas of ours with three servers of ZooKeeper, in turns, under the same clients.
//!
//! Both sync every write before they answer, and neither encrypts. The servers of each side stay for all measurements of a turn, since Java
//! becomes fast only after a while: they are warmed before the first one. Connections go to all servers in turn, and each has its share of the
//! requests under way.
//!
//! Files: `peer` (an ensemble of ZooKeeper), `client` (a connection), `load` (the callers), `table` (the printed table).

mod client;
pub(in crate::bench) mod load;
mod peer;
mod table;

use super::interrupt;
use super::options::Measurement;
use super::output::Output;
use super::report::median;
use super::target::Target;
use super::temporary::REPLICAS;
use clap::ValueEnum;
use load::{Plan, Run};
pub(in crate::bench) use peer::Peer;
use quorate_command::arguments::seconds;
use quorate_command::failure::{Failure, Outcome};
use quorate_command::layout::ServiceChoice;
use quorate_command::machine::Machine;
use quorate_command::progress::Progress;
use serde::Serialize;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// How long started servers may take to answer, and how long the last answers may take.
const PATIENCE: Duration = Duration::from_secs(60);

#[derive(Debug, clap::Args)]
pub(in crate::bench) struct ZooKeeperArgs {
    /// The folder with the jars of a ZooKeeper; without it only ours is measured
    #[arg(long, value_name = "DIR")]
    jars: Option<PathBuf>,
    /// What clients do
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Operation::Set, Operation::Create, Operation::Get, Operation::Children])]
    operations: Vec<Operation>,
    /// Requests under way at once
    #[arg(long, value_name = "COUNTS", value_delimiter = ',', default_values_t = [3, 60, 1200])]
    under_way: Vec<usize>,
    /// Sizes of data
    #[arg(long, value_name = "BYTES", value_delimiter = ',', default_values_t = [16, 100, 1024])]
    bytes: Vec<usize>,
    /// The most connections; each has its share of the requests under way
    #[arg(long, value_name = "COUNT", default_value_t = 12)]
    connections: usize,
    /// Nodes to choose from
    #[arg(long, value_name = "COUNT", default_value_t = 1000)]
    nodes: u64,
    /// How many watches wait for nodes that nobody makes
    #[arg(long, value_name = "COUNTS", value_delimiter = ',', default_values_t = [0])]
    watches: Vec<u64>,
    /// Whether each read of ours sees everything that was acknowledged before it; a ZooKeeper has no such reads
    #[arg(long)]
    linearizable: bool,
    /// Where the servers keep their data: on the disk that is to be measured
    #[arg(long, value_name = "DIR", default_value = ".quorate/bench")]
    scratch: PathBuf,
    /// How long to measure each time, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 5.0)]
    secs: f64,
    /// How long to run each load before measuring it, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0)]
    warm: f64,
    /// How long new servers are warmed before the first measurement, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 45.0)]
    warm_servers: f64,
    /// How often to measure each, in turns
    #[arg(long, value_name = "COUNT", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100))]
    repeat: u32,
}

/// What clients do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub(in crate::bench) enum Operation {
    /// Replace the data of nodes
    Set,
    /// Make sequential nodes
    Create,
    /// Read data
    Get,
    /// Read the names of ten children
    Children,
}

/// The servers that are measured.
pub(in crate::bench) enum Servers {
    Ours(Box<Target>),
    ZooKeeper(Peer),
}

impl Servers {
    fn addresses(&self) -> Vec<String> {
        match self {
            Self::Ours(target) => target.front(),
            Self::ZooKeeper(peer) => peer.addresses.clone(),
        }
    }

    fn pids(&self) -> Vec<u32> {
        match self {
            Self::Ours(target) => target.pids.clone(),
            Self::ZooKeeper(peer) => peer.pids(),
        }
    }

    /// Fails when a server has ended.
    fn check(&mut self) -> Outcome<()> {
        match self {
            Self::Ours(target) => target.check(),
            Self::ZooKeeper(peer) => peer.check(),
        }
    }
}

/// The runs of one load, on both sides.
#[derive(Clone, Debug, Serialize)]
struct Row {
    operation: Operation,
    bytes: usize,
    under_way: usize,
    /// How many watches wait for other nodes.
    watches: u64,
    ours: Vec<Run>,
    zookeeper: Vec<Run>,
    ratios: Option<Ratios>,
}

/// Medians of ours divided by those of ZooKeeper.
#[derive(Clone, Copy, Debug, Serialize)]
struct Ratios {
    rate: f64,
    per_server_cpu_s: f64,
    p50: f64,
    p99: f64,
}

fn middle(runs: &[Run], of: fn(&Run) -> f64) -> f64 {
    median(runs.iter().map(of))
}

impl Row {
    fn compare(&mut self) {
        let ratio = |of: fn(&Run) -> f64| middle(&self.ours, of) / middle(&self.zookeeper, of);
        self.ratios = (!self.ours.is_empty() && !self.zookeeper.is_empty()).then(|| Ratios {
            rate: ratio(|run| run.per_s),
            per_server_cpu_s: ratio(|run| run.per_server_cpu_s),
            p50: ratio(|run| run.p50_us),
            p99: ratio(|run| run.p99_us),
        });
    }
}

#[derive(Serialize)]
struct Document {
    benchmark: &'static str,
    /// False when a request failed, or a write was missing: then the figures mean nothing.
    valid: bool,
    connections: usize,
    nodes: u64,
    seconds: f64,
    rows: Vec<Row>,
    machine: Machine,
}

pub(super) fn run(args: &ZooKeeperArgs, output: &Output) -> Outcome {
    let plans = plans(args)?;
    interrupt::listen()?;
    let machine = Machine::ask(&args.scratch);
    let mut rows: Vec<Row> = plans.iter().map(Row::from).collect();
    for _ in 0..args.repeat {
        measure(args, &plans, &mut rows, "ours")?;
        if args.jars.is_some() {
            measure(args, &plans, &mut rows, "zookeeper")?;
        }
    }
    rows.iter_mut().for_each(Row::compare);
    let valid = rows.iter().flat_map(|row| row.ours.iter().chain(&row.zookeeper)).all(Run::is_valid);
    let (connections, nodes, seconds) = (args.connections, args.nodes, args.secs);
    let document = Document { benchmark: "zookeeper", valid, connections, nodes, seconds, rows, machine };
    output.show(&document, || table::of(&document), || table::page(&document))?;
    Ok(if document.valid { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

impl From<&Plan> for Row {
    fn from(plan: &Plan) -> Self {
        let Plan { operation, bytes, under_way, watches, .. } = *plan;
        Self { operation, bytes, under_way, watches, ours: Vec::new(), zookeeper: Vec::new(), ratios: None }
    }
}

/// All loads. Names of children have no size.
fn plans(args: &ZooKeeperArgs) -> Outcome<Vec<Plan>> {
    let (measure, warm) = (seconds("--secs", args.secs)?, seconds("--warm", args.warm)?);
    let within = |list: &[usize], max: usize| !list.is_empty() && list.iter().all(|n| (1..=max).contains(n));
    if !within(&args.under_way, 100_000) || !within(&[args.connections], 1000) {
        return Err(Failure::usage("--under-way is 1 to 100000, --connections 1 to 1000"));
    }
    if !within(&args.bytes, 1_000_000) || args.nodes == 0 {
        return Err(Failure::usage("--bytes is 1 to 1000000, --nodes at least 1"));
    }
    let mut plans = Vec::new();
    for operation in args.operations.iter().copied() {
        let sizes = if operation == Operation::Children { &args.bytes[..1] } else { &args.bytes };
        for bytes in sizes.iter().copied() {
            for under_way in args.under_way.iter().copied() {
                let (connections, nodes) = (args.connections.min(under_way), args.nodes);
                let plan =
                    Plan { operation, bytes, under_way, connections, nodes, watches: 0, warm, measure };
                plans.extend(args.watches.iter().map(|watches| Plan { watches: *watches, ..plan }));
            }
        }
    }
    Ok(plans)
}

/// Measures all loads on new servers of one side.
fn measure(args: &ZooKeeperArgs, plans: &[Plan], rows: &mut [Row], side: &str) -> Outcome<()> {
    let mut servers = match &args.jars {
        Some(jars) if side == "zookeeper" => Servers::ZooKeeper(Peer::start(jars, &args.scratch, REPLICAS)?),
        _ => {
            let reads = ("front.zookeeper", "reads", toml::Value::String("linearizable".to_owned()));
            let settings = Vec::from_iter(args.linearizable.then_some(reads));
            let service = ServiceChoice::Zookeeper;
            Servers::Ours(Box::new(Target::configured(
                &Measurement::beside_a_peer(None, &args.scratch, args.secs, args.warm),
                service,
                settings,
            )?))
        }
    };
    // What is written here is measured nowhere.
    for operation in [Operation::Set, Operation::Create, Operation::Get] {
        let length = seconds("--warm-servers", args.warm_servers)? / 3;
        let (bytes, under_way, connections, nodes) = (100, 1200, args.connections, args.nodes);
        let (warm, measure, watches) = (Duration::ZERO, length, 0);
        let plan = Plan { operation, bytes, under_way, connections, nodes, watches, warm, measure };
        let _progress = Progress::waiting(&format!("{side}: warming, {operation:?}"));
        load::run(&mut servers, plan)?;
    }
    for (plan, row) in plans.iter().zip(rows) {
        let title = format!(
            "{side}: {:?}, {} bytes, {} under way, {} watches",
            plan.operation, plan.bytes, plan.under_way, plan.watches
        );
        let _progress = Progress::waiting(&title);
        let run = load::run(&mut servers, *plan)?;
        if side == "ours" { &mut row.ours } else { &mut row.zookeeper }.push(run);
    }
    Ok(())
}
