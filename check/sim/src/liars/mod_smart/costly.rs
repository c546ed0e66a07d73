//! A few bytes that cost their receivers much: many wrong signatures in each message.

use crate::liars::{Plays, Said, Saying, Voice};
use quorate_auth::{Signature, Signed};
use quorate_order::mod_smart::message::{Complaint, ModSmartBody as Body, ModSmartMessage};
use quorate_types::{ReplicaId, Slot};

/// This many more with each message.
const MORE: u64 = 30;

/// See the module.
#[derive(Debug)]
pub(in crate::liars) struct Costly;

impl Plays for Costly {
    fn instead(&mut self, me: &mut Voice, to: usize, said: Said) -> Vec<Saying> {
        let mut list = vec![Saying::now(to, said.clone())];
        let Said::ModSmart(instance, message) = said else { return list };
        let of = (instance, message.membership);
        let wrong = me.stops(of, message.view.plus(1000));
        for more in 0..MORE {
            let asked = message.view.plus(1 + more);
            let body = if me.rng.chance(500) {
                let all = (0..me.replicas).map(|who| (ReplicaId::new(who as u16 + 1), wrong));
                Body::Certificate { stops: all.collect::<Signed>() }
            } else {
                let (why, decided) = (Complaint::Silence, Slot::ZERO);
                Body::Stop { asked, why, decided, signature: Signature::NONE }
            };
            let view = if matches!(body, Body::Certificate { .. }) { asked } else { message.view };
            list.push(Saying::now(
                to,
                Said::ModSmart(instance, ModSmartMessage { view, body, ..message.clone() }),
            ));
        }
        list
    }
}
