//! Kinds of clusters under load in a closed loop, in turns: the null program, and then a cluster that gets one load after the other, in every other
//! round the last one first.
//!
//! Files: `kinds` (the clusters), `head` (what figures say of themselves). Tests: `tests.rs` in `few` and `smart`.

mod head;
mod kinds;

pub(super) use head::{Head, drawn, floor_text, lines_about, listed};
pub(super) use kinds::{Kind, Shown};

use super::{FigureArgs, refuse, shares};
use crate::bench::bft::{self, Mix};
use crate::bench::cpu::{Cpu, tick_s};
use crate::bench::load::{self, Measured, Plan};
use crate::bench::median::{self, Median};
use crate::bench::options::Measurement;
use crate::bench::report::{Check, Durability, FloorRun};
use crate::bench::series::{floor_config, floor_run_among, with_callers};
use crate::bench::signatures::Signatures;
use crate::bench::target::Target;
use quorate_command::arguments::seconds;
use quorate_command::failure::{Failure, Outcome};
use quorate_command::layout::ServiceChoice;
use quorate_floor::Config as FloorConfig;
use serde::Serialize;
use std::time::Duration;

/// The options of these figures about their load.
#[derive(Debug, clap::Args)]
pub(crate) struct ClosedArgs {
    /// For visigoth and bft-smart: how many clients, one after the other, each with one request outstanding; figures that do not compare numbers of
    /// clients take the largest [default: 1,4,16,64,128; 25,50,100,200,400 for the table bft-smart-2]
    #[arg(long, value_name = "COUNTS", value_delimiter = ',')]
    clients: Vec<usize>,
    /// For visigoth and bft-smart: clients share connections, as callers in one program do; otherwise each has its own
    #[arg(long)]
    pub(super) shared: bool,
}

/// The usual numbers of clients.
pub(super) const CLIENTS: [usize; 5] = [1, 4, 16, 64, 128];

impl ClosedArgs {
    /// Refuses options that can not be, and says why.
    pub(super) fn check(&self) -> Outcome<()> {
        if self.clients.iter().any(|clients| !(1..=10_000).contains(clients)) {
            return refuse("--clients is a list of numbers from 1 to 10000");
        }
        Ok(())
    }

    /// The numbers of clients, or the usual ones.
    pub(super) fn clients(&self, usual: &[usize]) -> Vec<usize> {
        if self.clients.is_empty() { usual.to_vec() } else { self.clients.clone() }
    }

    /// The largest number of clients.
    pub(super) fn clients_most(&self) -> usize {
        self.clients(&CLIENTS).into_iter().max().unwrap_or(1)
    }
}

/// How clusters are measured.
pub(super) struct How {
    /// What all of them have in common.
    pub(super) base: Measurement,
    /// Clients share connections.
    pub(super) shared: bool,
    pub(super) rounds: u32,
}

impl FigureArgs {
    pub(super) fn how(&self) -> How {
        How { base: self.measurement(), shared: self.closed.shared, rounds: self.rounds }
    }
}

/// Clients with one request outstanding each, and the sizes of requests and replies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Load {
    pub(super) clients: usize,
    pub(super) request_bytes: usize,
    pub(super) reply_bytes: usize,
    /// `None`: each request is a command. Otherwise so many of 100 only read: they are small and are answered with `reply_bytes`, while
    /// commands have `request_bytes` and are answered with nothing.
    pub(super) reads_percent: Option<u32>,
}

impl Load {
    /// Commands that are answered with nothing.
    pub(super) const fn commands(clients: usize, request_bytes: usize) -> Self {
        Self { clients, request_bytes, reply_bytes: 0, reads_percent: None }
    }

    fn mix(self) -> Mix {
        let Self { request_bytes, reply_bytes, .. } = self;
        match self.reads_percent {
            None => Mix::commands(request_bytes, reply_bytes),
            Some(percent) => Mix::reading(percent, request_bytes, reply_bytes),
        }
    }
}

/// A load in one round.
struct Run {
    per_s: f64,
    mean_ms: f64,
    p50_ms: f64,
    p99_ms: f64,
    /// Requests for each second of processor time, of all replicas, and of the busiest one; `None`: they used too little to say.
    per_cpu_s: Option<f64>,
    per_busiest_cpu_s: Option<f64>,
    /// How many cores the oracle used.
    oracle_cores: Option<f64>,
}

