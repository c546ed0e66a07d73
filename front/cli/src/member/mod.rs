//! `quorate member`: shows and changes the members. Every change is ordered like a command; the leader refuses a change that would leave
//! the cluster without a majority. docs/operations/members.md has the procedures. Tests: tests/member.rs.

mod history;
mod joiner;
mod rekey;
mod view;

use crate::admin::{self, Signing};
use crate::evidence::Grounds;
use joiner::Joiner;
use quorate::client::AdminConnection;
use quorate_command::authority::DAYS;
use quorate_command::cluster::{Cluster, ClusterArgs};
use quorate_command::failure::{Failure, Outcome};
use quorate_command::print;
use quorate_types::ReplicaId;
use quorate_wire::{AdminCommand, FrameKind, MemberRequest, OutFrame};
use rekey::{NewKeyArgs, RekeyArgs};
use serde_json::json;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};
pub(crate) use view::{Member, View};

/// How long a replica may take to answer, and a change to be over.
const ANSWER: Duration = Duration::from_secs(5);
const CHANGE: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(100);

/// List the replicas, and add, promote, replace and remove them, while the cluster works.
///
/// A new replica gets an id that was never used before, and a directory of its own. It joins as a learner: it gets everything and
/// does not vote. Once it has caught up it can be promoted, or take the place of another one. One change at a time.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  quorate member list
  quorate member history                            where replicas may lie: who they were, and the proofs
  quorate member add 4 --address 10.0.0.4:7000      makes its directory; copy it there and start it
  quorate member promote 4                          once it has caught up
  quorate member replace 2 5 --address 10.0.0.5:7000
  quorate member replace 3 5 --address 10.0.0.5:7000 --evidence r3-two-accepts-i1-v2-s17.proof
  quorate member remove 3
  quorate member rekey 3                            where replicas may lie: another signing key

Procedures, also for a lost disk: docs/operations/members.md")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    List(ListArgs),
    History(history::HistoryArgs),
    Add(AddArgs),
    Make(MakeArgs),
    /// Let a learner vote, once it has caught up
    Promote(OneArgs),
    /// Take a replica out of the cluster, for good: its id is never used again
    Remove(OneArgs),
    Replace(ReplaceArgs),
    Move(MoveArgs),
    Rekey(RekeyArgs),
    #[command(name = "newkey")]
    NewKey(NewKeyArgs),
}

