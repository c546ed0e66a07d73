//! The figure `bft-smart-4`: latency against throughput while the number of clients grows, for each size of requests and replies, where one replica may
//! stop and where one may lie.

use super::{
    Beside, Payload, Shape, above, all_of, below, beside, byzantine, crash, curves_of, facts, intro, payload,
    span, table, words,
};
use crate::bench::draw::{Chart, Line, Page, colour};
use crate::bench::figure::closed::{self, CLIENTS, Curve, Head, Load, drawn, listed};
use crate::bench::figure::{Drawn, FigureArgs};
use crate::bench::median::Median;
use quorate_command::failure::Outcome;
use quorate_command::print::amount;
use serde::Serialize;

const NAME: &str = "bft-smart-4";
/// The paper's.
const PAYLOADS: [Payload; 4] = [payload(0, 0), payload(100, 100), payload(1024, 1024), payload(4096, 4096)];

#[derive(Serialize)]
struct Document {
    #[serde(flatten)]
    head: Head,
    payloads: Vec<Payload>,
    crash_beside_byzantine: Vec<Beside>,
    shapes: Vec<Shape>,
    curves: Vec<Curve>,
}

/// Measures and draws.
pub(in crate::bench::figure) fn draw(args: &FigureArgs) -> Outcome<Drawn> {
    args.closed.check()?;
    let payloads = args.smart.sizes.or(&PAYLOADS);
    let clients = args.closed.clients(&CLIENTS);
    let loads: Vec<Load> =
        payloads.iter().flat_map(|payload| clients.iter().map(|clients| payload.load(*clients))).collect();
    let how = args.how();
    let mut head = Head::new(&how, NAME, words(&payloads), &listed(&clients));
    let measured = closed::measure(&how, vec![byzantine(1), crash(1)], &loads)?;
    let curves = curves_of(&measured, &loads, &mut head)?;
    let beside = beside(&measured, &loads);
    let shapes = shapes(&beside, args.closed.clients_most(), &curves, &payloads);
    let document = Document { head, payloads, crash_beside_byzantine: beside, shapes, curves };
    drawn(&document.head, &page(&document), &document)
}

/// The most requests per second of a kind of cluster with this payload.
fn most(curve: &Curve, payload: Payload) -> Option<Median> {
    let points = curve.points.iter().filter(|point| payload.is_of(point));
    points.map(|point| point.per_s).max_by(|a, b| a.median.total_cmp(&b.median))
}

fn shapes(all: &[Beside], clients: usize, curves: &[Curve], payloads: &[Payload]) -> Vec<Shape> {
    let saturated = all.iter().filter(|beside| beside.clients == clients);
    let first = span(saturated.clone()).map(|words| Shape {
        paper: "with each payload the crash mode is faster than the Byzantine one".into(),
        here: format!("with {clients} clients it has {words} the rate, by payload"),
        same_way: all_of(saturated.map(|beside| above(&beside.times, 1.0))),
    });
    let falls = |curve: &Curve| {
        let all: Vec<Median> = payloads.iter().filter_map(|payload| most(curve, *payload)).collect();
        all_of(all.windows(2).map(|two| below(&two[1], &two[0])))
    };
    let ends = |curve: &Curve| {
        let (first, last) = (most(curve, *payloads.first()?)?, most(curve, *payloads.last()?)?);
        Some(format!("{} from {} to {}/s", curve.shown.family, amount(first.median), amount(last.median)))
    };
    let here: Vec<String> = curves.iter().filter_map(ends).collect();
    let second = (payloads.len() > 1).then(|| Shape {
        paper: "the larger the payload, the fewer requests per second".into(),
        here: format!("the most, from the first payload to the last: {}", here.join(", ")),
        same_way: all_of(curves.iter().map(falls)),
    });
    first.into_iter().chain(second).collect()
}

fn page(document: &Document) -> Page {
    let more = ["the paper's figure 4 has curves, and its text no numbers of them"];
    Page {
        title: "Latency and throughput by sizes of requests and replies, beside figure 4 of BFT-SMaRt".into(),
        intro: format!("{} Each point is a number of clients.", intro(&document.head)),
        charts: document.payloads.iter().map(|payload| against(&document.curves, *payload)).collect(),
        table: table(&document.curves, &["request/reply B", "clients"], |_, point| {
            vec![format!("{}/{}", point.request_bytes, point.reply_bytes), point.clients.to_string()]
        }),
        facts: facts(&document.head, &more, &document.shapes, &document.curves),
        ..Page::default()
    }
}

/// Median latency against throughput with one payload.
fn against(curves: &[Curve], payload: Payload) -> Chart {
    let line = |(at, curve): (usize, &Curve)| {
        let points = curve.points.iter().filter(|point| payload.is_of(point));
        let points = points.map(|point| (point.per_s.median, Some(point.p50_ms.median)));
        Line::plain(curve.shown.legend(), colour(at), points.collect())
    };
    let all = curves.iter().flat_map(|curve| curve.points.iter().filter(|point| payload.is_of(point)));
    Chart {
        title: format!("Median latency against throughput, {payload} B"),
        x_label: "requests per second".into(),
        y_label: "milliseconds (logarithmic)".into(),
        logarithmic: true,
        x_most: all.map(|point| point.per_s.median).fold(0.0, f64::max),
        lines: curves.iter().enumerate().map(line).collect(),
        bars_label: None,
    }
}
