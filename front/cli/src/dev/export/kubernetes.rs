//! Files for Kubernetes: one StatefulSet, whose pod `quorate-N` is replica N.

use super::{Deployment, Files, HEALTH_PORT, PORT, Site, container, fill, indent};
use quorate_command::failure::{Failure, Outcome};

const MANIFEST: &str = include_str!("templates/kubernetes.yaml");
const MOUNT: &str =
    "            - name: tls\n              mountPath: /etc/quorate/tls\n              readOnly: true\n";
const README: &str = include_str!("templates/kubernetes.md");

pub(super) fn files(deployment: &Deployment) -> Outcome<Files> {
    let first = check_ids(deployment)?;
    let address = |id: u16| format!("quorate-{id}.quorate:{PORT}");
    let mut configs = String::new();
    for replica in &deployment.replicas {
        let site = Site {
            data: "/var/lib/quorate/data".into(),
            listen: Some(format!("0.0.0.0:{PORT}")),
            health: Some(format!("0.0.0.0:{HEALTH_PORT}")),
            tls: format!("/etc/quorate/tls/replica-{}", replica.id),
        };
        let text = replica.config_at(&site, address)?;
        configs.push_str(&format!("  quorate-{}.toml: |\n{}", replica.id, indent(&text, 4)));
    }
    let count = deployment.replicas.len();
    let (first, replicas) = (first.to_string(), count.to_string());
    // With fewer than three no pod may be away without stopping the cluster.
    let away = if count < 3 { "0" } else { "1" };
    let tls = deployment.has_tls();
    let (mount, volume) = if tls { (MOUNT, volume(deployment)) } else { ("", String::new()) };
    let (port, health) = (PORT.to_string(), HEALTH_PORT.to_string());
    let values = [
        ("configs", configs.as_str()),
        ("first", &first),
        ("replicas", &replicas),
        ("away", away),
        ("image", &deployment.image),
        ("storage", &deployment.storage),
        ("mount", mount),
        ("volume", &volume),
        ("port", &port),
        ("health", &health),
    ];
    let mut files = Files::new();
    files.insert("quorate.yaml".into(), fill(MANIFEST, &values));
    files.insert("Containerfile".into(), container::containerfile(deployment));
    files.insert("client.toml".into(), deployment.client_toml(address)?);
    let ids: Vec<String> = deployment.replicas.iter().map(|replica| replica.id.to_string()).collect();
    let secret = if tls { secret_md(deployment) } else { String::new() };
    let values = [("ids", ids.join(" ")), ("tls", secret), ("image", deployment.image.clone())];
    let values = values.each_ref().map(|(name, value)| (*name, value.as_str()));
    files.insert("README.md".into(), fill(README, &values));
    Ok(files)
}

/// The number of the first pod. Pods are numbered without gaps, so ids must be as well.
fn check_ids(deployment: &Deployment) -> Outcome<u16> {
    let mut ids: Vec<u16> = deployment.replicas.iter().map(|replica| replica.id).collect();
    ids.sort_unstable();
    let gap = ids.windows(2).find(|pair| pair[0].checked_add(1) != Some(pair[1]));
    match (ids.first(), gap) {
        (Some(first), None) => Ok(*first),
        (_, Some(gap)) => Err(Failure::usage(format!(
            "a StatefulSet numbers its pods without gaps, but replica {} is followed by replica {}: deploy it with \
             --systemd or --compose",
            gap[0], gap[1]
        ))),
        (None, None) => Err(Failure::usage("the cluster has no replicas")),
    }
}

/// The files of a replica's certificate, as its configuration names them.
fn tls_files(replica: &super::Deployed) -> Vec<String> {
    let section = replica.config.get("tls").and_then(toml::Value::as_table);
    let paths = section.into_iter().flat_map(|table| table.iter().filter_map(|(_, path)| path.as_str()));
    let names = paths.filter_map(|path| path.rsplit('/').next().map(str::to_owned));
    let mut names: Vec<String> = names.collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// The volume of the secret, with a directory for each replica.
fn volume(deployment: &Deployment) -> String {
    let mut text = "        - name: tls\n          secret:\n            secretName: quorate-tls\n            defaultMode: 288 # 0440\n            \
                    items:\n"
        .to_owned();
    for replica in &deployment.replicas {
        let id = replica.id;
        for name in tls_files(replica) {
            text.push_str(&format!(
                "              - key: replica-{id}.{name}\n                path: replica-{id}/{name}\n"
            ));
        }
    }
    text
}

/// Says how to make the secret.
fn secret_md(deployment: &Deployment) -> String {
    let mut lines = Vec::new();
    for replica in &deployment.replicas {
        for name in tls_files(replica) {
            let id = replica.id;
            lines.push(format!("  --from-file=replica-{id}.{name}=DIR/replica-{id}/tls/{name}"));
        }
    }
    fill(include_str!("templates/kubernetes-tls.txt"), &[("files", &lines.join(" \\\n"))])
}
