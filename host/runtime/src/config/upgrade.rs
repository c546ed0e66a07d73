//! `[upgrade]`: whether the feature level is raised automatically.

use super::{ConfigError, TEN_YEARS_S, range};
use quorate_node::LevelConfig;
use quorate_types::Span;
use serde::{Deserialize, Serialize};

/// `[upgrade]`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct UpgradeConfig {
    /// A leader raises the feature level automatically; else an operator does (`quorate upgrade raise`).
    pub automatic: bool,
    /// For how many seconds all members must have been able to work at a higher level before.
    pub settle_s: u64,
}

impl Default for UpgradeConfig {
    fn default() -> Self {
        Self { automatic: false, settle_s: 3600 }
    }
}

impl UpgradeConfig {
    pub(super) fn check(&self) -> Result<(), ConfigError> {
        range("upgrade: settle_s", self.settle_s, 0..=TEN_YEARS_S, "315360000, which is ten years")
    }

    /// The settings for a cluster that was made with this feature level.
    pub(super) fn levels(&self, made_with: u32) -> LevelConfig {
        let raise_after = self.automatic.then(|| Span::from_secs(self.settle_s));
        LevelConfig { raise_after, ..LevelConfig::made_with(made_with) }
    }
}
