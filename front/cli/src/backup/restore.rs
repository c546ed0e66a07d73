//! `quorate backup restore`: a new cluster whose first state is a backup.
//!
//! The system part is decoded; the cluster's id and the members are replaced by new ones. The rest is kept: seq, sessions, agreed time, and
//! the positions of ordering. Every replica gets the result as a checkpoint in a new data directory, so it starts as after a transfer. The
//! cluster's time continues from the backup: nothing expires while a backup lies in a drawer.
//!
//! The directory gets its final name once all of it is written: a cluster without the state would start empty.

use super::facts::{BackupFacts, utc};
use super::look;
use super::progress::Progress;
use crate::dev;
use crate::init;
use quorate_command::authority::DAYS;
use quorate_command::cluster::{CLIENT_FILE, Cluster};
use quorate_command::execution::ExecutionChoice;
use quorate_command::failure::{Doing as _, Failure, Outcome};
use quorate_command::layout::{self, DurabilityChoice, Origin, Plan, REPLICA_FILE, ServiceChoice};
use quorate_command::oracle::OracleArgs;
use quorate_command::ordering::OrderArgs;
use quorate_command::print;
use quorate_kit::backups::sync_directory_of;
use quorate_node::System;
use quorate_runtime::CheckpointFiles;
use quorate_state::checkpoint::{Image, Job, Keeper, Report, Step};
use quorate_types::{ClusterId, ReplicaId};
use serde_json::json;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Make the directories of a new cluster that begins with a backup.
///
/// Verifies the backup, then does what `quorate init` does, and puts the state into every data directory. The cluster is a new
/// one: it has an id of its own, and nobody of the old cluster is taken for a member. It goes on at the backup's seq.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  quorate backup restore monday.qbk --service etcd --out again     as many replicas as before, all on this machine
  quorate dev --dir again                                   runs them
  quorate backup restore monday.qbk --service kv --out prod2 --members 1=10.0.0.1:7000,2=10.0.0.2:7000,3=10.0.0.3:7000

It may be one that `etcdctl` saved from a member. What was written after the backup is not in it. Stop the old cluster before clients use the new one, or both will take
writes.")]
pub(super) struct Args {
    /// The backup
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Where to make the cluster; must not exist, or be empty
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// The number of replicas, on free ports of this machine [default: as many as the backup knows]
    #[arg(long, value_name = "N", conflicts_with = "members", value_parser = clap::value_parser!(u16).range(1..=64))]
    replicas: Option<u16>,
    /// The replicas and where they listen, for each other and for clients; without ids they are counted from 1
    #[arg(long, value_name = "[ID=]HOST:PORT,...", value_delimiter = ',')]
    members: Vec<String>,
    /// When a write counts as durable; memory would not keep the backup either
    #[arg(long, value_enum, default_value_t = Durability::Group)]
    durability: Durability,
    /// Which service the replicas run: the one that the old cluster ran
    #[arg(long, value_enum)]
    service: ServiceChoice,
    #[command(flatten)]
    order: OrderArgs,
    #[command(flatten)]
    oracle: OracleArgs,
    /// No certificates: connections are neither encrypted nor authenticated
    #[arg(long)]
    plain: bool,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// When a write counts as durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Durability {
    /// When a majority has synced it to disk; one sync serves all that waits
    Group,
    /// When a majority has written it; synced a little later
    Async,
}

