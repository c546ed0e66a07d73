//! Files for Kubernetes: one StatefulSet, whose pod `quorate-N` is replica N.
//!
//! The pods have one template, so each sees the secrets of all at its beginning: a container that runs before the replica copies its own into
//! memory, and the replica sees nothing else. A new cluster's volumes are made once, by jobs of their own (`begin/begin.yaml`): if the
//! StatefulSet made them, a replica whose volume was lost would come back without its votes.

use super::deployed::Site;
use super::ports::{FRONTS, Front, PORT, Taken};
use super::readme::{self, Reached};
use super::{Deployment, Files, Planned, container, fill, indent};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use quorate_command::failure::{Failure, Outcome};

const MANIFEST: &str = include_str!("templates/kubernetes.yaml");
const CLIENT_SERVICE: &str = include_str!("templates/kubernetes-client.yaml");
const SECRETS_HEAD: &str = include_str!("templates/kubernetes-secrets.yaml");
const SECRET: &str = include_str!("templates/kubernetes-secret.yaml");
const BEGIN_HEAD: &str = include_str!("templates/kubernetes-begin.yaml");
const BEGIN: &str = include_str!("templates/kubernetes-begin-replica.yaml");
const TAKE_KEYS: &str = include_str!("templates/kubernetes-take-keys.yaml");
const README: &str = include_str!("templates/kubernetes.md");
const README_DATA: &str = include_str!("templates/kubernetes-data.txt");
const README_BEGIN: &str = include_str!("templates/kubernetes-begin.txt");
const README_KEYS: &str = include_str!("templates/kubernetes-keys.txt");
const README_REACHED: &str = "In this Kubernetes they connect to the service `quorate-client`, which leads to any replica that is ready. From\nelsewhere: \
                              `kubectl --namespace {{namespace}} port-forward service/quorate-client PORT`, then `localhost:PORT`.\n";
const README_CERTIFICATES: &str = " The\ncertificates hold for all of these names; one of your own, as of a load balancer, needs `--hosts`. \
                                   Applications find theirs in the secret\n`quorate-client`.";
const MOUNT: &str =
    "            - name: keys\n              mountPath: /etc/quorate/tls\n              readOnly: true\n";

/// The service of clients, and the secret of theirs.
pub(super) const CLIENT: &str = "quorate-client";

/// The secret of a replica.
pub(super) fn secret_name(id: u16) -> String {
    format!("quorate-{id}")
}

pub(super) fn plan(deployment: &Deployment<'_>) -> Outcome<Planned> {
    let args = deployment.args;
    let first = check_ids(deployment)?;
    let namespace = &args.namespace;
    // Found from all namespaces.
    let host = |id: u16| format!("quorate-{id}.quorate.{namespace}.svc");
    let address = |id: u16| format!("{}:{PORT}", host(id));
    let fronts: Vec<Front> = FRONTS
        .into_iter()
        .filter(|front| deployment.replicas.iter().any(|r| r.fronts().contains(front)))
        .collect();
    let port = |front: &Front| front.port(args.front_port);
    let mut taken = Taken::default();
    taken.take("each pod", PORT, "replicas".into())?;
    taken.take("each pod", args.health_port, "probes".into())?;
    for front in &fronts {
        taken.take("each pod", port(front), format!("clients of {}", front.name))?;
    }
    let mut configs = String::new();
    for replica in &deployment.replicas {
        let listens = |front: Front| {
            let announce = format!("{}:{}", host(replica.id), port(&front));
            (front, format!("0.0.0.0:{}", port(&front)), Some(announce))
        };
        let site = Site {
            data: "/var/lib/quorate/data".into(),
            listen: Some(format!("0.0.0.0:{PORT}")),
            health: Some(format!("0.0.0.0:{}", args.health_port)),
            fronts: replica.fronts().into_iter().map(listens).collect(),
            keys: "/etc/quorate/tls".into(),
        };
        let text = replica.config_at(&site, address)?;
        configs.push_str(&format!("  quorate-{}.toml: |\n{}", replica.id, indent(&text, 4)));
    }
    let mut reached = Reached::default();
    fronts.iter().for_each(|front| reached.add(*front, format!("{CLIENT}.{namespace}.svc:{}", port(front))));
    let mut files = Files::new();
    files.insert("quorate.yaml".into(), manifest(deployment, &configs, first, &fronts));
    files.insert("README.md".into(), readme(deployment, &reached));
    container::add(deployment, &mut files);
    let ids = || deployment.replicas.iter().map(|replica| replica.id);
    let hosts = ids().map(|id| (id, hosts(deployment, id))).collect();
    let members = ids().map(|id| (id, address(id))).collect();
    Ok(Planned { files, hosts, members })
}

