//! `quorate init`: makes the directories of a new cluster. `quorate_command::layout` has their contents.

use crate::set::SetArgs;
use quorate_command::authority::DAYS;
use quorate_command::cluster::{CLIENT_FILE, Cluster};
use quorate_command::execution::ExecutionArgs;
use quorate_command::failure::{Failure, Outcome};
use quorate_command::layout::{
    AUTHORITY, DurabilityChoice, Plan, REPLICA_FILE, ServiceArg, ServiceChoice, make, parse_own_service,
    parse_service, refuse_used, replica_directory,
};
use quorate_command::oracle::OracleArgs;
use quorate_command::ordering::OrderArgs;
use quorate_command::print;
use std::fmt::Write as _;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Make the directories of a new cluster, one per replica.
///
/// Makes DIR/replica-1, DIR/replica-2 and so on, each with a configuration, certificates and an empty data directory, DIR/client.toml
/// with certificates for clients and operators, and in DIR/ca the authority that signed them. Copy each replica's directory to its machine and start it there with `quorate serve`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  quorate init --dir prod --members 1=10.0.0.1:7000,2=10.0.0.2:7000,3=10.0.0.3:7000
  quorate serve --config prod/replica-1/replica.toml
  quorate init --service bank --dir bank --members 1=10.0.0.1:7000,2=10.0.0.2:7000,3=10.0.0.3:7000")]
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
    /// Which service the replicas run: kv, etcd, zookeeper, oracle, tally, echo, work, shop or lists, which are in this program; any other
    /// NAME is that of a service of your own, with a program of yours
    #[arg(long, value_name = "NAME", default_value = "etcd", value_parser = parse_service)]
    service: ServiceArg,
    /// As --service, for a name that is none of this program's
    #[arg(long, value_name = "NAME", hide = true, conflicts_with = "service", value_parser = parse_own_service)]
    own_service: Option<String>,
    /// With a service of your own: the version of your program that is the first to run; `VERSION` in its TypedService
    #[arg(long, value_name = "VERSION", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    service_level: u32,
    /// With the services etcd and zookeeper: the port for their clients; replicas on the same host take the ones after it [default: 2379
    /// for etcd, 2181 for zookeeper]
    #[arg(long, value_name = "PORT", visible_alias = "etcd-port", value_parser = clap::value_parser!(u16).range(1..=65_000))]
    front_port: Option<u16>,
    /// The port of `health`, where a replica answers probes and tells metrics on its own machine; several replicas of one host take the ones
    /// after it; 0: nowhere
    #[arg(long, value_name = "PORT", default_value_t = HEALTH_PORT, value_parser = clap::value_parser!(u16).range(0..=65_000))]
    health_port: u16,
    /// How many ordering instances share the work
    #[arg(long, value_name = "R", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=64))]
    instances: u16,
    /// How many threads of each replica share the work of its connections; with more than one, the first has all the rest
    #[arg(long, value_name = "LANES", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=64))]
    lanes: u16,
    #[command(flatten)]
    execution: ExecutionArgs,
    #[command(flatten)]
    order: OrderArgs,
    #[command(flatten)]
    oracle: OracleArgs,
    /// Make keys for replicas and an administrator also where replicas only crash: with them the cluster can survive lies later (`quorate faults set`)
    #[arg(long)]
    signing: bool,
    #[command(flatten)]
    set: SetArgs,
    /// How long the certificates of replicas and clients are good for
    #[arg(long, value_name = "DAYS", default_value_t = DAYS, value_parser = clap::value_parser!(u32).range(1..=3652))]
    days: u32,
    /// No certificates: connections are neither encrypted nor authenticated. Only for networks where everybody may do everything
    #[arg(long, conflicts_with = "days")]
    plain: bool,
}

/// The usual port of `health`.
pub(crate) const HEALTH_PORT: u16 = 7980;

