//! The figure `visigoth-2`: how long a process waits for the first, second, ... reply of a group (`crate::rounds`). After figure 2 of "Visigoth
//! Fault Tolerance" (EuroSys 2015). `quorate doctor visigoth` shows the same.

use super::{Drawn, FigureArgs, refuse};
use crate::bench::draw::{Chart, Line, Made, Page, Table, colour};
use crate::rounds::{self, Advice, MEMBERS_MAX, Measured, Plan, Times, Wish, percent};
use quorate_command::arguments::seconds;
use quorate_command::failure::{Doing as _, Outcome};
use quorate_command::machine::Machine;
use quorate_command::print::json;
use quorate_command::progress::Progress;
use serde::Serialize;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

/// How long a reply is waited for.
const PATIENCE: Duration = Duration::from_secs(30);

/// The options of this figure.
#[derive(Debug, clap::Args)]
pub(super) struct Options {
    /// For visigoth-2: draw these results, which `quorate doctor visigoth --json` printed on each machine, and measure nothing
    #[arg(long, value_name = "FILES", value_delimiter = ',')]
    results: Vec<PathBuf>,
    /// For visigoth-2: how many processes there are, all on this machine
    #[arg(long, value_name = "COUNT", default_value_t = 7)]
    processes: usize,
    /// For visigoth-2: from one round to the next, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..=60_000))]
    every_ms: u64,
}

#[derive(Serialize)]
struct Document {
    figure: &'static str,
    version: &'static str,
    valid: bool,
    machine: Machine,
    measured: Measured,
    advice: Advice,
}

/// Measures, or reads results, and draws.
pub(super) fn draw(args: &FigureArgs) -> Outcome<Drawn> {
    let Options { results, processes, every_ms } = &args.replies;
    if !(2..=MEMBERS_MAX).contains(processes) {
        return refuse(&format!("--processes is 2 to {MEMBERS_MAX}"));
    }
    let measured = if results.is_empty() {
        let length = seconds("--secs", args.secs)?;
        let every = Duration::from_millis(*every_ms);
        let rounds = (length.as_millis() / every.as_millis().max(1)).max(1) as u64;
        let message_bytes = rounds::MESSAGE_BYTES;
        let plan = Plan { rounds, every, message_bytes, patience: PATIENCE, wait: PATIENCE };
        fs::create_dir_all(&args.scratch).doing(format_args!("make {}", args.scratch.display()))?;
        let progress = Progress::new("rounds", length);
        let tell = |round: u64| progress.at(every.saturating_mul(round as u32), || format!("round {round}"));
        rounds::local(*processes, &plan, &args.scratch, tell)?
    } else {
        Measured::read(results)?
    };
    let advice = Advice::of(&measured, Wish::default());
    let machine = Machine::ask(&args.scratch);
    let html = page(&measured, &advice, &machine);
    let text = text(&measured, &advice);
    let valid = measured.rounds() > 0;
    let version = env!("CARGO_PKG_VERSION");
    let document = Document { figure: "visigoth-2", version, valid, machine, measured, advice };
    Ok(Drawn { html, json: json(&document)?, text, valid })
}

/// The shares of rounds in the table.
const SHARES: [(&str, f64); 3] = [("p50 ms", 0.5), ("p99 ms", 0.99), ("p99.9 ms", 0.999)];
/// The most points of a curve.
const POINTS_MAX: usize = 400;

/// A time in milliseconds with three digits.
fn ms(time: Option<f64>) -> String {
    match time {
        None => "-".to_owned(),
        Some(ms) if ms >= 99.95 => format!("{ms:.0}"),
        Some(ms) if ms >= 9.995 => format!("{ms:.1}"),
        Some(ms) => format!("{ms:.2}"),
    }
}

fn name(k: usize, others: usize) -> String {
    format!("{} of {others} replies", k + 1)
}

/// One row for each k: percentiles, the longest time, and rounds in which the reply never came.
fn table(measured: &Measured) -> Table {
    let others = measured.replies.len();
    let row = |(k, times): (usize, &Times)| {
        let shares = SHARES.map(|(_, share)| ms(times.within(share)));
        let rest = [ms(times.longest()), times.never().to_string()];
        let cells = std::iter::once(name(k, others)).chain(shares).chain(rest).collect();
        (colour(k), cells)
    };
    let head = ["until", "", "", "", "max ms", "never"].map(str::to_owned);
    let mut head = head.to_vec();
    for (at, (name, _)) in SHARES.iter().enumerate() {
        (*name).clone_into(&mut head[at + 1]);
    }
    Table { head, rows: measured.replies.iter().enumerate().map(row).collect() }
}

