//! What is drawn of the table.

use super::result::{Document, Row};
use crate::bench::draw::{Mark, Page, Row as Drawn, Rows, about_machine};
use crate::bench::median::Median;

pub(super) fn page(document: &Document) -> Page {
    let mark = |median: &Option<Median>| median.as_ref().and_then(Mark::bounded);
    let with_floor = || document.lines.iter().filter(|row| row.floor.is_some());
    let rates = with_floor().map(|row| Drawn {
        name: format!("{}, {}/s", row.command, row.unit),
        marks: vec![mark(&row.ours), mark(&row.floor)],
    });
    let ratio = |of: fn(&Row) -> &Option<Median>| {
        let rows = with_floor().filter(|row| of(row).is_some());
        rows.map(|row| Drawn { name: row.command.clone(), marks: vec![mark(of(row))] }).collect()
    };
    let mut rows = vec![
        Rows::new(
            "Rate beside the null program, ratios within a round",
            "times the floor's",
            &["ratio"],
            ratio(|row| &row.ratio),
        ),
        Rows::new(
            "Median latency beside the null program",
            "times the floor's",
            &["ratio"],
            ratio(|row| &row.p50_ratio),
        ),
        Rows::new("Rate", "per second", &["ours", "the null program (floor)"], rates.collect()).logarithmic(),
    ];
    let idle = document.lines.iter().filter(|row| row.idle_leader_percent.is_some());
    let idle: Vec<Drawn> = idle
        .map(|row| Drawn {
            name: row.command.clone(),
            marks: vec![mark(&row.idle_leader_percent), mark(&row.idle_other_percent)],
        })
        .collect();
    if !idle.is_empty() {
        rows.push(Rows::new(
            "Replicas that nobody uses",
            "percent of a core",
            &["leader", "each other one"],
            idle,
        ));
    }
    let peers = document.peers.iter().filter(|row| row.failed.is_none());
    let peers: Vec<Drawn> = peers
        .map(|row| Drawn { name: format!("{}: {}", row.peer, row.name), marks: vec![mark(&row.per_s)] })
        .collect();
    if !peers.is_empty() {
        rows.push(
            Rows::new("Other programs, in the same rounds", "per second", &["rate"], peers).logarithmic(),
        );
    }
    rows.retain(|rows| !rows.rows.is_empty());
    let confidence = document.lines.iter().find_map(|row| row.ours).map_or(0.0, |median| median.confidence);
    let lines = document.lines.iter().map(|row| (row.line.as_str(), &row.failed));
    let peers = document.peers.iter().map(|row| (row.peer.as_str(), &row.failed));
    let failed =
        lines.chain(peers).filter_map(|(name, why)| Some(format!("{name} is NOT VALID: {}", why.as_ref()?)));
    Page {
        title: "The table of the performance page".into(),
        intro: format!(
            "Medians of rounds; lines are bounds that hold with a confidence of {confidence:.1} %."
        ),
        rows,
        about: about(document),
        facts: failed.collect(),
        ..Page::default()
    }
}

fn about(document: &Document) -> Vec<(&'static str, String)> {
    let mut about = vec![
        ("durability", "as each line says; group where it says nothing".to_owned()),
        ("payload, callers, replicas", "the defaults of each line's command, or as it says".to_owned()),
        ("rounds", format!("{} of {} s, all lines in turns", document.rounds, document.seconds)),
        ("floor", "the null program, beside each line in each round".to_owned()),
    ];
    about.extend(about_machine(&document.machine));
    about
}
