//! Slots, views and rounds so high that they are never reached.

use crate::liars::{Plays, Said, Saying, Voice};
use quorate_order::mod_smart::message::{Complaint, ModSmartBody as Body, ModSmartMessage};
use quorate_types::{Digest, Slot, View};

/// See the module.
#[derive(Debug)]
pub(in crate::liars) struct Huge;

impl Plays for Huge {
    fn instead(&mut self, me: &mut Voice, to: usize, said: Said) -> Vec<Saying> {
        let mut list = vec![Saying::now(to, said.clone())];
        let Said::ModSmart(instance, message) = said else { return list };
        let of = (instance, message.membership);
        let slot = Slot::new(match me.rng.below(4) {
            0 => u64::MAX,
            1 => 1 << (40 + me.rng.below(20)),
            _ => me.rng.below(200),
        });
        let round = if me.rng.chance(500) { u64::MAX } else { me.rng.number() };
        let digest = Digest::new([9; 32]);
        let view = if me.rng.chance(200) { View::new(me.rng.number()) } else { message.view };
        let body = match me.rng.below(8) {
            0 => Body::Write { slot, digest },
            1 => me.accept(of, view, slot, digest),
            2 => Body::Alive { decided: slot, round },
            3 => Body::AliveReply { decided: slot, round },
            4 => Body::Fetch { slot, count: 64 },
            5 => Body::Gone { slot, proof: None },
            6 => Body::Propose { slot, batch: me.invent() },
            _ => me.stop(of, View::new(slot.number()), Complaint::Silence, slot),
        };
        list.push(Saying::now(to, Said::ModSmart(instance, ModSmartMessage { view, body, ..message })));
        list
    }
}
