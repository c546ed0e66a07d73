//! The table `bft-smart-1`: requests per second by the sizes of requests and of replies, where one of four replicas may lie.

use super::{NamedArgs, Payload, Shape, below, byzantine, curves_of, facts, intro, payload, table, words};
use crate::bench::draw::{Mark, Page, Row, Rows as Drawing};
use crate::bench::figure::Drawn;
use crate::bench::figure::closed::{self, Curve, Head, Load, Rounds, drawn};
use crate::bench::median::Median;
use quorate_command::failure::Outcome;
use serde::Serialize;

pub(super) const NAME: &str = "bft-smart-1";
/// The paper's table: requests per second with 1,600 clients.
const PAPER: [(Payload, f64); 9] = [
    (payload(0, 0), 83_337.0),
    (payload(0, 100), 75_138.0),
    (payload(0, 1024), 37_320.0),
    (payload(100, 0), 78_711.0),
    (payload(100, 100), 72_879.0),
    (payload(100, 1024), 36_948.0),
    (payload(1024, 0), 16_309.0),
    (payload(1024, 100), 16_284.0),
    (payload(1024, 1024), 15_878.0),
];
const NOTHING: Payload = payload(0, 0);

/// A payload, here and in the paper.
#[derive(Debug, Serialize)]
pub(super) struct Cell {
    #[serde(flatten)]
    pub(super) payload: Payload,
    pub(super) per_s: Median,
    /// Beside 0/0 in the same round; null if that was not measured.
    pub(super) share: Option<Median>,
    /// The null program's requests per second, which are as large and are answered with nothing.
    pub(super) floor_per_s: Option<Median>,
    /// Null for a payload that the paper does not have.
    pub(super) paper_per_s: Option<f64>,
    pub(super) paper_share: Option<f64>,
}

#[derive(Serialize)]
struct Document {
    #[serde(flatten)]
    head: Head,
    cells: Vec<Cell>,
    shapes: Vec<Shape>,
    curves: Vec<Curve>,
}

/// The paper's requests per second, and their share of those of 0/0.
pub(super) fn paper(payload: Payload) -> Option<(f64, f64)> {
    let (_, per_s) = PAPER.iter().find(|(of, _)| *of == payload)?;
    Some((*per_s, per_s / PAPER[0].1))
}

/// Measures and draws.
pub(super) fn draw(args: &NamedArgs) -> Outcome<Drawn> {
    let payloads = args.sizes.or(&PAPER.map(|(payload, _)| payload));
    let clients = args.closed.clients_most();
    let loads: Vec<Load> = payloads.iter().map(|payload| payload.load(clients)).collect();
    let how = args.how();
    let mut head = Head::new(&how, NAME, words(&payloads), &clients.to_string());
    let measured = closed::measure(&how, vec![byzantine(1)], &loads)?;
    let curves = curves_of(&measured, &loads, &mut head)?;
    let cells: Vec<Cell> = payloads
        .iter()
        .enumerate()
        .filter_map(|(at, of)| cell(*of, at, &payloads, &measured[0], &curves[0]))
        .collect();
    let document = Document { head, shapes: shapes(&cells), cells, curves };
    drawn(&document.head, &page(&document), &document)
}

fn cell(payload: Payload, at: usize, all: &[Payload], rounds: &Rounds, curve: &Curve) -> Option<Cell> {
    let base = all.iter().position(|of| *of == NOTHING);
    let paper = paper(payload);
    let floor = curve.floors.iter().find(|floor| floor.request_bytes == payload.request_bytes);
    Some(Cell {
        payload,
        per_s: curve.points.get(at)?.per_s,
        share: base.and_then(|base| rounds.rate_beside(at, (rounds, base))),
        floor_per_s: floor.map(|floor| floor.per_s),
        paper_per_s: paper.map(|(per_s, _)| per_s),
        paper_share: paper.map(|(_, share)| share),
    })
}

/// What the paper says in words.
pub(super) fn shapes(cells: &[Cell]) -> Vec<Shape> {
    let share = |of: Payload| cells.iter().find(|cell| cell.payload == of)?.share;
    let both = share(payload(1024, 0)).zip(share(payload(0, 1024)));
    let shape = both.map(|(request, reply)| Shape {
        paper: "a large request costs more than a large reply: 1024/0 has 0.20 of the rate of 0/0, and 0/1024 has 0.45".into(),
        here: format!("{:.2} and {:.2}", request.median, reply.median),
        same_way: below(&request, &reply),
    });
    shape.into_iter().collect()
}

fn page(document: &Document) -> Page {
    let row = |cell: &Cell, marks: Vec<Option<Mark>>| Row { name: format!("{} B", cell.payload), marks };
    let mark = |median: &Option<Median>| median.as_ref().and_then(Mark::bounded);
    let one = |value: Option<f64>| value.and_then(Mark::one);
    let shares = document.cells.iter().map(|cell| row(cell, vec![mark(&cell.share), one(cell.paper_share)]));
    let rates = document.cells.iter().map(|cell| {
        row(cell, vec![Mark::bounded(&cell.per_s), one(cell.paper_per_s), mark(&cell.floor_per_s)])
    });
    let rows = vec![
        Drawing::new(
            "Beside requests and replies of 0 bytes",
            "times the rate of 0/0",
            &["here", "the paper"],
            shares.collect(),
        ),
        Drawing::new(
            "Requests per second",
            "per second",
            &["here", "the paper, on its machines", "the null program, which answers with nothing (floor)"],
            rates.collect(),
        )
        .logarithmic(),
    ];
    let share = |cell: Option<&Cell>, of: fn(&Cell) -> Option<f64>| {
        cell.and_then(of).map_or("-".into(), |share| format!("{share:.2}"))
    };
    let table = table(
        &document.curves,
        &["request/reply B", "share of 0/0", "the paper's share", "the paper's requests/s"],
        |_, point| {
            let cell = document.cells.iter().find(|cell| cell.payload.is_of(point));
            vec![
                format!("{}/{}", point.request_bytes, point.reply_bytes),
                share(cell, |cell| Some(cell.share?.median)),
                share(cell, |cell| cell.paper_share),
                cell.and_then(|cell| cell.paper_per_s).map_or("-".into(), |per_s| format!("{per_s:.0}")),
            ]
        },
    );
    let more = ["the paper's table 1: 1,600 clients, one of four replicas may lie"];
    Page {
        title: "Requests per second by sizes of requests and replies, beside table 1 of BFT-SMaRt".into(),
        intro: intro(&document.head),
        rows,
        table,
        facts: facts(&document.head, &more, &document.shapes, &document.curves),
        ..Page::default()
    }
}
