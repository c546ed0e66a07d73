//! The table `bft-smart-2`: the most requests per second, with how many clients, and the rate with 200 clients.

use super::{
    NamedArgs, Payload, Shape, above, byzantine, chart, crash, curves_of, facts, intro, payload, table, words,
};
use crate::bench::draw::{Mark, Page, Row, Rows as Drawing};
use crate::bench::figure::Drawn;
use crate::bench::figure::closed::{self, Curve, Head, Kind, Load, Point, Rounds, drawn, listed};
use crate::bench::median::Median;
use quorate_command::failure::Outcome;
use quorate_order::Protocol;
use serde::Serialize;

pub(super) const NAME: &str = "bft-smart-2";
const PAYLOAD: Payload = payload(0, 0);
/// With so many clients the paper compares all systems.
const ALL: usize = 200;
const CLIENTS: [usize; 5] = [25, 50, 100, ALL, 400];

/// A line of the paper's table: the most requests per second, with how many clients, and the rate with 200.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Paper {
    system: &'static str,
    per_s: f64,
    clients: u32,
    per_s_with_200: f64,
}

const fn paper(system: &'static str, per_s: f64, clients: u32, per_s_with_200: f64) -> Paper {
    Paper { system, per_s, clients, per_s_with_200 }
}

pub(super) const PAPER: [Paper; 5] = [
    paper("BFT-SMaRt", 83_801.0, 1000, 66_665.0),
    paper("PBFT", 78_765.0, 100, 65_603.0),
    paper("UpRight", 5_160.0, 600, 3_355.0),
    paper("CFT-SMaRt", 90_909.0, 600, 83_834.0),
    paper("JPaxos", 62_847.0, 800, 45_407.0),
];
/// Which of ours is measured beside which of the paper's.
const BYZANTINE: usize = 0;
const CRASH: usize = 3;

/// A cluster here.
#[derive(Debug, Serialize)]
struct Peak {
    cluster: String,
    family: String,
    per_s: Median,
    clients: usize,
    /// Null if 200 clients were not measured.
    per_s_with_200: Option<Median>,
    /// The paper's system of the same kind; null: it has none.
    paper: Option<Paper>,
}

#[derive(Serialize)]
struct Document {
    #[serde(flatten)]
    head: Head,
    peaks: Vec<Peak>,
    /// Crash (mod-smart) beside Byzantine, the most requests per second of each round.
    crash_beside_byzantine: Option<Median>,
    shapes: Vec<Shape>,
    paper: [Paper; 5],
    curves: Vec<Curve>,
}

/// Measures and draws.
pub(super) fn draw(args: &NamedArgs) -> Outcome<Drawn> {
    let clients = args.closed.clients(&CLIENTS);
    let loads: Vec<Load> = clients.iter().map(|clients| PAYLOAD.load(*clients)).collect();
    let how = args.how();
    let mut head = Head::new(&how, NAME, words(&[PAYLOAD]), &listed(&clients));
    let kinds = vec![byzantine(1), crash(1), Kind::crash(1, Protocol::default())];
    let measured = closed::measure(&how, kinds, &loads)?;
    let curves = curves_of(&measured, &loads, &mut head)?;
    let papers = [Some(PAPER[BYZANTINE]), Some(PAPER[CRASH]), None];
    let peaks: Vec<Peak> =
        curves.iter().zip(papers).filter_map(|(curve, paper)| peak(curve, paper)).collect();
    let times = measured[1].most_beside(&measured[0]);
    let shapes = shapes(&peaks, times, &measured[0], &clients);
    let document = Document { head, peaks, crash_beside_byzantine: times, shapes, paper: PAPER, curves };
    drawn(&document.head, &page(&document), &document)
}

fn peak(curve: &Curve, paper: Option<Paper>) -> Option<Peak> {
    let most = curve.points.iter().max_by(|a, b| a.per_s.median.total_cmp(&b.per_s.median))?;
    let with_200 = curve.points.iter().find(|point| point.clients == ALL);
    Some(Peak {
        cluster: curve.shown.name(),
        family: curve.shown.family.clone(),
        per_s: most.per_s,
        clients: most.clients,
        per_s_with_200: with_200.map(|point| point.per_s),
        paper,
    })
}

