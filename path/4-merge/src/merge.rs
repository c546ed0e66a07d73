//! The merge itself: what goes in, what comes out. docs/protocols/merge.md L5-L8.
//!
//! The cursor names the next place of the global log. Whatever is there is handed on, and nothing else (INV-MERGE-1). Runs of no-ops
//! cost by the instance and record, never by the slot.
//! Tests: tests/merge/deliver.rs, tests/merge/model.rs.

use crate::checkpoint::Checkpoint;
use crate::generation::{Generation, INSTANCES_MAX, Position, SLOT_MAX, WINDOW_MAX, WINDOW_MIN};
use crate::local::{Decided, Local, RecordIndex, Stay, Taken};
use crate::metrics::Counts;
use crate::reads::Waiting;
use crate::refused::Refused;
use quorate_types::{InstanceId, Seq, Slot, Time};

/// What all replicas must agree on, and what is this one's own affair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// No instance runs more slots than this ahead of the merge, and a change takes effect so many slots after it. Agreed on.
    pub window: u64,
    /// An instance that holds so many bytes here, undelivered, should hand on no more.
    pub held_bytes_max: usize,
}

/// The next piece of the global log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Delivered<T> {
    /// A batch.
    Batch {
        /// Its place as a number.
        seq: Seq,
        /// Its place.
        position: Position,
        /// The batch.
        payload: T,
    },
    /// Places with nothing in them.
    Noops {
        /// The first.
        first: Seq,
        /// The last.
        last: Seq,
    },
}

/// The merge of one replica. `T` is a batch, whatever the host makes of it.
#[derive(Clone, Debug)]
pub struct Merge<T> {
    pub(crate) config: Config,
    pub(crate) generation: Generation,
    /// What follows, when a change was executed and its border is not reached.
    pub(crate) next: Option<Generation>,
    /// Those before, since the last trim.
    pub(crate) past: Vec<Generation>,
    /// The slot that is delivered next, of the instance at `at`.
    pub(crate) slot: u64,
    pub(crate) at: usize,
    /// What was delivered last.
    pub(crate) seq: u64,
    /// The place of the batch that was taken last, while nothing else was.
    pub(crate) executing: Option<Position>,
    pub(crate) locals: Vec<Local<T>>,
    /// Everything up to here is to be decided, and filled where nothing is.
    pub(crate) wanted: Position,
    /// The part of it that this replica asks other replicas for.
    pub(crate) wanted_here: Position,
    /// What was asked of this replica beyond what its leaders could be asked for: it may lead and not know yet.
    pub(crate) wanted_early: Position,
    pub(crate) reads: Vec<Waiting>,
    /// Since when it waits, and for whom, while work waits behind.
    pub(crate) waiting: Option<(usize, Time)>,
    pub(crate) counts: Counts,
}

/// Before everything.
pub(crate) const NOWHERE: Position = Position::new(0, 0);

impl<T> Merge<T> {
    /// An empty global log, with so many instances.
    ///
    /// # Errors
    /// When there are no such instances, or no such window.
    pub fn new(config: Config, instances: u16) -> Result<Self, Refused> {
        Self::restore(config, &Checkpoint::begin(config.window, instances))
    }

    pub(crate) fn empty(config: Config, generation: Generation) -> Result<Self, Refused> {
        if !(1..=INSTANCES_MAX).contains(&generation.instances) {
            return Err(Refused::Instances);
        }
        if !(WINDOW_MIN..=WINDOW_MAX).contains(&config.window) {
            return Err(Refused::Window);
        }
        Ok(Self {
            config,
            generation,
            next: None,
            past: Vec::new(),
            slot: generation.first.number(),
            at: 0,
            seq: generation.base.number(),
            executing: None,
            locals: Vec::new(),
            wanted: NOWHERE,
            wanted_here: NOWHERE,
            wanted_early: NOWHERE,
            reads: Vec::new(),
            waiting: None,
            counts: Counts::default(),
        })
    }

