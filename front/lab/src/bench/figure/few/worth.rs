//! The figure `visigoth-3`: what a replica is worth. Requests for each second of processor time of all replicas, and for each replica, by the
//! number of faults that the cluster survives.

use super::{check, head};
use crate::bench::draw::{Chart, Page, Table, colour};
use crate::bench::figure::closed::{
    self, Curve, Head, Kind, Load, Point, Rounds, drawn, lines_about, listed,
};
use crate::bench::figure::{Drawn, FigureArgs, shares};
use crate::bench::median::Median;
use quorate_command::failure::Outcome;
use quorate_command::print::amount;
use quorate_order::{Feature, Protocol};
use serde::Serialize;

/// The number of faults for which there are goals.
const GOAL_FAULTS: u32 = 3;
/// A request from this size on is a large one.
const LARGE: usize = 1024;

/// One kind of cluster beside another one.
#[derive(Debug, Serialize)]
pub(super) struct Ratio {
    pub(super) faults: u32,
    pub(super) request_bytes: usize,
    pub(super) of: String,
    pub(super) beside: String,
    /// Requests for each second of processor time, the first divided by the second, round by round; null if one was refused.
    pub(super) times: Option<Median>,
    /// The same for requests for each replica, if each had a core: the paper's throughput per dollar.
    pub(super) times_each: Option<Median>,
    /// What `times` is to be at least; null: there is no goal.
    pub(super) goal: Option<f64>,
}

#[derive(Serialize)]
struct Document {
    #[serde(flatten)]
    head: Head,
    curves: Vec<Curve>,
    ratios: Vec<Ratio>,
}

/// Measures and draws.
pub(in crate::bench::figure) fn draw(args: &FigureArgs) -> Outcome<Drawn> {
    check(args)?;
    let (clients, bytes) = (args.closed.clients_most(), &args.few.request_bytes);
    let loads: Vec<Load> = bytes.iter().map(|bytes| Load::commands(clients, *bytes)).collect();
    let mut head = head(args, "visigoth-3", &listed(bytes), &clients.to_string());
    let kinds = args.few.faults.iter().flat_map(|faults| kinds(*faults, args.few.t_ms)).collect();
    let measured = closed::measure(&args.how(), kinds, &loads)?;
    let curves = measured.iter().map(|rounds| rounds.curve(&loads)).collect::<Outcome<Vec<Curve>>>()?;
    head.valid = curves.iter().all(Curve::is_valid);
    let document = Document { head, curves, ratios: ratios(&measured, &loads) };
    drawn(&document.head, &page(&document), &document)
}

/// What survives so many faults.
pub(super) fn kinds(faults: u32, t_ms: u32) -> Vec<Kind> {
    vec![
        Kind::crash(faults, Protocol::default()),
        Kind::crash(faults, Feature::CountOnFast.protocol()),
        Kind::byzantine(faults),
        Kind::visigoth(faults, 1, 0, t_ms),
        Kind::visigoth(faults, 1, 1, t_ms),
    ]
}

/// Each kind with few slow replicas beside each other one that survives as many faults.
fn ratios(measured: &[Rounds], loads: &[Load]) -> Vec<Ratio> {
    let is_few = |rounds: &&Rounds| rounds.kind.model.visigoth().is_some();
    let mut ratios = Vec::new();
    for (at, load) in loads.iter().enumerate() {
        for own in measured.iter().filter(is_few) {
            let others =
                measured.iter().filter(|other| !is_few(other) && other.kind.faults == own.kind.faults);
            ratios.extend(others.map(|other| Ratio {
                faults: own.kind.faults,
                request_bytes: load.request_bytes,
                of: own.kind.shown().name(),
                beside: other.kind.shown().name(),
                times: own.times(other, at),
                times_each: own.times_each(other, at),
                goal: goal(own.kind.faults, load.request_bytes, other.kind.model.may_lie()),
            }));
        }
    }
    ratios
}

/// How many times the requests of another kind are to be had for the same processor time.
pub(super) fn goal(faults: u32, request_bytes: usize, beside_liars: bool) -> Option<f64> {
    let goal = match (beside_liars, request_bytes < LARGE) {
        (true, _) => 1.8,
        (false, true) => 1.0,
        (false, false) => 1.25,
    };
    (faults == GOAL_FAULTS).then_some(goal)
}

impl Ratio {
    /// For readers.
    pub(super) fn text(&self) -> Option<String> {
        let times = self.times?;
        let goal = self.goal.map_or(String::new(), |goal| {
            let reached = if times.median >= goal { "reached" } else { "MISSED" };
            format!(" (goal {goal}: {reached})")
        });
        let show = |times: Median| shares::cell(&times, |times| format!("{times:.3}"));
        let each = self.times_each.map_or(String::new(), |times| {
            format!("; if each replica had a core, {} times the requests for each", show(times))
        });
        let Self { faults, request_bytes, of, beside, .. } = self;
        let faults = if *faults == 1 { "1 fault".to_owned() } else { format!("{faults} faults") };
        Some(format!(
            "{faults}, {request_bytes} B: {of}: {} times the requests per replica CPU second of {beside}{goal}{each}",
            show(times)
        ))
    }
}

