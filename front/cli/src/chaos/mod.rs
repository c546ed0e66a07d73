//! `quorate chaos`: causes faults, and measures what they do to writes.
//!
//! `probe` is the client that writes, `look` what the cluster did about a fault, `say` how that is told; `crate::demo` causes faults, too. Tests: tests/all/chaos.rs,
//! tests/all/smoke.rs, tests/all/few.rs, tests/all/lies.rs.

mod look;
mod probe;
mod say;

use crate::control::{self, Action, ChildReport, Damage, Life, Request, What};
use crate::scrub::{self, Scrubbed};
use clap::ValueEnum;
pub(crate) use look::{Look, Reaction};
use probe::{Gap, Probe};
use quorate::program::hurt::{JUMP_MS_MAX, MIB_MAX};
use quorate::program::slow;
use quorate_command::admin::{self, Admin};
use quorate_command::cluster::{Cluster, ClusterArgs, dir_option};
use quorate_command::failure::{Failure, Outcome};
use quorate_command::layout::replica_directory;
use quorate_command::print;
use quorate_lab::lies::How;
use quorate_types::ReplicaId;
use std::process::ExitCode;
use std::str::FromStr;
use std::time::{Duration, Instant};

/// Make a fault in a cluster that `quorate dev` runs, and see what it does to writes.
///
/// Meanwhile one client writes as fast as it is answered; printed is the longest time during which none of its writes
/// completed, what the cluster did about the fault, and what ends it.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  quorate chaos kill leader       as if its machine lost power; the others elect a new leader
  quorate chaos restart dead      start those again that do not run; their data is still there
  quorate chaos pause leader      as if its machine hung
  quorate chaos resume 2
  quorate chaos kill all          nothing that was acknowledged is lost
  quorate chaos partition leader  the leader and the others no longer hear each other; clients reach them all
  quorate chaos partition 1,2     these two on one side, the others on the other one
  quorate chaos heal              the partition is over
  quorate chaos corrupt-disk 2    a part of its checkpoint rots; a scrub finds it and mends it at once
  quorate chaos corrupt-disk 2 --what log
  quorate chaos fill-disk 1,2     as the kernel does it: no room for another file of the log, nor for a checkpoint
  quorate chaos fill-disk 1,2 --off        there is room again
  quorate chaos clock-jump leader --ms 3600000     ahead by an hour; --ms -500 back by half a second
  quorate chaos lie 1 --how equivocate     in a cluster of `quorate dev --fault-model byzantine`
  quorate chaos lie 1 --how none           what the others found out stays in `quorate status`
  quorate chaos slow 2            correct but late; in a cluster of `quorate dev --fault-model visigoth` --ms above its t
  quorate chaos slow 2 --ms 0     as fast as before")]
pub(crate) struct Args {
    /// What to do
    #[arg(value_enum)]
    fault: Fault,
    /// To whom: the number of a replica, several as in 1,2, leader, or all; with `restart` also dead, those that do not run; with `heal` nobody
    #[arg(value_name = "REPLICA")]
    target: Option<Target>,
    /// With `lie`: how
    #[arg(long, value_enum, value_name = "TRICK", required_if_eq("fault", "lie"))]
    how: Option<How>,
    /// With `slow`: by how many milliseconds; 0 ends it [default: 200]. With `clock-jump`: how far; back if it is negative
    #[arg(long, value_name = "MS", allow_negative_numbers = true, required_if_eq("fault", "clock-jump"),
        value_parser = clap::value_parser!(i64).range(-JUMP_MS_MAX..=JUMP_MS_MAX))]
    ms: Option<i64>,
    /// With `corrupt-disk`: what rots [default: checkpoint]
    #[arg(long, value_enum, value_name = "WHAT")]
    what: Option<What>,
    /// With `fill-disk`: how many MiB are left [default: 0]
    #[arg(long, value_name = "LEFT", conflicts_with = "off", value_parser = clap::value_parser!(u64).range(..=MIB_MAX))]
    mib: Option<u64>,
    /// With `fill-disk`: the disk is full no more
    #[arg(long)]
    off: bool,
    #[command(flatten)]
    cluster: ClusterArgs,
    /// Do not write meanwhile, and measure nothing
    #[arg(long)]
    no_probe: bool,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

