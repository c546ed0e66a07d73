//! A rare command on one of several instances: how much the idle instances add to its latency.
//!
//! A cluster with one instance runs beside it, and commands go to both in turns, so that the machine's other work affects both.

use super::median::Median;
use super::target::Target;
use quorate::client::BlockingSession;
use quorate_command::failure::{Doing as _, Outcome};
use quorate_command::progress::Progress;
use quorate_kv::{KvCommand, Operation};
use serde::Serialize;
use std::time::{Duration, Instant};

/// From one command to the next in the same cluster.
const EVERY: Duration = Duration::from_secs(1);

/// The latencies, in milliseconds.
#[derive(Serialize)]
pub(super) struct Pulse {
    /// In the cluster with several instances, and in that with one.
    pub(super) several_ms: Median,
    pub(super) one_ms: Median,
    /// The difference of each pair.
    pub(super) added_ms: Median,
}

/// Sends this number of commands to each cluster.
pub(super) fn compare(several: &mut Target, one: &mut Target, count: u32) -> Outcome<Option<Pulse>> {
    let open = |target: &Target| target.client.open_session().doing("open a session");
    let sessions = [open(several)?, open(one)?];
    let progress = Progress::new("one command per second", EVERY * count);
    let mut times = [Vec::new(), Vec::new()];
    let start = Instant::now();
    for number in 0..count {
        for (at, session) in sessions.iter().enumerate() {
            let due = start + EVERY * number + EVERY / 2 * at as u32;
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
            times[at].push(put(session, number)?);
        }
        several.check()?;
        one.check()?;
        progress.at(start.elapsed(), String::new);
    }
    let [several, one] = times;
    let added = several.iter().zip(&one).map(|(several, one)| several - one).collect();
    let medians = (Median::of(several), Median::of(one), Median::of(added));
    let (Some(several_ms), Some(one_ms), Some(added_ms)) = medians else { return Ok(None) };
    Ok(Some(Pulse { several_ms, one_ms, added_ms }))
}

/// How long one put takes, in milliseconds.
fn put(session: &BlockingSession, number: u32) -> Outcome<f64> {
    let mut command = Vec::new();
    let value = number.to_le_bytes();
    KvCommand::One(Operation::Put { key: b"pulse", value: &value }).encode(&mut command);
    let sent = Instant::now();
    session.call_one(&command).doing("put a value")?;
    Ok(sent.elapsed().as_secs_f64() * 1e3)
}
