//! The figure `eve-8`: throughput over time of a pair, while the replica that leads is killed and starts again, twice.
//!
//! After figure 3.8 of Kapritsos' dissertation (section 3.5.3). There the one that is left waits for four seconds before it takes the other
//! one for stopped, and goes on faster than both, since it waits for nobody.

use super::super::filling::Recorder;
use super::super::marks::Span;
use super::super::samples::{Bin, Samples};
use super::super::{Drawn, FigureArgs, refuse, shares};
use super::way::{Errors, Long};
use crate::bench::bft;
use crate::bench::draw::{Chart, Line, Page, Table, colour};
use crate::bench::events::Event;
use crate::bench::load::{self, Plan};
use crate::bench::median::Median;
use crate::bench::options::Measurement;
use crate::bench::report::{self, Check, Durability};
use crate::bench::target::Target;
use quorate_command::failure::{Failure, Outcome};
use quorate_command::layout::{DurabilityChoice, ServiceChoice};
use quorate_command::machine::Machine;
use quorate_command::ordering::OrderArgs;
use quorate_command::print::amount;
use quorate_kv::WorkCommand;
use quorate_order::Feature;
use quorate_types::{FaultModel, Visigoth};
use serde::Serialize;
use std::time::{Duration, Instant};

/// The paper's times in seconds: a replica is killed, starts again, the other one is killed, and starts again. When the trace ends, the
/// paper does not say in words.
const KILLS_S: [f64; 2] = [30.0, 90.0];
const AWAY_S: f64 = 30.0;
const END_S: f64 = 150.0;
const WARM_S: f64 = 10.0;
/// How long a replica may take at the end to execute everything from its last checkpoint on.
const CATCH_UP: Duration = Duration::from_secs(120);
/// Workers of each replica.
const WORKERS: u16 = 16;

/// What happened around one kill. Times are in seconds of the window.
#[derive(Serialize)]
struct Kill {
    replica: u16,
    killed_s: f64,
    back_s: f64,
    /// The longest call that was under way in the second after the kill: nobody answered for about so long.
    longest_ms: f64,
    /// Calls per second beside those before the first kill: of the one that is left, from a second after the kill; and of the worst second
    /// after the return.
    share_alone: Option<f64>,
    share_return: Option<f64>,
}

/// One round.
#[derive(Serialize)]
struct Run {
    per_s_before: f64,
    kills: Vec<Kill>,
    errors: u64,
    first_error: Option<String>,
    check: Check,
    bins: Vec<Bin>,
}

#[derive(Serialize)]
struct Document {
    figure: &'static str,
    version: &'static str,
    #[serde(flatten)]
    durability: Durability,
    t_ms: u32,
    verified: bool,
    command_us: u32,
    workers: u16,
    callers: usize,
    /// By how much the paper's times are divided.
    divide: f64,
    rounds: u32,
    seconds: f64,
    valid: bool,
    per_s_before: Option<Median>,
    longest_ms: Option<Median>,
    share_alone: Option<Median>,
    share_return: Option<Median>,
    runs: Vec<Run>,
    machine: Machine,
}

/// Measures and draws.
pub(in super::super) fn draw(args: &FigureArgs) -> Outcome<Drawn> {
    args.eve.check()?;
    let (t_ms, divide) = args.few.pair()?;
    if args.durability == DurabilityChoice::Memory {
        return refuse(
            "with --durability memory a replica that was killed does not come back: say group or async",
        );
    }
    let model = FaultModel::Visigoth(Visigoth { t_ms, ..Visigoth::PAIR });
    let order = OrderArgs::surviving_by(model, Feature::CountOnFast.protocol());
    let measurement = Measurement { order, replicas: Some(2), warm: WARM_S / divide, ..args.measurement() };
    let command_us = args.eve.command_us.get(1).or(args.eve.command_us.first()).copied().unwrap_or(1000);
    // So few that whoever comes back executes much faster what it missed than there is new to do.
    let callers = usize::from(WORKERS);
    let each = 1..=args.rounds;
    let runs: Vec<Run> = each
        .map(|round| once(args, &measurement, (command_us, callers), &format!("{round}/{}", args.rounds)))
        .collect::<Outcome<_>>()?;
    let kills = |value: fn(&Kill) -> Option<f64>| {
        Median::of(runs.iter().flat_map(|run| &run.kills).filter_map(value).collect())
    };
    let document = Document {
        figure: "eve-8",
        version: env!("CARGO_PKG_VERSION"),
        durability: Durability::planned(&measurement),
        t_ms,
        verified: args.eve.verified,
        command_us,
        workers: WORKERS,
        callers,
        divide,
        rounds: args.rounds,
        seconds: END_S / divide,
        valid: runs.iter().all(|run| run.errors == 0 && run.check.is_passed()),
        per_s_before: Median::of(runs.iter().map(|run| run.per_s_before).collect()),
        longest_ms: kills(|kill| Some(kill.longest_ms)),
        share_alone: kills(|kill| kill.share_alone),
        share_return: kills(|kill| kill.share_return),
        runs,
        machine: Machine::ask(&measurement.scratch),
    };
    Drawn::of((document.figure, document.valid), &page(&document), &document)
}

