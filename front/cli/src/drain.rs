//! `quorate drain`: prepares a replica so that it can be stopped without effect on clients, or says why that is impossible.
//!
//! A leader first hands over. A replica that the majority needs is refused. `quorate restart` drains each replica before stopping it.
//! Tests: tests/rolling.rs.

use quorate::client::AdminConnection;
use quorate_command::admin::{self, Admin, Answer, Status};
use quorate_command::cluster::{Cluster, ClusterArgs};
use quorate_command::failure::{Failure, Outcome};
use quorate_command::print;
use quorate_types::ReplicaId;
use quorate_wire::{FrameKind, OutFrame};
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Have a replica hand over, so that it can be stopped.
///
/// If it leads, another one leads afterwards. Refused, with the reason, when the others would be no majority without it. The
/// replica goes on; stop it with whatever runs it, for example `systemctl stop quorate@2`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  quorate drain 2 && systemctl restart quorate@2
  quorate drain 2 --config prod/client.toml --json

Exit codes: 0 it can be stopped now, 1 not, and the reason is printed.")]
pub(crate) struct Args {
    /// Which replica
    #[arg(value_name = "REPLICA", value_parser = clap::value_parser!(u16).range(1..))]
    replica: u16,
    #[command(flatten)]
    cluster: ClusterArgs,
    /// Give up when the others are not ready, or nobody else leads, after so long
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=3600))]
    timeout: u64,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// The most of the log, in bytes, that another replica may lack and still count.
const LAG_BYTES_MAX: u64 = 1 << 20;
/// How often the status is asked for.
const LOOK: Duration = Duration::from_millis(20);
/// When the leader is asked again.
const ASK_AGAIN: Duration = Duration::from_secs(1);
/// How long the leader may take to answer.
const ANSWER: Duration = Duration::from_secs(2);

pub(crate) fn run(args: &Args) -> Outcome {
    let cluster = Cluster::find(&args.cluster)?;
    let admin = Admin::new(&cluster)?;
    let replica = ReplicaId::new(args.replica);
    let drained = drain(&admin, &cluster, replica, Duration::from_secs(args.timeout))?;
    let (number, leader) = (replica.number(), drained.leader.number());
    print::line(if args.json {
        let Drained { handed_over, .. } = drained;
        serde_json::json!({ "replica": number, "handed_over": handed_over, "leader": leader }).to_string()
    } else {
        let how = if drained.handed_over { "has handed over" } else { "does not lead" };
        format!("replica {number} {how}, replica {leader} leads: replica {number} can be stopped now")
    })?;
    Ok(ExitCode::SUCCESS)
}

/// The result of a drain: the replica can be stopped.
pub(crate) struct Drained {
    /// The leader.
    pub(crate) leader: ReplicaId,
    /// Whether the replica led before.
    pub(crate) handed_over: bool,
}

/// Waits until the other replicas have a majority and one of them leads.
///
/// # Errors
/// Says why that did not happen in time.
pub(crate) fn drain(
    admin: &Admin,
    cluster: &Cluster,
    replica: ReplicaId,
    limit: Duration,
) -> Outcome<Drained> {
    let number = replica.number();
    let Some((_, address)) = cluster.members.iter().find(|(member, _)| *member == replica) else {
        return Err(Failure::usage(format!(
            "this cluster has no replica {number}: `quorate status` names them"
        )));
    };
    let until = Instant::now() + limit;
    let (mut asked_at, mut asked, mut handed_over) = (None::<Instant>, 0, false);
    loop {
        let answers = admin.ask_all();
        let why = match (objection(cluster, &answers, replica), admin::leader(&answers)) {
            (Some(why), _) => why,
            (None, None) => "nobody leads now".to_owned(),
            (None, Some(leader)) if leader != replica => return Ok(Drained { leader, handed_over }),
            (None, Some(_)) => {
                handed_over = true;
                if asked_at.is_none_or(|at| at.elapsed() >= ASK_AGAIN) {
                    asked_at = Some(Instant::now());
                    asked += 1;
                    match hand_over(cluster, replica, address) {
                        Ok(()) => continue,
                        Err(why) => format!("it leads, and does not hand over: {why}"),
                    }
                } else {
                    format!(
                        "it leads still, though asked to hand over {asked} times: nobody else took over. Perhaps what is begun does not get \
                         through (`quorate status` tells), and it stays as long as the others do not follow"
                    )
                }
            }
        };
        if Instant::now() >= until {
            return Err(Failure::new(format!("replica {number} should not be stopped now: {why}")));
        }
        std::thread::sleep(LOOK);
    }
}

