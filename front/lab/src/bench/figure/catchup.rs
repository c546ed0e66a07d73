//! The figure `catchup`: a replica comes back after the state was put without it, and fetches the state while clients continue.
//!
//! Each limit of the transfer is measured with a cluster of its own. One replica is stopped, the state is put, checkpoints are written and
//! the log before them is trimmed. Then callers put random keys; after a third of the window the replica comes back. It has caught up when
//! it fetches nothing more and the leader says that it lacks little. For comparison the machine's limits are measured: bytes written in
//! order and synced, and bytes through a connection to itself.

use super::filling::{KEY_BYTES, Recorder, keys, put_there, settle};
use super::marks::Span;
use super::samples::{BIN, Bin};
use super::{Drawn, FigureArgs, refuse};
use crate::bench::draw::{Chart, Line, Made, Page, Table, colour};
use crate::bench::events::Event;
use crate::bench::kv;
use crate::bench::load::{self, Plan};
use crate::bench::report::{self, Check, Durability};
use crate::bench::target::Target;
use crate::bench::temporary::Settings;
use quorate::client::BlockingClient;
use quorate_command::arguments::seconds;
use quorate_command::failure::{Doing as _, Failure, Outcome};
use quorate_command::layout::ServiceChoice;
use quorate_command::machine::Machine;
use quorate_command::print::size;
use quorate_command::print::{amount, json};
use quorate_runtime::CheckpointConfig;
use quorate_types::ReplicaId;
use serde::Serialize;
use serde_json::Value;
use std::fs::File;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How often the replica that came back is asked for its status.
const ASK: Duration = Duration::from_millis(50);
/// The most that a replica may lack while it counts as caught up.
const LAG_BYTES_MAX: u64 = 1 << 20;
/// How many bytes the machine's limits are measured with.
const PROBE_BYTES: usize = 256 << 20;

/// The result for one limit.
#[derive(Serialize)]
struct Run {
    /// Bytes per second; 0 for none.
    limit_bytes: u64,
    replica: u16,
    /// When the replica was started, and when it had caught up, in seconds of the window.
    returned_s: f64,
    caught_up_s: Option<f64>,
    /// Bytes that it fetched as a checkpoint, and bytes per second, from its start until it had caught up.
    fetched_bytes: u64,
    bytes_per_s: Option<f64>,
    /// Puts per second without the replica, while it caught up, and after that.
    per_s_before: Option<f64>,
    per_s_during: Option<f64>,
    per_s_after: Option<f64>,
    errors: u64,
    first_error: Option<String>,
    check: Check,
    bins: Vec<Bin>,
}

#[derive(Serialize)]
struct Document {
    figure: &'static str,
    version: &'static str,
    #[serde(flatten)]
    durability: Durability,
    fault_model: &'static str,
    protocol: &'static str,
    replicas: usize,
    payload: String,
    load: String,
    state_bytes: u64,
    /// The machine's limits, in bytes per second.
    disk_bytes_per_s: f64,
    loopback_bytes_per_s: f64,
    memory_bytes_per_s: f64,
    valid: bool,
    machine: Machine,
    runs: Vec<Run>,
}

/// Measures and draws.
pub(super) fn draw(args: &FigureArgs) -> Outcome<Drawn> {
    if !(16 << 20..=1 << 40).contains(&args.state_bytes) {
        return refuse(
            "--state-bytes is 16MiB to 1TiB for catchup: with less there is nothing to be fetched",
        );
    }
    let measurement = args.measurement();
    let machine = Machine::ask(&measurement.scratch);
    let memory_bytes_per_s = memory();
    let disk_bytes_per_s = disk(&measurement.scratch)?;
    let loopback_bytes_per_s = loopback()?;
    let limits = match args.transfer_rates.as_slice() {
        [] => vec![CheckpointConfig::default().transfer_rate_bytes, 0],
        some => some.to_vec(),
    };
    let runs = limits.iter().map(|limit| measure(args, *limit)).collect::<Outcome<Vec<Run>>>()?;
    let document = Document {
        figure: "catchup",
        version: env!("CARGO_PKG_VERSION"),
        durability: Durability::planned(&measurement),
        fault_model: "crash",
        protocol: "raft",
        replicas: usize::from(crate::bench::temporary::REPLICAS),
        payload: format!("puts of {} B under {KEY_BYTES} B, {} keys", args.value_bytes, keys(args)),
        load: format!("{} callers, one put outstanding each, 1 client", args.callers),
        state_bytes: args.state_bytes,
        disk_bytes_per_s,
        loopback_bytes_per_s,
        memory_bytes_per_s,
        valid: runs.iter().all(|run| run.errors == 0 && run.check.is_passed() && run.caught_up_s.is_some()),
        machine,
        runs,
    };
    let page = page(&document);
    let valid = if document.valid { "" } else { "NOT VALID, see below. " };
    let mut lines = vec![format!("{valid}catchup: {}", page.title), page.table.text()];
    lines.extend(page.facts.iter().map(|fact| format!("  {fact}")));
    Ok(Drawn {
        html: page.html(&Made::now()),
        json: json(&document)?,
        text: lines.join("\n"),
        valid: document.valid,
    })
}

