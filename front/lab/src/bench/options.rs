//! The command line of the benchmarks.

use quorate_command::arguments::seconds;
use quorate_command::cluster::ClusterArgs;
use quorate_command::execution::ExecutionArgs;
use quorate_command::failure::{Failure, Outcome};
use quorate_command::layout::{DurabilityChoice, PillarsChoice, PlacementChoice};
use quorate_command::ordering::{FaultModelWord, OrderArgs};
use std::path::{Path, PathBuf};

/// Measure how fast a cluster is, beside what the machine allows.
///
/// Every figure comes with that of the null program from the same command: the fastest thing that only replicates, without
/// sessions, elections, recovery or a service. Times are those of the load generator; processor time is that of the replicas,
/// and the load generator's apart.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  quorate bench append --durability memory
  quorate bench kv --callers 1000 --repeat 3 --plot kv.html
  quorate bench kv --callers 1 --durability group
  quorate bench latency
  quorate bench latency --during none,checkpoint,scrub,transfer,leader
  quorate bench bft --fault-model byzantine --durability memory
  quorate bench floor --json
  quorate bench floor --fault-model byzantine
  quorate bench idle --secs 60
  quorate bench idle --instances 8 --secs 10 --pulses 60
  quorate bench instances
  quorate bench stages
  quorate bench model --beside
  quorate bench hostile --connections 10000
  quorate bench etcd --etcd /usr/bin/etcd
  quorate bench compare etcd --plot etcd.html
  quorate bench table --out docs/performance.md
  quorate bench gate --record before.jsonl
  quorate bench figure dfc")]
pub struct Args {
    #[command(subcommand)]
    pub(super) command: Command,
    /// Print one JSON document instead of a table
    #[arg(long, global = true)]
    pub(super) json: bool,
    /// Also draw the result: one HTML file that loads nothing, with charts, their numbers, and what was measured where. Its directory must be
    /// there; a file that is neither empty nor such a page stays as it is, and the command ends before it measures
    #[arg(long, value_name = "FILE.html", global = true)]
    pub(super) plot: Option<PathBuf>,
}

#[derive(Debug, clap::Subcommand)]
pub(super) enum Command {
    /// Thousands of small commands per call, counted and summed by the service
    Append(AppendArgs),
    /// Many callers, each with a session and one put outstanding
    Kv(KvArgs),
    /// Puts at given rates: how long they take at each share of what the cluster can do, past that, and while something happens
    Latency(super::latency::LatencyArgs),
    /// Many clients, each with a request outstanding: latency, rate, and processor time for each request
    Bft(BftArgs),
    /// The null program alone: what the machine allows
    Floor(FloorArgs),
    /// Memory and processor time of three replicas that nobody uses
    Idle(IdleArgs),
    /// What more instances cost: processor time for each command, at equal batches
    Instances(InstancesArgs),
    /// What the merge costs, and what a thread for each stage would: one replica's stages in this process
    Stages(StagesArgs),
    /// What more cores would bring, by a model, beside real runs in which each lane has a share of a core
    Model(super::model::ModelArgs),
    /// Puts and strong reads of etcd's clients, beside an etcd on the same machine
    Etcd(super::etcd::EtcdArgs),
    /// Writes and reads of ZooKeeper's clients, beside a ZooKeeper on the same machine
    Zookeeper(super::zookeeper::ZooKeeperArgs),
    Compare(super::compare::CompareArgs),
    /// The table of the performance page: many of these, in turns, beside the null program and beside other programs
    Table(super::table::TableArgs),
    /// What well-behaved clients notice of a crowd of others that connects, floods, and keeps to no rule
    Hostile(HostileArgs),
    /// Instructions for each operation, counted: the one figure that stays on a machine that does other things as well
    Gate(super::gate::GateArgs),
    #[command(hide = true)]
    Trip(super::gate::TripArgs),
    #[command(hide = true)]
    Member(super::etcd::MemberArgs),
    #[command(hide = true)]
    Crowd(super::hostile::CrowdArgs),
    Figure(Box<super::figure::FigureArgs>),
}

