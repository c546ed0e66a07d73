//! Real runs, of which the time of each lane is measured.

use super::prices::Taken;
use super::{ModelArgs, Shape};
use crate::bench::append::{Append, strong, verify};
use crate::bench::load::{self, Observe, Plan};
use crate::bench::options::Measurement;
use crate::bench::quota::{Quotas, threads};
use crate::bench::target::Target;
use quorate_command::arguments::seconds;
use quorate_command::cluster::ClusterArgs;
use quorate_command::failure::{Failure, Outcome};
use quorate_command::layout::{DurabilityChoice, ServiceChoice};
use quorate_command::ordering::OrderArgs;
use std::fs;
use std::time::{Duration, Instant};

/// The beginning of the lanes' thread names.
const LANE: &str = "lane-";

/// What a run came to.
pub(super) struct Run {
    pub(super) commands_per_s: f64,
    /// The share of its time that each lane of each replica worked, the main lane first.
    pub(super) busy: Vec<Vec<f64>>,
    /// What the lanes took, if the first replica that leads is the only one: with one instance on one lane.
    pub(super) taken: Taken,
}

/// Processor seconds of all lanes of all replicas, at the beginning and at the end.
struct Lanes {
    threads: Vec<Vec<String>>,
    length: Duration,
    began: Option<Instant>,
    calls: u64,
    before: Vec<Vec<f64>>,
    after: Option<(Vec<Vec<f64>>, f64)>,
}

impl Lanes {
    fn of(target: &Target, length: Duration) -> Outcome<Self> {
        let of = |pid: &u32| -> Outcome<Vec<String>> {
            let mut named = Vec::new();
            for thread in threads(*pid, LANE)? {
                let place = format!("/proc/{pid}/task/{thread}");
                let name = fs::read_to_string(format!("{place}/comm")).unwrap_or_default();
                let number = name.trim().strip_prefix(LANE).and_then(|number| number.parse::<u16>().ok());
                named.push((number.unwrap_or(u16::MAX), format!("{place}/schedstat")));
            }
            named.sort();
            Ok(named.into_iter().map(|(_, place)| place).collect())
        };
        let threads = target.pids.iter().map(of).collect::<Outcome<_>>()?;
        Ok(Self { threads, length, began: None, calls: 0, before: Vec::new(), after: None })
    }

    fn now(&self) -> Vec<Vec<f64>> {
        let time = |place: &String| {
            let text = fs::read_to_string(place).unwrap_or_default();
            text.split(' ').next().and_then(|nanos| nanos.parse::<f64>().ok()).unwrap_or(0.0) / 1e9
        };
        self.threads.iter().map(|lanes| lanes.iter().map(time).collect()).collect()
    }

    /// The processor seconds of each lane between the two looks, and the seconds.
    fn used(&self) -> Option<(Vec<Vec<f64>>, f64)> {
        let (after, seconds) = self.after.as_ref()?;
        let pairs = after.iter().zip(&self.before);
        let used = pairs.map(|(after, before)| after.iter().zip(before).map(|(a, b)| a - b).collect());
        Some((used.collect(), *seconds))
    }
}

impl Observe for Lanes {
    fn begins(&mut self, at: Instant) {
        self.began = Some(at);
        self.before = self.now();
    }

    fn answered(&mut self, _: Instant, at: Instant) {
        let Some(began) = self.began.filter(|_| self.after.is_none()) else { return };
        if at < began + self.length {
            self.calls += 1;
        } else {
            self.after = Some((self.now(), began.elapsed().as_secs_f64()));
        }
    }
}

fn measurement(args: &ModelArgs, shape: Shape) -> Measurement {
    Measurement {
        cluster: ClusterArgs::default(),
        order: OrderArgs::default(),
        replicas: None,
        durability: Some(DurabilityChoice::Memory),
        plain: args.plain,
        instances: shape.instances,
        lanes: shape.lanes,
        pillars: None,
        placement: None,
        sync_delay_us: 0,
        scratch: args.scratch.clone(),
        secs: args.secs,
        warm: args.warm,
        repeat: 1,
        no_floor: true,
    }
}

/// Runs replicas of this shape. `batch_bytes`: the most bytes of a batch, if it is not to be the usual.
pub(super) fn run(args: &ModelArgs, shape: Shape, bytes: usize, batch_bytes: Option<usize>) -> Outcome<Run> {
    let measurement = measurement(args, shape);
    measurement.check()?;
    let batch = batch_bytes.map(|bytes| i64::try_from(bytes).unwrap_or(i64::MAX));
    let settings = batch.map(|bytes| ("limits", "batch_bytes", toml::Value::Integer(bytes)));
    let mut target = Target::configured(&measurement, ServiceChoice::Tally, settings.into_iter().collect())?;
    let clients = args.clients(shape);
    target.have_clients(clients)?;
    let length = seconds("--secs", args.secs)?;
    let mut lanes = Lanes::of(&target, length)?;
    let mut quotas = if args.quota > 0 { Some(Quotas::new(args.quota)?) } else { None };
    quotas.as_mut().map(|quotas| quotas.favour(std::process::id())).transpose()?;
    for pid in &target.pids {
        quotas.as_mut().map(|quotas| quotas.limit_all(*pid, LANE)).transpose()?;
    }
    let plan = Plan {
        sessions: clients,
        slots: clients * args.calls,
        commands_per_call: args.commands_per_call as u64,
        warm: Duration::from_secs_f64(args.warm),
        measure: length,
    };
    let title = format!("{shape}, {bytes} B");
    let mut work = Append { commands: args.commands_per_call, bytes, sent: strong(&target)? };
    let measured = load::run_observed(&mut target, &plan, &mut work, &title, &mut lanes)?;
    let merged = target.merged()?;
    let leader = target.client.client().leader();
    let leader = target.replicas.iter().position(|replica| Some(*replica) == leader);
    let check = verify(&target, work.sent)?;
    if measured.errors > 0 || !check.is_passed() {
        let first = measured.first_error.unwrap_or_default();
        return Err(Failure::new(format!(
            "{title}: {} calls failed {first}; {}",
            measured.errors,
            check.text()
        )));
    }
    drop(target);
    drop(quotas);
    let nothing = || Failure::new(format!("{title}: no call was answered in time"));
    let (used, seconds) = lanes.used().ok_or_else(nothing)?;
    let calls = lanes.calls.max(1) as f64;
    let all = |lanes: &Vec<f64>| lanes.iter().sum::<f64>() / calls * 1e9;
    let leads = leader.ok_or_else(nothing)?;
    let followers = used.iter().enumerate().filter(|(at, _)| *at != leads).map(|(_, lanes)| all(lanes));
    let share = if args.quota == 0 { 1.0 } else { f64::from(args.quota) / 100.0 };
    Ok(Run {
        commands_per_s: measured.commands as f64 / measured.seconds,
        taken: Taken {
            leader_ns: all(&used[leads]),
            follower_ns: followers.sum::<f64>() / (used.len() - 1).max(1) as f64,
            calls_per_batch: merged.requests as f64 / merged.batches.max(1) as f64,
        },
        busy: used.iter().map(|lanes| lanes.iter().map(|used| used / seconds / share).collect()).collect(),
    })
}
