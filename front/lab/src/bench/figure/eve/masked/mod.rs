//! The figure `eve-9`: how often replicas that compare results mask a bug of threads, with mixers that are more or less wrong.
//!
//! After figure 3.9 of Kapritsos' dissertation (section 3.5.4), where commands that use the same table of H2 race for its row counter. Here they race for a
//! table in the memory of the service `work`, which no state view shows: of what they do to the state S4 of docs/protocols/speculative.md would know that
//! they met. How often it happens is counted with real waves, tokens and rulings on simulated threads (`schedule`, `twins`), how fast it is on
//! real ones (`real`). Also how many waves a perfect mixer makes of a batch (section 3.5.2).

mod real;
mod requests;
mod schedule;
#[cfg(test)]
mod tests;
mod twins;

use super::super::{Drawn, FigureArgs, refuse, shares};
use crate::bench::draw::{Page, Table, colour};
use crate::bench::median::Median;
use crate::bench::options::Measurement;
use crate::bench::report::{self, Durability};
use quorate_command::failure::Outcome;
use quorate_command::machine::Machine;
use quorate_command::ordering::OrderArgs;
use quorate_command::print::amount;
use quorate_command::progress::Progress;
use quorate_kv::WorkCommand;
use quorate_order::Feature;
use quorate_types::{FaultModel, Visigoth};
use real::Run;
use requests::{Requests, TABLES, USES};
use schedule::WORKERS;
use serde::Serialize;
use twins::{BATCH, Counts, Twins};

/// From which everything that is simulated follows.
const SEED: u64 = 39;
/// The most requests that are simulated: some hours.
const REQUESTS_MAX: u64 = 1_000_000_000;
/// Batches of which each request conflicts with a tenth of the others.
const PERFECT: u64 = 200;

/// What the paper's figure says of a mixer.
#[derive(Clone, Copy, Debug, Serialize)]
struct Paper {
    manifested: u64,
    masked: u64,
    identical: u64,
    per_s: f64,
}

/// A mixer, as wrong as its hints.
#[derive(Clone, Copy, Debug)]
struct Mixer {
    name: &'static str,
    /// The share of conflicting pairs that it misses; `None`: all requests of a batch are one wave.
    missed: Option<f64>,
    paper: Paper,
}

const fn paper(manifested: u64, masked: u64, identical: u64, per_s: f64) -> Paper {
    Paper { manifested, masked, identical, per_s }
}

/// The five of the paper; the last one is right.
const MIXERS: [Mixer; 5] = [
    Mixer { name: "group all", missed: None, paper: paper(73, 60, 13, 1104.0) },
    Mixer { name: "1 % missed", missed: Some(0.01), paper: paper(51, 38, 13, 1233.0) },
    Mixer { name: "0.5 % missed", missed: Some(0.005), paper: paper(29, 18, 11, 1240.0) },
    Mixer { name: "0.1 % missed", missed: Some(0.001), paper: paper(4, 3, 1, 1299.0) },
    Mixer { name: "original", missed: Some(0.0), paper: paper(0, 0, 0, 1322.0) },
];

/// What came of a mixer.
#[derive(Serialize)]
struct Of {
    mixer: &'static str,
    missed: Option<f64>,
    #[serde(flatten)]
    counts: Counts,
    /// Of the batches in which commands raced, those that were masked.
    masked_share: Option<f64>,
    /// On real threads.
    per_s: Option<Median>,
    /// Beside the original mixer in the same round.
    beside_original: Option<Median>,
    /// Of all rounds together.
    rollbacks: u64,
    wrong: u64,
    behind: u64,
    paper: Paper,
}

/// The waves of a perfect mixer.
#[derive(Clone, Copy, Debug, Serialize)]
struct Perfect {
    batches: u64,
    requests: u32,
    objects: u64,
    /// Waves of a batch, and requests of a wave.
    waves: f64,
    of: f64,
}

#[derive(Serialize)]
struct Document {
    figure: &'static str,
    version: &'static str,
    #[serde(flatten)]
    durability: Durability,
    t_ms: u32,
    batch: u32,
    workers: usize,
    command_us: u32,
    rounds: u32,
    seconds: f64,
    valid: bool,
    trouble: Vec<String>,
    mixers: Vec<Of>,
    perfect: Perfect,
    machine: Machine,
}

