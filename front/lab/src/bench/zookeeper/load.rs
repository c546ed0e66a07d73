//! The callers, all in one thread: each connection keeps its share of requests under way.
//!
//! Answers that come in the measured time count; a latency reaches from just before a request is sent until its answer is read. At the end
//! the versions of the nodes, or their number, must have grown by the number of acknowledged writes.

use super::client::{Answer, Client};
use super::{Operation, PATIENCE, Servers};
use crate::bench::cpu;
use crate::bench::interrupt;
use crate::bench::kv::Random;
use hdrhistogram::Histogram;
use quorate_command::failure::{Doing as _, Failure, Outcome};
use quorate_zookeeper::jute::Reader;
use quorate_zookeeper::op::Op;
use quorate_zookeeper::records::{Acl, Stat};
use quorate_zookeeper::request::{Create, Mode, Request};
use serde::Serialize;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::{Duration, Instant};
use tokio::task::{JoinHandle, LocalSet, spawn_local};

/// How often the servers are looked at.
const LOOK: Duration = Duration::from_millis(250);
/// How long to wait before trying again after a failure.
const AGAIN: Duration = Duration::from_millis(100);
/// How many connections have watches on other nodes.
const WATCHERS: usize = 3;
/// How many children a node has whose children are read.
const CHILDREN: u64 = 10;

#[derive(Clone, Copy, Debug)]
pub(in crate::bench) struct Plan {
    pub(in crate::bench) operation: Operation,
    pub(in crate::bench) bytes: usize,
    pub(in crate::bench) under_way: usize,
    pub(in crate::bench) connections: usize,
    pub(in crate::bench) nodes: u64,
    pub(in crate::bench) watches: u64,
    pub(in crate::bench) warm: Duration,
    pub(in crate::bench) measure: Duration,
}

/// The measurements of a run.
#[derive(Clone, Debug, Serialize)]
pub(in crate::bench) struct Run {
    pub(in crate::bench) seconds: f64,
    pub(in crate::bench) answers: u64,
    pub(in crate::bench) per_s: f64,
    /// Answers per second of processor time of all servers together.
    pub(in crate::bench) per_server_cpu_s: f64,
    pub(in crate::bench) p50_us: f64,
    pub(in crate::bench) p99_us: f64,
    pub(in crate::bench) servers_cpu_s: f64,
    pub(in crate::bench) load_cpu_s: f64,
    /// Memory of all servers at the end.
    pub(in crate::bench) memory_mib: f64,
    pub(in crate::bench) errors: u64,
    pub(in crate::bench) first_error: Option<i32>,
    /// Whether as much was written as was acknowledged; unknown after errors.
    pub(in crate::bench) all_there: bool,
}

