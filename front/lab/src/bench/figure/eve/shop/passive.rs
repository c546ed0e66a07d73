//! The figures `eve-10` and `eve-11`: latency and bandwidth against throughput of a pair, beside a server that is not replicated, and beside a primary that ships
//! its state to a passive backup.

use super::super::plain::{Called, Server, Shipping, Ships, call, kept};
use super::super::way::Way;
use super::speedup::pair;
use super::{ShopArgs, Shopping, open, verify};
use crate::bench::draw::{Chart, Line, Page, Table, colour};
use crate::bench::figure::{Drawn, FigureArgs, shares};
use crate::bench::load::{self, Plan};
use crate::bench::median::{self, Median};
use crate::bench::report::{self, Check, Durability};
use crate::bench::target::Target;
use hdrhistogram::Histogram;
use quorate_command::arguments::seconds;
use quorate_command::failure::{Doing as _, Outcome};
use quorate_command::layout::ServiceChoice;
use quorate_command::machine::Machine;
use quorate_command::print::amount;
use serde::Serialize;
use serde_json::Value;
use std::time::Duration;

/// After which figure of the paper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super::super) enum What {
    /// Figure 3.10.
    Latency,
    /// Figure 3.11.
    Bandwidth,
}

impl What {
    const fn name(self) -> &'static str {
        match self {
            Self::Latency => "eve-10",
            Self::Bandwidth => "eve-11",
        }
    }

    const fn title(self) -> &'static str {
        match self {
            Self::Latency => "Latency of a pair and of a primary that ships its state",
            Self::Bandwidth => "Bandwidth of a pair and of a primary that ships its state",
        }
    }
}

/// What runs the shop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Kind {
    Pair,
    /// A server without replication.
    Alone,
    /// A primary that ships all pages that changed, as Remus does.
    Pages,
    /// One that ships only pages with rows.
    RowPages,
    /// One that ships rows.
    Writes,
}

impl Kind {
    const ALL: [Self; 5] = [Self::Pair, Self::Alone, Self::Pages, Self::RowPages, Self::Writes];

    const fn name(self) -> &'static str {
        match self {
            Self::Pair => "pair",
            Self::Alone => "not replicated",
            Self::Pages => "passive, pages",
            Self::RowPages => "passive, pages of rows",
            Self::Writes => "passive, rows written",
        }
    }

    const fn ships(self) -> Ships {
        match self {
            Self::Pair | Self::Alone => Ships::Nothing,
            Self::Pages => Ships::Pages,
            Self::RowPages => Ships::RowPages,
            Self::Writes => Ships::Writes,
        }
    }
}

/// One number of callers, in one round.
struct Run {
    per_s: f64,
    mean_ms: f64,
    p50_ms: f64,
    p99_ms: f64,
    /// Bytes between the two, for each transaction.
    bytes: f64,
}

impl Run {
    fn of(per_s: f64, latency: &Histogram<u64>, bytes: f64) -> Self {
        let at = |quantile: f64| latency.value_at_quantile(quantile) as f64 / 1e6;
        Self { per_s, mean_ms: latency.mean() / 1e6, p50_ms: at(0.5), p99_ms: at(0.99), bytes }
    }

    fn mbit(&self) -> f64 {
        self.per_s * self.bytes * 8.0 / 1e6
    }
}

/// All numbers of callers, in one round.
struct Round {
    runs: Vec<Run>,
    errors: u64,
    check: Check,
}

impl Round {
    /// The run with the most transactions.
    fn most(&self) -> Option<&Run> {
        self.runs.iter().max_by(|one, other| one.per_s.total_cmp(&other.per_s))
    }
}

/// A number of callers in all rounds.
#[derive(Serialize)]
struct Point {
    callers: usize,
    per_s: Median,
    mean_ms: Median,
    p50_ms: Median,
    p99_ms: Median,
    bytes_per_transaction: Median,
    mbit_per_s: Median,
}

#[derive(Serialize)]
struct Curve {
    kind: Kind,
    /// The most transactions per second of a round, with any number of callers.
    most_per_s: Median,
    /// The pair's most divided by this one's, round by round; and this one's bytes for each transaction divided by the pair's.
    pair_times: Option<Median>,
    bytes_beside_pair: Option<Median>,
    /// How many transactions per second would fill the link; null where nothing is sent.
    link_full_per_s: Option<Median>,
    points: Vec<Point>,
}

