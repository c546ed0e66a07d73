//! A replica that is deployed: its present configuration, and the one at its new place.
//!
//! What its configuration names besides certificates (keys, users) comes along as a secret.

use super::Deployment;
use super::ports::{FRONTS, Front};
use crate::services;
use quorate_command::authority::CA_FILE;
use quorate_command::failure::{Doing as _, Failure, Outcome};
use quorate_command::layout::{REPLICA_FILE, SIGNING, new_cluster_id, replica_directory};
use quorate_command::random;
use quorate_runtime::{Config, Durability, Identity, OracleConfig, SigningKey};
use quorate_types::Incarnation;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};
use toml::{Table, Value};

/// A replica of a deployment.
pub(super) struct Deployed {
    pub(super) id: u16,
    /// Its present configuration, read.
    pub(super) config: Config,
    /// The same, as it is written.
    table: Table,
    /// Secrets that its configuration names, beside its certificate: their files' names and contents.
    pub(super) secrets: BTreeMap<String, String>,
    /// Whether it has not run yet.
    pub(super) is_new: bool,
    /// Whose data directory is to be made; none where there is one.
    pub(super) identity: Option<Identity>,
}

/// The addresses and paths of a deployed replica.
pub(super) struct Site {
    pub(super) data: String,
    /// Where it listens for members; `None`: at its address.
    pub(super) listen: Option<String>,
    pub(super) health: Option<String>,
    /// Where its fronts listen, and where clients reach them, if that is elsewhere.
    pub(super) fronts: Vec<(Front, String, Option<String>)>,
    /// The directory of its keys and certificates.
    pub(super) keys: String,
}

/// The names of the files of a replica's certificate, and of its key.
pub(super) const CERTIFICATE: &str = "replica.pem";
pub(super) const KEY: &str = "replica.key";

impl Deployed {
    /// Reads a replica's configuration and the secrets that it names.
    ///
    /// # Errors
    /// When a file can not be read, or nothing of it can be deployed.
    pub(super) fn read(directory: &Path, id: u16, front_plain: bool) -> Outcome<Self> {
        let place = replica_directory(directory, id);
        let file = place.join(REPLICA_FILE);
        let config = services::read_config(&file)?;
        let text = fs::read_to_string(&file).doing(format_args!("read {}", file.display()))?;
        let table = text.parse();
        let table =
            table.map_err(|why| Failure::usage(format!("{} is not usable: {why}", file.display())))?;
        if config.durability.mode == Durability::Memory {
            return Err(Failure::usage(
                "the cluster has durability \"memory\": what it holds ends with its processes, so there is nothing to deploy. Begin \
                 with `quorate dev --fresh`, or make a cluster with `quorate init`",
            ));
        }
        if let Some(OracleConfig::Quorate { client, .. }) = &config.oracle {
            return Err(Failure::usage(format!(
                "the cluster asks an oracle, another cluster, by {}: that one must be deployed first, and no file here would lead to it. \
                 Deploy it, then make this cluster with `quorate init --oracle quorate:FILE`",
                client.display()
            )));
        }
        let data = &config.data;
        let is_new = data.join("fresh").exists() && !data.join("run.toml").exists();
        let (secrets, identity) = (BTreeMap::new(), None);
        let mut replica = Self { id, config, table, secrets, is_new, identity };
        replica.take_secrets(&place)?;
        replica.close_front(front_plain);
        Ok(replica)
    }

    /// Reads the secrets that the configuration names.
    fn take_secrets(&mut self, place: &Path) -> Outcome<()> {
        for (path, name) in SECRETS {
            if let Some(file) = value_at(&mut self.table, path).and_then(|value| value.as_str()) {
                let file = place.join(file);
                let text = fs::read_to_string(&file).doing(format_args!("read {}", file.display()))?;
                self.secrets.insert(name.to_owned(), text);
            }
        }
        Ok(())
    }

    /// `dev` lets clients of ZooKeeper in without certificates, since only its machine reaches the replicas. Elsewhere that is a choice.
    fn close_front(&mut self, plain: bool) {
        let front = self.table.get_mut("front").and_then(|front| front.get_mut("zookeeper"));
        let Some(front) = front.and_then(Value::as_table_mut) else { return };
        if plain {
            front.insert("plain".into(), true.into());
            return;
        }
        let is_dev = front.remove("plain").is_some_and(|plain| plain.as_bool() == Some(true));
        if is_dev && front.get("words") == Some(&Value::Array(vec!["*".into()])) {
            front.remove("words");
        }
    }

    /// Its ports for clients.
    pub(super) fn fronts(&self) -> Vec<Front> {
        let has = |front: &Front| {
            self.config.front.get(front.table).is_some_and(|table| table.contains_key(front.key))
        };
        FRONTS.into_iter().filter(has).collect()
    }

