//! `bench etcd`: compares three replicas of ours with three members of etcd, in turns, under the same clients of etcd.
//!
//! Each measurement starts a new cluster, so that both have the same work, and nothing else runs meanwhile. Both sync every write to the
//! same disk before they answer, and neither encrypts. Many clients share a few connections, which go to all members in turn.
//!
//! Files: `peer` (a cluster of etcd), `client` (a connection), `load` (the callers), `watching` (watches beside them), `memory` (the memory
//! of servers), `table` (the printed table).

mod client;
pub(in crate::bench) mod load;
pub(in crate::bench) mod memory;
mod peer;
mod table;
mod watching;

use super::interrupt;
use super::options::Measurement;
use super::output::Output;
use super::report::median;
use super::target::Target;
use super::temporary::REPLICAS;
use clap::ValueEnum;
use load::{Plan, Run};
pub(in crate::bench) use peer::Peer;
pub(super) use peer::{MemberArgs, become_member};
use quorate_command::arguments::{self, seconds};
use quorate_command::failure::{Failure, Outcome};
use quorate_command::layout::{DurabilityChoice, ServiceChoice};
use quorate_command::machine::Machine;
use quorate_command::progress::Progress;
use serde::Serialize;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// How long started servers may take to answer, and how long the last answers may take.
pub(in crate::bench) const PATIENCE: Duration = Duration::from_secs(30);

#[derive(Debug, clap::Args)]
pub(in crate::bench) struct EtcdArgs {
    /// Whom to measure
    #[arg(long, value_enum, default_value_t = Whom::Both)]
    target: Whom,
    /// The program etcd
    #[arg(long, value_name = "PATH", default_value = "etcd")]
    etcd: PathBuf,
    /// What clients do
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Operation::Put, Operation::Get])]
    operations: Vec<Operation>,
    /// Clients: each waits for its answer before it asks again
    #[arg(long, value_name = "COUNTS", value_delimiter = ',', default_values_t = [64, 256, 1000])]
    clients: Vec<usize>,
    /// Sizes of values
    #[arg(long, value_name = "BYTES", value_delimiter = ',', default_values_t = [16, 1024])]
    bytes: Vec<usize>,
    /// Connections that all clients share
    #[arg(long, value_name = "COUNT", default_value_t = 12)]
    connections: usize,
    /// Keys of 16 bytes to choose from
    #[arg(long, value_name = "COUNT", default_value_t = 10_000)]
    keys: u64,
    /// Watches on as many other keys, which nobody writes
    #[arg(long, value_name = "COUNT", default_value_t = 0)]
    watchers: usize,
    /// Watches on all keys that are written: each must see every event once, in order
    #[arg(long, value_name = "COUNT", default_value_t = 0)]
    observers: usize,
    /// Where the clusters keep their data: on the disk that is to be measured
    #[arg(long, value_name = "DIR", default_value = ".quorate/bench")]
    scratch: PathBuf,
    /// How long to measure each time, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 5.0)]
    secs: f64,
    /// How long to run before measuring, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0)]
    warm: f64,
    /// How often to measure each, in turns
    #[arg(long, value_name = "COUNT", default_value_t = 1)]
    repeat: u32,
    /// Only put the keys there, let them rest for the time of --warm, and look at what each server holds
    #[arg(long)]
    memory: bool,
}

/// Whom to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Whom {
    /// Our replicas
    Ours,
    /// Members of etcd
    Etcd,
    /// Both, in turns
    Both,
}

/// What clients do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub(in crate::bench) enum Operation {
    /// Writes
    Put,
    /// Strong reads
    Get,
    /// Serializable reads: of what the member has that is asked
    Look,
}

/// The servers that are measured.
pub(in crate::bench) enum Servers {
    Ours(Box<Target>),
    Etcd(Peer),
}

impl Servers {
    fn addresses(&self) -> Vec<String> {
        match self {
            Self::Ours(target) => target.front(),
            Self::Etcd(peer) => peer.addresses.clone(),
        }
    }

    fn pids(&self) -> Vec<u32> {
        match self {
            Self::Ours(target) => target.pids.clone(),
            Self::Etcd(peer) => peer.pids(),
        }
    }

    /// Fails when a server has ended.
    fn check(&mut self) -> Outcome<()> {
        match self {
            Self::Ours(target) => target.check(),
            Self::Etcd(peer) => peer.check(),
        }
    }
}

/// The medians of one side's runs.
#[derive(Clone, Debug, Serialize)]
struct Side {
    per_s: f64,
    per_server_cpu_s: f64,
    p50_us: f64,
    p99_us: f64,
    runs: Vec<Run>,
}

impl Side {
    /// The medians; `None` without runs.
    fn of(runs: Vec<Run>) -> Option<Self> {
        let of = |figure: fn(&Run) -> f64| median(runs.iter().map(figure));
        (!runs.is_empty()).then(|| Self {
            per_s: of(|run| run.per_s),
            per_server_cpu_s: of(|run| run.per_server_cpu_s),
            p50_us: of(|run| run.p50_us),
            p99_us: of(|run| run.p99_us),
            runs: runs.clone(),
        })
    }
}

/// Our figures divided by etcd's.
#[derive(Clone, Copy, Debug, Serialize)]
struct Ratios {
    rate: f64,
    per_server_cpu_s: f64,
    p50: f64,
    p99: f64,
}

