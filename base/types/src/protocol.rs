//! How replicas agree.

use serde::{Deserialize, Serialize};

/// An ordering protocol, as configurations and command lines name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Protocol {
    /// Raft: crash faults.
    #[default]
    Raft,
    /// Mod-SMaRt: crash or Byzantine faults.
    ModSmart,
}

impl Protocol {
    /// The word for it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Raft => "raft",
            Self::ModSmart => "mod-smart",
        }
    }
}