pub(super) fn run(args: Args) -> Outcome {
    layout::refuse_used(&args.out)?;
    let named = members(&args.members)?;
    let (facts, image) = look::load(&args.file)?;
    let is_local = named.is_empty();
    let service = args.service;
    let (members, front) = if is_local {
        local(args.replicas, facts.members.len(), service)?
    } else {
        let front = init::front_addresses(service, &named, None);
        (named, front)
    };
    let durability = match args.durability {
        Durability::Group => DurabilityChoice::Group,
        Durability::Async => DurabilityChoice::Async,
    };
    let certificates = (!args.plain).then_some(DAYS);
    let (instances, made_by) = (facts.instances, "quorate backup restore");
    let (lanes, order) = (1, args.order.choice()?);
    let oracle = args.oracle.of(order.fault_model)?;
    let plan = Plan {
        members,
        durability,
        service,
        front,
        front_plain: is_local && service == ServiceChoice::Zookeeper,
        instances,
        lanes,
        execution: ExecutionChoice::default(),
        pillars: None,
        placement: None,
        order,
        certificates,
        oracle,
        made_by,
    };
    let origin = Origin {
        cluster: layout::new_cluster_id()?,
        // Nothing of the cluster's past is later, and it goes on from there.
        start_time_ns: facts.time.nanos(),
        level: System::decode(&image.system).map_err(|why| Failure::new(why.to_owned()))?.level,
        sessions: Some(facts.limits.clone()),
    };
    let image = renewed(&image, origin.cluster, &plan)?;
    let cluster = make(&args.out, &plan, &origin, &image, is_local)?;
    let digest = image.digest();
    print::line(if args.json {
        let mut document = facts.json();
        document["restored"] = json!({
            "cluster": cluster.id.to_string(),
            "directory": args.out.display().to_string(),
            "digest": digest.to_string(),
        });
        document.to_string()
    } else {
        text(&args.out, &cluster, &facts, is_local)
    })?;
    Ok(ExitCode::SUCCESS)
}

/// The same image, for the members of another cluster.
fn renewed(image: &Image, cluster: ClusterId, plan: &Plan) -> Outcome<Image> {
    let unusable = |why: &str| Failure::new(format!("the system part of the backup can not be used: {why}"));
    let mut system = System::decode(&image.system).map_err(unusable)?;
    // Replicas that were about to join or leave are not part of the new cluster.
    let members: Vec<ReplicaId> = plan.members.iter().map(|(id, _)| ReplicaId::new(*id)).collect();
    let anew = system.begin_anew(cluster, plan.order.protocol, &members);
    anew.map_err(|why| unusable(&why.to_string()))?;
    Ok(Image { system: system.encode(), ..image.clone() })
}

/// Writes everything under a temporary name, then renames it.
fn make(out: &Path, plan: &Plan, origin: &Origin, image: &Image, is_local: bool) -> Outcome<Cluster> {
    let name =
        out.file_name().ok_or_else(|| Failure::usage(format!("{} names no directory", out.display())))?;
    let unfinished =
        out.with_file_name(format!(".{}.{}.unfinished", name.to_string_lossy(), std::process::id()));
    let made = make_in(&unfinished, plan, origin, image, is_local).and_then(|cluster| {
        fs::rename(&unfinished, out).doing(format_args!("make {}", out.display()))?;
        sync_directory_of(out).doing(format_args!("sync the directory of {}", out.display()))?;
        Ok(Cluster { directory: out.to_owned(), ..cluster })
    });
    if made.is_err() {
        let _ = fs::remove_dir_all(&unfinished);
    }
    made
}

fn make_in(dir: &Path, plan: &Plan, origin: &Origin, image: &Image, is_local: bool) -> Outcome<Cluster> {
    let cluster = layout::make_from(dir, plan, origin)?;
    let progress = Progress::new();
    for (replica, _) in &plan.members {
        let checkpoints = layout::replica_directory(dir, *replica).join("data").join(CHECKPOINTS);
        put(&checkpoints, image, &progress, &format!("replica {replica}"))?;
    }
    if is_local {
        dev::adopt(dir, plan)?;
    }
    sync_all(dir).doing(format_args!("sync {}", dir.display()))?;
    Ok(cluster)
}

/// The directory in which a replica looks for checkpoints, inside its data directory.
const CHECKPOINTS: &str = "checkpoints";