/// What every measurement of ours takes.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Measurement {
    #[command(flatten)]
    pub(super) cluster: ClusterArgs,
    #[command(flatten)]
    pub(super) order: OrderArgs,
    /// How many replicas the benchmark's own cluster has [default: 3; 4 with byzantine faults]
    #[arg(long, value_name = "COUNT", conflicts_with_all = ["dir", "config"], value_parser = clap::value_parser!(u16).range(1..=64))]
    pub(super) replicas: Option<u16>,
    /// When a write counts as durable [default: group]; a cluster that runs already has its own
    #[arg(long, value_enum, conflicts_with_all = ["dir", "config"])]
    pub(super) durability: Option<DurabilityChoice>,
    /// Without certificates and encryption: what they cost shows beside a run without this option
    #[arg(long, conflicts_with_all = ["dir", "config"])]
    pub(super) plain: bool,
    /// How many instances agree on the log side by side
    #[arg(long, value_name = "COUNT", default_value_t = 1, conflicts_with_all = ["dir", "config"])]
    pub(super) instances: u16,
    /// Over how many lanes a replica spreads its instances
    #[arg(long, value_name = "COUNT", default_value_t = 1, conflicts_with_all = ["dir", "config"])]
    pub(super) lanes: u16,
    /// Where agreement of the instances is done [default: as in a configuration that does not say]
    #[arg(long, value_enum, conflicts_with_all = ["dir", "config"])]
    pub(super) pillars: Option<PillarsChoice>,
    /// How the work of a replica is divided among its lanes; staged needs --lanes 3 or more [default: spread]
    #[arg(long, value_enum, conflicts_with_all = ["dir", "config"])]
    pub(super) placement: Option<PlacementChoice>,
    /// Adds this many microseconds to every sync, also the null program's: for disks that are too good
    #[arg(long, value_name = "US", default_value_t = 0, conflicts_with_all = ["dir", "config"])]
    pub(super) sync_delay_us: u64,
    /// Where the benchmark's own cluster and the null program keep their logs: on the disk that is to be measured
    #[arg(long, value_name = "DIR", default_value = ".quorate/bench")]
    pub(super) scratch: PathBuf,
    /// How long to measure, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 5.0)]
    pub(super) secs: f64,
    /// How long to run before measuring, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0)]
    pub(super) warm: f64,
    /// How often to measure, with the null program before, between and after
    #[arg(long, value_name = "COUNT", default_value_t = 1)]
    pub(super) repeat: u32,
    /// Do not run the null program
    #[arg(long)]
    pub(super) no_floor: bool,
}

impl Measurement {
    /// Our cluster beside another system: connections are plain and writes are synced, as on that side.
    pub(super) fn beside_a_peer(replicas: Option<u16>, scratch: &Path, secs: f64, warm: f64) -> Self {
        Self {
            cluster: ClusterArgs::default(),
            order: OrderArgs::default(),
            replicas,
            durability: Some(DurabilityChoice::Group),
            plain: true,
            instances: 1,
            lanes: 1,
            pillars: None,
            placement: None,
            sync_delay_us: 0,
            scratch: scratch.to_owned(),
            secs,
            warm,
            repeat: 1,
            no_floor: true,
        }
    }

