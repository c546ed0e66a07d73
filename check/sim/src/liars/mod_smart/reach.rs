//! Where few members are slow: lies about whom a member misses, and wishes that nobody supports.

use crate::liars::{Plays, Said, Saying, Voice};
use bytes::Bytes;
use quorate_auth::Signature;
use quorate_order::ledger::Proof;
use quorate_order::mod_smart::message::{ModSmartBody as Body, ModSmartMessage};
use quorate_order::visigoth::{Claim, Missing, Register, Wish};
use quorate_types::{Digest, InstanceId, MembershipId, ReplicaId, Slot, View};

impl Voice {
    /// Some of the replicas, by id.
    fn some(&mut self) -> Vec<ReplicaId> {
        let all = 1..=self.replicas as u16;
        all.filter(|_| self.rng.chance(500)).map(ReplicaId::new).collect()
    }

    fn misses(
        &self,
        of: (InstanceId, MembershipId),
        view: View,
        (tag, ids): (u64, &[ReplicaId]),
    ) -> Signature {
        self.auth().sign(&self.statements(of).misses(view, tag, ids))
    }

    /// What it asks the oracle for in its own name: with what it heard, and what it made up.
    pub fn false_wish(&mut self, of: (InstanceId, MembershipId)) -> Wish {
        let heard = self.smart.messages.iter().rev().find(|(instance, _)| *instance == of.0);
        let view = heard.map_or(View::FIRST, |(_, message)| message.view);
        let view = match self.rng.below(4) {
            0 => view.plus(self.rng.below(4) * self.rng.below(1 << 20)),
            1 => view.previous(),
            _ => view,
        };
        let set = self.some();
        match self.rng.below(5) {
            0 => Wish::Swap(self.rng.below(4), Register::default().encode()),
            1 => {
                let mut bytes = self.claim(of, view, set).encode().to_vec();
                let at = self.rng.below(bytes.len() as u64) as usize;
                bytes[at] ^= 1 << self.rng.below(8);
                Wish::Claim(bytes.into())
            }
            2 => Wish::Claim(Bytes::from_static(&[1, 2, 3])),
            _ => Wish::Claim(self.claim(of, view, set).encode()),
        }
    }

    fn claim(&mut self, of: (InstanceId, MembershipId), view: View, set: Vec<ReplicaId>) -> Claim {
        let others = (1..=self.replicas as u16).map(ReplicaId::new).filter(|id| !set.contains(id));
        let others: Vec<ReplicaId> = others.collect();
        let tag = self.rng.below(3);
        let mut said = Vec::new();
        for from in set.iter().copied() {
            // What somebody said, with the name of whoever is wanted.
            let heard = self.smart.messages.iter().rev().find_map(|(_, message)| match &message.body {
                Body::Misses { ids, signature, .. } if message.view == view && !ids.contains(&from) => {
                    Some((ids.clone(), *signature))
                }
                _ => None,
            });
            let (misses, signature) = match heard {
                Some(heard) if self.rng.chance(500) => heard,
                _ => (others.clone(), self.misses(of, view, (tag, &others))),
            };
            said.push(Missing { from, misses, signature });
        }
        let proof = self.false_proof(of, view);
        Claim { view, tag, set, said, proof }
    }

    /// That something was decided in this view: a proof of another one, or its own word in the name of all.
    fn false_proof(&mut self, of: (InstanceId, MembershipId), view: View) -> Option<Proof> {
        let known = self.smart.proofs.iter().rev().find(|(instance, _)| *instance == of.0);
        let known = known.map(|(_, proof)| proof.clone());
        match self.rng.below(4) {
            0 => None,
            1 => known.map(|proof| Proof { view, ..proof }),
            2 => known,
            _ => {
                let (slot, digest) = (Slot::new(self.rng.below(40)), Digest::new([3; 32]));
                let own = self.accepts(of, view, slot, digest);
                let accepts = (1..=self.replicas as u16).map(|id| (ReplicaId::new(id), own)).collect();
                Some(Proof { slot, view, digest, accepts })
            }
        }
    }
}

/// Misses whom it likes, gives signs of life to some only, and asks all the time whom others miss.
#[derive(Debug)]
pub(in crate::liars) struct FalseMisses;

impl Plays for FalseMisses {
    fn instead(&mut self, me: &mut Voice, to: usize, said: Said) -> Vec<Saying> {
        let Said::ModSmart(instance, message) = said else { return vec![Saying::now(to, said)] };
        let of = (instance, message.membership);
        let say =
            |body| Saying::now(to, Said::ModSmart(instance, ModSmartMessage { body, ..message.clone() }));
        match &message.body {
            Body::Misses { tag, .. } => {
                let ids = if me.rng.chance(500) {
                    (1..=me.replicas as u16).map(ReplicaId::new).filter(|id| *id != me.id()).collect()
                } else {
                    me.some()
                };
                let signature = me.misses(of, message.view, (*tag, &ids));
                vec![say(Body::Misses { tag: *tag, ids, signature })]
            }
            Body::Probed { .. } if me.rng.chance(500) => vec![],
            Body::Alive { .. } | Body::AliveReply { .. } | Body::Write { .. } => {
                let tag = me.rng.below(3);
                let more = if me.rng.chance(500) { Body::Ask { tag } } else { Body::Probe { tag } };
                vec![say(message.body.clone()), say(more)]
            }
            body => vec![say(body.clone())],
        }
    }
}
