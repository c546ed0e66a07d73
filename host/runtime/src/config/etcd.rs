//! What concerns clients of etcd. Tests: config/tests.rs.

use super::{Config, ConfigError, FaultModel, has_port, invalid, range};
use quorate_node::ServedByReplicas;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// `[etcd_tokens]`: tokens that members sign, in place of ones that the store keeps.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EtcdTokens {
    /// How: `RS256`, `ES256`, `HS256` and so on.
    pub sign_method: String,
    /// The key, in PEM; for `HS...` the secret itself. The same at all members. Relative to the configuration file.
    pub key: PathBuf,
    /// How long a token is good, in seconds.
    #[serde(default = "five_minutes")]
    pub ttl_s: u64,
}

const fn five_minutes() -> u64 {
    300
}

impl Config {
    /// For whom other replicas may come: those that serve clients of etcd ask for them, and where no replica lies for their operators, too.
    pub(super) fn served_by_replicas(&self) -> ServedByReplicas {
        match (self.fault_model, &self.etcd) {
            (FaultModel::Crash, _) => ServedByReplicas::ClientsAndOperators,
            (FaultModel::Byzantine, Some(_)) => ServedByReplicas::Clients,
            (FaultModel::Byzantine, None) => ServedByReplicas::Nobody,
        }
    }

    pub(super) fn check_etcd(&self) -> Result<(), ConfigError> {
        if let Some(tokens) = &self.etcd_tokens {
            range("etcd_tokens: ttl_s", tokens.ttl_s, 1..=86_400, "86400, which is a day")?;
        }
        match &self.etcd {
            Some(address) if !has_port(address) => {
                invalid("etcd: an address is host:port, as in \"127.0.0.1:2379\"")
            }
            Some(_) if self.service != "etcd" => invalid(format!(
                "etcd: write `service = \"etcd\"`, too: the service \"{}\" can not serve clients of etcd",
                self.service
            )),
            _ => Ok(()),
        }
    }
}
