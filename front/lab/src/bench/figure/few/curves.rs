//! The figures `visigoth-4` and `visigoth-5`: latency against throughput in a closed loop, while the number of clients grows.

use super::{check, growing, head, worth};
use crate::bench::draw::{Chart, Line, Page, Table, colour};
use crate::bench::figure::closed::{self, CLIENTS, Curve, Head, Kind, Point, drawn, lines_about, listed};
use crate::bench::figure::{Drawn, FigureArgs, shares};
use quorate_command::failure::Outcome;
use quorate_command::print::amount;
use serde::Serialize;

/// Which of the two.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::bench::figure) enum What {
    /// Kinds of clusters that survive the same number of faults
    SameFaults,
    /// Clusters of six replicas with different numbers
    SixReplicas,
}

/// u, s and o of clusters of six replicas: u falls as o grows; then s grows at the cost of u.
const SIX: [(u32, u32, u32); 5] = [(4, 1, 0), (3, 1, 1), (2, 1, 2), (3, 2, 0), (2, 2, 1)];

impl What {
    fn name(self) -> &'static str {
        match self {
            Self::SameFaults => "visigoth-4",
            Self::SixReplicas => "visigoth-5",
        }
    }

    fn title(self, faults: u32) -> String {
        match self {
            Self::SameFaults => format!("Latency and throughput of clusters that survive {faults} faults"),
            Self::SixReplicas => "Latency and throughput of six replicas, by u, s and o".into(),
        }
    }

    /// The clusters that it compares.
    pub(super) fn kinds(self, faults: u32, t_ms: u32) -> Vec<Kind> {
        match self {
            Self::SameFaults => worth::kinds(faults, t_ms),
            Self::SixReplicas => SIX
                .map(|(u, s, o)| Kind::visigoth(u, s, o, t_ms).named(format!("u={u},s={s},o={o}")))
                .to_vec(),
        }
    }

    /// What the paper says.
    fn paper(self) -> &'static str {
        match self {
            Self::SameFaults => {
                "the paper, 1 KB, three faults, one machine for each replica: latencies are alike until clusters are saturated; the most of \
                 visigoth is above that of byzantine; crash has more than visigoth with one replica less, and less than visigoth with two less \
                 (there timers cost throughput)"
            }
            Self::SixReplicas => {
                "the paper, six replicas: u for o has almost no effect; more s raises the most, since n-s replies are enough. Here s=2, o=0 waits \
                 for 4 of 6, and s=1 for 5"
            }
        }
    }
}

#[derive(Serialize)]
struct Document {
    #[serde(flatten)]
    head: Head,
    faults: Option<u32>,
    curves: Vec<Curve>,
}

/// Measures and draws.
pub(in crate::bench::figure) fn draw(args: &FigureArgs, what: What) -> Outcome<Drawn> {
    check(args)?;
    let faults = args.few.faults.iter().copied().max().unwrap_or(1);
    let loads = growing(args);
    let bytes = args.few.request_bytes_most().to_string();
    let mut head = head(args, what.name(), &bytes, &listed(&args.closed.clients(&CLIENTS)));
    let measured = closed::measure(&args.how(), what.kinds(faults, args.few.t_ms), &loads)?;
    let curves = measured.iter().map(|rounds| rounds.curve(&loads)).collect::<Outcome<Vec<Curve>>>()?;
    head.valid = curves.iter().all(Curve::is_valid);
    let document = Document { head, faults: (what == What::SameFaults).then_some(faults), curves };
    drawn(&document.head, &page(&document, what, faults), &document)
}

