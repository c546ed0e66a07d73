//! The merge itself: its inputs and outputs. docs/protocols/merge.md L5-L8.
//!
//! The cursor is the next place of the global log. What is there is handed on, and nothing else (INV-MERGE-1). A run of no-ops costs time
//! for each instance and record, never for each slot.
//!
//! Its parts are the course of the cursor (`course`), the instances' logs (`local`) with their leaders (`propose`), what must be filled
//! (`wanted`), and reads (`reads`). This file passes results from one to the other. Tests: tests/merge/deliver.rs, tests/merge/model.rs.

use crate::checkpoint::Checkpoint;
use crate::course::Course;
use crate::generation::{Generation, Place, SLOT_MAX};
use crate::local::{Decided, Local, RecordIndex, Stay, Taken};
use crate::metrics::{self, Counts, Status, Waits};
use crate::reads::{ReadEnd, Reads};
use crate::refused::Refused;
use crate::wanted::Wanted;
use crate::{change, invariants};
use quorate_types::{InstanceId, Seq, Slot, Time};

/// The settings: some must be equal on all replicas, one is each replica's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// How many slots an instance may run ahead of the merge. A change takes effect this many slots after its command. Equal on all
    /// replicas.
    pub window: u64,
    /// When this many bytes of an instance wait here undelivered, the instance should hand in no more. Each replica's own.
    pub held_bytes_max: usize,
}

/// The next piece of the global log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Delivered<T> {
    /// A batch.
    Batch {
        /// Its position in the global log.
        seq: Seq,
        /// Its place.
        place: Place,
        /// The batch.
        payload: T,
    },
    /// Places with nothing in them.
    Noops {
        /// The first position.
        first: Seq,
        /// The last position.
        last: Seq,
    },
}

/// The merge of one replica. `T` is a batch, in whatever form the host uses.
#[derive(Clone, Debug)]
pub struct Merge<T> {
    pub(crate) config: Config,
    pub(crate) course: Course,
    /// The place of the batch that was taken last, until the next piece is taken.
    pub(crate) executing: Option<Place>,
    pub(crate) locals: Vec<Local<T>>,
    pub(crate) wanted: Wanted,
    pub(crate) reads: Reads,
    /// While work waits behind: the index of the instance that the merge waits for, and since when.
    pub(crate) waiting: Option<(usize, Time)>,
    pub(crate) counts: Counts,
}

impl<T> Merge<T> {
    /// An empty global log with this many instances.
    ///
    /// # Errors
    /// When the number of instances or the window is not allowed.
    pub fn new(config: Config, instances: u16) -> Result<Self, Refused> {
        Self::restore(config, &Checkpoint::begin(config.window, instances))
    }

    /// An instance decided its next record. [merge L5]
    ///
    /// # Errors
    /// When the record contradicts earlier ones: the instance's log can not be trusted.
    pub fn decided(
        &mut self,
        instance: InstanceId,
        record: RecordIndex,
        what: Decided<T>,
    ) -> Result<(), Refused> {
        let at = self.index(instance)?;
        let (done, border) = (self.done(at), self.course.border());
        let local = &mut self.locals[at];
        let taken = local.take(record.0, what, done, border)?;
        let placed = local.placed;
        let leads = local.lead.as_mut().is_some_and(|lead| {
            lead.decided(Slot::new(placed));
            true
        });
        match taken {
            Taken::Work(slot) => self.wanted.want(Place::at(slot, at), leads),
            Taken::Noop(slots) => {
                self.counts.noop_records += 1;
                self.counts.noop_records_empty += u64::from(slots == 0);
            }
            Taken::Nothing => {}
        }
        Ok(())
    }