    /// Refuses what can not run, and says why.
    pub(super) fn check(&self) -> Outcome<()> {
        seconds("--secs", self.secs)?;
        if self.warm != 0.0 {
            seconds("--warm", self.warm)?;
        }
        if !(1..=1000).contains(&self.repeat) {
            return Err(Failure::usage("--repeat is 1 to 1000"));
        }
        if !(1..=64).contains(&self.instances) || !(1..=64).contains(&self.lanes) {
            return Err(Failure::usage("--instances and --lanes are 1 to 64"));
        }
        if self.placement == Some(PlacementChoice::Staged) {
            if self.lanes < 3 {
                return Err(Failure::usage(
                    "--placement staged needs --lanes 3 or more: one executes, one agrees, and the others have the connections",
                ));
            }
            if self.pillars == Some(PillarsChoice::Main) {
                return Err(Failure::usage(
                    "--placement staged agrees on a lane of its own: leave out --pillars main",
                ));
            }
        }
        self.order.choice()?;
        check_delay(self.durability(), self.sync_delay_us)
    }
    /// The number of replicas in a cluster that the benchmark starts.
    pub(super) fn replicas(&self) -> u16 {
        self.replicas.unwrap_or(self.order.replicas())
    }
    /// Whether the benchmark starts a cluster.
    pub(super) fn own_cluster(&self) -> bool {
        self.cluster.dir.is_none() && self.cluster.config.is_none()
    }
    pub(super) fn durability(&self) -> DurabilityChoice {
        self.durability.unwrap_or(DurabilityChoice::Group)
    }
}

/// Refuses a delay that would have no effect.
pub(super) fn check_delay(durability: DurabilityChoice, sync_delay_us: u64) -> Outcome<()> {
    if sync_delay_us > 1_000_000 {
        return Err(Failure::usage("--sync-delay-us is at most 1000000, which is a second"));
    }
    if sync_delay_us > 0 && durability == DurabilityChoice::Memory {
        return Err(Failure::usage(
            "--sync-delay-us does nothing with --durability memory, which never syncs",
        ));
    }
    Ok(())
}

#[derive(Debug, clap::Args)]
pub(super) struct AppendArgs {
    #[command(flatten)]
    pub(super) measurement: Measurement,
    /// Commands in one call
    #[arg(long, value_name = "COUNT", default_value_t = 4096)]
    pub(super) commands_per_call: usize,
    /// Commands outstanding: sent and not yet answered
    #[arg(long, value_name = "COUNT", default_value_t = 65_536)]
    pub(super) window: usize,
    /// Size of a command in bytes: at least 16, a multiple of 8
    #[arg(long, value_name = "BYTES", default_value_t = 16)]
    pub(super) bytes: usize,
    /// Sessions that share the calls
    #[arg(long, value_name = "COUNT", default_value_t = 4)]
    pub(super) sessions: usize,
}

#[derive(Debug, clap::Args)]
pub(super) struct KvArgs {
    #[command(flatten)]
    pub(super) measurement: Measurement,
    #[command(flatten)]
    pub(super) execution: ExecutionArgs,
    /// What callers do
    #[arg(long, value_enum, default_value_t = KvOperation::Put)]
    pub(super) operation: KvOperation,
    /// Callers: each has a session of its own and one request outstanding; all share the connections
    #[arg(long, value_name = "COUNT", default_value_t = 1000)]
    pub(super) callers: usize,
    /// Keys of 16 random bytes to choose from
    #[arg(long, value_name = "COUNT", default_value_t = 100_000)]
    pub(super) keys: u64,
    /// Size of a value in bytes
    #[arg(long, value_name = "BYTES", default_value_t = 16)]
    pub(super) value_bytes: usize,
}

/// What callers of `bench kv` do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum KvOperation {
    /// They put a value under a random key
    Put,
    /// They read a random key that has a value, strongly
    Read,
    /// They read one weakly, at any replica
    WeakRead,
}

#[derive(Debug, clap::Args)]
pub(super) struct BftArgs {
    #[command(flatten)]
    pub(super) measurement: Measurement,
    /// Clients: each has a session and one request outstanding
    #[arg(long, value_name = "COUNT", default_value_t = 100)]
    pub(super) clients: usize,
    /// They share connections, as callers in one program do; otherwise each has its own, to all replicas
    #[arg(long)]
    pub(super) shared: bool,
    /// Size of a request in bytes, without what the protocol adds
    #[arg(long, value_name = "BYTES", default_value_t = 0)]
    pub(super) request_bytes: usize,
    /// Size of a reply in bytes
    #[arg(long, value_name = "BYTES", default_value_t = 0)]
    pub(super) reply_bytes: usize,
}

