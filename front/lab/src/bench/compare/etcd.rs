//! Three members of etcd, or one, beside as many replicas of ours that run etcd's front.

use super::{Common, Pair, Run, Side, Subject};
use crate::bench::etcd::load::{self, Filling, Plan};
use crate::bench::etcd::{Operation, PATIENCE, Peer, Servers};
use crate::bench::target::Target;
use quorate_command::arguments::{self, seconds};
use quorate_command::failure::Outcome;
use quorate_command::layout::ServiceChoice;
use quorate_command::progress::Progress;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The options.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The program etcd [default: the environment variable ETCD, then `etcd` in PATH]
    #[arg(long, value_name = "PATH")]
    pub(super) program: Option<PathBuf>,
    /// What callers do
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Operation::Put, Operation::Get])]
    operations: Vec<Operation>,
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
        peer: "etcd",
        peer_version: version,
        peer_durability: "each write synced before its answer (its default)",
        protocol: "the same clients of etcd's gRPC for both",
    }
}

impl Both {
    /// Starts both, and puts the same keys into both.
    pub(super) fn start(args: &Args, program: &Path) -> Outcome<Self> {
        let Args { common, operations, .. } = args;
        let _progress = Progress::waiting("starting both");
        let theirs = Servers::Etcd(Peer::start(program, &common.scratch, common.replicas)?);
        let ours = Target::open(&common.measurement(), ServiceChoice::Etcd)?;
        let plan = Plan {
            operation: Operation::Put,
            bytes: common.bytes,
            clients: common.callers,
            connections: common.connections(),
            keys: common.keys,
            filled: true,
            watchers: 0,
            observers: 0,
            warm: seconds("--warm", common.warm)?,
            measure: seconds("--secs", common.secs)?,
        };
        let ours = Servers::Ours(Box::new(ours));
        let mut both = Self { ours, theirs, operations: operations.clone(), plan };
        for servers in [&mut both.ours, &mut both.theirs] {
            let filling = Filling { keys: common.keys, bytes: common.bytes, patience: 4 * PATIENCE };
            load::fill_only(servers, plan.connections, filling, Duration::ZERO)?;
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
        let failed = match &run.first_error {
            Some(why) => Some(format!("{} calls failed, the first one: {why}", run.errors)),
            None if !run.all_there => {
                Some("the store's revision is not further by the number of puts".to_owned())
            }
            None => (run.calls == 0).then(|| "no call was answered".to_owned()),
        };
        Ok(Run {
            seconds: run.seconds,
            calls: run.calls,
            per_s: run.per_s,
            cpu_us: run.servers_cpu_s / run.calls.max(1) as f64 * 1e6,
            p50_us: run.p50_us,
            p99_us: run.p99_us,
            load_cpu_s: run.load_cpu_s,
            memory_mib: run.memory_mib,
            failed,
        })
    }
}