fn once(
    args: &FigureArgs,
    own: &Measurement,
    (sleep_us, callers): (u32, usize),
    round: &str,
) -> Outcome<Run> {
    let (_, divide) = args.few.pair()?;
    let scaled = |seconds: f64| Duration::from_secs_f64(seconds / divide);
    let settings = args.eve.way(WORKERS).settings(args.eve.verified);
    let mut target = Target::configured(own, ServiceChoice::Work, settings)?;
    let plan = Plan {
        sessions: callers,
        slots: callers,
        commands_per_call: 1,
        warm: scaled(WARM_S),
        measure: scaled(END_S),
    };
    let command = WorkCommand {
        sleep_us,
        object_bytes: args.eve.object_bytes,
        objects: vec![0],
        ..WorkCommand::default()
    };
    let mut work = Long::new(command, Errors { objects: super::cases::MANY, ..Errors::default() });
    let mut recorder = Recorder { length: plan.measure, samples: None };
    let start = Instant::now() + plan.warm;
    for kill in KILLS_S {
        target.events.plan(start + scaled(kill), Event::LeaderFalls(scaled(AWAY_S)));
    }
    let measured =
        load::run_observed(&mut target, &plan, &mut work, &format!("pair {round}"), &mut recorder)?;
    let check = match measured.errors {
        0 => bft::verify_within(&target, work.answered, CATCH_UP)?,
        _ => Check::not_done("some calls failed"),
    };
    let samples = recorder.samples.ok_or_else(|| Failure::new("nothing was measured"))?;
    let since = |at: Instant| at.saturating_duration_since(measured.began).as_secs_f64();
    let all = |which: fn(Event) -> bool| -> Vec<(f64, u16)> {
        target.events.all(which).map(|(at, replica)| (since(at), replica.number())).collect()
    };
    let killed = all(|event| matches!(event, Event::LeaderFalls(_)));
    let back = all(|event| event == Event::Returns);
    if killed.len() < KILLS_S.len() || back.len() < KILLS_S.len() {
        return Err(Failure::new(
            "a replica was to be killed and to start again, twice, but no leader was known: try again, or a smaller --divide",
        ));
    }
    let per_s_before = rate(&samples, 0.0, killed[0].0).unwrap_or_default();
    let ends = killed.iter().skip(1).map(|next| next.0).chain([END_S / divide]);
    let kills = killed.iter().zip(&back).zip(ends);
    Ok(Run {
        per_s_before,
        kills: kills
            .map(|((killed, back), end)| seen(&samples, *killed, (back.0, end), per_s_before))
            .collect(),
        errors: measured.errors,
        first_error: measured.first_error,
        check,
        bins: samples.bins(),
    })
}

fn rate(samples: &Samples, from_s: f64, to_s: f64) -> Option<f64> {
    samples.rates_apart(&[Span { from_s, to_s }]).0
}

