//! `quorate init`: makes the directories of a new cluster. `dev` makes its own in the same way.

use crate::cert;
use crate::cert::authority::{Office, Place};
use crate::cluster::{CLIENT_FILE, Cluster};
use crate::failure::{Doing as _, Failure, Outcome};
use crate::ordering::{OrderArgs, OrderChoice};
use crate::{print, random};
use clap::ValueEnum;
use quorate::client::{ClientFiles, TlsFiles};
use quorate_execute::SessionLimits;
use quorate_runtime::{DataDirectory, Identity, SigningKey};
use quorate_tls::write_private;
use quorate_types::{ClusterId, Faults, Holder, Incarnation, Name, ReplicaId};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

/// Make the directories of a new cluster, one per replica.
///
/// Makes DIR/replica-1, DIR/replica-2 and so on, each with a configuration, certificates and an empty data directory, DIR/client.toml
/// with certificates for clients and operators, and in DIR/ca the authority that signed them. Copy each replica's directory to its machine and start it there with `quorate serve`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  quorate init --dir prod --members 1=10.0.0.1:7000,2=10.0.0.2:7000,3=10.0.0.3:7000
  quorate serve --config prod/replica-1/replica.toml")]
pub(crate) struct Args {
    /// Where to make them; must not exist, or be empty
    #[arg(long, value_name = "DIR")]
    dir: PathBuf,
    /// The replicas and where they listen, for each other and for clients
    #[arg(long, value_name = "ID=HOST:PORT,...", required = true, value_delimiter = ',', value_parser = parse_member)]
    members: Vec<(u16, String)>,
    /// When a write counts as durable
    #[arg(long, value_enum, default_value_t = DurabilityChoice::Group)]
    durability: DurabilityChoice,
    /// Which service the replicas run
    #[arg(long, value_enum, default_value_t = ServiceChoice::Kv)]
    service: ServiceChoice,
    /// With the service etcd: the port for clients of etcd; replicas on the same host take the ones after it
    #[arg(long, value_name = "PORT", default_value_t = ETCD_PORT, value_parser = clap::value_parser!(u16).range(1..=65_000))]
    etcd_port: u16,
    /// How many ordering instances share the work
    #[arg(long, value_name = "R", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=64))]
    instances: u16,
    /// How many threads of each replica share the work of its connections; with more than one, the first has all the rest
    #[arg(long, value_name = "LANES", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=64))]
    lanes: u16,
    #[command(flatten)]
    order: OrderArgs,
    /// How long the certificates of replicas and clients are good for
    #[arg(long, value_name = "DAYS", default_value_t = cert::DAYS, value_parser = clap::value_parser!(u32).range(1..=3652))]
    days: u32,
    /// No certificates: connections are neither encrypted nor authenticated. Only for networks where everybody may do everything
    #[arg(long, conflicts_with = "days")]
    plain: bool,
}

/// When a write counts as durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum DurabilityChoice {
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
pub(crate) enum ServiceChoice {
    /// The key-value store
    Kv,
    /// The store that clients of etcd use
    Etcd,
    /// Counts and sums what it gets, to measure with
    Tally,
    /// Answers with as many bytes as it is asked for, to measure with
    Echo,
}

/// The word for it on the command line and in files.
pub(crate) fn name(choice: impl ValueEnum) -> String {
    choice.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
}

/// A cluster to be made.
pub(crate) struct Plan {
    /// Replica ids and addresses.
    pub(crate) members: Vec<(u16, String)>,
    pub(crate) durability: DurabilityChoice,
    pub(crate) service: ServiceChoice,
    /// Where clients of etcd are served, by the order of the members; empty: nowhere.
    pub(crate) etcd: Vec<String>,
    /// How many ordering instances share the work.
    pub(crate) instances: u16,
    /// How many lanes a replica has.
    pub(crate) lanes: u16,
    /// How they agree.
    pub(crate) order: OrderChoice,
    /// How long its certificates are good for, in days; none: connections are plain.
    pub(crate) certificates: Option<u32>,
    /// Which command made it, for the head of the files.
    pub(crate) made_by: &'static str,
}

/// Where the files of a replica are.
pub(crate) fn replica_directory(cluster: &Path, replica: u16) -> PathBuf {
    cluster.join(format!("replica-{replica}"))
}

/// The name of a replica's configuration in its directory.
pub(crate) const REPLICA_FILE: &str = "replica.toml";

pub(crate) fn run(args: Args) -> Outcome {
    let Args { dir, members, durability, service, etcd_port, instances, lanes, order, days, plain } = args;
    refuse_used(&dir)?;
    let certificates = (!plain).then_some(days);
    let made_by = "quorate init";
    let etcd = etcd_addresses(service, &members, etcd_port);
    let order = order.choice()?;
    let plan = Plan { members, durability, service, etcd, instances, lanes, order, certificates, made_by };
    let cluster = make(&dir, &plan)?;
    print::line(summary(&dir, &cluster))?;
    Ok(ExitCode::SUCCESS)
}

