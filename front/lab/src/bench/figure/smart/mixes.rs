//! The figure `bft-smart-6`: requests per second by the share of reads. Reads are small and get a record, commands have one and get nothing.

use super::{
    Beside, Shape, above, all_of, below, beside, byzantine, chart, crash, curves_of, facts, intro, span,
    table,
};
use crate::bench::bft::BYTES_MAX;
use crate::bench::draw::Page;
use crate::bench::figure::closed::{self, Curve, Head, Load, Point, drawn, listed};
use crate::bench::figure::{Drawn, FigureArgs, refuse};
use crate::bench::median::Median;
use quorate_command::failure::Outcome;
use serde::Serialize;

const NAME: &str = "bft-smart-6";

#[derive(Serialize)]
struct Document {
    #[serde(flatten)]
    head: Head,
    record_bytes: Vec<usize>,
    crash_beside_byzantine: Vec<Beside>,
    shapes: Vec<Shape>,
    curves: Vec<Curve>,
}

/// Measures and draws.
pub(in crate::bench::figure) fn draw(args: &FigureArgs) -> Outcome<Drawn> {
    args.closed.check()?;
    let (sizes, mut reads) = (args.smart.record_bytes.clone(), args.smart.reads.clone());
    reads.sort_unstable();
    reads.dedup();
    if sizes.is_empty() || sizes.iter().any(|bytes| *bytes > BYTES_MAX) {
        return refuse("--record-bytes is a list of numbers up to 262144");
    }
    let clients = args.closed.clients_most();
    let load = |bytes: usize, percent: u32| Load {
        clients,
        request_bytes: bytes,
        reply_bytes: bytes,
        reads_percent: Some(percent),
    };
    let loads: Vec<Load> =
        sizes.iter().flat_map(|bytes| reads.iter().map(|percent| load(*bytes, *percent))).collect();
    let how = args.how();
    let payload = format!(
        "records of {} B: a command has one and is answered with nothing, a read has 4 B and is answered with one; {} % of requests read",
        listed(&sizes),
        listed(&reads)
    );
    let mut head = Head::new(&how, NAME, payload, &clients.to_string());
    let measured = closed::measure(&how, vec![byzantine(1), crash(1)], &loads)?;
    let curves = curves_of(&measured, &loads, &mut head)?;
    let beside = beside(&measured, &loads);
    let shapes = shapes(&beside, &curves, &sizes);
    let document = Document { head, record_bytes: sizes, crash_beside_byzantine: beside, shapes, curves };
    drawn(&document.head, &page(&document), &document)
}

/// The share of reads, and requests per second.
type Read = (u32, Median);

/// The points of a record's size.
fn of(curve: &Curve, bytes: usize) -> Vec<Read> {
    let own = curve.points.iter().filter(|point| point.request_bytes == bytes);
    own.filter_map(|point| Some((point.reads_percent?, point.per_s))).collect()
}

/// The one with the most requests per second.
pub(super) fn best(points: &[Read]) -> Option<Read> {
    points.iter().copied().max_by(|a, b| a.1.median.total_cmp(&b.1.median))
}

/// Whether the most requests per second are done with neither the fewest reads nor the most.
pub(super) fn best_is_inside(points: &[Read]) -> Option<bool> {
    let [first, inside @ .., last] = points else { return None };
    let best = best(inside)?.1;
    all_of([first, last].into_iter().map(|end| below(&end.1, &best)))
}

fn shapes(all: &[Beside], curves: &[Curve], sizes: &[usize]) -> Vec<Shape> {
    let first = span(all.iter()).map(|words| Shape {
        paper: "at each share of reads the crash mode is 5 to 15 % above the Byzantine one".into(),
        here: format!("it has {words} the rate"),
        same_way: all_of(all.iter().map(|beside| above(&beside.times, 1.0))),
    });
    let named = |bytes: usize, text: &dyn Fn(&[Read]) -> Option<String>| {
        let one = |curve: &Curve| Some(format!("{} {}", curve.shown.family, text(&of(curve, bytes))?));
        let all: Vec<String> = curves.iter().filter_map(one).collect();
        format!("with {bytes} B: {}", all.join(", "))
    };
    let large = sizes.iter().copied().max().filter(|bytes| *bytes >= 1024).map(|bytes| Shape {
        paper: "with 1024 B most requests are done with 75 % reads: with more, large replies are the limit"
            .into(),
        here: named(bytes, &|points| Some(format!("the most with {} %", best(points)?.0))),
        same_way: all_of(curves.iter().map(|curve| best_is_inside(&of(curve, bytes)))),
    });
    let ends = |points: &[Read]| Some((points.first()?.1, points.last()?.1));
    let small = sizes.iter().copied().min().filter(|bytes| *bytes < 1024).map(|bytes| Shape {
        paper: "with 100 B more reads mean more requests per second".into(),
        here: named(bytes, &|points| {
            let (first, last) = ends(points)?;
            Some(format!("{:.2} times from the fewest reads to the most", last.median / first.median))
        }),
        same_way: all_of(curves.iter().map(|curve| {
            let (first, last) = ends(&of(curve, bytes))?;
            below(&first, &last)
        })),
    });
    first.into_iter().chain(large).chain(small).collect()
}

fn page(document: &Document) -> Page {
    let charts = document.record_bytes.iter().map(|bytes| {
        let at = |_: &Curve, point: &Point| {
            point.reads_percent.filter(|_| point.request_bytes == *bytes).map(f64::from)
        };
        chart(
            &document.curves,
            (format!("Requests per second, {bytes} B"), "percent of requests that only read"),
            at,
        )
    });
    let more = [
        "reads here see every write that was acknowledged before: where replicas may stop, the leader asks a quorum once for all reads that wait; \
         where they may lie, a quorum gives the client the same answer, or the read is ordered like a command. The paper does not say whether its \
         reads are ordered",
        "the paper's figure 6 has 1,600 clients and curves, and its text no numbers of them. Here loopback carries replies, so no network is the limit. \
         The null program only writes: it is beside 0 % reads",
    ];
    Page {
        title: "Requests per second by the share of reads, beside figure 6 of BFT-SMaRt".into(),
        intro: intro(&document.head),
        charts: charts.collect(),
        table: table(&document.curves, &["record B", "% reads"], |_, point| {
            let percent = point.reads_percent.map_or("-".into(), |percent| percent.to_string());
            vec![point.request_bytes.to_string(), percent]
        }),
        facts: facts(&document.head, &more, &document.shapes, &document.curves),
        ..Page::default()
    }
}
