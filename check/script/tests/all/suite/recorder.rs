//! Writes down every input and effect of a protocol.

use quorate_order::{Anchor, Effects, Input, Order, Restored, Standing, Status, Stored};
use quorate_types::{Halt, RecordId, ReplicaId, Slot, Time};
use std::sync::{Arc, Mutex};

/// A protocol whose inputs and effects become lines of text.
#[derive(Debug)]
pub(crate) struct Recorder {
    inner: Box<dyn Order>,
    me: ReplicaId,
    lines: Arc<Mutex<Vec<String>>>,
}

impl Recorder {
    pub(crate) fn new(inner: Box<dyn Order>, me: ReplicaId, lines: Arc<Mutex<Vec<String>>>) -> Self {
        Self { inner, me, lines }
    }

    fn record(&self, what: &str, mut effects: Effects, out: &mut Effects) {
        let mut lines = self.lines.lock().expect("nobody panicked");
        lines.push(format!("{} {what}", self.me));
        for effect in effects.drain() {
            lines.push(format!("{} -> {effect:?}", self.me));
            out.push(effect);
        }
        let (standing, status) = (self.inner.standing(), self.inner.status());
        lines.push(format!("{} then {:?} {standing:?} {status:?}", self.me, self.inner.deadline()));
    }
}

impl Order for Recorder {
    fn restore_anchor(&mut self, slot: Slot, anchor: &Anchor) -> Result<(), Halt> {
        self.inner.restore_anchor(slot, anchor)
    }
    fn anchor(&self, slot: Slot) -> Option<Anchor> {
        self.inner.anchor(slot)
    }
    fn keep_from(&self) -> Option<RecordId> {
        self.inner.keep_from()
    }
    fn restore(&mut self, id: RecordId, record: Stored) -> Result<(), Halt> {
        self.inner.restore(id, record)
    }
    fn restore_outdated(&mut self) {
        self.inner.restore_outdated();
    }
    fn restore_gap(&mut self, missing: u64) {
        self.inner.restore_gap(missing);
    }
    fn restored(&self) -> Restored {
        self.inner.restored()
    }
    fn covers(&self, slot: Slot, anchor: &Anchor) -> bool {
        self.inner.covers(slot, anchor)
    }
    fn restore_installed(&mut self, slot: Slot, anchor: &Anchor) -> Result<(), Halt> {
        self.inner.restore_installed(slot, anchor)
    }
    fn start(&mut self, now: Time, out: &mut Effects) {
        let mut effects = Effects::new();
        self.inner.start(now, &mut effects);
        self.record(&format!("start {now:?}"), effects, out);
    }
    fn step(&mut self, now: Time, input: Input, out: &mut Effects) {
        let what = format!("{now:?} {input:?}");
        let mut effects = Effects::new();
        self.inner.step(now, input, &mut effects);
        self.record(&what, effects, out);
    }
    fn deadline(&self) -> Option<Time> {
        self.inner.deadline()
    }
    fn heartbeats(&self, out: &mut Effects) {
        self.inner.heartbeats(out);
    }
    fn status(&self) -> Status {
        self.inner.status()
    }
    fn standing(&self) -> Standing {
        self.inner.standing()
    }
    fn invariants(&self, thorough: bool) {
        self.inner.invariants(thorough);
    }
}
