//! The load generator: opens sessions, keeps a number of calls under way, and measures them.
//!
//! It runs in the caller's thread; the client's own thread serves the sockets. A latency reaches from just before a call is given to the
//! client until its answer is taken from the client's queue.

use super::cpu::{self, Cpu};
use super::target::Target;
use hdrhistogram::Histogram;
use quorate::client::{Answer, Client, Completed, CompletionQueue, Encoded, ReadOptions, Session};
use quorate_command::failure::{Failure, Outcome};
use quorate_command::print::amount;
use quorate_command::progress::Progress;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::{Duration, Instant};

/// A benchmark without any answer for this time has failed.
const STALL: Duration = Duration::from_secs(30);
/// How often the replicas and the clock are checked. Answers are taken as they come.
const LOOK: Duration = Duration::from_millis(100);

/// What a benchmark sends, and how it checks the answers.
pub(super) trait Work {
    /// The next call of this slot.
    fn next(&mut self, slot: usize) -> Call;
    /// A call of this slot was answered.
    ///
    /// # Errors
    /// When the service would not give such an answer.
    fn answered(&mut self, slot: usize, answer: &Answer) -> Outcome<()>;
}

/// What one call sends.
pub(super) enum Call {
    /// Commands, in the slot's session.
    Commands(Encoded),
    /// A read: the query, and how to read.
    Read(Vec<u8>, ReadOptions),
}

/// Is told of every call in the measured time.
pub(super) trait Observe {
    /// The measured time begins.
    fn begins(&mut self, at: Instant);
    /// A call was answered, in the measured time or after it.
    fn answered(&mut self, sent: Instant, at: Instant);
}

/// Ignores all calls.
impl Observe for () {
    fn begins(&mut self, _: Instant) {}
    fn answered(&mut self, _: Instant, _: Instant) {}
}

/// How much load, and for how long.
pub(super) struct Plan {
    /// Sessions.
    pub(super) sessions: usize,
    /// Calls outstanding in all sessions together.
    pub(super) slots: usize,
    /// Number of commands in one call.
    pub(super) commands_per_call: u64,
    pub(super) warm: Duration,
    pub(super) measure: Duration,
}

/// The measurements of a run.
pub(super) struct Measured {
    pub(super) began: Instant,
    pub(super) seconds: f64,
    /// Commands answered in the measured time.
    pub(super) commands: u64,
    /// Latency of calls that were sent and answered in the measured time, in nanoseconds.
    pub(super) latency: Histogram<u64>,
    /// Processor time of each replica in the measured time; empty when the replicas are on another machine.
    pub(super) replicas_cpu: Vec<Cpu>,
    /// Processor time of the oracle's replicas together in the measured time, where the cluster was started with one.
    pub(super) oracle_cpu: Option<Cpu>,
    pub(super) load_cpu: Cpu,
    /// Processor seconds of everything else in the measured time.
    pub(super) others_cpu_s: Option<f64>,
    /// Memory of each replica at the end, in bytes.
    pub(super) memory: Vec<u64>,
    /// Calls that ended with an error, and the first error.
    pub(super) errors: u64,
    pub(super) first_error: Option<String>,
    /// Calls of which it is unknown whether they ran.
    pub(super) unknown: u64,
}

/// A call that is under way.
struct Slot {
    session: usize,
    sent: Instant,
}

/// The system's counters at one moment.
pub(super) struct Look {
    at: Instant,
    pub(super) pids: Vec<u32>,
    pub(super) replicas: Vec<Cpu>,
    pub(super) oracle: Vec<Cpu>,
    pub(super) load: Cpu,
    machine_s: f64,
}

impl Look {
    pub(super) fn take(target: &Target) -> Outcome<Self> {
        let each = |pids: &[u32]| pids.iter().map(|pid| cpu::of_process(*pid)).collect::<Outcome<_>>();
        Ok(Self {
            at: Instant::now(),
            pids: target.pids.clone(),
            replicas: each(&target.pids)?,
            oracle: each(&target.oracle_pids)?,
            load: cpu::of_process(std::process::id())?,
            machine_s: cpu::of_machine_s(),
        })
    }

    /// What the oracle's replicas together used since then; `None` without one.
    pub(super) fn oracle_since(&self, before: &Self) -> Option<Cpu> {
        let each = self.oracle.iter().zip(&before.oracle).map(|(after, before)| after.since(*before));
        each.reduce(Cpu::plus)
    }
}

struct Generator<'a> {
    queue: CompletionQueue,
    sessions: Vec<Opened>,
    slots: Vec<Slot>,
    work: &'a mut dyn Work,
    outstanding: usize,
    answered: u64,
    errors: u64,
    first_error: Option<String>,
    unknown: u64,
}

