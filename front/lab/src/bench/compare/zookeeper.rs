//! Three servers of ZooKeeper, or one, beside as many replicas of ours that run its front.

use super::{Common, Pair, Run, Side, Subject};
use crate::bench::target::Target;
use crate::bench::zookeeper::load::{self, Plan};
use crate::bench::zookeeper::{Operation, Peer, Servers};
use quorate_command::arguments::{self, seconds};
use quorate_command::failure::{Failure, Outcome};
use quorate_command::layout::ServiceChoice;
use quorate_command::progress::Progress;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The options.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The folder with the jars of a ZooKeeper, and of what it needs [default: the environment variable ZOOKEEPER]
    #[arg(long, value_name = "DIR")]
    pub(super) jars: Option<PathBuf>,
    /// What callers do
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Operation::Set, Operation::Get])]
    operations: Vec<Operation>,
    /// How long both sides are warmed before the first round, in seconds: Java becomes fast only after a while
    #[arg(long, value_name = "SECONDS", default_value_t = 30.0)]
    warm_servers: f64,
    #[command(flatten)]
    pub(super) common: Common,
}

/// Both clusters.
pub(super) struct Both {
    ours: Servers,
    theirs: Servers,
    operations: Vec<Operation>,
    plan: Plan,
}

pub(super) fn subject(version: String) -> Subject {
    Subject {
        peer: "ZooKeeper",
        peer_version: version,
        peer_durability: "each write synced before its answer (forceSync=yes, its default)",
        protocol: "the same clients of ZooKeeper's protocol for both",
    }
}

impl Both {
    /// Starts both, and warms both.
    pub(super) fn start(args: &Args, jars: &Path) -> Outcome<Self> {
        let Args { common, operations, warm_servers, .. } = args;
        if !(0.0..=3600.0).contains(warm_servers) {
            return Err(Failure::usage("--warm-servers is 0 to 3600 seconds"));
        }
        let progress = Progress::waiting("starting both");
        let theirs = Servers::ZooKeeper(Peer::start(jars, &common.scratch, common.replicas)?);
        let ours = Target::open(&common.measurement(), ServiceChoice::Zookeeper)?;
        let plan = Plan {
            operation: Operation::Set,
            bytes: common.bytes,
            under_way: common.callers,
            connections: common.connections(),
            nodes: common.keys,
            watches: 0,
            warm: seconds("--warm", common.warm)?,
            measure: seconds("--secs", common.secs)?,
        };
        let ours = Servers::Ours(Box::new(ours));
        let mut both = Self { ours, theirs, operations: operations.clone(), plan };
        drop(progress);
        let share = warm_servers / operations.len().max(1) as f64;
        for (name, servers) in [("ours", &mut both.ours), ("ZooKeeper", &mut both.theirs)] {
            let _progress = Progress::waiting(&format!("warming {name}"));
            for operation in operations.iter().copied().filter(|_| *warm_servers > 0.0) {
                let (warm, measure) = (Duration::ZERO, Duration::from_secs_f64(share));
                load::run(servers, Plan { operation, warm, measure, ..plan })?;
            }
        }
        Ok(both)
    }
}

impl Pair for Both {
    fn operations(&self) -> Vec<String> {
        self.operations.iter().copied().map(arguments::name).collect()
    }

    fn measure(&mut self, operation: usize, side: Side) -> Outcome<Run> {
        let plan = Plan { operation: self.operations[operation], ..self.plan };
        let servers = if side == Side::Ours { &mut self.ours } else { &mut self.theirs };
        let run = load::run(servers, plan)?;
        let failed = match run.first_error {
            Some(why) => Some(format!("{} requests failed, the first one with error {why}", run.errors)),
            None if !run.all_there => Some("not as much was written as was acknowledged".to_owned()),
            None => (run.answers == 0).then(|| "no request was answered".to_owned()),
        };
        Ok(Run {
            seconds: run.seconds,
            calls: run.answers,
            per_s: run.per_s,
            cpu_us: run.servers_cpu_s / run.answers.max(1) as f64 * 1e6,
            p50_us: run.p50_us,
            p99_us: run.p99_us,
            load_cpu_s: run.load_cpu_s,
            memory_mib: run.memory_mib,
            failed,
        })
    }
}
