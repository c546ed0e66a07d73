//! `members`: the replicas and their addresses. Tests: host/runtime/tests/all/config.rs, config/tests.rs.

use super::{Config, ConfigError, LANES_MAX, has_port, invalid};
use quorate_types::Incarnation;
use serde::{Deserialize, Serialize};

/// One replica of the cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MemberConfig {
    /// Its id, from 1.
    pub replica: u16,
    /// Its address, `host:port`.
    pub address: String,
    /// Further addresses for the links of lanes: the second lane's link goes to the first of these, the third lane's to the next one, and
    /// so on, beginning again after the last. If empty, all links go to `address`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub links: Vec<String>,
    /// The number of the data directory that it was set up with, 16 hexadecimal digits.
    pub incarnation: String,
    /// Its public key, 64 hexadecimal digits; with the fault model `byzantine`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
}

impl Config {
    pub(super) fn check_members(&self) -> Result<(), ConfigError> {
        if self.members.is_empty() || self.members.len() > 64 {
            return invalid(format!(
                "members: a cluster has 1 to 64 members, here are {}",
                self.members.len()
            ));
        }
        for (at, member) in self.members.iter().enumerate() {
            if member.replica == 0 {
                return invalid("members: replica ids begin at 1");
            }
            if self.members[..at].iter().any(|other| other.replica == member.replica) {
                return invalid(format!("members: replica {} is named twice", member.replica));
            }
            if member.links.len() > usize::from(LANES_MAX) {
                return invalid(format!(
                    "members: replica {} has more links than there are lanes",
                    member.replica
                ));
            }
            if let Some(link) = member.links.iter().find(|link| !has_port(link)) {
                return invalid(format!(
                    "members: links of replica {}: an address is host:port, as in \"10.0.1.1:7000\", not \"{link}\"",
                    member.replica
                ));
            }
            if Incarnation::parse(&member.incarnation).is_none() {
                return invalid(format!(
                    "members: the incarnation of replica {} has 16 hexadecimal digits",
                    member.replica
                ));
            }
        }
        if self.membership == 0 || (self.membership > 1) != self.created.is_some_and(|created| created > 0) {
            return invalid(
                "membership: a replica that joined later has a membership above 1, and `created` says with how many replicas the \
                 cluster was made; others have none of both",
            );
        }
        if self.membership > 1 && self.members.len() == 1 {
            return invalid("members: a replica that joins names at least one that it joins");
        }
        if !self.members.iter().any(|member| member.replica == self.replica) {
            return invalid(format!("replica: {} is not among the members", self.replica));
        }
        Ok(())
    }
}
