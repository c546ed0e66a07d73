//! The oracle that knows the rule, and claims that a script makes up.

use crate::Command;
use crate::world::Rule;
use quorate_auth::{Authenticator, Keyed, Signature};
use quorate_order::ledger::Proof;
use quorate_order::mod_smart::{Referee, Statements};
use quorate_order::visigoth::{Claim, Missing, Register};
use quorate_types::{ClusterId, Digest, InstanceId, MembershipId, ReplicaId, Slot, Trust, View};

/// The seed of the keys with which members sign.
pub(crate) const KEYS: u64 = 1;
/// The only instance.
pub(crate) const INSTANCE: InstanceId = InstanceId::new(1);
/// The cluster.
pub(crate) const CLUSTER: ClusterId = ClusterId::new(0);

const STATEMENTS: Statements =
    Statements { cluster: CLUSTER, membership: MembershipId::FIRST, instance: INSTANCE };

/// What becomes of a register by a claim, where these members vote.
pub(crate) fn rule(voters: Vec<ReplicaId>, trust: Trust) -> Rule {
    Box::new(move |register, claim| {
        let auth = Keyed::new(ReplicaId::new(1), KEYS);
        let referee = Referee { statements: STATEMENTS, voters: &voters, trust, auth: &auth };
        let register = Register::read(register.clone()).map_err(|why| why.to_string())?;
        let claim = Claim::decode(claim).map_err(|why| why.to_string())?;
        let next = referee.judge(&register, claim).map_err(|why| why.to_string())?;
        Ok((next != register).then(|| next.encode()))
    })
}

/// The claim of `claim R set=r1,r2,r3 view=2 [signed=r1] [decided=4]`: each of the set says that it misses all that are not in it, but only
/// those after `signed` signed that; and all members accepted something in view 4, which none of them signed.
pub(crate) fn claim(
    command: &Command,
    voters: &[ReplicaId],
    replica: impl Fn(&str) -> Result<ReplicaId, String>,
) -> Result<Claim, String> {
    command.only_options(&["set", "view", "signed", "decided"])?;
    let list = |key: &str| -> Result<Vec<ReplicaId>, String> {
        let names = command.options.get(key).into_iter().flat_map(|names| names.split(','));
        names.map(&replica).collect()
    };
    let (mut set, signed) = (list("set")?, list("signed")?);
    set.sort_unstable();
    set.dedup();
    let view = View::new(command.number("view")?.ok_or("view= is missing")?);
    let misses: Vec<ReplicaId> = voters.iter().filter(|id| !set.contains(id)).copied().collect();
    let (tag, text) = (0, STATEMENTS.misses(view, 0, &misses));
    let says = |from: &ReplicaId| {
        let signature = Keyed::new(*from, KEYS).sign(&text);
        let signature = if signed.contains(from) { signature } else { Signature::NONE };
        Missing { from: *from, misses: misses.clone(), signature }
    };
    let said = set.iter().map(says).collect();
    let proof = command.number("decided")?.map(|view| Proof {
        slot: Slot::FIRST,
        view: View::new(view),
        digest: Digest::new([0; 32]),
        accepts: voters.iter().map(|id| (*id, Signature::NONE)).collect(),
    });
    Ok(Claim { view, tag, set, said, proof })
}
