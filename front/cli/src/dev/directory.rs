//! The directory of a `dev` cluster: made at the first start, used again later, deleted with `--fresh`.
//!
//! Only a directory with the marker file is ever deleted, and only one process uses it at a time.

use super::Args;
use super::program::{Described, Program};
use quorate_command::arguments;
use quorate_command::authority::DAYS;
use quorate_command::cluster::{CLIENT_FILE, Cluster, DEV_MARKER, dir_option};
use quorate_command::execution::ExecutionChoice;
use quorate_command::failure::{Doing as _, Failure, Outcome};
use quorate_command::layout::{self, DurabilityChoice, Plan, ServiceArg, ServiceChoice};
use quorate_command::oracle::{OWN_REPLICAS, Own, make_own};
use quorate_command::ordering::OrderChoice;
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};
use std::fs::{self, File, OpenOptions};
use std::path::Path;

pub(crate) const LOCK: &str = "dev.lock";
const MADE_BY: &str = "quorate dev";

/// The contents of the marker file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Choices {
    pub(super) replicas: u16,
    pub(super) durability: DurabilityChoice,
    pub(super) service: ServiceChoice,
    /// The name of a service of the user's own, instead.
    #[serde(default)]
    pub(super) own_service: Option<String>,
    #[serde(default = "one")]
    pub(super) instances: u16,
    #[serde(default = "one")]
    pub(super) lanes: u16,
    #[serde(default)]
    pub(super) execution: ExecutionChoice,
    #[serde(default)]
    pub(super) order: OrderChoice,
    /// Connections are neither encrypted nor authenticated.
    #[serde(default)]
    pub(super) plain: bool,
}

fn one() -> u16 {
    1
}

impl Choices {
    /// The name of the service.
    pub(super) fn service_name(&self) -> String {
        self.own_service.clone().unwrap_or_else(|| arguments::name(self.service))
    }
}

/// The service that is asked for: one of this program's, or one of the user's own and the version of its program. `None`: whatever it was.
fn asked(args: &Args) -> Outcome<Option<(ServiceChoice, Option<Described>)>> {
    let named = args.service.clone().map(ServiceArg::apart);
    let Some(program) = Program::of(&args.program) else {
        return match named {
            Some((_, Some(own))) => Err(Failure::usage(format!(
                "`quorate serve` has no service {own}: name the program that runs it, as in `quorate dev --service {own} -- ./{own}`"
            ))),
            named => Ok(named.map(|(ours, _)| (ours, None))),
        };
    };
    let own = match named {
        None => program.describe()?,
        Some((_, Some(service))) => Described { service, version: 1 },
        Some((ours, None)) => {
            return Err(Failure::usage(format!(
                "{} is a service of `quorate serve`, and not of {}: leave out one of them",
                arguments::name(ours),
                program.shown()
            )));
        }
    };
    Ok(Some((ServiceChoice::Kv, Some(own))))
}

/// A directory that this process has locked.
pub(super) struct DevDirectory {
    pub(super) cluster: Cluster,
    pub(super) choices: Choices,
    /// Whether it was made just now.
    pub(super) made: bool,
    _lock: File,
}

/// Locks the directory, and makes a cluster if there is none.
pub(super) fn open(args: &Args) -> Outcome<DevDirectory> {
    let path = args.dir.as_path();
    let shown = path.display();
    refuse_foreign(path)?;
    let marker = path.join(DEV_MARKER);
    // What can not be is refused before anything is made, or thrown away.
    let asked = asked(args)?;
    if args.fresh || !marker.exists() {
        choose(args, asked.as_ref())?;
    }
    fs::create_dir_all(path).doing(format_args!("make {shown}"))?;
    let lock = lock(path)?;
    if args.fresh {
        clear(path)?;
    }
    let made = !marker.exists();
    let choices = if made { make(path, args, asked.as_ref())? } else { read(&marker, args, asked)? };
    let cluster = Cluster::read(&path.join(CLIENT_FILE), "Start over with `quorate dev --fresh`")?;
    if !made {
        args.set.refuse_first()?;
    }
    let set = args.set.apply(path, 1..=choices.replicas);
    if made && set.is_err() {
        clear(path)?;
    }
    set?;
    if choices.durability == DurabilityChoice::Memory && ran_before(path, &cluster) {
        return Err(Failure::new(format!(
            "the cluster in {shown} ran with durability \"memory\": what it had acknowledged ended with its processes, so it can \
             not be continued. Start over with `quorate dev --fresh`, which throws that directory away"
        )));
    }
    Ok(DevDirectory { cluster, choices, made, _lock: lock })
}

