//! The callers, all in one thread: each sends a request, waits for the answer, and sends the next.
//!
//! All keys are put before anything is measured, unless they are there. Calls answered in the measured time count; a latency reaches from just before a call is
//! made until its answer is read. At the end the store's revision must have grown by the number of acknowledged puts.

use super::client::Connection;
use super::watching::{Events, Watching};
use super::{Operation, PATIENCE, Servers};
use crate::bench::cpu;
use crate::bench::interrupt;
use crate::bench::kv::Random;
use bytes::Bytes;
use hdrhistogram::Histogram;
use quorate_command::failure::{Doing as _, Failure, Outcome};
use quorate_etcd_grpc::pb::etcdserverpb::kv_client::KvClient;
use quorate_etcd_grpc::pb::etcdserverpb::{PutRequest, RangeRequest};
use serde::Serialize;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::{Duration, Instant};
use tokio::task::{JoinHandle, LocalSet, spawn_local};
use tonic::Status;

/// How many callers put the keys.
const FILLERS: u64 = 256;
/// How often the servers are looked at.
const LOOK: Duration = Duration::from_millis(250);
/// How long to wait before trying again after a failure.
const AGAIN: Duration = Duration::from_millis(20);

#[derive(Clone, Copy, Debug)]
pub(in crate::bench) struct Plan {
    pub(in crate::bench) operation: Operation,
    pub(in crate::bench) bytes: usize,
    pub(in crate::bench) clients: usize,
    pub(in crate::bench) connections: usize,
    pub(in crate::bench) keys: u64,
    /// Whether the keys are there already.
    pub(in crate::bench) filled: bool,
    pub(in crate::bench) watchers: usize,
    pub(in crate::bench) observers: usize,
    pub(in crate::bench) warm: Duration,
    pub(in crate::bench) measure: Duration,
}

/// The keys that are there before anything is measured.
#[derive(Clone, Copy, Debug)]
pub(in crate::bench) struct Filling {
    pub(in crate::bench) keys: u64,
    pub(in crate::bench) bytes: usize,
    /// The most time that it may take.
    pub(in crate::bench) patience: Duration,
}

/// The measurements of a run.
#[derive(Clone, Debug, Serialize)]
pub(in crate::bench) struct Run {
    pub(in crate::bench) seconds: f64,
    pub(in crate::bench) calls: u64,
    pub(in crate::bench) per_s: f64,
    /// Calls per second of processor time of all servers together.
    pub(in crate::bench) per_server_cpu_s: f64,
    pub(in crate::bench) p50_us: f64,
    pub(in crate::bench) p99_us: f64,
    pub(in crate::bench) max_us: f64,
    pub(in crate::bench) servers_cpu_s: f64,
    pub(in crate::bench) load_cpu_s: f64,
    /// Memory of all servers at the end.
    pub(in crate::bench) memory_mib: f64,
    pub(in crate::bench) errors: u64,
    pub(in crate::bench) first_error: Option<String>,
    /// Whether the store's revision grew by the number of acknowledged puts; unknown after errors.
    pub(in crate::bench) all_there: bool,
    pub(in crate::bench::etcd) events: Option<Events>,
}

impl Run {
    /// Whether nothing failed and nothing is missing.
    pub(super) fn is_valid(&self) -> bool {
        self.errors == 0 && self.all_there && self.events.as_ref().is_none_or(|events| events.fault.is_none())
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Warm,
    Measured,
    Over,
}

/// What the callers share.
struct Shared {
    plan: Plan,
    phase: Cell<Phase>,
    latency: RefCell<Histogram<u64>>,
    calls: Cell<u64>,
    /// Puts acknowledged at any time.
    puts: Cell<u64>,
    errors: Cell<u64>,
    first_error: RefCell<Option<String>>,
}

impl Shared {
    fn failed(&self, why: &Status) {
        self.errors.set(self.errors.get() + 1);
        self.first_error.borrow_mut().get_or_insert_with(|| format!("{:?}: {}", why.code(), why.message()));
    }

