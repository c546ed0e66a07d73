//! The figure `bft-smart-7`: requests per second that clients sign, by the number of threads of each replica that check signatures.

use super::{Payload, Shape, above, byzantine, chart, curves_of, facts, intro, payload, table, words};
use crate::bench::draw::{Page, colour};
use crate::bench::figure::closed::{self, Curve, Head, Kind, Point, Rounds, drawn};
use crate::bench::figure::{Drawn, FigureArgs, refuse, shares};
use crate::bench::median::Median;
use quorate_command::failure::Outcome;
use serde::Serialize;

const NAME: &str = "bft-smart-7";
const PAYLOAD: Payload = payload(0, 0);

/// A number of threads beside the fewest.
#[derive(Debug, Serialize)]
struct Speedup {
    threads: u16,
    /// Requests per second, divided by those with the fewest threads, round by round.
    times: Median,
}

#[derive(Serialize)]
struct Document {
    #[serde(flatten)]
    head: Head,
    speedups: Vec<Speedup>,
    /// What signed requests have of the rate of others, with the fewest threads.
    signed_beside_unsigned: Option<Median>,
    shapes: Vec<Shape>,
    /// The first one is of clients that do not sign.
    curves: Vec<Curve>,
}

/// Measures and draws.
pub(in crate::bench::figure) fn draw(args: &FigureArgs) -> Outcome<Drawn> {
    args.closed.check()?;
    let mut threads = args.smart.threads.clone();
    threads.sort_unstable();
    threads.dedup();
    if threads.is_empty() {
        return refuse("--threads is a list of numbers from 0 to 64");
    }
    let clients = args.closed.clients_most();
    let loads = [PAYLOAD.load(clients)];
    let how = args.how();
    let mut head = Head::new(&how, NAME, words(&[PAYLOAD]), &clients.to_string());
    let signed = |threads: &u16| byzantine(1).named("signed").signed(*threads);
    let kinds: Vec<Kind> =
        [byzantine(1).named("not signed")].into_iter().chain(threads.iter().map(signed)).collect();
    let measured = closed::measure(&how, kinds, &loads)?;
    let curves = curves_of(&measured, &loads, &mut head)?;
    let fewest = &measured[1];
    let speedup = |rounds: &Rounds| {
        Some(Speedup { threads: rounds.kind.signed?, times: rounds.rate_beside(0, (fewest, 0))? })
    };
    let speedups: Vec<Speedup> = measured.iter().filter_map(speedup).collect();
    let signed_beside_unsigned = fewest.rate_beside(0, (&measured[0], 0));
    let shapes = shape(&speedups).into_iter().collect();
    let document = Document { head, speedups, signed_beside_unsigned, shapes, curves };
    drawn(&document.head, &page(&document), &document)
}

fn shape(speedups: &[Speedup]) -> Option<Shape> {
    let (first, last) = (speedups.first()?, speedups.last()?);
    Some(Shape {
        paper: "throughput grows with the hardware threads that check signatures, up to the 16 of a machine"
            .into(),
        here: format!(
            "from {} to {} threads of each replica {:.2} times",
            first.threads, last.threads, last.times.median
        ),
        same_way: if first.threads < last.threads { above(&last.times, 1.0) } else { None },
    })
}

fn page(document: &Document) -> Page {
    let at = |curve: &Curve, _: &Point| curve.shown.signed_workers.map(f64::from);
    let mut chart = chart(
        &document.curves,
        ("Requests per second".into(), "threads of each replica that check signatures; 0: the lane does"),
        at,
    );
    // Beside all numbers of threads, since it depends on none.
    let places: Vec<f64> = document.speedups.iter().map(|speedup| f64::from(speedup.threads)).collect();
    if let Some(point) = document.curves.first().and_then(|curve| curve.points.first()) {
        let points: Vec<_> = places.iter().map(|at| (*at, Some(point.per_s))).collect();
        chart.lines[0] = shares::line("not signed".into(), colour(0), points.into_iter());
    }
    let mut more = vec![
        "the paper signs with RSA of 1024 bits, which takes 1.7 ms to make and 0.09 ms to check there, and makes a request 112 B longer; here it is Ed25519, \
         64 B. The paper's figure 7 has bars, and its text no numbers of them"
            .to_owned(),
        "signatures exist where replicas may lie; where they only stop, nobody signs, so there is no such curve. Four replicas and the load generator, \
         which signs, share the cores: threads beyond the cores bring nothing, and hand-offs cost"
            .to_owned(),
    ];
    more.extend(document.signed_beside_unsigned.map(|share| {
        format!(
            "here signed requests have {:.2} of the rate of others, with the fewest threads",
            share.median
        )
    }));
    let signatures =
        document.curves.iter().filter_map(|curve| Some((curve.shown.signed_workers?, curve.signatures?)));
    more.extend(
        signatures.map(|(threads, signatures)| format!("threads {threads}, the last round: {signatures}")),
    );
    let more: Vec<&str> = more.iter().map(String::as_str).collect();
    Page {
        title: "Signed requests per second by threads, beside figure 7 of BFT-SMaRt".into(),
        intro: intro(&document.head),
        charts: vec![chart],
        table: table(&document.curves, &["threads"], |curve, _| {
            vec![curve.shown.signed_workers.map_or("-".into(), |threads| threads.to_string())]
        }),
        facts: facts(&document.head, &more, &document.shapes, &document.curves),
        ..Page::default()
    }
}
