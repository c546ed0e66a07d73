//! The evaluation of BFT-SMaRt, repeated: the tables `bft-smart-1` and `bft-smart-2`, and the figures `bft-smart-4` to `bft-smart-8`.
//!
//! After section 6.2 of "State Machine Replication for the Masses with BFT-SMaRt" (Bessani, Sousa, Alchieri; DI-FCUL-TR-2013-07). The paper has a
//! machine for each replica, and four for clients; here all share one, so what is compared is shapes: shares and ratios. Each file has its
//! points, its page and the paper's numbers. Files: `payloads` (table 1), `peaks` (table 2), `curves` (figure 4), `faults` (5), `mixes` (6), `signed` (7), `trace` (8).
//! Tests: `tests`, and front/cli/tests/all/bench_smart.rs with real processes.

pub(super) mod curves;
pub(super) mod faults;
pub(super) mod mixes;
mod payloads;
mod peaks;
pub(super) mod signed;
#[cfg(test)]
mod tests;
pub(super) mod trace;

use super::closed::{ClosedArgs, Curve, Head, How, Kind, Load, Point, Rounds, lines_about};
use super::shares;
use crate::bench::bft::BYTES_MAX;
use crate::bench::draw::{Chart, Table, colour};
use crate::bench::median::Median;
use crate::bench::options::Measurement;
use crate::bench::output::Output;
use quorate_command::cluster::ClusterArgs;
use quorate_command::failure::Outcome;
use quorate_command::layout::DurabilityChoice;
use quorate_command::ordering::OrderArgs;
use quorate_command::print::amount;
use quorate_order::Feature;
use serde::Serialize;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// Sizes of a request and of its reply, as the paper writes them: 0/1024.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
struct Payload {
    request_bytes: usize,
    reply_bytes: usize,
}

const fn payload(request_bytes: usize, reply_bytes: usize) -> Payload {
    Payload { request_bytes, reply_bytes }
}

impl FromStr for Payload {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        let part = |word: &str| word.trim().parse().ok().filter(|bytes| *bytes <= BYTES_MAX);
        let parts = word.split_once('/').and_then(|(request, reply)| Some((part(request)?, part(reply)?)));
        let (request_bytes, reply_bytes) =
            parts.ok_or("write the bytes of a request and of its reply, each up to 262144, as in 0/1024")?;
        Ok(Self { request_bytes, reply_bytes })
    }
}

impl fmt::Display for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.request_bytes, self.reply_bytes)
    }
}

impl Payload {
    const fn load(self, clients: usize) -> Load {
        let Self { request_bytes, reply_bytes } = self;
        Load { clients, request_bytes, reply_bytes, reads_percent: None }
    }

    fn is_of(self, point: &Point) -> bool {
        (self.request_bytes, self.reply_bytes) == (point.request_bytes, point.reply_bytes)
    }
}

/// The option for sizes.
#[derive(Debug, clap::Args)]
struct PayloadArgs {
    /// For bft-smart-1, -4 and -5: bytes of requests and of replies [default: those of the paper, as far as it names them]
    #[arg(long, value_name = "REQUEST/REPLY,...", value_delimiter = ',')]
    payloads: Vec<Payload>,
}

impl PayloadArgs {
    fn or(&self, usual: &[Payload]) -> Vec<Payload> {
        if self.payloads.is_empty() { usual.to_vec() } else { self.payloads.clone() }
    }
}

/// The options of these figures alone.
#[derive(Debug, clap::Args)]
pub(crate) struct SmartArgs {
    #[command(flatten)]
    sizes: PayloadArgs,
    /// For bft-smart-6: how many of 100 requests only read
    #[arg(long, value_name = "PERCENTS", value_delimiter = ',', default_values_t = [0, 25, 50, 75, 95, 100], value_parser = clap::value_parser!(u32).range(..=100))]
    reads: Vec<u32>,
    /// For bft-smart-6: bytes of what is written or read
    #[arg(long, value_name = "BYTES", value_delimiter = ',', default_values_t = [100, 1024])]
    record_bytes: Vec<usize>,
    /// For bft-smart-7: how many threads of each replica check signatures; 0: the lanes do
    #[arg(long, value_name = "COUNTS", value_delimiter = ',', default_values_t = [0, 1, 2, 4], value_parser = clap::value_parser!(u16).range(..=64))]
    threads: Vec<u16>,
    /// For bft-smart-8: one replica lies all the time; then there are seven, which survive two faults
    #[arg(long)]
    liar: bool,
}

