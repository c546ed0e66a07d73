//! `bench model`: what a cluster does with more cores than this machine has, as a model says it, beside what real runs do with little of a
//! core for each lane.
//!
//! The simulator runs the real node code in virtual time; here each step costs the lane that takes it what was measured: execution by `bench
//! stages`, all else by three short runs of real replicas with one instance on one lane. Every number that the simulator gives is called a
//! model's, wherever it is shown.
//!
//! Files: `prices` (from measurements to the prices of steps), `real` (the runs of real replicas), `table` (what people see).

mod prices;
mod real;
mod table;
#[cfg(test)]
mod tests;

use super::median::Median;
use super::options::StagesArgs;
use super::output::Output;
use super::stages::{self, Stage};
use prices::{Costs, PerBatch};
use quorate_command::failure::{Doing as _, Failure, Outcome};
use quorate_command::machine::Machine;
use quorate_command::progress::Progress;
use quorate_sim::work;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::str::FromStr;

/// Every lane has this period, if it has a share of a core only; see `quota`.
const WHOLE: (u64, u64) = (1_000_000, 1_000_000);
/// A call has a head of this many bytes in a message.
const HEAD: usize = 40;

/// What more cores would bring, by a model
#[derive(Debug, clap::Args)]
pub(super) struct ModelArgs {
    /// Instances and lanes of each replica, of the runs in which each lane has a share of a core
    #[arg(long, value_name = "INSTANCES/LANES", value_delimiter = ',', default_values_t = [Shape::even(1), Shape::even(2), Shape::even(4), Shape::even(8)])]
    shapes: Vec<Shape>,
    /// Cores of each replica, with an instance and a lane for each of them: only the model says something of these
    #[arg(long, value_name = "COUNTS", value_delimiter = ',', default_values_t = [12])]
    cores: Vec<u16>,
    /// Sizes of a command in bytes
    #[arg(long, value_name = "BYTES", value_delimiter = ',', default_values_t = [16, 1024])]
    bytes: Vec<usize>,
    /// Commands in one call
    #[arg(long, value_name = "COUNT", default_value_t = 64)]
    commands_per_call: usize,
    /// Percent of a core that each lane of each replica gets, 0 for whole cores
    #[arg(long, value_name = "PERCENT", default_value_t = 5)]
    quota: u32,
    /// Clients, at least four for each instance
    #[arg(long, value_name = "COUNT", default_value_t = 32)]
    clients: usize,
    /// Calls of each client that are under way
    #[arg(long, value_name = "COUNT", default_value_t = 2)]
    calls: usize,
    /// What a word from one lane to another one costs each of the two, in nanoseconds
    #[arg(long, value_name = "NS", default_value_t = 10_000.0)]
    hand_ns: f64,
    /// Documents of `bench stages --each --json`, one for each size, instead of measuring that here
    #[arg(long, value_name = "FILES", value_delimiter = ',')]
    stages: Vec<PathBuf>,
    /// A document of this command, whose costs are taken instead of measuring them
    #[arg(long, value_name = "FILE")]
    costs: Option<PathBuf>,
    /// A document of this command, whose real runs are shown beside the model
    #[arg(long, value_name = "FILE", conflicts_with = "beside")]
    measured: Option<PathBuf>,
    /// Run real replicas of the same shapes, and show them beside the model
    #[arg(long)]
    beside: bool,
    /// How often to run real replicas of each shape
    #[arg(long, value_name = "COUNT", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,
    /// How many calls the simulator makes of each shape
    #[arg(long, value_name = "COUNT", default_value_t = 4000)]
    simulated: usize,
    /// Without certificates and encryption
    #[arg(long)]
    plain: bool,
    /// Where real replicas keep their files
    #[arg(long, value_name = "DIR", default_value = ".quorate/bench")]
    scratch: PathBuf,
    /// How long to measure each real run, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 5.0)]
    secs: f64,
    /// How long to run before measuring, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 3.0)]
    warm: f64,
}

