//! `bench gate`: counts the instructions of one operation on each of nine trips (`quorate_sim::trips`), and compares with recorded counts.
//!
//! The program runs itself under callgrind, twice for each trip. The longer run minus the shorter one is the cost of the operations,
//! without begin and end. Instructions are the one figure that does not change when the machine does other work as well.

use super::draw::{Mark, Page, Row, Rows, number};
use super::output::Output;
use quorate_command::failure::{Doing as _, Failure, Outcome};
use quorate_command::print;
use quorate_command::progress::Progress;
use quorate_sim::trips::{COUNTED, TRIPS, Trip};
use serde::{Deserialize, Serialize};
use std::io::{ErrorKind, Write as _};
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Operations of each client in the two runs.
const LENGTHS: [u32; 2] = [30, 130];
/// The largest ratio of counted to recorded instructions that passes.
const MORE_MAX: f64 = 1.03;

/// Count the instructions of nine kinds of operations, with valgrind
#[derive(Debug, clap::Args)]
pub(crate) struct GateArgs {
    /// Write what was counted to this new file
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// Compare with such a file, of the same compiler; the exit code is 1 if anything costs over 3 % more
    #[arg(long, value_name = "FILE")]
    compare: Option<PathBuf>,
}

/// What callgrind watches.
#[derive(Debug, clap::Args)]
pub(crate) struct TripArgs {
    name: String,
    operations: u32,
}

/// The cost of one trip.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Cost {
    trip: String,
    /// Instructions of replicas and clients together.
    instructions_per_operation: u64,
}

/// The counted instructions beside the recorded ones.
#[derive(Clone, Debug, Serialize)]
struct Counted {
    #[serde(flatten)]
    cost: Cost,
    recorded: Option<u64>,
    /// Counted divided by recorded instructions.
    ratio: Option<f64>,
}

#[derive(Serialize)]
struct Document {
    benchmark: &'static str,
    /// Whether no trip costs over 3 % more than recorded; null if nothing was compared.
    passed: Option<bool>,
    trips: Vec<Counted>,
}

