//! An oracle that knows the rule: it grants only what a claim shows. Needed where members may lie, since a passive register takes whatever
//! it is told (docs/protocols/visigoth.md).
//!
//! Tests: tests/referee.rs.

use super::is_view_of;
use super::statements::Statements;
use crate::ledger::Proof;
use crate::quorums::Quorums;
use crate::visigoth::{Claim, Grant, Refusal, Register};
use quorate_auth::{Authenticator, Text};
use quorate_types::{ReplicaId, Trust, View, planted};

/// The members of one instance, as the oracle knows them.
#[derive(Debug)]
pub struct Referee<'a> {
    /// The cluster, the membership, and the instance.
    pub statements: Statements,
    /// Who votes, by id.
    pub voters: &'a [ReplicaId],
    /// The trust in them.
    pub trust: Trust,
    /// Checks what they signed.
    pub auth: &'a dyn Authenticator,
}

impl Referee<'_> {
    /// The register after this claim. One that asks for what is granted already leaves it as it is. [visigoth L33-L36]
    ///
    /// # Errors
    /// When the claim does not show enough, or the rule forbids it.
    pub fn judge(&self, register: &Register, claim: Claim) -> Result<Register, Refusal> {
        let known = claim.set.iter().all(|id| self.voters.contains(id));
        if !known || !is_view_of(claim.view, self.statements.membership) {
            return Err(Refusal::NoQuorum);
        }
        if register.has(claim.view, &claim.set) {
            return Ok(register.clone());
        }
        let said = claim.said.iter().all(|missing| missing.can_be(self.voters));
        if !said || !claim.misses_enough(self.voters, self.trust) {
            return Err(Refusal::Unshown("its members do not say that they miss the others"));
        }
        if !planted("visigoth-claim-unsaid") && !self.is_signed(&claim) {
            return Err(Refusal::Unshown("its members did not sign that they miss the others"));
        }
        let decided = match &claim.proof {
            Some(proof) if self.proves(register, proof) => proof.view,
            Some(_) => return Err(Refusal::Unshown("what it says was decided was not")),
            None => View::ZERO,
        };
        register.with(Grant { view: claim.view, set: claim.set }, decided, self.voters, self.trust)
    }

    fn is_signed(&self, claim: &Claim) -> bool {
        let texts: Vec<Text> = claim
            .said
            .iter()
            .map(|missing| self.statements.misses(claim.view, claim.tag, &missing.misses))
            .collect();
        let signed = claim.said.iter().zip(&texts);
        let claims: Vec<_> = signed.map(|(missing, text)| (missing.from, text, &missing.signature)).collect();
        self.auth.verify_all(&claims)
    }

    /// Whether a quorum accepted this: the usual one, or one that the register granted for that view.
    fn proves(&self, register: &Register, proof: &Proof) -> bool {
        if planted("visigoth-floor-unproven") {
            return true;
        }
        let accepts = &proof.accepts;
        let members = accepts.is_sorted_by(|one, next| one.0 < next.0)
            && accepts.iter().all(|(id, _)| self.voters.contains(id));
        let granted: Vec<_> = register.grants_of(proof.view).map(|grant| grant.set.clone()).collect();
        let accepted = |id| accepts.iter().any(|(member, _)| *member == id);
        let text = self.statements.accept(proof.view, proof.slot, proof.digest);
        let claims: Vec<_> = accepts.iter().map(|(id, signature)| (*id, &text, signature)).collect();
        members
            && is_view_of(proof.view, self.statements.membership)
            && Quorums::new(self.trust, &granted).hold(accepts.len(), accepted)
            && self.auth.verify_all(&claims)
    }
}