/// Sends calls by the plan and measures them; returns once all are answered.
pub(super) fn run(target: &mut Target, plan: &Plan, work: &mut dyn Work, title: &str) -> Outcome<Measured> {
    run_observed(target, plan, work, title, &mut ())
}

/// Like [`run`], with an observer.
pub(super) fn run_observed(
    target: &mut Target,
    plan: &Plan,
    work: &mut dyn Work,
    title: &str,
    observer: &mut dyn Observe,
) -> Outcome<Measured> {
    let mut generator = Generator::new(target, plan, work)?;
    let progress = Progress::new(title, plan.warm + plan.measure);
    let start = Instant::now();
    generator.start();
    generator.until(target, start + plan.warm, &mut |_, _| (), |_| ())?;
    let (before, answered_before) = (Look::take(target)?, generator.answered);
    let mut latency = Histogram::new(3).map_err(|why| Failure::new(format!("no histogram: {why}")))?;
    let end = before.at + plan.measure;
    observer.begins(before.at);
    let mut record = |sent: Instant, now: Instant| {
        if sent >= before.at {
            // The histogram grows as it must; it has no upper limit that a latency could reach.
            let _ = latency.record((now - sent).as_nanos() as u64);
        }
        observer.answered(sent, now);
    };
    generator.until(target, end, &mut record, |answered| {
        let rate = (answered - answered_before) * plan.commands_per_call;
        let seconds = before.at.elapsed().as_secs_f64().max(0.001);
        progress.at(start.elapsed(), || format!("{}/s", amount(rate as f64 / seconds)));
    })?;
    let (after, answered) = (Look::take(target)?, generator.answered - answered_before);
    let memory = target.pids.iter().map(|pid| cpu::memory_of(*pid)).collect::<Outcome<_>>()?;
    generator.drain(target, &mut |sent, now| observer.answered(sent, now))?;

    let replicas_cpu: Vec<Cpu> =
        after.replicas.iter().zip(&before.replicas).map(|(after, before)| after.since(*before)).collect();
    let load_cpu = after.load.since(before.load);
    let oracle_cpu = after.oracle_since(&before);
    let beside = load_cpu.plus(oracle_cpu.unwrap_or_default());
    let ours = replicas_cpu.iter().fold(beside, |all, cpu| all.plus(*cpu)).total_s();
    let others_cpu_s =
        (!replicas_cpu.is_empty()).then(|| (after.machine_s - before.machine_s - ours).max(0.0));
    Ok(Measured {
        began: before.at,
        seconds: (after.at - before.at).as_secs_f64(),
        commands: answered * plan.commands_per_call,
        latency,
        replicas_cpu,
        oracle_cpu,
        load_cpu,
        others_cpu_s,
        memory,
        errors: generator.errors,
        first_error: generator.first_error,
        unknown: generator.unknown,
    })
}

/// Sends this number of calls, from sessions with one call outstanding each. All must succeed.
pub(super) fn fill(
    target: &mut Target,
    sessions: usize,
    calls: u64,
    work: &mut dyn Work,
    title: &str,
) -> Outcome<()> {
    let none = Duration::ZERO;
    let plan = Plan { sessions, slots: sessions, commands_per_call: 1, warm: none, measure: none };
    let mut generator = Generator::new(target, &plan, work)?;
    let progress = Progress::counting(title, calls);
    let mut left = calls;
    for slot in 0..sessions.min(usize::try_from(calls).unwrap_or(usize::MAX)) {
        generator.send(slot, Instant::now());
        left -= 1;
    }
    let mut batch: Vec<Completed> = Vec::new();
    while generator.outstanding > 0 {
        target.check()?;
        generator.queue.recv_batch(&mut batch, LOOK);
        for completed in batch.drain(..) {
            let slot = completed.tag as usize;
            if !generator.take(completed)? {
                let why = generator.first_error.unwrap_or_default();
                return Err(Failure::new(format!("what is to be measured could not be put there: {why}")));
            }
            if left > 0 {
                generator.send(slot, Instant::now());
                left -= 1;
            }
        }
        progress.count(generator.answered);
    }
    Ok(())
}

impl<'a> Generator<'a> {
    fn new(target: &Target, plan: &Plan, work: &'a mut dyn Work) -> Outcome<Self> {
        let sessions = open(target, plan.sessions, STALL)?;
        let now = Instant::now();
        Ok(Self {
            queue: CompletionQueue::new(),
            slots: (0..plan.slots).map(|slot| Slot { session: slot % sessions.len(), sent: now }).collect(),
            sessions,
            work,
            outstanding: 0,
            answered: 0,
            errors: 0,
            first_error: None,
            unknown: 0,
        })
    }

