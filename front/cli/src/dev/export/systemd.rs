//! Files for machines with systemd: one template unit; each replica is an instance of it.

use super::{Deployment, Files, Site, fill};
use quorate_command::failure::{Failure, Outcome};

const UNIT: &str = include_str!("templates/quorate@.service");
const USER: &str = include_str!("templates/sysusers.conf");
const README: &str = include_str!("templates/systemd.md");

pub(super) fn files(deployment: &Deployment, members: &[(u16, String)]) -> Outcome<Files> {
    let known = |id| deployment.replicas.iter().any(|replica| replica.id == id);
    if let Some((unknown, _)) = members.iter().find(|(id, _)| !known(*id)) {
        return Err(Failure::usage(format!("--members: there is no replica {unknown} in this cluster")));
    }
    let address = |id: u16| {
        let given = members.iter().find(|(member, _)| *member == id).map(|(_, address)| address.clone());
        let now = || deployment.cluster.members.iter().find(|(member, _)| member.number() == id);
        given.or_else(|| now().map(|(_, address)| address.clone())).unwrap_or_default()
    };
    if !members.is_empty()
        && let Some(missing) = deployment.replicas.iter().find(|r| !members.iter().any(|(id, _)| *id == r.id))
    {
        return Err(Failure::usage(format!(
            "--members: the address of replica {} is missing: name all replicas, or none",
            missing.id
        )));
    }
    let mut files = Files::new();
    files.insert("quorate@.service".into(), UNIT.into());
    files.insert("quorate.sysusers.conf".into(), USER.into());
    for replica in &deployment.replicas {
        let id = replica.id;
        let site = Site {
            data: format!("/var/lib/quorate/replica-{id}/data"),
            listen: None,
            health: None,
            tls: format!("/etc/quorate/replica-{id}/tls"),
        };
        files.insert(format!("replica-{id}/replica.toml"), replica.config_at(&site, address)?);
    }
    files.insert("client.toml".into(), deployment.client_toml(address)?);
    let rows = deployment.replicas.iter().map(|replica| {
        format!("| {} | {} | `quorate@{}.service` |\n", replica.id, address(replica.id), replica.id)
    });
    let rows: String = rows.collect();
    let tls = if deployment.has_tls() { include_str!("templates/systemd-tls.txt") } else { "" };
    files.insert("README.md".into(), fill(README, &[("rows", rows.trim_end()), ("tls", tls)]));
    Ok(files)
}
