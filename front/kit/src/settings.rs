//! A front's settings: the table `[front.NAME]` of the replica's configuration, which only the front understands. A service's table
//! `[service]` is read in the same way. Tests: `settings/tests.rs`.

use serde::de::DeserializeOwned;
use std::fmt::Display;
use std::ops::RangeInclusive;
use toml::Table;

#[cfg(test)]
mod tests;

/// The error in a table: which key is wrong, and what would be right.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SettingsError(String);

impl SettingsError {
    /// In the table `at`, such as `front.etcd`.
    pub fn new(at: &str, why: impl Display) -> Self {
        Self(format!("{at}: {why}"))
    }
}

/// Reads the table `at`, such as `front.etcd`. If the type refuses unknown keys (serde's `deny_unknown_fields`), the error names such a
/// key.
///
/// # Errors
/// When a key is unknown, is missing, or has a value of another type.
pub fn read<T: DeserializeOwned>(at: &str, table: &Table) -> Result<T, SettingsError> {
    table
        .clone()
        .try_into()
        .map_err(|why: toml::de::Error| SettingsError::new(at, why.to_string().trim_end()))
}

/// Refuses a value that is no address to listen on, `host:port`.
///
/// # Errors
/// Says how an address is written.
pub fn address(at: &str, key: &str, value: &str) -> Result<(), SettingsError> {
    let port = value.rsplit_once(':').filter(|(host, _)| !host.is_empty()).map(|(_, port)| port);
    if port.is_some_and(|port| port.parse::<u16>().is_ok()) {
        return Ok(());
    }
    Err(SettingsError::new(at, format!("{key}: an address is host:port, as in \"127.0.0.1:2379\"")))
}

/// Refuses a value outside of the range. The error shows the range's end as `end`.
///
/// # Errors
/// Names the range.
pub fn range<T: PartialOrd + Display>(
    at: &str,
    key: &str,
    value: T,
    (allowed, end): (RangeInclusive<T>, &str),
) -> Result<(), SettingsError> {
    if allowed.contains(&value) {
        return Ok(());
    }
    Err(SettingsError::new(at, format!("{key} is {} to {end}, not {value}", allowed.start())))
}
