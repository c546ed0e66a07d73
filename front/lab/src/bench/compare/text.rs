//! What people see of a comparison.

use super::{Document, Figures, Row, Run, Spread};
use crate::bench::draw::{Chart, Line, Page, Row as Drawn, Rows, Table, about_machine, colour, number};
use crate::bench::report::machine_lines;
use quorate_command::print::amount;

/// For the terminal.
pub(super) fn of(document: &Document) -> String {
    let Document { version, subject, replicas, callers, connections, bytes, keys, rounds, seconds, .. } =
        document;
    let peer = subject.peer;
    let valid = if document.valid { "" } else { "NOT VALID, see below. " };
    let mut lines = vec![
        format!(
            "{valid}compare: quorate {version} beside {peer} {}; {} on each side, {}, nothing encrypted",
            subject.peer_version,
            servers(*replicas),
            subject.protocol
        ),
        format!(
            "  {callers} callers on {connections} connections, values of {bytes} B, {keys} keys; rounds: {rounds} of {seconds} s for each side, by turns"
        ),
        format!("  durability: ours {}; {peer} {}", ours(document), subject.peer_durability),
        "  in brackets the lowest and the highest round; ratios are taken within a round; CPU: all servers of a side for each call, the load generator \
         not counted"
            .to_owned(),
        table(document).text(),
    ];
    lines.extend(failures(document).map(|why| format!("  NOT VALID: {why}")));
    lines.push(machine_lines(&document.machine));
    lines.join("\n")
}

fn servers(replicas: u16) -> String {
    if replicas == 1 { "one server".to_owned() } else { format!("{replicas} servers") }
}

fn ours(document: &Document) -> String {
    format!("each write synced before its answer ({})", document.durability)
}

/// Why the result means nothing.
fn failures(document: &Document) -> impl Iterator<Item = String> + '_ {
    let peer = document.subject.peer;
    document.rows.iter().flat_map(move |row| {
        let of = move |runs: &[Run], side: &str| {
            let why = runs.iter().find_map(|run| run.failed.clone());
            why.map(|why| format!("{}, {side}: {why}", row.operation))
        };
        [of(&row.our_runs, "ours"), of(&row.their_runs, peer)].into_iter().flatten().collect::<Vec<_>>()
    })
}

fn table(document: &Document) -> Table {
    let cells = |figures: &Figures, rate: fn(f64) -> String, other: fn(f64) -> String| {
        let text = |of: Option<Spread>, show| of.map_or("-".to_owned(), |spread| spread.text(show));
        [
            text(figures.per_s, rate),
            text(figures.cpu_us, other),
            text(figures.p50_us, other),
            text(figures.p99_us, other),
        ]
    };
    let row = |row: &Row| {
        let named = |name: String, cells: [String; 4]| [name].into_iter().chain(cells).collect();
        let (operation, peer) = (&row.operation, document.subject.peer);
        [
            (colour(0), named(format!("{operation}: ours"), cells(&row.ours, amount, number))),
            (colour(1), named(format!("{operation}: {peer}"), cells(&row.theirs, amount, number))),
            ("", named(format!("{operation}: ours over {peer}"), cells(&row.ratios, two, two))),
        ]
    };
    let head = ["", "calls/s", "CPU us a call", "p50 us", "p99 us"].map(str::to_owned);
    Table { head: head.to_vec(), rows: document.rows.iter().flat_map(row).collect() }
}

/// A ratio.
fn two(value: f64) -> String {
    format!("{value:.2}")
}

/// The page.
pub(super) fn page(document: &Document) -> Page {
    let Document { subject, rounds, .. } = document;
    let peer = subject.peer;
    let mark = |spread: Option<Spread>| spread.and_then(Spread::mark);
    let each = |of: fn(&Figures) -> Option<Spread>| {
        let row = |row: &Row| Drawn {
            name: row.operation.clone(),
            marks: vec![mark(of(&row.ours)), mark(of(&row.theirs))],
        };
        document.rows.iter().map(row).collect::<Vec<_>>()
    };
    let ratios = |row: &Row| {
        let named = [
            ("calls per second", row.ratios.per_s),
            ("processor time for each call", row.ratios.cpu_us),
            ("median latency", row.ratios.p50_us),
            ("99th percentile of latency", row.ratios.p99_us),
        ];
        named.map(|(name, of)| Drawn { name: format!("{}: {name}", row.operation), marks: vec![mark(of)] })
    };
    let (both, ratio) = (["ours", peer], format!("ours over {peer}"));
    let title = format!("Ours beside {peer}, ratios within a round");
    let drawn = vec![
        Rows::new(
            &title,
            &format!("times {peer}'s"),
            &[&ratio],
            document.rows.iter().flat_map(ratios).collect(),
        )
        .beside_one(),
        Rows::new("Rate", "calls per second", &both, each(|of| of.per_s)).logarithmic(),
        Rows::new("Processor time of all servers for each call", "microseconds", &both, each(|of| of.cpu_us))
            .logarithmic(),
        Rows::new("Median latency", "microseconds", &both, each(|of| of.p50_us)).logarithmic(),
        Rows::new("99th percentile of latency", "microseconds", &both, each(|of| of.p99_us)).logarithmic(),
    ];
    Page {
        title: format!("quorate beside {peer} {}", subject.peer_version),
        intro: format!(
            "{}The same client code asked both for the same, by turns. Points are medians of rounds, with lines from the lowest to the highest.",
            if document.valid { "" } else { "NOT VALID, see below. " }
        ),
        rows: drawn,
        charts: if *rounds > 1 {
            document.rows.iter().map(|row| in_turns(row, peer)).collect()
        } else {
            Vec::new()
        },
        table: table(document),
        about: about(document),
        facts: failures(document).map(|why| format!("NOT VALID: {why}")).collect(),
    }
}

/// The rates of one operation, round by round.
fn in_turns(row: &Row, peer: &str) -> Chart {
    let points = |runs: &[Run]| (1..).zip(runs).map(|(at, run)| (f64::from(at), Some(run.per_s))).collect();
    Chart {
        title: format!("{}: rates, round by round", row.operation),
        x_label: "round".into(),
        y_label: "calls per second".into(),
        logarithmic: false,
        x_most: row.our_runs.len() as f64,
        lines: vec![
            Line::plain("ours", colour(0), points(&row.our_runs)),
            Line::plain(peer, colour(1), points(&row.their_runs)),
        ],
        bars_label: None,
    }
}

fn about(document: &Document) -> Vec<(&'static str, String)> {
    let Document { version, subject, replicas, callers, connections, bytes, keys, rounds, seconds, .. } =
        document;
    let peer = subject.peer;
    let mut about = vec![
        ("ours", format!("quorate {version}, the same protocol by its front")),
        (peer, subject.peer_version.clone()),
        ("durability of ours", ours(document)),
        ("durability of the other", subject.peer_durability.to_owned()),
        ("payload", format!("values of {bytes} B, {keys} keys")),
        (
            "callers",
            format!(
                "{callers}, each with one request under way, on {connections} connections; {}",
                subject.protocol
            ),
        ),
        (
            "replicas",
            format!(
                "{} on each side, {} faults, nothing is encrypted",
                servers(*replicas),
                document.fault_model
            ),
        ),
        ("rounds", format!("{rounds} of {seconds} s for each side, by turns")),
        ("floor", format!("not run: {peer} is the other side")),
    ];
    about.extend(about_machine(&document.machine));
    about
}