#[derive(Debug, clap::Args)]
pub(super) struct FloorArgs {
    /// Which faults the replicas agree for: with byzantine ones four of them, in three rounds, with digests and MACs
    #[arg(long, value_enum, default_value_t = FaultModelWord::Crash)]
    pub(super) fault_model: FaultModelWord,
    /// With byzantine faults: slots under way at a time
    #[arg(long, value_name = "COUNT", default_value_t = 1)]
    pub(super) in_flight: u64,
    /// What a replica does before it counts a command as held: nothing (memory), write it (async), write and sync it (group)
    /// [default: memory, then group]
    #[arg(long, value_enum)]
    pub(super) durability: Option<DurabilityChoice>,
    /// Adds this many microseconds to every sync; with --durability group or async
    #[arg(long, value_name = "US", default_value_t = 0)]
    pub(super) sync_delay_us: u64,
    /// Commands outstanding [default: 65536, then 1]
    #[arg(long, value_name = "COUNT")]
    pub(super) window: Option<u64>,
    /// With byzantine faults: so many callers with connections of their own, each with one command outstanding, in place of one stream of
    /// commands
    #[arg(long, value_name = "COUNT", conflicts_with = "window", value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) callers: Option<u32>,
    /// With --callers: all replicas hear each command, as where they believe only what they heard; otherwise the leader alone
    #[arg(long, requires = "callers")]
    pub(super) heard_by_all: bool,
    /// Size of a command in bytes, at least 16
    #[arg(long, value_name = "BYTES", default_value_t = 16)]
    pub(super) bytes: usize,
    /// The most commands in one frame, in KiB, at most 1024: the larger, the faster
    #[arg(long, value_name = "KIB", default_value_t = super::series::FLOOR_BATCH_BYTES >> 10)]
    pub(super) batch_kib: usize,
    /// Where the logs are kept: on the disk that is to be measured
    #[arg(long, value_name = "DIR", default_value = ".quorate/bench")]
    pub(super) scratch: PathBuf,
    /// How long to measure each, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 3.0)]
    pub(super) secs: f64,
    /// How long to run before measuring, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 0.5)]
    pub(super) warm: f64,
    /// How often to measure
    #[arg(long, value_name = "COUNT", default_value_t = 1)]
    pub(super) repeat: u32,
}

#[derive(Debug, clap::Args)]
pub(super) struct HostileArgs {
    /// When a write counts as durable
    #[arg(long, value_enum, default_value_t = DurabilityChoice::Group)]
    pub(super) durability: DurabilityChoice,
    /// Without certificates and encryption
    #[arg(long)]
    pub(super) plain: bool,
    /// Connections of the crowd, all to the replica that leads; its limits are set so that not all of them fit
    #[arg(long, value_name = "COUNT", default_value_t = 10_000)]
    pub(super) connections: usize,
    /// Well-behaved callers: each has a session and one put outstanding
    #[arg(long, value_name = "COUNT", default_value_t = 8)]
    pub(super) callers: usize,
    /// Where the cluster keeps its logs
    #[arg(long, value_name = "DIR", default_value = ".quorate/bench")]
    pub(super) scratch: PathBuf,
    /// How long to measure, before the crowd comes and while it is there, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 10.0)]
    pub(super) secs: f64,
}