impl Run {
    fn of(measured: &Measured) -> Self {
        let ms = |ns: f64| ns / 1e6;
        let at = |quantile: f64| ms(measured.latency.value_at_quantile(quantile) as f64);
        let requests = measured.commands as f64;
        // Below a few ticks the quotient would say more about the clock than about us.
        let per = |cpu_s: f64| (cpu_s >= 10.0 * tick_s()).then(|| requests / cpu_s);
        let each = || measured.replicas_cpu.iter().map(|cpu| cpu.total_s());
        Self {
            per_s: requests / measured.seconds,
            mean_ms: ms(measured.latency.mean()),
            p50_ms: at(0.5),
            p99_ms: at(0.99),
            per_cpu_s: per(each().sum()),
            per_busiest_cpu_s: per(each().fold(0.0, f64::max)),
            oracle_cores: measured.oracle_cpu.map(|cpu: Cpu| cpu.total_s() / measured.seconds),
        }
    }
}

/// One round of a kind.
struct Round {
    runs: Vec<Run>,
    floors: Vec<FloorRun>,
    /// Where clients sign, with the last load.
    signatures: Option<Signatures>,
    errors: u64,
    first_error: Option<String>,
    check: Check,
}

/// All rounds of a kind; none if this program refuses it.
pub(super) struct Rounds {
    pub(super) kind: Kind,
    rounds: Vec<Round>,
}

/// A load in all rounds.
#[derive(Serialize)]
pub(super) struct Point {
    pub(super) clients: usize,
    pub(super) request_bytes: usize,
    pub(super) reply_bytes: usize,
    /// Of 100 requests, how many only read; null: none does, and commands are answered with `reply_bytes`.
    pub(super) reads_percent: Option<u32>,
    pub(super) per_s: Median,
    /// Latency of a request.
    pub(super) mean_ms: Median,
    pub(super) p50_ms: Median,
    pub(super) p99_ms: Median,
    /// Requests for each second of processor time of all replicas.
    pub(super) per_replica_cpu_s: Option<Median>,
    /// Requests for each second of processor time of the busiest replica, divided by the number of replicas: what each replica would
    /// contribute per second if each had a core of its own.
    pub(super) per_busiest_cpu_s_and_replica: Option<Median>,
    /// The rate divided by the number of replicas, all of which share this machine.
    pub(super) per_s_and_replica: Median,
    /// How many cores the oracle used, beside the replicas; null without one.
    pub(super) oracle_cores: Option<Median>,
}

/// The null program in all rounds.
#[derive(Serialize)]
pub(super) struct Floor {
    pub(super) which: String,
    pub(super) clients: usize,
    pub(super) request_bytes: usize,
    pub(super) per_s: Median,
    pub(super) p50_us: Median,
    pub(super) per_replica_cpu_s: Option<Median>,
    pub(super) replicas_agree: bool,
}

/// A kind with everything that was measured of it.
#[derive(Serialize)]
pub(super) struct Curve {
    #[serde(flatten)]
    pub(super) shown: Shown,
    pub(super) errors: u64,
    pub(super) first_error: Option<String>,
    /// Null if it was refused.
    pub(super) check: Option<Check>,
    pub(super) points: Vec<Point>,
    /// What signatures of clients cost, in the last round; null where clients do not sign.
    pub(super) signatures: Option<Signatures>,
    pub(super) floors: Vec<Floor>,
}

impl Curve {
    /// Whether everything passed that was measured.
    pub(super) fn is_valid(&self) -> bool {
        let agree = self.floors.iter().all(|floor| floor.replicas_agree);
        agree && self.errors == 0 && self.check.as_ref().is_none_or(Check::is_passed)
    }

    /// What was wrong, for readers.
    pub(super) fn trouble(&self) -> Option<String> {
        let first = self.first_error.as_deref().unwrap_or("none");
        let check = self.check.as_ref().map_or("", Check::text);
        let name = self.shown.name();
        (!self.is_valid()).then(|| {
            format!("NOT VALID, {name}: {} requests failed (the first: {first}); {check}", self.errors)
        })
    }

    /// Why it was not measured, for readers.
    pub(super) fn refusal(&self) -> Option<String> {
        self.shown.refused.as_ref().map(|why| format!("{}: {why}", self.shown.name()))
    }
}

