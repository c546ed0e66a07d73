//! The figure `bft-smart-8`: throughput over time while a replica joins, the leader crashes and comes back, and a replica is removed.
//!
//! After figure 8 and section 6.3 of "State Machine Replication for the Masses with BFT-SMaRt" (DSN 2014): four replicas serve a map of lists to 30
//! clients for ten minutes. The members are changed as an operator does it, by commands of this program.

use super::super::filling::Recorder;
use super::super::marks::Span;
use super::super::samples::{Bin, Samples};
use super::byzantine;
use crate::bench::bft;
use crate::bench::draw::{Chart, Line, Page, Table, colour};
use crate::bench::events::Event;
use crate::bench::figure::closed::{self, Floor, Head, Kind, Load, Shown, drawn, floor_text};
use crate::bench::figure::{Drawn, FigureArgs, refuse, shares};
use crate::bench::lists::Owners;
use crate::bench::load::{self, Plan};
use crate::bench::median::Median;
use crate::bench::options::Measurement;
use crate::bench::report::Check;
use crate::bench::target::Target;
use crate::lies::How;
use quorate_command::failure::{Failure, Outcome};
use quorate_command::layout::{DurabilityChoice, ServiceChoice};
use quorate_command::print::amount;
use serde::Serialize;
use std::time::{Duration, Instant};

const NAME: &str = "bft-smart-8";
/// The paper's times in seconds: a replica joins, the leader crashes, it starts again, a replica is removed, the end. All clients are there after ten.
const JOIN_S: f64 = 120.0;
const CRASH_S: f64 = 240.0;
const RESTART_S: f64 = 370.0;
const REMOVE_S: f64 = 510.0;
const END_S: f64 = 600.0;
const WARM_S: f64 = 10.0;
/// The paper's numbers: for how long nobody answered, and its setting from which that follows.
const PAPER_GAP_S: f64 = 20.0;
const PAPER_TIMEOUT_S: f64 = 10.0;
/// Nobody answers for less than this.
const GOAL_GAP_S: f64 = 1.0;
/// The paper's clients, and the strings that they insert.
const CLIENTS: [usize; 1] = [30];
const STRING_BYTES: usize = 100;
/// How long a replica may take at the end to have everything.
const CATCH_UP: Duration = Duration::from_secs(60);
/// The lie: what it signs proves that it lies.
const LIE: How = How::Votes;

/// What happened, and what clients noticed of it. Times are in seconds of the window.
#[derive(Debug, Serialize)]
struct Happened {
    what: &'static str,
    replica: u16,
    /// When it began, and when it was over: the new replica votes, the killed one is started, the removed one is no member.
    from_s: f64,
    to_s: f64,
    /// When it begins in the paper.
    paper_s: f64,
    /// The longest time without an answer from its beginning until something else begins.
    silence_s: f64,
}

/// One round.
#[derive(Serialize)]
struct Run {
    liar: Option<u16>,
    joined: Happened,
    crashed: Happened,
    returned: Happened,
    removed: Happened,
    /// Requests answered per second: before anything happened; while a replica was added, got the state and was promoted; from then on;
    /// without the leader that crashed, from the first answer on; from its start on; after the removal.
    per_s_before: Option<f64>,
    per_s_joining: Option<f64>,
    per_s_with_more: Option<f64>,
    per_s_crashed: Option<f64>,
    per_s_returned: Option<f64>,
    per_s_after: Option<f64>,
    errors: u64,
    first_error: Option<String>,
    check: Check,
    bins: Vec<Bin>,
}

#[derive(Serialize)]
struct Document {
    #[serde(flatten)]
    head: Head,
    #[serde(flatten)]
    shown: Shown,
    /// By how much the paper's times are divided.
    divide: f64,
    /// How one replica lies all the time; null: all are honest.
    lie: Option<String>,
    paper_gap_s: f64,
    goal_gap_s: f64,
    /// For how long nobody answered after the crash, in all rounds.
    gap_s: Option<Median>,
    per_s_before: Option<Median>,
    /// Rates divided by that before anything happened, round by round.
    share_joining: Option<Median>,
    share_with_more: Option<Median>,
    share_crashed: Option<Median>,
    share_returned: Option<Median>,
    share_after: Option<Median>,
    floor: Option<Floor>,
    runs: Vec<Run>,
}

