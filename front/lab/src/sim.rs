//! `quorate sim`: runs whole clusters in one thread on virtual time, lets everything go wrong, and checks what clients saw.
//!
//! The work is done by `quorate_sim::command`; here are the command line, the progress bar and the exit code.

use clap::ValueEnum;
use clap::builder::RangedU64ValueParser;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use quorate_command::execution::ExecutorChoice;
use quorate_command::failure::{Doing as _, Failure, Outcome};
use quorate_command::layout::DurabilityChoice;
use quorate_command::ordering::{ModelArgs, protocol_word};
use quorate_command::print;
use quorate_order::{Changes, Feature, Nature, Protocol};
use quorate_sim::command::{Options, Progress, execute};
use quorate_sim::{ExecutorKind, Focus, Level, Profile, SyncMode, planted};
use quorate_types::FaultModel;
use std::io::{self, ErrorKind, IsTerminal as _};
use std::path::PathBuf;
use std::process::ExitCode;

/// Number of seeds in a campaign by default.
const COUNT: u64 = 200;
/// Number of runs whose hashes are recorded, by default.
const COUNT_RECORDED: u64 = 10_000;
/// Number of seeds in which each planted bug is looked for, by default.
const COUNT_PLANTED: u64 = 20_000;
/// The most seeds; a larger number is a typing error.
const COUNT_MAX: u64 = 1_000_000_000;

/// Run simulated clusters in which everything goes wrong, and check what their clients saw.
///
/// A seed decides all of a run: the cluster, the workload, the faults and every delay. The same seed gives the same run, event for
/// event. Without --seed, many seeds run, spread over threads. Nothing is started, and no file is touched but those that are
/// named here.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  quorate sim                                 200 seeds
  quorate sim --count 10000 --log sim.log     more; started again, it goes on where it was
  quorate sim --seed 101 --trace events       one, with what happened
  quorate sim --seed 101 --html run.html      one, as a picture
  quorate sim --seed 101 --shrink             one that fails, with as few faults as still make it fail
  quorate sim --replicas 5 --durability async --json
  quorate sim --focus votes                   clusters whose machines stop right after they voted
  quorate sim --record before.hashes          what 10,000 runs of all kinds of clusters do, before the program is changed
  quorate sim --compare before.hashes         which of them do something else now

Exit codes: 0 all runs were clean, 1 a run failed or a file can not be written, 2 wrong command line.")]
pub struct Args {
    /// Run only this seed
    #[arg(long, value_name = "SEED", conflicts_with_all = ["first", "count", "jobs", "log"])]
    seed: Option<u64>,
    /// The first of many seeds
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    first: u64,
    /// How many seeds [default: 200; 20000 for each bug with --planted; 10000 in all with --record]
    #[arg(long, value_name = "COUNT", value_parser = RangedU64ValueParser::<u64>::new().range(1..=COUNT_MAX))]
    count: Option<u64>,
    /// Threads [default: one for each core]
    #[arg(long, value_name = "THREADS", value_parser = RangedU64ValueParser::<usize>::new().range(1..=1024))]
    jobs: Option<usize>,
    /// Append a JSON line for each run to this file, and leave out seeds that were clean in it
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,

    /// With --seed: print what happened, one line per event
    #[arg(long, value_name = "LEVEL", value_enum, requires = "seed", conflicts_with_all = ["json", "html"])]
    trace: Option<TraceChoice>,
    /// With --seed: write the run as a page with a space-time diagram
    #[arg(long, value_name = "FILE", requires = "seed")]
    html: Option<PathBuf>,
    /// With --seed: if the run fails, leave out the faults that it does not need
    #[arg(long, requires = "seed")]
    shrink: bool,

