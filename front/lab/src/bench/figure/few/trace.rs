//! The figure `visigoth-6`: throughput over time while one replica crashes, and later another one sleeps and goes on.

use super::{FewArgs, check, head};
use crate::bench::bft::{self, Requests};
use crate::bench::draw::{Chart, Line, Page, Table, colour};
use crate::bench::events::Event;
use crate::bench::figure::closed::{self, Floor, Head, Kind, Load, Shown, drawn, floor_text};
use crate::bench::figure::filling::Recorder;
use crate::bench::figure::marks::Span;
use crate::bench::figure::samples::Bin;
use crate::bench::figure::{Drawn, FigureArgs, shares};
use crate::bench::load::{self, Plan};
use crate::bench::median::{self, Median};
use crate::bench::options::Measurement;
use crate::bench::report::{Check, FloorRun};
use crate::bench::target::Target;
use quorate::client::BlockingClient;
use quorate_command::failure::{Failure, Outcome};
use quorate_command::layout::ServiceChoice;
use quorate_command::print::amount;
use serde::Serialize;
use serde_json::Value;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The paper's times in seconds: the first minute does not count, one replica crashes, another one sleeps two minutes later. When the first
/// one crashes and when the trace ends, the paper does not say in words.
const WARM_S: f64 = 60.0;
const CRASH_S: f64 = 60.0;
const SLEEP_S: f64 = CRASH_S + 120.0;
const ASLEEP_S: f64 = 15.0;
const END_S: f64 = 240.0;
/// The faults that all of these clusters survive.
const FAULTS: u32 = 2;
/// How often a replica is asked whether few of them have gone on.
const ASK: Duration = Duration::from_millis(100);

/// One round of a kind. Times are in seconds of the window.
#[derive(Serialize)]
struct Run {
    crashed: u16,
    crash_s: f64,
    slept: u16,
    sleep_s: f64,
    wake_s: f64,
    /// From when until when the replica that led said that a small quorum was in use; null: it never did.
    small_quorums: Option<Span>,
    /// Requests per second: before the crash; until the sleep; during the sleep, from the first time-out on; and after it.
    per_s_before: Option<f64>,
    per_s_after_crash: Option<f64>,
    per_s_asleep: Option<f64>,
    per_s_after: Option<f64>,
    /// The longest request that was under way in the second after the crash, and while the replica slept, in milliseconds.
    longest_crash_ms: f64,
    longest_asleep_ms: f64,
    errors: u64,
    first_error: Option<String>,
    check: Check,
    bins: Vec<Bin>,
}

/// A kind in all rounds.
#[derive(Serialize)]
struct Trace {
    #[serde(flatten)]
    shown: Shown,
    per_s_before: Option<Median>,
    /// The rates divided by that before the crash, round by round.
    share_after_crash: Option<Median>,
    share_asleep: Option<Median>,
    share_after: Option<Median>,
    longest_crash_ms: Option<Median>,
    longest_asleep_ms: Option<Median>,
    floor: Option<Floor>,
    runs: Vec<Run>,
}

#[derive(Serialize)]
struct Document {
    #[serde(flatten)]
    head: Head,
    /// By how much the paper's times are divided.
    divide: f64,
    traces: Vec<Trace>,
}

/// The clusters that it compares.
pub(super) fn kinds(t_ms: u32) -> Vec<Kind> {
    vec![Kind::byzantine(FAULTS), Kind::visigoth(FAULTS, 1, 1, t_ms), Kind::visigoth(FAULTS, 1, 0, t_ms)]
}

