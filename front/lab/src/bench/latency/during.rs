//! One measurement at a fixed rate while something happens: a checkpoint, a scrub, a replica that comes back, another leader.
//!
//! Each gets a cluster of its own, with the same state put there before. Except where the event needs checkpoints, borders are so far apart
//! that no replica writes one.

use super::options::LatencyArgs;
use super::{Row, row};
use crate::bench::events;
use crate::bench::figure::catchup;
use crate::bench::figure::filling::{KEY_BYTES, put_there, settle};
use crate::bench::figure::marks;
use crate::bench::kv::{self, Puts};
use crate::bench::paced;
use crate::bench::report::Check;
use crate::bench::target::Target;
use crate::bench::temporary::Settings;
use clap::ValueEnum;
use quorate_command::arguments;
use quorate_command::cluster::Cluster;
use quorate_command::failure::{Failure, Outcome};
use quorate_command::layout::ServiceChoice;
use quorate_command::print::size;
use quorate_command::progress::Progress;
use quorate_runtime::CheckpointConfig;
use quorate_types::ReplicaId;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The size of the values that are put there before.
const VALUE_BYTES: usize = 1024;
/// What a put takes in a batch besides key and value, about, in bytes.
const PUT_BYTES: f64 = 64.0;
/// A distance of borders that is never reached.
const NEVER: u64 = 1 << 40;

/// What happens in the measured time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(in crate::bench) enum Event {
    /// Nothing
    None,
    /// Each replica writes one checkpoint after the other
    Checkpoint,
    /// All replicas read what they have on disk, again and again
    Scrub,
    /// A replica that was away comes back and fetches the state
    Transfer,
    /// The leader is killed in the middle, and started again later
    Leader,
    /// The leader hands over in the middle
    HandOver,
}

/// Measures one event at this rate.
pub(super) fn measure(args: &LatencyArgs, event: Event, rate: f64) -> Outcome<(Row, Check)> {
    let name = arguments::name(event);
    let mut target = Target::configured(&args.measurement, ServiceChoice::Kv, settings(args, event, rate))?;
    let away = (event == Event::Transfer).then(|| target.take_one_away()).transpose()?;
    // Behind the keys of the load, so that the state stays as large as it is.
    let keys = args.keys..args.keys + (args.state_bytes / (KEY_BYTES + VALUE_BYTES) as u64).max(1);
    put_there(&mut target, keys, VALUE_BYTES, &format!("{name}: the state"))?;
    let others = target.replicas.len() - 1 - usize::from(away.is_some());
    settle(&mut target, others)?;
    target.have_crowd(args.clients, args.timeout()?)?;
    let pace = super::pace(args, rate)?;
    let mut work = Puts::new(args.keys, args.value_bytes);
    let happens = Happens::begin(event, &mut target, away, &pace)?;
    let progress = Progress::waiting(&name);
    let provided = paced::run(&mut target, &pace, &mut work)?;
    drop(progress);
    let note = happens.end(&target, provided.begin, pace.measure)?;
    let check = kv::verify(&target, &work.sample)?;
    Ok((Row { note: Some(note), event: Some(name), ..row(rate, None, &provided) }, check))
}

/// The settings of the replicas for this event.
fn settings(args: &LatencyArgs, event: Event, rate: f64) -> Settings {
    let number = |bytes: u64| toml::Value::Integer(i64::try_from(bytes).unwrap_or(i64::MAX));
    let interval = match event {
        // A border every second; but not so many while the state is put there that replicas write checkpoints for minutes after that.
        Event::Checkpoint => {
            let second = rate * (PUT_BYTES + (KEY_BYTES + args.value_bytes) as f64);
            (second as u64).max(args.state_bytes / 32)
        }
        // So close that the log behind the state is trimmed before the replica comes back.
        Event::Transfer => (args.state_bytes / 4).max(4 << 20),
        // So that there is a checkpoint to read, and seldom another one while the load runs.
        Event::Scrub => (args.state_bytes / 2).max(4 << 20),
        _ => NEVER,
    };
    let interval = interval.clamp(64 << 10, NEVER);
    let log = CheckpointConfig::default().log_bytes_max.max(interval.saturating_mul(4));
    let checkpoints = vec![
        ("checkpoints", "interval_bytes", number(interval)),
        ("checkpoints", "interval_bytes_max", number(interval)),
        ("checkpoints", "interval_state_percent", number(0)),
        ("checkpoints", "log_bytes_max", number(log)),
    ];
    checkpoints.into_iter().chain(args.settings()).collect()
}