/// Settings with borders so close to each other that the log of the state is trimmed before the replica comes back.
fn settings(args: &FigureArgs, limit: u64) -> Settings {
    let number = |bytes: u64| toml::Value::Integer(i64::try_from(bytes).unwrap_or(i64::MAX));
    let interval = args.interval_bytes.unwrap_or((args.state_bytes / 4).max(4 << 20));
    let own = CheckpointConfig::default();
    vec![
        ("checkpoints", "interval_bytes", number(interval)),
        ("checkpoints", "interval_bytes_max", number(interval)),
        ("checkpoints", "interval_state_percent", number(0)),
        ("checkpoints", "log_bytes_max", number(own.log_bytes_max.max(interval.saturating_mul(4)))),
        ("checkpoints", "rate_bytes", number(args.rate_bytes.unwrap_or(own.rate_bytes))),
        ("checkpoints", "transfer_rate_bytes", number(limit)),
    ]
}

fn measure(args: &FigureArgs, limit: u64) -> Outcome<Run> {
    let measurement = args.measurement();
    let name = named(limit);
    let mut target = Target::configured(&measurement, ServiceChoice::Kv, settings(args, limit))?;
    let replica = target.take_one_away()?;
    put_there(&mut target, 0..keys(args), args.value_bytes, &format!("{name}: the state"))?;
    let others = target.replicas.len() - 2;
    settle(&mut target, others)?;

    let (warm, length) = (Duration::from_secs_f64(measurement.warm), seconds("--secs", measurement.secs)?);
    let plan =
        Plan { sessions: args.callers, slots: args.callers, commands_per_call: 1, warm, measure: length };
    let mut work = kv::Puts::new(keys(args), args.value_bytes);
    let mut recorder = Recorder { length, samples: None };
    target.events.plan(Instant::now() + warm + length / 3, Event::Returns);
    let watch = Watch::start(&target.client, replica);
    let measured = load::run_observed(&mut target, &plan, &mut work, &name, &mut recorder)?;
    let seen = watch.finish();
    let Some(samples) = recorder.samples else { return Err(Failure::new("nothing was measured")) };
    let check = kv::verify(&target, &work.sample)?;
    let since = |at: Instant| at.saturating_duration_since(measured.began).as_secs_f64();
    let returned_s = target.events.returned().map_or(0.0, since);
    let caught_up_s = seen.caught_up.map(since).filter(|at| *at <= length.as_secs_f64());
    let end = length.as_secs_f64();
    let rate = |from_s: f64, to_s: f64| samples.rates_apart(&[Span { from_s, to_s }]).0;
    let until = caught_up_s.unwrap_or(end);
    Ok(Run {
        limit_bytes: limit,
        replica: replica.number(),
        returned_s,
        caught_up_s,
        fetched_bytes: seen.fetched,
        bytes_per_s: caught_up_s.map(|at| seen.fetched as f64 / (at - returned_s).max(0.001)),
        per_s_before: rate(0.0, returned_s),
        per_s_during: rate(returned_s, until),
        per_s_after: caught_up_s.and_then(|at| rate(at, end)),
        errors: measured.errors,
        first_error: measured.first_error,
        check,
        bins: samples.bins(),
    })
}