    fn start(&mut self) {
        (0..self.slots.len()).for_each(|slot| self.send(slot, Instant::now()));
    }

    fn send(&mut self, slot: usize, now: Instant) {
        let call = self.work.next(slot);
        let Slot { session, sent } = &mut self.slots[slot];
        *sent = now;
        self.sessions[*session].submit(call, slot, &self.queue);
        self.outstanding += 1;
    }

    /// Sends a new call for each answer until that moment, and records each answered call.
    fn until(
        &mut self,
        target: &mut Target,
        end: Instant,
        record: &mut dyn FnMut(Instant, Instant),
        mut look: impl FnMut(u64),
    ) -> Outcome<()> {
        let mut batch: Vec<Completed> = Vec::new();
        let mut looked = Instant::now();
        loop {
            let now = Instant::now();
            if now >= end {
                return Ok(());
            }
            if now - looked >= LOOK {
                looked = now;
                target.check()?;
                look(self.answered);
            }
            self.queue.recv_batch(&mut batch, LOOK.min(end - now));
            let now = Instant::now();
            for completed in batch.drain(..) {
                let slot = completed.tag as usize;
                let sent = self.slots[slot].sent;
                let answered = self.take(completed)?;
                if answered {
                    record(sent, now);
                } else {
                    // Whatever it is that refuses us gets a moment.
                    std::thread::sleep(Duration::from_millis(1));
                }
                self.send(slot, now);
            }
        }
    }

    /// Waits for the calls that are under way.
    fn drain(&mut self, target: &mut Target, record: &mut dyn FnMut(Instant, Instant)) -> Outcome<()> {
        let mut batch: Vec<Completed> = Vec::new();
        let until = Instant::now() + STALL;
        while self.outstanding > 0 {
            target.check()?;
            if Instant::now() >= until {
                return Err(Failure::new(format!("{} calls were not answered in time", self.outstanding)));
            }
            self.queue.recv_batch(&mut batch, LOOK);
            let now = Instant::now();
            for completed in batch.drain(..) {
                let sent = self.slots[completed.tag as usize].sent;
                if self.take(completed)? {
                    record(sent, now);
                }
            }
        }
        Ok(())
    }

    fn take(&mut self, completed: Completed) -> Outcome<bool> {
        self.outstanding -= 1;
        match completed.result {
            Ok(answer) => {
                self.work.answered(completed.tag as usize, &answer)?;
                self.answered += 1;
                Ok(true)
            }
            Err(error) => {
                self.errors += 1;
                self.unknown += u64::from(error.is_outcome_unknown());
                self.first_error.get_or_insert_with(|| error.to_string());
                Ok(false)
            }
        }
    }
}

/// A session, and the client that it belongs to.
pub(super) struct Opened {
    client: Client,
    session: Session,
}

impl Opened {
    pub(super) fn submit(&self, call: Call, slot: usize, queue: &CompletionQueue) {
        match call {
            Call::Commands(commands) => self.client.submit(&self.session, commands, slot as u64, queue),
            Call::Read(query, options) => {
                let options = ReadOptions { timeout: Some(STALL), ..options };
                self.client.submit_read(query, options, slot as u64, queue);
            }
        }
    }
}

/// Opens sessions, all at once, spread over all clients. A call in them waits this long for its answer.
pub(super) fn open(target: &Target, count: usize, timeout: Duration) -> Outcome<Vec<Opened>> {
    let clients: Vec<Client> = target.clients().cycle().take(count).cloned().collect();
    let opening: Vec<_> = clients.iter().map(|client| Box::pin(client.open_session())).collect();
    all(opening)
        .into_iter()
        .zip(&clients)
        .map(|(opened, client)| {
            opened.map(|mut session| {
                session.set_timeout(timeout);
                Opened { client: client.clone(), session }
            })
        })
        .collect::<Result<_, _>>()
        .map_err(|why| Failure::new(format!("can not open {count} sessions: {why}")))
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Waits for all futures; all make progress from the beginning.
pub(super) fn all<F: Future>(mut futures: Vec<Pin<Box<F>>>) -> Vec<F::Output> {
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut context = Context::from_waker(&waker);
    // The first look sets all of them going.
    let begun: Vec<_> = futures.iter_mut().map(|future| future.as_mut().poll(&mut context)).collect();
    let finish = |(begun, mut future): (Poll<F::Output>, Pin<Box<F>>)| {
        if let Poll::Ready(output) = begun {
            return output;
        }
        // Looks before it sleeps: what woke us for this one may have come while another one was waited for.
        loop {
            if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
                return output;
            }
            std::thread::park();
        }
    };
    begun.into_iter().zip(futures).map(finish).collect()
}