/// Measures and draws.
pub(in crate::bench::figure) fn draw(args: &FigureArgs) -> Outcome<Drawn> {
    args.closed.check()?;
    let divide = args.few.divided()?;
    if args.durability == DurabilityChoice::Memory {
        return refuse(
            "with --durability memory a replica that was killed does not come back: say group or async",
        );
    }
    let clients = args.closed.clients(&CLIENTS).into_iter().max().unwrap_or(1);
    let (kind, load) = (kind(args.smart.liar), Load::commands(clients, STRING_BYTES));
    let mut how = args.how();
    (how.base.warm, how.base.secs) = (WARM_S / divide, END_S / divide);
    let own = kind.measurement(&how.base);
    let payload = format!(
        "lists of strings of {STRING_BYTES} B: each client puts a list under its own key, appends, asks for its length, and removes it"
    );
    let mut head = Head::new(&how, NAME, payload, &clients.to_string());
    let (mut runs, mut floors) = (Vec::new(), Vec::new());
    for round in 1..=args.rounds {
        if !own.no_floor {
            // No longer than other figures: it does not change over time.
            let base = Measurement { secs: args.secs.min(how.base.secs).min(5.0), ..own.clone() };
            floors.push(closed::floor(&kind, &base, load, args.closed.shared)?);
        }
        runs.push(once(args, &own, load, &format!("trace {round}/{}", args.rounds))?);
    }
    let floor = closed::null(&floors.iter().collect::<Vec<_>>(), load);
    let agree = floor.as_ref().is_none_or(|floor| floor.replicas_agree);
    head.valid = agree && runs.iter().all(|run| run.errors == 0 && run.check.is_passed());
    let document = document(head, (&kind, divide), args.smart.liar, floor, runs);
    drawn(&document.head, &page(&document), &document)
}

/// The paper's four replicas, of which one may be faulty. A liar and a leader that crashes are two.
pub(super) fn kind(liar: bool) -> Kind {
    byzantine(if liar { 2 } else { 1 })
}

fn once(args: &FigureArgs, own: &Measurement, load: Load, title: &str) -> Outcome<Run> {
    let divide = args.few.divided()?;
    let scaled = |seconds: f64| Duration::from_secs_f64(seconds / divide);
    let mut target = Target::open(own, ServiceChoice::Lists)?;
    let liar = if args.smart.liar { Some(target.let_one_lie(LIE)?.number()) } else { None };
    if !args.closed.shared {
        target.have_crowd(load.clients, bft::TIMEOUT)?;
    }
    let plan = Plan {
        sessions: load.clients,
        slots: load.clients,
        commands_per_call: 1,
        warm: scaled(WARM_S),
        measure: scaled(END_S),
    };
    let mut work = Owners::new(load.clients, load.request_bytes);
    let mut recorder = Recorder { length: plan.measure, samples: None };
    let start = Instant::now() + plan.warm;
    let away = scaled(RESTART_S - CRASH_S);
    for (at_s, event) in
        [(JOIN_S, Event::Joins), (CRASH_S, Event::LeaderFalls(away)), (REMOVE_S, Event::Leaves)]
    {
        target.events.plan(start + scaled(at_s), event);
    }
    let measured = load::run_observed(&mut target, &plan, &mut work, title, &mut recorder)?;
    let samples = recorder.samples.ok_or_else(|| Failure::new("nothing was measured"))?;
    let moments = Moments::of(&target, measured.began).ok_or_else(|| {
        Failure::new(format!(
            "not everything that was planned happened in {:.0} s: say a smaller --divide, so that there is more time",
            plan.measure.as_secs_f64()
        ))
    })?;
    let check = match measured.errors {
        0 => work.verify(&target, CATCH_UP),
        _ => Check::not_done("some requests failed"),
    };
    let run = moments.seen(&samples, END_S / divide);
    Ok(Run { liar, errors: measured.errors, first_error: measured.first_error, check, ..run })
}

/// When what happened to which replica, in seconds of the window.
struct Moments {
    joins: (f64, u16),
    votes: f64,
    crash: (f64, u16),
    back: f64,
    leaves: (f64, u16),
    left: f64,
}

