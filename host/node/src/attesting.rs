//! A replica attests a checkpoint to an operator who makes a backup: it signs the digest with the key with which it signs what its protocol
//! says. Whoever knows the members' keys can check the backup by that later, without the cluster.
//!
//! It signs only as a voter, only for a state that it has itself, and only for the digest that enough members agree on (`keeping/agreeing.rs`).
//! So each signature says what the replica tells other members anyway, and an operator gets nothing signed that he made up.
//! What is signed: `base/auth/src/checkpoint.rs`. Tests: attesting/tests.rs, front/cli/tests/all/proved.rs.

use crate::node::Node;
use bytes::Bytes;
use quorate_auth::{Signature, checkpoint_statement};
use quorate_types::{Digest, MembershipId, Seq};
use quorate_wire::{AttestAnswer, Attested, Membership, OutFrame};

/// The answer to an operator who asks this replica to attest a checkpoint of this seq, whose image has this digest.
pub(crate) fn answer(node: &Node, (seq, digest): (Seq, Digest)) -> OutFrame {
    let answer = match attest(node, (seq, digest)) {
        Ok((membership, signature)) => {
            AttestAnswer::Signed { membership, signature: Bytes::copy_from_slice(signature.bytes()) }
        }
        Err(why) => AttestAnswer::Refused(why.to_owned()),
    };
    Attested { seq, digest, answer }.frame()
}

fn attest(node: &Node, of: (Seq, Digest)) -> Result<(MembershipId, Signature), &'static str> {
    let config = &node.config;
    if !config.order.faults.may_lie() {
        return Err("in this cluster no replica lies, so none signs anything");
    }
    node.keeping.attests(of)?;
    let (me, membership) = (config.members.me(), node.membership());
    let number = membership.map_or(MembershipId::FIRST, Membership::number);
    if number < config.members.number() {
        return Err("it does not know the present members yet: ask again later");
    }
    if membership.is_some_and(|membership| !membership.is_voter(me)) {
        return Err("it does not vote in the present membership");
    }
    // Each instance learns new keys from its own log; the configuration has those of the membership with which the process began.
    let mut auth = config.order.keys.build();
    if let Some(key) = membership.and_then(|membership| membership.get(me)?.key) {
        auth.know(me, number, &key);
    }
    match auth.sign(&checkpoint_statement(config.members.cluster(), number, of)) {
        Signature::NONE => {
            Err("it lacks the secret key with which it has to sign: see `quorate member rekey`")
        }
        signature => Ok((number, signature)),
    }
}

#[cfg(test)]
mod tests;
