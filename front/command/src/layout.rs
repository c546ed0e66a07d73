//! Makes the directories of a new cluster: for `init`, for `dev`, for a restored cluster, and for benchmarks.

use crate::arguments::name;
use crate::authority::{Destination, Office};
use crate::cluster::{CLIENT_FILE, Cluster};
use crate::execution::ExecutionChoice;
use crate::failure::{Doing as _, Failure, Outcome};
use crate::ordering::OrderChoice;
use crate::random;
use clap::ValueEnum;
use quorate::client::{ClientFile, ClientFiles, TlsFiles};
use quorate_execute::SessionLimits;
use quorate_runtime::{DataDirectory, Identity, OracleConfig, SigningKey};
use quorate_tls::write_private;
use quorate_types::{ClusterId, Holder, Incarnation, MembershipId, Name, ReplicaId, ServiceName};
use std::fmt::Write as _;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// When a write counts as durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DurabilityChoice {
    /// When a majority has synced it to disk; one sync serves all that waits
    Group,
    /// When a majority has written it; synced a little later
    Async,
    /// When a majority has it in memory; a replica that stops may not come back
    Memory,
}

/// Which service runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ServiceChoice {
    /// The key-value store
    Kv,
    /// The store that clients of etcd use
    Etcd,
    /// The tree of nodes that clients of ZooKeeper use
    Zookeeper,
    /// Decides for other clusters between halves of their replicas
    Oracle,
    /// Counts and sums what it gets, to measure with
    Tally,
    /// Answers with as many bytes as it is asked for, to measure with
    Echo,
    /// Takes as long as it is told and changes objects, to measure with; its commands may run at the same time
    Work,
    /// A bookshop whose transactions may run at the same time, to measure with
    Shop,
    /// A map of lists of strings, to measure with
    Lists,
}

impl ServiceChoice {
    /// The name and the usual port of the front that serves it, if clients of another protocol use it.
    pub const fn front(self) -> Option<(&'static str, u16)> {
        match self {
            Self::Etcd => Some(("etcd", 2379)),
            Self::Zookeeper => Some(("zookeeper", 2181)),
            Self::Kv | Self::Oracle | Self::Tally | Self::Echo | Self::Work | Self::Shop | Self::Lists => {
                None
            }
        }
    }
}

/// A service that a user names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServiceArg {
    /// One that `quorate serve` runs.
    Ours(ServiceChoice),
    /// One that a program of the user's own runs.
    Own(String),
}

impl ServiceArg {
    /// The service of this program, and the name of one's own, as a [`Plan`] has them. One's own has no front, as the key-value store has none.
    pub fn apart(self) -> (ServiceChoice, Option<String>) {
        match self {
            Self::Ours(choice) => (choice, None),
            Self::Own(name) => (ServiceChoice::Kv, Some(name)),
        }
    }
}

/// Reads the name of a service: one that this program runs, or any other.
///
/// # Errors
/// When it would need quoting in a file; the text says what a name is.
pub fn parse_service(text: &str) -> Result<ServiceArg, String> {
    if let Ok(choice) = ServiceChoice::from_str(text, false) {
        return Ok(ServiceArg::Ours(choice));
    }
    let own = parse_own_service(text)?;
    let meant = ServiceChoice::value_variants().iter().filter_map(|choice| choice.to_possible_value());
    match meant.into_iter().find(|choice| is_misspelt(text, choice.get_name())) {
        Some(meant) => Err(format!(
            "did you mean {}? A name that is so like it is not taken for that of a service of your own",
            meant.get_name()
        )),
        None => Ok(ServiceArg::Own(own)),
    }
}

/// Whether one letter is wrong, missing or too many, or two have changed places. Short names are too near to each other to say so.
fn is_misspelt(text: &str, name: &str) -> bool {
    let (one, other): (Vec<char>, Vec<char>) = (text.chars().collect(), name.chars().collect());
    let before = one.iter().zip(&other).take_while(|(a, b)| a == b).count();
    let (one, other) = (&one[before..], &other[before..]);
    let after = one.iter().rev().zip(other.iter().rev()).take_while(|(a, b)| a == b).count();
    let (one, other) = (&one[..one.len() - after], &other[..other.len() - after]);
    let swapped = matches!((one, other), ([a, b], [c, d]) if a == d && b == c);
    name.len() >= 4 && (swapped || (one.len() <= 1 && other.len() <= 1))
}