pub(crate) fn run(args: Args) -> Outcome {
    let Args {
        dir,
        members,
        durability,
        own_service,
        front_port,
        health_port,
        instances,
        lanes,
        order,
        oracle,
        days,
        plain,
        signing,
        ..
    } = args;
    let (service, own_service) = own_service.map_or(args.service, ServiceArg::Own).apart();
    let refused = match own_service {
        None if args.service_level > 1 => Some("--service-level is for services of your own"),
        Some(_) if front_port.is_some() => {
            Some("--front-port is for services that have a front, and one's own has none")
        }
        _ => None,
    };
    if let Some(why) = refused {
        return Err(Failure::usage(why));
    }
    let execution = args.execution.choice(service)?;
    refuse_used(&dir)?;
    let certificates = (!plain).then_some(days);
    let made_by = "quorate init";
    let front = front_addresses(service, &members, front_port);
    let health = health_addresses(&members, health_port);
    let order = order.choice()?;
    let oracle = oracle.of(order.fault_model)?;
    let plan = Plan {
        members,
        durability,
        service,
        own_service,
        service_level: args.service_level,
        front,
        front_plain: false,
        health,
        instances,
        lanes,
        execution,
        pillars: None,
        placement: None,
        order,
        signing,
        certificates,
        oracle,
        made_by,
    };
    let cluster = make(&dir, &plan)?;
    let set = args.set.apply(&dir, plan.members.iter().map(|(replica, _)| *replica));
    if set.is_err() {
        // The directory was not there, or empty.
        let _ = std::fs::remove_dir_all(&dir);
    }
    set?;
    print::line(summary(&dir, &cluster, &plan))?;
    Ok(ExitCode::SUCCESS)
}

fn summary(dir: &Path, cluster: &Cluster, plan: &Plan) -> String {
    let mut text = format!("cluster {} is made in {}\n\n", cluster.id, dir.display());
    if let Some(spare) = cluster.spare() {
        let _ = writeln!(text, "{spare}\n");
    }
    text.push_str(&starts(dir, cluster, plan));
    let client = dir.join(CLIENT_FILE);
    let _ = write!(
        text,
        "Each directory is for one replica and one machine: a copy that runs twice is refused.\n\nClients need {}:\n  \
         quorate status --config {}",
        client.display(),
        client.display()
    );
    // Clients of other protocols are served.
    if plan.service.front().is_some() {
        let _ = write!(
            text,
            "\n  eval \"$(quorate env --config {})\" for other programs, once it runs",
            client.display()
        );
    }
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

/// How to start the replicas, a line for each.
pub(crate) fn starts(dir: &Path, cluster: &Cluster, plan: &Plan) -> String {
    let mut text = match &plan.own_service {
        None => "Copy each directory to the machine of its replica and start it there:\n".to_owned(),
        Some(own) => format!(
            "Copy each directory to the machine of its replica, and start your program there, whose main is\n\
             quorate::run(service) with the service {own}, as PROGRAM FILE, where FILE is\n"
        ),
    };
    let command = if plan.own_service.is_some() { "" } else { "quorate serve --config " };
    for (replica, address) in &cluster.members {
        let place = replica_directory(dir, replica.number());
        let _ = writeln!(text, "  {address:<24} {command}{}/{REPLICA_FILE}", place.display());
    }
    text
}

/// The addresses of the service's front: the host of each member, with ports from this one on, or from the usual one. Empty with a service
/// that has none.
pub(crate) fn front_addresses(
    service: ServiceChoice,
    members: &[(u16, String)],
    port: Option<u16>,
) -> Vec<String> {
    let Some((_, usual)) = service.front() else { return Vec::new() };
    let places = on_hosts(members, port.unwrap_or(usual));
    places.into_iter().map(|(host, port)| format!("{host}:{port}")).collect()
}

/// Where replicas answer probes and tell metrics: on their own machines, with ports from this one on; with 0 nowhere.
pub(crate) fn health_addresses(members: &[(u16, String)], port: u16) -> Vec<String> {
    if port == 0 {
        return Vec::new();
    }
    let is_here = |host: &str| host == "localhost" || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback());
    // All addresses of this machine are one host.
    let named = |(id, address): &(u16, String)| {
        let host = address.rsplit_once(':').map_or(address.as_str(), |(host, _)| host);
        let host = if is_here(host.trim_matches(['[', ']'])) { "localhost" } else { host };
        (*id, format!("{host}:0"))
    };
    let members: Vec<_> = members.iter().map(named).collect();
    on_hosts(&members, port).into_iter().map(|(_, port)| format!("127.0.0.1:{port}")).collect()
}

/// The host of each member, with a port from this one on: members of one host have different ones.
pub(crate) fn on_hosts(members: &[(u16, String)], port: u16) -> Vec<(&str, usize)> {
    let host = |address: &'_ str| address.rsplit_once(':').map_or(address.len(), |(host, _)| host.len());
    let hosts: Vec<&str> = members.iter().map(|(_, address)| &address[..host(address)]).collect();
    let before = |at: usize| hosts[..at].iter().filter(|other| **other == hosts[at]).count();
    (0..hosts.len()).map(|at| (hosts[at], usize::from(port) + before(at))).collect()
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
