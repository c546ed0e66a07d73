//! Keys of administrators, and what is signed with them.

use super::file::CommandFile;
use quorate_auth::{ClientKey, StatementSigner as _, administration_statement};
use quorate_command::cluster::Cluster;
use quorate_command::failure::{Doing as _, Failure, Outcome};
use quorate_command::layout::ADMINISTRATOR;
use quorate_types::ClusterId;
use quorate_wire::{RequestSigner as _, SignedCommand};
use std::path::{Path, PathBuf};

/// With which keys a command is signed, or where it is written to be signed later. Only where replicas may lie.
#[derive(Debug, clap::Args)]
pub(crate) struct Signing {
    /// Where replicas may lie: the secret key of an administrator; once for each [default: administrator.key beside client.toml]
    #[arg(long, value_name = "FILE")]
    pub(super) admin_key: Vec<PathBuf>,
    /// Where replicas may lie: do not sign; write the command to this file, for `quorate admin sign` and `submit`
    #[arg(long, value_name = "FILE", conflicts_with = "admin_key")]
    pub(super) sign_later: Option<PathBuf>,
}

impl Signing {
    /// Signs a command. `None`: it was written to a file with the reason, to be signed later.
    pub(super) fn sign(
        &self,
        cluster: &Cluster,
        signed: &mut SignedCommand,
        reason: &str,
    ) -> Outcome<Option<()>> {
        if let Some(file) = &self.sign_later {
            let (signed, reason) = (signed.clone(), reason.to_owned());
            CommandFile { cluster: cluster.id, signed, reason }.write(file)?;
            return Ok(None);
        }
        let own = cluster.directory.join(ADMINISTRATOR);
        let files = if self.admin_key.is_empty() { std::slice::from_ref(&own) } else { &self.admin_key };
        for file in files {
            sign(signed, cluster.id, file)?;
        }
        Ok(Some(()))
    }

    /// Whether it is written to be signed later.
    pub(crate) const fn is_later(&self) -> bool {
        self.sign_later.is_some()
    }

    /// What to say where a command was only written.
    pub(super) fn later(&self) -> String {
        let file = self.sign_later.as_deref().unwrap_or(Path::new("FILE")).display();
        format!(
            "nothing is changed yet: let administrators sign it (`quorate admin sign {file} --admin-key KEY`), then `quorate admin submit \
             {file}`"
        )
    }
}

/// Adds the signature of the key in a file.
pub(super) fn sign(signed: &mut SignedCommand, cluster: ClusterId, file: &Path) -> Outcome<()> {
    let text = std::fs::read_to_string(file).map_err(|why| {
        Failure::usage(format!(
            "can not read {}: {why}. It is the secret key of an administrator: name it with --admin-key, or write what is to be signed \
             with --sign-later",
            file.display()
        ))
    })?;
    let secret = public(text.trim())
        .ok_or_else(|| Failure::usage(format!("{} has to hold 64 hexadecimal digits", file.display())))?;
    let key = ClientKey::new(cluster, secret);
    let signature = key.sign_statement(&administration_statement(cluster, signed));
    signed.add(key.key(), signature).doing("add a signature")
}

/// 32 bytes in hexadecimal digits.
pub(super) fn public(text: &str) -> Option<[u8; 32]> {
    crate::kv::unhex(text.as_bytes())?.try_into().ok()
}