fn named(limit: u64) -> String {
    match limit {
        0 => "no limit".into(),
        limit => format!("{}/s", size(limit)),
    }
}

/// What the replica's status said.
#[derive(Default)]
pub(in crate::bench) struct Seen {
    pub(in crate::bench) fetched: u64,
    pub(in crate::bench) caught_up: Option<Instant>,
}

/// Asks the replica, and the leader about it, until it has caught up.
pub(in crate::bench) struct Watch {
    stop: Arc<AtomicBool>,
    thread: std::thread::JoinHandle<Seen>,
}

impl Watch {
    pub(in crate::bench) fn start(client: &BlockingClient, replica: ReplicaId) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (client, stopped) = (client.clone(), stop.clone());
        Self { stop, thread: std::thread::spawn(move || follow(&client, replica, &stopped)) }
    }

    pub(in crate::bench) fn finish(self) -> Seen {
        self.stop.store(true, Ordering::Release);
        self.thread.join().unwrap_or_default()
    }
}

fn follow(client: &BlockingClient, replica: ReplicaId, stop: &AtomicBool) -> Seen {
    let ask = |of: ReplicaId| -> Option<Value> { serde_json::from_str(&client.status(of).ok()?).ok() };
    let mut seen = Seen::default();
    while !stop.load(Ordering::Acquire) && seen.caught_up.is_none() {
        let asked = Instant::now();
        if let Some(status) = ask(replica) {
            let transfer = &status["checkpoints"]["transfer"];
            seen.fetched = seen.fetched.max(transfer["bytes_done"].as_u64().unwrap_or(0));
            if transfer.is_null()
                && client.client().leader().and_then(ask).is_some_and(|led| follows(&led, replica))
            {
                seen.caught_up = Some(asked);
            }
        }
        std::thread::sleep(ASK.saturating_sub(asked.elapsed()));
    }
    seen
}

/// Whether the leader says that the replica has caught up.
fn follows(leader: &Value, replica: ReplicaId) -> bool {
    let members = leader["members"].as_array().map(Vec::as_slice).unwrap_or_default();
    members.iter().filter(|member| member["replica"] == replica.number()).any(|member| {
        member["active"] == true && member["lag_bytes"].as_u64().is_some_and(|lag| lag <= LAG_BYTES_MAX)
    })
}

/// Bytes per second that can be written in order and synced.
fn disk(scratch: &Path) -> Outcome<f64> {
    std::fs::create_dir_all(scratch).doing(format_args!("make {}", scratch.display()))?;
    let path = scratch.join(format!("probe-{}", std::process::id()));
    let doing = format!("write {}", path.display());
    let written = (|| {
        let mut file = File::create(&path)?;
        let piece = vec![0x5a; 1 << 20];
        let began = Instant::now();
        for _ in 0..PROBE_BYTES / piece.len() {
            file.write_all(&piece)?;
        }
        file.sync_data()?;
        Ok::<_, std::io::Error>(PROBE_BYTES as f64 / began.elapsed().as_secs_f64())
    })();
    let _ = std::fs::remove_file(&path);
    written.doing(doing)
}

/// Bytes per second at which the system hands out memory that was free. Where a hypervisor takes back free memory each page must be fetched
/// again, which also slows a replica that receives a state.
fn memory() -> f64 {
    let began = Instant::now();
    drop(std::hint::black_box(vec![0x5a_u8; PROBE_BYTES]));
    PROBE_BYTES as f64 / began.elapsed().as_secs_f64()
}

/// Bytes per second that one connection of this machine to itself carries.
fn loopback() -> Outcome<f64> {
    let doing = "send to this machine itself";
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).doing(doing)?;
    let address = listener.local_addr().doing(doing)?;
    let receiver = std::thread::spawn(move || -> std::io::Result<()> {
        let (mut stream, _) = listener.accept()?;
        let (mut piece, mut left) = (vec![0; 1 << 20], PROBE_BYTES);
        while left > 0 {
            match stream.read(&mut piece)? {
                0 => return Err(std::io::ErrorKind::UnexpectedEof.into()),
                read => left = left.saturating_sub(read),
            }
        }
        stream.write_all(&[1])
    });
    let mut stream = TcpStream::connect(address).doing(doing)?;
    let piece = vec![0x5a; 1 << 20];
    let began = Instant::now();
    for _ in 0..PROBE_BYTES / piece.len() {
        stream.write_all(&piece).doing(doing)?;
    }
    stream.read_exact(&mut [0]).doing(doing)?;
    let took = began.elapsed();
    receiver.join().map_err(|_| Failure::new(doing))?.doing(doing)?;
    Ok(PROBE_BYTES as f64 / took.as_secs_f64())
}