/// Which table of the paper.
#[derive(Debug, clap::Subcommand)]
pub(in crate::bench) enum Named {
    /// Requests per second by sizes of requests and replies, beside BFT-SMaRt's table 1
    #[command(name = "bft-smart-1")]
    Payloads(NamedArgs),
    /// The most requests per second, and those with 200 clients, beside BFT-SMaRt's table 2
    #[command(name = "bft-smart-2")]
    Peaks(NamedArgs),
}

/// Measure a table of the paper, and draw it.
///
/// Writes OUT/NAME.html, which any browser shows and which loads nothing, and OUT/NAME.json with all numbers.
#[derive(Debug, clap::Args)]
pub(in crate::bench) struct NamedArgs {
    /// Where to write it
    #[arg(long, value_name = "DIR", default_value = "figures")]
    out: PathBuf,
    /// When a write counts as durable
    #[arg(long, value_enum, default_value_t = DurabilityChoice::Group)]
    durability: DurabilityChoice,
    /// Adds this many microseconds to every sync, also the null program's
    #[arg(long, value_name = "US", default_value_t = 0)]
    sync_delay_us: u64,
    /// Where the clusters and the null program keep their data: on the disk that is to be measured
    #[arg(long, value_name = "DIR", default_value = ".quorate/bench")]
    scratch: PathBuf,
    /// How long to measure each load, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 5.0)]
    secs: f64,
    /// How long to run before measuring, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0)]
    warm: f64,
    /// How often to measure each cluster, in turns
    #[arg(long, value_name = "COUNT", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=8))]
    rounds: u32,
    /// Without certificates and encryption
    #[arg(long)]
    plain: bool,
    /// Do not run the null program
    #[arg(long)]
    no_floor: bool,
    #[command(flatten)]
    closed: ClosedArgs,
    #[command(flatten)]
    sizes: PayloadArgs,
}

impl NamedArgs {
    fn how(&self) -> How {
        let base = Measurement {
            cluster: ClusterArgs::default(),
            order: OrderArgs::default(),
            replicas: None,
            durability: Some(self.durability),
            plain: self.plain,
            instances: 1,
            lanes: 1,
            pillars: None,
            placement: None,
            sync_delay_us: self.sync_delay_us,
            scratch: self.scratch.clone(),
            secs: self.secs,
            warm: self.warm,
            repeat: 1,
            no_floor: self.no_floor,
        };
        How { base, shared: self.closed.shared, rounds: self.rounds }
    }
}

/// Measures a table, and writes it.
pub(in crate::bench) fn run(named: &Named, output: &Output) -> Outcome {
    let (Named::Payloads(args) | Named::Peaks(args)) = named;
    args.closed.check()?;
    args.how().base.check()?;
    super::make(&args.out)?;
    let (name, drawn) = match named {
        Named::Payloads(args) => (payloads::NAME, payloads::draw(args)?),
        Named::Peaks(args) => (peaks::NAME, peaks::draw(args)?),
    };
    super::written(name, &drawn, &args.out, output)
}

/// Replicas of which so many may lie, as the paper's BFT.
fn byzantine(faults: u32) -> Kind {
    Kind::byzantine(faults)
}

const CRASH: &str = "crash";

/// Replicas of which so many may stop, by the same protocol, as the paper's CFT.
fn crash(faults: u32) -> Kind {
    Kind::crash(faults, Feature::SurviveLies.protocol()).named(CRASH)
}

/// What the paper says, and what came out here.
#[derive(Debug, Serialize)]
struct Shape {
    paper: String,
    here: String,
    /// Whether it goes the same way, whatever the size; null where rounds disagree, or where there is nothing to compare.
    same_way: Option<bool>,
}

