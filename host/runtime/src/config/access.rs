//! `[access]`: which clients may use which keys.

use super::{ConfigError, invalid};
use quorate_node::{Access, Permissions};
use quorate_types::Name;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The longest list of prefixes; it is searched at every command of the client.
const PREFIXES_MAX: usize = 64;

/// The rights of clients that are not named.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Others {
    /// Everything.
    All,
    /// Nothing.
    #[default]
    None,
}

/// `[access]`
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AccessConfig {
    /// The rights of clients that are not named.
    #[serde(default)]
    pub others: Others,
    /// The named clients.
    #[serde(default)]
    pub clients: Vec<ClientAccess>,
}

/// `[[access.clients]]`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClientAccess {
    /// The name in the client's certificate.
    pub name: String,
    /// Prefixes of the keys that it may read; an empty one is the prefix of all keys.
    #[serde(default)]
    pub read: Vec<String>,
    /// Prefixes of the keys that it may write.
    #[serde(default)]
    pub write: Vec<String>,
}

impl AccessConfig {
    pub(super) fn check(&self, plain: bool) -> Result<(), ConfigError> {
        if plain {
            return invalid(
                "access: with `plain = true` nobody knows who a client is: remove one of the two",
            );
        }
        for (at, client) in self.clients.iter().enumerate() {
            let name = &client.name;
            if Name::parse(name).is_none() {
                return invalid(format!(
                    "access: \"{name}\" is no name of a client: 1 to 64 letters, digits, `.`, `-` and `_`"
                ));
            }
            if self.clients[..at].iter().any(|other| other.name == *name) {
                return invalid(format!("access: {name} is named twice: put its keys together"));
            }
            if client.read.len() > PREFIXES_MAX || client.write.len() > PREFIXES_MAX {
                return invalid(format!("access: {name} has more than {PREFIXES_MAX} beginnings of keys"));
            }
        }
        Ok(())
    }

    pub(crate) fn to_access(&self) -> Access {
        let bytes = |list: &[String]| list.iter().map(|text| text.clone().into_bytes()).collect();
        let permissions = |client: &ClientAccess| {
            Arc::new(Permissions { read: bytes(&client.read), write: bytes(&client.write) })
        };
        let named = self
            .clients
            .iter()
            .filter_map(|client| Some((Name::parse(&client.name)?, permissions(client))))
            .collect();
        let others = (self.others == Others::None).then(|| Arc::new(Permissions::default()));
        Access { named, others }
    }
}
