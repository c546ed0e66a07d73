//! How a client proves its requests to replicas that did not hear them from the client itself.

use super::BuildError;
use aws_lc_rs::rand;
use quorate_auth::{ClientKey, ClientMacs};
use quorate_client::{Config, Macs, Signer};
use quorate_types::Span;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// How long only the leader has a request.
const LEADER_FIRST: Span = Span::from_millis(250);

/// How requests prove which client sent them. It matters only where replicas may lie.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Authentication {
    /// Requests have no proof: each replica believes those that it heard over its own link.
    #[default]
    Links,
    /// The client signs each request, with a key that it makes when it starts.
    Signatures,
    /// The client puts a tag for each replica under each request, and sends to the leader first. For clients that do not attack the
    /// cluster.
    Macs,
}

impl Authentication {
    /// Its name in configurations.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Links => "links",
            Self::Signatures => "signatures",
            Self::Macs => "macs",
        }
    }

    /// Adds what this needs to the client's configuration.
    pub(super) fn prepare(self, config: &mut Config) -> Result<(), BuildError> {
        if self == Self::Links {
            return Ok(());
        }
        if !config.faults.may_lie() {
            return Err(BuildError::Authentication(
                "with fault_model = \"crash\" nobody checks who asked: leave it out, or write \"links\"",
            ));
        }
        let Some(cluster) = config.cluster else {
            return Err(BuildError::Authentication("a signature, or a tag, is for one cluster: name it"));
        };
        if self == Self::Macs {
            config.macs = Some(Macs(Arc::new(ClientMacs::new(cluster, secret()?))));
            config.leader_first = Some(LEADER_FIRST);
        } else {
            config.signer = Some(Signer(Arc::new(ClientKey::new(cluster, secret()?))));
        }
        Ok(())
    }
}

/// A random secret.
fn secret() -> Result<[u8; 32], BuildError> {
    let mut secret = [0; 32];
    rand::fill(&mut secret).map_err(|_| BuildError::Authentication("the system gives no randomness"))?;
    Ok(secret)
}