/// The names of a replica: its pod's, those of both services, of a forwarded port, and those of the command line.
fn hosts(deployment: &Deployment<'_>, id: u16) -> Vec<String> {
    let namespace = &deployment.args.namespace;
    let mut hosts = Vec::new();
    for name in [format!("quorate-{id}.quorate"), "quorate".into(), CLIENT.into()] {
        let endings = ["".into(), format!(".{namespace}"), format!(".{namespace}.svc")];
        let all = endings.into_iter().chain([format!(".{namespace}.svc.cluster.local")]);
        hosts.extend(all.map(|ending| format!("{name}{ending}")));
    }
    hosts.extend(["localhost".into(), "127.0.0.1".into()]);
    hosts.extend(deployment.args.hosts.iter().cloned());
    hosts
}

fn manifest(deployment: &Deployment<'_>, configs: &str, first: u16, fronts: &[Front]) -> String {
    let args = deployment.args;
    let count = deployment.replicas.len();
    // With fewer than three no pod may be away without stopping the cluster.
    let away = if count < 3 { "0" } else { "1" };
    let has_secrets = deployment.has_secrets();
    let (take, mount, volumes) = match has_secrets {
        true => (TAKE_KEYS, MOUNT, volumes(deployment)),
        false => ("", "", String::new()),
    };
    let mut named = vec![("quorate", PORT), ("health", args.health_port)];
    named.extend(fronts.iter().map(|front| (front.name, front.port(args.front_port))));
    let services = |ports: &[(&str, u16)]| -> String {
        ports
            .iter()
            .map(|(name, port)| format!("    - name: {name}\n      port: {port}\n      targetPort: {name}\n"))
            .collect()
    };
    let containers = named
        .iter()
        .map(|(name, port)| format!("            - name: {name}\n              containerPort: {port}\n"));
    let client = match fronts {
        // A service without ports is none.
        [] => String::new(),
        _ => {
            // Not those of operators.
            let clients = fronts.iter().filter(|front| front.key == "listen");
            let clients: Vec<_> = clients.map(|front| (front.name, front.port(args.front_port))).collect();
            fill(CLIENT_SERVICE, &[("ports", &services(&clients))])
        }
    };
    let values = [
        ("client", client.as_str()),
        ("take", take),
        ("mount", mount),
        ("volumes", &volumes),
        ("configs", configs),
        ("services", &services(&named)),
        ("containers", &containers.collect::<String>()),
        ("first", &first.to_string()),
        ("replicas", &count.to_string()),
        ("away", away),
        ("namespace", &args.namespace),
        ("image", &args.image),
        ("storage", &args.storage),
        ("memory", &deployment.memory.binary()),
        ("request", &deployment.memory.request()),
    ];
    fill(MANIFEST, &values)
}