/// The name of a service that is not among [`ServiceChoice`]: what `[service]` of its replicas has as `name`.
///
/// # Errors
/// When it is the name of one of them, or would need quoting in a file; the text says what a name is.
pub fn parse_own_service(text: &str) -> Result<String, String> {
    if ServiceChoice::from_str(text, false).is_ok() {
        return Err(format!("`quorate serve` runs {text} itself: give --service {text}"));
    }
    match ServiceName::new(text).filter(|name| !name.is_none()) {
        Some(_) => Ok(text.to_owned()),
        None => Err(format!("a name has up to {} letters, digits, - and _", ServiceName::BYTES_MAX)),
    }
}

/// Where agreement of the instances is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PillarsChoice {
    /// On the main lane
    Main,
    /// Each instance on a lane of its own, as far as there are lanes
    Lanes,
}

/// How the work of a replica is divided among its lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PlacementChoice {
    /// Each lane has instances
    Spread,
    /// Each lane has one step of the work: execution, agreement, or connections
    Staged,
}

/// A cluster that is to be made.
pub struct Plan {
    /// Replica ids and addresses.
    pub members: Vec<(u16, String)>,
    /// When a write counts as durable.
    pub durability: DurabilityChoice,
    /// The service that the replicas run.
    pub service: ServiceChoice,
    /// The name of a service that a program of the user's own runs, in place of `service`; see [`parse_own_service`].
    pub own_service: Option<String>,
    /// The version of the service with which the cluster begins.
    pub service_level: u32,
    /// The addresses of the service's front, in the order of the members; empty: none.
    pub front: Vec<String>,
    /// Where the replicas answer probes and tell metrics, in the order of the members; empty: nowhere.
    pub health: Vec<String>,
    /// Whether ZooKeeper's clients may come without certificates, and use all four-letter words.
    pub front_plain: bool,
    /// The number of ordering instances.
    pub instances: u16,
    /// How commands run.
    pub execution: ExecutionChoice,
    /// The number of lanes of a replica.
    pub lanes: u16,
    /// Where agreement is done; `None`: where the configuration has it by default.
    pub pillars: Option<PillarsChoice>,
    /// How the work is divided among lanes; `None`: as the configuration has it by default.
    pub placement: Option<PlacementChoice>,
    /// How the replicas agree.
    pub order: OrderChoice,
    /// Whether replicas and an administrator get keys although nothing is signed yet: for an era in which replicas may lie.
    pub signing: bool,
    /// The oracle, where few replicas are slow; paths begin in a replica's directory.
    pub oracle: Option<OracleConfig>,
    /// How long certificates are valid, in days; `None`: connections are plain.
    pub certificates: Option<u32>,
    /// The command that makes it, for the first line of the files.
    pub made_by: &'static str,
}

impl Plan {
    /// What the service is called.
    pub fn service_name(&self) -> String {
        self.own_service.clone().unwrap_or_else(|| name(self.service))
    }
}

/// The directory of a replica.
pub fn replica_directory(cluster: &Path, replica: u16) -> PathBuf {
    cluster.join(format!("replica-{replica}"))
}

/// The name of a replica's configuration in its directory.
pub const REPLICA_FILE: &str = "replica.toml";

/// The authority's directory.
pub const AUTHORITY: &str = "ca";
/// The directory of the certificates of clients and operators.
pub const CLIENTS: &str = "clients";
/// The file of the key that a replica signs with, in the replica's directory.
pub const SIGNING: &str = "signing.key";
/// The file of an administrator's key, in the cluster's directory, where replicas may lie.
pub const ADMINISTRATOR: &str = "administrator.key";
/// The directory of a replica's certificates, in the replica's directory.
pub const TLS: &str = "tls";