impl Moments {
    /// `None`: something did not happen.
    fn of(target: &Target, began: Instant) -> Option<Self> {
        let of = |which: fn(Event) -> bool| {
            let (at, replica) = target.events.happened(which)?;
            Some((at.saturating_duration_since(began).as_secs_f64(), replica.number()))
        };
        Some(Self {
            joins: of(|event| event == Event::Joins)?,
            votes: of(|event| event == Event::Votes)?.0,
            crash: of(|event| matches!(event, Event::LeaderFalls(_)))?,
            back: of(|event| event == Event::Returns)?.0,
            leaves: of(|event| event == Event::Leaves)?,
            left: of(|event| event == Event::Left)?.0,
        })
    }

    /// What clients noticed, until the end of the window.
    fn seen(&self, samples: &Samples, end_s: f64) -> Run {
        let Self { joins, votes, crash, back, leaves, left } = *self;
        let silence = |from_s: f64, to_s: f64| samples.silence(Span { from_s, to_s });
        let rate = |from_s: f64, to_s: f64| samples.rates_apart(&[Span { from_s, to_s }]).0;
        let happened = |what, (from_s, replica): (f64, u16), to_s, paper_s, next_s| {
            let Span { from_s: last_s, to_s: first_s } = silence(from_s, next_s);
            Happened { what, replica, from_s, to_s, paper_s, silence_s: first_s - last_s }
        };
        // Those that still work, not those that wait for them.
        let answers_again = silence(crash.0, back).to_s.min(back);
        Run {
            liar: None,
            joined: happened("joins", joins, votes, JOIN_S, crash.0),
            crashed: happened("crashes", crash, back, CRASH_S, back),
            returned: happened("is back", (back, crash.1), back, RESTART_S, leaves.0),
            removed: happened("is removed", leaves, left, REMOVE_S, end_s),
            per_s_before: rate(0.0, joins.0),
            per_s_joining: rate(joins.0, votes),
            per_s_with_more: rate(votes, crash.0),
            per_s_crashed: rate(answers_again, back),
            per_s_returned: rate(back, leaves.0),
            per_s_after: rate(left, end_s),
            errors: 0,
            first_error: None,
            check: Check::not_done("nothing was checked"),
            bins: samples.bins(),
        }
    }
}

/// The medians of all rounds.
fn document(
    head: Head,
    (kind, divide): (&Kind, f64),
    liar: bool,
    floor: Option<Floor>,
    runs: Vec<Run>,
) -> Document {
    let share = |value: fn(&Run) -> Option<f64>| {
        let each = runs.iter().filter_map(|run| Some(value(run)? / run.per_s_before?.max(1.0)));
        Median::of(each.collect())
    };
    Document {
        head,
        shown: kind.shown(),
        divide,
        lie: liar.then(|| LIE.name()),
        paper_gap_s: PAPER_GAP_S,
        goal_gap_s: GOAL_GAP_S,
        gap_s: Median::of(runs.iter().map(|run| run.crashed.silence_s).collect()),
        per_s_before: Median::of(runs.iter().filter_map(|run| run.per_s_before).collect()),
        share_joining: share(|run| run.per_s_joining),
        share_with_more: share(|run| run.per_s_with_more),
        share_crashed: share(|run| run.per_s_crashed),
        share_returned: share(|run| run.per_s_returned),
        share_after: share(|run| run.per_s_after),
        floor,
        runs,
    }
}

impl Run {
    fn all(&self) -> [&Happened; 4] {
        [&self.joined, &self.crashed, &self.returned, &self.removed]
    }
}

fn page(document: &Document) -> Page {
    let head = &document.head;
    let rate = |(at, run): (usize, &Run)| {
        let points = run.bins.iter().map(|bin| (bin.at_s, Some(bin.per_s))).collect();
        Line::plain(format!("round {}", at + 1), colour(at), points)
    };
    // The bars are those of the first round, whose curve is the first.
    let mark = |(at, happened): (usize, &Happened)| {
        let Happened { what, replica, from_s, to_s, .. } = happened;
        let name = format!("r{replica} {what} ({from_s:.1} s)");
        Line {
            bars: vec![(*from_s, *to_s)],
            ..Line::plain(name, colour(document.runs.len() + at), Vec::new())
        }
    };
    let marks = document.runs.first().map(Run::all).into_iter().flatten().enumerate().map(mark);
    Page {
        title:
            "Throughput while a replica joins, the leader crashes and comes back, and a replica is removed"
                .into(),
        intro: format!(
            "{}; {}; {}, {:.1} s each{}. Points of 0.1 s. Bars: what happened in the first round, from when until when.",
            head.payload,
            head.load,
            shares::rounds(head.rounds),
            head.seconds,
            document
                .lie
                .as_ref()
                .map_or(String::new(), |lie| format!("; one replica lies all the time ({lie})")),
        ),
        charts: vec![Chart {
            title: "Requests answered".into(),
            x_label: "seconds".into(),
            y_label: "per second".into(),
            logarithmic: false,
            x_most: head.seconds,
            lines: document.runs.iter().enumerate().map(rate).chain(marks).collect(),
            bars_label: Some("what happened".into()),
        }],
        table: table(document),
        facts: facts(document),
        ..Page::default()
    }
}