    /// The number of replicas, 1 to 7 [default: the seed decides]
    #[arg(long, value_name = "COUNT", value_parser = RangedU64ValueParser::<usize>::new().range(1..=7))]
    replicas: Option<usize>,
    /// How the replicas agree [default: raft]; with mod-smart the number of instances does not change
    #[arg(long, value_parser = protocol_word())]
    protocol: Option<Protocol>,
    #[command(flatten)]
    model: ModelArgs,
    /// How many replicas lie, even more than the cluster survives; then faults are byzantine [default: the seed decides, up to what it
    /// survives, if they are]
    #[arg(long, value_name = "COUNT", value_parser = RangedU64ValueParser::<usize>::new().range(0..=7))]
    liars: Option<usize>,
    /// Whether replicas join and leave [default: the seed decides, unless --replicas is given]
    #[arg(long, value_name = "true|false")]
    changes: Option<bool>,
    /// How many instances order batches [default: the seed decides]
    #[arg(long, value_name = "R", value_parser = clap::value_parser!(u16).range(1..=64))]
    instances: Option<u16>,
    /// Whether their number changes [default: the seed decides, unless --instances is given]
    #[arg(long, value_name = "true|false")]
    resizes: Option<bool>,
    /// How many lanes a replica has at most [default: the seed decides]
    #[arg(long, value_name = "LANES", value_parser = clap::value_parser!(u16).range(1..=64))]
    lanes: Option<u16>,
    /// Whether programs are replaced by newer and older ones, and the feature level is raised [default: the seed decides]
    #[arg(long, value_name = "true|false")]
    upgrades: Option<bool>,
    /// Execution is late: batches are final some batches later, and some are executed, taken back and executed again
    #[arg(long)]
    late: bool,
    /// How most replicas execute commands; the others run them one after the other, and all must come to the same state
    #[arg(long, value_name = "EXECUTOR", value_enum, default_value = "sequential", conflicts_with = "late")]
    executor: ExecutorChoice,
    /// Replicas compare what commands did before results are final
    #[arg(long)]
    verify: bool,
    /// Whether parts of replicas have lanes of their own: the gate and the protocols of instances, which have their turns late [default: the seed
    /// decides]
    #[arg(long, value_name = "true|false")]
    apart: Option<bool>,
    /// Whether instances stand on the lanes of their connections, and move between lanes [default: the seed decides, where instances have
    /// lanes]
    #[arg(long, value_name = "true|false")]
    moves: Option<bool>,
    /// Whether followers doubt a silent leader sooner while its words come regularly [default: the seed decides]
    #[arg(long, value_name = "true|false")]
    adapts: Option<bool>,
    /// With visigoth faults and s below u: whether there is an oracle. Without one, runs in which more than s replicas are slow find that
    /// the cluster splits
    #[arg(long, value_name = "true|false", default_value_t = true, action = clap::ArgAction::Set)]
    oracle: bool,
    /// Whether clusters survive one fault only, and the votes of the first members count more where there are members enough: with mod-smart,
    /// 4 and more where replicas crash, 5 and more where they lie
    #[arg(long, value_name = "true|false", default_value_t = false, action = clap::ArgAction::Set)]
    weighted: bool,
    /// Whether eras end: operators choose other faults and protocols while a cluster of four works, and one replica lies wherever that is survived
    #[arg(long, value_name = "true|false", default_value_t = false, action = clap::ArgAction::Set, conflicts_with_all = ["protocol", "changes", "resizes", "upgrades", "verify", "weighted", "focus", "durability"])]
    eras: bool,
    /// What all runs are about more than others [default: the seed decides, mostly for nothing]
    #[arg(long, value_name = "FOCUS", value_enum, conflicts_with = "no_faults")]
    focus: Option<FocusChoice>,
    /// When a write counts as durable [default: the seed decides]
    #[arg(long, value_name = "MODE", value_enum)]
    durability: Option<DurabilityChoice>,
    /// Multiplies the operations of each client by this number
    #[arg(long, value_name = "TIMES", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    length: u32,
    /// Nothing goes wrong
    #[arg(long)]
    no_faults: bool,

    /// Record the trace hashes of --count runs, as many of each kind of cluster, in this new file [default count: 10000]
    #[arg(long, value_name = "FILE", conflicts_with_all = ["seed", "first", "log", "planted", "compare"])]
    record: Option<PathBuf>,
    /// Run what such a file holds again, and tell which runs differ
    #[arg(long, value_name = "FILE", conflicts_with_all = ["seed", "first", "count", "log", "planted"])]
    compare: Option<PathBuf>,

    /// Print the table of planted bugs, with the seed that finds each; needs a build that holds them
    #[arg(long, conflicts_with_all = ["seed", "first", "log", "json", "plant"])]
    planted: bool,
    /// Put this planted bug in force; needs a build that holds them
    #[arg(long, value_name = "BUG")]
    plant: Option<String>,
    /// Print one JSON document instead of text
    #[arg(long)]
    json: bool,
}

