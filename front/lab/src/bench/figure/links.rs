//! The figure `niagara-5`: strong reads and writes of 2 KB by the number of network links of each replica, with one instance and with one
//! instance per link. After figure 5 of "In Search of a Scalable Raft-based Replication Architecture" (PaPoC 2019).
//!
//! All replicas run on this machine, each in a network of its own (`bench::nets`). Clients use all links in turn. With several instances
//! each instance has a lane, and so a link between each two replicas; with one instance all its messages take the first link.

use super::{Drawn, FigureArgs, refuse};
use crate::bench::draw::{Chart, Line, Made, Page, Table, colour};
use crate::bench::kv::{self, Puts};
use crate::bench::load::{self, Plan};
use crate::bench::nets::{self, LINKS_MAX, Nets};
use crate::bench::options::Measurement;
use crate::bench::report::{self, Check, Durability, counted};
use crate::bench::target::Target;
use quorate::client::{Client, ReadOptions};
use quorate_command::arguments::seconds;
use quorate_command::failure::{Failure, Outcome};
use quorate_command::layout::ServiceChoice;
use quorate_command::machine::Machine;
use quorate_command::print::{amount, json};
use quorate_kv::{KvQuery, KvReply};
use serde::Serialize;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const VALUE_BYTES: usize = 2048;
/// Number of keys: so few that the writes put them all.
const KEYS: u64 = 1000;
/// Number of clients. They use the links in turn; each has one connection, and so one instance.
const CLIENTS: usize = 32;

/// One measurement.
#[derive(Clone, Serialize)]
struct Point {
    links: u16,
    instances: u16,
    lanes: u16,
    writes_per_s: f64,
    reads_per_s: f64,
    errors: u64,
    first_error: Option<String>,
    check: Check,
}

#[derive(Serialize)]
struct Document {
    figure: &'static str,
    version: &'static str,
    #[serde(flatten)]
    durability: Durability,
    tls: bool,
    fault_model: &'static str,
    protocol: &'static str,
    replicas: usize,
    payload: String,
    callers: usize,
    link_mbit: u32,
    valid: bool,
    machine: Machine,
    /// With one instance for every number of links; and with one instance per link.
    one_instance: Vec<Point>,
    one_per_link: Vec<Point>,
}

/// Measures and draws.
pub(super) fn draw(args: &FigureArgs) -> Outcome<Drawn> {
    check(args)?;
    if !args.inside_network {
        return Err(nets::enter());
    }
    let measurement = args.measurement();
    let machine = Machine::ask(&measurement.scratch);
    // As many whatever is measured, enough for all links.
    let callers = args.callers * usize::from(args.links.iter().copied().max().unwrap_or(1));
    let (mut one_instance, mut one_per_link) = (Vec::new(), Vec::new());
    for links in &args.links {
        let one = measure(args, &measurement, (*links, 1), callers)?;
        // With one link they are the same.
        let several =
            if *links == 1 { one.clone() } else { measure(args, &measurement, (*links, *links), callers)? };
        one_instance.push(one);
        one_per_link.push(several);
    }
    let all = || one_instance.iter().chain(&one_per_link);
    let document = Document {
        figure: "niagara-5",
        version: env!("CARGO_PKG_VERSION"),
        durability: Durability::planned(&measurement),
        tls: !measurement.plain,
        fault_model: "crash",
        protocol: "raft",
        replicas: usize::from(crate::bench::temporary::REPLICAS),
        payload: format!("keys of 16 B, values of {VALUE_BYTES} B"),
        callers,
        link_mbit: args.link_mbit,
        valid: all().all(|point| point.errors == 0 && point.check.is_passed()),
        machine,
        one_instance,
        one_per_link,
    };
    let page = page(&document);
    let valid = if document.valid { "" } else { "NOT VALID, see below. " };
    let mut lines = vec![format!("{valid}{}: {}", document.figure, page.title), page.table.text()];
    lines.extend(page.facts.iter().map(|fact| format!("  {fact}")));
    Ok(Drawn {
        html: page.html(&Made::now()),
        json: json(&document)?,
        text: lines.join("\n"),
        valid: document.valid,
    })
}

