//! What is drawn of `bench latency`.

use super::{Document, Quantiles, Row, limits, table};
use crate::bench::draw::{Chart, Line, Mark, Page, Row as Drawn, Rows, about_machine, colour};
use crate::bench::report::FloorRun;
use quorate_command::print::amount;

/// A quantile with its name.
type Drawing = (&'static str, fn(&Quantiles) -> f64);
/// The quantiles that are drawn.
const DRAWN: [Drawing; 4] =
    [("p50", |ms| ms.p50), ("p99", |ms| ms.p99), ("p99.9", |ms| ms.p99_9), ("longest", |ms| ms.max)];

pub(super) fn page(document: &Document) -> Page {
    let by_event = document.rows.iter().any(|row| row.event.is_some());
    let mut about = vec![
        ("durability", document.durability.to_string()),
        ("payload", document.payload.clone()),
        ("callers", format!("{}{}", document.load, limits(document))),
        (
            "replicas",
            format!(
                "{} replicas, {} faults, {}, {}",
                document.replicas,
                document.fault_model,
                document.protocol,
                if document.tls { "TLS" } else { "without TLS" }
            ),
        ),
    ];
    about.extend(
        document
            .most_per_s
            .map(|most| ("the most", format!("{} puts/s when every caller waits", amount(most)))),
    );
    let floor = |floor: &FloorRun| {
        format!(
            "{}/s, p50 {:.3} ms, p99 {:.3} ms, {} outstanding; {}",
            amount(floor.per_s),
            floor.p50_us / 1e3,
            floor.p99_us / 1e3,
            floor.window,
            floor.which()
        )
    };
    let floors: Vec<String> = document.floors.iter().map(floor).collect();
    about.push(("floor", if floors.is_empty() { "was not run".into() } else { floors.join(". ") }));
    let floor = Mark::of(document.floors.iter().map(|floor| floor.per_s));
    if let Some((most, floor)) = document.most_per_s.zip(floor).filter(|(_, floor)| floor.value > 0.0) {
        about.push(("ratio to the floor", format!("the most is {:.3} of it", most / floor.value)));
    }
    about.extend(about_machine(&document.machine));
    let mut facts: Vec<String> = document.rows.iter().filter_map(super::remark).collect();
    let failed = document.checks.iter().filter(|check| !check.is_passed());
    facts.extend(failed.map(|check| format!("NOT VALID: {}", check.text())));
    Page {
        title: "How long puts take that come at a given rate".into(),
        intro: format!(
            "{}Milliseconds from the moment at which a put was due, whether or not earlier ones were answered.",
            if document.valid { "" } else { "NOT VALID, see below. " }
        ),
        rows: if by_event { vec![events(document)] } else { Vec::new() },
        charts: if by_event { Vec::new() } else { vec![latencies(document), answered(document)] },
        table: table(&document.rows),
        about,
        facts,
    }
}

fn events(document: &Document) -> Rows {
    let mut names: Vec<&str> = Vec::new();
    for name in document.rows.iter().filter_map(|row| row.event.as_deref()) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let row = |name: &str| {
        let own: Vec<&Row> = document.rows.iter().filter(|row| row.event.as_deref() == Some(name)).collect();
        let mark = |of: fn(&Quantiles) -> f64| {
            Mark::of(own.iter().filter(|row| row.latency_ms.calls > 0).map(|row| of(&row.latency_ms)))
        };
        Drawn { name: name.to_owned(), marks: DRAWN.map(|(_, of)| mark(of)).to_vec() }
    };
    let rows = names.iter().map(|name| row(name)).collect();
    Rows::new("Latency while something happens", "milliseconds", &DRAWN.map(|(name, _)| name), rows)
        .logarithmic()
}

/// Points by the rate that was asked for, the lowest first.
fn by_rate(document: &Document, of: impl Fn(&Row) -> Option<f64>) -> Vec<(f64, Option<f64>)> {
    let mut points: Vec<(f64, Option<f64>)> = document.rows.iter().map(|row| (row.rate, of(row))).collect();
    points.sort_by(|one, other| one.0.total_cmp(&other.0));
    points
}

fn chart(document: &Document, title: &str, y_label: &str, lines: Vec<Line>) -> Chart {
    Chart {
        title: title.into(),
        x_label: "puts that were due per second".into(),
        y_label: y_label.into(),
        logarithmic: false,
        x_most: document.rows.iter().map(|row| row.rate).fold(0.0, f64::max),
        lines,
        bars_label: None,
    }
}

fn latencies(document: &Document) -> Chart {
    let line = |(at, (name, of)): (usize, &Drawing)| {
        let points = by_rate(document, |row| (row.latency_ms.calls > 0).then(|| of(&row.latency_ms)));
        Line::plain(*name, colour(at), points)
    };
    let lines = DRAWN.iter().enumerate().map(line).collect();
    Chart { logarithmic: true, ..chart(document, "Latency", "milliseconds (logarithmic)", lines) }
}

fn answered(document: &Document) -> Chart {
    let lines = vec![
        Line::plain("answered", colour(0), by_rate(document, |row| Some(row.answered_per_s))),
        Line::plain("due", colour(6), by_rate(document, |row| Some(row.rate))),
    ];
    chart(document, "Puts that were answered", "per second", lines)
}
