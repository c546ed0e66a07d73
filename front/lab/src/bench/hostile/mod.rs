//! `bench hostile`: how much a crowd that keeps to no rule disturbs well-behaved clients.
//!
//! The clients run alone first, then beside the crowd (`crowd`, a process of its own), on the same cluster. Meanwhile an operator asks for
//! the status, as one would then. Afterwards the crowd must have left nothing behind.
//! Tests: front/cli/tests/all/hostile.rs.

mod crowd;
mod raw;

pub(super) use crowd::{CrowdArgs, CrowdReport, run as crowd};

use super::cpu;
use super::draw::{Mark, Page, Row, Rows, about_machine};
use super::kv::{self, Puts};
use super::load::{self, Measured, Plan};
use super::options::{HostileArgs, Measurement};
use super::output::Output;
use super::report::{self, Check, LatencyUs};
use super::target::Target;
use quorate_command::admin::Admin;
use quorate_command::arguments::{self, seconds};
use quorate_command::authority::{Destination, Office};
use quorate_command::cluster::{Cluster, ClusterArgs};
use quorate_command::failure::{Doing as _, Failure, Outcome};
use quorate_command::layout::{AUTHORITY, CLIENTS, ServiceChoice};
use quorate_command::machine::Machine;
use quorate_command::ordering::OrderArgs;
use quorate_kv::{KvCommand, Operation};
use quorate_types::{Holder, Name, ReplicaId};
use serde::Serialize;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

/// How long the crowd may take to connect.
const COMES: Duration = Duration::from_secs(300);
/// How long the replica may take to recover from it.
const PASSES: Duration = Duration::from_secs(60);
/// The value that slow readers ask for.
const LARGE_BYTES: usize = 512 << 10;
const KEYS: u64 = 10_000;
const VALUE_BYTES: usize = 16;

/// The clients' figures in one of the two halves.
#[derive(Debug, Serialize)]
struct Half {
    puts: u64,
    per_s: f64,
    latency_us: LatencyUs,
    errors: u64,
    first_error: Option<String>,
    /// The most memory of each replica, in MiB.
    memory_mib: Vec<f64>,
}

/// An operator's view while the crowd was there.
#[derive(Debug, Serialize)]
struct Seen {
    /// Number of replicas that answered.
    answered: usize,
    /// All other replicas are connected to the leader.
    all_follow: bool,
    /// The leader did not change.
    same_leader: bool,
    /// What the leader says of seats and of memory held for connections.
    seats: serde_json::Value,
    buffers: serde_json::Value,
    problems: Vec<String>,
}

#[derive(Serialize)]
struct Document {
    benchmark: &'static str,
    durability: String,
    tls: bool,
    connections: usize,
    callers: usize,
    alone: Half,
    beside_the_crowd: Half,
    /// The 99th percentile beside the crowd, divided by that without it.
    p99_times: f64,
    seen: Seen,
    crowd: CrowdReport,
    /// The most memory of the leader, in MiB, and what its limits allow.
    memory_mib: f64,
    memory_max_mib: f64,
    check: Check,
    machine: Machine,
}

