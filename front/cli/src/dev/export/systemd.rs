//! Files for machines with systemd: one template unit; each replica is an instance of it.

use super::deployed::Site;
use super::ports::Taken;
use super::readme::{self, Reached};
use super::{Deployment, Files, Planned, UNIT, USER, fill};
use crate::init::{health_addresses, on_hosts};
use quorate_command::failure::{Failure, Outcome};
use quorate_command::layout;
use std::collections::BTreeMap;

const README: &str = include_str!("templates/systemd.md");
/// The lines of the README about data that exists, about data that begins, and about keys.
const MOVE: &str = "cp -r DIR/replica-N/data /var/lib/quorate/replica-N/data";
const EMPTY: &str = "cp -r replica-N/data /var/lib/quorate/replica-N/data";
const KEYS: &str = "install -d -m 0750 -g quorate /etc/quorate/replica-N/tls\n\
                    install -m 0640 -g quorate replica-N/tls/* /etc/quorate/replica-N/tls/\n";
/// What the unit has not: it is the same for all clusters.
const MEMORY: &str = "quorate@.service.d/memory.conf";
/// What runs in place of `quorate serve`, if a program of the user's own does.
const PROGRAM: &str = "quorate@.service.d/program.conf";

pub(super) fn plan(deployment: &Deployment<'_>) -> Outcome<Planned> {
    let args = deployment.args;
    let members = members(deployment)?;
    let address = |id: u16| {
        members
            .iter()
            .find(|(member, _)| *member == id)
            .map(|(_, address)| address.clone())
            .unwrap_or_default()
    };
    let healths = health_addresses(&members, args.health_port);
    let mut taken = Taken::default();
    let (mut files, mut hosts) = (Files::new(), BTreeMap::new());
    let (mut rows, mut reached) = (String::new(), Reached::default());
    for (at, replica) in deployment.replicas.iter().enumerate() {
        let id = replica.id;
        let own = address(id);
        let (host, port) = own.rsplit_once(':').unwrap_or((&own, ""));
        taken.take(host, port.parse().unwrap_or_default(), format!("replica {id}"))?;
        let mut fronts = Vec::new();
        for front in replica.fronts() {
            let (host, port) = on_hosts(&members, front.port(args.front_port))[at];
            let what = format!("clients of {} at replica {id}", front.name);
            taken.take(host, u16::try_from(port).unwrap_or(u16::MAX), what)?;
            let listen = format!("{host}:{port}");
            reached.add(front, listen.clone());
            fronts.push((front, listen, None));
        }
        if let Some((here, port)) = healths.get(at).and_then(|health| health.rsplit_once(':')) {
            // Each machine has such an address of its own.
            let is_here = layout::hosts(&own).iter().any(|host| host == "localhost");
            let host = if is_here { here } else { host };
            taken.take(host, port.parse().unwrap_or_default(), format!("probes of replica {id}"))?;
        }
        let clients: Vec<String> = fronts.iter().map(|(_, listen, _)| format!("`{listen}`")).collect();
        rows.push_str(&format!(
            "| {id} | {own} | {} | {} | `quorate@{id}.service` |\n",
            if clients.is_empty() { "-".into() } else { clients.join(", ") },
            healths.get(at).map_or("-", String::as_str),
        ));
        let site = Site {
            data: format!("/var/lib/quorate/replica-{id}/data"),
            listen: None,
            health: healths.get(at).cloned(),
            fronts,
            keys: format!("/etc/quorate/replica-{id}/tls"),
        };
        files.insert(format!("replica-{id}/replica.toml"), replica.config_at(&site, address)?);
        hosts.insert(id, [layout::hosts(&own), args.hosts.clone()].concat());
    }
    files.insert("quorate@.service".into(), UNIT.into());
    files.insert("quorate.sysusers.conf".into(), USER.into());
    let memory = deployment.memory.systemd();
    files.insert(MEMORY.into(), fill(include_str!("templates/memory.conf"), &[("memory", &memory)]));
    if let Some(own) = deployment.own_service() {
        files.insert(PROGRAM.into(), fill(include_str!("templates/program.conf"), &[("program", own)]));
    }
    files.insert("README.md".into(), readme(deployment, &rows, &reached));
    Ok(Planned { files, hosts, members: members.into_iter().collect() })
}

fn readme(deployment: &Deployment<'_>, rows: &str, reached: &Reached) -> String {
    let (before, data, after) = match deployment.args.empty {
        true => ("A new, empty cluster. ", EMPTY, ""),
        false => (readme::STOP, MOVE, readme::ONCE),
    };
    let keys = if deployment.has_secrets() { KEYS } else { "" };
    let (clients, memory) = (readme::clients(deployment, reached), deployment.memory.systemd());
    let (program, unit) = deployment.own_service().map_or_else(Default::default, |own| {
        (
            format!("install -m 0755 {own} /usr/local/bin/{own}\n"),
            format!("install -D -m 0644 {PROGRAM} /etc/systemd/system/{PROGRAM}\n"),
        )
    });
    let values = [
        ("program", program.as_str()),
        ("unit", unit.as_str()),
        ("rows", rows.trim_end()),
        ("before", before),
        ("data", data),
        ("after", after),
        ("keys", keys),
        ("clients", clients.as_str()),
        ("memory", &memory),
    ];
    fill(README, &values)
}

/// The members with the addresses of the command line, or those of now.
fn members(deployment: &Deployment<'_>) -> Outcome<Vec<(u16, String)>> {
    let given = &deployment.args.members;
    let known = |id| deployment.replicas.iter().any(|replica| replica.id == id);
    if let Some((unknown, _)) = given.iter().find(|(id, _)| !known(*id)) {
        return Err(Failure::usage(format!("--members: there is no replica {unknown} in this cluster")));
    }
    if let Some((at, (twice, _))) =
        given.iter().enumerate().find(|(at, (id, _))| given[..*at].iter().any(|(other, _)| other == id))
    {
        let (first, second) =
            (&given[at].1, given.iter().find(|(id, _)| id == twice).map(|(_, address)| address));
        let second = second.map(String::as_str).unwrap_or_default();
        return Err(Failure::usage(format!(
            "--members: replica {twice} is at {second} and at {first}: name it once"
        )));
    }
    let now = deployment.cluster.members.iter().map(|(id, address)| (id.number(), address.clone()));
    if given.is_empty() {
        return Ok(now.collect());
    }
    let given = |id: u16| given.iter().find(|(member, _)| *member == id).cloned();
    let missing = |id: u16| {
        Failure::usage(format!(
            "--members: the address of replica {id} is missing: name all replicas, or none"
        ))
    };
    now.map(|(id, _)| given(id).ok_or_else(|| missing(id))).collect()
}