/// Which cluster, and how to print.
#[derive(Debug, clap::Args)]
struct Common {
    #[command(flatten)]
    cluster: ClusterArgs,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// Which cluster, how to print, and who signs.
#[derive(Debug, clap::Args)]
struct Changing {
    #[command(flatten)]
    signing: Signing,
    #[command(flatten)]
    common: Common,
}

/// Show the replicas, what they are, and whether a change is under way.
#[derive(Debug, clap::Args)]
struct ListArgs {
    #[command(flatten)]
    common: Common,
}

/// Add a replica as a learner, and make its directory.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  quorate member add 4 --address 10.0.0.4:7000 --dir prod
  then copy prod/replica-4 to its machine and start it there: quorate serve --config replica-4/replica.toml")]
struct AddArgs {
    /// Its id: one that was never used in this cluster
    #[arg(value_name = "ID", value_parser = clap::value_parser!(u16).range(1..))]
    replica: u16,
    /// Where it will listen, for the others and for clients
    #[arg(long, value_name = "HOST:PORT")]
    address: String,
    #[command(flatten)]
    making: Making,
    #[command(flatten)]
    changing: Changing,
}

/// How the directory of a new replica is made.
#[derive(Debug, clap::Args)]
struct Making {
    /// Where to make its directory; must not exist [default: replica-ID beside client.toml]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// The configuration of another replica, of which it gets everything but its own place [default: one beside client.toml]
    #[arg(long, value_name = "FILE")]
    like: Option<PathBuf>,
    /// The directory of the authority that signs its certificate [default: ca beside client.toml]
    #[arg(long, value_name = "DIR")]
    ca: Option<PathBuf>,
    /// Where it will serve clients of etcd or ZooKeeper [default: its own host, and the port of the others]
    #[arg(long, value_name = "HOST:PORT", visible_alias = "etcd")]
    front: Option<String>,
    /// How long its certificate is good for
    #[arg(long, value_name = "DAYS", default_value_t = DAYS, value_parser = clap::value_parser!(u32).range(1..=3652))]
    days: u32,
}

/// Make the directory of a replica that a client of etcd added.
///
/// `etcdctl member add` adds a replica and makes nothing. This makes the directory that the cluster waits for.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  etcdctl member add four --learner --peer-urls=https://10.0.0.4:7000
  quorate member make 4
  then copy prod/replica-4 to its machine and start it there: quorate serve --config replica-4/replica.toml")]
struct MakeArgs {
    /// Its id, as `quorate member list` shows it
    #[arg(value_name = "ID", value_parser = clap::value_parser!(u16).range(1..))]
    replica: u16,
    #[command(flatten)]
    making: Making,
    #[command(flatten)]
    common: Common,
}

// Without a text of its own: clap would show it for both commands.
#[derive(Debug, clap::Args)]
struct OneArgs {
    /// Which replica
    #[arg(value_name = "ID", value_parser = clap::value_parser!(u16).range(1..))]
    replica: u16,
    #[command(flatten)]
    changing: Changing,
}

/// Replace a replica by a new one: add it, wait until it has caught up, then swap the two in one change.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  quorate member replace 2 5 --address 10.0.0.5:7000
  quorate member replace 3 5 --address 10.0.0.5:7000 --evidence r3-two-accepts-i1-v2-s17.proof

If it is interrupted while it waits, give the same command again: it goes on where it was. With --evidence nothing is changed unless the file
proves with the key that the members have for OLD that it is not honest.")]
struct ReplaceArgs {
    /// The replica that leaves
    #[arg(value_name = "OLD", value_parser = clap::value_parser!(u16).range(1..))]
    old: u16,
    /// The replica that comes: an id that was never used, or a learner's
    #[arg(value_name = "NEW", value_parser = clap::value_parser!(u16).range(1..))]
    new: u16,
    /// Where the new one will listen; not needed if it is a learner already
    #[arg(long, value_name = "HOST:PORT")]
    address: Option<String>,
    /// How long to wait until it has caught up
    #[arg(long, value_name = "SECONDS", default_value_t = 3600)]
    timeout: u64,
    /// Only if this proves that OLD is not honest: a file of `quorate evidence`, or the name of one that a replica holds. Audit logs name it
    #[arg(long, value_name = "FILE|NAME")]
    evidence: Option<PathBuf>,
    #[command(flatten)]
    making: Making,
    #[command(flatten)]
    changing: Changing,
}

/// Say that a replica is reached at another address from now on.
#[derive(Debug, clap::Args)]
struct MoveArgs {
    /// Which replica
    #[arg(value_name = "ID", value_parser = clap::value_parser!(u16).range(1..))]
    replica: u16,
    /// Where it listens from now on
    #[arg(long, value_name = "HOST:PORT")]
    address: String,
    #[command(flatten)]
    changing: Changing,
}

pub(crate) fn run(args: Args) -> Outcome {
    match args.command {
        Command::List(args) => list(&args),
        Command::History(args) => history::run(&args),
        Command::Add(args) => add(&args),
        Command::Make(args) => make(&args),
        Command::Promote(args) => {
            let done = format!("replica {} votes now", args.replica);
            simple(&args.changing, MemberRequest::Promote(ReplicaId::new(args.replica)), &done)
        }
        Command::Remove(args) => {
            let done = format!(
                "replica {} is no member any more: stop it. Its id is never used again",
                args.replica
            );
            simple(&args.changing, MemberRequest::Remove(ReplicaId::new(args.replica)), &done)
        }
        Command::Replace(args) => replace(&args),
        Command::Rekey(args) => rekey::rekey(&args),
        Command::NewKey(args) => rekey::newkey(&args),
        Command::Move(args) => {
            let done = format!("replica {} is looked for at {} from now on", args.replica, args.address);
            let request =
                MemberRequest::Move { replica: ReplicaId::new(args.replica), address: args.address };
            simple(&args.changing, request, &done)
        }
    }
}

fn list(args: &ListArgs) -> Outcome {
    let cluster = Cluster::find(&args.common.cluster)?;
    let view = View::of(&cluster)?;
    print::line(if args.common.json { view.json().to_string() } else { view.text() })?;
    Ok(ExitCode::SUCCESS)
}

/// Prints what was done, for people or for programs.
fn told(common: &Common, view: &View, done: &str) -> Outcome {
    told_on(common, view, done, None)
}

/// The same of what was done on evidence. `reason` names it.
fn told_on(common: &Common, view: &View, done: &str, on: Option<(&Grounds, &str)>) -> Outcome {
    let text = if common.json {
        let mut document = view.json();
        document["done"] = json!(done);
        if let Some((grounds, reason)) = on {
            (document["evidence"], document["reason"]) = (grounds.json(), json!(reason));
        }
        document.to_string()
    } else {
        on.map_or(done.to_owned(), |(_, reason)| format!("{done}\n{reason}"))
    };
    print::line(text)?;
    Ok(ExitCode::SUCCESS)
}

fn simple(changing: &Changing, request: MemberRequest, done: &str) -> Outcome {
    let cluster = Cluster::find(&changing.common.cluster)?;
    match change(&cluster, changing, &request, "")? {
        Changed::Done(view) => told(&changing.common, &view, done),
        Changed::Later(text) => said(&text),
    }
}

/// Prints what is to be done by others.
fn said(text: &str) -> Outcome {
    print::line(text)?;
    Ok(ExitCode::SUCCESS)
}

/// What became of a change.
enum Changed {
    /// It is complete.
    Done(Box<View>),
    /// It was written to be signed elsewhere; the text says what to do.
    Later(String),
}

/// Asks for a change and waits until it is complete; then updates `client.toml`. The reason, where administrators sign, is for audit logs.
fn change(cluster: &Cluster, changing: &Changing, request: &MemberRequest, reason: &str) -> Outcome<Changed> {
    let until = Instant::now() + CHANGE;
    let number = if cluster.fault_model.may_lie() {
        let (command, change) = admin::drafted(cluster, request)?;
        let number = change.now().number().number();
        let command = (command, AdminCommand::Change(change));
        let done = admin::carry_out(cluster, &changing.signing, command, reason)?;
        if changing.signing.is_later() {
            return Ok(Changed::Later(done));
        }
        number
    } else {
        let asked = Asked { frame: &|| request.frame(), reply: FrameKind::MemberReply };
        let text = ask_leader(cluster, &asked, until)?;
        text.strip_prefix("begun m")
            .and_then(|number| number.parse().ok())
            .ok_or_else(|| Failure::new(text.clone()))?
    };
    loop {
        std::thread::sleep(LOOK);
        let view = View::of(cluster)?;
        if view.number >= number && view.changing_to.is_none() {
            view.write_client_file(cluster, &changing.common.cluster)?;
            return Ok(Changed::Done(Box::new(view)));
        }
        if Instant::now() >= until {
            return Err(Failure::new(format!(
                "the change to membership {number} began and is not over yet: it needs a quorum of the voters before it and of those \
                 after it. `quorate member list` shows how it stands; it goes on by itself"
            )));
        }
    }
}

/// A request to the leader.
pub(crate) struct Asked<'a> {
    /// Makes the frame.
    pub(crate) frame: &'a (dyn Fn() -> OutFrame + Sync),
    /// What the answer comes in.
    pub(crate) reply: FrameKind,
}

