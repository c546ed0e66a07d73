//! `quorate chaos`: causes faults, and measures what they do to writes.

mod probe;

use crate::control::{self, Action, ChildReport, Life, Request};
use clap::ValueEnum;
use probe::{Gap, Probe};
use quorate_command::admin::{self, Admin};
use quorate_command::cluster::{Cluster, ClusterArgs};
use quorate_command::failure::{Failure, Outcome};
use quorate_command::print;
use quorate_lab::lies::How;
use quorate_lab::slow;
use quorate_types::ReplicaId;
use std::process::ExitCode;
use std::str::FromStr;
use std::time::Duration;

/// Make a fault in a cluster that `quorate dev` runs, and see what it does to writes.
///
/// Meanwhile one client writes as fast as it is answered; printed is the longest time during which none of its writes
/// completed, and who leads afterwards.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  quorate chaos kill leader       as if its machine lost power; the others elect a new leader
  quorate chaos restart 1         start it again; its data is still there
  quorate chaos pause leader      as if its machine hung
  quorate chaos resume 2
  quorate chaos kill all          nothing that was acknowledged is lost
  quorate chaos restart all
  quorate chaos lie 1 --how equivocate     in a cluster of `quorate dev --fault-model byzantine`
  quorate chaos lie 1 --how none           what the others found out stays in `quorate status`
  quorate chaos slow 2            correct but late; in a cluster of `quorate dev --fault-model visigoth` --ms above its t
  quorate chaos slow 2 --ms 0     as fast as before")]
pub(crate) struct Args {
    /// What to do
    #[arg(value_enum)]
    fault: Fault,
    /// To whom: the number of a replica, several as in 1,2, leader, or all
    #[arg(value_name = "REPLICA")]
    target: Target,
    /// With `lie`: how
    #[arg(long, value_enum, value_name = "TRICK", required_if_eq("fault", "lie"))]
    how: Option<How>,
    /// With `slow`: by how many milliseconds; 0 ends it [default: 200]
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u32).range(..=i64::from(slow::MS_MAX)))]
    ms: Option<u32>,
    #[command(flatten)]
    cluster: ClusterArgs,
    /// Do not write meanwhile, and measure nothing
    #[arg(long)]
    no_probe: bool,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Fault {
    /// End the process at once (SIGKILL); it stays down until `restart`
    Kill,
    /// Stop the process where it is (SIGSTOP)
    Pause,
    /// Let a paused process go on
    Resume,
    /// Start the process; one that runs is stopped cleanly before
    Restart,
    /// Let it lie to the others and to clients, until it is told to lie no more
    Lie,
    /// Let all that it sends to other replicas leave late, until it is told --ms 0
    Slow,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Target {
    Leader,
    All,
    These(Vec<u16>),
}

impl FromStr for Target {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "leader" => Ok(Self::Leader),
            "all" => Ok(Self::All),
            _ => {
                let these: Result<Vec<u16>, _> = text.split(',').map(str::parse).collect();
                these.map(Self::These).map_err(|_| "a replica is a number, leader, or all".into())
            }
        }
    }
}

/// How long to wait for a leader.
const LEADER: Duration = Duration::from_secs(10);
/// How long a replica may take to be back.
const BACK: Duration = Duration::from_secs(10);

/// The result.
struct Happened {
    /// The durability mode by the replicas' status, which the probe's writes obey, too; `None` when no replica answered.
    durability: Option<String>,
    replicas: Vec<u16>,
    leader_before: Option<ReplicaId>,
    leader_after: Option<ReplicaId>,
    gap: Option<Gap>,
    majority: bool,
}

pub(crate) fn run(args: &Args) -> Outcome {
    if args.how.is_some() && args.fault != Fault::Lie {
        return Err(Failure::usage("--how is for `quorate chaos lie`"));
    }
    if args.ms.is_some() && args.fault != Fault::Slow {
        return Err(Failure::usage("--ms is for `quorate chaos slow`"));
    }
    let cluster = Cluster::find(&args.cluster)?;
    let list = Request { action: Action::List, replicas: vec![] };
    // Before anything else: without a supervisor there is nothing to be done.
    control::call(&cluster.directory, &list)?;
    let admin = Admin::new(&cluster)?;
    let probe = if args.no_probe { None } else { Some(Probe::start(&cluster)?) };
    let (replicas, leader_before) = targets(args, &cluster, &admin)?;
    let durability = durability(&admin);
    if let Some(probe) = &probe {
        probe.mark();
    }
    let done = control::call(&cluster.directory, &Request { action: action(args), replicas })?;
    let replicas = done.changed;
    if args.fault == Fault::Restart {
        wait_until_back(&admin, &replicas)?;
    }
    let majority = running(&done.replicas) >= cluster.majority();
    let gap = probe.map(|probe| probe.finish(majority));
    let leader_after = if majority { admin.wait_for_leader(LEADER) } else { None };
    let result = Happened { durability, replicas, leader_before, leader_after, gap, majority };
    print::line(if args.json { json(&result) } else { text(args, &result) })?;
    Ok(ExitCode::SUCCESS)
}

