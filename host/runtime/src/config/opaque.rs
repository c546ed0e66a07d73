//! `[service]` and `[front.NAME]`: tables that the runtime does not interpret. They are for the service and the fronts of the program,
//! which the runtime does not know. Tests: config/tests.rs.

use super::{Config, ConfigError};
use quorate_node::ServedByReplicas;
use quorate_types::ServiceName;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use toml::{Table, Value};

/// `[service]`: what the replicas run; the same on all of them
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(expecting = "a table: write the section [service], with name = \"...\"")]
pub struct ServiceConfig {
    /// The name of the service in the program; empty where the program has only one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// The rest of the table: the service's own settings.
    #[serde(flatten)]
    pub settings: Table,
}

impl ServiceConfig {
    /// A service without settings of its own.
    pub fn named(name: &str) -> Self {
        Self { name: name.to_owned(), settings: Table::new() }
    }

    pub(super) fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// The service of a cluster that was made with this level of it.
    ///
    /// # Errors
    /// When the name is none, or there is no such level.
    pub(super) fn made_with(&self, level: u32) -> Result<quorate_node::ServiceConfig, ConfigError> {
        if level == 0 {
            return Err(ConfigError::Invalid("service_level: the first version of a service is 1".into()));
        }
        let name = ServiceName::new(&self.name).ok_or_else(|| {
            let most = ServiceName::BYTES_MAX;
            let text =
                format!("service: {:?} is no name: it has up to {most} letters, digits, - and _", self.name);
            ConfigError::Invalid(text)
        })?;
        Ok(quorate_node::ServiceConfig::made_with(name, level))
    }

    /// The settings that must be the same on all replicas, as a canonical text.
    pub(super) fn agreed(&self) -> String {
        let mut text = self.name.clone();
        write_table(&self.settings, &mut text);
        text
    }
}

/// The version of a service that never changed.
pub(super) const fn first_version() -> u32 {
    1
}

pub(super) const fn is_first_version(version: &u32) -> bool {
    *version == first_version()
}

/// The level that a cluster was made with, in the text of what is agreed; nothing for the first one, so that the text stays.
pub(super) fn level_text(level: u32) -> String {
    if is_first_version(&level) { String::new() } else { format!(" service level {level}") }
}

/// Appends the keys in order, each with its value, so that different tables have different texts.
fn write_table(table: &Table, out: &mut String) {
    out.push('{');
    for (key, value) in table.iter().collect::<BTreeMap<_, _>>() {
        out.push_str(&format!("{key:?}="));
        write_value(value, out);
        out.push(',');
    }
    out.push('}');
}

fn write_value(value: &Value, out: &mut String) {
    match value {
        Value::Table(table) => write_table(table, out),
        Value::Array(values) => {
            out.push('[');
            for value in values {
                write_value(value, out);
                out.push(',');
            }
            out.push(']');
        }
        Value::String(text) => out.push_str(&format!("{text:?}")),
        Value::Integer(number) => out.push_str(&number.to_string()),
        Value::Float(number) => out.push_str(&format!("{number:?}")),
        Value::Boolean(yes) => out.push_str(&yes.to_string()),
        Value::Datetime(time) => out.push_str(&time.to_string()),
    }
}

impl Config {
    /// For whom other replicas may send requests: where no replica lies for clients and operators, else for clients if there are fronts.
    pub(super) fn served_by_replicas(&self) -> ServedByReplicas {
        match self.fault_model.may_lie() {
            false => ServedByReplicas::ClientsAndOperators,
            true if self.front.is_empty() => ServedByReplicas::Nobody,
            true => ServedByReplicas::Clients,
        }
    }

    /// Where clients reach each front that has the key `listen`, by the front's name, for clients and for the status: at `announce`, or where
    /// it listens. One that listens on all addresses is reached on the host of its replica's address.
    pub fn front_addresses(&self) -> BTreeMap<String, String> {
        let own = self.members.iter().find(|member| member.replica == self.replica);
        let host = own.and_then(|member| member.address.rsplit_once(':')).map(|(host, _)| host);
        let address = |(name, table): (&String, &Table)| {
            let text = |key| table.get(key).and_then(Value::as_str);
            let listen = text("listen")?;
            let reached = match (text("announce"), listen.rsplit_once(':'), host) {
                (Some(announced), ..) => announced.to_owned(),
                (None, Some(("0.0.0.0" | "[::]", port)), Some(host)) => format!("{host}:{port}"),
                _ => listen.to_owned(),
            };
            Some((name.clone(), reached))
        };
        self.front.iter().filter_map(address).collect()
    }
}