/// What runs are about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum FocusChoice {
    /// Reads that are not ordered, where one replica lags behind and a liar says what was before; faults are byzantine
    Reads,
    /// Votes: machines stop right after one, and who wins it is cut off; with crash faults
    Votes,
    /// Promises not to vote: who made one starts again; with raft
    Promises,
    /// Changes of membership, for which operators ask again and again; with crash faults
    Changes,
    /// Liars that lead, and hold back what nobody asks for: no-ops, and time; faults are byzantine
    Idle,
    /// Liars that alter requests for which clients sign or put tags; faults are byzantine
    Forges,
    /// Clusters with a backup, whose first leaders die before anything is asked for
    Beginnings,
    /// Leaders that say what they decided, and die before anybody else has it; with crash faults and mod-smart
    Claims,
}

impl From<FocusChoice> for Focus {
    fn from(choice: FocusChoice) -> Self {
        match choice {
            FocusChoice::Reads => Self::Reads,
            FocusChoice::Votes => Self::Votes,
            FocusChoice::Promises => Self::Promises,
            FocusChoice::Changes => Self::Changes,
            FocusChoice::Idle => Self::Idle,
            FocusChoice::Forges => Self::Forges,
            FocusChoice::Beginnings => Self::Beginnings,
            FocusChoice::Claims => Self::Claims,
        }
    }
}

/// How much of a run is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum TraceChoice {
    /// Faults, starts and ends of replicas, leaders, ends of operations
    Events,
    /// Also every message and all work of the disks
    All,
}

