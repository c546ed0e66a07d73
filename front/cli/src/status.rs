//! `quorate status`: asks every replica for its status.

use crate::problems::{self, Problem};
use quorate_command::admin::{self, Admin, Answer, Status};
use quorate_command::cluster::{Cluster, ClusterArgs};
use quorate_command::failure::Outcome;
use quorate_command::print::{self, size};
use quorate_types::ReplicaId;
use std::fmt::Write as _;
use std::process::ExitCode;

#[cfg(test)]
mod tests;

/// Ask every replica how it is.
///
/// Exit code 0 when a majority answers, one of them leads, and it takes writes; 1 when not.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  quorate status
  quorate status --config prod/client.toml
  quorate status --json | jq .leader

Columns: `view` is the number of the leadership, which grows when another one leads; `decided` is the newest
position at which the replicas agreed on commands, `executed` the newest that this one has executed; `lag` is what it lacks of the
leader's log; `sessions` are those of clients; `memory` and `cpu` are of its process since its start; `durability` says when a write counts as kept.")]
pub(crate) struct Args {
    #[command(flatten)]
    cluster: ClusterArgs,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Outcome {
    let cluster = Cluster::find(&args.cluster)?;
    let answers = Admin::new(&cluster)?.ask_all();
    let leader = admin::leader(&answers);
    let answered = answers.iter().filter(|answer| answer.status.is_ok()).count();
    let refuses = admin::refuses_writes(&answers, leader).is_some();
    let healthy = leader.is_some() && answered >= cluster.majority() && !refuses;
    let problems = problems::of(&cluster, &answers, leader);
    let text = if args.json {
        json(&cluster, &answers, leader, healthy, &problems)
    } else {
        text(&cluster, &answers, leader, &problems)
    };
    print::line(text)?;
    Ok(if healthy { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn json(
    cluster: &Cluster,
    answers: &[Answer],
    leader: Option<ReplicaId>,
    healthy: bool,
    problems: &[Problem],
) -> String {
    let replicas: Vec<serde_json::Value> = answers
        .iter()
        .map(|answer| match &answer.status {
            Ok(status) => serde_json::json!({
                "replica": answer.replica.number(),
                "address": answer.address,
                "reachable": true,
                "status": status.raw,
            }),
            Err(why) => serde_json::json!({
                "replica": answer.replica.number(),
                "address": answer.address,
                "reachable": false,
                "error": why,
            }),
        })
        .collect();
    let problems: Vec<String> = problems.iter().map(Problem::to_string).collect();
    print::json_line(&serde_json::json!({
        "cluster": cluster.id.to_string(),
        "leader": leader.map(ReplicaId::number),
        "healthy": healthy,
        "replicas": replicas,
        "problems": problems,
        "etcd": admin::front("etcd", answers),
        "zookeeper": admin::front("zookeeper", answers),
    }))
}

/// The service, as the replica that executed most knows it.
fn service(answers: &[Answer]) -> String {
    let served = answers.iter().filter_map(|answer| Some(&answer.status.as_ref().ok()?.raw["service"]));
    let newest = served.max_by_key(|service| service["level"].as_u64());
    let name = newest.and_then(|service| Some((service["name"].as_str()?, service["level"].as_u64()?)));
    match name {
        None | Some(("", 1)) => String::new(),
        Some((name, 1)) => format!(", service {name}"),
        Some((name, level)) => format!(", service {name} at version {level}"),
    }
}

fn text(cluster: &Cluster, answers: &[Answer], leader: Option<ReplicaId>, problems: &[Problem]) -> String {
    let head = [
        "replica",
        "address",
        "role",
        "view",
        "decided",
        "executed",
        "lag",
        "sessions",
        "memory",
        "cpu",
        "durability",
    ];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    let led_by = answers.iter().find(|answer| Some(answer.replica) == leader);
    let led_by = led_by.and_then(|answer| answer.status.as_ref().ok());
    for answer in answers {
        let mut row = vec![answer.replica.number().to_string(), answer.address.clone()];
        match &answer.status {
            Ok(status) => row.extend(cells(answer.replica, status, led_by)),
            Err(_) => row.push("unreachable".into()),
        }
        rows.push(row);
    }
    let mut text = format!("cluster {}{}\n{}", cluster.id, service(answers), table(&rows));
    for problem in problems {
        let _ = write!(text, "\nproblem: {}", print::clean(&problem.to_string()));
    }
    text
}

fn cells(replica: ReplicaId, status: &Status, leader: Option<&Status>) -> Vec<String> {
    let lag = leader.and_then(|leader| leader.members.iter().find(|m| m.replica == replica.number()));
    vec![
        if status.leading { "leader" } else { "follower" }.to_owned(),
        status.view.to_string(),
        status.decided.to_string(),
        status.executed.to_string(),
        if status.leading {
            "-".to_owned()
        } else {
            lag.map_or("?".to_owned(), |lag| lag_shown(lag.lag_bytes))
        },
        status.sessions.to_string(),
        size(status.process.memory_bytes),
        format!("{:.1} s", status.process.cpu_user_s + status.process.cpu_system_s),
        print::clean(&status.log.shown()),
    ]
}

/// What a replica lacks, as text. The largest number means that it needs a checkpoint, since the log no longer holds what it lacks.
fn lag_shown(bytes: u64) -> String {
    if bytes == u64::MAX { "needs a checkpoint".to_owned() } else { size(bytes) }
}

/// A table with columns as wide as needed.
fn table(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |at: usize| rows.iter().filter_map(|row| row.get(at)).map(String::len).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let lines = rows.iter().map(|row| {
        let cells: Vec<String> =
            row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        cells.join("  ").trim_end().to_owned()
    });
    lines.collect::<Vec<_>>().join("\n")
}