/// Refuses a directory that is not empty.
pub fn refuse_used(dir: &Path) -> Outcome<()> {
    match std::fs::read_dir(dir).map(|mut entries| entries.next().is_some()) {
        Ok(true) => Err(Failure::usage(format!(
            "{} exists and is not empty: choose another directory, or remove it if nothing in it is needed",
            dir.display()
        ))),
        Ok(false) => Ok(()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error).doing(format_args!("read {}", dir.display())),
    }
}

/// The state in which a cluster begins.
pub struct Origin {
    /// Its id.
    pub cluster: ClusterId,
    /// The wall-clock time at which the cluster's agreed time begins, in ns; the only one that it ever reads, the same for all replicas.
    pub start_time_ns: u64,
    /// The feature level that it begins with.
    pub level: u32,
    /// The limits of its sessions; `None`: the usual ones.
    pub sessions: Option<SessionLimits>,
}

/// What is drawn at random for a new replica.
struct Life {
    incarnation: Incarnation,
    /// The key that it signs with, where replicas may lie.
    key: Option<SigningKey>,
}

/// Draws an id that no other cluster has.
pub fn new_cluster_id() -> Outcome<ClusterId> {
    Ok(ClusterId::new(random::wide_number()?))
}

/// Makes all files of a cluster in `dir`; it begins now and empty.
///
/// # Errors
/// When the members make no cluster, or the system refuses.
pub fn make(dir: &Path, plan: &Plan) -> Outcome<Cluster> {
    let start = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
    let start_time_ns = u64::try_from(start).unwrap_or_default();
    let origin = Origin {
        cluster: new_cluster_id()?,
        start_time_ns,
        level: quorate_wire::FEATURE_LEVEL,
        sessions: None,
    };
    make_from(dir, plan, &origin)
}

/// Like [`make`], but the cluster begins in another state.
///
/// # Errors
/// Those of [`make`].
pub fn make_from(dir: &Path, plan: &Plan, origin: &Origin) -> Outcome<Cluster> {
    check_members(plan)?;
    let id = origin.cluster;
    let mut lives = Vec::new();
    let signs = plan.order.fault_model.may_lie() || plan.signing;
    for _ in &plan.members {
        let key = signs.then(random::secret).transpose()?.map(SigningKey::new);
        lives.push(Life { incarnation: Incarnation::new(random::number()?), key });
    }
    let administrator = signs.then(|| make_administrator(dir)).transpose()?;
    let office = plan.certificates.map(|_| Office::create(&dir.join(AUTHORITY), id)).transpose()?;
    for ((replica, address), life) in plan.members.iter().zip(&lives) {
        let place = replica_directory(dir, *replica);
        let identity = Identity {
            cluster: id,
            replica: *replica,
            incarnation: life.incarnation,
            log_id: random::number()?,
            start_time_ns: origin.start_time_ns,
        };
        DataDirectory::create(&place.join("data"), &identity).map_err(|why| Failure::new(why.to_string()))?;
        if let (Some(office), Some(days)) = (&office, plan.certificates) {
            let holder = Holder::Replica(ReplicaId::new(*replica));
            let hosts = hosts(address);
            let tls = Destination { directory: &place.join(TLS), name: "replica" };
            office.issue(&tls, &holder, &hosts, days)?;
        }
        if let Some(key) = &life.key {
            let file = place.join(SIGNING);
            write_private(&file, &key.to_text()).doing(format_args!("write {}", file.display()))?;
        }
        let file = place.join(REPLICA_FILE);
        let at = plan.members.iter().position(|(id, _)| id == replica);
        let mut text = replica_toml(origin, (*replica, at), &lives, plan);
        if let Some(key) = &administrator {
            let _ = write!(text, "\n[administration]\nkeys = [\"{key}\"]\n");
        }
        std::fs::write(&file, text).doing(format_args!("write {}", file.display()))?;
    }
    let members = plan.members.iter().map(|(replica, address)| (ReplicaId::new(*replica), address.clone()));
    let tls = office.zip(plan.certificates).map(|(office, days)| clients(dir, &office, days)).transpose()?;
    let OrderChoice { fault_model, faults, authentication, weighted, .. } = plan.order;
    // Fewer than clients count on prove a change where some votes count more.
    let membership = (fault_model.may_lie() && !weighted).then_some(MembershipId::FIRST);
    let key = |((replica, _), life): (&(u16, String), &Life)| {
        life.key.as_ref().map(|key| (ReplicaId::new(*replica), *key.public_key().bytes()))
    };
    let keys = plan.members.iter().zip(&lives).filter_map(key).collect();
    let known = ClientFile {
        cluster: id,
        members: members.collect(),
        learners: Vec::new(),
        membership,
        keys,
        era: 1,
        fault_model,
        faults,
        weighted,
        authentication,
        tls,
    };
    let file = dir.join(CLIENT_FILE);
    std::fs::write(&file, known.to_toml()).doing(format_args!("write {}", file.display()))?;
    let tls = known.tls.clone().map(|tls| tls.relative_to(dir));
    Ok(Cluster::of(ClientFile { tls, ..known }, dir.to_owned()))
}