/// What clients saw of a kill: until the replica was back, and from then on to the next kill, or the end.
fn seen(
    samples: &Samples,
    (killed_s, replica): (f64, u16),
    (back_s, end_s): (f64, f64),
    before: f64,
) -> Kill {
    let second = |from_s: f64| rate(samples, from_s, from_s + 1.0).filter(|_| from_s + 1.0 <= end_s);
    let seconds = (0..).map(|tenth| back_s + f64::from(tenth) / 10.0).map_while(second);
    let share = |rate: Option<f64>| rate.map(|rate| rate / before.max(1.0));
    Kill {
        replica,
        killed_s,
        back_s,
        longest_ms: samples.apart(&[Span { from_s: killed_s, to_s: killed_s + 1.0 }]).0.max,
        share_alone: share(rate(samples, (killed_s + 1.0).min(back_s), back_s)),
        share_return: share(seconds.min_by(f64::total_cmp)),
    }
}

fn page(document: &Document) -> Page {
    let curve = |(at, run): (usize, &Run)| Line {
        name: format!("round {}", at + 1),
        colour: colour(at),
        points: run.bins.iter().map(|bin| (bin.at_s, Some(bin.per_s))).collect(),
        bars: run.kills.iter().map(|kill| (kill.killed_s, kill.back_s)).collect(),
        ranges: Vec::new(),
    };
    Page {
        title: "Throughput of a pair while one of the two replicas is away".into(),
        intro: format!(
            "Each command sleeps for {} us and changes one object; {} callers, each with one command outstanding; {} workers; {}, {:.1} s each. \
             Points of 0.1 s. Bars: from when until when the replica is away that led.",
            document.command_us,
            document.callers,
            document.workers,
            shares::rounds(document.rounds),
            document.seconds
        ),
        charts: vec![Chart {
            title: "Commands answered".into(),
            x_label: "seconds".into(),
            y_label: "per second".into(),
            logarithmic: false,
            x_most: document.seconds,
            lines: document.runs.iter().enumerate().map(curve).collect(),
            bars_label: Some("one is away".into()),
        }],
        table: table(document),
        facts: facts(document),
        ..Page::default()
    }
}

fn table(document: &Document) -> Table {
    let head = [
        "round",
        "killed",
        "at s",
        "back at s",
        "requests/s before",
        "longest ms",
        "alone",
        "worst second of the return",
    ];
    let percent =
        |share: Option<f64>| share.map_or("-".to_owned(), |share| format!("{:.0} %", share * 100.0));
    let rows = document.runs.iter().enumerate().flat_map(|(at, run)| {
        run.kills.iter().map(move |kill| {
            let cells = vec![
                (at + 1).to_string(),
                format!("r{}", kill.replica),
                format!("{:.1}", kill.killed_s),
                format!("{:.1}", kill.back_s),
                amount(run.per_s_before),
                format!("{:.0}", kill.longest_ms),
                percent(kill.share_alone),
                percent(kill.share_return),
            ];
            (colour(at), cells)
        })
    });
    Table { head: head.map(str::to_owned).to_vec(), rows: rows.collect() }
}

fn facts(document: &Document) -> Vec<String> {
    let verified = if document.verified { ", which compare results" } else { "" };
    let mut facts = vec![
        format!(
            "2 replicas{verified}, one of which may stop; an {} decides; T is {} ms; durability {}; quorate {}",
            report::oracle(),
            document.t_ms,
            document.durability,
            document.version
        ),
        format!(
            "times are those of the paper divided by {}: the replica that leads is killed and starts again {:.1} s later, twice",
            document.divide,
            AWAY_S / document.divide
        ),
        "shares are of the rate before the first kill; alone: from a second after the kill; goals: 500 ms without replies, no slower alone, no second \
         under half of the rate at the return"
            .into(),
        "the paper: no replies for 4 s, its time-out; then more than with both, and for about a second nothing when the other one is back".into(),
    ];
    for (at, run) in document.runs.iter().enumerate() {
        let text = match run.errors {
            0 => run.check.text().to_owned(),
            errors => {
                let first = run.first_error.as_deref().unwrap_or("none");
                format!("NOT VALID: {errors} calls failed (the first: {first})")
            }
        };
        facts.push(format!("round {}: {text}", at + 1));
    }
    facts.extend(report::machine_lines(&document.machine).lines().map(|line| line.trim().to_owned()));
    facts
}