pub(super) fn run(args: &HostileArgs, output: &Output) -> Outcome {
    let length = seconds("--secs", args.secs)?;
    if !(100..=100_000).contains(&args.connections) || !(1..=1000).contains(&args.callers) {
        return Err(Failure::usage("--connections is 100 to 100000, --callers 1 to 1000"));
    }
    let measurement = Measurement {
        cluster: ClusterArgs::default(),
        order: OrderArgs::default(),
        replicas: None,
        durability: Some(args.durability),
        plain: args.plain,
        instances: 1,
        lanes: 1,
        pillars: None,
        placement: None,
        sync_delay_us: 0,
        scratch: args.scratch.clone(),
        secs: args.secs,
        warm: 1.0,
        repeat: 1,
        no_floor: true,
    };
    let machine = Machine::ask(&args.scratch);
    let mut target = Target::configured(&measurement, ServiceChoice::Kv, settings(args.connections))?;
    put_large(&target)?;
    let mut work = Puts::new(KEYS, VALUE_BYTES);
    let plan = Plan {
        sessions: args.callers,
        slots: args.callers,
        commands_per_call: 1,
        warm: Duration::from_secs(1),
        measure: length,
    };
    let alone = load::run(&mut target, &plan, &mut work, "alone")?;
    let before = memory(&target)?;
    let leader = target.client.client().leader().ok_or_else(|| Failure::new("nobody leads"))?;
    let cluster = target.cluster().ok_or_else(|| Failure::new("the cluster is not ours"))?.clone();
    let mut crowd = Crowd::start(&cluster, leader, args)?;
    let beside = load::run(&mut target, &plan, &mut work, "beside the crowd")?;
    let after = memory(&target)?;
    let seen = look(&target, &cluster, leader)?;
    let report = crowd.stop()?;
    let memory_mib = after.iter().copied().fold(0.0, f64::max);
    let check = settle(&target, &cluster, &work)?;
    let p99 = |measured: &Measured| measured.latency.value_at_quantile(0.99) as f64;
    let document = Document {
        benchmark: "hostile",
        durability: arguments::name(args.durability),
        tls: !args.plain,
        connections: args.connections,
        callers: args.callers,
        p99_times: p99(&beside) / p99(&alone).max(1.0),
        memory_mib,
        memory_max_mib: before.iter().copied().fold(0.0, f64::max) + allowed_mib(args.connections),
        alone: half(&alone, before),
        beside_the_crowd: half(&beside, after),
        seen,
        crowd: report,
        check,
        machine,
    };
    let passed = document.check.is_passed();
    output.show(&document, || table(&document), || page(&document))?;
    Ok(if passed { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Limits with as many seats as the crowd has connections, most of which one client may take: well-behaved clients leave some for others,
/// and a client that takes all the rest is refused more.
fn settings(connections: usize) -> super::temporary::Settings {
    let number = |value: usize| toml::Value::Integer(i64::try_from(value).unwrap_or(i64::MAX));
    vec![
        ("limits", "connections", number(connections)),
        ("limits", "connections_per_client", number(connections / 8 * 7)),
        ("limits", "handshakes", number((connections / 10).max(16))),
        // Sooner than by default, so that it is seen.
        ("timing", "slow_reader_ms", number(2000)),
    ]
}

/// Memory in MiB that a replica's limits allow on top of what it had before: buffers, queues, and what TLS and sockets need for each
/// connection.
fn allowed_mib(connections: usize) -> f64 {
    const BUFFERS_MIB: f64 = 256.0;
    const QUEUE_MIB: f64 = 64.0;
    const CONNECTION_KIB: f64 = 48.0;
    BUFFERS_MIB + QUEUE_MIB + connections as f64 * CONNECTION_KIB / 1024.0
}

fn put_large(target: &Target) -> Outcome<()> {
    let mut command = Vec::new();
    let value = vec![7; LARGE_BYTES];
    KvCommand::One(Operation::Put { key: crowd::LARGE_KEY, value: &value }).encode(&mut command);
    let session = target.client.open_session().doing("open a session")?;
    session.call_one(&command).doing("put a large value")?;
    Ok(())
}

fn memory(target: &Target) -> Outcome<Vec<f64>> {
    let of = |pid: &u32| cpu::memory_of(*pid).map(|bytes| bytes as f64 / f64::from(1 << 20));
    target.pids.iter().map(of).collect()
}

fn half(measured: &Measured, memory_mib: Vec<f64>) -> Half {
    Half {
        puts: measured.commands,
        per_s: measured.commands as f64 / measured.seconds,
        latency_us: LatencyUs::of(&measured.latency),
        errors: measured.errors,
        first_error: measured.first_error.clone(),
        memory_mib,
    }
}

/// Asks for the status as `quorate status` does.
fn look(target: &Target, cluster: &Cluster, leader: ReplicaId) -> Outcome<Seen> {
    let answers = Admin::new(cluster)?.ask_all();
    let statuses = answers.iter().filter_map(|answer| Some((answer.replica, answer.status.as_ref().ok()?)));
    let (mut answered, mut problems) = (0, Vec::new());
    let (mut seats, mut buffers) = (serde_json::Value::Null, serde_json::Value::Null);
    for (replica, status) in statuses {
        answered += 1;
        problems.extend(status.problems.iter().map(|text| format!("replica {}: {text}", replica.number())));
        if replica == leader {
            (seats, buffers) = (status.raw["seats"].clone(), status.raw["buffers"].clone());
        }
    }
    let same_leader = quorate_command::admin::leader(&answers) == Some(leader);
    Ok(Seen { answered, all_follow: target.all_follow(), same_leader, seats, buffers, problems })
}

/// After the crowd has gone nothing of it may be left, and the clients' puts must be there.
fn settle(target: &Target, cluster: &Cluster, work: &Puts) -> Outcome<Check> {
    let admin = Admin::new(cluster)?;
    let until = Instant::now() + PASSES;
    loop {
        let answers = admin.ask_all();
        let left: Vec<u64> = answers
            .iter()
            .filter_map(|answer| Some(&answer.status.as_ref().ok()?.raw["seats"]))
            .map(|seats| seats["clients"].as_u64().unwrap_or(0) + seats["strangers"].as_u64().unwrap_or(0))
            .collect();
        if left.len() == answers.len() && left.iter().all(|count| *count <= 2) {
            return kv::verify(target, &work.sample);
        }
        if Instant::now() >= until {
            return Ok(Check::failed(format!(
                "the crowd is gone, and there are still connections: {left:?}"
            )));
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// The crowd's process.
struct Crowd(Child);

impl Crowd {
    fn start(cluster: &Cluster, leader: ReplicaId, args: &HostileArgs) -> Outcome<Self> {
        let mut command = lowest(&std::env::current_exe().doing("find this program's own file")?);
        command.args(["bench", "crowd"]).arg("--dir").arg(&cluster.directory);
        command
            .arg(format!("--replica={}", leader.number()))
            .arg(format!("--connections={}", args.connections));
        if !args.plain {
            let office = Office::open(&cluster.directory.join(AUTHORITY))?;
            let name = Name::parse("hostile").ok_or_else(|| Failure::new("a name of our own is none"))?;
            let place = cluster.directory.join(CLIENTS);
            let place = Destination { directory: &place, name: "hostile" };
            office.issue(&place, &Holder::Client(name), &[], quorate_command::authority::DAYS)?;
            command.arg("--tls").arg(place.directory);
        }
        let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().doing("start the crowd")?;
        let mut crowd = Self(child);
        crowd.wait_until_there()?;
        Ok(crowd)
    }

    fn wait_until_there(&mut self) -> Outcome<()> {
        let progress = quorate_command::progress::Progress::new("the crowd comes", COMES);
        let start = Instant::now();
        let out = self.0.stdout.take().ok_or_else(|| Failure::new("the crowd has no output"))?;
        let (sender, receiver) = crossbeam_channel::bounded(1);
        std::thread::spawn(move || {
            let (mut out, mut line) = (BufReader::new(out), String::new());
            let read = out.read_line(&mut line);
            let _ = sender.send(read.map(|_| (line, out)));
        });
        loop {
            match receiver.recv_timeout(Duration::from_millis(200)) {
                Ok(Ok((line, out))) if line.trim() == "ready" => {
                    self.0.stdout = Some(out.into_inner());
                    return Ok(());
                }
                Ok(_) => return Err(Failure::new("the crowd ended before it was there")),
                Err(_) if start.elapsed() < COMES => progress.at(start.elapsed(), String::new),
                Err(_) => return Err(Failure::new("the crowd did not come in time")),
            }
        }
    }

    fn stop(&mut self) -> Outcome<CrowdReport> {
        drop(self.0.stdin.take());
        let mut text = String::new();
        if let Some(mut out) = self.0.stdout.take() {
            std::io::Read::read_to_string(&mut out, &mut text).doing("read what the crowd says")?;
        }
        serde_json::from_str(text.trim()).doing("read what the crowd says")
    }
}

impl Drop for Crowd {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts a program in the system's idle class: even at the lowest priority a thread would keep a processor for milliseconds from a replica
/// that wakes up. Without util-linux the program gets the lowest priority.
fn lowest(program: &Path) -> Command {
    let there = Command::new("chrt").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    if !there.is_ok_and(|status| status.success()) {
        return Command::new(program);
    }
    let mut command = Command::new("chrt");
    command.args(["--idle", "0"]).arg(program);
    command
}

fn table(document: &Document) -> String {
    let Document { alone, beside_the_crowd: beside, seen, crowd, .. } = document;
    let half = |name: &str, half: &Half| {
        format!("  {name:18} {:>9.0} puts/s  {}, {} errors", half.per_s, half.latency_us, half.errors)
    };
    let mut lines = vec![
        format!(
            "hostile: {} connections to the leader, {} well-behaved callers, durability {}, {}",
            document.connections,
            document.callers,
            document.durability,
            if document.tls { "TLS" } else { "plain" }
        ),
        half("alone", alone),
        half("beside the crowd", beside),
        format!("  the 99th percentile is {:.2} times what it is alone", document.p99_times),
        format!(
            "  memory of the leader: {:.0} MiB, of {:.0} MiB that its limits allow",
            document.memory_mib, document.memory_max_mib
        ),
        format!(
            "  meanwhile {} replicas answered an operator, the leader {}, {}",
            seen.answered,
            if seen.same_leader { "stayed" } else { "changed" },
            if seen.all_follow { "all follow it" } else { "not all follow it" }
        ),
        format!(
            "  of the crowd {} connections were taken, {} turned away in the handshake, {} slow readers cut; {} requests executed",
            crowd.welcomed, crowd.turned_away, crowd.cut, crowd.flooded
        ),
    ];
    lines.extend(crowd.refused.iter().map(|(text, count)| format!("  {count} were told: {text}")));
    lines.extend(seen.problems.iter().map(|text| format!("  problem: {text}")));
    lines.push(format!("  check: {}", document.check.text()));
    lines.push(report::machine_lines(&document.machine));
    lines.join("\n")
}

fn page(document: &Document) -> Page {
    let Document { alone, beside_the_crowd: beside, seen, crowd, check, .. } = document;
    let both = |name: &str, of: fn(&Half) -> f64| Row {
        name: name.into(),
        marks: vec![Mark::one(of(alone)), Mark::one(of(beside))],
    };
    let sides = ["alone", "beside the crowd"];
    let latencies = vec![
        both("p50", |half| half.latency_us.p50),
        both("p90", |half| half.latency_us.p90),
        both("p99", |half| half.latency_us.p99),
        both("p99.9", |half| half.latency_us.p99_9),
        both("longest", |half| half.latency_us.max),
    ];
    let mut about = vec![
        ("durability", document.durability.clone()),
        ("payload", format!("puts of {VALUE_BYTES} B, {KEYS} keys")),
        ("callers", format!("{}, each with one put outstanding", document.callers)),
        (
            "crowd",
            format!("{} connections to the leader; {} were taken", document.connections, crowd.welcomed),
        ),
        ("replicas", format!("3 replicas, crash faults, {}", if document.tls { "TLS" } else { "plain" })),
        ("floor", "not run: the callers are compared with themselves, alone".to_owned()),
        (
            "memory of the leader",
            format!(
                "{:.0} MiB, of {:.0} MiB that its limits allow",
                document.memory_mib, document.memory_max_mib
            ),
        ),
        ("check", check.text().to_owned()),
    ];
    about.extend(about_machine(&document.machine));
    Page {
        title: "Well-behaved callers beside a crowd that keeps to no rule".into(),
        intro: format!(
            "The 99th percentile beside the crowd is {:.2} times what it is alone.",
            document.p99_times
        ),
        rows: vec![
            Rows::new("Latency of a put", "microseconds", &sides, latencies).logarithmic(),
            Rows::new("Rate", "puts per second", &sides, vec![both("puts", |half| half.per_s)]),
        ],
        about,
        facts: seen.problems.iter().map(|text| format!("problem: {text}")).collect(),
        ..Page::default()
    }
}