/// Makes the key of the cluster's first administrator. Gives the public key.
fn make_administrator(dir: &Path) -> Outcome<String> {
    let (key, file) = (SigningKey::new(random::secret()?), dir.join(ADMINISTRATOR));
    std::fs::create_dir_all(dir).doing(format_args!("make {}", dir.display()))?;
    write_private(&file, &key.to_text()).doing(format_args!("write {}", file.display()))?;
    Ok(key.public())
}

/// The names by which clients reach this address. Some look up the name of an address, and this machine's is always the same.
pub fn hosts(address: &str) -> Vec<String> {
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    let is_here = host.trim_matches(['[', ']']).parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback());
    let mut hosts = vec![host.to_owned()];
    hosts.extend(is_here.then(|| "localhost".to_owned()));
    hosts
}

/// Makes the certificates of clients and operators; the paths are relative to the directory.
///
/// # Errors
/// When the system refuses.
pub fn clients(dir: &Path, office: &Office, days: u32) -> Outcome<ClientFiles> {
    let place = dir.join(CLIENTS);
    let files = |name: &str| TlsFiles {
        ca: Path::new(CLIENTS).join("ca.pem"),
        certificate: Path::new(CLIENTS).join(format!("{name}.pem")),
        key: Path::new(CLIENTS).join(format!("{name}.key")),
    };
    let name = |text| Name::parse(text).ok_or_else(|| Failure::new("a name of our own is none"));
    for (text, holder) in
        [("default", Holder::Client(name("default")?)), ("admin", Holder::Admin(name("admin")?))]
    {
        office.issue(&Destination { directory: &place, name: text }, &holder, &[], days)?;
    }
    Ok(ClientFiles { client: files("default"), admin: Some(files("admin")) })
}

fn lanes_toml(plan: &Plan) -> String {
    let lanes = if plan.lanes > 1 { format!("lanes = {}\n", plan.lanes) } else { String::new() };
    let pillars =
        plan.pillars.map_or_else(String::new, |pillars| format!("pillars = \"{}\"\n", name(pillars)));
    let placement =
        plan.placement.map_or_else(String::new, |placement| format!("placement = \"{}\"\n", name(placement)));
    lanes + &pillars + &placement
}

fn oracle_toml(oracle: &OracleConfig) -> String {
    match oracle {
        OracleConfig::Quorate { cluster, client } => {
            format!(
                "\n[oracle]\nkind = \"quorate\"\ncluster = \"{cluster}\"\nclient = {:?}\n",
                client.display().to_string()
            )
        }
        OracleConfig::Etcd { endpoints, .. } => {
            format!("\n[oracle]\nkind = \"etcd\"\nendpoints = {endpoints:?}\n")
        }
        OracleConfig::Zookeeper { servers } => {
            format!("\n[oracle]\nkind = \"zookeeper\"\nservers = {servers:?}\n")
        }
        OracleConfig::None { because } => {
            format!("\n[oracle]\nkind = \"none\"\nbecause = {because:?}\n")
        }
    }
}

