//! Many messages at once. What their receivers keep, read back or answer must still be bounded.

use crate::liars::{Plays, Said, Saying, Voice};
use quorate_order::mod_smart::message::{Complaint, ModSmartBody as Body, ModSmartMessage};
use quorate_types::{Seq, Slot};
use quorate_wire::StateMessage;

/// See the module.
#[derive(Debug)]
pub(in crate::liars) struct Flood;

impl Plays for Flood {
    fn instead(&mut self, me: &mut Voice, to: usize, said: Said) -> Vec<Saying> {
        let mut list = vec![Saying::now(to, said.clone())];
        let Said::ModSmart(instance, message) = said else { return list };
        let of = (instance, message.membership);
        for _ in 0..me.rng.below(8) {
            let slot = Slot::new(me.rng.below(300));
            let digest = me.digest();
            let body = match me.rng.below(6) {
                0 => Body::Write { slot, digest },
                1 => me.accept(of, message.view, slot, digest),
                2 => Body::Fetch { slot, count: 64 },
                3 => {
                    let asked = message.view.plus(me.rng.below(5));
                    me.stop(of, asked, Complaint::Request(digest), slot)
                }
                4 => Body::Propose { slot, batch: me.invent() },
                _ => {
                    let (seq, chunks) = (Seq::new(slot.number()), (0..64).collect());
                    let ask = match me.rng.below(3) {
                        0 => StateMessage::FetchManifest { seq, digest, offset: me.rng.number() },
                        1 => StateMessage::FetchChunks { seq, digest, chunks },
                        _ => StateMessage::WantBorder { seq, digest },
                    };
                    list.push(Saying::now(to, Said::State(ask)));
                    continue;
                }
            };
            list.push(Saying::now(to, Said::ModSmart(instance, ModSmartMessage { body, ..message.clone() })));
        }
        list
    }
}