#[derive(Debug, clap::Args)]
pub(super) struct IdleArgs {
    /// When a write counts as durable
    #[arg(long, value_enum, default_value_t = DurabilityChoice::Group)]
    pub(super) durability: DurabilityChoice,
    /// Where the cluster keeps its logs
    #[arg(long, value_name = "DIR", default_value = ".quorate/bench")]
    pub(super) scratch: PathBuf,
    /// How long to measure, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 60.0)]
    pub(super) secs: f64,
    /// How many instances agree on the log side by side
    #[arg(long, value_name = "COUNT", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=64))]
    pub(super) instances: u16,
    /// With several instances: the number of commands, one per second, that run beside the same with one instance
    #[arg(long, value_name = "COUNT", default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(super) pulses: u32,
}

#[derive(Debug, clap::Args)]
pub(super) struct InstancesArgs {
    /// The numbers of instances; the others are compared with the first
    #[arg(long, value_name = "COUNTS", value_delimiter = ',', default_values_t = [1, 2, 4, 8])]
    pub(super) instances: Vec<u16>,
    /// How often to measure each of them, in turns
    #[arg(long, value_name = "COUNT", default_value_t = 11, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(super) rounds: u32,
    /// Over how many lanes a replica spreads its connections
    #[arg(long, value_name = "COUNT", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=64))]
    pub(super) lanes: u16,
    /// Where agreement of the instances is done [default: as in a configuration that does not say]
    #[arg(long, value_enum)]
    pub(super) pillars: Option<PillarsChoice>,
    /// How the work of a replica is divided among its lanes; staged needs --lanes 3 or more [default: spread]
    #[arg(long, value_enum)]
    pub(super) placement: Option<PlacementChoice>,
    /// When a write counts as durable
    #[arg(long, value_enum, default_value_t = DurabilityChoice::Memory)]
    pub(super) durability: DurabilityChoice,
    /// Without certificates and encryption
    #[arg(long)]
    pub(super) plain: bool,
    /// Size of a command in bytes: at least 16, a multiple of 8
    #[arg(long, value_name = "BYTES", default_value_t = 1024)]
    pub(super) bytes: usize,
    /// Commands in one call, and so in one batch
    #[arg(long, value_name = "COUNT", default_value_t = 64)]
    pub(super) commands_per_call: usize,
    /// Calls outstanding
    #[arg(long, value_name = "COUNT", default_value_t = 64)]
    pub(super) calls: usize,
    /// Where the clusters keep their logs
    #[arg(long, value_name = "DIR", default_value = ".quorate/bench")]
    pub(super) scratch: PathBuf,
    /// How long to measure each time, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 3.0)]
    pub(super) secs: f64,
    /// How long to run before measuring, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0)]
    pub(super) warm: f64,
}

#[derive(Debug, clap::Args)]
pub(super) struct StagesArgs {
    /// How often to measure each way, in turns
    #[arg(long, value_name = "COUNT", default_value_t = 11, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(super) rounds: u32,
    /// Size of a command in bytes: at least 16, a multiple of 8
    #[arg(long, value_name = "BYTES", default_value_t = 1024)]
    pub(super) bytes: usize,
    /// Commands in one call, and so in one batch
    #[arg(long, value_name = "COUNT", default_value_t = 64)]
    pub(super) commands_per_call: usize,
    /// Calls under way
    #[arg(long, value_name = "COUNT", default_value_t = 64)]
    pub(super) calls: usize,
    /// How long to measure each time, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 2.0)]
    pub(super) secs: f64,
    /// Makes this many calls each time, however long they take: for tools that count instructions
    #[arg(long, value_name = "COUNT", conflicts_with = "secs", value_parser = clap::value_parser!(u64).range(1..))]
    pub(super) count: Option<u64>,
    /// The ways; the others are compared with the first
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = super::stages::Way::ALL)]
    pub(super) ways: Vec<super::stages::Way>,
    /// Also say what each stage takes where one thread does them all; looking at the clock takes some time itself
    #[arg(long)]
    pub(super) each: bool,
    /// Where to put certificates for a moment
    #[arg(long, value_name = "DIR", default_value = ".quorate/bench")]
    pub(super) scratch: PathBuf,
}
