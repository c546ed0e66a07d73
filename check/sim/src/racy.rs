//! An execution whose commands race: some of them leave something in the state that depends on luck, as threads of a service with a bug
//! do. Only results that are verified survive it. Commands that run alone do not race.

use crate::random::Rng;
use crate::service::Tap;
use quorate_execute::Parallelism;
use quorate_execute::{
    CheckpointError, Execution, Executor, Final, Known, Ordered, Outcomes, Version, Work, Worked,
};
use quorate_types::{Seq, Time};

/// See the module.
pub struct Racy {
    inner: Box<dyn Execution>,
    tap: Tap,
    rng: Rng,
    /// This many of 1000 batches race.
    chance: u64,
    /// What a race leaves: at each replica something else, so no quorum has it.
    luck: u64,
    /// Whether any replica's commands may race.
    may_vary: bool,
    /// Whether commands of the present batch raced, or of the last one, which is over.
    raced: bool,
    is_over: bool,
}

impl Racy {
    /// Commands race where `inner` runs them.
    pub fn new(inner: Box<dyn Execution>, (chance, luck): (u64, u64), rng: Rng, tap: Tap) -> Self {
        Self { inner, tap, rng, chance, luck, may_vary: chance > 0, raced: false, is_over: false }
    }

    /// Results may also be others for another reason, here or elsewhere.
    pub fn varies(self, varies: bool) -> Self {
        Self { may_vary: self.may_vary || varies, ..self }
    }
}

impl Execution for Racy {
    fn next(&mut self, now: Time, outcomes: &mut Outcomes) -> Option<Final> {
        if std::mem::take(&mut self.is_over) {
            self.raced = false;
        }
        let races = self.rng.chance(self.chance);
        // A batch may have several turns.
        self.raced |= races;
        self.tap.race(if races { self.luck } else { 0 });
        let done = self.inner.next(now, outcomes);
        self.tap.race(0);
        self.is_over = done.is_some();
        done
    }

    fn deliver(&mut self, ordered: Ordered) {
        self.inner.deliver(ordered);
    }
    fn deadline(&self) -> Option<Time> {
        self.inner.deadline()
    }
    fn work(&mut self) -> Option<Work> {
        self.inner.work()
    }
    fn worked(&mut self, done: Worked) {
        self.inner.worked(done);
    }
    fn has_room(&self) -> bool {
        self.inner.has_room()
    }
    fn parallelism(&self) -> Option<Parallelism> {
        self.inner.parallelism()
    }
    fn may_vary(&self) -> bool {
        self.may_vary
    }
    fn has_varied(&self) -> bool {
        self.raced || self.inner.has_varied()
    }
    fn failed(&mut self, seq: Seq) {
        self.inner.failed(seq);
    }
    fn take_over(&mut self, known: &Known<'_>) {
        self.inner.take_over(known);
    }
    fn invariants(&self) {
        self.inner.invariants();
    }
    fn is_behind(&self) -> bool {
        self.inner.is_behind()
    }
    fn state(&self) -> &Executor {
        self.inner.state()
    }
    fn state_mut(&mut self) -> &mut Executor {
        self.inner.state_mut()
    }
    fn restore(&mut self, system: &[u8], objects: &Version) -> Result<(), CheckpointError> {
        self.inner.restore(system, objects)
    }
}
