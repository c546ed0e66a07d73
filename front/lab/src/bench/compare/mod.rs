//! `bench compare`: another program beside ours, on this machine, in short rounds by turns within one run.
//!
//! Both clusters have the same size, start at the beginning, and stay to the end; the one whose turn it is gets all the load, from the same
//! client code, and the other one rests. What the machine does besides changes from minute to minute, so a ratio is taken within a round.
//! Both sync each write before they answer it, and neither encrypts.
//!
//! Files: `etcd`, `zookeeper` (the two sides of each comparison), `find` (installed programs and their versions), `spread` (the median, the
//! lowest, the highest), `text` (what is printed and drawn). Tests: `tests.rs`, and front/cli/tests/all/bench_compare.rs with real processes.

mod etcd;
mod find;
mod spread;
#[cfg(test)]
mod tests;
mod text;
mod zookeeper;

use super::interrupt;
use super::median;
use super::options::Measurement;
use super::output::Output;
use quorate_command::arguments::seconds;
use quorate_command::failure::{Failure, Outcome};
use quorate_command::layout::DurabilityChoice;
use quorate_command::machine::Machine;
use quorate_command::progress::Progress;
use serde::Serialize;
use spread::Spread;
use std::path::PathBuf;
use std::process::ExitCode;

/// Run another program beside ours on this machine, and print the ratio with its spread.
///
/// Both clusters run the whole time, and get the same load from the same client in short rounds by turns: so what else the machine does harms
/// both alike, and a ratio within a round says more than either rate. Each write is synced on both sides before it is answered; nothing is
/// encrypted. The exit code is 1 if a call failed, or if a write is missing.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  quorate bench compare etcd
  quorate bench compare etcd --program /usr/bin/etcd --replicas 1 --callers 1
  quorate bench compare zookeeper --jars ./apache-zookeeper-3.9.4-bin/lib
  quorate bench compare etcd --rounds 9 --plot etcd.html")]
pub(super) struct CompareArgs {
    #[command(subcommand)]
    with: With,
}

#[derive(Debug, clap::Subcommand)]
enum With {
    /// An etcd: puts and strong reads of etcd's clients
    Etcd(etcd::Args),
    /// A ZooKeeper: writes and reads of ZooKeeper's clients
    Zookeeper(zookeeper::Args),
}

/// What all comparisons take.
#[derive(Clone, Debug, clap::Args)]
struct Common {
    /// How many servers each side has: 1 or 3
    #[arg(long, value_name = "COUNT", default_value_t = 3)]
    replicas: u16,
    /// Callers: each has one request under way
    #[arg(long, value_name = "COUNT", default_value_t = 64)]
    callers: usize,
    /// Connections that callers share, to all servers in turn
    #[arg(long, value_name = "COUNT", default_value_t = 12)]
    connections: usize,
    /// Size of a value in bytes
    #[arg(long, value_name = "BYTES", default_value_t = 100)]
    bytes: usize,
    /// Keys to choose from
    #[arg(long, value_name = "COUNT", default_value_t = 1000)]
    keys: u64,
    /// How often to measure each side
    #[arg(long, value_name = "COUNT", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// How long to measure each side in a round, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 2.0)]
    secs: f64,
    /// How long the load runs before that, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 0.5)]
    warm: f64,
    /// Where the servers keep their data: on the disk that is to be measured
    #[arg(long, value_name = "DIR", default_value = ".quorate/bench")]
    scratch: PathBuf,
}

impl Common {
    /// Refuses what can not run, and says why.
    fn check(&self) -> Outcome<()> {
        if ![1, 3].contains(&self.replicas) {
            return Err(Failure::usage("--replicas is 1 or 3"));
        }
        if !(1..=100_000).contains(&self.callers) || !(1..=1000).contains(&self.connections) {
            return Err(Failure::usage("--callers is 1 to 100000, --connections 1 to 1000"));
        }
        if !(1..=1_000_000).contains(&self.bytes) || !(1..=1_000_000).contains(&self.keys) {
            return Err(Failure::usage("--bytes and --keys are 1 to 1000000"));
        }
        seconds("--secs", self.secs)?;
        seconds("--warm", self.warm)?;
        Ok(())
    }

    /// The connections that there are: none without a caller.
    fn connections(&self) -> usize {
        self.connections.min(self.callers)
    }

    /// Our cluster.
    fn measurement(&self) -> Measurement {
        Measurement::beside_a_peer(Some(self.replicas), &self.scratch, self.secs, self.warm)
    }
}

/// The sides of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Ours,
    Theirs,
}

/// One measurement of one side.
#[derive(Clone, Debug, Serialize)]
struct Run {
    seconds: f64,
    calls: u64,
    per_s: f64,
    /// Processor time of all servers together for each call.
    cpu_us: f64,
    p50_us: f64,
    p99_us: f64,
    /// Processor seconds of the load generator.
    load_cpu_s: f64,
    /// Memory of all servers at the end.
    memory_mib: f64,
    /// Why the run counts for nothing.
    failed: Option<String>,
}

/// Two clusters that run.
trait Pair {
    /// What is measured, by name.
    fn operations(&self) -> Vec<String>;
    /// Measures one side.
    fn measure(&mut self, operation: usize, side: Side) -> Outcome<Run>;
}

