//! The services of this program: reads `[service]`, which the runtime does not interpret.

use crate::fronts::{Fronts, Ways};
use crate::{etcd, zookeeper};
use quorate_command::failure::{Failure, Outcome};
use quorate_execute::{InStore, Parallel, Service};
use quorate_kit::settings::{self, SettingsError};
use quorate_kv::lists::Lists;
use quorate_kv::shop::Shop;
use quorate_kv::{Echo, Kv, KvConfig, Tally, Work};
use quorate_oracle::Registers;
use quorate_runtime::{Config, ServiceConfig};
use serde::{Deserialize, Serialize};
use std::path::Path;
use toml::Table;

/// The name of the table in errors.
const SERVICE: &str = "service";
/// The names of the services.
const NAMES: &str =
    "\"kv\", \"etcd\", \"zookeeper\", \"oracle\", \"tally\", \"echo\", \"work\", \"shop\" and \"lists\"";

/// The settings of the service `kv`: its limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct KvSettings {
    /// The longest key, in bytes.
    key_bytes: u64,
    /// The longest value, in bytes.
    value_bytes: u64,
}

impl Default for KvSettings {
    fn default() -> Self {
        Self { key_bytes: 4 << 10, value_bytes: 1 << 20 }
    }
}

/// The settings of services that have none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Nothing {}

/// Reads the configuration of a replica with that of its service and fronts. The service's settings are completed with defaults, so that
/// replicas that leave some out agree with those that do not.
///
/// # Errors
/// Names the wrong key, and what would be right.
pub(crate) fn read_config(file: &Path) -> Outcome<Config> {
    let mut config = Config::read(file).map_err(|why| Failure::usage(why.to_string()))?;
    let place = file.parent().unwrap_or(Path::new(""));
    let checked = complete(&mut config.service).and_then(|()| Fronts::read(&config, place));
    checked.map_err(|why| {
        Failure::usage(format!(
            "the configuration {} is not usable: {why}\nEvery key is explained in docs/configuration.md",
            file.display()
        ))
    })?;
    Ok(config)
}

fn complete(service: &mut ServiceConfig) -> Result<(), SettingsError> {
    match service.name.as_str() {
        "kv" => service.settings = full(&kv(&service.settings)?)?,
        zookeeper::FRONT => {
            service.settings = full(&zookeeper::Settings::read(SERVICE, &service.settings)?)?;
        }
        "etcd" | "oracle" | "tally" | "echo" | "work" | "shop" | "lists" => {
            let Nothing {} = settings::read(SERVICE, &service.settings)?;
        }
        "" => {
            let why = format!("name: say which runs, as in name = \"kv\"; this program has {NAMES}");
            return Err(SettingsError::new(SERVICE, why));
        }
        // One that a program of the user's own runs. It reads its settings itself.
        _ => {}
    }
    Ok(())
}

fn full(settings: &impl Serialize) -> Result<Table, SettingsError> {
    Table::try_from(settings).map_err(|why| SettingsError::new(SERVICE, why))
}

fn kv(table: &Table) -> Result<KvSettings, SettingsError> {
    let kv: KvSettings = settings::read(SERVICE, table)?;
    settings::range(SERVICE, "key_bytes", kv.key_bytes, (1..=65_536, "65536"))?;
    settings::range(SERVICE, "value_bytes", kv.value_bytes, (1..=2 << 20, "2097152 (2 MiB)"))?;
    Ok(kv)
}

/// The service that a configuration names, which [`read_config`] returned.
///
/// # Errors
/// Those of [`read_config`]; and when a program of the user's own runs it.
pub(crate) fn service(config: &ServiceConfig, ways: &Ways) -> Outcome<Box<dyn Service>> {
    Ok(match config.name.as_str() {
        "etcd" => etcd::service(&ways.etcd),
        zookeeper::FRONT => {
            let settings = zookeeper::Settings::read(SERVICE, &config.settings);
            settings.map_err(|why| Failure::usage(why.to_string()))?.service(&ways.zookeeper)
        }
        "oracle" => Box::new(InStore::new(Registers)),
        "tally" => Box::new(Tally::default()),
        "echo" => Box::new(Echo::default()),
        "work" => Box::new(InStore::new(Parallel::new(Work::default()))),
        "shop" => Box::new(InStore::new(Parallel::new(Shop))),
        "lists" => Box::new(InStore::new(Lists)),
        "kv" => {
            let limits = kv(&config.settings).map_err(|why| Failure::usage(why.to_string()))?;
            let (key_bytes_max, value_bytes_max) = (limits.key_bytes, limits.value_bytes);
            let config = KvConfig { key_bytes_max, value_bytes_max, ..KvConfig::default() };
            Box::new(InStore::new(Parallel::new(Kv::new(config))))
        }
        other => {
            return Err(Failure::usage(format!(
                "service: name: there is no \"{other}\"; this program has {NAMES}. A service of your own runs in a program of your own: \
                 docs/services.md"
            )));
        }
    })
}

#[cfg(test)]
mod tests;
