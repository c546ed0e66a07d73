//! What must be decided, and filled where nothing is: places of the global log, the furthest of each kind. docs/protocols/merge.md
//! L9, L14, L15.
//!
//! It only grows, and what lies behind the cursor asks for nothing. Tests: wanted/tests.rs, tests/merge/fill.rs.

use crate::generation::{INSTANCES_MAX, Place, SLOT_MAX};
use crate::local::{Local, Stay};

/// Before everything.
const NOWHERE: Place = Place::new(0, 0);

/// What is wanted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted {
    /// Everything up to here is to be decided, and filled where nothing is.
    all: Place,
    /// The part of it that this replica asks other replicas for.
    here: Place,
    /// What was asked of this replica beyond what its leaders could be asked for: it may lead and not know yet.
    early: Place,
}

impl Wanted {
    /// Nothing is.
    pub(crate) const NOTHING: Self = Self { all: NOWHERE, here: NOWHERE, early: NOWHERE };

    /// Everything up to here is wanted.
    pub(crate) fn want(&mut self, place: Place, of_others: bool) {
        self.all = self.all.max(place);
        if of_others {
            self.here = self.here.max(place);
        }
    }

    /// Another replica wants everything up to here. A leader that is settled can not be asked for more than slot `last`; the rest waits
    /// until another one is. [merge L15]
    pub(crate) fn asked(&mut self, place: Place, last: u64) {
        let sure = place.min(Place::new(last, INSTANCES_MAX));
        self.want(sure, false);
        if sure < place {
            self.early = self.early.max(place);
        }
    }

    /// What was asked too early. A leader is settled now, and it is asked again.
    pub(crate) fn take_early(&mut self) -> Place {
        std::mem::replace(&mut self.early, NOWHERE)
    }

    /// A checkpoint took the place of what was not delivered; what was wanted stays wanted.
    pub(crate) fn keep(&mut self, before: Self) {
        *self = Self { all: self.all.max(before.all), ..before };
    }

    /// Whether this place is.
    pub(crate) fn reaches(&self, place: Place) -> bool {
        place <= self.all
    }
    /// How far the instance at this place in the list must be decided.
    pub(crate) fn needs(&self, at: usize) -> u64 {
        self.all.needs(at)
    }
    /// The same, with what was asked too early.
    pub(crate) fn needs_with_early(&self, at: usize) -> u64 {
        self.all.needs(at).max(self.early.needs(at))
    }

    /// Names the instances that are led elsewhere and lack what is waited for here, each once until its leader got so far, and the place
    /// up to which everything is wanted. [merge L14]
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
