//! SYNCs with statements that were not made, the same for all members or different ones for each, and votes for what follows from them.

use crate::liars::{Plays, Said, Saying, Voice};
use quorate_auth::Signature;
use quorate_order::mod_smart::digest_of;
use quorate_order::mod_smart::message::{Collect, ModSmartBody as Body, ModSmartMessage};
use quorate_types::{InstanceId, Slot, View};
use std::collections::BTreeMap;

/// See the module.
#[derive(Debug, Default)]
pub(in crate::liars) struct FalseSync {
    shown: BTreeMap<(InstanceId, View), Body>,
}

fn falsify(me: &mut Voice, instance: InstanceId, message: &ModSmartMessage) -> Option<Body> {
    let Body::Sync { stops, collects, last, value } = &message.body else { return None };
    let (mut collects, mut last, mut value) = (collects.clone(), last.clone(), value.clone());
    let (of, view) = ((instance, message.membership), message.view);
    match me.rng.below(7) {
        0 => {
            // Statements of an earlier view.
            if let Some((_, old)) = me.smart.collects.range(..(instance, view)).next_back() {
                collects = old.values().cloned().collect();
            }
            value = None;
        }
        1 => {
            collects.truncate(me.replicas / 2);
            value = Some(me.invent());
        }
        2 => value = Some(me.invent()),
        3 => value = None,
        4 => {
            // Its own statement once more, in the places of others.
            let decided = collects.first().map_or(Slot::ZERO, |collect| collect.decided);
            let none =
                Collect { from: me.id(), decided, lock: None, writes: vec![], signature: Signature::NONE };
            let mine = me.collect(of, view, none);
            collects.iter_mut().for_each(|collect| *collect = Collect { from: collect.from, ..mine.clone() });
            value = Some(me.invent());
        }
        5 => {
            // Fewer statements, all of them right.
            let at = me.rng.below(collects.len() as u64) as usize;
            if at < collects.len() {
                collects.remove(at);
            }
        }
        _ => last = None,
    }
    Some(Body::Sync { stops: stops.clone(), collects, last, value })
}

impl Plays for FalseSync {
    fn instead(&mut self, me: &mut Voice, to: usize, said: Said) -> Vec<Saying> {
        let Said::ModSmart(instance, message) = &said else { return vec![Saying::now(to, said)] };
        if !matches!(message.body, Body::Sync { .. }) {
            return vec![Saying::now(to, said)];
        }
        let (instance, view, key) = (*instance, message.view, (*instance, message.view));
        let again = self.shown.get(&key).cloned().filter(|_| me.rng.chance(750));
        let Some(body) = again.or_else(|| falsify(me, instance, message)) else {
            return vec![Saying::now(to, said)];
        };
        self.shown.insert(key, body.clone());
        let say =
            |body| Saying::now(to, Said::ModSmart(instance, ModSmartMessage { body, ..message.clone() }));
        let mut list = vec![say(body.clone())];
        if let Body::Sync { last, value: Some(batch), .. } = &body {
            let slot = last.as_ref().map_or(Slot::FIRST, |proof| proof.slot.next());
            let digest = digest_of(batch);
            list.push(say(Body::Write { slot, digest }));
            list.push(say(me.accept((instance, message.membership), view, slot, digest)));
        }
        list
    }
}