/// The reason why the other replicas can not do without this one.
fn objection(cluster: &Cluster, answers: &[Answer], replica: ReplicaId) -> Option<String> {
    let leading =
        admin::leader(answers).and_then(|leader| answers.iter().find(|answer| answer.replica == leader));
    let leading = leading.and_then(|answer| answer.status.as_ref().ok());
    if leading.is_some_and(|status| !status.raw["membership"]["changing_to"].is_null()) {
        return Some("the membership is being changed".to_owned());
    }
    let voters = leading.and_then(voters);
    let voters = voters.unwrap_or_else(|| cluster.members.iter().map(|(id, _)| id.number()).collect());
    let majority = voters.len() / 2 + 1;
    let others = voters.iter().filter(|id| **id != replica.number());
    let lacks = others.filter_map(|id| {
        let answer = answers.iter().find(|answer| answer.replica.number() == *id);
        let lack = answer
            .map_or(Some("is not in this client.toml, so it was not asked".to_owned()), |a| lack(a, leading));
        Some((*id, lack?))
    });
    let lacks: Vec<(u16, String)> = lacks.collect();
    let own = usize::from(voters.contains(&replica.number()));
    let left = voters.len().saturating_sub(own).saturating_sub(lacks.len());
    if left >= majority {
        return None;
    }
    let mut text = format!(
        "without it {left} of {} replicas would be left, and {majority} are needed: writes and strong reads would stop",
        voters.len()
    );
    for (other, lack) in lacks {
        text.push_str(&format!("; replica {other} {lack}"));
    }
    Some(text)
}

/// The voters, by what the leader says.
fn voters(leading: &Status) -> Option<Vec<u16>> {
    let members = leading.raw["membership"]["members"].as_array()?;
    let voters = members.iter().filter(|member| member["role"] == "voter");
    let ids: Option<Vec<u16>> =
        voters.map(|member| u16::try_from(member["replica"].as_u64()?).ok()).collect();
    ids.filter(|ids| !ids.is_empty())
}

/// The reason why this replica does not count, if there is one.
fn lack(answer: &Answer, leading: Option<&Status>) -> Option<String> {
    let status = match &answer.status {
        Ok(status) => status,
        Err(why) => return Some(format!("does not answer ({why})")),
    };
    if let Some(why) = unsound(status) {
        return Some(why);
    }
    if status.leader.is_none() {
        return Some("knows no leader".to_owned());
    }
    let seen = leading?.members.iter().find(|member| member.replica == answer.replica.number())?;
    (seen.lag_bytes > LAG_BYTES_MAX).then(|| "has not caught up".to_owned())
}

/// The reason why its state does not count, if there is one.
pub(crate) fn unsound(status: &Status) -> Option<String> {
    let checkpoints = &status.raw["checkpoints"];
    if !checkpoints["diverged"].is_null() {
        return Some("has a state that is not the agreed one".to_owned());
    }
    (!checkpoints["transfer"].is_null()).then(|| "fetches the state from the others".to_owned())
}

/// Asks the leader to hand over to the replica that lacks least.
fn hand_over(cluster: &Cluster, leader: ReplicaId, address: &str) -> Result<(), String> {
    let credentials = cluster.credentials().map_err(|why| why.to_string())?;
    let mut connection =
        AdminConnection::connect(leader, address, cluster.id, credentials.as_deref(), ANSWER)?;
    let mut sender = connection.sender()?;
    sender.send(&OutFrame::new(FrameKind::TransferRequest, &0u16.to_le_bytes(), vec![]))?;
    let until = Instant::now() + ANSWER;
    while let Some(frame) = connection.receive(until.saturating_duration_since(Instant::now()))? {
        if frame.kind == FrameKind::TransferReply {
            let text = String::from_utf8_lossy(&frame.payload).into_owned();
            return text.strip_prefix("error: ").map_or(Ok(()), |why| Err(why.to_owned()));
        }
    }
    Err("no answer in time".to_owned())
}
