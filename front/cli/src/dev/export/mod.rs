//! `quorate dev export`: writes files with which the cluster of a `dev` directory can be deployed: systemd units, containers, Kubernetes.
//!
//! Ids, incarnations and settings come from the replicas' configurations. Only addresses, paths and the address of probes change. The data
//! stays where it is; people move it once by hand, while no replica runs. A file that put it back automatically would revive a replica with
//! an emptied disk, which must not vote. Certificates are named but never copied or printed.
//! Tests: tests/export.rs, with golden files.

mod compose;
mod container;
mod kubernetes;
mod systemd;

use crate::init::parse_member;
use quorate_command::cluster::{CLIENT_FILE, Cluster, DEV_DIRECTORY};
use quorate_command::failure::{Doing as _, Failure, Outcome};
use quorate_command::layout::{self, REPLICA_FILE, replica_directory};
use quorate_command::print;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use toml::{Table, Value};

/// Write the files of a real deployment.
///
/// Takes ids and settings from the cluster in the directory of `quorate dev`, which may run or not, and changes nothing there. The
/// README.md among the files says what to do next.
#[derive(Debug, clap::Args)]
#[command(
    group(clap::ArgGroup::new("kind").required(true).args(["systemd", "compose", "kubernetes"])),
    after_help = "Examples:
  quorate dev export --systemd --members 1=10.0.0.1:7000,2=10.0.0.2:7000,3=10.0.0.3:7000
  quorate dev export --compose --out here
  quorate dev export --kubernetes --image registry.example.org/quorate:1 --storage 50Gi"
)]
pub(crate) struct Args {
    /// For machines with systemd: a hardened unit, a user, and a configuration for each replica
    #[arg(long)]
    systemd: bool,
    /// For one machine with containers: a Containerfile and a compose file
    #[arg(long)]
    compose: bool,
    /// For Kubernetes: a StatefulSet with its services, probes and disruption budget
    #[arg(long)]
    kubernetes: bool,
    /// Where the cluster is
    #[arg(long, value_name = "DIR", default_value = DEV_DIRECTORY)]
    dir: PathBuf,
    /// Where to write; must not exist, or be empty [default: ./deploy-systemd, ./deploy-compose or ./deploy-kubernetes]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Where the replicas listen [default: as now, which is this machine]
    #[arg(long, value_name = "ID=HOST:PORT,...", value_delimiter = ',', value_parser = parse_member,
          conflicts_with_all = ["compose", "kubernetes"])]
    members: Vec<(u16, String)>,
    /// The name of the image of the containers
    #[arg(long, value_name = "NAME", default_value = concat!("quorate:", env!("CARGO_PKG_VERSION")), conflicts_with = "systemd",
          value_parser = parse_word)]
    image: String,
    /// How large the volume of each replica is
    #[arg(long, value_name = "QUANTITY", default_value = "20Gi", conflicts_with_all = ["systemd", "compose"], value_parser = parse_word)]
    storage: String,
}

/// The port on which probes ask, where each replica has an address of its own.
const HEALTH_PORT: u16 = 8080;
/// The port on which replicas listen, where each has an address of its own.
const PORT: u16 = 7000;

/// A cluster to be deployed.
struct Deployment {
    cluster: Cluster,
    replicas: Vec<Deployed>,
    image: String,
    storage: String,
}

/// A replica of it.
struct Deployed {
    id: u16,
    /// Its present configuration.
    config: Table,
}

/// The addresses and paths of a deployed replica.
struct Site {
    data: String,
    listen: Option<String>,
    health: Option<String>,
    /// The directory of its certificates.
    tls: String,
}

/// Files to write, by name.
type Files = BTreeMap<String, String>;

pub(crate) fn run(args: &Args) -> Outcome {
    let deployment = Deployment::read(args)?;
    let (kind, files) = if args.systemd {
        ("systemd", systemd::files(&deployment, &args.members)?)
    } else if args.compose {
        ("compose", compose::files(&deployment)?)
    } else {
        ("kubernetes", kubernetes::files(&deployment)?)
    };
    let out = args.out.clone().unwrap_or_else(|| PathBuf::from(format!("deploy-{kind}")));
    layout::refuse_used(&out)?;
    for (name, text) in &files {
        write(&out.join(name), text)?;
    }
    let names: Vec<String> = files.keys().map(|name| format!("  {}", out.join(name).display())).collect();
    let readme = out.join("README.md");
    print::line(format!("{}\n\n{} says what to do next.", names.join("\n"), readme.display()))?;
    Ok(ExitCode::SUCCESS)
}

fn write(file: &Path, text: &str) -> Outcome<()> {
    let shown = file.display();
    if let Some(directory) = file.parent() {
        fs::create_dir_all(directory).doing(format_args!("make {}", directory.display()))?;
    }
    fs::write(file, text).doing(format_args!("write {shown}"))
}

impl Deployment {
    fn read(args: &Args) -> Outcome<Self> {
        let remedy = "Name the directory of a `quorate dev` with --dir";
        let cluster = Cluster::read(&args.dir.join(CLIENT_FILE), remedy)?;
        let replicas: Vec<Deployed> = cluster
            .members
            .iter()
            .map(|(replica, _)| Deployed::read(&args.dir, replica.number()))
            .collect::<Outcome<_>>()?;
        Ok(Self { cluster, replicas, image: args.image.clone(), storage: args.storage.clone() })
    }

