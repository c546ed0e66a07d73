//! `quorate dev export`: writes files with which the cluster of a `dev` directory can be deployed: systemd units, containers, Kubernetes.
//!
//! Ids, incarnations and settings come from the replicas' configurations; addresses, ports and paths are those of the new place
//! (`deployed`, `ports`), and so are the names in the certificates, which the cluster's authority signs anew (`written`). The data stays where
//! it is; people move it once by hand, while no replica runs. A file that put it back automatically would revive a replica with an emptied
//! disk, which must not vote. `--empty` takes the settings alone, for a new cluster.
//! Tests: tests/all/export.rs, with golden files; `tests.rs`.

mod compose;
mod container;
mod deployed;
mod kubernetes;
mod memory;
mod ports;
mod readme;
mod systemd;
#[cfg(test)]
mod tests;
mod written;

use crate::init::{self, parse_member};
use deployed::Deployed;
use memory::Memory;
use quorate_command::authority::{DAYS, parse_host};
use quorate_command::cluster::{CLIENT_FILE, Cluster, DEV_DIRECTORY};
use quorate_command::failure::{Failure, Outcome};
use quorate_command::layout;
use quorate_command::print;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::process::ExitCode;

/// The unit of a replica: `%i` is its number. Packages install it, too, so it has nothing of one cluster in it.
pub(crate) const UNIT: &str = include_str!("templates/quorate@.service");
/// The user that the unit names, for systemd-sysusers.
pub(crate) const USER: &str = include_str!("templates/sysusers.conf");

/// Write the files of a real deployment.
///
/// Takes ids and settings from the cluster in the directory of `quorate dev` or `quorate init`, which may run or not, and changes nothing
/// there. Makes new certificates for the names and addresses of the new place, which the cluster's authority signs. The README.md among the
/// files says what to do next.
#[derive(Debug, clap::Args)]
#[command(
    group(clap::ArgGroup::new("kind").required(true).args(["systemd", "compose", "kubernetes"])),
    after_help = "Examples:
  quorate dev export --systemd --members 1=10.0.0.1:7000,2=10.0.0.2:7000,3=10.0.0.3:7000
  quorate dev export --systemd --members 1=n1:7000,2=n2:7000,3=n3:7000 --hosts db.example.org --ca safe/ca
  quorate dev export --compose --out here
  quorate dev export --kubernetes --empty --image registry.example.org/quorate:1 --storage 50Gi --memory 6Gi"
)]
pub(crate) struct Args {
    /// For machines with systemd: a hardened unit, a user, and a configuration for each replica
    #[arg(long)]
    systemd: bool,
    /// For one machine with containers: a Containerfile and a compose file
    #[arg(long)]
    compose: bool,
    /// For Kubernetes: a StatefulSet with its services, secrets, probes and disruption budget
    #[arg(long)]
    kubernetes: bool,
    /// Where the cluster is
    #[arg(long, value_name = "DIR", default_value = DEV_DIRECTORY)]
    dir: PathBuf,
    /// Where to write; must not exist, or be empty [default: ./deploy-systemd, ./deploy-compose or ./deploy-kubernetes]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Take only the settings, for a new cluster with an authority and an id of its own, which begins empty
    #[arg(long)]
    empty: bool,
    /// Where the replicas listen [default: as now, which is this machine]
    #[arg(long, value_name = "ID=HOST:PORT,...", value_delimiter = ',', value_parser = parse_member,
          conflicts_with_all = ["compose", "kubernetes"])]
    members: Vec<(u16, String)>,
    /// Further names and addresses by which clients reach the replicas, for all certificates; may be given several times
    #[arg(long, value_name = "NAME_OR_IP,...", value_delimiter = ',', value_parser = parse_host)]
    hosts: Vec<String>,
    /// The authority's directory [default: DIR/ca]
    #[arg(long, value_name = "DIR", conflicts_with = "empty")]
    ca: Option<PathBuf>,
    /// How long the certificates are good for
    #[arg(long, value_name = "DAYS", default_value_t = DAYS, value_parser = clap::value_parser!(u32).range(1..=3652))]
    days: u32,
    /// The port for clients of etcd or ZooKeeper; replicas on the same host take the ones after it [default: 2379 for etcd, 2181 for
    /// ZooKeeper]
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..=65_000))]
    front_port: Option<u16>,
    /// The port where a replica answers probes and tells metrics; replicas on the same host take the ones after it; with --systemd 0:
    /// nowhere
    #[arg(long, value_name = "PORT", default_value_t = init::HEALTH_PORT, value_parser = clap::value_parser!(u16).range(0..=65_000))]
    health_port: u16,
    /// Clients of ZooKeeper may come without certificates. Without this they may not, whatever `quorate dev` allowed on this machine
    #[arg(long)]
    front_plain: bool,
    /// How much memory a replica may take [default: what the limits in its configuration add up to]
    #[arg(long, value_name = "SIZE", value_parser = memory::parse)]
    memory: Option<Memory>,
    /// The address of this machine at which the ports of containers are open; 0.0.0.0 for all
    #[arg(long, value_name = "IP", default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST), conflicts_with_all = ["systemd", "kubernetes"])]
    publish: IpAddr,
    /// The name of the image of the containers
    #[arg(long, value_name = "NAME", default_value = concat!("quorate:", env!("CARGO_PKG_VERSION")), conflicts_with = "systemd",
          value_parser = parse_word)]
    image: String,
    /// The namespace of Kubernetes
    #[arg(long, value_name = "NAME", default_value = "default", conflicts_with_all = ["systemd", "compose"],
          value_parser = parse_label)]
    namespace: String,
    /// How large the volume of each replica is
    #[arg(long, value_name = "QUANTITY", default_value = "20Gi", conflicts_with_all = ["systemd", "compose"],
          value_parser = memory::parse_quantity)]
    storage: String,
}

