//! Cells whose commands run one after the other, as if threads came between: a command may see, up to its first write, what was there before the
//! others of its wave wrote. That is what it would see if it read first, and then the others ran.

use crate::random::Rng;
use quorate_execute::{Cells, Part};
use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Runs whose numbers are this far behind are over.
const OVER: u64 = 4096;

/// See the module.
pub struct Interleaved(Mutex<State>);

struct State {
    part: Part,
    rng: Rng,
    /// In this many of 1000 cases a read comes before the writes of the others.
    chance: u64,
    /// The runs that wrote, or saw what others wrote.
    late: BTreeSet<u64>,
}

impl Interleaved {
    /// Cells that have nothing yet.
    pub fn new(chance: u64, rng: Rng) -> Self {
        Self(Mutex::new(State { part: Part::default(), rng, chance, late: BTreeSet::new() }))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Cells for Interleaved {
    fn parts(&self) -> usize {
        1
    }

    fn read(&self, who: u64, _: usize, look: &mut dyn FnMut(&Part)) {
        let state = &mut *self.lock();
        if !state.late.contains(&who) && state.rng.chance(state.chance) {
            return look(&Part::default());
        }
        state.late.insert(who);
        look(&state.part);
    }

    fn write(&self, who: u64, _: usize, change: &mut dyn FnMut(&mut Part)) {
        let state = &mut *self.lock();
        state.late.insert(who);
        state.late = state.late.split_off(&who.saturating_sub(OVER));
        change(&mut state.part);
    }
}