impl Args {
    /// This fault, for these replicas.
    pub(crate) fn of(fault: Fault, target: Option<Target>) -> Self {
        let cluster = ClusterArgs::default();
        let (how, ms, what, mib, off, no_probe, json) = (None, None, None, None, false, false, false);
        Self { fault, target, how, ms, what, mib, off, cluster, no_probe, json }
    }

    /// A lie of this replica.
    pub(crate) fn lie(replica: u16, how: How) -> Self {
        Self { how: Some(how), ..Self::of(Fault::Lie, Some(Target::These(vec![replica]))) }
    }

    /// The same, and nobody writes meanwhile.
    pub(crate) fn without_probe(self) -> Self {
        Self { no_probe: true, ..self }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Fault {
    /// End the process at once (SIGKILL); it stays down until `restart`
    Kill,
    /// Stop the process where it is (SIGSTOP)
    Pause,
    /// Let a paused process go on
    Resume,
    /// Start the process; one that runs is stopped cleanly before
    Restart,
    /// Let nothing pass between these replicas and the others, in both directions, until `heal`
    Partition,
    /// End the partition; needs no replica
    Heal,
    /// Change bytes at rest in its data directory, and scrub it
    CorruptDisk,
    /// Leave no room on its disk, until --off
    FillDisk,
    /// Let its clock jump by --ms
    ClockJump,
    /// Let it lie to the others and to clients, until it is told to lie no more
    Lie,
    /// Let all that it sends to other replicas leave late, until it is told --ms 0
    Slow,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    Leader,
    All,
    /// Those that do not run.
    Dead,
    These(Vec<u16>),
}

impl FromStr for Target {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "leader" => Ok(Self::Leader),
            "all" => Ok(Self::All),
            "dead" => Ok(Self::Dead),
            _ => {
                let these: Result<Vec<u16>, _> = text.split(',').map(str::parse).collect();
                these.map(Self::These).map_err(|_| "a replica is a number, dead, leader, or all".into())
            }
        }
    }
}

/// How long to wait for a leader.
const LEADER: Duration = Duration::from_secs(10);
/// How long a replica may take to be back.
const BACK: Duration = Duration::from_secs(10);
/// How often it is asked meanwhile.
const BACK_AGAIN: Duration = Duration::from_millis(30);
/// How long a scrub may take.
const SCRUB: Duration = Duration::from_secs(120);

/// The result.
pub(crate) struct Happened {
    /// The durability mode by the replicas' status, which the probe's writes obey, too; `None` when no replica answered.
    durability: Option<String>,
    pub(crate) replicas: Vec<u16>,
    /// Those on the other side of a partition.
    others: Vec<u16>,
    pub(crate) leader_before: Option<ReplicaId>,
    pub(crate) leader_after: Option<ReplicaId>,
    pub(crate) gap: Option<Gap>,
    /// Whether enough replicas run and reach each other.
    majority: bool,
    /// Whether there is a partition.
    parted: bool,
    pub(crate) reaction: Reaction,
    pub(crate) damage: Vec<Damage>,
    /// What the scrubs of changed disks found, or why there was none.
    pub(crate) scrubs: Vec<(u16, Result<Scrubbed, String>)>,
}

pub(crate) fn run(args: &Args) -> Outcome {
    check(args)?;
    let cluster = Cluster::find(&args.cluster)?;
    let list = Request { action: Action::List, replicas: vec![] };
    // Before anything else: without a supervisor there is nothing to be done.
    let lives = control::call(&cluster.directory, &list)?.replicas;
    if args.target == Some(Target::Dead) && !lives.iter().any(ChildReport::is_dead) {
        print::line(say::all_run(args.json, &lives, &dir_option(&cluster.directory)))?;
        return Ok(ExitCode::SUCCESS);
    }
    let result = cause(args, &cluster, &lives)?;
    let dir = dir_option(&cluster.directory);
    print::line(if args.json { say::json(args, &result, &dir) } else { say::text(args, &result, &dir) })?;
    Ok(ExitCode::SUCCESS)
}