/// What is compared with what.
#[derive(Clone, Debug, Serialize)]
struct Subject {
    /// The other program, its version, and what it needs to run.
    peer: &'static str,
    peer_version: String,
    peer_durability: &'static str,
    /// What the client code speaks to both.
    protocol: &'static str,
}

/// The medians of one side.
#[derive(Clone, Debug, Serialize)]
struct Figures {
    per_s: Option<Spread>,
    cpu_us: Option<Spread>,
    p50_us: Option<Spread>,
    p99_us: Option<Spread>,
}

impl Figures {
    fn of(runs: &[Run]) -> Self {
        let of = |figure: fn(&Run) -> f64| Spread::of(runs.iter().map(figure));
        Self {
            per_s: of(|run| run.per_s),
            cpu_us: of(|run| run.cpu_us),
            p50_us: of(|run| run.p50_us),
            p99_us: of(|run| run.p99_us),
        }
    }

    /// Ours divided by theirs, round by round.
    fn ratios(ours: &[Run], theirs: &[Run]) -> Self {
        let of = |figure: fn(&Run) -> f64| {
            Spread::of(ours.iter().zip(theirs).map(|(ours, theirs)| figure(ours) / figure(theirs)))
        };
        Self {
            per_s: of(|run| run.per_s),
            cpu_us: of(|run| run.cpu_us),
            p50_us: of(|run| run.p50_us),
            p99_us: of(|run| run.p99_us),
        }
    }
}

/// One kind of load.
#[derive(Clone, Debug, Serialize)]
struct Row {
    operation: String,
    ours: Figures,
    theirs: Figures,
    /// Ours divided by theirs.
    ratios: Figures,
    our_runs: Vec<Run>,
    their_runs: Vec<Run>,
}

impl Row {
    fn of(operation: String, ours: Vec<Run>, theirs: Vec<Run>) -> Self {
        let (own, other) = (Figures::of(&ours), Figures::of(&theirs));
        let ratios = Figures::ratios(&ours, &theirs);
        Self { operation, ours: own, theirs: other, ratios, our_runs: ours, their_runs: theirs }
    }

    fn runs(&self) -> impl Iterator<Item = &Run> {
        self.our_runs.iter().chain(&self.their_runs)
    }
}

#[derive(Serialize)]
struct Document {
    benchmark: &'static str,
    version: &'static str,
    #[serde(flatten)]
    subject: Subject,
    durability: String,
    encrypted: bool,
    fault_model: &'static str,
    replicas: u16,
    callers: usize,
    connections: usize,
    bytes: usize,
    keys: u64,
    rounds: u32,
    seconds: f64,
    /// False when a call failed, or a write was missing: then the figures mean nothing.
    valid: bool,
    rows: Vec<Row>,
    machine: Machine,
}

pub(super) fn run(args: &CompareArgs, output: &Output) -> Outcome {
    let common = match &args.with {
        With::Etcd(args) => &args.common,
        With::Zookeeper(args) => &args.common,
    };
    common.check()?;
    let machine = Machine::ask(&common.scratch);
    let (subject, rows) = match &args.with {
        With::Etcd(args) => {
            let etcd = find::etcd(args.program.as_deref())?;
            interrupt::listen()?;
            let rows = measured(etcd::Both::start(args, &etcd.program), common)?;
            (etcd::subject(etcd.version), rows)
        }
        With::Zookeeper(args) => {
            let zookeeper = find::zookeeper(args.jars.as_deref())?;
            interrupt::listen()?;
            let rows = measured(zookeeper::Both::start(args, &zookeeper.jars), common)?;
            (zookeeper::subject(zookeeper.version), rows)
        }
    };
    let valid = rows.iter().flat_map(Row::runs).all(|run| run.failed.is_none());
    let document = Document {
        benchmark: "compare",
        version: env!("CARGO_PKG_VERSION"),
        subject,
        durability: quorate_command::arguments::name(DurabilityChoice::Group),
        encrypted: false,
        fault_model: "crash",
        replicas: common.replicas,
        callers: common.callers,
        connections: common.connections(),
        bytes: common.bytes,
        keys: common.keys,
        rounds: common.rounds,
        seconds: common.secs,
        valid,
        rows,
        machine,
    };
    output.show(&document, || text::of(&document), || text::page(&document))?;
    Ok(if document.valid { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// All rounds. A failure after a signal is no failure of the servers, which got the signal, too.
fn measured(pair: Outcome<impl Pair>, common: &Common) -> Outcome<Vec<Row>> {
    let rows = pair.and_then(|mut pair| rounds(&mut pair, common.rounds));
    interrupt::check()?;
    rows
}

/// Measures both sides by turns; every other round begins with the other side.
fn rounds(pair: &mut impl Pair, rounds: u32) -> Outcome<Vec<Row>> {
    let operations = pair.operations();
    let mut runs: Vec<[Vec<Run>; 2]> = operations.iter().map(|_| [Vec::new(), Vec::new()]).collect();
    for round in 1..=rounds {
        for (at, operation) in operations.iter().enumerate() {
            for side in median::order(round, 2) {
                interrupt::check()?;
                let _progress = Progress::waiting(&format!("{operation} {round}/{rounds}"));
                runs[at][side].push(pair.measure(at, [Side::Ours, Side::Theirs][side])?);
            }
        }
    }
    let row = |(operation, [ours, theirs]): (String, [Vec<Run>; 2])| Row::of(operation, ours, theirs);
    Ok(operations.into_iter().zip(runs).map(row).collect())
}