    fn has_tls(&self) -> bool {
        self.replicas.iter().any(|replica| replica.config.contains_key("tls"))
    }

    /// The `client.toml` for these addresses: the cluster, its members, and the paths of clients' certificates.
    fn client_toml(&self, address: impl Fn(u16) -> String) -> Outcome<String> {
        let members = self.cluster.members.iter();
        let members = members.map(|(id, _)| (*id, address(id.number()))).collect();
        let directory = &self.cluster.directory;
        let here = |path: &Path| path.strip_prefix(directory).unwrap_or(path).to_owned();
        let mut cluster = Cluster { members, ..self.cluster.clone() };
        for files in
            cluster.tls.iter_mut().flat_map(|tls| [Some(&mut tls.client), tls.admin.as_mut()]).flatten()
        {
            (files.ca, files.certificate, files.key) =
                (here(&files.ca), here(&files.certificate), here(&files.key));
        }
        Ok(cluster.to_toml())
    }
}

impl Deployed {
    fn read(directory: &Path, id: u16) -> Outcome<Self> {
        let file = replica_directory(directory, id).join(REPLICA_FILE);
        let shown = file.display();
        let text = fs::read_to_string(&file).doing(format_args!("read {shown}"))?;
        let config: Table =
            text.parse().map_err(|why| Failure::usage(format!("{shown} is not usable: {why}")))?;
        let mode = config.get("durability").and_then(|section| section.get("mode"));
        if mode.and_then(Value::as_str) == Some("memory") {
            return Err(Failure::usage(
                "the cluster has durability \"memory\": what it holds ends with its processes, so there is nothing to deploy. Begin \
                 with `quorate dev --fresh`, or make a cluster with `quorate init`",
            ));
        }
        Ok(Self { id, config })
    }

    /// The configuration of the replica at another site, with these addresses of members.
    fn config_at(&self, site: &Site, address: impl Fn(u16) -> String) -> Outcome<String> {
        let mut config = self.config.clone();
        config.insert("data".into(), site.data.clone().into());
        for (key, value) in [("listen", &site.listen), ("health", &site.health)] {
            match value {
                Some(value) => drop(config.insert(key.into(), value.clone().into())),
                None => drop(config.remove(key)),
            }
        }
        let own = site.listen.clone().unwrap_or_else(|| address(self.id));
        for (_, front) in config.get_mut("front").and_then(Value::as_table_mut).into_iter().flatten() {
            let listen = front.get("listen").and_then(Value::as_str);
            let listen = listen.and_then(|listen| elsewhere(listen, &own));
            if let (Some(listen), Some(front)) = (listen, front.as_table_mut()) {
                front.insert("listen".into(), listen.into());
            }
        }
        for member in config.get_mut("members").and_then(Value::as_array_mut).into_iter().flatten() {
            let id = member.get("replica").and_then(Value::as_integer).and_then(|id| u16::try_from(id).ok());
            if let (Some(id), Some(member)) = (id, member.as_table_mut()) {
                member.insert("address".into(), address(id).into());
            }
        }
        for (_, file) in config.get_mut("tls").and_then(Value::as_table_mut).into_iter().flatten() {
            let name =
                file.as_str().and_then(|path| Path::new(path).file_name()).and_then(|name| name.to_str());
            if let Some(name) = name {
                *file = format!("{}/{name}", site.tls).into();
            }
        }
        let text = toml::to_string(&sorted(config)).doing("write down a configuration")?;
        Ok(format!(
            "# Replica {}; made by `quorate dev export`. docs/configuration.md explains every key.\n{text}",
            self.id
        ))
    }
}

/// The address of a front on the host of `address`, with the same port as now.
fn elsewhere(listen: &str, address: &str) -> Option<String> {
    let (host, _) = address.rsplit_once(':')?;
    let (_, port) = listen.rsplit_once(':')?;
    Some(format!("{host}:{port}"))
}

/// The table in alphabetical order.
fn sorted(table: Table) -> Table {
    let sorted_value = |value| match value {
        Value::Table(table) => Value::Table(sorted(table)),
        Value::Array(values) => Value::Array(
            values
                .into_iter()
                .map(|value| match value {
                    Value::Table(table) => Value::Table(sorted(table)),
                    other => other,
                })
                .collect(),
        ),
        other => other,
    };
    let ordered: BTreeMap<String, Value> = table.into_iter().collect();
    ordered.into_iter().map(|(key, value)| (key, sorted_value(value))).collect()
}

/// A word that YAML takes without quotes; enough for names of images and quantities.
fn parse_word(text: &str) -> Result<String, String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-/:@".contains(c);
    let begins = text.starts_with(|c: char| c.is_ascii_alphanumeric());
    if begins && text.len() <= 255 && text.chars().all(plain) && !text.ends_with(':') {
        return Ok(text.to_owned());
    }
    Err("letters, digits and . _ - / : @ may stand here".to_owned())
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
