//! How a client shows who asked something to replicas that did not hear it from the client itself.

use super::BuildError;
use aws_lc_rs::rand;
use quorate_client::{Config, Signer};
use quorate_order::auth::ClientKey;
use quorate_types::{ClusterId, FaultModel};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// See the module. It matters only where replicas may lie.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Authentication {
    /// It does not: each replica believes what it heard over its own link.
    #[default]
    Links,
    /// It signs each request, with a key that it makes when it starts.
    Signatures,
}

impl Authentication {
    /// The word for it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Links => "links",
            Self::Signatures => "signatures",
        }
    }

    /// Prepares the client with these settings.
    pub(super) fn prepare(self, config: &mut Config) -> Result<(), BuildError> {
        if self == Self::Links {
            return Ok(());
        }
        if config.fault_model != FaultModel::Byzantine {
            return Err(BuildError::Authentication(
                "with fault_model = \"crash\" nobody checks signatures: leave it out, or write \"links\"",
            ));
        }
        let Some(cluster) = config.cluster else {
            return Err(BuildError::Authentication("a signature is for one cluster: name it"));
        };
        config.signer = Some(signer(cluster)?);
        Ok(())
    }
}

/// A key that nobody had before.
fn signer(cluster: ClusterId) -> Result<Signer, BuildError> {
    let mut secret = [0; 32];
    rand::fill(&mut secret).map_err(|_| BuildError::Authentication("the system gives no randomness"))?;
    Ok(Signer(Arc::new(ClientKey::new(cluster, secret))))
}