fn shapes(peaks: &[Peak], times: Option<Median>, byzantine: &Rounds, clients: &[usize]) -> Vec<Shape> {
    let first = times.map(|times| Shape {
        paper: "the crash mode's most is 1.08 times that of the Byzantine mode".into(),
        here: format!("{:.2} times", times.median),
        same_way: above(&times, 1.0),
    });
    let with_200 = clients.iter().position(|count| *count == ALL);
    let most = peaks.first().and_then(|peak| clients.iter().position(|count| *count == peak.clients));
    let second = with_200.zip(most).and_then(|(with_200, most)| {
        let times = byzantine.rate_beside(most, (byzantine, with_200))?;
        Some(Shape {
            paper: "where replicas may lie, more than 200 clients raise the rate 1.26 times".into(),
            here: format!("{} clients have {:.2} times the rate of 200", clients[most], times.median),
            same_way: match clients.iter().copied().max() {
                Some(largest) if largest > ALL && clients[most] > ALL => above(&times, 1.0),
                Some(largest) if largest > ALL => Some(false),
                _ => None,
            },
        })
    });
    first.into_iter().chain(second).collect()
}

fn page(document: &Document) -> Page {
    let own = |peak: &Peak, here: Option<Median>, paper: fn(Paper) -> f64| Row {
        name: match peak.paper {
            Some(paper) => format!("{} ({})", peak.cluster, paper.system),
            None => peak.cluster.clone(),
        },
        marks: vec![here.as_ref().and_then(Mark::bounded), peak.paper.map(paper).and_then(Mark::one)],
    };
    let others = |of: fn(Paper) -> f64| {
        let there = |paper: &&Paper| {
            !document.peaks.iter().any(|peak| peak.paper.is_some_and(|own| own.system == paper.system))
        };
        let row =
            move |paper: &Paper| Row { name: paper.system.into(), marks: vec![None, Mark::one(of(*paper))] };
        PAPER.iter().filter(there).map(row).collect::<Vec<_>>()
    };
    let most = document.peaks.iter().map(|peak| own(peak, Some(peak.per_s), |paper| paper.per_s));
    let with_200 =
        document.peaks.iter().map(|peak| own(peak, peak.per_s_with_200, |paper| paper.per_s_with_200));
    let sides = ["here", "the paper, on its machines"];
    let rows = vec![
        Drawing::new(
            "The most requests per second",
            "per second",
            &sides,
            most.chain(others(|paper| paper.per_s)).collect(),
        )
        .logarithmic(),
        Drawing::new(
            "With 200 clients",
            "per second",
            &sides,
            with_200.chain(others(|paper| paper.per_s_with_200)).collect(),
        )
        .logarithmic(),
    ];
    let by_clients = |_: &Curve, point: &Point| Some(point.clients as f64);
    let paper = PAPER.iter().map(|paper| {
        let Paper { system, per_s, clients, per_s_with_200 } = paper;
        format!("{system} {per_s:.0} with {clients} clients and {per_s_with_200:.0} with 200")
    });
    let paper = format!("the paper's table 2, requests per second: {}", paper.collect::<Vec<_>>().join("; "));
    let others =
        "PBFT, UpRight and JPaxos are not run here; raft with crash faults has no counterpart in the paper";
    Page {
        title: "The most requests per second, beside table 2 of BFT-SMaRt".into(),
        intro: intro(&document.head),
        rows,
        charts: vec![chart(
            &document.curves,
            ("Requests per second by the number of clients".into(), "clients"),
            by_clients,
        )],
        table: table(&document.curves, &["clients"], |_, point| vec![point.clients.to_string()]),
        facts: facts(&document.head, &[&paper, others], &document.shapes, &document.curves),
        ..Page::default()
    }
}