/// The number of the first pod. Pods are numbered without gaps, so ids must be as well.
fn check_ids(deployment: &Deployment<'_>) -> Outcome<u16> {
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

/// The volumes of keys: those of all replicas, each in a directory named like its pod, and what a replica gets of them.
fn volumes(deployment: &Deployment<'_>) -> String {
    let mut text = "        - name: keys\n          emptyDir:\n            medium: Memory\n            sizeLimit: 1Mi\n        \
                    - name: all-keys\n          projected:\n            defaultMode: 288 # 0440\n            sources:\n"
        .to_owned();
    for replica in &deployment.replicas {
        let name = secret_name(replica.id);
        text.push_str(&format!(
            "              - secret:\n                  name: {name}\n                  items:\n"
        ));
        for file in replica.secret_files(deployment.has_tls()) {
            text.push_str(&format!(
                "                    - key: {file}\n                      path: quorate-{}/{file}\n",
                replica.id
            ));
        }
    }
    text
}

/// The manifest of secrets.
pub(super) fn secrets(deployment: &Deployment<'_>, all: &[(String, Files)]) -> String {
    let secret = |(name, files): &(String, Files)| {
        let data: String =
            files.iter().map(|(file, content)| format!("  {file}: {}\n", STANDARD.encode(content))).collect();
        fill(SECRET, &[("name", name), ("namespace", &deployment.args.namespace), ("data", &data)])
    };
    format!("{SECRETS_HEAD}{}", all.iter().map(secret).collect::<Vec<_>>().join("---\n"))
}

/// What makes the volumes of a cluster that begins; nothing for one that has run.
pub(super) fn begin(deployment: &Deployment<'_>, identities: &[(u16, Option<String>)]) -> Outcome<Files> {
    let texts: Vec<(u16, &String)> =
        identities.iter().filter_map(|(id, text)| Some((*id, text.as_ref()?))).collect();
    if texts.is_empty() {
        return Ok(Files::new());
    }
    let args = deployment.args;
    let data: String =
        texts.iter().map(|(id, text)| format!("  quorate-{id}.toml: |\n{}", indent(text, 4))).collect();
    let mut text = fill(BEGIN_HEAD, &[("data", &data), ("namespace", &args.namespace)]);
    for (id, _) in &texts {
        let values = [
            ("id", id.to_string()),
            ("namespace", args.namespace.clone()),
            ("image", args.image.clone()),
            ("storage", args.storage.clone()),
        ];
        let values = values.each_ref().map(|(name, value)| (*name, value.as_str()));
        text.push_str(&fill(BEGIN, &values));
    }
    Ok(Files::from([("begin/begin.yaml".into(), text)]))
}

fn readme(deployment: &Deployment<'_>, reached: &Reached) -> String {
    let args = deployment.args;
    let ids: Vec<String> = deployment.replicas.iter().map(|replica| replica.id.to_string()).collect();
    let is_new = deployment.is_new();
    let (before, begin) = match (is_new, args.empty) {
        (true, true) => ("", README_BEGIN),
        (true, false) => (
            "The cluster has not run yet, and its volumes are made here: do not start DIR, its directory, any more; a replica must never run \
             twice.",
            README_BEGIN,
        ),
        (false, _) => (readme::STOP, README_DATA),
    };
    let has_secrets = deployment.has_secrets();
    let keys = if has_secrets { README_KEYS } else { "" };
    let apply = if has_secrets { "kubectl apply --filename secrets.yaml\n" } else { "" };
    let clients = readme::clients(deployment, reached);
    let before = match before {
        "" => String::new(),
        text => format!(" {}", text.trim()),
    };
    let values = [
        ("begin", begin),
        ("before", &before),
        ("keys", keys),
        ("apply", apply),
        ("clients", clients.as_str()),
        ("reached", if reached.is_empty() { "" } else { README_REACHED }),
        ("certificates", if deployment.has_tls() { README_CERTIFICATES } else { "" }),
        ("ca", if args.empty { "ca" } else { "DIR/ca" }),
        ("ids", &ids.join(" ")),
        ("image", &args.image),
        ("namespace", &args.namespace),
        ("memory", &deployment.memory.binary()),
    ];
    fill(README, &values)
}