impl ModelArgs {
    fn clients(&self, shape: Shape) -> usize {
        self.clients.max(4 * usize::from(shape.instances))
    }
}

/// Instances, and lanes of each replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Shape {
    instances: u16,
    lanes: u16,
}

impl Shape {
    const fn even(number: u16) -> Self {
        Self { instances: number, lanes: number }
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.instances, self.lanes)
    }
}

impl FromStr for Shape {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (instances, lanes) = text.split_once('/').unwrap_or((text, text));
        let number = |text: &str| text.parse::<u16>().ok().filter(|number| (1..=64).contains(number));
        match (number(instances), number(lanes)) {
            (Some(instances), Some(lanes)) => Ok(Self { instances, lanes }),
            _ => Err("a shape is INSTANCES/LANES, each 1 to 64, as in 2/3".into()),
        }
    }
}

/// What was measured for the prices.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Measured {
    per_batch: PerBatch,
    sizes: Vec<Costs>,
}

/// What the model says of a shape.
#[derive(Clone, Debug, Serialize)]
struct Said {
    commands_per_s: f64,
    /// The share of its time that each lane of each replica worked, the main lane first.
    busy: Vec<Vec<f64>>,
    calls_per_slot: f64,
}

/// Real runs of a shape.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Real {
    commands_per_s: Median,
    /// The same as for the model, of the last run.
    busy: Vec<Vec<f64>>,
}

/// A shape, as the model says it and as it was.
#[derive(Clone, Debug, Serialize)]
struct Row {
    bytes: usize,
    #[serde(flatten)]
    shape: Shape,
    /// The percentage of a core that each lane gets; null: a whole core.
    quota_percent: Option<u32>,
    model: Said,
    /// Null: nobody ran that.
    measured: Option<Real>,
    /// By how much the model says more than was measured, as a share of that.
    error: Option<f64>,
}

#[derive(Serialize)]
struct Document {
    benchmark: &'static str,
    version: &'static str,
    /// What the rows under `model` are, for whoever reads one of them alone.
    note: &'static str,
    commands_per_call: usize,
    tls: bool,
    load: String,
    quota_percent: Option<u32>,
    hand_ns: f64,
    machine: Machine,
    costs: Measured,
    rows: Vec<Row>,
}

/// The part of such a document that is read again.
#[derive(Deserialize)]
struct Given {
    commands_per_call: usize,
    costs: Measured,
    rows: Vec<GivenRow>,
}

#[derive(Deserialize)]
struct GivenRow {
    bytes: usize,
    #[serde(flatten)]
    shape: Shape,
    quota_percent: Option<u32>,
    measured: Option<Real>,
}

/// A document of `bench stages`.
#[derive(Deserialize)]
struct StagesDocument {
    bytes: usize,
    commands_per_call: usize,
    ways: Vec<StagesWay>,
}

#[derive(Deserialize)]
struct StagesWay {
    stages: Vec<StagesPart>,
}

#[derive(Deserialize)]
struct StagesPart {
    stage: Stage,
    cpu_us_per_command: Median,
}