fn front_toml(plan: &Plan, address: &str) -> String {
    let Some((name, _)) = plan.service.front() else { return String::new() };
    let plain = if plan.front_plain { "plain = true\nwords = [\"*\"]\n" } else { "" };
    format!("\n[front.{name}]\nlisten = \"{address}\"\n{plain}")
}

/// The members whose votes count more: the first ones.
fn heavy_toml(plan: &Plan) -> String {
    let heavy = plan.order.heavy(plan.members.len());
    let ids: Vec<u16> = plan.members.iter().map(|(replica, _)| *replica).take(heavy).collect();
    if ids.is_empty() { String::new() } else { format!("heavy = {ids:?}\n") }
}

/// The levels that the cluster begins with.
fn levels_toml(origin: &Origin, plan: &Plan) -> String {
    let service = match plan.service_level {
        1 => String::new(),
        level => format!("service_level = {level}\n"),
    };
    format!("level = {}\n{service}", origin.level)
}

/// `at`: its place among the members; one that joins has none.
fn replica_toml(origin: &Origin, (replica, at): (u16, Option<usize>), lives: &[Life], plan: &Plan) -> String {
    let cluster = origin.cluster;
    let of = |addresses: &[String]| at.and_then(|at| addresses.get(at)).cloned();
    let health = of(&plan.health).map(|address| format!("health = \"{address}\"\n"));
    let mut text = format!(
        "# Replica {replica}; made by `{}`. docs/configuration.md explains every key.\n\
         cluster = \"{cluster}\"\n\
         replica = {replica}\n\
         data = \"data\"\n\
         {}\
         {}\
         {}\
         {}\
         {}\
         {}\
         \n\
         [service]\n\
         name = \"{}\"\n\
         {}\
         \n\
         [durability]\n\
         mode = \"{}\"\n",
        plan.made_by,
        if plan.instances > 1 { format!("instances = {}\n", plan.instances) } else { String::new() },
        plan.order.to_toml() + &heavy_toml(plan),
        lanes_toml(plan),
        health.unwrap_or_default(),
        levels_toml(origin, plan),
        if plan.certificates.is_none() { "plain = true\n" } else { "" },
        plan.service_name(),
        of(&plan.front).map(|address| front_toml(plan, &address)).unwrap_or_default(),
        name(plan.durability),
    );
    if plan.certificates.is_some() {
        let _ = write!(
            text,
            "\n[tls]\nca = \"{TLS}/ca.pem\"\ncertificate = \"{TLS}/replica.pem\"\nkey = \"{TLS}/replica.key\"\n"
        );
    }
    text.push_str(&plan.execution.to_toml());
    if let Some(oracle) = &plan.oracle {
        text.push_str(&oracle_toml(oracle));
    }
    if let Some(limits) = &origin.sessions {
        let _ = write!(
            text,
            "\n[sessions]\nmax = {}\nper_client = {}\nttl_s = {}\nwindow = {}\n",
            limits.sessions_max,
            limits.sessions_per_client_max,
            limits.ttl.millis() / 1000,
            limits.window,
        );
    }
    if lives.iter().any(|life| life.key.is_some()) {
        let _ = write!(text, "\n[signing]\nkey = \"{SIGNING}\"\n");
    }
    for ((member, address), Life { incarnation, key }) in plan.members.iter().zip(lives) {
        let _ = write!(
            text,
            "\n[[members]]\nreplica = {member}\naddress = \"{address}\"\nincarnation = \"{incarnation}\"\n"
        );
        if let Some(key) = key {
            let _ = writeln!(text, "key = \"{}\"", key.public());
        }
    }
    text
}

fn check_members(plan: &Plan) -> Outcome<()> {
    let members = &plan.members[..];
    plan.order.check_members(members.len())?;
    for (at, (replica, address)) in members.iter().enumerate() {
        for (other, other_address) in &members[..at] {
            if replica == other {
                return Err(Failure::usage(format!(
                    "replica {replica} is named twice: give each an id of its own"
                )));
            }
            if address == other_address {
                return Err(Failure::usage(format!(
                    "replicas {other} and {replica} have the same address {address}: give each its own"
                )));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