/// Asks the leader; tries again while leadership changes. Gives the answer if it is no error.
pub(crate) fn ask_leader(cluster: &Cluster, asked: &Asked<'_>, until: Instant) -> Outcome<String> {
    loop {
        match ask(cluster, &View::of(cluster)?, asked) {
            Ok(text) => return Ok(text),
            Err(why)
                if Instant::now() < until && (why.contains("leads, ask it") || why.contains("try again")) =>
            {
                std::thread::sleep(LOOK);
            }
            Err(why) => return Err(Failure::new(why)),
        }
    }
}

fn ask(cluster: &Cluster, view: &View, asked: &Asked<'_>) -> Result<String, String> {
    let leader = view.leader.ok_or("nobody leads now, try again")?;
    let address = view.address(leader).ok_or("nobody leads now, try again")?;
    ask_one(cluster, (leader, &address), asked)
}

/// Asks all of these replicas at once.
pub(crate) fn ask_all(members: &Cluster, asked: &Asked<'_>) -> Vec<(u16, Result<String, String>)> {
    std::thread::scope(|scope| {
        let ask = |(replica, address): &(ReplicaId, String)| {
            let (replica, address) = (*replica, address.clone());
            (replica.number(), scope.spawn(move || ask_one(members, (replica, &address), asked)))
        };
        let all: Vec<_> = members.members.iter().map(ask).collect();
        let broken = |_| Err("this program stopped asking".to_owned());
        all.into_iter().map(|(replica, thread)| (replica, thread.join().unwrap_or_else(broken))).collect()
    })
}

fn ask_one(
    cluster: &Cluster,
    (replica, address): (ReplicaId, &str),
    asked: &Asked<'_>,
) -> Result<String, String> {
    let credentials = cluster.credentials().map_err(|why| why.to_string())?;
    let mut connection =
        AdminConnection::connect(replica, address, cluster.id, credentials.as_deref(), ANSWER)?;
    // The connection ends with what sends on it.
    let mut sender = connection.sender()?;
    sender.send(&(asked.frame)())?;
    let until = Instant::now() + ANSWER;
    while let Some(frame) = connection.receive(until.saturating_duration_since(Instant::now()))? {
        if frame.kind == asked.reply {
            let text = String::from_utf8_lossy(&frame.payload).into_owned();
            return text.strip_prefix("error: ").map_or(Ok(text.clone()), |why| Err(why.to_owned()));
        }
    }
    Err("it did not answer in time, try again".to_owned())
}