fn page(document: &Document, what: What, faults: u32) -> Page {
    let head = &document.head;
    let by_rate = |point: &Point| point.per_s.median;
    let by_cpu = |point: &Point| point.per_replica_cpu_s.map_or(0.0, |per| per.median);
    Page {
        title: what.title(faults),
        intro: format!(
            "{}; {}; {}, {} s for each number of clients. Each point is a number of clients.",
            head.payload,
            head.load,
            shares::rounds(head.rounds),
            head.seconds
        ),
        charts: vec![
            chart(document, "Mean latency against throughput", "requests per second", by_rate),
            chart(
                document,
                "Mean latency against requests for each second of processor time of all replicas",
                "requests per replica CPU second",
                by_cpu,
            ),
        ],
        table: table(document),
        facts: facts(document, what),
        ..Page::default()
    }
}

fn chart(document: &Document, title: &str, x_label: &str, x: fn(&Point) -> f64) -> Chart {
    let line = |(at, curve): (usize, &Curve)| Line {
        name: curve.shown.legend(),
        colour: colour(at),
        points: curve.points.iter().map(|point| (x(point), Some(point.mean_ms.median))).collect(),
        bars: Vec::new(),
        ranges: Vec::new(),
    };
    let all = document.curves.iter().flat_map(|curve| &curve.points);
    Chart {
        title: title.into(),
        x_label: x_label.into(),
        y_label: "milliseconds (logarithmic)".into(),
        logarithmic: true,
        x_most: all.map(x).fold(0.0, f64::max),
        lines: document.curves.iter().enumerate().map(line).collect(),
        bars_label: None,
    }
}

fn table(document: &Document) -> Table {
    let head = [
        "cluster",
        "replicas",
        "quorum",
        "clients",
        "requests/s",
        "mean ms",
        "p50 ms",
        "p99 ms",
        "per replica CPU s",
        "oracle's cores",
    ];
    let rows = document.curves.iter().enumerate().flat_map(|(at, curve)| {
        let shown = &curve.shown;
        let fixed = [
            shown.fault_model.clone() + ", " + shown.protocol,
            shown.replicas.to_string(),
            shown.quorum.to_string(),
        ];
        let refused = shown.refused.is_some().then(|| vec!["-".to_owned(), "refused".to_owned()]);
        let measured = curve.points.iter().map(cells).chain(refused);
        let rows = measured.map(move |cells| (colour(at), fixed.iter().cloned().chain(cells).collect()));
        rows.collect::<Vec<(&'static str, Vec<String>)>>()
    });
    Table { head: head.map(str::to_owned).to_vec(), rows: rows.collect() }
}

fn cells(point: &Point) -> Vec<String> {
    let ms = |ms: f64| format!("{ms:.2}");
    vec![
        point.clients.to_string(),
        shares::cell(&point.per_s, amount),
        shares::cell(&point.mean_ms, ms),
        ms(point.p50_ms.median),
        ms(point.p99_ms.median),
        point.per_replica_cpu_s.map_or("-".into(), |per| shares::cell(&per, amount)),
        point.oracle_cores.map_or("-".into(), |cores| format!("{:.3}", cores.median)),
    ]
}

fn facts(document: &Document, what: What) -> Vec<String> {
    let mut facts = document.head.facts();
    facts.push(what.paper().into());
    let most = |curve: &Curve| curve.points.iter().map(|point| point.per_s.median).reduce(f64::max);
    let least = |curve: &Curve| curve.points.first().map(|point| point.mean_ms.median);
    let first = document.curves.iter().find_map(|curve| Some((curve, most(curve)?, least(curve)?)));
    if let Some((beside, rate, ms)) = first {
        let times = |curve: &Curve| {
            let (rate, ms) = (most(curve)? / rate.max(1.0), least(curve)? / ms.max(1e-6));
            Some(format!("{} {rate:.2} and {ms:.2} times", curve.shown.family))
        };
        let all: Vec<String> = document.curves.iter().filter_map(times).collect();
        facts.push(format!(
            "here, the most requests per second and the mean latency of the first number of clients, beside {}: {}",
            beside.shown.family,
            all.join("; ")
        ));
    }
    facts.extend(lines_about(document.curves.iter()));
    facts.extend(document.head.machine());
    facts
}