#[derive(Serialize)]
struct Document {
    figure: &'static str,
    version: &'static str,
    #[serde(flatten)]
    durability: Durability,
    tls: bool,
    load: String,
    executor: &'static str,
    workers: u16,
    backup_mbit: u32,
    ship_ms: u32,
    rounds: u32,
    seconds: f64,
    valid: bool,
    trouble: Vec<String>,
    curves: Vec<Curve>,
    machine: Machine,
}

/// Measures and draws.
pub(in super::super::super) fn draw(args: &FigureArgs, what: What) -> Outcome<Drawn> {
    args.eve.check()?;
    let workers = args.eve.workers.iter().copied().max().unwrap_or(1);
    let way = args.eve.way(workers);
    let mut rounds: Vec<Vec<Round>> = Kind::ALL.iter().map(|_| Vec::new()).collect();
    for round in 1..=args.rounds {
        for at in median::order(round, Kind::ALL.len()) {
            let kind = Kind::ALL[at];
            let measured = match kind {
                Kind::Pair => replicated(args, way, &format!("pair {round}/{}", args.rounds))?,
                _ => plain(args, kind, workers)?,
            };
            rounds[at].push(measured);
        }
    }
    let wrong = |(kind, rounds): (&Kind, &Vec<Round>)| {
        let round = rounds.iter().find(|round| round.errors > 0 || !round.check.is_passed())?;
        let (name, text) = (kind.name(), round.check.text());
        Some(format!("NOT VALID, {name}: {} calls failed; {text}", round.errors))
    };
    let trouble: Vec<String> = Kind::ALL.iter().zip(&rounds).filter_map(wrong).collect();
    let each = Kind::ALL.iter().zip(&rounds);
    let curves = each.filter_map(|(kind, own)| curve(*kind, own, &rounds[0], &args.eve.shop));
    let document = Document {
        figure: what.name(),
        version: env!("CARGO_PKG_VERSION"),
        durability: Durability::planned(&args.measurement()),
        tls: !args.measurement().plain,
        load: args.eve.shop.load(),
        executor: way.executor(),
        workers,
        backup_mbit: args.eve.shop.backup_mbit,
        ship_ms: args.eve.shop.ship_ms,
        rounds: args.rounds,
        seconds: args.secs,
        valid: trouble.is_empty(),
        trouble,
        curves: curves.collect(),
        machine: Machine::ask(&args.scratch),
    };
    Drawn::of((document.figure, document.valid), &page(&document, what), &document)
}

/// Bytes that members sent to each other so far, by what all replicas say of their lanes.
fn between(target: &Target) -> Outcome<u64> {
    let mut sum = 0;
    for replica in &target.replicas {
        let text = target.client.status(*replica).doing("ask a replica for its status")?;
        let status: Value = serde_json::from_str(&text).doing("read a replica's status")?;
        let lanes = status["lanes"].as_array().map(Vec::as_slice).unwrap_or_default();
        sum += lanes.iter().filter_map(|lane| lane["member_bytes"].as_u64()).sum::<u64>();
    }
    Ok(sum)
}

/// One round of the pair: every number of callers, one after the other.
fn replicated(args: &FigureArgs, way: Way, title: &str) -> Outcome<Round> {
    let own = pair(args)?;
    let mut target = Target::configured(&own, ServiceChoice::Shop, way.settings(true))?;
    let shop = &args.eve.shop;
    open(&mut target, shop.size())?;
    let most = shop.shoppers.iter().copied().max().unwrap_or(1);
    let mut shopping = Shopping::new(shop.size(), most, shop.transaction_us);
    let mut round = Round { runs: Vec::new(), errors: 0, check: Check::not_done("some calls failed") };
    for callers in &shop.shoppers {
        let plan = Plan {
            sessions: *callers,
            slots: *callers,
            commands_per_call: 1,
            warm: Duration::from_secs_f64(own.warm),
            measure: seconds("--secs", own.secs)?,
        };
        let (bytes, answered) = (between(&target)?, shopping.answered);
        let measured = load::run(&mut target, &plan, &mut shopping, &format!("{title}, {callers} callers"))?;
        let answered = (shopping.answered - answered).max(1) as f64;
        let bytes = (between(&target)? - bytes) as f64 / answered;
        round.errors += measured.errors;
        let per_s = measured.commands as f64 / measured.seconds;
        round.runs.push(Run::of(per_s, &measured.latency, bytes));
    }
    if round.errors == 0 {
        round.check = verify(&target, &shopping.sold)?;
    }
    Ok(round)
}