    fn answered(&self, asked: Instant) {
        if self.plan.operation == Operation::Put {
            self.puts.set(self.puts.get() + 1);
        }
        if self.phase.get() == Phase::Measured {
            self.calls.set(self.calls.get() + 1);
            let nanos = u64::try_from(asked.elapsed().as_nanos()).unwrap_or(u64::MAX);
            // It grows by itself; what no histogram holds is no latency.
            let _ = self.latency.borrow_mut().record(nanos);
        }
    }
}

/// Measures servers.
pub(in crate::bench) fn run(servers: &mut Servers, plan: Plan) -> Outcome<Run> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.doing("start the load generator")?;
    runtime.block_on(LocalSet::new().run_until(interrupt::unless(measure(servers, plan))))
}

/// Puts the keys into servers that were just started, and lets them rest.
pub(in crate::bench) fn fill_only(
    servers: &mut Servers,
    connections: usize,
    filling: Filling,
    settle: Duration,
) -> Outcome<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.doing("start the load generator")?;
    runtime.block_on(LocalSet::new().run_until(interrupt::unless(async {
        let connections = connect(servers, connections).await?;
        fill(&connections, filling).await?;
        rest(servers, settle).await
    })))
}

async fn measure(servers: &mut Servers, plan: Plan) -> Outcome<Run> {
    let connections = connect(servers, plan.connections).await?;
    if !plan.filled {
        fill(&connections, Filling { keys: plan.keys, bytes: plan.bytes, patience: 4 * PATIENCE }).await?;
    }
    let watching = Watching::begin(&connections, plan.watchers, plan.observers).await?;
    let before = revision(&connections[0]).await?;
    watching.count_after(before);
    let histogram = Histogram::new(3).map_err(|why| Failure::new(format!("no histogram: {why}")))?;
    let shared = Rc::new(Shared {
        plan,
        phase: Cell::new(Phase::Warm),
        latency: RefCell::new(histogram),
        calls: Cell::new(0),
        puts: Cell::new(0),
        errors: Cell::new(0),
        first_error: RefCell::default(),
    });
    let callers = (0..plan.clients).map(|number| {
        let kv = connections[number % connections.len()].kv();
        spawn_local(caller(kv, shared.clone(), number as u64))
    });
    let callers: Vec<JoinHandle<()>> = callers.collect();
    rest(servers, plan.warm).await?;
    let (servers_cpu, load_cpu) = (used(&servers.pids())?, used(&[std::process::id()])?);
    let began = Instant::now();
    shared.phase.set(Phase::Measured);
    rest(servers, plan.measure).await?;
    shared.phase.set(Phase::Over);
    let seconds = began.elapsed().as_secs_f64();
    let (servers_cpu_s, load_cpu_s) =
        (used(&servers.pids())? - servers_cpu, used(&[std::process::id()])? - load_cpu);
    for caller in callers {
        let ended = tokio::time::timeout(PATIENCE, caller).await;
        ended.map_err(|_| Failure::new("a call is not answered"))?.doing("wait for a caller")?;
    }
    let after = revision(&connections[0]).await?;
    let events = watching.end(after).await;
    let memory: u64 = servers.pids().into_iter().map(cpu::memory_of).sum::<Outcome<u64>>()?;
    let latency = shared.latency.borrow();
    let at = |quantile: f64| latency.value_at_quantile(quantile) as f64 / 1000.0;
    let calls = shared.calls.get();
    Ok(Run {
        seconds,
        calls,
        per_s: calls as f64 / seconds,
        per_server_cpu_s: calls as f64 / servers_cpu_s.max(cpu::tick_s()),
        p50_us: at(0.5),
        p99_us: at(0.99),
        max_us: latency.max() as f64 / 1000.0,
        servers_cpu_s,
        load_cpu_s,
        memory_mib: memory as f64 / f64::from(1 << 20),
        errors: shared.errors.get(),
        first_error: shared.first_error.borrow().clone(),
        all_there: u64::try_from(after - before).is_ok_and(|further| further == shared.puts.get()),
        events,
    })
}

/// Lets this time pass.
async fn rest(servers: &mut Servers, length: Duration) -> Outcome<()> {
    let until = Instant::now() + length;
    while Instant::now() < until {
        tokio::time::sleep(LOOK.min(until.saturating_duration_since(Instant::now()))).await;
        servers.check()?;
    }
    Ok(())
}

