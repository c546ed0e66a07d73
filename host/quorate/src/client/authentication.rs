//! How a client shows who asked something to replicas that did not hear it from the client itself.

use super::BuildError;
use aws_lc_rs::rand;
use quorate_auth::{ClientKey, ClientMacs};
use quorate_client::{Config, Macs, Signer};
use quorate_types::Span;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// So long the leader has requests for itself.
const LEADER_FIRST: Span = Span::from_millis(250);

/// See the module. It matters only where replicas may lie.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Authentication {
    /// It does not: each replica believes what it heard over its own link.
    #[default]
    Links,
    /// It signs each request, with a key that it makes when it starts.
    Signatures,
    /// It puts a tag for each replica under each request, and sends to the leader first. For clients that do not attack the cluster.
    Macs,
}

impl Authentication {
    /// The word for it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Links => "links",
            Self::Signatures => "signatures",
            Self::Macs => "macs",
        }
    }

    /// Prepares the client with these settings.
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

/// What nobody had before.
fn secret() -> Result<[u8; 32], BuildError> {
    let mut secret = [0; 32];
    rand::fill(&mut secret).map_err(|_| BuildError::Authentication("the system gives no randomness"))?;
    Ok(secret)
}