/// One kind of load.
#[derive(Clone, Debug, Serialize)]
struct Row {
    operation: Operation,
    bytes: usize,
    clients: usize,
    ours: Option<Side>,
    etcd: Option<Side>,
    ratios: Option<Ratios>,
}

impl Row {
    fn new(plan: &Plan, ours: Option<Side>, etcd: Option<Side>) -> Self {
        let ratios = ours.as_ref().zip(etcd.as_ref()).map(|(ours, etcd)| Ratios {
            rate: ours.per_s / etcd.per_s,
            per_server_cpu_s: ours.per_server_cpu_s / etcd.per_server_cpu_s,
            p50: ours.p50_us / etcd.p50_us,
            p99: ours.p99_us / etcd.p99_us,
        });
        Self { operation: plan.operation, bytes: plan.bytes, clients: plan.clients, ours, etcd, ratios }
    }

    fn sides(&self) -> impl Iterator<Item = (&'static str, &Side)> {
        [("ours", &self.ours), ("etcd", &self.etcd)]
            .into_iter()
            .filter_map(|(name, side)| Some((name, side.as_ref()?)))
    }

    fn runs(&self) -> impl Iterator<Item = (&'static str, &Run)> {
        self.sides().flat_map(|(name, side)| side.runs.iter().map(move |run| (name, run)))
    }
}

#[derive(Serialize)]
struct Document {
    benchmark: &'static str,
    durability: String,
    /// False when a call failed, or an event or a write was missing: then the figures mean nothing.
    valid: bool,
    connections: usize,
    keys: u64,
    watchers: usize,
    observers: usize,
    seconds: f64,
    rows: Vec<Row>,
    machine: Machine,
}

pub(super) fn run(args: &EtcdArgs, output: &Output) -> Outcome {
    let measure = seconds("--secs", args.secs)?;
    let warm = seconds("--warm", args.warm)?;
    check(args)?;
    interrupt::listen()?;
    if args.memory {
        return memory::run(args, warm, output);
    }
    let machine = Machine::ask(&args.scratch);
    let mut rows = Vec::new();
    for operation in &args.operations {
        for bytes in &args.bytes {
            for clients in &args.clients {
                let plan = Plan {
                    operation: *operation,
                    bytes: *bytes,
                    clients: *clients,
                    connections: args.connections,
                    keys: args.keys,
                    filled: false,
                    watchers: args.watchers,
                    observers: args.observers,
                    warm,
                    measure,
                };
                rows.push(row(args, plan)?);
            }
        }
    }
    let valid = rows.iter().flat_map(Row::runs).all(|(_, run)| run.is_valid());
    let document = Document {
        benchmark: "etcd",
        durability: arguments::name(DurabilityChoice::Group),
        valid,
        connections: args.connections,
        keys: args.keys,
        watchers: args.watchers,
        observers: args.observers,
        seconds: args.secs,
        rows,
        machine,
    };
    output.show(&document, || table::of(&document), || table::page(&document))?;
    Ok(if document.valid { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn check(args: &EtcdArgs) -> Outcome<()> {
    let within = |list: &[usize], max: usize| !list.is_empty() && list.iter().all(|n| (1..=max).contains(n));
    if !within(&args.clients, 100_000) || !within(&[args.connections], 1000) {
        return Err(Failure::usage("--clients is 1 to 100000, --connections 1 to 1000"));
    }
    if args.bytes.iter().any(|bytes| *bytes > 1 << 20) || args.bytes.is_empty() || args.keys == 0 {
        return Err(Failure::usage("--bytes is at most 1048576, --keys at least 1"));
    }
    if !(1..=1000).contains(&args.repeat) {
        return Err(Failure::usage("--repeat is 1 to 1000"));
    }
    if args.watchers > 1_000_000 || args.observers > 10_000 {
        return Err(Failure::usage("--watchers is at most 1000000, --observers 10000"));
    }
    Ok(())
}

/// Starts servers of one side.
type Open<'a> = Box<dyn Fn() -> Outcome<Servers> + 'a>;

/// The sides that are to be measured.
fn sides(args: &EtcdArgs) -> Vec<(&'static str, Open<'_>)> {
    let ours = || {
        Ok(Servers::Ours(Box::new(Target::open(
            &Measurement::beside_a_peer(None, &args.scratch, args.secs, args.warm),
            ServiceChoice::Etcd,
        )?)))
    };
    let etcd = || Ok(Servers::Etcd(Peer::start(&args.etcd, &args.scratch, REPLICAS)?));
    let mut sides: Vec<(&'static str, Open<'_>)> = Vec::new();
    if args.target != Whom::Etcd {
        sides.push(("ours", Box::new(ours)));
    }
    if args.target != Whom::Ours {
        sides.push(("etcd", Box::new(etcd)));
    }
    sides
}

/// Measures both sides in turns.
fn row(args: &EtcdArgs, plan: Plan) -> Outcome<Row> {
    let (mut ours, mut etcd) = (Vec::new(), Vec::new());
    for _ in 0..args.repeat {
        for (name, open) in sides(args) {
            let run = one(open()?, plan, name)?;
            if name == "ours" { &mut ours } else { &mut etcd }.push(run);
        }
    }
    Ok(Row::new(&plan, Side::of(ours), Side::of(etcd)))
}

fn one(mut servers: Servers, plan: Plan, name: &str) -> Outcome<Run> {
    let title = format!("{name}: {:?}, {} bytes, {} clients", plan.operation, plan.bytes, plan.clients);
    let _progress = Progress::waiting(&title);
    load::run(&mut servers, plan)
}
