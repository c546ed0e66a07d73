//! `quorate restart`: restarts the replicas of a `dev` cluster one by one, without an interruption for clients.
//!
//! Each replica is drained, stopped cleanly and started; once it has caught up the next one follows. Followers come first, so that
//! leadership moves once. In a real deployment operators drain and restart each replica themselves, since another program runs them. Tests:
//! tests/rolling.rs.

use crate::control::{self, Action, Request};
use crate::drain::{self, Drained};
use quorate_command::admin::{self, Admin};
use quorate_command::cluster::{Cluster, ClusterArgs};
use quorate_command::failure::{Failure, Outcome};
use quorate_command::print;
use quorate_types::ReplicaId;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Restart replicas one by one, while the cluster goes on.
///
/// Only where `quorate dev` looks after them. Elsewhere ask `quorate drain` for each replica, restart it with whatever runs it, and wait
/// until `quorate status` finds no problem before the next one.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  quorate restart              all of them
  quorate restart 1 3

Exit codes: 0 all are back, 1 it stopped at one, and the reason is printed.")]
pub(crate) struct Args {
    /// Which replicas, by their numbers [default: all]
    #[arg(value_name = "REPLICA", value_parser = clap::value_parser!(u16).range(1..))]
    replicas: Vec<u16>,
    #[command(flatten)]
    cluster: ClusterArgs,
    /// How long each replica may take to be let go, and to catch up
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    timeout: u64,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// How often to check whether a replica is back.
const LOOK: Duration = Duration::from_millis(20);

pub(crate) fn run(args: &Args) -> Outcome {
    let cluster = Cluster::find(&args.cluster)?;
    if !cluster.is_dev() {
        return Err(Failure::usage(
            "no `quorate dev` looks after this cluster, so its processes are not ours to restart. For one replica after the other: \
             `quorate drain REPLICA`, restart it with whatever runs it, and wait until `quorate status` finds no problem",
        ));
    }
    let (admin, limit) = (Admin::new(&cluster)?, Duration::from_secs(args.timeout));
    let mut done = Vec::new();
    for replica in order(args, &cluster, &admin)? {
        let began = Instant::now();
        let Drained { handed_over, leader } = drain::drain(&admin, &cluster, replica, limit)?;
        let request = Request { action: Action::Restart, replicas: vec![replica.number()] };
        control::call(&cluster.directory, &request)?;
        wait_until_back(&admin, replica, limit)?;
        let millis = began.elapsed().as_millis() as u64;
        if !args.json {
            let over = if handed_over {
                format!(", after it handed over to replica {}", leader.number())
            } else {
                String::new()
            };
            print::line(format!("replica {} is back after {millis} ms{over}", replica.number()))?;
        }
        done.push(
            serde_json::json!({ "replica": replica.number(), "ms": millis, "handed_over": handed_over }),
        );
    }
    if args.json {
        print::line(serde_json::Value::Array(done).to_string())?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The replicas to restart; the leader comes last.
fn order(args: &Args, cluster: &Cluster, admin: &Admin) -> Outcome<Vec<ReplicaId>> {
    let members = || cluster.members.iter().map(|(member, _)| *member);
    if let Some(unknown) = args.replicas.iter().find(|id| !members().any(|member| member.number() == **id)) {
        return Err(Failure::usage(format!(
            "this cluster has no replica {unknown}: `quorate status` names them"
        )));
    }
    let meant = |member: &ReplicaId| args.replicas.is_empty() || args.replicas.contains(&member.number());
    let leader = admin::leader(&admin.ask_all());
    let mut order: Vec<ReplicaId> = members().filter(meant).collect();
    order.sort_by_key(|member| Some(*member) == leader);
    Ok(order)
}

/// Waits until the replica follows or leads, and has everything that was decided when it came back.
fn wait_until_back(admin: &Admin, replica: ReplicaId, limit: Duration) -> Outcome<()> {
    let until = Instant::now() + limit;
    let mut wanted = None;
    loop {
        let answers = admin.ask_all();
        let leader = admin::leader(&answers);
        let status = |id: ReplicaId| answers.iter().find(|a| a.replica == id)?.status.as_ref().ok();
        let led = leader.and_then(status);
        if let (Some(own), Some(led)) = (status(replica), led) {
            let wanted = *wanted.get_or_insert(led.decided);
            let knows = own.leader == leader.map(ReplicaId::number);
            if knows && own.decided >= wanted && drain::unsound(own).is_none() {
                return Ok(());
            }
        }
        if Instant::now() >= until {
            return Err(Failure::new(format!(
                "replica {} was started and has not caught up after {} s, so the others were left alone: see `quorate status`",
                replica.number(),
                limit.as_secs()
            )));
        }
        std::thread::sleep(LOOK);
    }
}
