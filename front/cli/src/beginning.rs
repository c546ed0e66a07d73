//! A new cluster that begins with a state: that of a backup, or what was taken over from another system.
//!
//! Every replica gets the state as a checkpoint in a new data directory, so it starts as after a transfer. The directory gets its final name
//! once all of it is written: a cluster without the state would start empty.

use crate::backup::Progress;
use crate::dev;
use crate::init;
use crate::set::SetArgs;
use quorate_command::authority::DAYS;
use quorate_command::cluster::{CLIENT_FILE, Cluster};
use quorate_command::execution::ExecutionChoice;
use quorate_command::failure::{Doing as _, Failure, Outcome};
use quorate_command::layout::{self, DurabilityChoice, Origin, Plan, ServiceChoice};
use quorate_command::oracle::OracleArgs;
use quorate_command::ordering::OrderArgs;
use quorate_kit::backups::{sync_directory_of, write_image};
use quorate_runtime::CheckpointFiles;
use quorate_state::checkpoint::Image;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

/// The cluster to make.
#[derive(Debug, clap::Args)]
pub(crate) struct BeginningArgs {
    /// Where to make the cluster; must not exist, or be empty
    #[arg(long, value_name = "DIR")]
    pub(crate) out: PathBuf,
    /// The number of replicas, on free ports of this machine [default: as many as the old cluster had, as far as that is known, else 3]
    #[arg(long, value_name = "N", conflicts_with = "members", value_parser = clap::value_parser!(u16).range(1..=64))]
    replicas: Option<u16>,
    /// The replicas and where they listen, for each other and for clients; without ids they are counted from 1
    #[arg(long, value_name = "[ID=]HOST:PORT,...", value_delimiter = ',')]
    pub(crate) members: Vec<String>,
    /// When a write counts as durable; memory would not keep the state either
    #[arg(long, value_enum, default_value_t = Durability::Group)]
    durability: Durability,
    #[command(flatten)]
    order: OrderArgs,
    #[command(flatten)]
    oracle: OracleArgs,
    #[command(flatten)]
    set: SetArgs,
    /// No certificates: connections are neither encrypted nor authenticated
    #[arg(long)]
    plain: bool,
    /// Print one JSON document
    #[arg(long)]
    pub(crate) json: bool,
}

/// When a write counts as durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Durability {
    /// When a majority has synced it to disk; one sync serves all that waits
    Group,
    /// When a majority has written it; synced a little later
    Async,
}

/// What is made, and whether all of it is on this machine.
pub(crate) struct Beginning {
    pub(crate) plan: Plan,
    pub(crate) is_local: bool,
}

impl BeginningArgs {
    /// The plan of a cluster that runs this service, with so many replicas and instances unless the command line says otherwise.
    ///
    /// # Errors
    /// When the directory is used, or the members make no cluster.
    pub(crate) fn plan(
        &self,
        service: ServiceChoice,
        (replicas, instances): (usize, u16),
        made_by: &'static str,
    ) -> Outcome<Beginning> {
        layout::refuse_used(&self.out)?;
        self.set.refuse_limits()?;
        let named = members(&self.members)?;
        let is_local = named.is_empty();
        let (members, front, health) = if is_local {
            local(self.replicas, replicas, service)?
        } else {
            let front = init::front_addresses(service, &named, None);
            let health = init::health_addresses(&named, init::HEALTH_PORT);
            (named, front, health)
        };
        let durability = match self.durability {
            Durability::Group => DurabilityChoice::Group,
            Durability::Async => DurabilityChoice::Async,
        };
        let order = self.order.choice()?;
        let plan = Plan {
            members,
            durability,
            service,
            own_service: None,
            service_level: 1,
            front,
            front_plain: is_local && service == ServiceChoice::Zookeeper,
            health,
            instances,
            lanes: 1,
            execution: ExecutionChoice::default(),
            pillars: None,
            placement: None,
            oracle: self.oracle.clone().of(order.fault_model)?,
            order,
            certificates: (!self.plain).then_some(DAYS),
            signing: false,
            made_by,
        };
        Ok(Beginning { plan, is_local })
    }
}