    /// An instance decided its next record. [merge L5]
    ///
    /// # Errors
    /// When what was decided does not fit together: the instance's log can not be trusted.
    pub fn decided(
        &mut self,
        instance: InstanceId,
        record: RecordIndex,
        what: Decided<T>,
    ) -> Result<(), Refused> {
        let at = self.index(instance)?;
        let (done, border) = (self.done(at), self.border());
        let local = &mut self.locals[at];
        let taken = local.take(record.0, what, done, border)?;
        let placed = local.placed;
        let leads = local.lead.as_mut().is_some_and(|lead| {
            lead.decided(Slot::new(placed));
            true
        });
        match taken {
            Taken::Work(slot) => self.want(Position::at(slot, at), leads),
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
        let local = &mut self.locals[self.at];
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
        assert!(end == self.slot, "INV-MERGE-1: a batch is delivered at its own place");
        let payload = self.locals[self.at].pop()?;
        let position = Position::at(self.slot, self.at);
        self.step();
        self.counts.batches += 1;
        self.executing = Some(position);
        Some(Delivered::Batch { seq: Seq::new(self.seq), position, payload })
    }

    /// One place further.
    fn step(&mut self) {
        self.seq += 1;
        self.at += 1;
        if self.at == usize::from(self.generation.instances) {
            self.at = 0;
            self.slot += 1;
            self.begin_next();
        }
    }

    /// All no-ops up to the next place that holds none. [merge L8]
    fn noops(&mut self) -> Delivered<T> {
        let first = self.seq + 1;
        loop {
            let rounds = if self.at == 0 { self.empty_rounds() } else { 0 };
            if rounds > 0 {
                self.skip(rounds);
            } else if let Some(end) = self.locals[self.at].noop_end() {
                if end == self.slot {
                    self.locals[self.at].pop();
                }
                self.step();
            } else {
                break;
            }
        }
        self.executing = None;
        self.counts.noop_slots += self.seq + 1 - first;
        Delivered::Noops { first: Seq::new(first), last: Seq::new(self.seq) }
    }

    /// How many whole rounds from here on hold nothing but no-ops.
    fn empty_rounds(&self) -> u64 {
        let present = &self.locals[..usize::from(self.generation.instances)];
        let ends = present.iter().map(|local| local.noop_end().unwrap_or(0));
        // None of them reaches across a border.
        let end = ends.min().unwrap_or(0);
        (end + 1).saturating_sub(self.slot)
    }

    fn skip(&mut self, rounds: u64) {
        let last = self.slot + rounds - 1;
        for local in &mut self.locals[..usize::from(self.generation.instances)] {
            if local.noop_end() == Some(last) {
                local.pop();
            }
        }
        self.seq += rounds * u64::from(self.generation.instances);
        self.slot = last + 1;
        self.begin_next();
    }

    /// Enters the generation that begins here, if one does. [merge L4]
    fn begin_next(&mut self) {
        let slot = self.slot;
        let Some(next) = self.next.take_if(|next| next.first.number() == slot) else { return };
        self.past.push(std::mem::replace(&mut self.generation, next));
        for local in &mut self.locals[usize::from(next.instances)..] {
            assert!(local.queue.is_empty(), "INV-MERGE-4: an instance leaves when all it said is delivered");
            local.stay = Stay::Away;
        }
    }

    fn note_wait(&mut self, now: Time) {
        let here = Position::at(self.slot, self.at);
        if self.waiting.is_none() && here <= self.wanted {
            self.waiting = Some((self.at, now));
        }
    }

    /// The batches of an instance that are decided and wait for others.
    pub fn held(&self, instance: InstanceId) -> impl Iterator<Item = &T> {
        let local = self.index(instance).ok().map(|at| &self.locals[at]);
        local
            .into_iter()
            .flat_map(|local| &local.queue)
            .filter_map(|item| item.payload.as_ref())
            .map(|held| &held.0)
    }

    /// Whether an instance may hand on more. Who has nothing here always may, and so may whom the merge waits for.
    pub fn is_open(&self, instance: InstanceId) -> bool {
        self.index(instance).is_ok_and(|at| self.locals[at].bytes < self.config.held_bytes_max.max(1))
    }

    /// The record that an instance is to hand in next.
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

    /// About which seq the slots of this record have, which may not be known here yet: exact unless records between are no-ops.
    pub fn estimate(&self, instance: InstanceId, record: RecordIndex) -> Seq {
        let Ok(at) = self.index(instance) else { return self.seq() };
        let local = &self.locals[at];
        let slot = local.placed.saturating_add(record.0.saturating_sub(local.last)).min(SLOT_MAX);
        self.generation.seq(Position::at(slot, at)).unwrap_or_default().max(self.seq())
    }

    /// What was delivered last.
    pub fn seq(&self) -> Seq {
        Seq::new(self.seq)
    }

    /// The place that is delivered next.
    pub fn cursor(&self) -> Position {
        Position::at(self.slot, self.at)
    }

    /// How slots map to seqs at the cursor.
    pub fn generation(&self) -> Generation {
        self.generation
    }

    /// The generation that follows, if a change is under way.
    pub fn next_generation(&self) -> Option<Generation> {
        self.next
    }

    pub(crate) fn index(&self, instance: InstanceId) -> Result<usize, Refused> {
        let at = usize::from(instance.number()).checked_sub(1);
        at.filter(|at| *at < self.locals.len()).ok_or(Refused::UnknownInstance)
    }

    /// How many slots of an instance are delivered.
    pub(crate) fn done(&self, at: usize) -> u64 {
        if at >= usize::from(self.generation.instances) {
            self.locals[at].base
        } else if at < self.at {
            self.slot
        } else {
            self.slot - 1
        }
    }

    /// The last slot of a generation that ends.
    pub(crate) fn border(&self) -> Option<u64> {
        self.next.map(|next| next.first.number() - 1)
    }

    /// Everything up to here is wanted.
    pub(crate) fn want(&mut self, position: Position, of_others: bool) {
        self.wanted = self.wanted.max(position);
        if of_others {
            self.wanted_here = self.wanted_here.max(position);
        }
    }

    /// The slots that instances decided, the highest and the lowest.
    pub(crate) fn extremes(&self) -> (u64, u64) {
        let present = &self.locals[..usize::from(self.generation.instances)];
        let placed = present.iter().map(|local| local.placed);
        (placed.clone().max().unwrap_or(0), placed.min().unwrap_or(0))
    }

    /// The slots of which every instance has delivered its own.
    pub(crate) fn delivered(&self) -> Slot {
        Slot::new(self.slot - 1)
    }
}
