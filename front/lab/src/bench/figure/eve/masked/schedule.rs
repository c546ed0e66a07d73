//! Workers on virtual time, from a seed: when commands begin, how long they take, and so which of them have a table at the same time.

use quorate_execute::Stopwatch;
use quorate_kv::{Tables, WorkCommand};
use quorate_sim::random::Rng;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Workers of each replica, as many as in the paper.
pub(super) const WORKERS: usize = 16;
/// How long a command takes, in nanoseconds: at least, and at most.
pub(super) const TAKES: (u64, u64) = (500_000, 1_500_000);
/// The longest time between what a worker is given and its beginning.
pub(super) const HANDED_OVER: u64 = 100_000;

/// The time of one replica's workers.
#[derive(Clone)]
pub(super) struct Schedule(Arc<Mutex<State>>);

struct State {
    rng: Rng,
    /// Whether commands run on workers now. Those that run alone never find a table taken.
    at_once: bool,
    /// When the present command began, and how long it takes.
    now: u64,
    takes: u64,
    /// Until when each table is taken in this wave.
    taken: BTreeMap<u32, u64>,
    /// Whether a command found its table taken.
    raced: bool,
}

impl Schedule {
    pub(super) fn new(rng: Rng) -> Self {
        let taken = BTreeMap::new();
        Self(Arc::new(Mutex::new(State { rng, at_once: false, now: 0, takes: 0, taken, raced: false })))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Commands run on workers from now on, or alone. Nobody has a table then.
    pub(super) fn at_once(&self, at_once: bool) {
        let state = &mut *self.state();
        state.at_once = at_once;
        state.taken.clear();
    }

    /// When a worker begins that is given something at this time.
    pub(super) fn handed_over(&self, at: u64) -> u64 {
        at + self.state().rng.below(HANDED_OVER)
    }

    /// A worker begins; the stopwatch for what it does.
    pub(super) fn begin(&self, at: u64) -> Clock {
        let state = &mut *self.state();
        (state.now, state.takes) = (at, 0);
        Clock(self.clone())
    }

    /// When the last command ended.
    pub(super) fn end(&self) -> u64 {
        self.state().now
    }

    /// Whether commands raced since the last call.
    pub(super) fn raced(&self) -> bool {
        std::mem::take(&mut self.state().raced)
    }
}

impl Tables for Schedule {
    fn take(&self, table: u32) -> bool {
        let state = &mut *self.state();
        let is_taken = state.at_once && state.taken.get(&table).is_some_and(|until| *until > state.now);
        if is_taken {
            state.raced = true;
        } else if state.at_once {
            state.taken.insert(table, state.now + state.takes / u64::from(WorkCommand::TABLE_PART));
        }
        !is_taken
    }

    /// When is known since it was taken.
    fn leave(&self, _: u32) {}
}

/// The time of a worker: asked before its first command, and after each.
pub(super) struct Clock(Schedule);

impl Stopwatch for Clock {
    fn nanos(&mut self) -> u64 {
        let state = &mut *self.0.state();
        state.now += state.takes;
        state.takes = state.rng.range(TAKES.0, TAKES.1);
        state.now
    }
}

/// The time of a replica's lane: commands seem to take so long there that workers get one at a time.
pub(super) struct Lane(pub(super) u64);

impl Stopwatch for Lane {
    fn nanos(&mut self) -> u64 {
        self.0 += TAKES.1 * 1000;
        self.0
    }
}
