//! `[sessions]`: limits of sessions.

use quorate_execute::SessionLimits;
use quorate_types::Span;
use serde::{Deserialize, Serialize};

/// `[sessions]`; must be the same on all replicas
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SessionsConfig {
    /// Sessions at once.
    pub max: u32,
    /// Sessions of one client at once.
    pub per_client: u32,
    /// A session that executes nothing for this time expires, in seconds of agreed time.
    pub ttl_s: u64,
    /// Requests of one session that may be unanswered.
    pub window: u64,
    /// Refuse sessions whose client does not sign its requests. With `fault_model = "byzantine"`, the same on all replicas.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub require_signed: bool,
}

impl Default for SessionsConfig {
    fn default() -> Self {
        let limits = SessionLimits::default();
        Self {
            max: limits.sessions_max,
            per_client: limits.sessions_per_client_max,
            ttl_s: limits.ttl.millis() / 1000,
            window: limits.window,
            require_signed: false,
        }
    }
}

impl SessionsConfig {
    /// The limits for the executor; the others are the same everywhere.
    pub(super) fn limits(&self) -> SessionLimits {
        SessionLimits {
            sessions_max: self.max,
            sessions_per_client_max: self.per_client,
            ttl: Span::from_secs(self.ttl_s),
            window: self.window,
            ..SessionLimits::default()
        }
    }
}