impl Beginning {
    /// What to do next, in words.
    pub(crate) fn next(&self, out: &Path, cluster: &Cluster) -> String {
        let (shown, mut text) = (out.display(), String::new());
        if self.is_local {
            let program = if self.plan.own_service.is_some() { " -- PROGRAM" } else { "" };
            let _ = write!(text, "Run it:\n  quorate dev --dir {shown}{program}");
        } else {
            text.push_str(&init::starts(out, cluster, &self.plan));
            text.push_str("All of them are needed at first.");
        }
        text.truncate(text.trim_end().len());
        let client = out.join(CLIENT_FILE);
        let client = client.display();
        let _ = write!(text, "\n\nClients need {client}:\n  quorate status --config {client}");
        text
    }
}

/// Making it.
impl BeginningArgs {
    /// Writes everything under a temporary name, then renames it.
    ///
    /// # Errors
    /// When the system refuses.
    pub(crate) fn make(&self, beginning: &Beginning, origin: &Origin, image: &Image) -> Outcome<Cluster> {
        let out = &self.out;
        let name =
            out.file_name().ok_or_else(|| Failure::usage(format!("{} names no directory", out.display())))?;
        let unfinished =
            out.with_file_name(format!(".{}.{}.unfinished", name.to_string_lossy(), std::process::id()));
        let made = self.make_in(&unfinished, beginning, origin, image).and_then(|cluster| {
            fs::rename(&unfinished, out).doing(format_args!("make {}", out.display()))?;
            sync_directory_of(out).doing(format_args!("sync the directory of {}", out.display()))?;
            Ok(Cluster { directory: out.to_owned(), ..cluster })
        });
        if made.is_err() {
            let _ = fs::remove_dir_all(&unfinished);
        }
        made
    }

    fn make_in(&self, dir: &Path, beginning: &Beginning, origin: &Origin, image: &Image) -> Outcome<Cluster> {
        let Beginning { plan, is_local } = beginning;
        let cluster = layout::make_from(dir, plan, origin)?;
        self.set.apply(dir, plan.members.iter().map(|(replica, _)| *replica))?;
        let progress = Progress::new();
        for (replica, _) in &plan.members {
            let checkpoints = layout::replica_directory(dir, *replica).join("data").join(CHECKPOINTS);
            put(&checkpoints, image, &progress, &format!("replica {replica}"))?;
        }
        if *is_local {
            dev::adopt(dir, plan)?;
        }
        sync_all(dir).doing(format_args!("sync {}", dir.display()))?;
        Ok(cluster)
    }
}

/// The directory in which a replica looks for checkpoints, inside its data directory.
const CHECKPOINTS: &str = "checkpoints";

/// Writes the image as a checkpoint of a replica.
fn put(directory: &Path, image: &Image, progress: &Progress, what: &str) -> Outcome<()> {
    let failed =
        |why: String| Failure::new(format!("can not write the checkpoint in {}: {why}", directory.display()));
    let mut files = CheckpointFiles::new(directory).map_err(|why| failed(why.to_string()))?;
    progress.begins(what, image.system.len() as u64 + image.objects.bytes());
    write_image(&mut files, image, &mut |done| progress.at(done)).map(drop).map_err(failed)
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

/// Ids and addresses of replicas, the addresses of their fronts, and where they answer probes.
type Places = (Vec<(u16, String)>, Vec<String>, Vec<String>);

/// Replicas on this machine, on free ports.
fn local(wanted: Option<u16>, before: usize, service: ServiceChoice) -> Outcome<Places> {
    let count = wanted.or_else(|| u16::try_from(before).ok()).unwrap_or(1);
    let fronts = if service.front().is_some() { count } else { 0 };
    let ports = dev::free_ports(2 * count + fronts)?;
    let mut addresses = ports.iter().map(|port| format!("127.0.0.1:{port}"));
    let members = (1..=count).zip(addresses.by_ref()).collect();
    let front = addresses.by_ref().take(usize::from(fronts)).collect();
    Ok((members, front, addresses.collect()))
}