fn durability(admin: &Admin) -> Option<String> {
    let answers = admin.ask_all();
    answers.iter().find_map(|answer| answer.status.as_ref().ok().map(|status| status.log.shown()))
}

fn action(args: &Args) -> Action {
    match args.fault {
        Fault::Kill => Action::Kill,
        Fault::Pause => Action::Pause,
        Fault::Resume => Action::Resume,
        Fault::Restart => Action::Restart,
        Fault::Lie => Action::Lie(args.how.unwrap_or(How::None)),
        Fault::Slow => Action::Slow(late(args)),
    }
}

/// By how many milliseconds a replica is to be late.
fn late(args: &Args) -> u32 {
    args.ms.unwrap_or(slow::MS_USUAL)
}

/// The replicas that are meant, and the leader.
fn targets(args: &Args, cluster: &Cluster, admin: &Admin) -> Outcome<(Vec<u16>, Option<ReplicaId>)> {
    let all = || cluster.members.iter().map(|(replica, _)| replica.number()).collect();
    match &args.target {
        Target::Leader => {
            let leader = admin.wait_for_leader(LEADER).ok_or_else(|| {
                Failure::new(
                    "nobody leads, so there is no leader to do this to. `quorate status` says why; or name a replica by its \
                     number",
                )
            })?;
            Ok((vec![leader.number()], Some(leader)))
        }
        Target::All => Ok((all(), admin::leader(&admin.ask_all()))),
        Target::These(these) => Ok((these.clone(), admin::leader(&admin.ask_all()))),
    }
}

fn wait_until_back(admin: &Admin, replicas: &[u16]) -> Outcome<()> {
    match replicas.iter().find(|replica| !admin.wait_for(ReplicaId::new(**replica), BACK)) {
        Some(silent) => Err(Failure::new(format!(
            "replica {silent} was started and does not answer within {} s; the end of its log is printed by `quorate dev` if it \
             ended",
            BACK.as_secs()
        ))),
        None => Ok(()),
    }
}

fn running(reports: &[ChildReport]) -> usize {
    reports.iter().filter(|report| report.life == Life::Running).count()
}

fn json(result: &Happened) -> String {
    serde_json::json!({
        "replicas": result.replicas,
        "gap_ms": result.gap.as_ref().and_then(Gap::millis),
        "durability": result.durability,
        "leader_before": result.leader_before.map(ReplicaId::number),
        "leader_after": result.leader_after.map(ReplicaId::number),
    })
    .to_string()
}

fn text(args: &Args, result: &Happened) -> String {
    let lies = args.how.filter(|how| *how != How::None);
    let done = match args.fault {
        Fault::Kill => "killed",
        Fault::Pause => "paused",
        Fault::Resume => "resumed",
        Fault::Restart => "restarted",
        Fault::Lie if lies.is_some() => "told to lie:",
        Fault::Lie => "told to lie no more:",
        Fault::Slow if late(args) > 0 => &format!("made slow by {} ms:", late(args)),
        Fault::Slow => "made slow no more:",
    };
    let names: Vec<String> = result.replicas.iter().map(ToString::to_string).collect();
    let led = result.leader_before.is_some_and(|leader| result.replicas.contains(&leader.number()));
    let among = match (led, names.len()) {
        (false, _) => "",
        (true, 1) => ", the leader",
        (true, _) => ", the leader among them",
    };
    let plural = if names.len() == 1 { "" } else { "s" };
    let mut lines = vec![format!("{done} replica{plural} {}{among}", names.join(", "))];
    if !result.majority {
        lines.push("no majority runs now: writes wait until there is one".into());
    }
    if let Some(gap) = &result.gap {
        lines.extend(gap.text());
        lines.extend(result.durability.as_ref().map(|mode| format!("  (each write with durability {mode})")));
    }
    match result.leader_after {
        Some(leader) => lines.push(format!("replica {} leads now", leader.number())),
        None if result.majority => lines.push("nobody leads now; see `quorate status`".into()),
        None => {}
    }
    let back = match args.fault {
        Fault::Kill => Some("restart"),
        Fault::Pause => Some("resume"),
        Fault::Lie if lies.is_some() => Some("lie --how none"),
        Fault::Slow if late(args) > 0 => Some("slow --ms 0"),
        Fault::Resume | Fault::Restart | Fault::Lie | Fault::Slow => None,
    };
    lines.extend(back.map(|back| format!("undo it with `quorate chaos {back} {}`", names.join(","))));
    lines.join("\n")
}