/// Measures and draws.
pub(in crate::bench::figure) fn draw(args: &FigureArgs) -> Outcome<Drawn> {
    check(args)?;
    let load = Load::commands(args.closed.clients_most(), args.few.request_bytes_most());
    let mut head = head(args, "visigoth-6", &load.request_bytes.to_string(), &load.clients.to_string());
    head.seconds = scaled(&args.few, END_S).as_secs_f64();
    // The null program is measured no longer than the trace.
    let (warm, secs) = (scaled(&args.few, WARM_S).as_secs_f64(), args.secs.min(head.seconds));
    let base = Measurement { warm, secs, ..args.measurement() };
    let kinds = kinds(args.few.t_ms);
    let mut runs: Vec<(Vec<Run>, Vec<FloorRun>)> = kinds.iter().map(|_| Default::default()).collect();
    for round in 1..=args.rounds {
        for at in median::order(round, kinds.len()) {
            let (kind, own) = (&kinds[at], kinds[at].measurement(&base));
            if kind.refusal().is_some() {
                continue;
            }
            if !own.no_floor {
                runs[at].1.push(closed::floor(kind, &own, load, args.closed.shared)?);
            }
            let title = format!("{} {round}/{}", kind.shown().name(), args.rounds);
            runs[at].0.push(once(args, &own, load, &title)?);
        }
    }
    let all = kinds.iter().zip(runs);
    let traces: Vec<Trace> = all.map(|(kind, (runs, floors))| trace(kind, load, runs, &floors)).collect();
    let runs = || traces.iter().flat_map(|trace| &trace.runs);
    let agree = traces.iter().filter_map(|trace| trace.floor.as_ref()).all(|floor| floor.replicas_agree);
    head.valid = agree && runs().all(|run| run.errors == 0 && run.check.is_passed());
    let document = Document { head, divide: args.few.divide, traces };
    drawn(&document.head, &page(&document), &document)
}

fn scaled(args: &FewArgs, seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds / args.divide)
}

fn once(all: &FigureArgs, own: &Measurement, load: Load, title: &str) -> Outcome<Run> {
    let args = &all.few;
    let mut target = Target::open(own, ServiceChoice::Echo)?;
    if !all.closed.shared {
        target.have_crowd(load.clients, bft::TIMEOUT)?;
    }
    let (warm, length) = (Duration::from_secs_f64(own.warm), scaled(args, END_S));
    let plan =
        Plan { sessions: load.clients, slots: load.clients, commands_per_call: 1, warm, measure: length };
    let mut work = Requests::new(load.request_bytes, 0);
    let mut recorder = Recorder { length, samples: None };
    let start = Instant::now() + warm;
    target.events.plan(start + scaled(args, CRASH_S), Event::FollowerFalls);
    target.events.plan(start + scaled(args, SLEEP_S), Event::FollowerSleeps(scaled(args, ASLEEP_S)));
    let watch = Watch::start(&target.client);
    let measured = load::run_observed(&mut target, &plan, &mut work, title, &mut recorder)?;
    let small = watch.finish();
    let check = match measured.errors {
        0 => bft::verify(&target, work.answered)?,
        _ => Check::not_done("some requests failed"),
    };
    let since = |at: Instant| at.saturating_duration_since(measured.began).as_secs_f64();
    let of = |which: fn(Event) -> bool| {
        let (at, replica) = target.events.happened(which).ok_or_else(|| {
            Failure::new("a replica was to crash and another to sleep, but no leader was known: try again")
        })?;
        Ok::<_, Failure>((since(at), replica.number()))
    };
    let (crash_s, crashed) = of(|event| event == Event::FollowerFalls)?;
    let (sleep_s, slept) = of(|event| matches!(event, Event::FollowerSleeps(_)))?;
    let (wake_s, _) = of(|event| event == Event::Wakes)?;
    let samples = recorder.samples.ok_or_else(|| Failure::new("nothing was measured"))?;
    // Two rounds of messages, and a question to the oracle.
    let first_s = (2.0 * f64::from(args.t_ms) + 20.0) / 1000.0;
    let rate = |from_s: f64, to_s: f64| samples.rates_apart(&[Span { from_s, to_s }]).0;
    let longest = |from_s: f64, to_s: f64| samples.apart(&[Span { from_s, to_s }]).0.max;
    Ok(Run {
        crashed,
        crash_s,
        slept,
        sleep_s,
        wake_s,
        small_quorums: small.map(|(from, to)| Span { from_s: since(from), to_s: since(to) }),
        per_s_before: rate(0.0, crash_s),
        per_s_after_crash: rate(crash_s, sleep_s),
        per_s_asleep: rate((sleep_s + first_s).min(wake_s), wake_s),
        per_s_after: rate(wake_s, length.as_secs_f64()),
        longest_crash_ms: longest(crash_s, (crash_s + 1.0).min(sleep_s)),
        longest_asleep_ms: longest(sleep_s, wake_s),
        errors: measured.errors,
        first_error: measured.first_error,
        check,
        bins: samples.bins(),
    })
}