fn page(document: &Document) -> Page {
    let line = |(number, run): (usize, &Run), value: fn(&Bin) -> Option<f64>| Line {
        name: named(run.limit_bytes),
        colour: colour(number),
        points: run.bins.iter().map(|bin| (bin.at_s, value(bin))).collect(),
        bars: run.caught_up_s.map(|at| (run.returned_s, at)).into_iter().collect(),
        ranges: Vec::new(),
    };
    let chart = |title: &str, y_label: &str, logarithmic, value: fn(&Bin) -> Option<f64>| Chart {
        title: title.into(),
        x_label: "time in s".into(),
        y_label: y_label.into(),
        logarithmic,
        lines: document.runs.iter().enumerate().map(|each| line(each, value)).collect(),
        x_most: document.runs.first().map_or(0.0, |run| run.bins.len() as f64 * BIN.as_secs_f64()),
        bars_label: Some("catches up".into()),
    };
    Page {
        title: "A replica that was away catches up while clients go on".into(),
        intro: format!(
            "{} of state were put there without one of {} replicas, and the log behind them was trimmed; then it comes back. {}; {}. \
             Points of 0.1 s. Bars: from its start until it has caught up.",
            size(document.state_bytes),
            document.replicas,
            document.payload,
            document.load
        ),
        charts: vec![
            chart("Throughput", "puts per second", false, |bin| Some(bin.per_s)),
            chart("The longest call that was answered", "milliseconds (logarithmic)", true, |bin| bin.max_ms),
        ],
        table: table(document),
        facts: facts(document),
        ..Page::default()
    }
}

fn table(document: &Document) -> Table {
    let head = ["limit", "fetched", "seconds", "bytes/s", "puts/s without it", "meanwhile", "after"];
    let rate = |rate: Option<f64>| rate.map_or("-".into(), amount);
    let row = |(number, run): (usize, &Run)| {
        let cells = vec![
            named(run.limit_bytes),
            size(run.fetched_bytes),
            run.caught_up_s.map_or("-".into(), |at| format!("{:.2}", at - run.returned_s)),
            run.bytes_per_s.map_or("-".into(), |bytes| format!("{}/s", size(bytes as u64))),
            rate(run.per_s_before),
            rate(run.per_s_during),
            rate(run.per_s_after),
        ];
        (colour(number), cells)
    };
    Table {
        head: head.map(str::to_owned).to_vec(),
        rows: document.runs.iter().enumerate().map(row).collect(),
    }
}

fn facts(document: &Document) -> Vec<String> {
    let mut facts = vec![
        format!(
            "durability {}, fault model {}, {}, {} replicas; quorate {}",
            document.durability, document.fault_model, document.protocol, document.replicas, document.version
        ),
        format!("{}; {}", document.payload, document.load),
        format!(
            "this machine writes {}/s one after the other with a sync at the end, carries {}/s to itself, and hands out {}/s of fresh \
             memory",
            size(document.disk_bytes_per_s as u64),
            size(document.loopback_bytes_per_s as u64),
            size(document.memory_bytes_per_s as u64)
        ),
    ];
    for run in &document.runs {
        if run.caught_up_s.is_none() {
            facts.push(format!(
                "NOT VALID, {}: r{} had not caught up when the window ended; try more --secs",
                named(run.limit_bytes),
                run.replica
            ));
        }
        if run.errors > 0 || !run.check.is_passed() {
            let first = run.first_error.as_deref().unwrap_or("none");
            facts.push(format!(
                "NOT VALID, {}: {} calls failed (the first: {first}); {}",
                named(run.limit_bytes),
                run.errors,
                run.check.text()
            ));
        }
    }
    facts.extend(report::machine_lines(&document.machine).lines().map(|line| line.trim().to_owned()));
    facts
}
