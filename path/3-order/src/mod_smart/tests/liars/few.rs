//! Lies where few members are slow: about whom a member misses, to the leader, to members, and to the oracle.

use super::{How, Lies, mutated};
use crate::ledger::Proof;
use crate::mod_smart::message::{ModSmartBody as Body, ModSmartMessage};
use crate::mod_smart::tests::world::{encode, replica};
use crate::visigoth::{Claim, Grant, Missing, OracleRequest, Register, Wish};
use quorate_auth::{Authenticator, Signature};
use quorate_types::{Digest, Random, ReplicaId, Slot, Trust, View};

impl Lies {
    /// Some of the members, by id.
    fn some(&self, random: &mut Random) -> Vec<ReplicaId> {
        (0..self.members).filter(|_| random.below(2) == 0).map(replica).collect()
    }

    pub(super) fn false_misses(
        &self,
        random: &mut Random,
        to: usize,
        message: &ModSmartMessage,
    ) -> Vec<(usize, Vec<u8>)> {
        let view = message.view;
        match &message.body {
            Body::Misses { tag, .. } => {
                let others = (0..self.members).filter(|at| *at != self.me).map(replica).collect();
                let ids = if random.below(2) == 0 { others } else { self.some(random) };
                let signature = self.auth.sign(&self.statements(view).misses(view, *tag, &ids));
                vec![(to, self.whole(view, Body::Misses { tag: *tag, ids, signature }))]
            }
            Body::Probed { .. } if random.below(2) == 0 => vec![],
            _ => {
                let tag = random.below(3);
                let ask = self
                    .whole(view, if random.below(2) == 0 { Body::Ask { tag } } else { Body::Probe { tag } });
                vec![(to, encode(message)), (to, ask)]
            }
        }
    }

    /// What it asks the oracle for, now and then.
    pub(in crate::mod_smart::tests) fn false_wish(
        &mut self,
        random: &mut Random,
        view: View,
    ) -> Option<OracleRequest> {
        let asks = self.how == How::FalseClaims || (self.how == How::All && random.below(8) == 0);
        if !asks || random.below(6) > 0 {
            return None;
        }
        let view = match random.below(4) {
            0 => view.plus(random.below(4) * random.below(1 << 20)),
            1 => view.previous(),
            _ => view,
        };
        let set = self.some(random);
        let wish = match random.below(4) {
            0 => {
                let register = Register::default();
                let trust = Trust::new(self.members as u32, 1, 1, 0).expect("members enough");
                let with = register.with(Grant { view, set: set.clone() }, view, &set, trust);
                Wish::Swap(random.below(4), with.unwrap_or_default().encode())
            }
            1 => {
                let claim = self.claim(random, view, set).encode().to_vec();
                Wish::Claim(mutated(random, claim).into())
            }
            _ => Wish::Claim(self.claim(random, view, set).encode()),
        };
        Some(OracleRequest { membership: self.statements(view).membership, wish })
    }

    /// For this set: with its own statements, those that it heard, and made-up ones.
    fn claim(&self, random: &mut Random, view: View, set: Vec<ReplicaId>) -> Claim {
        let heard = |from: ReplicaId| {
            let said = self.misses.iter().rev().filter(|(of, missing)| *of == view && missing.from == from);
            said.map(|(_, missing)| missing.clone()).next()
        };
        let tag = random.below(3);
        let said = set.iter().map(|from| {
            let misses: Vec<ReplicaId> = match random.below(2) {
                0 => (0..self.members).map(replica).filter(|id| !set.contains(id)).collect(),
                _ => self.some(random),
            };
            let signature = match *from == replica(self.me) {
                true => self.auth.sign(&self.statements(view).misses(view, tag, &misses)),
                false => Signature::NONE,
            };
            heard(*from).unwrap_or(Missing { from: *from, misses, signature })
        });
        Claim { view, tag, said: said.collect(), proof: self.false_proof(random, view), set }
    }

    /// That something was decided in this view: as it was shown for another one, or with its own word only.
    fn false_proof(&self, random: &mut Random, view: View) -> Option<Proof> {
        let digest = Digest::new([random.next() as u8; 32]);
        let slot = Slot::new(random.below(40));
        let known = self.proofs.last().map(|(proof, _)| proof.clone());
        match random.below(4) {
            0 => None,
            1 => known.map(|proof| Proof { view, ..proof }),
            2 => known,
            _ => {
                let accepts = (0..self.members).map(|at| {
                    let own = at == self.me;
                    let text = self.statements(view).accept(view, slot, digest);
                    (replica(at), if own { self.auth.sign(&text) } else { Signature::NONE })
                });
                Some(Proof { slot, view, digest, accepts: accepts.collect() })
            }
        }
    }
}
