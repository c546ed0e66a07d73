//! What members signed, as far as it is kept here, and what contradicts it.
//!
//! Most statements are forgotten once they have served. What follows is kept, of each member one: its accept of the open slot in the last
//! view, when that view ends; and its last COLLECT. A new statement is compared with these, with the votes on the slots that are open, and
//! with the proofs of decided slots that are in memory. What is found is checked again as a stranger would, signatures included, before it is
//! called proved. One proof of each kind is made against a member; what else it does is evidence without a proof.
//!
//! INV-SMART-13. Tests: tests/testimony.rs, tests/liars.rs, tests/chaos.rs.

use super::SLOT_MAX;
use super::core::Core;
use super::evidence::{Evidence, EvidenceKind, SignedAccept, Statement, accepts_contradict};
use super::message::{Collect, ModSmartBody as Body};
use super::normal::Voting;
use crate::ledger::Proof;
use crate::{Effect, Effects};
use quorate_auth::Signature;
use quorate_types::{ReplicaId, View};
use std::collections::{BTreeMap, BTreeSet};

/// For so many slots of one member others are asked what it accepted there.
const TRIES_MAX: u8 = 16;
/// An answer counts for so many ticks.
const TICKS_MAX: u8 = 8;

/// An accept of another value than was decided in its view. Its sender probably sent others the right one.
#[derive(Debug)]
struct Odd {
    accept: SignedAccept,
    /// How many ticks it is here. Others were asked with the first one, when they are likely to have decided the slot, too.
    ticks: u8,
}

/// What is kept; see the module.
#[derive(Debug, Default)]
pub(super) struct Testimony {
    odd: BTreeMap<ReplicaId, Odd>,
    tries: BTreeMap<ReplicaId, u8>,
    accepts: BTreeMap<ReplicaId, SignedAccept>,
    collects: BTreeMap<ReplicaId, (View, Collect)>,
    proved: BTreeSet<(ReplicaId, EvidenceKind)>,
}

impl Testimony {
    /// A view ends: these are members' accepts of the open slot in it. Their signatures may be wrong. [mod_smart L169]
    pub(super) fn keep(&mut self, accepts: impl Iterator<Item = (ReplicaId, SignedAccept)>) {
        self.accepts.extend(accepts);
    }

    /// Another membership holds. Nothing that was signed before is compared with what comes. [mod_smart L161]
    pub(super) fn forget(&mut self) {
        *self = Self::default();
    }

    /// Whether of each member no more than one statement of each kind is kept.
    pub(super) fn is_bounded(&self, members: usize) -> bool {
        let most = members * EvidenceKind::ALL.len();
        self.accepts.len() <= members
            && self.collects.len() <= members
            && self.odd.len() <= members
            && self.proved.len() <= most
    }

    /// A member sent both of these. [mod_smart L168]
    pub(super) fn accepts(
        &mut self,
        of: ReplicaId,
        first: SignedAccept,
        second: SignedAccept,
        core: &Core,
        out: &mut Effects,
    ) {
        let statements = vec![Statement::Accept(first), Statement::Accept(second)];
        self.charge(of, EvidenceKind::TwoAccepts, statements, core, out);
    }

    /// A member said this on entering this view; its signature is right. [mod_smart L169]
    pub(super) fn hear(&mut self, view: View, collect: &Collect, core: &Core, out: &mut Effects) {
        let from = collect.from;
        if !core.may_lie() || !core.is_member(from) || collect.decided > SLOT_MAX {
            return;
        }
        let said = || Statement::Collect(view, collect.clone());
        self.charge(from, EvidenceKind::ImpossibleStatement, vec![said()], core, out);
        if let Some((before, kept)) = self.collects.get(&from) {
            let kept = Statement::Collect(*before, kept.clone());
            let both = if *before <= view { vec![kept, said()] } else { vec![said(), kept] };
            self.charge(from, EvidenceKind::TwoStatements, both, core, out);
        }
        let accepted = core.ledger.proof(collect.decided.next()).and_then(|proof| accept_in(proof, from));
        for accept in accepted.into_iter().chain(self.accepts.get(&from).copied()) {
            let both = vec![Statement::Accept(accept), said()];
            self.charge(from, EvidenceKind::AcceptDenied, both, core, out);
        }
        if self.collects.get(&from).is_none_or(|kept| kept.0 <= view) {
            self.collects.insert(from, (view, collect.clone()));
        }
    }