fn check(args: &FigureArgs) -> Outcome<()> {
    if args.links.is_empty() || args.links.iter().any(|links| !(1..=LINKS_MAX).contains(links)) {
        return refuse("--links is a list of numbers from 1 to 16");
    }
    if !(1..=100_000).contains(&args.link_mbit) {
        return refuse("--link-mbit is 1 to 100000");
    }
    if !(1..=2000).contains(&args.callers) {
        return refuse("--callers is 1 to 2000, for each link");
    }
    Ok(())
}

fn measure(
    args: &FigureArgs,
    measurement: &Measurement,
    (links, instances): (u16, u16),
    callers: usize,
) -> Outcome<Point> {
    let lanes = if instances == 1 { 1 } else { instances + 1 };
    let shaped = Measurement { instances, lanes, ..measurement.clone() };
    let nets = Nets::new(links, args.link_mbit)?;
    let mut target = Target::on(&shaped, ServiceChoice::Kv, Vec::new(), Some(&nets))?;
    target.have_clients_on(CLIENTS, &nets)?;
    let plan = Plan {
        sessions: callers,
        slots: callers,
        commands_per_call: 1,
        warm: Duration::from_secs_f64(measurement.warm),
        measure: seconds("--secs", measurement.secs)?,
    };
    let mut work = Puts::new(KEYS, VALUE_BYTES);
    let title = format!("{links} links, {}", counted(instances));
    let written = load::run(&mut target, &plan, &mut work, &title)?;
    let reads_per_s = read(&mut target, &plan)?;
    Ok(Point {
        links,
        instances,
        lanes,
        writes_per_s: written.commands as f64 / written.seconds,
        reads_per_s,
        errors: written.errors,
        first_error: written.first_error,
        check: kv::verify(&target, &work.sample)?,
    })
}

/// Strong reads per second of random keys, by all clients; each has its share of the callers.
fn read(target: &mut Target, plan: &Plan) -> Outcome<f64> {
    let clients: Vec<Client> = target.clients().cloned().collect();
    let (count, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let each = plan.slots.div_ceil(clients.len());
        let readers: Vec<_> = (1..)
            .zip(&clients)
            .map(|(seed, client)| {
                let (count, stop) = (&count, &stop);
                scope.spawn(move || read_until(client, kv::Random(seed), each, count, stop))
            })
            .collect();
        std::thread::sleep(plan.warm);
        let (before, start) = (count.load(Ordering::Relaxed), Instant::now());
        let looked = loop {
            let left = plan.measure.saturating_sub(start.elapsed());
            if left.is_zero() || target.check().is_err() {
                break target.check();
            }
            std::thread::sleep(left.min(Duration::from_millis(100)));
        };
        let per_s = (count.load(Ordering::Relaxed) - before) as f64 / start.elapsed().as_secs_f64();
        stop.store(true, Ordering::Relaxed);
        for reader in readers {
            reader.join().map_err(|_| Failure::new("a thread that read died"))??;
        }
        looked.map(|()| per_s)
    })
}

/// Reads this many keys at once, until the time is over.
fn read_until(
    client: &Client,
    mut random: kv::Random,
    each: usize,
    count: &AtomicU64,
    stop: &AtomicBool,
) -> Outcome<()> {
    while !stop.load(Ordering::Relaxed) {
        let reads = (0..each).map(|_| {
            let mut query = Vec::new();
            KvQuery::Get { key: &kv::key(random.next() % KEYS) }.encode(&mut query);
            Box::pin(client.read(query, ReadOptions::STRONG))
        });
        for answer in load::all(reads.collect()) {
            let answer = answer.map_err(|why| Failure::new(format!("can not read a key: {why}")))?;
            match KvReply::decode(&answer.body) {
                Ok(KvReply::Value(_)) => count.fetch_add(1, Ordering::Relaxed),
                other => return Err(Failure::new(format!("a read was answered with {other:?}"))),
            };
        }
    }
    Ok(())
}

