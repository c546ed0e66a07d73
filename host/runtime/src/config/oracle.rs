//! `[oracle]`: the service that grants small quorums, where few members are slow (docs/protocols/visigoth.md).
//! Tests: config/tests.rs.

use super::{Config, ConfigError, has_port, invalid};
use quorate_tls::TlsFiles;
use quorate_types::{ClusterId, Visigoth};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

/// `[oracle]`: all replicas must name the same service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase", deny_unknown_fields)]
pub enum OracleConfig {
    /// Another Quorate cluster, which survives crash faults and runs the key-value store.
    Quorate {
        /// That cluster's id.
        cluster: String,
        /// Its `client.toml`; relative to this file.
        client: PathBuf,
    },
    /// An etcd.
    Etcd {
        /// The addresses for its clients, each `host:port`; the same on all replicas.
        endpoints: Vec<String>,
        /// The certificates, if it wants some; relative to this file.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tls: Option<TlsFiles>,
    },
    /// A ZooKeeper.
    Zookeeper {
        /// The addresses for its clients, each `host:port`; the same on all replicas.
        servers: Vec<String>,
    },
    /// None: the operator is sure that never more than s replicas are slow at a time.
    None {
        /// Why, in the operator's own words.
        because: String,
    },
}

/// Why some kinds do not do.
pub const NEEDS_THE_RULE: &str = "oracle: with o above 0 a replica that lies could write there what it likes, so the oracle has to know the \
     rule: name another Quorate cluster that runs the service \"oracle\", or write o = 0";

/// Why there must be one.
pub const NEEDS_AN_ORACLE: &str = "oracle: with o above 0 a leader that lies could call others slow, so there must be an oracle: name another \
     Quorate cluster that runs the service \"oracle\", or write o = 0";

impl OracleConfig {
    /// The same with paths that begin in this directory.
    pub(super) fn relative_to(self, place: &Path) -> Self {
        match self {
            Self::Quorate { cluster, client } => Self::Quorate { cluster, client: place.join(client) },
            Self::Etcd { endpoints, tls } => {
                Self::Etcd { endpoints, tls: tls.map(|files| files.relative_to(place)) }
            }
            other @ (Self::Zookeeper { .. } | Self::None { .. }) => other,
        }
    }

    fn check(&self) -> Result<(), ConfigError> {
        match self {
            Self::Quorate { cluster, .. } if ClusterId::parse(cluster).is_none() => {
                invalid("oracle: cluster: an id has 32 hexadecimal digits; that cluster's client.toml has it")
            }
            Self::Quorate { .. } => Ok(()),
            Self::Etcd { endpoints, .. } => check_addresses("endpoints", endpoints),
            Self::Zookeeper { servers } => check_addresses("servers", servers),
            Self::None { because } if because.trim().is_empty() => invalid(
                "oracle: because: write down why never more than s replicas are slow at a time: if ever more are, the cluster splits, and \
                 both parts acknowledge writes",
            ),
            Self::None { .. } => Ok(()),
        }
    }
}

/// What all replicas must have in common. Two oracles would each grant a quorum.
impl fmt::Display for OracleConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Quorate { cluster, .. } => write!(f, "quorate {}", cluster.to_lowercase()),
            Self::Etcd { endpoints, .. } => write!(f, "etcd {}", endpoints.join(",")),
            Self::Zookeeper { servers } => write!(f, "zookeeper {}", servers.join(",")),
            Self::None { .. } => f.write_str("none"),
        }
    }
}

/// Whether the address is on this machine, whichever that is.
fn is_loopback(address: &str) -> bool {
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host).trim_matches(['[', ']']);
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

fn check_addresses(key: &str, addresses: &[String]) -> Result<(), ConfigError> {
    match addresses.iter().find(|address| !has_port(address)) {
        Some(wrong) => {
            invalid(format!("oracle: {key}: an address is host:port, as in \"10.0.0.1:2379\", not {wrong:?}"))
        }
        None if addresses.is_empty() => invalid(format!("oracle: {key}: name at least one address")),
        None => Ok(()),
    }
}

impl Config {
    /// Checks `[oracle]` by itself.
    pub(super) fn check_oracle_section(&self) -> Result<(), ConfigError> {
        match &self.oracle {
            Some(_) if !self.fault_model.few_are_slow() => invalid(
                "oracle: only the fault model \"visigoth\" with s below u asks one: leave the section out",
            ),
            Some(OracleConfig::Etcd { .. } | OracleConfig::Zookeeper { .. })
                if self.fault_model.may_lie() =>
            {
                invalid(NEEDS_THE_RULE)
            }
            Some(OracleConfig::None { .. }) if self.fault_model.may_lie() => invalid(NEEDS_AN_ORACLE),
            Some(oracle) => oracle.check().and_then(|()| self.check_is_another(oracle)),
            None => Ok(()),
        }
    }

    /// Refuses what means something else on each machine, and a cluster that asks itself.
    fn check_is_another(&self, oracle: &OracleConfig) -> Result<(), ConfigError> {
        let addresses = match oracle {
            OracleConfig::Quorate { cluster, .. } => {
                return match ClusterId::parse(cluster) == Some(self.cluster_id()?) {
                    true => invalid(
                        "oracle: cluster: this is this cluster itself, which can not decide while it is halved",
                    ),
                    false => Ok(()),
                };
            }
            OracleConfig::Etcd { endpoints, .. } => endpoints,
            OracleConfig::Zookeeper { servers } => servers,
            OracleConfig::None { .. } => return Ok(()),
        };
        let apart = self.members.iter().any(|member| !is_loopback(&member.address));
        match addresses.iter().find(|address| apart && is_loopback(address)) {
            Some(address) => invalid(format!(
                "oracle: {address} is another service on each machine, and each would grant a half of the replicas: name one that means the \
                 same everywhere"
            )),
            None => Ok(()),
        }
    }

    /// Whether the operator wrote down that there is no oracle.
    pub fn does_without_an_oracle(&self) -> bool {
        matches!(self.oracle, Some(OracleConfig::None { .. }))
    }

    /// Checks everything, and whether there is an oracle, if the fault model needs one.
    pub(crate) fn check_with(&self, oracle: bool) -> Result<(), ConfigError> {
        self.check()?;
        if oracle && self.does_without_an_oracle() {
            return invalid(
                "oracle: the configuration says that there is none: leave the section out, or `Options::oracle`",
            );
        }
        self.check_oracle(oracle || self.does_without_an_oracle())
    }

    /// Checks whether there is an oracle, if the fault model needs one.
    pub(super) fn check_oracle(&self, given: bool) -> Result<(), ConfigError> {
        match self.fault_model.visigoth() {
            Some(numbers) if self.fault_model.few_are_slow() && !given => invalid(format!(
                "oracle: with s = {} below u = {} two halves of the replicas could each take the other for stopped. Name a service in the \
                 section [oracle] that decides between them, or in a program of your own in `Options::oracle` (docs/configuration.md), or write s = {}, with {} replicas",
                numbers.s,
                numbers.u,
                numbers.u,
                Visigoth { s: numbers.u, ..numbers }.members_min()
            )),
            _ => Ok(()),
        }
    }

    /// The part of the oracle that must be the same on all replicas.
    pub(super) fn agreed_oracle(&self) -> String {
        self.oracle.as_ref().map_or_else(String::new, |oracle| format!(" oracle {oracle}"))
    }
}