pub(super) fn run(args: &ModelArgs, output: &Output) -> Outcome {
    check(args)?;
    std::fs::create_dir_all(&args.scratch).doing(format_args!("make {}", args.scratch.display()))?;
    let machine = Machine::ask(&args.scratch);
    let costs = costs(args)?;
    let given = args.measured.as_deref().map(|file| given(args, file)).transpose()?;
    let mut rows = Vec::new();
    for size in &costs.sizes {
        let shapes = args.shapes.iter().map(|shape| (*shape, args.quota));
        for (shape, quota) in shapes.chain(args.cores.iter().map(|cores| (Shape::even(*cores), 0))) {
            let quota_percent = (quota > 0).then_some(quota);
            let is_this = |row: &&GivenRow| {
                (row.bytes, row.shape, row.quota_percent) == (size.bytes, shape, quota_percent)
            };
            let model = model(args, &costs, *size, shape, quota)?;
            let measured = given.as_ref().and_then(|given| given.rows.iter().find(is_this)?.measured.clone());
            rows.push(Row { bytes: size.bytes, shape, quota_percent, model, measured, error: None });
        }
    }
    if args.beside {
        measure(args, &mut rows)?;
    }
    for row in &mut rows {
        let real = row.measured.as_ref().map(|real| real.commands_per_s.median);
        row.error = real.map(|real| row.model.commands_per_s / real - 1.0);
    }
    let document = Document {
        benchmark: "model",
        version: env!("CARGO_PKG_VERSION"),
        note: "what is under `model` was not measured: the simulator's cluster did it with the prices that follow from `costs`",
        commands_per_call: args.commands_per_call,
        tls: !args.plain,
        load: format!(
            "{} clients, or 4 for each instance if that is more; each has {} calls under way",
            args.clients, args.calls
        ),
        quota_percent: (args.quota > 0).then_some(args.quota),
        hand_ns: args.hand_ns,
        machine,
        costs,
        rows,
    };
    output.show(&document, || table::text(&document), || table::page(&document))?;
    Ok(ExitCode::SUCCESS)
}

/// Refuses what can not run, and says why.
fn check(args: &ModelArgs) -> Outcome<()> {
    if args.bytes.iter().any(|bytes| *bytes < 16 || !bytes.is_multiple_of(8)) {
        return Err(Failure::usage("--bytes are at least 16 and multiples of 8"));
    }
    let call = |bytes: &usize| bytes.saturating_mul(args.commands_per_call);
    if args.bytes.iter().any(|bytes| !(1 << 10..=256 << 10).contains(&call(bytes))) {
        return Err(Failure::usage(
            "--commands-per-call times --bytes is 1 KiB to 256 KiB, as a batch may be",
        ));
    }
    if args.cores.iter().any(|cores| !(1..=64).contains(cores)) {
        return Err(Failure::usage("--cores is a list of numbers from 1 to 64"));
    }
    if !(1..=100).contains(&args.calls) || !(1..=1000).contains(&args.clients) {
        return Err(Failure::usage("--clients is 1 to 1000, and --calls 1 to 100"));
    }
    if args.simulated == 0 || args.hand_ns < 0.0 {
        return Err(Failure::usage("--simulated is at least 1, and --hand-ns at least 0"));
    }
    Ok(())
}

fn read<T: for<'a> Deserialize<'a>>(file: &Path) -> Outcome<T> {
    let text = std::fs::read_to_string(file).doing(format_args!("read {}", file.display()))?;
    serde_json::from_str(&text).doing(format_args!("read {}", file.display()))
}

fn given(args: &ModelArgs, file: &Path) -> Outcome<Given> {
    let given: Given = read(file)?;
    if given.commands_per_call != args.commands_per_call {
        let text = format!("{} is about calls of {} commands", file.display(), given.commands_per_call);
        return Err(Failure::usage(text));
    }
    Ok(given)
}

fn costs(args: &ModelArgs) -> Outcome<Measured> {
    if let Some(file) = &args.costs {
        let mut costs = given(args, file)?.costs;
        costs.sizes.retain(|size| args.bytes.contains(&size.bytes));
        if costs.sizes.len() < args.bytes.len() {
            return Err(Failure::usage(format!("{} does not have all of --bytes", file.display())));
        }
        return Ok(costs);
    }
    let mut sizes = Vec::new();
    for bytes in &args.bytes {
        let call_bytes = bytes * args.commands_per_call + HEAD;
        let execute_ns = execution(args, *bytes)?;
        let taken = real::run(args, Shape::even(1), *bytes, None)?.taken;
        sizes.push(Costs { bytes: *bytes, call_bytes, execute_ns, taken });
    }
    // What a batch costs shows best where calls are small.
    let least = sizes.iter().min_by_key(|size| size.bytes).copied();
    let least = least.ok_or_else(|| Failure::usage("--bytes is a list of numbers"))?;
    let small = real::run(args, Shape::even(1), least.bytes, Some(least.bytes * args.commands_per_call))?;
    Ok(Measured { per_batch: PerBatch::between(least.taken, small.taken), sizes })
}