fn page(document: &Document) -> Page {
    let ways = [("1 instance", &document.one_instance), ("as many as links", &document.one_per_link)];
    let chart = |title: &str, value: fn(&Point) -> f64| Chart {
        title: title.into(),
        x_label: "links of each replica".into(),
        y_label: "per second".into(),
        logarithmic: false,
        lines: ways
            .iter()
            .enumerate()
            .map(|(at, (name, points))| Line {
                name: (*name).to_owned(),
                colour: colour(at),
                points: points.iter().map(|point| (f64::from(point.links), Some(value(point)))).collect(),
                bars: Vec::new(),
                ranges: Vec::new(),
            })
            .collect(),
        x_most: document.one_instance.iter().map(|point| f64::from(point.links)).fold(1.0, f64::max),
        bars_label: None,
    };
    Page {
        title: "Strong reads and writes of 2 KB by the number of links".into(),
        intro: format!(
            "{} replicas, each with links of {} Mbit/s in both directions; {}; {} callers of {CLIENTS} clients that come on all links in turn.",
            document.replicas, document.link_mbit, document.payload, document.callers
        ),
        charts: vec![
            chart("Strong reads", |point| point.reads_per_s),
            chart("Writes", |point| point.writes_per_s),
        ],
        table: table(document),
        facts: facts(document),
        ..Page::default()
    }
}

fn table(document: &Document) -> Table {
    let head = [
        "links",
        "instances",
        "lanes",
        "strong reads/s",
        "times one instance",
        "writes/s",
        "times one instance",
    ];
    let pairs = document.one_instance.iter().zip(&document.one_per_link);
    let row = |at: usize, point: &Point, one: &Point| {
        let times = |value: fn(&Point) -> f64| format!("{:.2}", value(point) / value(one).max(1.0));
        let cells = vec![
            point.links.to_string(),
            point.instances.to_string(),
            point.lanes.to_string(),
            amount(point.reads_per_s),
            times(|point| point.reads_per_s),
            amount(point.writes_per_s),
            times(|point| point.writes_per_s),
        ];
        (colour(at), cells)
    };
    let rows = pairs.flat_map(|(one, several)| {
        let both = [row(0, one, one), row(1, several, one)];
        both.into_iter().take(if one.links == 1 { 1 } else { 2 })
    });
    Table { head: head.map(str::to_owned).to_vec(), rows: rows.collect() }
}

fn facts(document: &Document) -> Vec<String> {
    let mut facts = vec![
        format!(
            "durability {}, {}, fault model {}, {}, {} replicas on one machine, each in a network namespace; quorate {}",
            document.durability,
            if document.tls { "TLS" } else { "without TLS" },
            document.fault_model,
            document.protocol,
            document.replicas,
            document.version
        ),
        format!(
            "links: veth pairs and bridges, `tc tbf` with {} Mbit/s in each direction; the clients' side has no limit",
            document.link_mbit
        ),
        "the paper, servers with 4 cores and 250 Mbit/s per link: strong reads grow with links for both, 11 % more with four instances; \
         writes of one instance do not grow, those of four instances on four links are 2.6 times as many"
            .into(),
    ];
    let points = document.one_instance.iter().chain(&document.one_per_link);
    for point in points.filter(|point| point.errors > 0 || !point.check.is_passed()) {
        let first = point.first_error.as_deref().unwrap_or("none");
        facts.push(format!(
            "NOT VALID, {} links, {}: {} calls failed (the first: {first}); {}",
            point.links,
            counted(point.instances),
            point.errors,
            point.check.text()
        ));
    }
    facts.extend(report::machine_lines(&document.machine).lines().map(|line| line.trim().to_owned()));
    facts
}