    /// The next piece of the global log, if it is known. The host executes it before it takes another one. [merge L7]
    pub fn next(&mut self, now: Time) -> Option<Delivered<T>> {
        let place = self.course.cursor();
        let local = &mut self.locals[self.course.at()];
        let Some((end, noop)) = local.queue.front().map(|front| (front.end, front.payload.is_none())) else {
            self.note_wait(now);
            return None;
        };
        if let Some((_, since)) = self.waiting.take() {
            local.waited = local.waited.plus(now.since(since));
        }
        if noop {
            return Some(self.noops());
        }
        assert!(end == place.slot.number(), "INV-MERGE-1: a batch is delivered at its own place");
        let payload = local.pop()?;
        self.go_on();
        self.counts.batches += 1;
        self.executing = Some(place);
        Some(Delivered::Batch { seq: self.seq(), place, payload })
    }

    /// Moves on by one place.
    fn go_on(&mut self) {
        if let Some(begun) = self.course.step() {
            self.begin(begun);
        }
    }

    /// All no-ops up to the next place that holds a batch or is not known. [merge L8]
    fn noops(&mut self) -> Delivered<T> {
        let first = self.course.seq() + 1;
        loop {
            let at = self.course.at();
            let rounds = if at == 0 { self.empty_rounds() } else { 0 };
            if rounds > 0 {
                self.skip(rounds);
            } else if let Some(end) = self.locals[at].noop_end() {
                if end == self.course.slot() {
                    self.locals[at].pop();
                }
                self.go_on();
            } else {
                break;
            }
        }
        self.executing = None;
        self.counts.noop_slots += self.course.seq() + 1 - first;
        Delivered::Noops { first: Seq::new(first), last: self.seq() }
    }

    /// How many whole rounds from here on hold only no-ops.
    fn empty_rounds(&self) -> u64 {
        let ends = self.locals[..self.course.count()].iter().map(|local| local.noop_end().unwrap_or(0));
        // None of them reaches across a border.
        let end = ends.min().unwrap_or(0);
        (end + 1).saturating_sub(self.course.slot())
    }

    fn skip(&mut self, rounds: u64) {
        let last = self.course.slot() + rounds - 1;
        for local in &mut self.locals[..self.course.count()] {
            if local.noop_end() == Some(last) {
                local.pop();
            }
        }
        if let Some(begun) = self.course.skip(rounds) {
            self.begin(begun);
        }
    }

    /// A generation begins here. Instances that it leaves out take no part any more. [merge L4]
    fn begin(&mut self, generation: Generation) {
        for local in &mut self.locals[usize::from(generation.instances)..] {
            assert!(local.queue.is_empty(), "INV-MERGE-4: an instance leaves when all it said is delivered");
            local.stay = Stay::Away;
        }
    }

    fn note_wait(&mut self, now: Time) {
        if self.waiting.is_none() && self.wanted.reaches(self.course.cursor()) {
            self.waiting = Some((self.course.at(), now));
        }
    }

    /// The batches of an instance that are decided and wait for other instances.
    pub fn held(&self, instance: InstanceId) -> impl Iterator<Item = &T> {
        let local = self.index(instance).ok().map(|at| &self.locals[at]);
        local
            .into_iter()
            .flat_map(|local| &local.queue)
            .filter_map(|item| item.payload.as_ref())
            .map(|held| &held.0)
    }

    /// Whether an instance may hand in more. An instance with nothing here always may, and so may the one that the merge waits for.
    pub fn is_open(&self, instance: InstanceId) -> bool {
        self.index(instance).is_ok_and(|at| self.locals[at].bytes < self.config.held_bytes_max.max(1))
    }

    /// The record that an instance must hand in next.
    pub fn next_record(&self, instance: InstanceId) -> Option<RecordIndex> {
        let at = self.index(instance).ok()?;
        Some(RecordIndex(self.locals[at].last + 1))
    }

    /// Whether all batches among an instance's records up to this one are delivered.
    pub fn has_delivered(&self, instance: InstanceId, record: RecordIndex) -> bool {
        let waits = |local: &Local<T>| {
            let mut queue = local.queue.iter().take_while(|item| item.record <= record.0);
            let unplaced = local.unplaced.front().is_some_and(|(first, _)| *first <= record.0);
            unplaced || queue.any(|item| item.payload.is_some())
        };
        self.index(instance).is_ok_and(|at| {
            let local = &self.locals[at];
            local.last >= record.0 && !waits(local)
        })
    }