/// What was begun beside the load.
enum Happens {
    Nothing,
    Checkpoints(marks::Watch),
    Scrubs(Arc<AtomicBool>, JoinHandle<Result<u32, String>>),
    Transfer(ReplicaId, catchup::Watch),
    Leader,
    HandOver(JoinHandle<String>),
}

impl Happens {
    fn begin(
        event: Event,
        target: &mut Target,
        away: Option<ReplicaId>,
        pace: &paced::Pace,
    ) -> Outcome<Self> {
        let now = Instant::now();
        let middle = now + pace.warm + pace.measure / 2;
        Ok(match (event, away) {
            (Event::Checkpoint, _) => {
                Self::Checkpoints(marks::Watch::start(&target.client, &target.replicas))
            }
            (Event::Scrub, _) => {
                let cluster = target.cluster().cloned();
                let cluster = cluster.ok_or_else(|| Failure::new("the cluster is not ours"))?;
                let stop = Arc::new(AtomicBool::new(false));
                let stopped = Arc::clone(&stop);
                Self::Scrubs(stop, std::thread::spawn(move || scrub(&cluster, &stopped)))
            }
            (Event::Transfer, Some(replica)) => {
                target.events.plan(now + pace.warm + pace.measure / 3, events::Event::Returns);
                Self::Transfer(replica, catchup::Watch::start(&target.client, replica))
            }
            (Event::Leader, _) => {
                target.events.plan(middle, events::Event::LeaderFalls(pace.measure / 4));
                Self::Leader
            }
            (Event::HandOver, _) => {
                let client = target.client.clone();
                Self::HandOver(std::thread::spawn(move || {
                    std::thread::sleep(middle.saturating_duration_since(Instant::now()));
                    client.transfer(None).unwrap_or_else(|why| format!("no hand-over: {why}"))
                }))
            }
            _ => Self::Nothing,
        })
    }

    /// Waits for the end, and says what there was of it in the measured time.
    fn end(self, target: &Target, began: Instant, length: Duration) -> Outcome<String> {
        let since = |at: Instant| at.saturating_duration_since(began).as_secs_f64();
        let falls = |event| matches!(event, events::Event::LeaderFalls(_));
        Ok(match self {
            Self::Nothing => "-".into(),
            Self::Checkpoints(watch) => {
                let found = watch.finish(began);
                let end = length.as_secs_f64();
                let inside = |span: &marks::Span| span.to_s.clamp(0.0, end) - span.from_s.clamp(0.0, end);
                let share = found.any.iter().map(inside).sum::<f64>() / end;
                let count: usize = found.spans.iter().map(Vec::len).sum();
                format!("{count} checkpoints, some replica wrote one in {:.0} % of the time", share * 100.0)
            }
            Self::Scrubs(stop, thread) => {
                stop.store(true, Ordering::Release);
                let scrubbed = thread.join().map_err(|_| Failure::new("the scrubs failed"))?;
                let count = scrubbed.map_err(|why| Failure::new(format!("can not scrub: {why}")))?;
                format!("{count} scrubs of all replicas, one after the other")
            }
            Self::Transfer(replica, watch) => {
                let seen = watch.finish();
                let back = target.events.returned().map_or(0.0, since);
                let caught_up = seen.caught_up.map_or("had not caught up at the end".into(), |at| {
                    format!("had caught up at {:.1} s", since(at))
                });
                format!("{replica} came back at {back:.1} s, fetched {}, {caught_up}", size(seen.fetched))
            }
            Self::Leader => match (target.events.happened(falls), target.events.returned()) {
                (Some((at, replica)), Some(back)) => {
                    format!(
                        "{replica} was killed at {:.1} s and started again at {:.1} s",
                        since(at),
                        since(back)
                    )
                }
                _ => return Err(Failure::new("no leader was known that could be killed; try again")),
            },
            Self::HandOver(thread) => {
                thread.join().map_err(|_| Failure::new("asking for the hand-over failed"))?
            }
        })
    }
}

/// Scrubs all replicas until it is told to stop. Returns how often.
fn scrub(cluster: &Cluster, stop: &AtomicBool) -> Result<u32, String> {
    let program = std::env::current_exe().map_err(|why| why.to_string())?;
    let mut count = 0;
    while !stop.load(Ordering::Acquire) {
        let ran = Command::new(&program).args(["scrub", "all", "--dir"]).arg(&cluster.directory).output();
        let ran = ran.map_err(|why| why.to_string())?;
        if !ran.status.success() {
            return Err(String::from_utf8_lossy(&ran.stderr).trim().to_owned());
        }
        count += 1;
    }
    Ok(count)
}