/// Counts, measures and draws.
pub(in super::super) fn draw(args: &FigureArgs) -> Outcome<Drawn> {
    args.eve.check()?;
    let (t_ms, _) = args.few.pair()?;
    if !(u64::from(BATCH)..=REQUESTS_MAX).contains(&args.eve.requests) {
        return refuse(&format!("--requests is {BATCH} to {REQUESTS_MAX}"));
    }
    let batches = args.eve.requests.div_ceil(BATCH.into());
    let counts = MIXERS.iter().map(|mixer| count(*mixer, batches)).collect::<Outcome<Vec<_>>>()?;
    let perfect = perfect()?;
    let model = FaultModel::Visigoth(Visigoth { t_ms, ..Visigoth::PAIR });
    let order = OrderArgs::surviving_by(model, Feature::CountOnFast.protocol());
    let measurement = Measurement { order, replicas: Some(2), ..args.measurement() };
    let command_us = args.eve.command_us.get(1).or(args.eve.command_us.first()).copied().unwrap_or(1000);
    let runs = real::measure(args, &measurement, command_us)?;
    let trouble = trouble(&runs);
    let document = Document {
        figure: "eve-9",
        version: env!("CARGO_PKG_VERSION"),
        durability: Durability::planned(&measurement),
        t_ms,
        batch: BATCH,
        workers: WORKERS,
        command_us,
        rounds: args.rounds,
        seconds: args.secs,
        valid: trouble.is_empty(),
        trouble,
        mixers: MIXERS
            .iter()
            .zip(counts)
            .zip(&runs)
            .map(|((mixer, counts), own)| of(mixer, counts, own, &runs))
            .collect(),
        perfect,
        machine: Machine::ask(&measurement.scratch),
    };
    Drawn::of((document.figure, document.valid), &page(&document), &document)
}

/// What came of so many batches with this mixer.
fn count(mixer: Mixer, batches: u64) -> Outcome<Counts> {
    let _progress = Progress::waiting(&format!("simulated, {}", mixer.name));
    let mut requests = Requests::new(SEED, mixer, USES, WorkCommand::default());
    Twins::new(SEED)?.play(&mut requests, batches)
}

/// The waves where all requests use a table, and the hints name all of them.
fn perfect() -> Outcome<Perfect> {
    let right = MIXERS[MIXERS.len() - 1];
    let counts =
        Twins::new(SEED)?.play(&mut Requests::new(SEED, right, 1000, WorkCommand::default()), PERFECT)?;
    Ok(Perfect {
        batches: counts.batches,
        requests: BATCH,
        objects: TABLES,
        waves: counts.waves as f64 / counts.batches as f64,
        of: counts.requests as f64 / counts.waves.max(1) as f64,
    })
}

fn of(mixer: &Mixer, counts: Counts, own: &[Run], all: &[Vec<Run>]) -> Of {
    let original = all.last().map(Vec::as_slice).unwrap_or_default();
    let beside = own.iter().zip(original).map(|(own, original)| own.per_s / original.per_s.max(1.0));
    Of {
        mixer: mixer.name,
        missed: mixer.missed,
        counts,
        masked_share: share(counts.masked, counts.manifested),
        per_s: Median::of(own.iter().map(|run| run.per_s).collect()),
        beside_original: Median::of(beside.collect()),
        rollbacks: own.iter().map(|run| run.rollbacks).sum(),
        wrong: own.iter().map(|run| run.wrong).sum(),
        behind: own.iter().map(|run| run.behind).sum(),
        paper: mixer.paper,
    }
}

fn share(part: u64, of: u64) -> Option<f64> {
    (of > 0).then(|| part as f64 / of as f64)
}

fn trouble(runs: &[Vec<Run>]) -> Vec<String> {
    let wrong = |(mixer, runs): (&Mixer, &Vec<Run>)| {
        let run = runs.iter().find(|run| run.errors > 0 || !run.check.is_passed())?;
        Some(format!("NOT VALID, {}: {} calls failed; {}", mixer.name, run.errors, run.check.text()))
    };
    MIXERS.iter().zip(runs).filter_map(wrong).collect()
}

fn page(document: &Document) -> Page {
    Page {
        title: "Bugs of threads that are masked, with mixers that are more or less wrong".into(),
        intro: format!(
            "Commands that use a table at the same time race for it. Simulated: {} requests in batches of {}, two replicas with {} workers. On real threads: a \
             pair, {} callers, each with one command of {} us outstanding, {}, {} s each. In brackets: the paper's figure 3.9.",
            document.mixers.first().map_or(0, |of| of.counts.requests),
            document.batch,
            document.workers,
            document.batch,
            document.command_us,
            shares::rounds(document.rounds),
            document.seconds
        ),
        charts: Vec::new(),
        table: table(document),
        facts: facts(document),
        ..Page::default()
    }
}

