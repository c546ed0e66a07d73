//! What must be decided, and filled where there are no batches. It is one place of the global log, the furthest, for each of three kinds.
//! docs/protocols/merge.md L9, L14, L15.
//!
//! The places only grow, and a place before the cursor asks for nothing. Tests: wanted/tests.rs, tests/merge/fill.rs.

use crate::generation::{INSTANCES_MAX, Place, SLOT_MAX};
use crate::local::{Local, Stay};

/// The place before all others.
const NOWHERE: Place = Place::new(0, 0);

/// The places that are wanted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted {
    /// Everything up to here must be decided, and filled where there are no batches.
    all: Place,
    /// Up to here this replica asks other replicas.
    here: Place,
    /// What others asked of this replica beyond what its leaders can propose yet: this replica may lead and not know it.
    early: Place,
}

impl Wanted {
    /// Nothing is wanted.
    pub(crate) const NOTHING: Self = Self { all: NOWHERE, here: NOWHERE, early: NOWHERE };

    /// Everything up to this place is wanted. `of_others`: other replicas are asked for it, too.
    pub(crate) fn want(&mut self, place: Place, of_others: bool) {
        self.all = self.all.max(place);
        if of_others {
            self.here = self.here.max(place);
        }
    }

    /// Another replica wants everything up to this place. A settled leader here can not be asked for more than slot `last`; the rest waits
    /// until another leader is settled. [merge L15]
    pub(crate) fn asked(&mut self, place: Place, last: u64) {
        let sure = place.min(Place::new(last, INSTANCES_MAX));
        self.want(sure, false);
        if sure < place {
            self.early = self.early.max(place);
        }
    }

    /// Takes what was asked too early: a leader is settled now and is asked again.
    pub(crate) fn take_early(&mut self) -> Place {
        std::mem::replace(&mut self.early, NOWHERE)
    }

    /// A checkpoint replaced what was not delivered; what was wanted stays wanted.
    pub(crate) fn keep(&mut self, before: Self) {
        *self = Self { all: self.all.max(before.all), ..before };
    }

    /// Whether everything up to this place is wanted.
    pub(crate) fn reaches(&self, place: Place) -> bool {
        place <= self.all
    }
    /// How far the instance at this index of the list must be decided.
    pub(crate) fn needs(&self, at: usize) -> u64 {
        self.all.needs(at)
    }
    /// As [`Self::needs`], with what was asked too early.
    pub(crate) fn needs_with_early(&self, at: usize) -> u64 {
        self.all.needs(at).max(self.early.needs(at))
    }

    /// Names each instance that is led elsewhere and lacks what is waited for here, with the place up to which everything is wanted. Each
    /// is named once, until its leader got so far. [merge L14]
    pub(crate) fn ask<T>(&self, cursor: Place, locals: &mut [Local<T>], mut ask: impl FnMut(usize, Place)) {
        if self.here < cursor {
            return;
        }
        for (at, local) in locals.iter_mut().enumerate() {
            let last = match local.stay {
                Stay::Here => SLOT_MAX,
                Stay::Leaves(border) => border,
                Stay::Away => 0,
            };
            let need = self.here.needs(at).min(last);
            if local.lead.is_some() || need <= local.placed || local.asked > local.placed {
                continue;
            }
            local.asked = need;
            ask(at, self.here);
        }
    }
}

#[cfg(test)]
mod tests;
