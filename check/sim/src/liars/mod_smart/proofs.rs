//! Decisions of slots that were not decided, and answers that slots are gone.

use crate::liars::{Plays, Said, Saying, Voice};
use quorate_auth::Signed;
use quorate_order::ledger::Proof;
use quorate_order::mod_smart::digest_of;
use quorate_order::mod_smart::message::{ModSmartBody as Body, ModSmartMessage};
use quorate_types::{ReplicaId, Slot};

/// See the module.
#[derive(Debug)]
pub(in crate::liars) struct FalseDecisions;

impl Plays for FalseDecisions {
    fn instead(&mut self, me: &mut Voice, to: usize, said: Said) -> Vec<Saying> {
        let mut list = vec![Saying::now(to, said.clone())];
        let Said::ModSmart(instance, message) = said else { return list };
        let (of, view) = ((instance, message.membership), message.view);
        let slot = match &message.body {
            Body::Write { slot, .. } | Body::Accept { slot, .. } | Body::Propose { slot, .. } => *slot,
            Body::Alive { decided, .. } | Body::AliveReply { decided, .. } => decided.next(),
            _ => Slot::new(1 + me.rng.below(40)),
        };
        let mine = me.invent();
        let digest = digest_of(&mine);
        let own = me.accepts(of, view, slot, digest);
        let known = me.rng.below(me.smart.proofs.len() as u64) as usize;
        let accepts: Signed = match (me.rng.below(3), me.smart.proofs.get(known)) {
            (0, _) => vec![(me.id(), own)],
            // The votes of another slot.
            (1, Some((_, proof))) => proof.accepts.clone(),
            _ => (1..=me.replicas as u16).map(|id| (ReplicaId::new(id), own)).collect(),
        };
        let proof = Proof { slot, view, digest, accepts };
        let body = match me.rng.below(4) {
            0 => Body::Gone { slot: slot.plus(me.rng.below(30)), proof: None },
            1 => Body::Gone { slot, proof: Some(proof) },
            _ => Body::Decision { proof, batch: mine },
        };
        list.push(Saying::now(to, Said::ModSmart(instance, ModSmartMessage { body, ..message })));
        list
    }
}
