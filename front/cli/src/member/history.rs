//! `quorate member history`: follows the chain of memberships from what `client.toml` knows. Tests: history/tests.rs, tests/all/admin.rs.

use super::{Common, view};
use quorate::client::History;
use quorate_command::cluster::Cluster;
use quorate_command::failure::{Failure, Outcome};
use quorate_command::print;
use quorate_types::ReplicaId;
use quorate_wire::{Member, MemberRole, Membership};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::process::ExitCode;
use std::time::Duration;

/// How long a replica may take to answer.
const ANSWER: Duration = Duration::from_secs(2);

/// Show the memberships from the one that client.toml names to the present one, each proved by the one before.
///
/// Where replicas may lie, each change is signed by a quorum of the members before it. Whoever knows one membership with its public keys
/// checks the next one, and believes nobody's word. So a client.toml of an earlier year leads to the present members, even if all members
/// that it names have been replaced and stopped: name one of the present replicas with --ask, whoever says where it is. Then client.toml
/// names the present members.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  quorate member history
  quorate member history --config old/client.toml --ask 8=10.0.0.8:7000
  quorate member history --config founding/client.toml --keep --json")]
pub(super) struct HistoryArgs {
    /// A replica to ask beside those that client.toml names: its id and its address; as often as needed
    #[arg(long, value_name = "ID=HOST:PORT", value_parser = parse_place)]
    ask: Vec<(ReplicaId, String)>,
    /// Leave client.toml as it is
    #[arg(long)]
    keep: bool,
    #[command(flatten)]
    common: Common,
}

fn parse_place(text: &str) -> Result<(ReplicaId, String), String> {
    let place = text.split_once('=').and_then(|(id, address)| Some((id.parse::<u16>().ok()?, address)));
    match place.filter(|(id, address)| *id > 0 && address.contains(':')) {
        Some((id, address)) => Ok((ReplicaId::new(id), address.to_owned())),
        None => Err("give the id and the address of a replica, as 8=10.0.0.8:7000".to_owned()),
    }
}

pub(super) fn run(args: &HistoryArgs) -> Outcome {
    let cluster = Cluster::find(&args.common.cluster)?;
    if !cluster.fault_model.may_lie() {
        return Err(Failure::usage(
            "this cluster survives crashes only: its replicas sign nothing, and their word is enough (`quorate member list`)",
        ));
    }
    let mut file = cluster.file();
    let history = file.follow(&args.ask, ANSWER).map_err(|why| {
        Failure::usage(format!(
            "{why}. Take a client.toml that was made with the cluster, or that `quorate member` wrote since"
        ))
    })?;
    if !args.keep && history.memberships.len() > 1 {
        view::write_members(&cluster, &args.common.cluster, &file)?;
    }
    if args.common.json {
        print::line(document(&history).to_string())?;
    } else {
        print::line(text(&history))?;
        for (replica, why) in &history.problems {
            eprintln!("replica {}: {why}", replica.number());
        }
    }
    end(&history)
}

/// Whether the chain reaches the present membership, as far as can be known.
fn end(history: &History) -> Outcome {
    let last = history.memberships.last().map(Membership::number).unwrap_or_default();
    if history.answered.is_empty() {
        return Err(Failure::new(
            "none of these replicas answers, so there may be later memberships: name one of the present replicas with --ask",
        ));
    }
    if history.named > last {
        return Err(Failure::new(format!(
            "a replica says that the membership is {:#}, and nobody shows the link from {last:#}: ask other replicas with --ask, or get a \
             client.toml from an operator",
            history.named
        )));
    }
    Ok(ExitCode::SUCCESS)
}

fn ids<'a>(members: impl Iterator<Item = &'a Member>) -> String {
    let ids: Vec<String> = members.map(|member| member.replica.to_string()).collect();
    ids.join(", ")
}

/// What changes from one membership to the next, in words.
fn changes(before: &Membership, now: &Membership) -> String {
    let role = |membership: &Membership, id| membership.get(id).map(|member| member.role);
    let all: BTreeSet<ReplicaId> =
        before.members().iter().chain(now.members()).map(|member| member.replica).collect();
    let what = |id: &ReplicaId| {
        let moved = || before.get(*id).map(|member| &member.address) != now.get(*id).map(|m| &m.address);
        Some(match (role(before, *id), role(now, *id)) {
            (None, Some(MemberRole::Learner)) => format!("{id} joins, to learn"),
            (None, Some(MemberRole::Voter)) => format!("{id} joins"),
            (Some(_), None) => format!("{id} leaves"),
            (Some(MemberRole::Learner), Some(MemberRole::Voter)) => format!("{id} votes"),
            (Some(MemberRole::Voter), Some(MemberRole::Learner)) => format!("{id} votes no more"),
            (Some(_), Some(_)) if moved() => format!("{id} is at {}", now.get(*id)?.address),
            _ => return None,
        })
    };
    let all: Vec<String> = all.iter().filter_map(what).collect();
    if all.is_empty() { "nothing changes".to_owned() } else { all.join(", ") }
}

fn text(history: &History) -> String {
    let mut lines = Vec::new();
    let mut before: Option<&Membership> = None;
    for membership in &history.memberships {
        lines.push(match before {
            None => format!(
                "membership {:#}, from client.toml: {}",
                membership.number(),
                ids(membership.members().iter())
            ),
            Some(before) => {
                let (number, by) = (membership.number(), before.number());
                format!("membership {number:#}, proved by membership {by:#}: {}", changes(before, membership))
            }
        });
        before = Some(membership);
    }
    if let Some(last) = before {
        let voters = last.members().iter().filter(|member| member.role == MemberRole::Voter);
        lines.push(format!("\nIn membership {:#} vote {}.", last.number(), ids(voters)));
    }
    lines.join("\n")
}

fn document(history: &History) -> Value {
    let member = |member: &Member| {
        let key = member.key.map(|key| key.iter().map(|byte| format!("{byte:02x}")).collect::<String>());
        json!({
            "replica": member.replica.number(),
            "address": member.address,
            "role": if member.role == MemberRole::Voter { "voter" } else { "learner" },
            "key": key,
        })
    };
    let each = history.memberships.iter().enumerate().map(|(at, membership)| {
        json!({
            "number": membership.number().number(),
            "proved": at > 0,
            "members": membership.members().iter().map(member).collect::<Vec<_>>(),
        })
    });
    let problems = history.problems.iter().map(|(id, text)| json!({ "replica": id.number(), "text": text }));
    json!({
        "memberships": each.collect::<Vec<_>>(),
        "named": history.named.number(),
        "answered": history.answered.iter().map(|id| id.number()).collect::<Vec<_>>(),
        "problems": problems.collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests;