/// One round of a server without agreement.
fn plain(args: &FigureArgs, kind: Kind, workers: u16) -> Outcome<Round> {
    let shop = &args.eve.shop;
    let every = Duration::from_millis(shop.ship_ms.into());
    let shipping = Shipping { ships: kind.ships(), mbit: shop.backup_mbit, every };
    let server = Server::start(shop.size(), workers, shipping)?;
    let most = shop.shoppers.iter().copied().max().unwrap_or(1);
    let mut shopping = Shopping::new(shop.size(), most, shop.transaction_us);
    let window = (Duration::from_secs_f64(args.warm), seconds("--secs", args.secs)?);
    let mut runs = Vec::new();
    for callers in &shop.shoppers {
        let mut shipped = Vec::new();
        let mut look = || shipped.push(server.shipped());
        let Called { per_s, latency } = call(server.address, *callers, window, &mut shopping, &mut look)?;
        let in_window = shipped.last().unwrap_or(&0) - shipped.first().unwrap_or(&0);
        let count = (per_s * window.1.as_secs_f64()).max(1.0);
        runs.push(Run::of(per_s, &latency, in_window as f64 / count));
    }
    Ok(Round { runs, errors: 0, check: kept(server, &shopping.sold)? })
}

/// The medians of a kind, whose rounds are compared with those of the pair.
fn curve(kind: Kind, own: &[Round], pair: &[Round], shop: &ShopArgs) -> Option<Curve> {
    let callers = &shop.shoppers;
    let point = |(at, callers): (usize, &usize)| {
        let all = |value: fn(&Run) -> f64| {
            Median::of(own.iter().filter_map(|round| round.runs.get(at)).map(value).collect())
        };
        Some(Point {
            callers: *callers,
            per_s: all(|run| run.per_s)?,
            mean_ms: all(|run| run.mean_ms)?,
            p50_ms: all(|run| run.p50_ms)?,
            p99_ms: all(|run| run.p99_ms)?,
            bytes_per_transaction: all(|run| run.bytes)?,
            mbit_per_s: all(Run::mbit)?,
        })
    };
    let beside = |quotient: fn(&Run, &Run) -> f64| {
        let each = own.iter().zip(pair).filter_map(|(own, pair)| Some(quotient(own.most()?, pair.most()?)));
        Median::of(each.filter(|quotient| quotient.is_finite()).collect())
    };
    let full = own.iter().filter_map(Round::most).filter(|run| run.bytes > 0.0);
    let full = full.map(|run| f64::from(shop.backup_mbit) * 1e6 / 8.0 / run.bytes);
    Some(Curve {
        kind,
        most_per_s: Median::of(own.iter().filter_map(Round::most).map(|run| run.per_s).collect())?,
        pair_times: beside(|own, pair| pair.per_s / own.per_s),
        bytes_beside_pair: beside(|own, pair| own.bytes / pair.bytes),
        link_full_per_s: Median::of(full.collect()),
        points: callers.iter().enumerate().filter_map(point).collect(),
    })
}

fn page(document: &Document, what: What) -> Page {
    let latency = chart(document, "Mean latency", "milliseconds (logarithmic)", |point| &point.mean_ms);
    let bandwidth =
        chart(document, "Bandwidth between the two", "Mbit/s (logarithmic)", |point| &point.mbit_per_s);
    let charts = match what {
        What::Latency => vec![latency, bandwidth],
        What::Bandwidth => vec![bandwidth, latency],
    };
    Page {
        title: what.title().into(),
        intro: format!(
            "{}; {} threads run transactions at each server; {}, {} s for each number of callers. Each point is a number of callers, with one transaction \
             outstanding each.",
            document.load,
            document.workers,
            shares::rounds(document.rounds),
            document.seconds
        ),
        charts,
        table: table(document),
        facts: facts(document),
        ..Page::default()
    }
}