impl Shape {
    fn text(&self) -> String {
        let verdict = match self.same_way {
            Some(true) => "the same way",
            Some(false) => "the OTHER way",
            None => "no verdict",
        };
        format!("the paper: {}; here: {}: {verdict}", self.paper, self.here)
    }
}

/// Whether all rounds are above this number; `None` if some are and some are not.
fn above(value: &Median, number: f64) -> Option<bool> {
    less(number, value.low, number, value.high)
}

/// Whether all rounds of the first are below all of the second.
fn below(first: &Median, second: &Median) -> Option<bool> {
    less(first.high, second.low, first.low, second.high)
}

fn less(high: f64, above: f64, low: f64, under: f64) -> Option<bool> {
    if high < above { Some(true) } else { (low > under).then_some(false) }
}

/// One verdict of several: false if one is, true if all are.
fn all_of(verdicts: impl Iterator<Item = Option<bool>>) -> Option<bool> {
    let mut all = Some(true);
    for verdict in verdicts {
        match verdict {
            Some(false) => return Some(false),
            None => all = None,
            Some(true) => {}
        }
    }
    all
}

/// Crash beside Byzantine under the same load.
#[derive(Debug, Serialize)]
struct Beside {
    faults: u32,
    clients: usize,
    request_bytes: usize,
    reply_bytes: usize,
    reads_percent: Option<u32>,
    /// Requests per second of replicas that may stop, divided by those of replicas that may lie, round by round.
    times: Median,
    /// The same for requests for each second of processor time of all replicas; null: one of them used too little to say.
    times_by_cpu: Option<Median>,
}

/// Each cluster whose replicas may stop beside the one that survives as many liars, under each load.
fn beside(measured: &[Rounds], loads: &[Load]) -> Vec<Beside> {
    let lies = |rounds: &&Rounds| rounds.kind.model.may_lie();
    let mut all = Vec::new();
    for crash in measured.iter().filter(|rounds| !lies(rounds)) {
        let faults = crash.kind.faults;
        let Some(byzantine) = measured.iter().filter(lies).find(|rounds| rounds.kind.faults == faults) else {
            continue;
        };
        all.extend(loads.iter().enumerate().filter_map(|(at, load)| {
            let Load { clients, request_bytes, reply_bytes, reads_percent } = *load;
            let times = crash.rate_beside(at, (byzantine, at))?;
            let times_by_cpu = crash.times(byzantine, at);
            Some(Beside { faults, clients, request_bytes, reply_bytes, reads_percent, times, times_by_cpu })
        }));
    }
    all
}

/// The lowest and the highest median of ratios, as words; `None` without any.
fn span<'a>(all: impl Iterator<Item = &'a Beside> + Clone) -> Option<String> {
    let medians = all.map(|beside| beside.times.median);
    let (low, high) = (medians.clone().reduce(f64::min)?, medians.reduce(f64::max)?);
    Some(format!("{low:.2} to {high:.2} times"))
}

/// The medians of what was measured, and whether all of it is valid.
fn curves_of(measured: &[Rounds], loads: &[Load], head: &mut Head) -> Outcome<Vec<Curve>> {
    let curves = measured.iter().map(|rounds| rounds.curve(loads)).collect::<Outcome<Vec<Curve>>>()?;
    head.valid = curves.iter().all(Curve::is_valid);
    Ok(curves)
}