/// Measures all kinds that are not refused, in turns.
pub(super) fn measure(how: &How, kinds: Vec<Kind>, loads: &[Load]) -> Outcome<Vec<Rounds>> {
    let mut all: Vec<Rounds> = kinds.into_iter().map(|kind| Rounds { kind, rounds: Vec::new() }).collect();
    for round in 1..=how.rounds {
        for at in median::order(round, all.len()) {
            let kind = &all[at].kind;
            if kind.refusal().is_some() {
                continue;
            }
            let title = format!("{} {round}/{}", kind.shown().name(), how.rounds);
            let measured = once(how, kind, (loads, round), &title)?;
            all[at].rounds.push(measured);
        }
    }
    Ok(all)
}

/// The most clients of each size of requests: beside these the null program is measured.
pub(super) fn floors(loads: &[Load]) -> Vec<Load> {
    let mut largest: Vec<Load> = Vec::new();
    for load in loads {
        match largest.iter_mut().find(|found| found.request_bytes == load.request_bytes) {
            Some(found) => found.clients = found.clients.max(load.clients),
            None => largest.push(*load),
        }
    }
    largest
}

/// One round of a kind: the null program, and then a cluster that gets one load after the other.
fn once(how: &How, kind: &Kind, (loads, turn): (&[Load], u32), title: &str) -> Outcome<Round> {
    let own = &kind.measurement(&how.base);
    let mut null = Vec::new();
    for load in if own.no_floor { Vec::new() } else { floors(loads) } {
        null.push(floor(kind, own, load, how.shared)?);
    }
    let mut target = Target::configured(own, ServiceChoice::Echo, kind.settings())?;
    let most = loads.iter().map(|load| load.clients).max().unwrap_or(1);
    if !how.shared {
        target.have_crowd(most, bft::TIMEOUT)?;
    }
    let mut runs: Vec<Option<Run>> = loads.iter().map(|_| None).collect();
    let mut round = Round {
        runs: Vec::new(),
        floors: null,
        signatures: None,
        errors: 0,
        first_error: None,
        check: Check::passed(""),
    };
    let mut executed = 0;
    for (number, at) in (1..).zip(median::order(turn, loads.len())) {
        let load = loads[at];
        let plan = Plan {
            sessions: load.clients,
            slots: load.clients,
            commands_per_call: 1,
            warm: Duration::from_secs_f64(own.warm),
            measure: seconds("--secs", own.secs)?,
        };
        let mut work = load.mix();
        let title =
            if loads.len() > 1 { format!("{title}, load {number}/{}", loads.len()) } else { title.into() };
        let before = kind.signed.map(|_| target.signatures_checked()).transpose()?;
        let measured = load::run(&mut target, &plan, &mut work, &title)?;
        executed += work.executed();
        round.errors += measured.errors;
        let run = Run::of(&measured);
        if let Some(before) = before {
            let checked = target.signatures_checked()? - before;
            round.signatures = Some(Signatures::of(checked, work.executed(), run.per_s));
        }
        runs[at] = Some(run);
        round.first_error = round.first_error.or(measured.first_error);
    }
    round.runs.extend(runs.into_iter().flatten());
    round.check = match round.errors {
        0 => bft::verify(&target, executed)?,
        _ => Check::not_done("some requests failed"),
    };
    Ok(round)
}

/// The null program with as many replicas, for the same faults. `shared`: its commands come in one stream.
pub(super) fn floor(kind: &Kind, own: &Measurement, load: Load, shared: bool) -> Outcome<FloorRun> {
    let config = FloorConfig {
        window: load.clients as u64,
        command_bytes: load.request_bytes.max(16),
        ..floor_config(own)
    };
    let config = if shared { config } else { with_callers(config, &own.order.choice()?, load.clients) };
    let run = floor_run_among(kind.replicas, &config, &Durability::planned(own), kind.model)?;
    // What it left is an empty directory.
    let _ = std::fs::remove_dir(&config.dir);
    Ok(run)
}