fn chart(document: &Document, title: &str, y_label: &str, y: fn(&Point) -> &Median) -> Chart {
    // Nothing is shipped where there is no second server: a logarithm has no place for it.
    let shown = |point: &Point| Some(y(point).median).filter(|value| *value > 0.0);
    let line = |(at, curve): (usize, &Curve)| Line {
        name: curve.kind.name().into(),
        colour: colour(at),
        points: curve.points.iter().map(|point| (point.per_s.median, shown(point))).collect(),
        bars: Vec::new(),
        ranges: Vec::new(),
    };
    let rates = document.curves.iter().flat_map(|curve| &curve.points).map(|point| point.per_s.median);
    Chart {
        title: format!("{title} against throughput"),
        x_label: "transactions per second".into(),
        y_label: y_label.into(),
        logarithmic: true,
        x_most: rates.fold(0.0, f64::max),
        lines: document.curves.iter().enumerate().map(line).collect(),
        bars_label: None,
    }
}

fn table(document: &Document) -> Table {
    let head = [
        "what runs it",
        "callers",
        "transactions/s",
        "mean ms",
        "p50 ms",
        "p99 ms",
        "bytes per transaction",
        "Mbit/s",
    ];
    let rows = document.curves.iter().enumerate().flat_map(|(at, curve)| {
        curve.points.iter().map(move |point| {
            let ms = |ms: &Median| shares::cell(ms, |ms| format!("{ms:.2}"));
            let cells = vec![
                curve.kind.name().to_owned(),
                point.callers.to_string(),
                shares::cell(&point.per_s, amount),
                ms(&point.mean_ms),
                ms(&point.p50_ms),
                ms(&point.p99_ms),
                shares::cell(&point.bytes_per_transaction, |bytes| format!("{bytes:.0}")),
                shares::cell(&point.mbit_per_s, |mbit| format!("{mbit:.2}")),
            ];
            (colour(at), cells)
        })
    });
    Table { head: head.map(str::to_owned).to_vec(), rows: rows.collect() }
}

fn facts(document: &Document) -> Vec<String> {
    let mut facts = document.trouble.clone();
    let tls = if document.tls { "TLS" } else { "without TLS" };
    facts.push(format!(
        "the pair: two replicas of which one may stop, {}, results verified, durability {}, {tls}; an {}; quorate {}",
        document.executor,
        document.durability,
        report::oracle(),
        document.version
    ));
    for curve in &document.curves {
        let cell = |value: &Option<Median>, show: fn(f64) -> String| {
            value.as_ref().map_or("-".to_owned(), |value| shares::cell(value, show))
        };
        let times = |times: f64| if times < 10.0 { format!("{times:.2}") } else { format!("{times:.0}") };
        let mut fact = format!(
            "{}: at most {} transactions/s; the pair has {} times as many",
            curve.kind.name(),
            shares::cell(&curve.most_per_s, amount),
            cell(&curve.pair_times, times),
        );
        if curve.link_full_per_s.is_some() {
            let (bytes, full) = (cell(&curve.bytes_beside_pair, times), cell(&curve.link_full_per_s, amount));
            let mbit = document.backup_mbit;
            fact += &format!(
                "; for each {bytes} times the bytes of the pair, and a link of {mbit} Mbit/s is full at {full} transactions/s"
            );
        }
        facts.push(fact);
    }
    facts.push(
        "the paper, H2 on Xen, 1 Gbit/s: Eve has 1225 requests per second at most, Remus 235, which is 5.2 times (the text says 4.7 times), and a server that is not \
         replicated 1470; Remus ships two orders of magnitude more, about half a megabyte for each request. Goals: 4.7 times the passive rate with a twentieth of the bytes"
            .into(),
    );
    facts.push(format!(
        "passive: a program of the benchmark, as the one that is not replicated, with threads and locks of tables in this process and sockets on loopback, without TLS; \
         replies wait until the backup has the state behind them; the link has {} Mbit/s. Pages: every {} ms, or once the last ones are there, all pages of 4 KiB that \
         changed, of rows and of the temporary memory of transactions (each row that was read and each message, in 4 MiB for each thread); pages of rows: \
         without temporary memory; rows written: without waiting. Unlike Remus, none of them ships stacks, code or the system",
        document.backup_mbit, document.ship_ms
    ));
    facts.push(
        "bytes: those that members of the pair send to each other, with heartbeats, tokens and what TLS adds, in all of a run; of a primary, what it ships in the measured time. \
         Bytes of callers are not counted"
            .into(),
    );
    facts.push("transactions sleep, so threads need no cores of their own".into());
    facts.extend(report::machine_lines(&document.machine).lines().map(|line| line.trim().to_owned()));
    facts
}