/// Asks the replica that leads whether a small quorum is in use.
struct Watch {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Option<(Instant, Instant)>>,
}

impl Watch {
    fn start(client: &BlockingClient) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (client, stopped) = (client.clone(), stop.clone());
        Self { stop, thread: std::thread::spawn(move || follow(&client, &stopped)) }
    }

    /// When the first and the last answer was yes.
    fn finish(self) -> Option<(Instant, Instant)> {
        self.stop.store(true, Ordering::Release);
        self.thread.join().unwrap_or_default()
    }
}

fn follow(client: &BlockingClient, stop: &AtomicBool) -> Option<(Instant, Instant)> {
    let mut seen: Option<(Instant, Instant)> = None;
    while !stop.load(Ordering::Acquire) {
        let asked = Instant::now();
        let status = client.client().leader().and_then(|leader| client.status(leader).ok());
        if status.is_some_and(|status| uses_small_quorums(&status)) {
            seen = Some((seen.map_or(asked, |(first, _)| first), asked));
        }
        std::thread::sleep(ASK.saturating_sub(asked.elapsed()));
    }
    seen
}

/// Whether a replica says in its status that a small quorum is in use in an instance.
pub(super) fn uses_small_quorums(status: &str) -> bool {
    let status: Value = serde_json::from_str(status).unwrap_or_default();
    let each = status["instances"]["each"].as_array().map(Vec::as_slice).unwrap_or_default();
    each.iter().any(|instance| !instance["small_quorums"].is_null())
}

/// The medians of all rounds.
fn trace(kind: &Kind, load: Load, runs: Vec<Run>, floors: &[FloorRun]) -> Trace {
    let all = |value: fn(&Run) -> Option<f64>| Median::of(runs.iter().filter_map(value).collect());
    let share = |value: fn(&Run) -> Option<f64>| {
        let each = runs.iter().filter_map(|run| Some(value(run)? / run.per_s_before?.max(1.0)));
        Median::of(each.collect())
    };
    Trace {
        shown: kind.shown(),
        per_s_before: all(|run| run.per_s_before),
        share_after_crash: share(|run| run.per_s_after_crash),
        share_asleep: share(|run| run.per_s_asleep),
        share_after: share(|run| run.per_s_after),
        longest_crash_ms: all(|run| Some(run.longest_crash_ms)),
        longest_asleep_ms: all(|run| Some(run.longest_asleep_ms)),
        floor: closed::null(&floors.iter().collect::<Vec<_>>(), load),
        runs,
    }
}

fn page(document: &Document) -> Page {
    let head = &document.head;
    let line = |(at, trace): (usize, &Trace)| {
        let first = trace.runs.first();
        Line {
            name: trace.shown.legend(),
            colour: colour(at),
            points: first
                .map_or(Vec::new(), |run| run.bins.iter().map(|bin| (bin.at_s, Some(bin.per_s))).collect()),
            bars: first.map_or(Vec::new(), |run| vec![(run.crash_s, run.crash_s), (run.sleep_s, run.wake_s)]),
            ranges: Vec::new(),
        }
    };
    Page {
        title: "Throughput while one replica crashes, and another one sleeps".into(),
        intro: format!(
            "{}; {}; {}. The curves are those of the first round, in points of 0.1 s. Bars below them: the crash of a follower, and the time \
             in which another follower sleeps ({:.2} s).",
            head.payload,
            head.load,
            shares::rounds(head.rounds),
            ASLEEP_S / document.divide
        ),
        charts: vec![Chart {
            title: "Requests answered".into(),
            x_label: "seconds".into(),
            y_label: "per second".into(),
            logarithmic: false,
            x_most: head.seconds,
            lines: document.traces.iter().enumerate().map(line).collect(),
            bars_label: Some("crash, sleep".into()),
        }],
        table: table(document),
        facts: facts(document),
        ..Page::default()
    }
}

