//! Files for one machine with containers: each replica is a service of a compose file, with a directory beside it.

use super::{Deployment, Files, HEALTH_PORT, Site, container, fill};
use quorate_command::failure::{Failure, Outcome};
use std::collections::BTreeMap;

const HEAD: &str = include_str!("templates/compose.yaml");
const SERVICE: &str = include_str!("templates/compose-service.yaml");
const README: &str = include_str!("templates/compose.md");

pub(super) fn files(deployment: &Deployment) -> Outcome<Files> {
    let ports = ports(deployment)?;
    let port = |id: u16| ports.get(&id).copied().unwrap_or_default();
    let inside = |id: u16| format!("quorate-{id}:{}", port(id));
    let mut files = Files::new();
    let mut services = String::new();
    for replica in &deployment.replicas {
        let id = replica.id;
        let site = Site {
            data: "/var/lib/quorate/data".into(),
            listen: Some(format!("0.0.0.0:{}", port(id))),
            health: Some(format!("127.0.0.1:{HEALTH_PORT}")),
            tls: "/etc/quorate/tls".into(),
        };
        files.insert(format!("replica-{id}/replica.toml"), replica.config_at(&site, inside)?);
        let tls = if replica.config.contains_key("tls") {
            format!("      - ./replica-{id}/tls:/etc/quorate/tls:ro\n")
        } else {
            String::new()
        };
        let (id, port) = (id.to_string(), port(id).to_string());
        let values = [("id", id.as_str()), ("port", &port), ("image", &deployment.image), ("tls", &tls)];
        services.push_str(&fill(SERVICE, &values));
    }
    let id = deployment.cluster.id.to_string();
    files.insert("compose.yaml".into(), fill(HEAD, &[("cluster", &id), ("services", &services)]));
    files.insert("Containerfile".into(), container::containerfile(deployment));
    files.insert("client.toml".into(), deployment.client_toml(|id| format!("127.0.0.1:{}", port(id)))?);
    let directories: Vec<String> =
        deployment.replicas.iter().map(|replica| format!("replica-{}", replica.id)).collect();
    let tls = if deployment.has_tls() { include_str!("templates/compose-tls.txt") } else { "" };
    let values = [("directories", directories.join(" ")), ("image", deployment.image.clone())];
    let values = values.each_ref().map(|(name, value)| (*name, value.as_str()));
    files.insert("README.md".into(), fill(&fill(README, &[("tls", tls)]), &values));
    Ok(files)
}

/// The port of each replica. It stays the same, so that clients find the replicas.
fn ports(deployment: &Deployment) -> Outcome<BTreeMap<u16, u16>> {
    let mut ports = BTreeMap::new();
    for (replica, address) in &deployment.cluster.members {
        let port = address.rsplit_once(':').and_then(|(_, port)| port.parse::<u16>().ok());
        let port =
            port.ok_or_else(|| Failure::usage(format!("the address {address} of {replica} has no port")))?;
        if port == HEALTH_PORT || ports.values().any(|other| *other == port) {
            return Err(Failure::usage(format!(
                "replica {} has the port {port}, which is taken: on one machine each replica needs a port of its own, and \
                 {HEALTH_PORT} is for probes",
                replica.number()
            )));
        }
        ports.insert(replica.number(), port);
    }
    Ok(ports)
}