/// What execution takes for a call, in nanoseconds.
fn execution(args: &ModelArgs, bytes: usize) -> Outcome<f64> {
    let is_this =
        |given: &StagesDocument| (given.bytes, given.commands_per_call) == (bytes, args.commands_per_call);
    let files = args.stages.iter().map(|file| read::<StagesDocument>(file)).collect::<Outcome<Vec<_>>>()?;
    let stages = match files.into_iter().find(is_this) {
        Some(found) => {
            let parts = found.ways.into_iter().flat_map(|way| way.stages);
            parts.map(|part| (part.stage, part.cpu_us_per_command.median)).collect()
        }
        None if args.stages.is_empty() => stages::each(&StagesArgs::watched(args, bytes))?,
        None => {
            let text = format!("--stages has nothing of {bytes} B and {} in a call", args.commands_per_call);
            return Err(Failure::usage(text));
        }
    };
    let execute = stages.iter().find(|(stage, _)| *stage == Stage::Execute);
    let (_, us) =
        execute.ok_or_else(|| Failure::usage("--stages: measure with `bench stages --each --json`"))?;
    Ok(us * 1000.0 * args.commands_per_call as f64)
}

impl StagesArgs {
    /// Stages in one thread, through the merge, each watched.
    fn watched(args: &ModelArgs, bytes: usize) -> Self {
        Self {
            rounds: 5,
            bytes,
            commands_per_call: args.commands_per_call,
            calls: 64,
            secs: 1.0,
            count: None,
            ways: vec![stages::Way::Merged],
            each: true,
            scratch: args.scratch.clone(),
        }
    }
}

/// Runs the simulator's cluster.
fn model(args: &ModelArgs, costs: &Measured, size: Costs, shape: Shape, quota: u32) -> Outcome<Said> {
    let _progress = Progress::waiting(&format!("model of {shape}, {} B", size.bytes));
    let prices = prices::prices(size, costs.per_batch, args.hand_ns);
    let quota = if quota == 0 { WHOLE } else { super::quota::share(quota) };
    let shape = work::Shape {
        instances: shape.instances,
        lanes: shape.lanes,
        clients: args.clients(shape),
        calls: args.calls,
        call_bytes: size.call_bytes,
        work: work::Work { prices, quota },
    };
    let wrong = |why: quorate_sim::checks::Failure| {
        Failure::new(format!("the simulator: {}: {}", why.checker, why.text))
    };
    let rate = shape.rate(args.simulated).map_err(wrong)?;
    Ok(Said {
        commands_per_s: rate.calls_per_s * args.commands_per_call as f64,
        busy: rate.busy,
        calls_per_slot: rate.calls_per_slot,
    })
}

/// Runs real replicas of the wanted shapes, in turns. `--cores` are for the model alone.
fn measure(args: &ModelArgs, rows: &mut [Row]) -> Outcome<()> {
    let quota_percent = (args.quota > 0).then_some(args.quota);
    let wanted = |row: &Row| row.quota_percent == quota_percent && args.shapes.contains(&row.shape);
    let mut runs: Vec<Vec<real::Run>> = rows.iter().map(|_| Vec::new()).collect();
    for _ in 0..args.rounds {
        for (row, own) in rows.iter().zip(&mut runs).filter(|(row, _)| wanted(row)) {
            own.push(real::run(args, row.shape, row.bytes, None)?);
        }
    }
    for (row, own) in rows.iter_mut().zip(runs) {
        let commands_per_s = Median::of(own.iter().map(|run| run.commands_per_s).collect());
        let busy = own.into_iter().next_back().map(|run| run.busy);
        row.measured = commands_per_s.zip(busy).map(|(commands_per_s, busy)| Real { commands_per_s, busy });
    }
    Ok(())
}
