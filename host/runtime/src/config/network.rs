//! `[network]`: the settings of sockets.

use serde::{Deserialize, Serialize};

/// `[network]`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct NetworkConfig {
    /// The congestion control of every socket, by the system's name; empty leaves the system's default.
    pub congestion: String,
}

impl Default for NetworkConfig {
    fn default() -> Self {
        Self { congestion: "reno".into() }
    }
}
