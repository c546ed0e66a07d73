//! A leader that proposes one batch to some members and another one to the others.

use crate::liars::voice::{rebuilt, requests_of};
use crate::liars::{Plays, Said, Saying, Voice};
use quorate_order::mod_smart::message::ModSmartBody as Body;
use quorate_types::{InstanceId, Slot, View};
use quorate_wire::{Batch, BatchHeader};
use std::collections::BTreeMap;

/// See the module.
#[derive(Debug, Default)]
pub(in crate::liars) struct Equivocate {
    others: BTreeMap<(InstanceId, View, Slot), Batch>,
}

/// Another batch with the same clients' requests, so that no member finds anything wrong with it.
fn another(me: &mut Voice, batch: &Batch) -> Batch {
    let mut requests = requests_of(batch);
    if requests.len() > 1 && me.rng.chance(500) {
        requests.pop();
    }
    rebuilt(BatchHeader { seed: me.rng.number(), ..batch.header() }, &requests)
}

impl Plays for Equivocate {
    fn instead(&mut self, me: &mut Voice, to: usize, said: Said) -> Vec<Saying> {
        let mut said = said;
        if let Said::ModSmart(instance, message) = &mut said
            && let Body::Propose { slot, batch } = &mut message.body
            && to.is_multiple_of(2)
            && batch.no_op_target().is_none()
        {
            let key = (*instance, message.view, *slot);
            *batch = self.others.entry(key).or_insert_with(|| another(me, batch)).clone();
            if self.others.len() > 64 {
                self.others.pop_first();
            }
        }
        vec![Saying::now(to, said)]
    }
}
