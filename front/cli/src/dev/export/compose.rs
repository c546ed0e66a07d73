//! Files for one machine with containers: each replica is a service of a compose file, with a directory beside it.

use super::deployed::Site;
use super::ports::{PORT, Taken};
use super::readme::{self, Reached};
use super::{Args, Deployment, Files, Planned, container, fill};
use quorate_command::failure::{Failure, Outcome};
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

const HEAD: &str = include_str!("templates/compose.yaml");
const SERVICE: &str = include_str!("templates/compose-service.yaml");
const README: &str = include_str!("templates/compose.md");
/// The line of the README about data that exists.
const MOVE: &str = "for place in {{directories}}; do mv DIR/$place/data $place/data; done\n";
/// The keys of a service.
const KEYS: &str = "      - type: bind\n        source: ./replica-{{id}}/tls\n        target: /etc/quorate/tls\n        read_only: true\n        \
                    bind:\n          create_host_path: false\n";

pub(super) fn plan(deployment: &Deployment<'_>) -> Outcome<Planned> {
    let args = deployment.args;
    is_reachable(args)?;
    let ports = ports(deployment)?;
    let port = |id: u16| ports.get(&id).copied().unwrap_or_default();
    let inside = |id: u16| format!("quorate-{id}:{}", port(id));
    let outside = outside(deployment);
    let here = |port: u16| match outside.parse::<IpAddr>() {
        Ok(ip) => SocketAddr::new(ip, port).to_string(),
        Err(_) => format!("{outside}:{port}"),
    };
    let mut taken = Taken::default();
    let mut planned = Planned { files: Files::new(), hosts: BTreeMap::new(), members: BTreeMap::new() };
    let (mut services, mut rows, mut reached) = (String::new(), String::new(), Reached::default());
    for (number, replica) in (0u16..).zip(&deployment.replicas) {
        let id = replica.id;
        let health = args.health_port + number;
        let mut open = vec![port(id), health];
        let mut take = |port, what: String| taken.take("this machine", port, what);
        take(port(id), format!("replica {id}"))?;
        take(health, format!("probes of replica {id}"))?;
        let mut fronts = Vec::new();
        for front in replica.fronts() {
            let port = front.port(args.front_port) + number;
            take(port, format!("clients of {} at replica {id}", front.name))?;
            // Those of operators are for this machine, inside of the container.
            open.extend((front.key == "listen").then_some(port));
            reached.add(front, here(port));
            fronts.push((front, format!("0.0.0.0:{port}"), Some(here(port))));
        }
        let clients: Vec<String> =
            fronts.iter().filter_map(|(.., at)| Some(format!("`{}`", at.as_ref()?))).collect();
        let clients = if clients.is_empty() { "-".into() } else { clients.join(", ") };
        rows.push_str(&format!("| `quorate-{id}` | {} | {clients} | {} |\n", here(port(id)), here(health)));
        let site = Site {
            data: "/var/lib/quorate/data".into(),
            listen: Some(format!("0.0.0.0:{}", port(id))),
            health: Some(format!("0.0.0.0:{health}")),
            fronts,
            keys: "/etc/quorate/tls".into(),
        };
        planned.files.insert(format!("replica-{id}/replica.toml"), replica.config_at(&site, inside)?);
        let names = ["localhost".into(), "127.0.0.1".into(), format!("quorate-{id}")];
        let names =
            names.into_iter().chain((!args.publish.is_unspecified()).then(|| args.publish.to_string()));
        planned.hosts.insert(id, names.chain(args.hosts.iter().cloned()).collect());
        planned.members.insert(id, here(port(id)));
        let keys = !replica.secret_files(deployment.has_tls()).is_empty();
        let published = open.iter().map(|port| published(args.publish, *port)).collect::<String>();
        let (id, memory) = (id.to_string(), deployment.memory.compose());
        let keys = if keys { KEYS } else { "" };
        let values =
            [("keys", keys), ("id", &id), ("ports", &published), ("image", &args.image), ("memory", &memory)];
        services.push_str(&fill(SERVICE, &values));
    }
    let id = match args.empty {
        true => "A new cluster".to_owned(),
        false => format!("Cluster {}", deployment.cluster.id),
    };
    planned
        .files
        .insert("compose.yaml".into(), fill(HEAD, &[("cluster", &id), ("services", services.trim_end())]));
    container::add(deployment, &mut planned.files);
    planned.files.insert("README.md".into(), readme(deployment, &rows, &reached));
    Ok(planned)
}

fn readme(deployment: &Deployment<'_>, rows: &str, reached: &Reached) -> String {
    let args = deployment.args;
    let directories: Vec<String> =
        deployment.replicas.iter().map(|replica| format!("replica-{}", replica.id)).collect();
    let (before, data, after) = match args.empty {
        true => ("A new, empty cluster. ", "", ""),
        false => (readme::STOP, MOVE, "Move the data once. "),
    };
    let open = match args.publish.is_loopback() {
        true => {
            "Other machines do not reach the replicas: their ports are open on this machine only. `--publish` opens them."
        }
        false => {
            "Other machines reach the ports. Those of probes answer everybody, with nothing secret: let a firewall say who may ask."
        }
    };
    let clients = readme::clients(deployment, reached);
    let values = [
        ("before", before),
        ("after", after),
        ("data", data),
        ("rows", rows.trim_end()),
        ("clients", clients.as_str()),
        ("open", open),
        ("directories", &directories.join(" ")),
        ("memory", &deployment.memory.binary()),
        ("image", &args.image),
    ];
    fill(README, &values)
}

/// Other machines need a name for this one, if its ports are open to them.
fn is_reachable(args: &Args) -> Outcome<()> {
    if !args.publish.is_unspecified() || args.hosts.iter().any(|host| !host.starts_with("*.")) {
        return Ok(());
    }
    Err(Failure::usage(format!(
        "--publish {} opens the ports to other machines: say with --hosts by which name or address they reach this one",
        args.publish
    )))
}

/// A line that opens a port of a container on this machine.
fn published(address: IpAddr, port: u16) -> String {
    format!("      - \"{}:{port}\"\n", SocketAddr::new(address, port))
}

/// The name or address of this machine for clients: a name of the command line where other machines reach it.
fn outside(deployment: &Deployment<'_>) -> String {
    let args = deployment.args;
    let named = args.hosts.iter().find(|host| !host.starts_with("*.")).cloned();
    match args.publish {
        ip if ip.is_loopback() => ip.to_string(),
        ip if ip.is_unspecified() => named.unwrap_or_else(|| "127.0.0.1".into()),
        ip => named.unwrap_or_else(|| ip.to_string()),
    }
}

/// The port of each replica: the one that it has, so that clients find it, or the usual ones where those of several are the same.
fn ports(deployment: &Deployment<'_>) -> Outcome<BTreeMap<u16, u16>> {
    let ids = deployment.replicas.iter().map(|replica| replica.id);
    let now =
        ids.clone().map(|id| Ok((id, deployment.port(id)?))).collect::<Outcome<BTreeMap<u16, u16>>>()?;
    let mut different: Vec<u16> = now.values().copied().collect();
    different.sort_unstable();
    different.dedup();
    Ok(if different.len() == now.len() { now } else { ids.zip(PORT..).collect() })
}