    /// This proof is right, and of this membership. `voting`: what came here in the present view. [mod_smart L170]
    pub(super) fn decided(&mut self, proof: &Proof, voting: &Voting, core: &Core, out: &mut Effects) {
        if !core.may_lie() {
            return;
        }
        for (member, signature) in &proof.accepts {
            let accept = accept_of(proof, *signature);
            let kept = self.accepts.get(member).copied();
            let heard = voting.accept_of(*member, proof.slot, core);
            let other = |other: &SignedAccept| accepts_contradict(other, &accept).is_ok();
            if let Some(other) = heard.into_iter().chain(kept).find(other) {
                self.accepts(*member, other, accept, core, out);
            }
            let Some((entered, said)) = self.collects.get(member) else { continue };
            if said.decided < proof.slot && proof.view < *entered {
                let both = vec![Statement::Accept(accept), Statement::Collect(*entered, said.clone())];
                self.charge(*member, EvidenceKind::AcceptDenied, both, core, out);
            }
        }
    }

    /// A slot is decided by this proof; these members accepted something else in that view. [mod_smart L171]
    pub(super) fn note_odd(&mut self, accepts: impl Iterator<Item = (ReplicaId, SignedAccept)>) {
        for (member, accept) in accepts {
            let tries = self.tries.entry(member).or_insert(0);
            let proved = self.proved.contains(&(member, EvidenceKind::TwoAccepts));
            if !proved && *tries < TRIES_MAX && !self.odd.contains_key(&member) {
                *tries += 1;
                self.odd.insert(member, Odd { accept, ticks: 0 });
            }
        }
    }

    /// Asks all others what was decided where a member accepted something else. [mod_smart L171]
    pub(super) fn tick(&mut self, core: &Core, out: &mut Effects) {
        for (member, odd) in &mut self.odd {
            odd.ticks += 1;
            let SignedAccept { view, slot, digest, signature } = odd.accept;
            if odd.ticks > 1 {
                continue;
            }
            if !core.auth.verify(*member, &core.accept_statement(view, slot, digest), &signature) {
                odd.ticks = TICKS_MAX;
                continue;
            }
            let others = core.members.voters().iter().filter(|other| *other != member);
            others.for_each(|other| core.send(out, *other, Body::Fetch { slot, count: 1 }, None));
        }
        self.odd.retain(|_, odd| odd.ticks < TICKS_MAX);
    }

    /// A member shows that a slot is decided which may be decided here for long. [mod_smart L171]
    pub(super) fn shown(&mut self, proof: &Proof, core: &Core, out: &mut Effects) {
        if self.odd.is_empty() {
            return;
        }
        for (member, signature) in &proof.accepts {
            let accept = accept_of(proof, *signature);
            let odd = self.odd.get(member).map(|odd| odd.accept);
            if let Some(odd) = odd.filter(|odd| accepts_contradict(odd, &accept).is_ok()) {
                self.accepts(*member, odd, accept, core, out);
            }
        }
    }

    /// Says what is proved, if it is, once for each member and kind. [mod_smart L167]
    fn charge(
        &mut self,
        accused: ReplicaId,
        kind: EvidenceKind,
        statements: Vec<Statement>,
        core: &Core,
        out: &mut Effects,
    ) {
        if !core.may_lie() || !core.is_member(accused) || self.proved.contains(&(accused, kind)) {
            return;
        }
        let evidence = Evidence {
            cluster: core.config.cluster,
            membership: core.membership_number(),
            instance: core.config.instance,
            accused,
            kind,
            statements,
            key: core.auth.key(accused, core.membership_number()),
        };
        if evidence.verify_as_member(&*core.auth).is_ok() {
            self.proved.insert((accused, kind));
            out.push(Effect::Proved(Box::new(evidence)));
        }
    }
}

fn accept_of(proof: &Proof, signature: Signature) -> SignedAccept {
    SignedAccept { view: proof.view, slot: proof.slot, digest: proof.digest, signature }
}

/// The accept of this member in a proof.
fn accept_in(proof: &Proof, member: ReplicaId) -> Option<SignedAccept> {
    let found = proof.accepts.iter().find(|(id, _)| *id == member);
    found.map(|(_, signature)| accept_of(proof, *signature))
}
