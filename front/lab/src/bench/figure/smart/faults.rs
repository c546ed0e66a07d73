//! The figure `bft-smart-5`: requests per second by the number of faults that are survived, with 3f+1 replicas that may lie and 2f+1 that may stop.

use super::{
    Beside, Payload, Shape, above, all_of, below, beside, byzantine, chart, crash, curves_of, facts, intro,
    payload, span, table, words,
};
use crate::bench::draw::Page;
use crate::bench::figure::closed::{self, Curve, Head, Load, Rounds, drawn};
use crate::bench::figure::{Drawn, FigureArgs};
use crate::bench::median::Median;
use quorate_command::failure::Outcome;
use serde::Serialize;

const NAME: &str = "bft-smart-5";
/// Nothing, large replies, large requests, and both.
const PAYLOADS: [Payload; 4] = [payload(0, 0), payload(0, 1024), payload(1024, 0), payload(1024, 1024)];
/// A request from this size on is a large one.
const LARGE: usize = 1024;
/// Rates that differ by less differ little: the paper calls 5 to 15 % a difference.
const LITTLE: f64 = 1.15;

/// A number of faults beside the smallest one.
#[derive(Debug, Serialize)]
struct Share {
    cluster: String,
    lies: bool,
    faults: u32,
    #[serde(flatten)]
    payload: Payload,
    /// Requests per second, divided by those of the cluster of the same kind that survives the fewest, round by round.
    share: Median,
}

#[derive(Serialize)]
struct Document {
    #[serde(flatten)]
    head: Head,
    payloads: Vec<Payload>,
    shares: Vec<Share>,
    crash_beside_byzantine: Vec<Beside>,
    shapes: Vec<Shape>,
    curves: Vec<Curve>,
}

/// Measures and draws.
pub(in crate::bench::figure) fn draw(args: &FigureArgs) -> Outcome<Drawn> {
    args.closed.check()?;
    args.few.check_faults()?;
    let payloads = args.smart.sizes.or(&PAYLOADS);
    let clients = args.closed.clients_most();
    let loads: Vec<Load> = payloads.iter().map(|payload| payload.load(clients)).collect();
    let how = args.how();
    let mut head = Head::new(&how, NAME, words(&payloads), &clients.to_string());
    let kinds = args.few.faults.iter().flat_map(|faults| [byzantine(*faults), crash(*faults)]).collect();
    let measured = closed::measure(&how, kinds, &loads)?;
    let curves = curves_of(&measured, &loads, &mut head)?;
    let (shares, beside) = (shares(&measured, &payloads), beside(&measured, &loads));
    let shapes = shapes(&shares, &beside);
    let document = Document { head, payloads, shares, crash_beside_byzantine: beside, shapes, curves };
    drawn(&document.head, &page(&document), &document)
}

/// Each cluster beside the one of its kind that survives the fewest faults.
fn shares(measured: &[Rounds], payloads: &[Payload]) -> Vec<Share> {
    let mut all = Vec::new();
    for own in measured {
        let (lies, faults) = (own.kind.model.may_lie(), own.kind.faults);
        let alike = measured.iter().filter(|other| other.kind.model.may_lie() == lies);
        let Some(fewest) = alike.min_by_key(|other| other.kind.faults) else { continue };
        if fewest.kind.faults == faults {
            continue;
        }
        all.extend(payloads.iter().enumerate().filter_map(|(at, payload)| {
            let share = own.rate_beside(at, (fewest, at))?;
            Some(Share { cluster: own.kind.shown().name(), lies, faults, payload: *payload, share })
        }));
    }
    all
}

fn shapes(shares: &[Share], all: &[Beside]) -> Vec<Shape> {
    let most = shares.iter().map(|share| share.faults).max();
    let last = || shares.iter().filter(move |share| Some(share.faults) == most);
    let text = |share: &Share| {
        let kind = if share.lies { "byzantine" } else { "crash" };
        format!("{kind} {} B {:.2}", share.payload, share.share.median)
    };
    let here: Vec<String> = last().map(text).collect();
    let first = most.map(|most| Shape {
        paper: "with each payload more faults cost throughput gradually, where replicas may stop and where they may lie".into(),
        here: format!("{most} faults have these shares of the rate of the fewest: {}", here.join(", ")),
        same_way: None,
    });
    let of_size = |large: bool| all.iter().filter(move |beside| (beside.request_bytes >= LARGE) == large);
    let second = span(of_size(true)).zip(span(of_size(false))).map(|(large, small)| Shape {
        paper: "with requests of 1024 B crash and Byzantine differ little, whatever the number of faults"
            .into(),
        here: format!(
            "crash has {large} the rate of Byzantine with large requests, and {small} with small ones"
        ),
        same_way: all_of(of_size(true).map(|beside| above(&beside.times, LITTLE).map(|is_much| !is_much))),
    });
    let falls = |large: bool| {
        let those = last().filter(move |share| (share.payload.request_bytes >= LARGE) == large);
        those.map(|share| share.share).min_by(|a, b| a.median.total_cmp(&b.median))
    };
    let third = falls(true).zip(falls(false)).map(|(large, small)| Shape {
        paper: "from 1 to 3 faults large payloads lose much less than small ones".into(),
        here: format!(
            "the smallest share is {:.2} with large requests, and {:.2} with small ones",
            large.median, small.median
        ),
        same_way: below(&small, &large),
    });
    first.into_iter().chain(second).chain(third).collect()
}

fn page(document: &Document) -> Page {
    let charts = document.payloads.iter().map(|payload| {
        let at = |curve: &Curve, point: &closed::Point| {
            payload.is_of(point).then_some(f64::from(curve.shown.faults))
        };
        chart(&document.curves, (format!("Requests per second, {payload} B"), "faults that are survived"), at)
    });
    let more = [
        "the paper's figure 5 has bars, and its text no numbers of them. Its replicas have cores of their own; here more replicas share the same \
         cores, so that rates fall for that alone: requests for each second of processor time of all replicas, times their number, say what each \
         replica does for a request",
    ];
    Page {
        title: "Requests per second by the number of faults, beside figure 5 of BFT-SMaRt".into(),
        intro: intro(&document.head),
        charts: charts.collect(),
        table: table(&document.curves, &["faults", "request/reply B"], |curve, point| {
            vec![curve.shown.faults.to_string(), format!("{}/{}", point.request_bytes, point.reply_bytes)]
        }),
        facts: facts(&document.head, &more, &document.shapes, &document.curves),
        ..Page::default()
    }
}
