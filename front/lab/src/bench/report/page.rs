//! The result of `bench append`, `kv` and `bft` as a page.

use super::{Figure, FloorRun, LatencyUs, OwnRun};
use crate::bench::draw::{Chart, Line, Mark, Page, Row, Rows, about_machine, colour, number};
use quorate_command::print::amount;

const SIDES: [&str; 2] = ["ours", "the null program (floor)"];

/// The page of a figure.
pub(in crate::bench) fn page(figure: &Figure) -> Page {
    let subject = &figure.subject;
    let ratios = ratios(figure, |run| run.per_s, |floor| floor.per_s);
    let mut rows = vec![rate(figure)];
    if !figure.floors.is_empty() {
        let mut beside = vec![Row { name: "rate".into(), marks: vec![Mark::of(ratios.iter().copied())] }];
        // An append's latency is that of a call with thousands of commands.
        if subject.benchmark != "append" {
            let p50 = self::ratios(figure, |run| run.latency_us.p50, |floor| floor.p50_us);
            beside.push(Row { name: "median latency".into(), marks: vec![Mark::of(p50)] });
        }
        let title = "Ours beside the null program of the same run, round by round";
        rows.push(Rows::new(title, "times the floor's", &["ours over the floor"], beside).beside_one());
    }
    rows.push(latency(figure));
    Page {
        title: match (figure.floor_per_s_median, figure.rate_ratio) {
            (Some(floor), Some(ratio)) => format!(
                "{}: {} {}/s, {ratio:.3} of the null program's {}/s",
                subject.benchmark,
                amount(figure.per_s_median),
                subject.unit,
                amount(floor)
            ),
            _ => format!("{}, without the null program beside it", subject.benchmark),
        },
        intro: format!(
            "{}Points are medians of rounds, with lines from the lowest to the highest.",
            if figure.valid { "" } else { "NOT VALID: a check or a call failed, see below. " }
        ),
        rows,
        charts: if figure.runs.len() > 1 { vec![in_turns(figure)] } else { Vec::new() },
        about: about(figure, &ratios),
        facts: facts(figure),
        ..Page::default()
    }
}

/// Ours divided by the mean of the floors before and after it.
fn ratios(figure: &Figure, ours: fn(&OwnRun) -> f64, floor: fn(&FloorRun) -> f64) -> Vec<f64> {
    let floors = &figure.floors;
    let beside = |at: usize| {
        // Beside a cluster that runs already there is none before the first round.
        let around = if floors.len() > figure.runs.len() { at..at + 2 } else { at..at + 1 };
        let around = floors.get(around)?;
        Some(around.iter().map(floor).sum::<f64>() / around.len() as f64)
    };
    let ratio = |(at, run): (usize, &OwnRun)| Some(ours(run) / beside(at).filter(|floor| *floor > 0.0)?);
    figure.runs.iter().enumerate().filter_map(ratio).collect()
}

fn rate(figure: &Figure) -> Rows {
    let marks = vec![
        Mark::of(figure.runs.iter().map(|run| run.per_s)),
        Mark::of(figure.floors.iter().map(|floor| floor.per_s)),
    ];
    let per_cpu = vec![
        Mark::of(figure.runs.iter().filter_map(|run| run.per_replica_cpu_s)),
        Mark::of(figure.floors.iter().filter_map(|floor| floor.per_replica_cpu_s)),
    ];
    let rows = vec![
        Row { name: "per second".into(), marks },
        Row { name: "per second of processor time of all replicas".into(), marks: per_cpu },
    ];
    Rows::new("Rate", figure.subject.unit, &SIDES, rows).logarithmic()
}

fn latency(figure: &Figure) -> Rows {
    let ours = |of: fn(&LatencyUs) -> f64| Mark::of(figure.runs.iter().map(|run| of(&run.latency_us)));
    let floor = |of: fn(&FloorRun) -> f64| Mark::of(figure.floors.iter().map(of));
    let row = |name: &str, ours, floor| Row { name: name.into(), marks: vec![ours, floor] };
    let rows = vec![
        row("p50", ours(|us| us.p50), floor(|floor| floor.p50_us)),
        row("p90", ours(|us| us.p90), None),
        row("p99", ours(|us| us.p99), floor(|floor| floor.p99_us)),
        row("p99.9", ours(|us| us.p99_9), None),
        row("longest", ours(|us| us.max), None),
    ];
    Rows::new("Latency of a call", "microseconds", &SIDES, rows).logarithmic()
}

/// The rates in the order in which they were measured.
fn in_turns(figure: &Figure) -> Chart {
    let ours = figure.runs.iter().zip(1..).map(|(run, at)| (f64::from(at), Some(run.per_s)));
    let before = if figure.floors.len() > figure.runs.len() { 0.5 } else { 1.5 };
    let floors = figure.floors.iter().zip(0..).map(|(run, at)| (before + f64::from(at), Some(run.per_s)));
    Chart {
        title: "Rates in turns".into(),
        x_label: "round; the null program runs between rounds".into(),
        y_label: format!("{} per second (logarithmic)", figure.subject.unit),
        logarithmic: true,
        x_most: figure.runs.len() as f64 + 0.5,
        lines: vec![
            Line::plain(SIDES[0], colour(0), ours.collect()),
            Line::plain(SIDES[1], colour(1), floors.collect()),
        ],
        bars_label: None,
    }
}

fn about(figure: &Figure, ratios: &[f64]) -> Vec<(&'static str, String)> {
    let subject = &figure.subject;
    let mut about = vec![
        ("durability", figure.durability.to_string()),
        ("payload", subject.payload.clone()),
        ("callers", subject.load.clone()),
        (
            "replicas",
            format!("{} replicas, {} faults, {}", figure.replicas, figure.fault_model, figure.protocol),
        ),
        (
            "rounds",
            format!(
                "{} of {} s",
                figure.runs.len(),
                number(figure.runs.first().map_or(0.0, |run| run.seconds))
            ),
        ),
    ];
    let floor = match (figure.floor_per_s_median, figure.floors.first()) {
        (Some(per_s), Some(floor)) => {
            format!("{}/s, median of {} runs; {}", amount(per_s), figure.floors.len(), floor.which())
        }
        _ => "was not run".to_owned(),
    };
    about.push(("floor", floor));
    if let Some(mark) = Mark::of(ratios.iter().copied()) {
        about.push((
            "ratio to the floor",
            format!("{}, each round beside the mean of the floors before and after it", mark.text(number)),
        ));
    }
    about.extend(about_machine(&figure.machine));
    about
}

fn facts(figure: &Figure) -> Vec<String> {
    let failed = figure.runs.iter().filter_map(|run| {
        run.first_error.as_ref().map(|why| format!("{} calls FAILED, the first one: {why}", run.errors))
    });
    let checks = figure.runs.iter().map(|run| match run.check.passed {
        Some(true) => format!("checked: {}", run.check.text),
        Some(false) => format!("CHECK FAILED: {}", run.check.text),
        None => format!("not checked: {}", run.check.text),
    });
    let differ = figure.floors.iter().any(|floor| !floor.replicas_agree);
    let mut facts: Vec<String> = failed.chain(checks).collect();
    facts.dedup();
    facts.extend(differ.then(|| "the null program's replicas DIFFER".to_owned()));
    facts
}
