//! Signatures of administrators under commands to the engine.
//!
//! An administrator's key is a client's key ([`ClientKey`](crate::ClientKey)) that no client uses. A signature covers the cluster, the number
//! of the command, and the command, under a name of its own: it is of no use in another cluster, at another time, or under a request.
//! Tests: `administration/tests.rs`.

use crate::{RequestChecks, RequestClaim};
use quorate_types::{ClusterId, Digest};
use quorate_wire::{Administrators, SignedCommand};

/// The statement that administrators sign.
pub fn administration_statement(cluster: ClusterId, signed: &SignedCommand) -> Digest {
    let mut hasher = blake3::Hasher::new_derive_key("quorate 2026 command of administrators");
    hasher.update(&cluster.bits().to_le_bytes());
    hasher.update(&signed.number.to_le_bytes());
    hasher.update(&signed.command.encode());
    Digest::new(*hasher.finalize().as_bytes())
}

/// Whether enough of these administrators signed a command. Signatures by other keys count for nothing, and do no harm.
pub fn is_signed_by(
    checks: RequestChecks,
    cluster: ClusterId,
    signed: &SignedCommand,
    administrators: &Administrators,
) -> bool {
    let statement = administration_statement(cluster, signed);
    let known = signed.signatures().iter().filter(|(key, _)| administrators.keys().contains(key));
    let claim = |(key, signature): &(_, _)| RequestClaim { key: *key, statement, signature: *signature };
    let claims: Vec<RequestClaim> = known.map(claim).collect();
    let right = checks.each(&claims).into_iter().filter(|right| *right).count();
    right >= usize::from(administrators.threshold())
}

#[cfg(test)]
mod tests;