/// Writes the image as a checkpoint of a replica.
fn put(directory: &Path, image: &Image, progress: &Progress, what: &str) -> Outcome<()> {
    let failed =
        |why: String| Failure::new(format!("can not write the checkpoint in {}: {why}", directory.display()));
    let mut files = CheckpointFiles::new(directory).map_err(|why| failed(why.to_string()))?;
    let (mut keeper, _) = Keeper::open(&mut files, false).map_err(|why| failed(why.to_string()))?;
    keeper.submit(Job::Install { image: image.clone() });
    progress.begins(what, image.system.len() as u64 + image.objects.bytes());
    let mut done = 0;
    loop {
        let step = keeper.step(&mut files);
        for report in keeper.reports() {
            match report {
                Report::Written { .. } => return Ok(()),
                Report::NoRoom { .. } => return Err(failed("there is no room left on that disk".into())),
                Report::Failed { what, .. } => return Err(failed(what)),
                _ => {}
            }
        }
        match step {
            Step::Worked { bytes, .. } => done += bytes,
            Step::Idle => return Err(failed("it ended too early".into())),
        }
        progress.at(done);
    }
}

/// Syncs a directory and everything in it, so that a crash after the rename loses nothing.
fn sync_all(directory: &Path) -> std::io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            sync_all(&entry.path())?;
        } else {
            fs::File::open(entry.path())?.sync_all()?;
        }
    }
    fs::File::open(directory)?.sync_all()
}

/// The members of the command line, with ids: either all of them name one, or none does.
fn members(texts: &[String]) -> Outcome<Vec<(u16, String)>> {
    let named = texts.iter().filter(|text| text.contains('=')).count();
    if named != 0 && named != texts.len() {
        return Err(Failure::usage("--members: give an id to every member, or to none"));
    }
    let parse = |(at, text): (usize, &String)| {
        let text = if named == 0 { format!("{}={text}", at + 1) } else { text.clone() };
        init::parse_member(&text).map_err(|why| Failure::usage(format!("--members {}: {why}", texts[at])))
    };
    texts.iter().enumerate().map(parse).collect()
}

/// Ids and addresses of replicas, and the addresses of their fronts.
type Places = (Vec<(u16, String)>, Vec<String>);

/// Replicas on this machine, on free ports.
fn local(wanted: Option<u16>, before: usize, service: ServiceChoice) -> Outcome<Places> {
    let count = wanted.or_else(|| u16::try_from(before).ok()).unwrap_or(1);
    let ports = dev::free_ports(if service.front().is_some() { 2 * count } else { count })?;
    let mut addresses = ports.iter().map(|port| format!("127.0.0.1:{port}"));
    let members = (1..=count).zip(addresses.by_ref()).collect();
    Ok((members, addresses.collect()))
}

fn text(out: &Path, cluster: &Cluster, facts: &BackupFacts, is_local: bool) -> String {
    let shown = out.display();
    let mut text = format!(
        "cluster {} is made in {shown}, from the backup of cluster {}\n\nIts state is that of seq {}, agreed time {}. What was \
         written after that is not in it.\nClients of the old cluster are refused until they get the new {CLIENT_FILE}. Sessions of the backup live on, for as long as they \
         had left:\nwho sends a request again whose reply is in it gets that reply, and nothing runs twice.\n\n",
        cluster.id,
        facts.cluster,
        facts.seq.number(),
        utc(facts.time),
    );
    if is_local {
        let _ = write!(text, "Run it:\n  quorate dev --dir {shown}");
    } else {
        text.push_str("Copy each directory to the machine of its replica and start it there, all of them:\n");
        for (replica, address) in &cluster.members {
            let place = layout::replica_directory(out, replica.number());
            let _ =
                writeln!(text, "  {address:<24} quorate serve --config {}/{REPLICA_FILE}", place.display());
        }
    }
    text.truncate(text.trim_end().len());
    let client = out.join(CLIENT_FILE);
    let client = client.display();
    let _ = write!(text, "\n\nClients need {client}:\n  quorate status --config {client}");
    text
}