fn summary(dir: &Path, cluster: &Cluster) -> String {
    let mut text = format!("cluster {} is made in {}\n\n", cluster.id, dir.display());
    text.push_str("Copy each directory to the machine of its replica and start it there:\n");
    for (replica, address) in &cluster.members {
        let place = replica_directory(dir, replica.number());
        let _ = writeln!(text, "  {address:<24} quorate serve --config {}/{REPLICA_FILE}", place.display());
    }
    let client = dir.join(CLIENT_FILE);
    let _ = write!(
        text,
        "Each directory is for one replica and one machine: a copy that runs twice is refused.\n\nClients need {}:\n  \
         quorate status --config {}",
        client.display(),
        client.display()
    );
    if cluster.tls.is_some() {
        let authority = dir.join(AUTHORITY);
        let _ = write!(
            text,
            "\n\nWhoever has {}/ca.key can make certificates for everybody: move {} to a safe place, away from the \
             replicas. You need it to renew certificates (`quorate cert`). Give applications {} and the files that it names, \
             without those of the admin.",
            authority.display(),
            authority.display(),
            client.display()
        );
    } else {
        text.push_str("\n\nConnections are plain: whoever reaches the replicas can do everything.");
    }
    text
}

/// Where the authority is.
pub(crate) const AUTHORITY: &str = "ca";
/// Where the certificates of clients and operators are.
pub(crate) const CLIENTS: &str = "clients";
/// The key that a replica signs with, in its own directory.
const SIGNING: &str = "signing.key";
/// Where those of a replica are, below its own directory.
const TLS: &str = "tls";

/// What is there stays as it is.
pub(crate) fn refuse_used(dir: &Path) -> Outcome<()> {
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

/// Where a cluster begins.
pub(crate) struct Origin {
    /// Its id.
    pub(crate) cluster: ClusterId,
    /// The only wall-clock time that the cluster ever knows: its own clock begins there, the same for all.
    pub(crate) start_time_ns: u64,
    /// The feature level that it begins with.
    pub(crate) level: u32,
    /// The limits of its sessions, where they are not the usual ones.
    pub(crate) sessions: Option<SessionLimits>,
}

/// What is drawn for a replica when it is made.
struct Life {
    incarnation: Incarnation,
    /// With what it signs, where replicas may lie.
    key: Option<SigningKey>,
}

/// An id that no other cluster has.
pub(crate) fn new_cluster_id() -> Outcome<ClusterId> {
    Ok(ClusterId::new(random::wide_number()?))
}

/// Makes everything that a cluster consists of, in `dir`; it begins now, with nothing.
///
/// # Errors
/// When members make no cluster, or the system refuses.
pub(crate) fn make(dir: &Path, plan: &Plan) -> Outcome<Cluster> {
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

/// The same, with another beginning.
///
/// # Errors
/// As there.
pub(crate) fn make_from(dir: &Path, plan: &Plan, origin: &Origin) -> Outcome<Cluster> {
    check_members(plan)?;
    let id = origin.cluster;
    let mut lives = Vec::new();
    for _ in &plan.members {
        let signs = plan.order.fault_model.may_lie();
        let key = signs.then(random::secret).transpose()?.map(SigningKey::new);
        lives.push(Life { incarnation: Incarnation::new(random::number()?), key });
    }
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
            let hosts = [address.rsplit_once(':').map_or(address.as_str(), |(host, _)| host).to_owned()];
            let tls = Place { directory: &place.join(TLS), name: "replica" };
            office.issue(&tls, &holder, &hosts, days)?;
        }
        if let Some(key) = &life.key {
            let file = place.join(SIGNING);
            write_private(&file, &key.to_text()).doing(format_args!("write {}", file.display()))?;
        }
        let file = place.join(REPLICA_FILE);
        let at = plan.members.iter().position(|(id, _)| id == replica);
        let etcd = at.and_then(|at| plan.etcd.get(at)).map(String::as_str);
        let text = replica_toml(origin, *replica, etcd, &lives, plan);
        std::fs::write(&file, text).doing(format_args!("write {}", file.display()))?;
    }
    let members = plan.members.iter().map(|(replica, address)| (ReplicaId::new(*replica), address.clone()));
    let tls = office.zip(plan.certificates).map(|(office, days)| clients(dir, &office, days)).transpose()?;
    let OrderChoice { fault_model, faults, authentication, .. } = plan.order;
    let (members, directory) = (members.collect(), dir.to_owned());
    let cluster = Cluster { id, members, fault_model, faults, authentication, tls, directory };
    let file = dir.join(CLIENT_FILE);
    std::fs::write(&file, cluster.to_toml()).doing(format_args!("write {}", file.display()))?;
    let tls = cluster.tls.map(|tls| tls.relative_to(dir));
    Ok(Cluster { tls, ..cluster })
}