fn used(pids: &[u32]) -> Outcome<f64> {
    pids.iter().map(|pid| cpu::of_process(*pid).map(cpu::Cpu::total_s)).sum()
}

/// Connects to all members in turn, and waits until each answers.
async fn connect(servers: &mut Servers, count: usize) -> Outcome<Vec<Connection>> {
    let until = Instant::now() + PATIENCE;
    let addresses = servers.addresses();
    let mut connections = Vec::new();
    for address in addresses.iter().cycle().take(count.max(addresses.len())) {
        let connection = loop {
            servers.check()?;
            let attempt = tokio::time::timeout(PATIENCE, attempt(address)).await;
            match attempt.unwrap_or_else(|_| Err(Failure::new(format!("{address} does not answer")))) {
                Ok(connection) => break connection,
                Err(why) if Instant::now() >= until => return Err(why),
                Err(_) => tokio::time::sleep(AGAIN).await,
            }
        };
        connections.push(connection);
    }
    Ok(connections)
}

async fn attempt(address: &str) -> Outcome<Connection> {
    let connection = Connection::open(address).await?;
    revision(&connection).await?;
    Ok(connection)
}

/// The store's revision by a strong read.
async fn revision(connection: &Connection) -> Outcome<i64> {
    let request = RangeRequest { key: key(0), count_only: true, ..RangeRequest::default() };
    let answer = connection.kv().range(request).await;
    let answer = answer.map_err(|why| Failure::new(format!("a read fails: {why}")))?;
    answer.into_inner().header.map(|header| header.revision).ok_or_else(|| Failure::new("no header"))
}

/// The key with this number.
fn key(number: u64) -> Bytes {
    format!("k{:015x}", Random(number).next() >> 4).into()
}

fn put(number: u64, random: &mut Random, bytes: usize) -> PutRequest {
    let mut value = vec![0; bytes];
    random.fill(&mut value);
    PutRequest { key: key(number), value: value.into(), ..PutRequest::default() }
}

async fn fill(connections: &[Connection], filling: Filling) -> Outcome<()> {
    let fillers = (0..FILLERS).zip(connections.iter().cycle()).map(|(first, connection)| {
        let mut kv = connection.kv();
        spawn_local(async move {
            let mut random = Random(!first);
            for number in (first..filling.keys).step_by(FILLERS as usize) {
                let request = put(number, &mut random, filling.bytes);
                // A cluster that just began may change its leader.
                while let Err(why) = kv.put(request.clone()).await {
                    tracing::debug!("a key could not be put: {why}");
                    tokio::time::sleep(AGAIN).await;
                }
            }
        })
    });
    let until = Instant::now() + filling.patience;
    let fillers: Vec<JoinHandle<()>> = fillers.collect();
    for filler in fillers {
        let left = until.saturating_duration_since(Instant::now());
        let ended = tokio::time::timeout(left, filler).await;
        ended.map_err(|_| Failure::new("the keys could not be put"))?.doing("put the keys")?;
    }
    Ok(())
}

async fn caller(mut kv: KvClient<Connection>, shared: Rc<Shared>, number: u64) {
    let plan = shared.plan;
    let mut random = Random(number.wrapping_mul(0x9e37_79b9));
    while shared.phase.get() != Phase::Over {
        let chosen = random.next() % plan.keys;
        let answer = match plan.operation {
            Operation::Put => {
                let request = put(chosen, &mut random, plan.bytes);
                let asked = Instant::now();
                kv.put(request).await.map(|_| asked)
            }
            Operation::Get | Operation::Look => {
                let serializable = plan.operation == Operation::Look;
                let request = RangeRequest { key: key(chosen), serializable, ..RangeRequest::default() };
                let asked = Instant::now();
                let read = kv.range(request).await;
                read.and_then(|read| found(read.get_ref().kvs.len())).map(|()| asked)
            }
        };
        match answer {
            Ok(asked) => shared.answered(asked),
            Err(why) => {
                shared.failed(&why);
                tokio::time::sleep(AGAIN).await;
            }
        }
    }
}

fn found(count: usize) -> Result<(), Status> {
    if count == 1 {
        Ok(())
    } else {
        Err(Status::data_loss(format!("{count} values under a key that was put")))
    }
}
