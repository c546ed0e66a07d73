//! Complaints without a reason, and certificates of views that were not asked for.

use crate::liars::{Plays, Said, Saying, Voice};
use quorate_auth::{Signature, Signed};
use quorate_order::mod_smart::message::{Complaint, ModSmartBody as Body, ModSmartMessage};
use quorate_types::{ReplicaId, Slot};

/// Complains all the time.
#[derive(Debug)]
pub(in crate::liars) struct Complains;

impl Plays for Complains {
    fn instead(&mut self, me: &mut Voice, to: usize, said: Said) -> Vec<Saying> {
        let mut list = vec![Saying::now(to, said.clone())];
        if let Said::ModSmart(instance, message) = said {
            let asked = message.view.plus(1 + me.rng.below(3));
            let why = match me.rng.below(7) {
                0 => Complaint::Silence,
                1 => Complaint::Leaves,
                2 => Complaint::Joined,
                3 => Complaint::Request(me.digest()),
                4 => Complaint::Rate,
                5 => Complaint::Rotation,
                _ => Complaint::Slot(Slot::new(me.rng.below(50))),
            };
            let decided = Slot::new(me.rng.below(40));
            let body = me.stop((instance, message.membership), asked, why, decided);
            list.push(Saying::now(to, Said::ModSmart(instance, ModSmartMessage { body, ..message })));
        }
        list
    }
}

/// Sends false certificates.
#[derive(Debug)]
pub(in crate::liars) struct FalseViews;

impl Plays for FalseViews {
    fn instead(&mut self, me: &mut Voice, to: usize, said: Said) -> Vec<Saying> {
        let mut list = vec![Saying::now(to, said.clone())];
        if let Said::ModSmart(instance, message) = said {
            let far = if me.rng.chance(300) { me.rng.below(1 << 40) } else { me.rng.below(3) };
            let asked = message.view.plus(1 + far);
            let own = me.stops((instance, message.membership), asked);
            let id = |who: usize| ReplicaId::new(who as u16 + 1);
            let mut stops: Signed = Vec::new();
            for who in 0..me.replicas {
                let copied = who == me.who || me.rng.chance(500);
                stops.push((id(who), if copied { own } else { Signature::NONE }));
            }
            if me.rng.chance(250) {
                stops = vec![(me.id(), own)];
            }
            let body = Body::Certificate { stops };
            let message = ModSmartMessage { view: asked, body, ..message };
            list.push(Saying::now(to, Said::ModSmart(instance, message)));
        }
        list
    }
}