    /// The names of all its secret files, those of its certificate included.
    pub(super) fn secret_files(&self, has_tls: bool) -> Vec<String> {
        let tls: &[&str] = if has_tls { &[CA_FILE, CERTIFICATE, KEY] } else { &[] };
        tls.iter().map(|name| (*name).to_owned()).chain(self.secrets.keys().cloned()).collect()
    }

    /// The configuration of the replica at another site, with these addresses of members.
    ///
    /// # Errors
    /// When it can not be written down.
    pub(super) fn config_at(&self, site: &Site, address: impl Fn(u16) -> String) -> Outcome<String> {
        let mut table = self.table.clone();
        table.insert("data".into(), site.data.clone().into());
        for (key, value) in [("listen", &site.listen), ("health", &site.health)] {
            match value {
                Some(value) => drop(table.insert(key.into(), value.clone().into())),
                None => drop(table.remove(key)),
            }
        }
        for (front, listen, announce) in &site.fronts {
            let Some(lines) = value_at(&mut table, &["front", front.table]).and_then(Value::as_table_mut)
            else {
                continue;
            };
            lines.insert(front.key.into(), listen.clone().into());
            if front.key == "listen" {
                match announce {
                    Some(reached) => drop(lines.insert("announce".into(), reached.clone().into())),
                    None => drop(lines.remove("announce")),
                }
            }
        }
        for member in table.get_mut("members").and_then(Value::as_array_mut).into_iter().flatten() {
            let id = member.get("replica").and_then(Value::as_integer).and_then(|id| u16::try_from(id).ok());
            if let (Some(id), Some(member)) = (id, member.as_table_mut()) {
                member.insert("address".into(), address(id).into());
                // Further addresses are those of the old place.
                member.remove("links");
            }
        }
        if let Some(tls) = table.get_mut("tls").and_then(Value::as_table_mut) {
            for (key, name) in [("ca", CA_FILE), ("certificate", CERTIFICATE), ("key", KEY)] {
                tls.insert(key.into(), format!("{}/{name}", site.keys).into());
            }
        }
        for (path, name) in SECRETS {
            if let Some(file) = value_at(&mut table, path) {
                *file = format!("{}/{name}", site.keys).into();
            }
        }
        let text = toml::to_string(&sorted(table)).doing("write down a configuration")?;
        Ok(format!(
            "# Replica {}; made by `quorate dev export`. docs/configuration.md explains every key.\n{text}",
            self.id
        ))
    }
}

/// The secrets that a configuration may name, and the names of their files at the new place.
const SECRETS: [(&[&str], &str); 6] = [
    (&["signing", "key"], SIGNING),
    (&["front", "etcd", "tokens", "key"], "tokens.key"),
    (&["front", "zookeeper", "sasl_users"], "sasl_users"),
    (&["oracle", "tls", "ca"], "oracle-ca.pem"),
    (&["oracle", "tls", "certificate"], "oracle.pem"),
    (&["oracle", "tls", "key"], "oracle.key"),
];

/// What stands at this path of keys.
fn value_at<'a>(table: &'a mut Table, path: &[&str]) -> Option<&'a mut Value> {
    let (first, rest) = path.split_first()?;
    rest.iter().try_fold(table.get_mut(*first)?, |value, key| value.get_mut(*key))
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

impl Deployment<'_> {
    /// Keeps the settings only: the cluster has a new id and begins now, and each replica has a new life.
    ///
    /// # Errors
    /// When the system has no random numbers.
    pub(super) fn begin_anew(&mut self) -> Outcome<()> {
        self.cluster.id = new_cluster_id()?;
        let start = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
        let start_time_ns = u64::try_from(start).unwrap_or_default();
        let mut members = Vec::new();
        for replica in &mut self.replicas {
            let incarnation = Incarnation::new(random::number()?);
            let mut member = Table::new();
            member.insert("replica".into(), i64::from(replica.id).into());
            member.insert("incarnation".into(), incarnation.to_string().into());
            if replica.secrets.contains_key(SIGNING) {
                let key = SigningKey::new(random::secret()?);
                member.insert("key".into(), key.public().into());
                replica.secrets.insert(SIGNING.into(), key.to_text());
            }
            members.push(Value::Table(member));
            replica.is_new = true;
            replica.identity = Some(Identity {
                cluster: self.cluster.id,
                replica: replica.id,
                incarnation,
                log_id: random::number()?,
                start_time_ns,
            });
        }
        for replica in &mut self.replicas {
            let table = &mut replica.table;
            table.insert("cluster".into(), self.cluster.id.to_string().into());
            table.insert("level".into(), i64::from(quorate_wire::FEATURE_LEVEL).into());
            table.insert("members".into(), Value::Array(members.clone()));
            table.remove("membership");
            table.remove("created");
        }
        Ok(())
    }
}