/// The result for the terminal.
pub fn text(measured: &Measured, advice: &Advice) -> String {
    let mut lines = vec![
        format!("{}: {} rounds", measured.title(), measured.rounds()),
        table(measured).text(),
        format!("what to choose for u = {}, o = {}", advice.u, advice.o),
    ];
    lines.extend(advice.choices.iter().map(|choice| format!("  {}", choice.words)));
    lines.extend(advice.words.iter().cloned());
    lines.join("\n")
}

/// The distributions: which share of rounds had the k-th reply after which time.
fn distributions(measured: &Measured) -> Chart {
    let others = measured.replies.len();
    // Nearly all of it is there; the other chart has the rest.
    let most = measured.replies.iter().filter_map(|times| times.within(0.99)).fold(0.0, f64::max);
    let line = |(k, times): (usize, &Times)| {
        let inside = times.distribution().into_iter().filter(|(ms, _)| *ms <= most);
        let points = thinned(inside.map(|(ms, share)| (ms, Some(share * 100.0))).collect());
        Line { name: name(k, others), colour: colour(k), points, bars: vec![], ranges: vec![] }
    };
    Chart {
        title: "Rounds in which so many replies had come".to_owned(),
        x_label: "milliseconds".to_owned(),
        y_label: "percent of rounds".to_owned(),
        logarithmic: false,
        x_most: most,
        lines: measured.replies.iter().enumerate().map(line).collect(),
        bars_label: None,
    }
}

/// The tails: by which time the reply had come in all but one in ten, a hundred, ... rounds.
fn tails(measured: &Measured) -> Chart {
    let others = measured.replies.len();
    let nines = (measured.rounds().max(10) as f64).log10();
    let line = |(k, times): (usize, &Times)| {
        let at = |step: u32| f64::from(step) * nines / 200.0;
        let point = |step| (at(step), times.within(1.0 - 10_f64.powf(-at(step))));
        let points = (0..=200).map(point).collect();
        Line { name: name(k, others), colour: colour(k), points, bars: vec![], ranges: vec![] }
    };
    Chart {
        title: "The slowest rounds".to_owned(),
        x_label: "all rounds but one in ten to the power of this (2: 99 %, 3: 99.9 %)".to_owned(),
        y_label: "milliseconds".to_owned(),
        logarithmic: true,
        x_most: nines,
        lines: measured.replies.iter().enumerate().map(line).collect(),
        bars_label: None,
    }
}

/// Points enough to draw a curve; the first and the last stay.
fn thinned(points: Vec<(f64, Option<f64>)>) -> Vec<(f64, Option<f64>)> {
    let (step, last) = (points.len().div_ceil(POINTS_MAX).max(1), points.len().saturating_sub(1));
    points
        .into_iter()
        .enumerate()
        .filter(|(at, _)| at % step == 0 || *at == last)
        .map(|(_, point)| point)
        .collect()
}

/// The result as a page.
pub fn page(measured: &Measured, advice: &Advice, machine: &Machine) -> String {
    let mut facts = vec![
        format!("{}; {} rounds of {} processes", measured.title(), measured.rounds(), measured.processes),
        "each request has a tag, and is answered once it is on stable storage".to_owned(),
        format!("page made on {}, {} cores, {}", machine.cpu, machine.cores, machine.kernel),
    ];
    facts.extend(advice.choices.iter().map(|choice| choice.words.clone()));
    facts.extend(advice.words.iter().cloned());
    let unknown = 1.0 / measured.rounds().max(1) as f64;
    Page {
        title: "How long replies are waited for".to_owned(),
        intro: format!(
            "After figure 2 of Visigoth Fault Tolerance (EuroSys 2015): the time until a process has so many replies of the others. What is \
             rarer than {} of rounds was not measured.",
            percent(unknown)
        ),
        charts: vec![distributions(measured), tails(measured)],
        table: table(measured),
        facts,
        ..Page::default()
    }
    .html(&Made::now())
}