/// The most hosts that `--hosts` takes: programs read 64 names of a certificate.
const HOSTS_MAX: usize = 32;

/// A cluster to be deployed.
struct Deployment<'a> {
    args: &'a Args,
    cluster: Cluster,
    replicas: Vec<Deployed>,
    /// What each replica may take.
    memory: Memory,
}

/// Files to write, by name.
type Files = BTreeMap<String, String>;

/// What a kind of deployment consists of, beside keys and certificates.
struct Planned {
    /// Its files.
    files: Files,
    /// The names and addresses of each replica, for its certificate.
    hosts: BTreeMap<u16, Vec<String>>,
    /// Where clients of Quorate itself find each replica.
    members: BTreeMap<u16, String>,
}

pub(crate) fn run(args: &Args) -> Outcome {
    args.check()?;
    let kind = if args.systemd {
        "systemd"
    } else if args.compose {
        "compose"
    } else {
        "kubernetes"
    };
    let out = args.out.clone().unwrap_or_else(|| PathBuf::from(format!("deploy-{kind}")));
    layout::refuse_used(&out)?;
    let deployment = Deployment::read(args)?;
    if let Some(own) = deployment.own_service().filter(|_| !args.systemd) {
        return Err(Failure::usage(format!(
            "{own} is a service of your own, and the containers that this writes run `quorate serve`: take the files of --systemd, and an image \
             of your program, which runs `{own} /etc/quorate/replica-N/replica.toml`"
        )));
    }
    let planned = match kind {
        "systemd" => systemd::plan(&deployment)?,
        "compose" => compose::plan(&deployment)?,
        _ => kubernetes::plan(&deployment)?,
    };
    let written = written::write(&deployment, planned, &out)?;
    let names: Vec<String> =
        written.files.iter().map(|name| format!("  {}", out.join(name).display())).collect();
    let mut text = names.join("\n");
    if !written.secret.is_empty() {
        let secret: Vec<String> =
            written.secret.iter().map(|name| out.join(name).display().to_string()).collect();
        text.push_str(&format!(
            "\n\nKeys are in these, readable by you alone: bring each to its place, and put none into a repository.\n  {}",
            secret.join("\n  ")
        ));
    }
    let (needed, given) = (deployment.needed_memory(), deployment.memory);
    if given < needed {
        text.push_str(&format!(
            "\n\nA replica may need more than {given} of memory: the limits in its configuration add up to {needed}. Lower `quota_bytes` of \
             its front, or `[limits]`."
        ));
    }
    print::line(format!("{text}\n\n{} says what to do next.", out.join("README.md").display()))?;
    Ok(ExitCode::SUCCESS)
}

impl Args {
    /// What one option alone can not tell.
    fn check(&self) -> Outcome<()> {
        if self.health_port == 0 && !self.systemd {
            return Err(Failure::usage(
                "--health-port 0: containers are probed at that port; leave it out, or name another one",
            ));
        }
        if self.hosts.len() > HOSTS_MAX {
            return Err(Failure::usage(format!(
                "--hosts: {} are too many, a certificate has room for {HOSTS_MAX} besides its own: a name such as *.example.org stands for \
                 all of a domain",
                self.hosts.len()
            )));
        }
        Ok(())
    }
}