    /// About which seq the slots of this record have, even if they are not known yet. Exact unless there are no-ops between.
    pub fn estimate(&self, instance: InstanceId, record: RecordIndex) -> Seq {
        let Ok(at) = self.index(instance) else { return self.seq() };
        let local = &self.locals[at];
        let slot = local.placed.saturating_add(record.0.saturating_sub(local.last)).min(SLOT_MAX);
        self.course.generation().seq(Place::at(slot, at)).unwrap_or_default().max(self.seq())
    }

    /// The last seq that was delivered.
    pub fn seq(&self) -> Seq {
        Seq::new(self.course.seq())
    }

    /// The place that is delivered next.
    pub fn cursor(&self) -> Place {
        self.course.cursor()
    }

    /// The generation at the cursor.
    pub fn generation(&self) -> Generation {
        self.course.generation()
    }

    /// The generation that follows, if a change is under way.
    pub fn next_generation(&self) -> Option<Generation> {
        self.course.next()
    }

    pub(crate) fn index(&self, instance: InstanceId) -> Result<usize, Refused> {
        let at = usize::from(instance.number()).checked_sub(1);
        at.filter(|at| *at < self.locals.len()).ok_or(Refused::UnknownInstance)
    }

    /// How many slots of an instance are delivered.
    pub(crate) fn done(&self, at: usize) -> u64 {
        self.course.done(at).unwrap_or_else(|| self.locals[at].base)
    }
}

/// Changes of the number of instances; see `change`.
impl<T> Merge<T> {
    /// The batch that was taken last holds a command for another number of instances. All replicas get the same result. Instances that the
    /// new generation adds exist from now on.
    ///
    /// # Errors
    /// When the number is not allowed, or another change is under way; then nothing changed. Only [`Refused::AcrossBorder`] means that the
    /// instances' logs can not be trusted.
    pub fn change(&mut self, instances: u16) -> Result<Generation, Refused> {
        let begun = self.executing.ok_or(Refused::NoCommand)?;
        let (border, next) = self.course.plan(begun, self.config.window, instances)?;
        let present = self.course.count();
        change::leave(&mut self.locals[..present], usize::from(instances), border)?;
        self.course.announce(next);
        self.reads.forget_behind(border, &self.locals);
        for at in present..usize::from(instances) {
            for slot in change::bring_in(&mut self.locals, at, border) {
                self.wanted.want(Place::at(slot, at), false);
            }
        }
        // It would wait for ever where nobody has anything to say.
        self.wanted.want(Place::new(border, self.course.generation().instances), false);
        Ok(next)
    }

    /// The host begins this instance anew, after its last delivered record. What the instance handed in later, in an earlier stay, stood
    /// for no slot; new records are counted from there.
    pub fn renew(&mut self, instance: InstanceId) {
        let Ok(at) = self.index(instance) else { return };
        let local = &mut self.locals[at];
        let waited = local.waited;
        *local = Local::new(local.record, local.base, local.stay);
        local.waited = waited;
    }

    /// The last record of an instance that was delivered completely and stood for a slot. The instance continues, or comes back, after it.
    pub fn delivered_record(&self, instance: InstanceId) -> Option<RecordIndex> {
        self.index(instance).ok().map(|at| RecordIndex(self.locals[at].record))
    }

    /// Whether an instance takes part, now or from the next generation on, with no known end.
    pub fn stays(&self, instance: InstanceId) -> bool {
        self.index(instance).is_ok_and(|at| self.locals[at].stay == Stay::Here)
    }

    /// Whether an instance takes no part: a change left it out, and the generation border was passed.
    pub fn is_away(&self, instance: InstanceId) -> bool {
        self.index(instance).is_ok_and(|at| self.locals[at].stay == Stay::Away)
    }