fn page(document: &Document) -> Page {
    let mut sizes: Vec<usize> = Vec::new();
    for point in document.curves.iter().flat_map(|curve| &curve.points) {
        if !sizes.contains(&point.request_bytes) {
            sizes.push(point.request_bytes);
        }
    }
    let both = |bytes: usize| {
        [
            chart(document, bytes, "Requests for each second of processor time of all replicas", |point| {
                point.per_replica_cpu_s
            }),
            chart(document, bytes, "Requests per second for each replica, if each had a core", |point| {
                point.per_busiest_cpu_s_and_replica
            }),
        ]
    };
    let head = &document.head;
    Page {
        title: "What a replica is worth, by the number of faults that are survived".into(),
        intro: format!(
            "{}; as many as the cluster can do: {}; {}, {} s each. At one price for each replica, requests per second for each replica are \
             the paper's throughput per dollar.",
            head.payload,
            head.load,
            shares::rounds(head.rounds),
            head.seconds
        ),
        charts: sizes.into_iter().flat_map(both).collect(),
        table: table(document),
        facts: facts(document),
        ..Page::default()
    }
}

fn families(document: &Document) -> Vec<String> {
    let mut families: Vec<String> = Vec::new();
    for curve in &document.curves {
        if !families.contains(&curve.shown.family) {
            families.push(curve.shown.family.clone());
        }
    }
    families
}

fn chart(document: &Document, bytes: usize, title: &str, value: fn(&Point) -> Option<Median>) -> Chart {
    let of = |family: &str| {
        let own = document.curves.iter().filter(|curve| curve.shown.family == family);
        let points = own.flat_map(|curve| curve.points.iter().map(|point| (curve.shown.faults, point)));
        let sized = points.filter(|(_, point)| point.request_bytes == bytes);
        sized.map(|(faults, point)| (f64::from(faults), value(point))).collect::<Vec<_>>()
    };
    let lines = families(document).into_iter().enumerate().map(|(at, family)| {
        let values = of(&family);
        shares::line(family, colour(at), values.into_iter())
    });
    let most = document.curves.iter().map(|curve| curve.shown.faults).max().unwrap_or(1);
    Chart {
        title: format!("{title}, {bytes} B"),
        x_label: "faults that are survived".into(),
        y_label: "requests".into(),
        logarithmic: false,
        // With room for the ranges at the last one.
        x_most: f64::from(most) + 0.1,
        lines: lines.collect(),
        bars_label: None,
    }
}

fn table(document: &Document) -> Table {
    let head = [
        "cluster",
        "faults",
        "replicas",
        "quorum",
        "bytes",
        "requests/s",
        "per replica CPU s",
        "per s and replica",
        "if each had a core",
        "oracle's cores",
    ];
    let families = families(document);
    let rows = document.curves.iter().flat_map(|curve| {
        let at = families.iter().position(|family| *family == curve.shown.family).unwrap_or(0);
        let shown = &curve.shown;
        let fixed = [shown.fault_model.clone() + ", " + shown.protocol, shown.faults.to_string()];
        let fixed = fixed.into_iter().chain([shown.replicas.to_string(), shown.quorum.to_string()]);
        let fixed: Vec<String> = fixed.collect();
        let refused = shown.refused.is_some().then(|| vec!["-".to_owned(), "refused".to_owned()]);
        let measured = curve.points.iter().map(cells);
        let rows = measured.chain(refused).map(move |cells| {
            let cells: Vec<String> = fixed.iter().cloned().chain(cells).collect();
            (colour(at), cells)
        });
        rows.collect::<Vec<_>>()
    });
    Table { head: head.map(str::to_owned).to_vec(), rows: rows.collect() }
}

fn cells(point: &Point) -> Vec<String> {
    let some = |value: Option<Median>| value.map_or("-".into(), |value| shares::cell(&value, amount));
    vec![
        point.request_bytes.to_string(),
        shares::cell(&point.per_s, amount),
        some(point.per_replica_cpu_s),
        amount(point.per_s_and_replica.median),
        some(point.per_busiest_cpu_s_and_replica),
        point.oracle_cores.map_or("-".into(), |cores| format!("{:.3}", cores.median)),
    ]
}

fn facts(document: &Document) -> Vec<String> {
    let mut facts = document.head.facts();
    facts.push(
        "if each had a core: requests for each second of processor time of the busiest replica, divided by the number of replicas"
            .into(),
    );
    facts.push(
        "the paper, one machine for each replica, throughput per dollar, s=1: 109 % to 159 % more than byzantine (2.09 to 2.59 times), up to \
         79 % more than crash (1.79 times)"
            .into(),
    );
    facts.push(
        "crash, mod-smart: with crash faults it has PROPOSE and ACCEPT, and no WRITE; the paper's crash mode kept WRITE, as its visigoth mode \
         did, and there is no switch for that here. byzantine with two faults has seven replicas with WRITE, as many as crash with three"
            .into(),
    );
    facts.extend(document.ratios.iter().filter_map(Ratio::text));
    facts.extend(lines_about(document.curves.iter()));
    facts.extend(document.head.machine());
    facts
}