/// Refuses a directory that `dev` did not make.
fn refuse_foreign(path: &Path) -> Outcome<()> {
    let mut entries = match fs::read_dir(path) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error).doing(format_args!("read {}", path.display())),
    };
    // A first start that was interrupted leaves the lock only, or the lock and a cluster that never ran.
    let ours = path.join(DEV_MARKER).exists() || path.join(LOCK).exists();
    if ours || entries.next().is_none() {
        return Ok(());
    }
    Err(Failure::usage(format!(
        "{} is not empty, and `quorate dev` did not make it: choose another directory with --dir",
        path.display()
    )))
}

fn lock(path: &Path) -> Outcome<File> {
    let file = path.join(LOCK);
    let lock = OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .open(&file)
        .doing(format_args!("write {}", file.display()))?;
    flock(&lock, FlockOperation::NonBlockingLockExclusive).map_err(|_| {
        Failure::new(format!(
            "another `quorate dev` runs on {}: use that one, stop it with Ctrl-C, or choose another directory with --dir",
            path.display()
        ))
    })?;
    Ok(lock)
}

/// Removes everything but the lock file, which is locked. The marker goes last, so that the directory still belongs to `dev` after an
/// interruption.
fn clear(path: &Path) -> Outcome<()> {
    let remove = |name: &Path| {
        let entry = path.join(name);
        let removed = if entry.is_dir() { fs::remove_dir_all(&entry) } else { fs::remove_file(&entry) };
        removed.doing(format_args!("remove {}", entry.display()))
    };
    for entry in fs::read_dir(path).doing(format_args!("read {}", path.display()))? {
        let name = entry.doing(format_args!("read {}", path.display()))?.file_name();
        if name != LOCK && name != DEV_MARKER {
            remove(Path::new(&name))?;
        }
    }
    if path.join(DEV_MARKER).exists() { remove(Path::new(DEV_MARKER)) } else { Ok(()) }
}

/// The choices for a new cluster.
fn choose(args: &Args, asked: Option<&(ServiceChoice, Option<Described>)>) -> Outcome<Choices> {
    let service = asked.map_or(ServiceChoice::Etcd, |(service, _)| *service);
    let own = asked.and_then(|(_, own)| own.as_ref());
    let choices = Choices {
        replicas: args.replicas.unwrap_or(args.order.replicas()),
        durability: args.durability.unwrap_or(DurabilityChoice::Group),
        service,
        own_service: own.map(|own| own.service.clone()),
        execution: args.execution.choice(service)?,
        instances: args.instances.unwrap_or(1),
        lanes: args.lanes.unwrap_or(1),
        order: args.order.choice()?,
        plain: args.plain,
    };
    choices.order.check_members(usize::from(choices.replicas))?;
    Ok(choices)
}

fn make(path: &Path, args: &Args, asked: Option<&(ServiceChoice, Option<Described>)>) -> Outcome<Choices> {
    let choices = choose(args, asked)?;
    // What an interrupted first start left was never used.
    clear(path)?;
    // Behind the ports for replicas and clients come those of the service's front, and those for probes and metrics.
    let fronts = if choices.service.front().is_some() { choices.replicas } else { 0 };
    let wanted = 2 * choices.replicas + fronts;
    let few = choices.order.fault_model.few_are_slow();
    // The last ones are the oracle's.
    let oracle_replicas = if few { OWN_REPLICAS } else { 0 };
    let wanted = wanted + oracle_replicas;
    let mut ports = match args.port_base {
        Some(base) => (base..).take(usize::from(wanted)).collect(),
        None => free_ports(wanted)?,
    };
    let oracle = ports.split_off(ports.len() - usize::from(oracle_replicas));
    let health = ports.split_off(usize::from(choices.replicas + fronts));
    let front = ports.split_off(usize::from(choices.replicas));
    let own = Own {
        addresses: on_loopback(oracle).collect(),
        durability: choices.durability,
        certificates: (!choices.plain).then_some(DAYS),
        made_by: MADE_BY,
    };
    let plan = Plan {
        members: (1..=choices.replicas).zip(on_loopback(ports)).collect(),
        durability: choices.durability,
        service: choices.service,
        own_service: choices.own_service.clone(),
        service_level: asked.and_then(|(_, own)| own.as_ref()).map_or(1, |own| own.version),
        front: on_loopback(front).collect(),
        health: on_loopback(health).collect(),
        // Few clients of ZooKeeper have certificates, and here only this machine reaches the replicas.
        front_plain: choices.service == ServiceChoice::Zookeeper,
        instances: choices.instances,
        lanes: choices.lanes,
        execution: choices.execution,
        pillars: None,
        placement: None,
        order: choices.order,
        oracle: few.then(|| make_own(path, own)).transpose()?,
        certificates: (!choices.plain).then_some(DAYS),
        signing: false,
        made_by: MADE_BY,
    };
    layout::make(path, &plan)?;
    mark(path, &choices)?;
    Ok(choices)
}