fn table(document: &Document) -> Table {
    let head = [
        "round",
        "what",
        "replica",
        "from s",
        "to s",
        "the paper's, divided",
        "longest without an answer, s",
        "requests/s from then on",
    ];
    let rows = document.runs.iter().enumerate().flat_map(|(at, run)| {
        let per_s = [run.per_s_joining, run.per_s_crashed, run.per_s_returned, run.per_s_after];
        run.all().into_iter().zip(per_s).map(move |(happened, per_s)| {
            let cells = vec![
                (at + 1).to_string(),
                happened.what.to_owned(),
                format!("r{}", happened.replica),
                format!("{:.1}", happened.from_s),
                format!("{:.1}", happened.to_s),
                format!("{:.1}", happened.paper_s / document.divide),
                format!("{:.3}", happened.silence_s),
                per_s.map_or("-".into(), amount),
            ];
            (colour(at), cells)
        })
    });
    Table { head: head.map(str::to_owned).to_vec(), rows: rows.collect() }
}

fn facts(document: &Document) -> Vec<String> {
    let mut facts = document.head.facts();
    let percent = |share: Option<Median>| {
        share.map_or("-".to_owned(), |share| shares::cell(&share, |share| format!("{:.0} %", share * 100.0)))
    };
    let gap = document.gap_s.map_or("-".to_owned(), |gap| shares::cell(&gap, |gap| format!("{gap:.2} s")));
    facts.push(document.shown.name());
    facts.push(format!(
        "after the crash of the leader nobody answered for {gap}; the paper: about {PAPER_GAP_S:.0} s, twice its time-out of {PAPER_TIMEOUT_S:.0} s; the goal: \
         below {GOAL_GAP_S:.0} s. That time is not divided. The leader is killed, so its connections close, and the others complain at once; a machine \
         that vanishes is noticed after the time-out, as in the paper"
    ));
    facts.push(format!(
        "beside {} requests/s before: {} while a replica was added, got the state and was promoted, {} with one more; {} without the leader, from the \
         first answer on; {} from its start on; {} after the removal",
        document.per_s_before.map_or("-".into(), |per_s| shares::cell(&per_s, amount)),
        percent(document.share_joining),
        percent(document.share_with_more),
        percent(document.share_crashed),
        percent(document.share_returned),
        percent(document.share_after),
    ));
    facts.push(
        "the paper, in words: less with one more replica; nothing for 20 s after the crash, then a little less than at first; after the restart as before \
         the crash; after the removal as at first"
            .into(),
    );
    facts.push(format!(
        "the paper: \"State Machine Replication for the Masses with BFT-SMaRt\" (Bessani, Sousa, Alchieri; DSN 2014), section 6.3 and figure 8. Its times are \
         divided by {}; a machine for each replica there, one for everything here",
        document.divide
    ));
    if document.lie.is_some() {
        facts.push(
            "a liar and a leader that crashed are two faults, so there are seven replicas, which survive two; the paper has four, and no liar".into(),
        );
    }
    for (at, run) in document.runs.iter().enumerate() {
        let said = match run.errors {
            0 => run.check.text().to_owned(),
            errors => {
                let first = run.first_error.as_deref().unwrap_or("none");
                format!("NOT VALID: {errors} requests failed (the first: {first})")
            }
        };
        let liar = run.liar.map_or(String::new(), |liar| format!("r{liar} lies; "));
        facts.push(format!("round {}: {liar}{said}", at + 1));
    }
    facts.extend(document.floor.as_ref().map(floor_text));
    facts.extend(document.head.machine());
    facts
}