impl<'a> Deployment<'a> {
    fn read(args: &'a Args) -> Outcome<Self> {
        let remedy = "Name the directory of a `quorate dev` with --dir";
        let cluster = Cluster::read(&args.dir.join(CLIENT_FILE), remedy)?;
        let replicas: Vec<Deployed> = cluster
            .members
            .iter()
            .map(|(replica, _)| Deployed::read(&args.dir, replica.number(), args.front_plain))
            .collect::<Outcome<_>>()?;
        let mut deployment = Self { args, cluster, replicas, memory: Memory::default() };
        deployment.memory = args.memory.unwrap_or_else(|| deployment.needed_memory());
        if args.empty {
            deployment.begin_anew()?;
        }
        let is =
            |service: &str| deployment.replicas.iter().any(|replica| replica.config.service.name == service);
        if args.front_port.is_some() && deployment.replicas.iter().all(|replica| replica.fronts().is_empty())
        {
            return Err(Failure::usage(
                "--front-port: these replicas have no front, since their service is neither etcd nor zookeeper; clients use client.toml",
            ));
        }
        if args.front_plain && !is("zookeeper") {
            return Err(Failure::usage(
                "--front-plain: only clients of ZooKeeper may come without certificates",
            ));
        }
        if !args.hosts.is_empty() && !deployment.has_tls() {
            return Err(Failure::usage(
                "--hosts: connections of this cluster are plain, so there are no certificates to put names into",
            ));
        }
        Ok(deployment)
    }

    /// The service, if a program of the user's own runs it.
    fn own_service(&self) -> Option<&str> {
        let name = self.replicas.first().map(|replica| replica.config.service.name.as_str())?;
        layout::parse_own_service(name).is_ok().then_some(name)
    }

    fn has_tls(&self) -> bool {
        self.cluster.tls.is_some()
    }

    /// What the limits in the configurations add up to, for the replica with the highest ones.
    fn needed_memory(&self) -> Memory {
        self.replicas.iter().map(|replica| Memory::of(&replica.config)).max().unwrap_or_default()
    }

    /// Whether no replica has run yet.
    fn is_new(&self) -> bool {
        self.replicas.iter().all(|replica| replica.is_new)
    }

    /// The port of a replica now.
    fn port(&self, id: u16) -> Outcome<u16> {
        let address = self.cluster.members.iter().find(|(replica, _)| replica.number() == id);
        let address = address.map(|(_, address)| address.as_str()).unwrap_or_default();
        let port = address.rsplit_once(':').and_then(|(_, port)| port.parse().ok());
        port.ok_or_else(|| Failure::usage(format!("the address {address} of replica {id} has no port")))
    }

    /// Whether the replicas have keys, for certificates or for anything else.
    fn has_secrets(&self) -> bool {
        self.replicas.iter().any(|replica| !replica.secret_files(self.has_tls()).is_empty())
    }
}

/// A word that YAML takes in quotes; enough for names of images.
fn parse_word(text: &str) -> Result<String, String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-/:@".contains(c);
    let begins = text.starts_with(|c: char| c.is_ascii_alphanumeric());
    if begins && text.len() <= 255 && text.chars().all(plain) && !text.ends_with(':') {
        return Ok(text.to_owned());
    }
    Err("letters, digits and . _ - / : @ may stand here".to_owned())
}

/// A name in Kubernetes that is part of a host's name.
fn parse_label(text: &str) -> Result<String, String> {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let ends = text.starts_with('-') || text.ends_with('-');
    if (1..=63).contains(&text.len()) && text.chars().all(plain) && !ends {
        return Ok(text.to_owned());
    }
    Err("a namespace has 1 to 63 small letters, digits and -, and neither begins nor ends with -".to_owned())
}

/// Indents every line.
fn indent(text: &str, by: usize) -> String {
    let pad = " ".repeat(by);
    text.lines()
        .map(|line| if line.is_empty() { "\n".to_owned() } else { format!("{pad}{line}\n") })
        .collect()
}

/// Replaces names such as `{{name}}` in a template.
fn fill(template: &str, values: &[(&str, &str)]) -> String {
    values
        .iter()
        .fold(template.to_owned(), |text, (name, value)| text.replace(&format!("{{{{{name}}}}}"), value))
}