fn on_loopback(ports: Vec<u16>) -> impl Iterator<Item = String> {
    ports.into_iter().map(|port| format!("127.0.0.1:{port}"))
}

/// Writes the marker. This comes last: a directory without it is incomplete.
fn mark(path: &Path, choices: &Choices) -> Outcome<()> {
    let text = toml::to_string(choices).doing("write down the choices")?;
    let text = format!("# `quorate dev` may use this directory, and throw it away with --fresh.\n{text}");
    fs::write(path.join(DEV_MARKER), text).doing(format_args!("write {}", path.join(DEV_MARKER).display()))
}

/// Marks a cluster that another command made on this machine, so that `dev` may run it.
///
/// # Errors
/// When the system refuses.
pub(crate) fn adopt(path: &Path, plan: &Plan) -> Outcome<()> {
    let replicas = u16::try_from(plan.members.len()).unwrap_or(u16::MAX);
    let plain = plan.certificates.is_none();
    let Plan { durability, service, instances, lanes, execution, order, .. } = *plan;
    let own_service = plan.own_service.clone();
    mark(
        path,
        &Choices { replicas, durability, service, own_service, instances, lanes, execution, order, plain },
    )
}

fn read(marker: &Path, args: &Args, asked: Option<(ServiceChoice, Option<Described>)>) -> Outcome<Choices> {
    let remedy = "Start over with `quorate dev --fresh`, or choose another directory with --dir";
    let shown = marker.display();
    let text = fs::read_to_string(marker).doing(format_args!("read {shown}"))?;
    let choices: Choices = toml::from_str(&text)
        .map_err(|why| Failure::new(format!("{shown} is not usable: {why}\n{remedy}")))?;
    let differ = |what: &str, has: String, wanted: String| {
        Err(Failure::usage(format!(
            "the cluster in {} has {what} {has}, not {wanted}, and can not be changed. {remedy}",
            args.dir.display()
        )))
    };
    let order = args.order.over(choices.order)?;
    let execution = match args.execution.executor {
        None => {
            ExecutionChoice { verify: args.execution.verify || choices.execution.verify, ..choices.execution }
        }
        Some(_) => args.execution.choice(choices.service)?,
    };
    if let Some(own) = choices.own_service.as_ref().filter(|_| args.program.is_empty()) {
        return Err(Failure::usage(format!(
            "the cluster in {} runs {own}, a service of your own: start it with `quorate dev{} -- PROGRAM`",
            args.dir.display(),
            dir_option(&args.dir)
        )));
    }
    let wanted = asked.map(|(ours, own)| own.map_or_else(|| arguments::name(ours), |own| own.service));
    match (args.replicas, args.durability, wanted) {
        (Some(wanted), _, _) if wanted != choices.replicas => {
            differ("--replicas", choices.replicas.to_string(), wanted.to_string())
        }
        (_, Some(wanted), _) if wanted != choices.durability => {
            differ("--durability", arguments::name(choices.durability), arguments::name(wanted))
        }
        (_, _, Some(wanted)) if wanted != choices.service_name() => {
            differ("--service", choices.service_name(), wanted)
        }
        _ if args.instances.is_some_and(|wanted| wanted != choices.instances) => {
            let wanted = args.instances.unwrap_or(choices.instances);
            differ("--instances", choices.instances.to_string(), wanted.to_string())
        }
        _ if args.lanes.is_some_and(|wanted| wanted != choices.lanes) => {
            let wanted = args.lanes.unwrap_or(choices.lanes);
            differ("--lanes", choices.lanes.to_string(), wanted.to_string())
        }
        _ if execution != choices.execution => {
            differ("--executor, --workers and --verify", choices.execution.to_string(), execution.to_string())
        }
        _ if order != choices.order => differ(
            "--protocol, --fault-model and --authentication",
            choices.order.to_string(),
            order.to_string(),
        ),
        _ if args.plain && !choices.plain => differ("connections with", "TLS".into(), "--plain".into()),
        _ => Ok(choices),
    }
}

/// Whether a replica of this cluster ever ran: each run leaves a note.
fn ran_before(path: &Path, cluster: &Cluster) -> bool {
    let ran = |id: u16| layout::replica_directory(path, id).join("data/run.toml").exists();
    cluster.members.iter().any(|(replica, _)| ran(replica.number()))
}

/// Ports that nobody listens on now, in a row.
pub(crate) fn free_ports(count: u16) -> Outcome<Vec<u16>> {
    quorate_runtime::free_ports(count)
        .doing("find free ports on 127.0.0.1 (or name the first one to use with --port-base)")
}