fn table(document: &Document) -> Table {
    let head = [
        "cluster",
        "replicas",
        "requests/s before",
        "after the crash",
        "asleep",
        "after the sleep",
        "longest ms, crash",
        "longest ms, asleep",
    ];
    let row = |(at, trace): (usize, &Trace)| {
        let shown = &trace.shown;
        let some = |value: Option<Median>, show: fn(f64) -> String| {
            value.map_or("-".to_owned(), |value| shares::cell(&value, show))
        };
        let percent = |share: f64| format!("{:.0} %", share * 100.0);
        let ms = |ms: f64| format!("{ms:.1}");
        let before = match shown.refused {
            Some(_) => "refused".into(),
            None => some(trace.per_s_before, amount),
        };
        let cells = vec![
            shown.fault_model.clone() + ", " + shown.protocol,
            shown.replicas.to_string(),
            before,
            some(trace.share_after_crash, percent),
            some(trace.share_asleep, percent),
            some(trace.share_after, percent),
            some(trace.longest_crash_ms, ms),
            some(trace.longest_asleep_ms, ms),
        ];
        (colour(at), cells)
    };
    Table {
        head: head.map(str::to_owned).to_vec(),
        rows: document.traces.iter().enumerate().map(row).collect(),
    }
}

fn facts(document: &Document) -> Vec<String> {
    let mut facts = document.head.facts();
    let (divide, t_ms) = (document.divide, document.head.t_ms.unwrap_or_default());
    facts.push(format!(
        "times are those of the paper divided by {divide}: a follower crashes, {:.1} s later another one sleeps for {:.2} s; shares are of \
         the rate before the crash; asleep: from {} ms after the sleep began",
        (SLEEP_S - CRASH_S) / divide,
        ASLEEP_S / divide,
        2 * t_ms + 20
    ));
    facts.push(
        "the paper, byzantine with 7, visigoth with 5, s=1, o=1: nobody notices the crash; in the sleep byzantine goes on, and visigoth drops \
         sharply, to above zero; with the oracle as without it. Here there is always an oracle, and goals are 50 % of the rate while one \
         sleeps, and no request that waits longer than 2T + 20 ms for the first grant"
            .into(),
    );
    for trace in &document.traces {
        let name = trace.shown.name();
        facts.extend(trace.shown.refused.as_ref().map(|why| format!("{name}: {why}")));
        facts.extend(trace.runs.iter().enumerate().map(|(at, run)| happened(&name, at + 1, run)));
        facts.extend(trace.floor.as_ref().map(floor_text));
    }
    facts.extend(document.head.machine());
    facts
}

/// One round, for readers.
fn happened(name: &str, round: usize, run: &Run) -> String {
    let small = run.small_quorums.map_or("no small quorum was seen".to_owned(), |span| {
        format!("small quorums were in use from {:.1} to {:.1} s", span.from_s, span.to_s)
    });
    let Run { crashed, crash_s, slept, sleep_s, wake_s, .. } = run;
    let valid = if run.errors == 0 && run.check.is_passed() {
        run.check.text().to_owned()
    } else {
        let first = run.first_error.as_deref().unwrap_or("none");
        format!("NOT VALID: {} requests failed (the first: {first}); {}", run.errors, run.check.text())
    };
    format!(
        "{name}, round {round}: r{crashed} crashed at {crash_s:.1} s, r{slept} slept from {sleep_s:.1} to {wake_s:.1} s; {small}; {valid}"
    )
}
