//! Lies of Mod-SMaRt: what a liar remembers of its messages, what it signs, and the tricks with them.

pub(super) mod batches;
pub(super) mod collects;
pub(super) mod complaints;
pub(super) mod costly;
pub(super) mod equivocate;
pub(super) mod floods;
pub(super) mod huge;
pub(super) mod keeps;
pub(super) mod proofs;
pub(super) mod reach;
pub(super) mod requests;
pub(super) mod rulings;
pub(super) mod syncs;
pub(super) mod votes;

use super::{Said, Saying, Voice};
use crate::random::Rng;
use quorate_auth::Signature;
use quorate_order::ledger::Proof;
use quorate_order::mod_smart::message::{Collect, Complaint, ModSmartBody as Body, ModSmartMessage};
use quorate_order::mod_smart::{Statements, digest_of};
use quorate_types::{Digest, InstanceId, MembershipId, ReplicaId, Slot, View};
use std::collections::{BTreeMap, VecDeque};

/// This many messages are remembered, to be repeated.
const HEARD_MAX: usize = 400;
/// So many proofs are remembered, and so many views with the statements made on entering them.
const SHOWN_MAX: usize = 64;
/// This many proposals are remembered, to vote for them.
const PROPOSED_MAX: usize = 256;

/// What a liar heard and said.
#[derive(Debug, Default)]
pub(super) struct Memory {
    /// Messages that it heard or said.
    pub(super) messages: VecDeque<(InstanceId, ModSmartMessage)>,
    /// The statements that members made on entering a view.
    pub(super) collects: BTreeMap<(InstanceId, View), BTreeMap<ReplicaId, Collect>>,
    /// The proofs of decided slots.
    pub(super) proofs: VecDeque<(InstanceId, Proof)>,
}

impl Memory {
    /// Remembers a message that it heard or sent.
    pub(super) fn remember(&mut self, rng: &mut Rng, instance: InstanceId, message: &ModSmartMessage) {
        let collects = self.collects.entry((instance, message.view)).or_default();
        let mut proofs = Vec::new();
        match &message.body {
            Body::StopData { collect, last, .. } => {
                collects.insert(collect.from, collect.clone());
                proofs.extend(last.clone());
            }
            Body::Sync { collects: all, last, .. } => {
                collects.extend(all.iter().map(|collect| (collect.from, collect.clone())));
                proofs.extend(last.clone());
            }
            Body::Decision { proof, .. } => proofs.push(proof.clone()),
            Body::Gone { proof, .. } => proofs.extend(proof.clone()),
            _ => {}
        }
        self.proofs.extend(proofs.into_iter().map(|proof| (instance, proof)));
        self.collects.retain(|_, of| !of.is_empty());
        while self.collects.len() > SHOWN_MAX {
            self.collects.pop_first();
        }
        while self.proofs.len() > SHOWN_MAX {
            self.proofs.pop_front();
        }
        self.messages.push_back((instance, message.clone()));
        if self.messages.len() > HEARD_MAX {
            // Old messages are worth more to a liar than new ones: some of them stay.
            let at = rng.below(HEARD_MAX as u64) as usize;
            self.messages.remove(at);
        }
    }
}

/// What a liar signs, in its own name.
impl Voice {
    fn statements(&self, (instance, membership): (InstanceId, MembershipId)) -> Statements {
        Statements { cluster: self.cluster(), membership, instance }
    }

    /// An ACCEPT of its own.
    pub fn accept(&self, of: (InstanceId, MembershipId), view: View, slot: Slot, digest: Digest) -> Body {
        let signature = self.auth().sign(&self.statements(of).accept(view, slot, digest));
        Body::Accept { slot, digest, signature }
    }

    /// Its signature on an ACCEPT.
    pub fn accepts(
        &self,
        of: (InstanceId, MembershipId),
        view: View,
        slot: Slot,
        digest: Digest,
    ) -> Signature {
        self.auth().sign(&self.statements(of).accept(view, slot, digest))
    }

    /// Its signature on a STOP.
    pub fn stops(&self, of: (InstanceId, MembershipId), asked: View) -> Signature {
        self.auth().sign(&self.statements(of).stop(asked))
    }

    /// A STOP of its own.
    pub fn stop(&self, of: (InstanceId, MembershipId), asked: View, why: Complaint, decided: Slot) -> Body {
        Body::Stop { asked, why, decided, signature: self.stops(of, asked) }
    }

    /// The same statement in its own name.
    pub fn collect(&self, of: (InstanceId, MembershipId), view: View, mut collect: Collect) -> Collect {
        collect.from = self.id();
        collect.signature = self.auth().sign(&self.statements(of).collect(view, &collect));
        collect
    }
}

/// The proposal for a slot that each member was shown: the member must get a vote of the liar for it.
#[derive(Debug, Default)]
pub(super) struct Along {
    shown: BTreeMap<(InstanceId, View, Slot, usize), Digest>,
}

impl Along {
    /// A member that was shown another proposal than the node's gets votes for that.
    pub(super) fn say(&mut self, me: &Voice, saying: &mut Saying) {
        let to = saying.to;
        let Said::ModSmart(instance, message) = &mut saying.said else { return };
        let (instance, view, membership) = (*instance, message.view, message.membership);
        match &mut message.body {
            Body::Propose { slot, batch } => {
                self.shown.entry((instance, view, *slot, to)).or_insert_with(|| digest_of(batch));
                if self.shown.len() > PROPOSED_MAX {
                    self.shown.pop_first();
                }
            }
            Body::Write { slot, digest } => {
                if let Some(shown) = self.shown.get(&(instance, view, *slot, to)) {
                    *digest = *shown;
                }
            }
            Body::Accept { slot, digest, .. } => {
                if let Some(shown) = self.shown.get(&(instance, view, *slot, to)).copied()
                    && shown != *digest
                {
                    message.body = me.accept((instance, membership), view, *slot, shown);
                }
            }
            _ => {}
        }
    }
}