fn table(document: &Document) -> Table {
    let head = [
        "mixer",
        "batches in waves",
        "manifested",
        "masked",
        "identical",
        "share masked",
        "manifested of 1000 in waves",
        "requests/s",
        "beside original",
        "rolled back, wrong answers, left behind",
    ];
    let percent =
        |share: Option<f64>| share.map_or("-".to_owned(), |share| format!("{:.0} %", share * 100.0));
    let beside = |own: String, paper: String| format!("{own} ({paper})");
    let count = |own: u64, paper: u64| beside(own.to_string(), paper.to_string());
    let original = MIXERS[MIXERS.len() - 1].paper.per_s;
    let row = |(at, of): (usize, &Of)| {
        let Of { counts, paper, .. } = of;
        let per_1000 = share(1000 * counts.manifested, counts.in_waves);
        let cells = vec![
            of.mixer.to_owned(),
            format!("{} of {}", counts.in_waves, counts.batches),
            count(counts.manifested, paper.manifested),
            count(counts.masked, paper.masked),
            count(counts.identical, paper.identical),
            beside(percent(of.masked_share), percent(share(paper.masked, paper.manifested))),
            per_1000.map_or("-".into(), |per| format!("{per:.1}")),
            beside(
                of.per_s.as_ref().map_or("-".into(), |per_s| shares::cell(per_s, amount)),
                amount(paper.per_s),
            ),
            beside(
                of.beside_original
                    .as_ref()
                    .map_or("-".into(), |of| shares::cell(of, |times| format!("{times:.2}"))),
                format!("{:.2}", paper.per_s / original),
            ),
            format!("{}, {}, {}", of.rollbacks, of.wrong, of.behind),
        ];
        (colour(at), cells)
    };
    Table {
        head: head.map(str::to_owned).to_vec(),
        rows: document.mixers.iter().enumerate().map(row).collect(),
    }
}

fn facts(document: &Document) -> Vec<String> {
    let Perfect { batches, requests, objects, waves, of } = document.perfect;
    let mut facts = document.trouble.clone();
    facts.extend([
        format!(
            "2 replicas, one of which may stop; an {} decides; T is {} ms; durability {}; quorate {}",
            report::oracle(),
            document.t_ms,
            document.durability,
            document.version
        ),
        format!(
            "{USES} of 1000 requests use one of {TABLES} tables in the service's own memory, for the first tenth of their time; one that finds its table \
             taken forgets to count its change of an object of its own. On purpose: what commands do to the state, waves check themselves, and run such a batch \
             again one after the other (S4)"
        ),
        "the paper: H2 with TPC-W's browsing workload and its row counter, which requests to the same table race for; a pair on 16-core machines with 16 \
         execution threads; 73 times are those of 750,000 requests"
            .into(),
        "manifested: batches in which that happened at one replica or both, seen in the service; masked: batches that ran again by a ruling, and were right \
         then; identical: batches of which clients were told something wrong. That the first is the sum of the others was checked of each batch"
            .into(),
        "simulated are threads alone: each command takes 0.5 to 1.5 ms from a seed, at each replica another one, and begins at most 0.1 ms after it was handed over. How \
         often commands race follows from that and from the share that uses tables, which was chosen; how often both replicas do the same, and what is masked, \
         follows from the real waves, tokens and rulings"
            .into(),
        "after three rollbacks within 256 batches commands run one after the other for a while (S11), so a mixer that groups all has few batches in waves, and \
         commands that sleep hold up agreement; the paper's Eve goes on"
            .into(),
        "a pair that is missed races only if both are in one wave: a request is one wave behind the last one that it conflicts with (S2)".into(),
        "rolled back, wrong answers, left behind: on real threads, of all rounds together; roll-backs are also those of results that came late (V5), and a wrong \
         answer is one that was ruled. While a replica is too slow for T the other one rules alone; if it told something wrong then, the slow one can not \
         repeat it, says so, and waits for the next checkpoint"
            .into(),
        format!(
            "a perfect mixer makes {waves:.1} waves of {of:.1} requests, the mean of {batches} batches of {requests} requests on {objects} objects: as many as the \
             fullest object has requests. The paper (section 3.5.2) says about 10 waves of about 10, which is the mean object"
        ),
    ]);
    facts.extend(report::machine_lines(&document.machine).lines().map(|line| line.trim().to_owned()));
    facts
}