/// Makes the certificates of clients and operators; the paths are relative to the directory.
fn clients(dir: &Path, office: &Office, days: u32) -> Outcome<ClientFiles> {
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
        office.issue(&Place { directory: &place, name: text }, &holder, &[], days)?;
    }
    Ok(ClientFiles { client: files("default"), admin: Some(files("admin")) })
}

/// The port where etcd itself listens for clients.
pub(crate) const ETCD_PORT: u16 = 2379;

/// Where clients of etcd are served: on the host of each member, from this port on. Nowhere with another service.
pub(crate) fn etcd_addresses(service: ServiceChoice, members: &[(u16, String)], port: u16) -> Vec<String> {
    if service != ServiceChoice::Etcd {
        return Vec::new();
    }
    let host = |address: &str| address.rsplit_once(':').map_or(address, |(host, _)| host).to_owned();
    let address = |(at, (_, address)): (usize, &(u16, String))| {
        let before = members[..at].iter().filter(|(_, other)| host(other) == host(address)).count();
        format!("{}:{}", host(address), usize::from(port) + before)
    };
    members.iter().enumerate().map(address).collect()
}

fn replica_toml(origin: &Origin, replica: u16, etcd: Option<&str>, lives: &[Life], plan: &Plan) -> String {
    let cluster = origin.cluster;
    let mut text = format!(
        "# Replica {replica}; made by `{}`. docs/configuration.md explains every key.\n\
         cluster = \"{cluster}\"\n\
         replica = {replica}\n\
         data = \"data\"\n\
         service = \"{}\"\n\
         {}\
         {}\
         {}\
         {}\
         {}\
         {}\
         \n\
         [durability]\n\
         mode = \"{}\"\n",
        plan.made_by,
        name(plan.service),
        etcd.map(|address| format!("etcd = \"{address}\"\n")).unwrap_or_default(),
        if plan.instances > 1 { format!("instances = {}\n", plan.instances) } else { String::new() },
        plan.order.to_toml(),
        if plan.lanes > 1 { format!("lanes = {}\n", plan.lanes) } else { String::new() },
        // Where programs of the first level ran, or may run, the files say nothing that those do not know.
        if origin.level > 1 { format!("level = {}\n", origin.level) } else { String::new() },
        if plan.certificates.is_none() { "plain = true\n" } else { "" },
        name(plan.durability),
    );
    if plan.certificates.is_some() {
        let _ = write!(
            text,
            "\n[tls]\nca = \"{TLS}/ca.pem\"\ncertificate = \"{TLS}/replica.pem\"\nkey = \"{TLS}/replica.key\"\n"
        );
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
    if plan.order.fault_model.may_lie() && members.len() < 4 {
        return Err(Failure::usage(format!(
            "to survive one replica that lies, a cluster needs 4 replicas; here are {}",
            members.len()
        )));
    }
    if members.is_empty() || members.len() > 64 {
        return Err(Failure::usage(format!("a cluster has 1 to 64 replicas, not {}", members.len())));
    }
    let most = Faults::of(plan.order.fault_model).among(members.len() as u32).faults();
    if let Some(faults) = plan.order.faults.filter(|faults| !(1..=most).contains(faults)) {
        let (count, model) = (members.len(), plan.order.fault_model.name());
        return Err(Failure::usage(format!(
            "{count} replicas survive {most} {model} faults at most: leave --faults {faults} out, or name more replicas"
        )));
    }
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

/// `ID=HOST:PORT`
pub(crate) fn parse_member(text: &str) -> Result<(u16, String), String> {
    let wrong = |why: &str| format!("{why}; a member is ID=HOST:PORT, as in 1=10.0.0.1:7000");
    let (replica, address) = text.split_once('=').ok_or_else(|| wrong("there is no ="))?;
    let replica: u16 = replica.trim().parse().map_err(|_| wrong("the id is no number from 1 to 65535"))?;
    if replica == 0 {
        return Err(wrong("ids begin at 1"));
    }
    let address = address.trim();
    let (host, port) = address.rsplit_once(':').ok_or_else(|| wrong("the port is missing"))?;
    // What may stand in a name or address, IPv6 in brackets included; everything else would need quoting in files.
    let plain = |c: char| c.is_ascii_alphanumeric() || ".-_:[]%".contains(c);
    if host.is_empty() || !host.chars().all(plain) {
        return Err(wrong("the host is no name and no address"));
    }
    if !port.parse::<u16>().is_ok_and(|port| port != 0) {
        return Err(wrong("the port is no number from 1 to 65535"));
    }
    Ok((replica, address.to_owned()))
}