/// Runs what the command line asks for.
pub fn run(args: Args) -> Outcome {
    let planted = args.planted;
    let options = options(args)?;
    let bar = if options.seed.is_some() || planted { ProgressBar::hidden() } else { bar() };
    // The table's lines come minutes apart. All else is printed at once, when the bar is gone.
    let mut text = Vec::new();
    let done = if planted {
        execute(&options, &mut io::stdout().lock(), |_| {})
    } else {
        execute(&options, &mut text, |progress| show(&bar, progress))
    };
    bar.finish_and_clear();
    let clean = match done {
        Err(why) if planted && why.kind() == ErrorKind::BrokenPipe => return Ok(ExitCode::SUCCESS),
        done => done.doing("finish the simulation")?,
    };
    print::bytes(&text)?;
    Ok(if clean { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Refuses planted bugs that this build does not have.
fn check_plant(args: &Args) -> Outcome<()> {
    if (args.planted || args.plant.is_some()) && !quorate_sim::HAS_PLANTED {
        return Err(Failure::usage(planted::HOW));
    }
    if let Some(name) = &args.plant
        && !planted::BUGS.iter().any(|bug| bug.name == name)
    {
        let names: Vec<_> = planted::BUGS.iter().map(|bug| bug.name).collect();
        return Err(Failure::usage(format!(
            "no planted bug is called {name}; there are {}",
            names.join(", ")
        )));
    }
    Ok(())
}

impl From<TraceChoice> for Level {
    fn from(choice: TraceChoice) -> Self {
        match choice {
            TraceChoice::Events => Self::Events,
            TraceChoice::All => Self::All,
        }
    }
}

/// The number of seeds by default.
fn usual_count(args: &Args) -> u64 {
    match (args.planted, &args.record) {
        (true, _) => COUNT_PLANTED,
        (_, Some(_)) => COUNT_RECORDED,
        _ => COUNT,
    }
}

fn executor_of(choice: ExecutorChoice) -> ExecutorKind {
    match choice {
        ExecutorChoice::Sequential => ExecutorKind::Sequential,
        ExecutorChoice::Ordered => ExecutorKind::Ordered,
        ExecutorChoice::Speculative => ExecutorKind::Speculative,
    }
}

/// Refuses clusters that can not be, and options that choose some of them where all are meant.
fn check_profile(args: &Args, profile: &Profile) -> Outcome<()> {
    let recorded = args.record.is_some() || args.compare.is_some();
    if recorded && *profile != Profile::default() {
        return Err(Failure::usage(
            "--record and --compare are about all kinds of clusters: leave out what chooses one",
        ));
    }
    if !args.oracle && (!profile.model().few_are_slow() || profile.model().may_lie()) {
        return Err(Failure::usage(
            "--oracle: only a visigoth cluster with s below u and o = 0 can do without one: leave it out",
        ));
    }
    if !profile.has_focus() {
        return Err(Failure::usage(
            "such clusters do not have this focus: `quorate sim --help` says which do",
        ));
    }
    Ok(())
}

/// The fault model, if one is chosen; refuses fewer replicas than its numbers ask for, and liars where nobody lies.
fn model_of(args: &Args) -> Outcome<Option<FaultModel>> {
    let model = args.model.model()?;
    if args.model.count().is_some() {
        return Err(Failure::usage(
            "--faults: a seed's cluster survives as many faults as its replicas allow: leave it out",
        ));
    }
    let numbers = model.and_then(FaultModel::visigoth);
    if let Some((numbers, replicas)) = numbers.zip(args.replicas) {
        numbers.check_members(replicas as u32).map_err(|why| Failure::usage(format!("--replicas: {why}")))?;
    }
    if args.liars.is_some_and(|count| count > 0) && model.is_some_and(|model| !model.may_lie()) {
        return Err(Failure::usage(
            "where no replica lies there are no liars: leave out --fault-model or --liars",
        ));
    }
    Ok(model)
}

/// The nature of a cluster by this protocol.
fn nature_of(able: Nature, lies: bool, few: bool) -> Nature {
    let membership = if lies && few { Changes::Fixed } else { able.membership };
    Nature { lies, membership, ..able }
}

const fn sync_mode(choice: DurabilityChoice) -> SyncMode {
    match choice {
        DurabilityChoice::Group => SyncMode::Group,
        DurabilityChoice::Async => SyncMode::Async,
        DurabilityChoice::Memory => SyncMode::Memory,
    }
}

/// The options for the library; refuses what it can not do.
fn options(args: Args) -> Outcome<Options> {
    check_plant(&args)?;
    let focus = args.focus.map(Focus::from);
    let lies = args.liars.is_some_and(|count| count > 0) || focus.is_some_and(Focus::lies);
    let model = model_of(&args)?;
    let (few, sets) = (model.is_some_and(FaultModel::few_are_slow), Feature::SurviveLies.protocol());
    if few && args.protocol.is_some_and(|protocol| protocol != sets) {
        let why = format!("--protocol: with s below u the protocol is {}: leave it out", sets.name());
        return Err(Failure::usage(why));
    }
    let byzantine = model.is_some_and(FaultModel::may_lie) || lies;
    let able = args.protocol.unwrap_or(if byzantine || few { sets } else { Protocol::default() }).able();
    let cluster = nature_of(able, byzantine, few);
    let asked = [
        ("--protocol", byzantine, able, Feature::SurviveLies),
        ("--changes", args.changes == Some(true), cluster, Feature::ChangeMembers),
        ("--resizes", args.resizes == Some(true), cluster, Feature::ChangeInstances),
        ("--weighted", args.weighted, able, Feature::WeighVotes),
    ];
    for (option, is_asked, nature, feature) in asked {
        if let (true, Err(why)) = (is_asked, nature.can(feature)) {
            return Err(Failure::usage(format!("leave {option} out: {why}")));
        }
    }
    let profile = Profile {
        replicas: args.replicas,
        protocol: args.protocol,
        fault_model: model,
        liars: args.liars,
        changes: args.changes,
        instances: args.instances,
        resizes: args.resizes,
        lanes: args.lanes,
        upgrades: args.upgrades,
        late: args.late,
        verify: args.verify,
        apart: args.apart,
        moves: args.moves,
        adapts: args.adapts,
        executor: executor_of(args.executor),
        oracle: args.oracle,
        weighted: args.weighted,
        eras: args.eras,
        focus,
        faults: !args.no_faults,
        sync: args.durability.map(sync_mode),
        length: args.length,
    };
    check_profile(&args, &profile)?;
    let count = args.count.unwrap_or(usual_count(&args));
    let defaults = Options::default();
    Ok(Options {
        profile,
        seed: args.seed,
        first: args.first,
        count,
        jobs: args.jobs.unwrap_or(defaults.jobs),
        json: args.json,
        trace: args.trace.map(Level::from),
        html: args.html,
        shrink: args.shrink,
        log: args.log,
        record: args.record,
        compare: args.compare,
        planted: args.planted,
        plant: args.plant,
    })
}

/// The progress bar, on standard error and only where it is a terminal.
fn bar() -> ProgressBar {
    let bar = ProgressBar::new(0);
    if !io::stderr().is_terminal() {
        bar.set_draw_target(ProgressDrawTarget::hidden());
    }
    // A template of our own making is well-formed; without it the bar is plain.
    if let Ok(style) = ProgressStyle::with_template("{bar:30} {pos} of {len} seeds, {msg}, {eta} left") {
        bar.set_style(style);
    }
    bar
}

fn show(bar: &ProgressBar, progress: Progress) {
    if bar.is_hidden() {
        return;
    }
    bar.set_length(progress.total);
    bar.set_message(format!("{:.0} per second, {} failures", progress.rate, progress.failures));
    bar.set_position(progress.done);
}