    /// Whether the merge may still wait for records of an instance: it takes part, and has not handed in everything up to its end.
    pub fn expects(&self, instance: InstanceId) -> bool {
        self.index(instance).is_ok_and(|at| {
            let local = &self.locals[at];
            let present = at < self.course.count();
            present && !matches!(local.stay, Stay::Leaves(border) if local.placed >= border)
        })
    }

    /// The place with this seq, if its generation is still known. [merge L2]
    pub fn place(&self, seq: Seq) -> Option<Place> {
        self.course.place(seq)
    }

    /// The seq of this place, if its generation is still known and has it.
    pub fn seq_of(&self, place: Place) -> Option<Seq> {
        self.course.seq_of(place)
    }

    /// Forgets generations that end at or before this seq, since a checkpoint holds everything up to there.
    pub fn trim(&mut self, seq: Seq) {
        self.course.trim(seq);
    }

    /// Whether a replica may vote for, or append, this slot: it has executed the global log up to a window before the slot. [merge L13]
    pub fn is_within_window(&self, slot: Slot) -> bool {
        slot.number() <= self.course.delivered().number().saturating_add(self.config.window)
    }
}

/// Strong reads; see `reads`.
impl<T> Merge<T> {
    /// The instance whose leader should be asked for a strong read, among those with a known leader: the one that the merge waits for. When
    /// nothing waits for delivery, such a read does not have to wait either. An instance that has left, or has decided all that it will,
    /// proves nothing. [merge L17]
    pub fn read_through(&self, has_leader: impl Fn(InstanceId) -> bool) -> Option<InstanceId> {
        let count = self.course.count();
        let in_order = || (0..count).map(|step| (self.course.at() + step) % count);
        let stays = |at: &usize| self.locals[*at].stay == Stay::Here;
        let leaving = in_order().filter(|at| match self.locals[*at].stay {
            Stay::Leaves(last) => self.locals[*at].placed < last,
            Stay::Here | Stay::Away => false,
        });
        let mut all = in_order().filter(stays).chain(leaving).map(|at| InstanceId::new(at as u16 + 1));
        all.find(|instance| has_leader(*instance))
    }

    /// The leader of an instance confirmed that everything decided in that instance before the read is among the records up to this one.
    pub fn read_confirmed(&mut self, read: u64, instance: InstanceId, record: RecordIndex) {
        self.reads.confirmed(read, self.index(instance).ok(), record);
    }

    /// The read is not needed any more.
    pub fn drop_read(&mut self, read: u64) {
        self.reads.retain(|waiting| waiting != read);
    }

    /// Whether a read waits for its place in the global log.
    pub fn has_reads(&self) -> bool {
        self.reads.are_there()
    }

    /// Keeps only the reads for which `waits` is true.
    pub fn retain_reads(&mut self, waits: impl Fn(u64) -> bool) {
        self.reads.retain(waits);
    }

    /// Hands over the reads that need not wait any more, in the order in which they were confirmed. What the other reads wait for is filled
    /// from now on. Call it once a turn, before [`Merge::fill`]. [merge L18, L19]
    pub fn reads(&mut self, end: impl FnMut(u64, ReadEnd)) {
        if !self.reads.are_there() {
            return;
        }
        if let Some(place) = self.reads.step(self.course.cursor(), &self.locals, end) {
            self.wanted.want(place, true);
        }
    }
}

/// What operators and checkers see.
impl<T> Merge<T> {
    /// Totals since the start.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// What the merge waits for while work waits behind it. The host uses it to time out a leader that holds everything up.
    pub fn waits(&self) -> Option<Waits> {
        metrics::waits(self)
    }

    /// The full status.
    pub fn status(&self, now: Time) -> Status {
        metrics::status(self, now)
    }

    /// Panics with the name of the invariant that does not hold. `thorough` looks at every record.
    pub fn invariants(&self, thorough: bool) {
        invariants::check(self, thorough);
    }
}
