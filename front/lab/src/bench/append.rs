//! `bench append`: the most commands per second through the whole path, from a session through order and log to the service.
//!
//! Each command begins with its number, and the service counts commands and sums their words. At the end a strong read must give the totals
//! that were acknowledged, and every replica must agree: so a lost, doubled or damaged command shows.

use super::load::{self, Call, Plan, Work};
use super::options::AppendArgs;
use super::output::Output;
use super::report::{Check, Subject};
use super::series::{self, Series};
use super::target::Target;
use bytes::Bytes;
use quorate::client::{Answer, Encoded, ReadOptions};
use quorate_command::arguments::seconds;
use quorate_command::failure::{Failure, Outcome};
use quorate_command::layout::ServiceChoice;
use quorate_floor::Config as FloorConfig;
use quorate_kv::Totals;
use std::time::{Duration, Instant};

/// The most bytes in one call.
const CALL_BYTES_MAX: usize = 2 << 20;
/// How long the slowest replica may take to catch up at the end.
const CATCH_UP: Duration = Duration::from_secs(20);

pub(super) fn run(args: &AppendArgs, output: &Output) -> Outcome {
    let (subject, floor) = subject(args)?;
    Series { measurement: &args.measurement, subject, floor, output }.run(|title| measure(args, title))
}

/// What is measured, and the null program beside it.
pub(super) fn subject(args: &AppendArgs) -> Outcome<(Subject, FloorConfig)> {
    check(args)?;
    let window = args.window as u64;
    let floor = FloorConfig { window, command_bytes: args.bytes, ..series::floor_config(&args.measurement) };
    let subject = Subject {
        benchmark: "append",
        payload: format!(
            "{} B commands, {} per call, one reply per call",
            args.bytes, args.commands_per_call
        ),
        load: format!("{} commands outstanding, {} sessions, 1 client", args.window, sessions(args)),
        unit: "commands",
    };
    Ok((subject, floor))
}

fn check(args: &AppendArgs) -> Outcome<()> {
    args.measurement.check()?;
    if args.bytes < 16 || !args.bytes.is_multiple_of(8) {
        return Err(Failure::usage("--bytes is at least 16 and a multiple of 8"));
    }
    if args.commands_per_call == 0 || args.commands_per_call.saturating_mul(args.bytes) > CALL_BYTES_MAX {
        return Err(Failure::usage(
            "--commands-per-call times --bytes is at least one command and at most 2 MiB",
        ));
    }
    if args.window < args.commands_per_call {
        return Err(Failure::usage("--window is at least --commands-per-call"));
    }
    if args.sessions == 0 || args.sessions > 10_000 {
        return Err(Failure::usage("--sessions is 1 to 10000"));
    }
    Ok(())
}

fn calls(args: &AppendArgs) -> usize {
    args.window / args.commands_per_call
}

/// The number of sessions; at most that of calls, since each session has one call at least.
fn sessions(args: &AppendArgs) -> usize {
    args.sessions.min(calls(args))
}

pub(super) fn measure(args: &AppendArgs, title: &str) -> Outcome<series::Run> {
    let mut target = Target::open(&args.measurement, ServiceChoice::Tally)?;
    let base = strong(&target)?;
    let plan = Plan {
        sessions: sessions(args),
        slots: calls(args),
        commands_per_call: args.commands_per_call as u64,
        warm: Duration::from_secs_f64(args.measurement.warm),
        measure: seconds("--secs", args.measurement.secs)?,
    };
    let mut work = Append { commands: args.commands_per_call, bytes: args.bytes, sent: base };
    let measured = load::run(&mut target, &plan, &mut work, title)?;
    let check = if measured.unknown > 0 {
        Check::not_done("it is not known of some calls whether they ran")
    } else if measured.errors > 0 {
        Check::not_done("some calls failed")
    } else {
        verify(&target, work.sent)?
    };
    Ok(series::Run::new(&target, measured, check))
}

/// Numbers the commands, and keeps the totals that the service must have at the end.
pub(super) struct Append {
    pub(super) commands: usize,
    pub(super) bytes: usize,
    pub(super) sent: Totals,
}

impl Work for Append {
    fn next(&mut self, _: usize) -> Call {
        let (body, sum) = body(self.commands, self.bytes, self.sent.count);
        self.sent.count += self.commands as u64;
        self.sent.sum = self.sent.sum.wrapping_add(sum);
        Call::Commands(Encoded::from_bytes(Bytes::from(body)))
    }

    fn answered(&mut self, _: usize, answer: &Answer) -> Outcome<()> {
        match answer.first().and_then(Totals::decode) {
            Some(_) => Ok(()),
            None => Err(Failure::new(
                "the cluster's service is not \"tally\": set `service` in its configuration",
            )),
        }
    }
}

/// An item list of numbered commands, written in place; and the sum of its words.
pub(super) fn body(commands: usize, bytes: usize, first: u64) -> (Vec<u8>, u64) {
    let mut body = Vec::with_capacity(8 + commands * bytes);
    body.extend_from_slice(&(commands as u32).to_le_bytes());
    body.extend_from_slice(&(bytes as u32).to_le_bytes());
    let mut sum = 0u64;
    for number in (first + 1..).take(commands) {
        // Spread over all bits, so that no two mistakes cancel each other out.
        let spread = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        body.extend_from_slice(&number.to_le_bytes());
        body.extend_from_slice(&spread.to_le_bytes());
        sum = sum.wrapping_add(number).wrapping_add(spread);
        body.resize(body.len() + bytes - 16, 0);
    }
    (body, sum)
}

pub(super) fn strong(target: &Target) -> Outcome<Totals> {
    let read = target.client.read(Bytes::new(), ReadOptions::STRONG);
    let body = read.map_err(|why| Failure::new(format!("can not read the totals: {why}")))?.body;
    Totals::decode(&body).ok_or_else(|| {
        Failure::usage("the cluster's service is not \"tally\": set `service` in its configuration")
    })
}

/// The leader's totals must be right at once, those of the other replicas as soon as they caught up.
pub(super) fn verify(target: &Target, expected: Totals) -> Outcome<Check> {
    let found = strong(target)?;
    if found != expected {
        return Ok(Check::failed(format!(
            "acknowledged were {} commands with sum {:#x}; a strong read gives {} with sum {:#x}",
            expected.count, expected.sum, found.count, found.sum
        )));
    }
    let until = Instant::now() + CATCH_UP;
    for replica in &target.replicas {
        let options = ReadOptions {
            replica: Some(*replica),
            timeout: Some(Duration::from_secs(2)),
            ..ReadOptions::WEAK
        };
        loop {
            let read = target.client.read(Bytes::new(), options);
            let found = read.as_ref().ok().and_then(|read| Totals::decode(&read.body));
            if found == Some(expected) {
                break;
            }
            if Instant::now() >= until {
                let found = found.map_or_else(|| "nothing".to_owned(), |totals| totals.count.to_string());
                let expected = expected.count;
                let text =
                    format!("{replica} has {found} of {expected} commands {} s later", CATCH_UP.as_secs());
                return Ok(Check::failed(text));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
    Ok(Check::passed("the service counted and summed what was acknowledged, on every replica"))
}