impl Rounds {
    /// The medians of all rounds.
    pub(super) fn curve(&self, loads: &[Load]) -> Outcome<Curve> {
        let nothing = || Failure::new("nothing was measured");
        let measured: &[Load] = if self.rounds.is_empty() { &[] } else { loads };
        let points = measured.iter().enumerate().map(|(at, load)| self.point(at, *load));
        let floors = (0..self.rounds.first().map_or(0, |round| round.floors.len())).map(|at| {
            let load = floors(loads)[at];
            let runs: Vec<&FloorRun> = self.rounds.iter().filter_map(|round| round.floors.get(at)).collect();
            null(&runs, load)
        });
        Ok(Curve {
            shown: self.kind.shown(),
            errors: self.rounds.iter().map(|round| round.errors).sum(),
            first_error: self.rounds.iter().find_map(|round| round.first_error.clone()),
            check: (!self.rounds.is_empty())
                .then(|| shares::worst(self.rounds.iter().map(|round| &round.check))),
            points: points.collect::<Option<_>>().ok_or_else(nothing)?,
            signatures: self.rounds.last().and_then(|round| round.signatures),
            floors: floors.collect::<Option<_>>().ok_or_else(nothing)?,
        })
    }

    fn point(&self, at: usize, load: Load) -> Option<Point> {
        let replicas = f64::from(self.kind.replicas);
        let all = |value: fn(&Run) -> Option<f64>, by: f64| {
            let runs = self.rounds.iter().filter_map(|round| round.runs.get(at));
            Median::of(runs.filter_map(value).map(|value| value / by).collect())
        };
        Some(Point {
            clients: load.clients,
            request_bytes: load.request_bytes,
            reply_bytes: load.reply_bytes,
            reads_percent: load.reads_percent,
            per_s: all(|run| Some(run.per_s), 1.0)?,
            mean_ms: all(|run| Some(run.mean_ms), 1.0)?,
            p50_ms: all(|run| Some(run.p50_ms), 1.0)?,
            p99_ms: all(|run| Some(run.p99_ms), 1.0)?,
            per_replica_cpu_s: all(|run| run.per_cpu_s, 1.0),
            per_busiest_cpu_s_and_replica: all(|run| run.per_busiest_cpu_s, replicas),
            per_s_and_replica: all(|run| Some(run.per_s), replicas)?,
            oracle_cores: all(|run| run.oracle_cores, 1.0),
        })
    }

    /// Requests for each second of processor time of all replicas under this load, divided by those of `other`, round by round.
    pub(super) fn times(&self, other: &Self, at: usize) -> Option<Median> {
        self.quotient(other, at, |_, run| run.per_cpu_s)
    }

    /// Requests for each replica if each had a core, divided by those of `other`, round by round.
    pub(super) fn times_each(&self, other: &Self, at: usize) -> Option<Median> {
        self.quotient(other, at, |kind, run| Some(run.per_busiest_cpu_s? / f64::from(kind.replicas)))
    }

    /// Requests per second under this load, divided by those of `other` under that one, round by round.
    pub(super) fn rate_beside(&self, at: usize, (other, base): (&Self, usize)) -> Option<Median> {
        let rate = |round: &Round, at: usize| round.runs.get(at).map(|run| run.per_s);
        let each = self.rounds.iter().zip(&other.rounds);
        Median::of(each.filter_map(|(mine, its)| Some(rate(mine, at)? / rate(its, base)?)).collect())
    }

    /// The most requests per second under any load, divided by those of `other`, round by round.
    pub(super) fn most_beside(&self, other: &Self) -> Option<Median> {
        let most = |round: &Round| round.runs.iter().map(|run| run.per_s).reduce(f64::max);
        let each = self.rounds.iter().zip(&other.rounds);
        Median::of(each.filter_map(|(mine, its)| Some(most(mine)? / most(its)?)).collect())
    }

    fn quotient(&self, other: &Self, at: usize, value: fn(&Kind, &Run) -> Option<f64>) -> Option<Median> {
        let of = |rounds: &Self, round: &Round| value(&rounds.kind, round.runs.get(at)?);
        let each = self.rounds.iter().zip(&other.rounds);
        Median::of(each.filter_map(|(mine, its)| Some(of(self, mine)? / of(other, its)?)).collect())
    }
}

/// The medians of the null program; `None` without a run.
pub(super) fn null(runs: &[&FloorRun], load: Load) -> Option<Floor> {
    let all =
        |value: fn(&FloorRun) -> Option<f64>| Median::of(runs.iter().filter_map(|run| value(run)).collect());
    Some(Floor {
        which: runs.first()?.which(),
        clients: load.clients,
        request_bytes: load.request_bytes,
        per_s: all(|run| Some(run.per_s))?,
        p50_us: all(|run| Some(run.p50_us))?,
        per_replica_cpu_s: all(|run| run.per_replica_cpu_s),
        replicas_agree: runs.iter().all(|run| run.replicas_agree),
    })
}
