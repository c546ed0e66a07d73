//! How a fault and what the cluster did about it are told.

use super::{Args, Fault, Happened, late, what};
use crate::control::{ChildReport, Life, What};
use crate::scrub::Scrubbed;
use clap::ValueEnum as _;
use quorate_lab::lies::How;
use quorate_types::ReplicaId;
use serde_json::{Value, json};

/// So many new problems are printed; `quorate status` has all.
const PROBLEMS_MAX: usize = 4;
/// What a jump of a clock may do. docs/operations/reads.md and docs/etcd.md have the promises.
const CLOCK: [&str; 4] = [
    "it is the clock of this replica's timers, of agreed time as far as it leads, and of leases under strong reads; the dates in its log stay",
    "it can not lose a write, nor change the order; a jump ahead costs an election at most; after a jump back time goes on from where it was",
    "ahead by less than twice the time after which others elect: leases of clients end that much early if it leads; by more: it counts as a \
     pause, and they do not",
    "with `lease` in [reads] a strong read at a leader whose clock jumped back may miss what another leader acknowledged",
];

/// All replicas run, so none was restarted. `dir`, here and below: what commands need to be about this cluster.
pub(super) fn all_run(as_json: bool, lives: &[ChildReport], dir: &str) -> String {
    if as_json {
        return json!({ "replicas": [], "alive": lives.len() }).to_string();
    }
    let paused = lives.iter().filter(|report| report.life == Life::Paused);
    let paused: Vec<String> = paused.map(|report| report.replica.to_string()).collect();
    match paused.is_empty() {
        true => "no replica is dead, so none was restarted".to_owned(),
        false => format!(
            "no replica is dead, so none was restarted; what is paused goes on with `quorate chaos resume {}{dir}`",
            paused.join(",")
        ),
    }
}

pub(super) fn json(args: &Args, result: &Happened, dir: &str) -> String {
    let reaction = &result.reaction;
    let suspicions: Vec<Value> = reaction
        .suspicions
        .iter()
        .map(|(by, whom, what)| json!({ "by": by, "replica": whom, "what": what }))
        .collect();
    let problems: Vec<Value> = reaction
        .problems
        .iter()
        .map(|(replica, problem)| json!({ "replica": replica, "problem": problem }))
        .collect();
    let scrub = |(replica, ended): &(u16, Result<Scrubbed, String>)| {
        let mut scrub = match ended {
            Ok(scrubbed) => scrubbed.json(),
            Err(why) => json!({ "error": why }),
        };
        scrub["replica"] = json!(replica);
        scrub
    };
    let number = |leader: Option<ReplicaId>| leader.map(ReplicaId::number);
    json!({
        "fault": args.fault.to_possible_value().map(|value| value.get_name().to_owned()),
        "replicas": result.replicas,
        "others": result.others,
        "majority": result.majority,
        "gap_ms": result.gap.as_ref().and_then(super::Gap::millis),
        "durability": result.durability,
        "leader_before": number(result.leader_before),
        "leader_after": number(result.leader_after),
        "view_changes": reaction.view_changes,
        "suspicions": suspicions,
        "problems": problems,
        "damage": result.damage,
        "scrubs": result.scrubs.iter().map(scrub).collect::<Vec<_>>(),
        "undo": undo(args, &result.replicas, dir),
    })
    .to_string()
}

pub(super) fn text(args: &Args, result: &Happened, dir: &str) -> String {
    let mut lines = vec![headline(args, result)];
    lines.extend(notes(args, result, dir));
    if !result.majority {
        let reaches = if result.parted { " and reaches each other" } else { "" };
        lines.push(format!("no majority runs{reaches} now: writes wait until there is one"));
    }
    if let Some(gap) = &result.gap {
        lines.extend(gap.text());
        lines.extend(result.durability.as_ref().map(|mode| format!("  (each write with durability {mode})")));
    }
    lines.extend(leaders(result));
    for (by, whom, what) in &result.reaction.suspicions {
        lines.push(format!("replica {by} suspects replica {whom}: {what}"));
    }
    lines.extend(problems(result));
    lines.extend(undo(args, &result.replicas, dir).map(|undo| format!("undo it with `{undo}`")));
    lines.join("\n")
}

/// What was done to these replicas.
fn did(args: &Args, whom: &str, others: &[u16]) -> String {
    let lies = args.how.filter(|how| *how != How::None);
    match args.fault {
        Fault::Kill => format!("killed {whom}"),
        Fault::Pause => format!("paused {whom}"),
        Fault::Resume => format!("resumed {whom}"),
        Fault::Restart => format!("restarted {whom}"),
        Fault::Partition => format!("cut off {whom}, from {}", replicas(others)),
        Fault::Heal => format!("ended the partition: {whom} reach each other again"),
        Fault::CorruptDisk => match what(args) {
            What::Checkpoint => format!("changed the checkpoint of {whom}"),
            What::Log => format!("changed the log of {whom}"),
        },
        Fault::FillDisk if args.off => format!("gave all its room back to the disk of {whom}"),
        Fault::FillDisk => format!("left {} MiB of room on the disk of {whom}", args.mib.unwrap_or(0)),
        Fault::ClockJump => {
            let ms = args.ms.unwrap_or(0);
            let way = if ms < 0 { "back" } else { "ahead" };
            format!("let the clock jump {way} by {} ms, of {whom}", ms.unsigned_abs())
        }
        Fault::Lie if lies.is_some() => format!("told to lie: {whom}"),
        Fault::Lie => format!("told to lie no more: {whom}"),
        Fault::Slow if late(args) > 0 => format!("made slow by {} ms: {whom}", late(args)),
        Fault::Slow => format!("made slow no more: {whom}"),
    }
}

