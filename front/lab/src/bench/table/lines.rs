//! The lines of the table. Each is a command line of a benchmark, which also is what the table shows.

use super::TableArgs;
use super::result::{Round, Row};
use crate::bench::options::{Args, Command, IdleArgs, Measurement};
use crate::bench::report::{Durability, FloorRun, OwnRun, Subject};
use crate::bench::temporary::FLOOR_PREFIX;
use crate::bench::{append, bft, idle, kv, series};
use clap::Parser as _;
use quorate_command::arguments::seconds;
use quorate_command::failure::{Failure, Outcome};
use quorate_floor::Config as FloorConfig;
use std::path::{Path, PathBuf};

/// Names and command lines.
const LINES: [(&str, &str); 12] = [
    ("append-memory", "append --durability memory"),
    ("append-memory-plain", "append --durability memory --plain"),
    ("append-group", "append --durability group"),
    ("append-group-plain", "append --durability group --plain"),
    ("kv-put", "kv --callers 1000 --keys 100000"),
    (KEYS_MANY, "kv --callers 1000 --keys 10000000"),
    ("kv-put-one", "kv --callers 1"),
    ("kv-read", "kv --operation read"),
    ("kv-weak-read", "kv --operation weak-read"),
    ("bft-100", "bft --fault-model byzantine --durability memory --shared --clients 100"),
    ("bft-1000", "bft --fault-model byzantine --durability memory --shared --clients 1000"),
    ("idle", "idle"),
];
/// The line that is left out unless it is asked for.
const KEYS_MANY: &str = "kv-put-many";
/// How many times as long idle replicas are measured: they use little.
const IDLE_TIMES: f64 = 4.0;

#[derive(clap::Parser)]
struct Words {
    #[command(flatten)]
    args: Args,
}

/// One line.
pub(super) struct Line {
    pub(super) name: &'static str,
    words: &'static str,
    command: Command,
}

/// The lines that the command line chooses, in the table's order.
pub(super) fn chosen(args: &TableArgs) -> Outcome<Vec<Line>> {
    seconds("--secs", args.secs)?;
    let unknown = |word: &&String| !LINES.iter().any(|(name, _)| is_meant(word, name));
    if let Some(word) = args.only.iter().find(unknown) {
        let names = LINES.map(|(name, _)| name).join(", ");
        return Err(Failure::usage(format!("--only: there is no line {word:?}, but {names}")));
    }
    let wanted = |name: &str| {
        let by_name = args.only.iter().any(|word| word == name);
        let named = args.only.is_empty() || args.only.iter().any(|word| is_meant(word, name));
        by_name || (named && (name != KEYS_MANY || args.keys_many))
    };
    let lines = LINES.iter().filter(|(name, _)| wanted(name));
    lines.map(|(name, words)| Ok(Line { name, words, command: parse(words, args)? })).collect()
}

/// Whether a word of `--only` means this line: it is its name, or no line's name and the beginning of this one.
fn is_meant(word: &str, name: &str) -> bool {
    let begins = name.strip_prefix(word).is_some_and(|rest| rest.starts_with('-'));
    name == word || (begins && !LINES.iter().any(|(name, _)| *name == word))
}

/// Adds what all lines have in common to the words of a command line.
fn parse(words: &str, args: &TableArgs) -> Outcome<Command> {
    let idle = words == "idle";
    let secs = if idle { args.secs * IDLE_TIMES } else { args.secs };
    let mut all: Vec<std::ffi::OsString> =
        ["bench"].into_iter().chain(words.split(' ')).map(Into::into).collect();
    all.extend(["--scratch".into(), args.scratch.clone().into(), format!("--secs={secs}").into()]);
    if !idle {
        all.push(format!("--warm={}", args.warm).into());
    }
    match Words::try_parse_from(all) {
        Ok(words) => Ok(words.args.command),
        Err(why) => Err(Failure::usage(why.to_string())),
    }
}

/// Where the null program keeps its logs.
pub(super) fn floor_dir(scratch: &Path) -> PathBuf {
    scratch.join(format!("{FLOOR_PREFIX}{}", std::process::id()))
}

impl Line {
    /// What people type.
    pub(super) fn shown(&self) -> String {
        format!("bench {}", self.words)
    }

    /// Measures it once, and the null program before or after it.
    pub(super) fn measure(&self, title: &str, floor_first: bool) -> Round {
        self.try_measure(title, floor_first).unwrap_or_else(|why| Round::failed(why.to_string()))
    }

    fn try_measure(&self, title: &str, floor_first: bool) -> Outcome<Round> {
        match &self.command {
            Command::Append(args) => {
                let ours = || append::measure(args, title).map(OwnRun::from);
                beside(&args.measurement, append::subject(args)?, floor_first, ours)
            }
            Command::Kv(args) => {
                let ours = || kv::measure(args, title).map(OwnRun::from);
                beside(&args.measurement, kv::subject(args)?, floor_first, ours)
            }
            Command::Bft(args) => {
                let ours = || bft::measure(args, title).map(OwnRun::from);
                beside(&args.measurement, bft::subject(args)?, floor_first, ours)
            }
            Command::Idle(args) => at_rest(args),
            other => Err(Failure::new(format!("{other:?} has no line in the table"))),
        }
    }

    /// The medians of all rounds.
    pub(super) fn row<'r>(&self, rounds: impl Iterator<Item = &'r Round>) -> Row {
        // The null program's latency is that of a command, and an append's that of a call with thousands of them. It does not read.
        let as_the_floor = match &self.command {
            Command::Kv(args) => args.operation == crate::bench::options::KvOperation::Put,
            Command::Bft(_) => true,
            _ => false,
        };
        Row::of(self.name, self.shown(), rounds, as_the_floor)
    }
}

/// A run of ours and one of the null program, with the same settings.
fn beside(
    measurement: &Measurement,
    (subject, floor): (Subject, FloorConfig),
    floor_first: bool,
    ours: impl FnOnce() -> Outcome<OwnRun>,
) -> Outcome<Round> {
    let floor = FloorConfig { seconds: measurement.secs.max(0.5), ..floor };
    let fault_model = measurement.order.choice()?.fault_model;
    let floor =
        || -> Outcome<FloorRun> { series::floor_run(&floor, &Durability::planned(measurement), fault_model) };
    if floor_first {
        let floor = floor()?;
        Ok(Round::beside(subject.unit, &ours()?, &floor))
    } else {
        let ours = ours()?;
        Ok(Round::beside(subject.unit, &ours, &floor()?))
    }
}

/// Replicas that nobody uses.
fn at_rest(args: &IdleArgs) -> Outcome<Round> {
    let replicas = idle::measure(args)?.replicas;
    let mean = |of: Vec<f64>| of.iter().sum::<f64>() / of.len().max(1) as f64;
    let percent = |leads: bool| {
        mean(replicas.iter().filter(|r| r.leads == leads).map(|r| r.cpu_percent_of_a_core).collect())
    };
    let memory = mean(replicas.iter().map(|replica| replica.memory_mib).collect());
    Ok(Round::at_rest(memory, percent(true), percent(false)))
}