pub(super) fn run(args: &GateArgs, output: &Output) -> Outcome {
    let before = match &args.compare {
        Some(file) => Some(
            read(&std::fs::read_to_string(file).doing(format_args!("read {}", file.display()))?)
                .map_err(|why| Failure::usage(format!("{}: {why}", file.display())))?,
        ),
        None => None,
    };
    // Said at once, and not after a minute of counting.
    if let Some(file) = args.record.as_deref().filter(|file| file.exists()) {
        let file = file.display();
        return Err(Failure::usage(format!("{file} exists: name a new file, or remove it first")));
    }
    let costs = count_all()?;
    if let Some(file) = &args.record {
        let lines = costs.iter().map(serde_json::to_string).collect::<Result<Vec<_>, _>>();
        let lines = lines.doing("write what was counted")?;
        let mut to = std::fs::File::create_new(file).doing(format_args!("create {}", file.display()))?;
        writeln!(to, "{}", lines.join("\n")).doing("write what was counted")?;
    }
    let document = compare(costs, before.as_deref());
    let passed = document.passed != Some(false);
    output.show(&document, || table(&document), || page(&document))?;
    Ok(if passed { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The run that callgrind watches: makes one trip, and prints its number of operations.
pub(super) fn make_trip(args: &TripArgs) -> Outcome {
    let trip = TRIPS.iter().find(|trip| trip.name == args.name);
    let trip = trip.ok_or_else(|| Failure::usage(format!("there is no trip {:?}", args.name)))?;
    let operations = trip.make(args.operations).map_err(|why| Failure::new(format!("{why:?}")))?;
    print::line(operations.to_string())?;
    Ok(ExitCode::SUCCESS)
}

fn read(text: &str) -> Result<Vec<Cost>, String> {
    let line = |(at, line): (usize, &str)| {
        serde_json::from_str(line)
            .map_err(|why| format!("line {}: {why}; `--record` writes such files", at + 1))
    };
    text.lines().enumerate().map(line).collect()
}

fn compare(costs: Vec<Cost>, before: Option<&[Cost]>) -> Document {
    let with = |cost: Cost| {
        let recorded = before.and_then(|before| before.iter().find(|old| old.trip == cost.trip));
        let recorded = recorded.map(|old| old.instructions_per_operation);
        let ratio = recorded.map(|old| cost.instructions_per_operation as f64 / old.max(1) as f64);
        Counted { cost, recorded, ratio }
    };
    let trips: Vec<Counted> = costs.into_iter().map(with).collect();
    let passed = trips.iter().all(|trip| trip.ratio.is_some_and(|ratio| ratio <= MORE_MAX));
    Document { benchmark: "gate", passed: before.map(|_| passed), trips }
}

fn table(document: &Document) -> String {
    let mut lines = vec!["instructions for each operation, in replicas and clients together".to_owned()];
    for Counted { cost: Cost { trip, instructions_per_operation: now }, recorded, ratio } in &document.trips {
        let what = TRIPS.iter().find(|known| known.name == trip).map_or("", |known| known.what);
        let beside = match recorded.zip(*ratio) {
            Some((old, ratio)) => {
                let more = if ratio > MORE_MAX { "  TOO MUCH" } else { "" };
                format!("  was {old:>9}  {:>+6.1} %{more}", (ratio - 1.0) * 100.0)
            }
            None if document.passed.is_some() => "  was not recorded".into(),
            None => String::new(),
        };
        lines.push(format!("  {trip:<10} {now:>9}{beside}  {what}"));
    }
    match document.passed {
        Some(true) => lines.push("no trip costs over 3 % more than recorded".into()),
        Some(false) => lines.push(
            "a trip costs over 3 % more than recorded: look where with callgrind, or record anew and say why"
                .into(),
        ),
        None => {}
    }
    lines.join("\n")
}

fn page(document: &Document) -> Page {
    let row = |counted: &Counted| {
        let what = TRIPS.iter().find(|trip| trip.name == counted.cost.trip).map_or("", |trip| trip.what);
        let now = Mark::one(counted.cost.instructions_per_operation as f64);
        let recorded = counted.recorded.and_then(|count| Mark::one(count as f64));
        let name = format!("{}: {what}", counted.cost.trip);
        Row { name, marks: if document.passed.is_some() { vec![now, recorded] } else { vec![now] } }
    };
    let sides: &[&str] = if document.passed.is_some() { &["counted", "recorded"] } else { &["counted"] };
    let trips = document.trips.iter().map(row).collect();
    let mut rows =
        vec![Rows::new("Instructions for each operation", "instructions", sides, trips).logarithmic()];
    let ratio = |counted: &Counted| {
        Some(Row { name: counted.cost.trip.clone(), marks: vec![Mark::one(counted.ratio?)] })
    };
    let ratios: Vec<Row> = document.trips.iter().filter_map(ratio).collect();
    if !ratios.is_empty() {
        rows.push(
            Rows::new("Beside what was recorded", "times", &["counted over recorded"], ratios).beside_one(),
        );
    }
    Page {
        title: "Instructions for each operation".into(),
        intro: match document.passed {
            Some(true) => format!("No trip costs over {} times what was recorded.", number(MORE_MAX)),
            Some(false) => format!("A trip costs over {} times what was recorded.", number(MORE_MAX)),
            None => "Nothing was compared.".to_owned(),
        },
        rows,
        about: vec![
            ("counted", "instructions of replicas and clients together, by callgrind".to_owned()),
            ("durability", "none: the disks are the simulator's".to_owned()),
            ("payload, callers, replicas", "those of each trip, see its name".to_owned()),
            ("machine", "any: instructions do not depend on what else it does".to_owned()),
            ("floor", "none: the null program is not counted".to_owned()),
        ],
        ..Page::default()
    }
}

/// Counts all trips, as many at once as there are cores; they do not influence each other's counts.
fn count_all() -> Outcome<Vec<Cost>> {
    let (next, done) = (AtomicUsize::new(0), AtomicU64::new(0));
    let runs = TRIPS.len() * LENGTHS.len();
    let results = Mutex::new(vec![None; runs]);
    let progress = Progress::counting("counting", runs as u64);
    let work = || -> Outcome<()> {
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            if at >= runs {
                return Ok(());
            }
            let found = count(&TRIPS[at / LENGTHS.len()], LENGTHS[at % LENGTHS.len()])?;
            results.lock().unwrap_or_else(std::sync::PoisonError::into_inner)[at] = Some(found);
            progress.count(done.fetch_add(1, Ordering::Relaxed) + 1);
        }
    };
    let jobs = std::thread::available_parallelism().map_or(1, usize::from).min(runs);
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..jobs).map(|_| scope.spawn(work)).collect();
        workers.into_iter().try_for_each(|worker| {
            worker.join().unwrap_or_else(|_| Err(Failure::new("a thread that counted panicked")))
        })
    })?;
    let results = results.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    let results: Vec<(u64, u64)> = results.into_iter().flatten().collect();
    let cost = |(trip, runs): (&Trip, &[(u64, u64)])| {
        let (instructions, operations) = (runs[1].0.saturating_sub(runs[0].0), runs[1].1 - runs[0].1);
        Cost { trip: trip.name.into(), instructions_per_operation: instructions / operations.max(1) }
    };
    Ok(TRIPS.iter().zip(results.chunks(LENGTHS.len())).map(cost).collect())
}

/// The instructions of one trip, and how many operations it had.
fn count(trip: &Trip, operations: u32) -> Outcome<(u64, u64)> {
    let program = std::env::current_exe().doing("find this program")?;
    let mut command = Command::new("valgrind");
    command.args(["--tool=callgrind", "--callgrind-out-file=/dev/null", "--collect-atstart=no"]);
    command.arg(format!("--toggle-collect={COUNTED}")).arg(program);
    command.args(["bench", "trip", trip.name, &operations.to_string()]);
    let output = command.output().map_err(|why| match why.kind() {
        ErrorKind::NotFound => Failure::new(
            "valgrind is not installed, and it counts the instructions: install the package `valgrind`",
        ),
        _ => Failure::new(format!("can not run valgrind: {why}")),
    })?;
    let (found, told) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let parsed = collected(&told).zip(found.trim().parse().ok()).filter(|_| output.status.success());
    parsed.ok_or_else(|| {
        Failure::new(format!("trip {} under callgrind: {}\n{found}{told}", trip.name, output.status))
    })
}

/// The number in callgrind's last lines of output.
fn collected(told: &str) -> Option<u64> {
    let line = told.lines().rev().find_map(|line| line.split_once("Collected :"))?;
    line.1.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests;
