//! `bench bft`: many clients, each with one request outstanding, and chosen sizes of requests and replies.
//!
//! The service only answers requests, so what is measured is agreement. As in the papers, "0/0" means requests and replies of 0 bytes. A
//! request carries its number if it has room for it. At the end every replica must have executed the same number of requests.

use super::load::{self, Call, Plan, Work};
use super::options::BftArgs;
use super::output::Output;
use super::report::{Check, Subject};
use super::series::{self, Series};
use super::target::Target;
use quorate::client::{Answer, Authentication, Encoded, ReadOptions};
use quorate_command::arguments::seconds;
use quorate_command::failure::{Failure, Outcome};
use quorate_command::layout::ServiceChoice;
use quorate_floor::Config as FloorConfig;
use quorate_kv::{echo_command, echo_query};
use std::time::{Duration, Instant};

/// The largest size; larger ones do not fit into a frame.
pub(super) const BYTES_MAX: usize = 256 << 10;
const CATCH_UP: Duration = Duration::from_secs(20);
/// How long a client waits for an answer.
pub(super) const TIMEOUT: Duration = Duration::from_secs(20);

pub(super) fn run(args: &BftArgs, output: &Output) -> Outcome {
    let (subject, floor) = subject(args)?;
    Series { measurement: &args.measurement, subject, floor, output }.run(|title| measure(args, title))
}

/// What is measured, and the null program beside it.
pub(super) fn subject(args: &BftArgs) -> Outcome<(Subject, FloorConfig)> {
    args.measurement.check()?;
    if !(1..=10_000).contains(&args.clients) {
        return Err(Failure::usage("--clients is 1 to 10000"));
    }
    if args.request_bytes > BYTES_MAX || args.reply_bytes > BYTES_MAX {
        return Err(Failure::usage("--request-bytes and --reply-bytes are at most 262144"));
    }
    if args.measurement.cluster.dir.is_some() || args.measurement.cluster.config.is_some() {
        return Err(Failure::usage("`bench bft` starts a cluster of its own: leave out --dir and --config"));
    }
    let floor = FloorConfig {
        window: args.clients as u64,
        command_bytes: args.request_bytes.max(16),
        ..series::floor_config(&args.measurement)
    };
    let order = args.measurement.order.choice()?;
    let floor = if args.shared { floor } else { series::with_callers(floor, &order, args.clients) };
    let connections =
        if args.shared { "which share connections" } else { "each with connections of its own" };
    let shown = match order.authentication {
        Authentication::Links => String::new(),
        other => format!(", authenticated by {}", other.name()),
    };
    let subject = Subject {
        benchmark: "bft",
        payload: format!("{}/{} B requests/replies", args.request_bytes, args.reply_bytes),
        load: format!("{} clients, {connections}, one request outstanding each{shown}", args.clients),
        unit: "requests",
    };
    Ok((subject, floor))
}

pub(super) fn measure(args: &BftArgs, title: &str) -> Outcome<series::Run> {
    let mut target = Target::open(&args.measurement, ServiceChoice::Echo)?;
    if !args.shared {
        target.have_crowd(args.clients, TIMEOUT)?;
    }
    let plan = Plan {
        sessions: args.clients,
        slots: args.clients,
        commands_per_call: 1,
        warm: Duration::from_secs_f64(args.measurement.warm),
        measure: seconds("--secs", args.measurement.secs)?,
    };
    let mut work = Requests::new(args.request_bytes, args.reply_bytes);
    let before = target.signatures_checked()?;
    let measured = load::run(&mut target, &plan, &mut work, title)?;
    let check = verify(&target, work.answered)?;
    let checked = target.signatures_checked()? - before;
    let run = series::Run::new(&target, measured, check);
    let signs = target.order.authentication == Authentication::Signatures;
    Ok(if signs { run.checked(checked, work.answered) } else { run })
}

/// Equal requests.
pub(super) struct Requests {
    command: Encoded,
    reply_bytes: usize,
    /// How many were answered so far.
    pub(super) answered: u64,
}