/// What is below every page: the source, what differs from it, what failed, the null program, the machine.
fn facts(head: &Head, more: &[&str], shapes: &[Shape], curves: &[Curve]) -> Vec<String> {
    let mut facts = head.facts();
    facts.push(
        "the paper: \"State Machine Replication for the Masses with BFT-SMaRt\" (Bessani, Sousa, Alchieri; DI-FCUL-TR-2013-07), section 6.2; it has a \
         machine for each of 3 or 4 replicas (8 cores at 2.27 GHz, 16 hardware threads, 32 GB), four more for up to 1,600 clients, Gigabit Ethernet, \
         Java 1.7, and a standard deviation below 3 %. Here one machine has everything, so shares and ratios are compared, and not rates"
            .into(),
    );
    if curves.iter().any(|curve| curve.shown.family == CRASH) {
        facts.push(
            "crash: mod-smart without WRITE, as the paper's crash mode. Where replicas only stop, a cluster usually runs raft here".into(),
        );
    }
    facts.push(
        "connections have TLS, or nothing with --plain; the paper authenticates each message with a code, in both modes".into(),
    );
    facts.extend(more.iter().map(|fact| (*fact).to_owned()));
    facts.extend(shapes.iter().map(Shape::text));
    if !shapes.is_empty() {
        facts.push("the same way, the other way: all rounds agree on it; how much it is may differ. No verdict: rounds disagree, or nothing can be compared".into());
    }
    facts.extend(lines_about(curves.iter()));
    if curves.iter().all(|curve| curve.floors.is_empty()) {
        facts.push(
            "the null program was not run: these rates have nothing beside them that this machine allows"
                .into(),
        );
    }
    facts.extend(head.machine());
    facts
}

/// How it was measured, for the beginning of a page.
fn intro(head: &Head) -> String {
    let Head { payload, load, rounds, seconds, .. } = head;
    format!("{payload}; {load}; {}, {seconds} s each.", shares::rounds(*rounds))
}

/// What is said of requests and replies.
fn words(payloads: &[Payload]) -> String {
    let all: Vec<String> = payloads.iter().map(Payload::to_string).collect();
    format!(
        "requests and replies of {} B (a request that is answered with something has 4 B or more, which say with how much)",
        all.join(", ")
    )
}

/// Each once, in their order.
fn families(curves: &[Curve]) -> Vec<&str> {
    let mut families: Vec<&str> = Vec::new();
    for curve in curves {
        if !families.contains(&curve.shown.family.as_str()) {
            families.push(&curve.shown.family);
        }
    }
    families
}

/// A chart with a line for each family of clusters, from those of its points that `x` gives a place.
fn chart(
    curves: &[Curve],
    (title, x_label): (String, &str),
    x: impl Fn(&Curve, &Point) -> Option<f64>,
) -> Chart {
    let mut x_most: f64 = 0.0;
    let mut lines = Vec::new();
    for (at, family) in families(curves).into_iter().enumerate() {
        let own = curves.iter().filter(|curve| curve.shown.family == family);
        let points = own.flat_map(|curve| curve.points.iter().map(move |point| (curve, point)));
        let placed = points.filter_map(|(curve, point)| Some((x(curve, point)?, Some(point.per_s))));
        let placed: Vec<(f64, Option<Median>)> = placed.collect();
        x_most = placed.iter().map(|(at, _)| *at).fold(x_most, f64::max);
        lines.push(shares::line(family.to_owned(), colour(at), placed.into_iter()));
    }
    Chart {
        title,
        x_label: x_label.into(),
        y_label: "requests per second".into(),
        logarithmic: false,
        // With room for the ranges at the last one.
        x_most: x_most * 1.02,
        lines,
        bars_label: None,
    }
}

/// A table with a row for each point: the cluster, `own`'s cells, and what was measured.
fn table(curves: &[Curve], own: &[&str], cells: impl Fn(&Curve, &Point) -> Vec<String>) -> Table {
    let measured = ["requests/s", "p50 ms", "p99 ms", "per replica CPU s"];
    let head = ["cluster"].iter().chain(own).chain(&measured).map(|name| (*name).to_owned()).collect();
    let families = families(curves);
    let rows = curves.iter().flat_map(|curve| {
        let at = families.iter().position(|family| *family == curve.shown.family).unwrap_or(0);
        let row = |point: &Point| {
            let ms = |median: &Median| format!("{:.2}", median.median);
            let rate = |median: &Median| shares::cell(median, amount);
            let numbers = [
                rate(&point.per_s),
                ms(&point.p50_ms),
                ms(&point.p99_ms),
                point.per_replica_cpu_s.as_ref().map_or("-".into(), rate),
            ];
            let all = [curve.shown.name()].into_iter().chain(cells(curve, point)).chain(numbers).collect();
            (colour(at), all)
        };
        curve.points.iter().map(row).collect::<Vec<_>>()
    });
    Table { head, rows: rows.collect() }
}
