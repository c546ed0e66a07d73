//! Follows a chain of membership links from a known membership, whoever shows them.
//!
//! Tests: tests/members/chain.rs, base/auth/src/chain/tests.rs.

use quorate_auth::MembershipLink;
use quorate_types::{ClusterId, Faults, MembershipId};
use quorate_wire::{Chain, Membership};

/// What of a chain is proved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Followed {
    /// The memberships after the known one, each proved by a quorum of the one before, oldest first; perhaps none.
    pub proved: Vec<Membership>,
    /// What is wrong with who showed the chain, in words that follow its name: a forged link, or a hole.
    pub wrong: Option<String>,
}

/// Follows the links as far as each proves the next membership. `known`: the membership after which links were asked for, with the public keys
/// of its voters. Of the cluster and the faults that it is made for, the caller knows from elsewhere.
pub fn follow(cluster: ClusterId, faults: Faults, known: &Membership, chain: &Chain) -> Followed {
    let mut proved: Vec<Membership> = Vec::new();
    for bytes in &chain.links {
        let known = proved.last().unwrap_or(known);
        let next = MembershipLink::decode(bytes)
            .map_err(|why| why.to_string())
            .and_then(|link| link.verify(cluster, known, faults).map_err(|why| why.to_string()));
        match next {
            Ok(next) => proved.push(next),
            Err(why) => {
                let wrong = Some(format!("shows a membership link that proves nothing: {why}"));
                return Followed { proved, wrong };
            }
        }
    }
    // It need not have more: an answer holds only so many.
    let lacks = proved.is_empty() && chain.now > known.number();
    Followed { proved, wrong: lacks.then(|| hole(known.number(), chain.now)) }
}

fn hole(known: MembershipId, now: MembershipId) -> String {
    format!("says that the membership is {now:#}, and shows no link from {known:#}")
}