impl Requests {
    /// Requests and replies of these sizes.
    pub(super) fn new(request_bytes: usize, reply_bytes: usize) -> Self {
        let command = Encoded::one(&echo_command(request_bytes, reply_bytes));
        Self { command, reply_bytes, answered: 0 }
    }
}

impl Work for Requests {
    fn next(&mut self, _: usize) -> Call {
        Call::Commands(self.command.clone())
    }

    fn answered(&mut self, _: usize, answer: &Answer) -> Outcome<()> {
        self.answered += 1;
        match answer.first() {
            Some(reply) if reply.len() == self.reply_bytes => Ok(()),
            other => Err(Failure::new(format!(
                "a request was answered with {:?} bytes, not {}",
                other.map(<[u8]>::len),
                self.reply_bytes
            ))),
        }
    }
}

/// Commands, or commands and reads in a fixed order, so that each run has the same share of each.
pub(super) struct Mix {
    commands: Requests,
    query: Vec<u8>,
    read_bytes: usize,
    percent: u64,
    sent: u64,
    /// Of each slot, whether it reads.
    reads: Vec<bool>,
}

impl Mix {
    /// Commands alone.
    pub(super) fn commands(request_bytes: usize, reply_bytes: usize) -> Self {
        let (commands, query) = (Requests::new(request_bytes, reply_bytes), Vec::new());
        Self { commands, query, read_bytes: 0, percent: 0, sent: 0, reads: Vec::new() }
    }

    /// So many of 100 read, and are answered with `read_bytes`; the others are commands of `request_bytes` that are answered with nothing.
    pub(super) fn reading(percent: u32, request_bytes: usize, read_bytes: usize) -> Self {
        let query = echo_query(read_bytes);
        Self { query, read_bytes, percent: percent.into(), ..Self::commands(request_bytes, 0) }
    }

    /// How many commands were answered so far.
    pub(super) fn executed(&self) -> u64 {
        self.commands.answered
    }
}

impl Work for Mix {
    fn next(&mut self, slot: usize) -> Call {
        let before = self.sent * self.percent / 100;
        self.sent += 1;
        let reads = self.sent * self.percent / 100 > before;
        if self.reads.len() <= slot {
            self.reads.resize(slot + 1, false);
        }
        self.reads[slot] = reads;
        if reads { Call::Read(self.query.clone(), ReadOptions::STRONG) } else { self.commands.next(slot) }
    }

    fn answered(&mut self, slot: usize, answer: &Answer) -> Outcome<()> {
        if !self.reads.get(slot).copied().unwrap_or_default() {
            return self.commands.answered(slot, answer);
        }
        match answer.first() {
            Some(reply) if reply.len() == self.read_bytes => Ok(()),
            other => Err(Failure::new(format!(
                "a read was answered with {:?} bytes, not {}",
                other.map(<[u8]>::len),
                self.read_bytes
            ))),
        }
    }
}

/// Every replica that is here executed each request once.
pub(super) fn verify(target: &Target, answered: u64) -> Outcome<Check> {
    verify_within(target, answered, CATCH_UP)
}

/// The same; replicas that lag get this much time.
pub(super) fn verify_within(target: &Target, answered: u64, time: Duration) -> Outcome<Check> {
    let until = Instant::now() + time;
    for replica in target.here() {
        let options = ReadOptions {
            replica: Some(replica),
            timeout: Some(Duration::from_secs(2)),
            ..ReadOptions::WEAK
        };
        loop {
            let answer = target.client.read(Vec::new(), options);
            let count = answer.as_ref().ok().and_then(|answer| answer.body.first_chunk::<8>());
            match count.map(|count| u64::from_le_bytes(*count)) {
                Some(count) if count == answered => break,
                Some(count) if count > answered => {
                    return Ok(Check::failed(format!(
                        "{replica} executed {count} requests, {answered} were answered"
                    )));
                }
                _ if Instant::now() >= until => {
                    return Ok(Check::failed(format!(
                        "{replica} did not execute all of {answered} requests: {answer:?}"
                    )));
                }
                _ => std::thread::sleep(Duration::from_millis(20)),
            }
        }
    }
    Ok(Check::passed("each replica executed each request once"))
}