/// Causes the fault in this cluster, and says what came of it. `lives`: its processes before.
///
/// # Errors
/// When it can not be caused, or a replica that was started does not come back.
pub(crate) fn cause(args: &Args, cluster: &Cluster, lives: &[ChildReport]) -> Outcome<Happened> {
    let admin = Admin::new(cluster)?;
    let probe = if args.no_probe { None } else { Some(Probe::start(cluster)?) };
    let (replicas, leader_before) = targets(args, cluster, &admin, lives)?;
    let before = admin.ask_all();
    let durability = durability(&before);
    if let Some(probe) = &probe {
        probe.mark();
    }
    let done = control::call(&cluster.directory, &Request { action: action(args), replicas })?;
    let replicas = done.changed;
    if args.fault == Fault::Restart {
        wait_until_back(&admin, cluster, &replicas)?;
    }
    let scrubs = scrub_changed(&admin, cluster, &done.damage, &done.replicas);
    let serving = serving(&done.replicas, cluster.majority());
    let majority = !serving.is_empty();
    let gap = probe.map(|probe| probe.finish(majority));
    let leader_after = if majority { look::leader_of(&admin, &serving, LEADER) } else { None };
    let reaction = Look::of(&before).until(&Look::of(&admin.ask_all()));
    let others = match args.fault {
        Fault::Partition => ids(&done.replicas).filter(|id| !replicas.contains(id)).collect(),
        _ => Vec::new(),
    };
    let parted = done.replicas.iter().any(|report| !report.apart.is_empty());
    let damage = done.damage;
    Ok(Happened {
        durability,
        replicas,
        others,
        leader_before,
        leader_after,
        gap,
        majority,
        parted,
        reaction,
        damage,
        scrubs,
    })
}

/// Refuses arguments that do not belong together.
fn check(args: &Args) -> Outcome<()> {
    let fault = args.fault;
    let late = args.ms.filter(|_| fault == Fault::Slow);
    let refusals = [
        (args.how.is_some() && fault != Fault::Lie, "--how is for `quorate chaos lie`".to_owned()),
        (
            args.ms.is_some() && !matches!(fault, Fault::Slow | Fault::ClockJump),
            "--ms is for `quorate chaos slow` and `quorate chaos clock-jump`".into(),
        ),
        (
            late.is_some_and(|ms| !(0..=i64::from(slow::MS_MAX)).contains(&ms)),
            format!("--ms: a replica is late by 0 to {} milliseconds", slow::MS_MAX),
        ),
        (
            fault == Fault::ClockJump && args.ms == Some(0),
            "--ms: a clock that jumps by 0 ms does not jump".into(),
        ),
        (
            args.what.is_some() && fault != Fault::CorruptDisk,
            "--what is for `quorate chaos corrupt-disk`".into(),
        ),
        (
            (args.mib.is_some() || args.off) && fault != Fault::FillDisk,
            "--mib and --off are for `quorate chaos fill-disk`".into(),
        ),
        (
            args.target == Some(Target::Dead) && fault != Fault::Restart,
            "dead is for `quorate chaos restart`: name a replica by its number, leader, or all".into(),
        ),
        (
            args.target.is_some() && fault == Fault::Heal,
            "`quorate chaos heal` ends the whole partition, and takes no replica".into(),
        ),
        (
            args.target.is_none() && fault != Fault::Heal,
            "name a replica by its number, several as in 1,2, leader, or all".into(),
        ),
    ];
    match refusals.into_iter().find(|(wrong, _)| *wrong) {
        Some((_, why)) => Err(Failure::usage(why)),
        None => Ok(()),
    }
}

fn durability(answers: &[admin::Answer]) -> Option<String> {
    answers.iter().find_map(|answer| answer.status.as_ref().ok().map(|status| status.log.shown()))
}

fn action(args: &Args) -> Action {
    match args.fault {
        Fault::Kill => Action::Kill,
        Fault::Pause => Action::Pause,
        Fault::Resume => Action::Resume,
        Fault::Restart => Action::Restart,
        Fault::Partition => Action::Partition,
        Fault::Heal => Action::Heal,
        Fault::CorruptDisk => Action::CorruptDisk(what(args)),
        Fault::FillDisk => Action::FillDisk((!args.off).then(|| args.mib.unwrap_or(0))),
        Fault::ClockJump => Action::ClockJump(args.ms.unwrap_or(0)),
        Fault::Lie => Action::Lie(args.how.unwrap_or(How::None)),
        Fault::Slow => Action::Slow(late(args)),
    }
}