impl Run {
    /// Whether nothing failed and nothing is missing.
    pub(super) fn is_valid(&self) -> bool {
        self.errors == 0 && self.all_there
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
    answers: Cell<u64>,
    /// Writes acknowledged at any time.
    writes: Cell<u64>,
    errors: Cell<u64>,
    first_error: Cell<Option<i32>>,
}

impl Shared {
    fn answered(&self, asked: Instant, answer: &Answer) {
        if answer.error != 0 {
            self.errors.set(self.errors.get() + 1);
            self.first_error.set(self.first_error.get().or(Some(answer.error)));
            return;
        }
        self.writes.set(self.writes.get() + 1);
        if self.phase.get() == Phase::Measured {
            self.answers.set(self.answers.get() + 1);
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

async fn measure(servers: &mut Servers, plan: Plan) -> Outcome<Run> {
    let mut judge = connect(servers, 1).await?.remove(0);
    prepare(&mut judge, plan).await?;
    let before = written(&mut judge, plan).await?;
    // They stay until the end.
    let mut watchers = connect(servers, if plan.watches > 0 { WATCHERS } else { 0 }).await?;
    watch(&mut watchers, plan.watches).await?;
    let connections = connect(servers, plan.connections).await?;
    let histogram = Histogram::new(3).map_err(|why| Failure::new(format!("no histogram: {why}")))?;
    let shared = Rc::new(Shared {
        plan,
        phase: Cell::new(Phase::Warm),
        latency: RefCell::new(histogram),
        answers: Cell::new(0),
        writes: Cell::new(0),
        errors: Cell::new(0),
        first_error: Cell::new(None),
    });
    let callers = (0..).zip(connections).map(|(number, client)| {
        let share = plan.under_way / plan.connections
            + usize::from((number as usize) < plan.under_way % plan.connections);
        spawn_local(caller(client, shared.clone(), number, share))
    });
    let callers: Vec<JoinHandle<Outcome<()>>> = callers.collect();
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
        ended.map_err(|_| Failure::new("a request is not answered"))?.doing("wait for a caller")??;
    }
    let further = written(&mut judge, plan).await? - before;
    let memory: u64 = servers.pids().into_iter().map(cpu::memory_of).sum::<Outcome<u64>>()?;
    let latency = shared.latency.borrow();
    let answers = shared.answers.get();
    let writes = if plan.is_write() { shared.writes.get() } else { 0 };
    Ok(Run {
        seconds,
        answers,
        per_s: answers as f64 / seconds,
        per_server_cpu_s: answers as f64 / servers_cpu_s.max(cpu::tick_s()),
        p50_us: latency.value_at_quantile(0.5) as f64 / 1000.0,
        p99_us: latency.value_at_quantile(0.99) as f64 / 1000.0,
        servers_cpu_s,
        load_cpu_s,
        memory_mib: memory as f64 / f64::from(1 << 20),
        errors: shared.errors.get(),
        first_error: shared.first_error.get(),
        all_there: further == writes,
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

/// Connects to all servers in turn, and waits until each answers.
async fn connect(servers: &mut Servers, count: usize) -> Outcome<Vec<Client>> {
    let until = Instant::now() + PATIENCE;
    let (addresses, mut clients) = (servers.addresses(), Vec::new());
    for address in addresses.iter().cycle().take(count) {
        let client = loop {
            servers.check()?;
            match tokio::time::timeout(PATIENCE, Client::connect(address)).await {
                Ok(Ok(client)) => break client,
                Ok(Err(why)) if Instant::now() >= until => return Err(why),
                Err(_) => return Err(Failure::new(format!("{address} does not answer"))),
                Ok(Err(_)) => tokio::time::sleep(AGAIN).await,
            }
        };
        clients.push(client);
    }
    Ok(clients)
}

impl Plan {
    const fn is_write(&self) -> bool {
        matches!(self.operation, Operation::Set | Operation::Create)
    }

    /// The node with this number, among those of this plan.
    fn node(&self, number: u64) -> String {
        format!("/bench-{}/{number:06}", self.bytes)
    }

    /// The directory of made nodes.
    fn made(&self) -> String {
        format!("/made-{}", self.bytes)
    }
}

fn create<'a>(path: &'a str, data: &'a [u8], mode: Mode) -> Request<'a> {
    Request::Create(Create {
        op: Op::Create,
        path: path.as_bytes(),
        data: Some(data),
        acl: Some(vec![Acl::OPEN]),
        flags: mode as i32,
        ttl_ms: 0,
    })
}

/// Makes the nodes, where they are not there from another load.
async fn prepare(client: &mut Client, plan: Plan) -> Outcome<()> {
    let data = vec![b'x'; plan.bytes];
    let directories = [format!("/bench-{}", plan.bytes), plan.made()];
    for path in directories {
        client.call(&create(&path, b"", Mode::Persistent)).await?;
    }
    let mut under_way = 0_usize;
    for number in 0..plan.nodes {
        client.ask(&create(&plan.node(number), &data, Mode::Persistent));
        under_way += 1;
        if number < CHILDREN {
            client.ask(&create(&format!("{}/{number}", plan.node(0)), b"", Mode::Persistent));
            under_way += 1;
        }
        if under_way >= 200 || number + 1 == plan.nodes {
            client.flush().await?;
            while under_way > 0 {
                client.answers(|_| under_way -= 1).await?;
            }
        }
    }
    Ok(())
}

/// Has these clients watch so many nodes that nobody makes.
async fn watch(watchers: &mut [Client], count: u64) -> Outcome<()> {
    let mut under_way = 0_u64;
    for (number, client) in (0..watchers.len() as u64).zip(watchers) {
        for other in (number..count).step_by(WATCHERS) {
            let path = format!("/watched/{other:06}");
            client.ask(&Request::Read { op: Op::Exists, path: path.as_bytes(), watch: true });
            under_way += 1;
            if under_way == 200 || other + WATCHERS as u64 >= count {
                client.flush().await?;
                while under_way > 0 {
                    client.answers(|_| under_way -= 1).await?;
                }
            }
        }
    }
    Ok(())
}

/// How much was ever written of what this plan writes.
async fn written(client: &mut Client, plan: Plan) -> Outcome<u64> {
    client.call(&Request::About { op: Op::Sync, path: b"/" }).await?;
    let stat = |answer: &Answer| Stat::read(&mut Reader::new(&answer.record)).unwrap_or_default();
    if plan.operation == Operation::Create {
        let path = plan.made();
        let request = Request::Read { op: Op::Exists, path: path.as_bytes(), watch: false };
        let answer = client.call(&request).await?;
        return Ok(stat(&answer).num_children as u64);
    }
    let mut all = 0;
    for number in 0..plan.nodes {
        let path = plan.node(number);
        let request = Request::Read { op: Op::Exists, path: path.as_bytes(), watch: false };
        let answer = client.call(&request).await?;
        all += stat(&answer).version as u64;
    }
    Ok(all)
}

async fn caller(mut client: Client, shared: Rc<Shared>, number: u64, share: usize) -> Outcome<()> {
    let plan = shared.plan;
    let mut random = Random(number.wrapping_mul(0x9e37_79b9));
    let mut asked: VecDeque<Instant> = VecDeque::with_capacity(share);
    let (mut data, made) = (vec![0; plan.bytes], format!("{}/n-", plan.made()));
    loop {
        if shared.phase.get() != Phase::Over {
            while asked.len() < share {
                let chosen =
                    if plan.operation == Operation::Children { 0 } else { random.next() % plan.nodes };
                let path = plan.node(chosen);
                random.fill(&mut data);
                let request = match plan.operation {
                    Operation::Set => {
                        Request::SetData { path: path.as_bytes(), data: Some(&data), version: -1 }
                    }
                    Operation::Create => create(&made, &data, Mode::PersistentSequential),
                    Operation::Get => Request::Read { op: Op::GetData, path: path.as_bytes(), watch: false },
                    Operation::Children => {
                        Request::Read { op: Op::GetChildren, path: path.as_bytes(), watch: false }
                    }
                };
                client.ask(&request);
                asked.push_back(Instant::now());
            }
            client.flush().await?;
        }
        if asked.is_empty() {
            return Ok(());
        }
        client
            .answers(|answer| {
                if let Some(asked) = asked.pop_front() {
                    shared.answered(asked, &answer);
                }
            })
            .await?;
    }
}
