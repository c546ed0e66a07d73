//! The same requests on real threads, of a pair: how fast it is with each mixer.

use super::super::way::Way;
use super::super::{FigureArgs, Seen};
use super::requests::{Requests, Told};
use super::schedule::WORKERS;
use super::twins::BATCH;
use super::{MIXERS, Mixer, SEED, requests};
use crate::bench::bft;
use crate::bench::load::{self, Call, Plan, Work};
use crate::bench::median;
use crate::bench::options::Measurement;
use crate::bench::report::Check;
use crate::bench::target::Target;
use quorate::client::{Answer, Encoded};
use quorate_command::arguments::seconds;
use quorate_command::failure::{Failure, Outcome};
use quorate_command::layout::ServiceChoice;
use quorate_kv::WorkCommand;
use serde_json::Value;
use std::time::Duration;

/// One run with one mixer.
pub(super) struct Run {
    pub(super) per_s: f64,
    /// How often everything that was not final ran again.
    pub(super) rollbacks: u64,
    /// How often a client was told something wrong.
    pub(super) wrong: u64,
    /// Replicas that can not come to what was ruled, and wait for a checkpoint.
    pub(super) behind: u64,
    pub(super) errors: u64,
    pub(super) check: Check,
}

/// Clients that each change an object of their own, some of them while they use a table.
struct Racy {
    requests: Requests,
    told: Told,
    answered: u64,
    wrong: u64,
}

impl Work for Racy {
    fn next(&mut self, slot: usize) -> Call {
        Call::Commands(Encoded::one(&self.requests.next(slot as u32).encode()))
    }

    fn answered(&mut self, slot: usize, answer: &Answer) -> Outcome<()> {
        self.answered += 1;
        let Some(changes) = answer.first().and_then(<[u8]>::first_chunk) else {
            return Err(Failure::new(format!("a command was answered with {:?}", answer.first())));
        };
        self.wrong += u64::from(!self.told.counted(slot, u64::from_le_bytes(*changes)));
        Ok(())
    }
}

/// Measures each mixer in turns. Gives the runs of each.
pub(super) fn measure(args: &FigureArgs, own: &Measurement, command_us: u32) -> Outcome<Vec<Vec<Run>>> {
    let mut runs: Vec<Vec<Run>> = MIXERS.iter().map(|_| Vec::new()).collect();
    for round in 1..=args.rounds {
        for at in median::order(round, MIXERS.len()) {
            let title = format!("{}, {round}/{}", MIXERS[at].name, args.rounds);
            runs[at].push(once(args, own, (MIXERS[at], command_us), &title)?);
        }
    }
    Ok(runs)
}

fn once(args: &FigureArgs, own: &Measurement, (mixer, sleep_us): (Mixer, u32), title: &str) -> Outcome<Run> {
    let settings = Way::Speculative(WORKERS as u16).settings(true);
    let mut target = Target::configured(own, ServiceChoice::Work, settings)?;
    let plan = Plan {
        sessions: BATCH as usize,
        slots: BATCH as usize,
        commands_per_call: 1,
        warm: Duration::from_secs_f64(own.warm),
        measure: seconds("--secs", own.secs)?,
    };
    let command = WorkCommand { sleep_us, object_bytes: args.eve.object_bytes, ..WorkCommand::default() };
    let requests = Requests::new(SEED, mixer, requests::USES, command);
    let mut work = Racy { requests, told: Told::default(), answered: 0, wrong: 0 };
    let measured = load::run(&mut target, &plan, &mut work, title)?;
    let check = match measured.errors {
        0 => bft::verify(&target, work.answered - work.wrong)?,
        _ => Check::not_done("some calls failed"),
    };
    let behind =
        target.here().filter(|replica| target.client.status(*replica).is_ok_and(|is| is_behind(&is)));
    let behind = behind.count() as u64;
    let is_wrong = mixer.missed != Some(0.0);
    let check = match check.is_passed() || !is_wrong || behind == 0 || measured.errors > 0 {
        true => check,
        // While one of the two was slow, the other one ruled alone, and told what no run repeats (V9 of docs/protocols/verify.md).
        false => Check::passed("a replica that differs says so, answers nothing, and waits for a checkpoint"),
    };
    let status = target.here().next().and_then(|first| target.client.status(first).ok());
    Ok(Run {
        per_s: measured.commands as f64 / measured.seconds,
        rollbacks: status.as_deref().map(Seen::of).unwrap_or_default().rollbacks,
        wrong: work.wrong,
        behind,
        errors: measured.errors,
        check,
    })
}

/// Whether a replica says that it did something else than what was ruled.
fn is_behind(status: &str) -> bool {
    let status: Value = serde_json::from_str(status).unwrap_or_default();
    status["verification"]["differs"].is_u64()
}
