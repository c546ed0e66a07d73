//! `bench etcd --memory`: how much memory servers use after the same keys were put into both.

use super::load::{self, Filling};
use super::{EtcdArgs, Servers};
use crate::bench::draw::{Mark, Page, Row, Rows, about_machine};
use crate::bench::output::Output;
use crate::bench::report::machine_lines;
use quorate_command::failure::{Failure, Outcome};
use quorate_command::machine::Machine;
use serde::Serialize;
use std::process::ExitCode;
use std::time::{Duration, Instant};

const MIB: f64 = (1 << 20) as f64;
/// Size of every key.
const KEY_BYTES: usize = 16;
/// The fewest keys per second; a cluster that is slower counts as stuck.
const SLOWEST: u64 = 500;

/// The memory of a process.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(in crate::bench) struct Held {
    /// Resident memory, with pages of mapped files.
    pub(in crate::bench) resident_mib: f64,
    /// Resident memory that belongs to no file.
    pub(in crate::bench) anonymous_mib: f64,
    /// The most that was ever resident.
    pub(in crate::bench) peak_mib: f64,
}

impl Held {
    /// The present memory of a process.
    fn of(pid: u32) -> Outcome<Self> {
        let path = format!("/proc/{pid}/status");
        let text = std::fs::read_to_string(&path);
        let text = text.map_err(|why| Failure::new(format!("can not read {path}: {why}")))?;
        Self::parse(&text).ok_or_else(|| Failure::new(format!("can not read {path}: not as Linux writes it")))
    }

    /// Parses `/proc/PID/status`.
    pub(in crate::bench) fn parse(status: &str) -> Option<Self> {
        let kib = |name: &str| {
            let rest = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
            rest.split_whitespace().next()?.parse::<f64>().ok()
        };
        let mib = |name: &str| kib(name).map(|kib| kib / 1024.0);
        Some(Self { resident_mib: mib("VmRSS")?, anonymous_mib: mib("RssAnon")?, peak_mib: mib("VmHWM")? })
    }
}

/// One side, with one size of values.
#[derive(Debug, Serialize)]
struct Filled {
    bytes: usize,
    side: &'static str,
    fill_s: f64,
    servers: Vec<Held>,
    /// Memory of the largest server, divided by the bytes of all keys and values.
    times_what_was_put: f64,
}

#[derive(Serialize)]
struct Document {
    benchmark: &'static str,
    keys: u64,
    key_bytes: usize,
    rows: Vec<Filled>,
    machine: Machine,
}

pub(super) fn run(args: &EtcdArgs, settle: Duration, output: &Output) -> Outcome {
    let machine = Machine::ask(&args.scratch);
    let mut rows = Vec::new();
    for bytes in &args.bytes {
        for (side, open) in super::sides(args) {
            rows.push(filled(args, open()?, *bytes, side, settle)?);
        }
    }
    let document =
        Document { benchmark: "etcd memory", keys: args.keys, key_bytes: KEY_BYTES, rows, machine };
    output.show(&document, || table(&document), || page(&document))?;
    Ok(ExitCode::SUCCESS)
}

fn filled(
    args: &EtcdArgs,
    mut servers: Servers,
    bytes: usize,
    side: &'static str,
    settle: Duration,
) -> Outcome<Filled> {
    let patience = super::PATIENCE + Duration::from_secs(args.keys / SLOWEST);
    let began = Instant::now();
    load::fill_only(&mut servers, args.connections, Filling { keys: args.keys, bytes, patience }, settle)?;
    let fill_s = began.elapsed().saturating_sub(settle).as_secs_f64();
    let held = servers.pids().into_iter().map(Held::of).collect::<Outcome<Vec<_>>>()?;
    let largest = held.iter().map(|held| held.resident_mib).fold(0.0, f64::max);
    let put = args.keys as f64 * (KEY_BYTES + bytes) as f64 / MIB;
    Ok(Filled { bytes, side, fill_s, servers: held, times_what_was_put: largest / put })
}

fn table(document: &Document) -> String {
    let mut lines = vec![
        format!(
            "memory of servers with {} keys of {} bytes, in MiB: resident (anonymous, at most)",
            document.keys, document.key_bytes
        ),
        format!("  {:>7} {:<5} {:>7} {:>8}   each server", "bytes", "", "fill s", "over put"),
    ];
    for row in &document.rows {
        let of = |held: &Held| {
            format!("{:.0} ({:.0}, {:.0})", held.resident_mib, held.anonymous_mib, held.peak_mib)
        };
        let servers = row.servers.iter().map(of).collect::<Vec<_>>().join(", ");
        let (bytes, side, times) = (row.bytes, row.side, row.times_what_was_put);
        lines.push(format!("  {bytes:>7} {side:<5} {:>7.1} {times:>8.1}   {servers}", row.fill_s));
    }
    lines.push(machine_lines(&document.machine));
    lines.join("\n")
}

fn page(document: &Document) -> Page {
    let of = |row: &Filled, of: fn(&Held) -> f64| Mark::of(row.servers.iter().map(of));
    let row = |row: &Filled| Row {
        name: format!("{}, values of {} B", row.side, row.bytes),
        marks: vec![
            of(row, |held| held.resident_mib),
            of(row, |held| held.anonymous_mib),
            of(row, |held| held.peak_mib),
        ],
    };
    let sides = ["resident", "anonymous", "at most"];
    let rows = document.rows.iter().map(row).collect();
    let mut about = vec![
        ("durability", "group; members of etcd sync every write, too".to_owned()),
        ("payload", format!("{} keys of {} B, put once", document.keys, document.key_bytes)),
        ("callers", "none while memory is looked at".to_owned()),
        ("replicas", "3 on each side, crash faults".to_owned()),
        ("floor", "none: the null program keeps nothing".to_owned()),
    ];
    about.extend(about_machine(&document.machine));
    Page {
        title: "Memory of servers after the same keys were put there".into(),
        intro: "Points are medians of a side\'s servers, with lines from the lowest to the highest.".into(),
        rows: vec![Rows::new("Memory of a server", "MiB", &sides, rows)],
        about,
        ..Page::default()
    }
}