/// By how many milliseconds a replica is to be late.
fn late(args: &Args) -> u32 {
    args.ms.and_then(|ms| u32::try_from(ms).ok()).unwrap_or(slow::MS_USUAL)
}

/// What is to rot.
fn what(args: &Args) -> What {
    args.what.unwrap_or(What::Checkpoint)
}

/// The replicas that are meant, and the leader.
fn targets(
    args: &Args,
    cluster: &Cluster,
    admin: &Admin,
    lives: &[ChildReport],
) -> Outcome<(Vec<u16>, Option<ReplicaId>)> {
    let leader = || admin::leader(&admin.ask_all());
    match &args.target {
        Some(Target::Leader) => {
            let leader = admin.wait_for_leader(LEADER).ok_or_else(|| {
                Failure::new(
                    "nobody leads, so there is no leader to do this to. `quorate status` says why; or name a replica by its \
                     number",
                )
            })?;
            Ok((vec![leader.number()], Some(leader)))
        }
        Some(Target::All) => {
            // Members that `dev` did not start are none of its business, nor are those that it started and that are members no more.
            let members = cluster.members.iter().map(|(replica, _)| replica.number());
            Ok((members.filter(|id| ids(lives).any(|own| own == *id)).collect(), leader()))
        }
        Some(Target::Dead) => {
            let dead = lives.iter().filter(|report| report.is_dead());
            Ok((dead.map(|report| report.replica).collect(), leader()))
        }
        Some(Target::These(these)) => Ok((these.clone(), leader())),
        // The end of a partition concerns all.
        None => Ok((ids(lives).collect(), leader())),
    }
}

fn ids(reports: &[ChildReport]) -> impl Iterator<Item = u16> + '_ {
    reports.iter().map(|report| report.replica)
}

/// Waits until these replicas, which were started, answer.
///
/// # Errors
/// When one ends by itself, at once; or when one does not answer in time.
fn wait_until_back(admin: &Admin, cluster: &Cluster, replicas: &[u16]) -> Outcome<()> {
    let dir = dir_option(&cluster.directory);
    for replica in replicas {
        let until = Instant::now() + BACK;
        while let Err(why) = admin.ask(ReplicaId::new(*replica)) {
            let list = Request { action: Action::List, replicas: vec![] };
            let lives = control::call(&cluster.directory, &list)?.replicas;
            let report = lives.iter().find(|report| report.replica == *replica);
            if let Some(ended) = report.and_then(|report| report.ended(&dir)) {
                return Err(Failure::new(format!("replica {replica} was started, and {ended}")));
            }
            if Instant::now() >= until {
                return Err(Failure::new(format!(
                    "replica {replica} was started, and its process runs, but it does not answer within {} s ({why}): the end of its log, \
                     {}, says what it does",
                    BACK.as_secs(),
                    replica_directory(&cluster.directory, *replica).join("log.txt").display()
                )));
            }
            std::thread::sleep(BACK_AGAIN);
        }
    }
    Ok(())
}

/// Lets replicas whose disks were changed read them.
fn scrub_changed(
    admin: &Admin,
    cluster: &Cluster,
    damage: &[Damage],
    lives: &[ChildReport],
) -> Vec<(u16, Result<Scrubbed, String>)> {
    let dir = dir_option(&cluster.directory);
    let scrub = |damage: &Damage| {
        let id = damage.replica;
        let runs = lives.iter().any(|report| report.replica == id && report.life == Life::Running);
        let address = cluster.members.iter().find(|(replica, _)| replica.number() == id);
        let done = match address {
            Some((replica, address)) if runs => {
                scrub::scrub(admin, cluster, *replica, address, Instant::now() + SCRUB)
            }
            _ => Err(format!(
                "it does not run, and reads this when it starts: `quorate chaos restart {id}{dir}`, then `quorate scrub {id}{dir}`"
            )),
        };
        (id, done)
    };
    damage.iter().map(scrub).collect()
}

/// The running replicas that reach a majority, themselves among it.
fn serving(reports: &[ChildReport], majority: usize) -> Vec<u16> {
    let running: Vec<&ChildReport> = reports.iter().filter(|report| report.life == Life::Running).collect();
    let reach = |of: &ChildReport| running.iter().filter(|other| !of.apart.contains(&other.replica)).count();
    running.iter().filter(|report| reach(report) >= majority).map(|report| report.replica).collect()
}