fn replicas(ids: &[u16]) -> String {
    let names: Vec<String> = ids.iter().map(ToString::to_string).collect();
    let plural = if ids.len() == 1 { "" } else { "s" };
    format!("replica{plural} {}", names.join(", "))
}

fn headline(args: &Args, result: &Happened) -> String {
    let led = result.leader_before.is_some_and(|leader| result.replicas.contains(&leader.number()));
    let among = match (led && args.fault != Fault::Heal, result.replicas.len()) {
        (false, _) => "",
        (true, 1) => ", the leader",
        (true, _) => ", the leader among them",
    };
    did(args, &format!("{}{among}", replicas(&result.replicas)), &result.others)
}

/// What a user should know about this fault.
fn notes(args: &Args, result: &Happened, dir: &str) -> Vec<String> {
    let mut notes: Vec<String> = Vec::new();
    match args.fault {
        Fault::Partition => notes.push(
            "nothing passes between the two sides, in either direction; clients and operators still reach all".into(),
        ),
        Fault::Heal => notes.push("what waited in their connections goes on".into()),
        Fault::FillDisk if !args.off => notes.push(
            "the files that its log has ready (two of 32 MiB, unless configured otherwise) still take writes; then it has no room for more"
                .into(),
        ),
        Fault::Lie => notes.extend(idle(args, result, dir)),
        Fault::ClockJump => notes.extend(CLOCK.map(str::to_owned)),
        _ => {}
    }
    for damage in &result.damage {
        let (file, last) = (damage.file.display(), damage.offset + damage.bytes - 1);
        notes.push(format!("changed are bytes {} to {last} of {file}", damage.offset));
    }
    for (replica, scrub) in &result.scrubs {
        notes.push(match scrub {
            Ok(scrubbed) => format!("scrubbed replica {replica}: {}", scrubbed.text()),
            Err(why) => format!("not scrubbed, replica {replica}: {why}"),
        });
    }
    notes
}

/// What to know of a lie that only a leader tells, where none of these replicas leads.
fn idle(args: &Args, result: &Happened, dir: &str) -> Option<String> {
    let how = args.how.filter(|how| how.needs_leader())?;
    let leads = |leader: Option<ReplicaId>| leader.is_some_and(|id| result.replicas.contains(&id.number()));
    let name = how.to_possible_value()?.get_name().to_owned();
    (!leads(result.leader_before) && !leads(result.leader_after)).then(|| {
        format!("this lie is one of a leader: nothing happens until such a replica leads. `quorate chaos lie leader --how {name}{dir}` tells the one that leads now")
    })
}

/// Who leads, and how that came.
fn leaders(result: &Happened) -> Option<String> {
    let changes = match result.reaction.view_changes {
        0 => String::new(),
        1 => ", after 1 change of view".to_owned(),
        more => format!(", after {more} changes of view"),
    };
    match (result.leader_before, result.leader_after) {
        (Some(before), Some(after)) if before == after => {
            Some(format!("replica {} leads now, as before{changes}", after.number()))
        }
        (Some(before), Some(after)) => Some(format!(
            "replica {} leads now, replica {} led before{changes}",
            after.number(),
            before.number()
        )),
        (None, Some(after)) => {
            Some(format!("replica {} leads now, nobody led before{changes}", after.number()))
        }
        (_, None) if result.majority => Some("nobody leads now; see `quorate status`".into()),
        (_, None) => None,
    }
}

/// What `quorate status` says now and did not say before.
fn problems(result: &Happened) -> Vec<String> {
    let problems = &result.reaction.problems;
    if problems.is_empty() {
        return Vec::new();
    }
    let mut lines = vec!["new in `quorate status`:".to_owned()];
    lines.extend(
        problems.iter().take(PROBLEMS_MAX).map(|(replica, text)| format!("  replica {replica}: {text}")),
    );
    if problems.len() > PROBLEMS_MAX {
        lines.push(format!("  and {} more", problems.len() - PROBLEMS_MAX));
    }
    lines
}

/// The command that ends the fault.
fn undo(args: &Args, replicas: &[u16], dir: &str) -> Option<String> {
    let lies = args.how.is_some_and(|how| how != How::None);
    let verb = match args.fault {
        Fault::Kill => "restart",
        Fault::Pause => "resume",
        Fault::Partition => return Some(format!("quorate chaos heal{dir}")),
        Fault::FillDisk if !args.off => "fill-disk --off",
        Fault::Lie if lies => "lie --how none",
        Fault::Slow if late(args) > 0 => "slow --ms 0",
        _ => return None,
    };
    let names: Vec<String> = replicas.iter().map(ToString::to_string).collect();
    Some(format!("quorate chaos {verb} {}{dir}", names.join(",")))
}