/// Makes the directory of a new replica, and lets it join. Gives also what is left for others to do.
fn join(
    cluster: &Cluster,
    changing: &Changing,
    making: &Making,
    (replica, address): (u16, &str),
    reason: &str,
) -> Outcome<(Joiner, Option<String>)> {
    let view = View::of(cluster)?;
    view.leads()?;
    let joiner = Joiner::make(cluster, &view, making, replica, address)?;
    let request = MemberRequest::Add {
        replica: ReplicaId::new(replica),
        address: address.to_owned(),
        incarnation: joiner.incarnation,
        key: joiner.key,
    };
    match change(cluster, changing, &request, reason) {
        Ok(Changed::Done(_)) => Ok((joiner, None)),
        Ok(Changed::Later(text)) => Ok((joiner, Some(text))),
        Err(why) => {
            joiner.discard();
            Err(why)
        }
    }
}

fn add(args: &AddArgs) -> Outcome {
    let cluster = Cluster::find(&args.changing.common.cluster)?;
    let place = (args.replica, args.address.as_str());
    let (joiner, later) = join(&cluster, &args.changing, &args.making, place, "")?;
    let done = format!(
        "{}\nWhen `quorate member list` says that it has caught up, let it vote:\n  quorate member promote {}",
        joiner.text(),
        args.replica
    );
    match later {
        None => told(&args.changing.common, &View::of(&cluster)?, &done),
        Some(later) => said(&format!("{later}\n{done}")),
    }
}

fn make(args: &MakeArgs) -> Outcome {
    let cluster = Cluster::find(&args.common.cluster)?;
    let view = View::of(&cluster)?;
    let joiner = Joiner::of_member(&cluster, &view, &args.making, args.replica)?;
    view.write_client_file(&cluster, &args.common.cluster)?;
    told(&args.common, &view, &joiner.text())
}

/// The evidence on which a replica is to be replaced, after it was checked, and what to say of it. `gone`: it was replaced already.
fn grounds(
    args: &ReplaceArgs,
    cluster: &Cluster,
    (old, new): (ReplicaId, ReplicaId),
    (view, gone): (&View, bool),
) -> Outcome<Option<(Grounds, String)>> {
    let Some(file) = &args.evidence else { return Ok(None) };
    if !cluster.fault_model.may_lie() {
        return Err(Failure::usage(
            "--evidence: this cluster survives crashes only, so replicas sign nothing that could prove anything; leave it out",
        ));
    }
    let grounds = Grounds::find(file, &args.changing.common.cluster)?;
    if gone {
        // Nobody names its key any more.
        grounds.is_about(cluster, old)?;
    } else {
        grounds.prove(cluster, old, view.key(old))?;
    }
    let reason = grounds.reason(old, new);
    Ok(Some((grounds, reason)))
}

fn replace(args: &ReplaceArgs) -> Outcome {
    let common = &args.changing.common;
    let cluster = Cluster::find(&common.cluster)?;
    let (old, new) = (ReplicaId::new(args.old), ReplicaId::new(args.new));
    let view = View::of(&cluster)?;
    let gone = view.address(new).is_some() && view.address(old).is_none();
    let grounds = grounds(args, &cluster, (old, new), (&view, gone))?;
    if gone {
        return told(common, &view, &format!("{new} has taken the place of {old} already"));
    }
    let on = grounds.as_ref().map(|(grounds, reason)| (grounds, reason.as_str()));
    let reason = on.map_or("", |(_, reason)| reason);
    if view.address(new).is_none() {
        let address = args.address.as_deref().ok_or_else(|| {
            Failure::usage(format!("{new} is no member yet: say with --address where it will listen"))
        })?;
        let (joiner, later) = join(&cluster, &args.changing, &args.making, (args.new, address), reason)?;
        if let Some(later) = later {
            return said(&format!("{later}\n{}\nThen give this command again.", joiner.text()));
        }
        eprintln!("{}\nWaiting until it has caught up.", joiner.text());
    }
    let until = Instant::now() + Duration::from_secs(args.timeout);
    while !View::of(&cluster)?.has_caught_up(new) {
        if Instant::now() >= until {
            return Err(Failure::new(format!(
                "{new} has not caught up: see that it runs, then give the same command again"
            )));
        }
        std::thread::sleep(LOOK);
    }
    let done = format!(
        "{new} has taken the place of {old}, whose id is never used again: stop {old} if it still runs"
    );
    match change(&cluster, &args.changing, &MemberRequest::Replace { old, new }, reason)? {
        Changed::Done(view) => told_on(common, &view, &done, on),
        Changed::Later(text) => said(&text),
    }
}
