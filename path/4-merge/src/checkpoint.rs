//! The merge's part of a checkpoint: where every instance stands at a seq. docs/protocols/merge.md L21-L24.
//!
//! It follows from the global log up to that seq and from nothing else, so it is the same on all replicas. Records that stand for no slot
//! do not count. A seq may lie inside a no-op of many slots; the record of that no-op is then handed in again.
//! Tests: tests/merge/checkpoints.rs, tests/merge/model.rs.

use crate::course::Course;
use crate::generation::{Generation, INSTANCES_MAX, Place, SLOT_MAX, WINDOW_MAX, WINDOW_MIN};
use crate::local::{Local, RecordIndex, Stay, Taken};
use crate::merge::{Config, Merge};
use crate::metrics::Counts;
use crate::reads::Reads;
use crate::refused::Refused;
use crate::wanted::Wanted;
use quorate_types::{InstanceId, Seq, Slot, planted};

/// Where an instance stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InstanceAt {
    /// Its last slot in the checkpoint.
    pub slot: Slot,
    /// Its last record that the checkpoint holds completely. Its log is trimmed up to this record and continues after it.
    pub record: RecordIndex,
    /// How many slots of the next record the checkpoint holds, too.
    pub offset: u64,
}

/// The merge's part of a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    /// The window, on which the cluster agreed.
    pub window: u64,
    /// The last seq in the checkpoint.
    pub seq: Seq,
    /// The generation after the checkpoint.
    pub generation: Generation,
    /// The generation after that, when a change is under way.
    pub next: Option<Generation>,
    /// All instances that ever took part, in order.
    pub instances: Vec<InstanceAt>,
}

impl Checkpoint {
    /// The state of an empty global log.
    pub fn begin(window: u64, instances: u16) -> Self {
        let nothing = InstanceAt { slot: Slot::ZERO, record: RecordIndex(0), offset: 0 };
        Self {
            window,
            seq: Seq::ZERO,
            generation: Generation::begin(instances),
            next: None,
            instances: vec![nothing; usize::from(instances.min(INSTANCES_MAX))],
        }
    }

    /// Whether its parts fit together. Returns the place after it.
    ///
    /// # Errors
    /// Says what does not fit.
    pub fn check(&self) -> Result<Place, Refused> {
        let refuse = |what| Err(Refused::Checkpoint(what));
        if !self.generation.is_sound() {
            return refuse("no such generation");
        }
        let Some(cursor) = self.generation.place(self.seq.next()).filter(|_| self.seq != self.seq.next())
        else {
            return refuse("its seq lies before its generation");
        };
        if cursor.slot.number() >= SLOT_MAX || self.instances.len() > usize::from(INSTANCES_MAX) {
            return refuse("no such slot or number of instances");
        }
        if let Some(next) = self.next {
            let follows =
                self.generation.after(next.first.number() - next.first.number().min(1), next.instances);
            let apart = cursor.slot < next.first && next.instances != self.generation.instances;
            if !next.is_sound() || follows != Some(next) || !apart {
                return refuse("the generation to come does not follow");
            }
        }
        let count = self.generation.instances.max(self.next.map_or(0, |next| next.instances));
        if self.instances.len() < usize::from(count) {
            return refuse("an instance is missing");
        }
        let wrong = self.instances.iter().enumerate().any(|(at, part)| !self.fits(at, part, cursor));
        if wrong { refuse("an instance stands where it can not") } else { Ok(cursor) }
    }

    fn fits(&self, at: usize, part: &InstanceAt, cursor: Place) -> bool {
        let slot = part.slot.number();
        let place = match self.next {
            _ if at < usize::from(self.generation.instances) => {
                let next = cursor.slot.number();
                let done = if at + 1 < usize::from(cursor.instance.number()) { next } else { next - 1 };
                slot == done && part.offset <= slot
            }
            Some(next) if at < usize::from(next.instances) => {
                slot == next.first.number() - 1 && part.offset == 0
            }
            _ => slot < cursor.slot.number() && part.offset == 0,
        };
        place && part.record.0 < u64::MAX - 1
    }

    /// The course that continues after it.
    fn course(&self) -> Result<Course, Refused> {
        let mut cursor = self.check()?;
        let mut next = self.next;
        if planted("merge-order-after-restart") {
            cursor.instance = InstanceId::new(1);
        }
        if planted("merge-border-off-by-one")
            && let Some(right) = next
        {
            next = self.generation.after(right.first.number(), right.instances);
        }
        Ok(Course::behind(self.seq, cursor, self.generation, next))
    }

    fn stay(&self, at: usize) -> Stay {
        let present = at < usize::from(self.generation.instances);
        match self.next {
            Some(next) if at < usize::from(next.instances) => Stay::Here,
            Some(next) if present => Stay::Leaves(next.first.number() - 1),
            None if present => Stay::Here,
            _ => Stay::Away,
        }
    }
}

impl<T> Merge<T> {
    /// The merge's part of a checkpoint at the last seq. If the last seq was a batch, the caller has already made every change that the
    /// batch asks for. [merge L21]
    pub fn checkpoint(&self) -> Checkpoint {
        let instances = self.locals.iter().enumerate().map(|(at, local)| {
            let slot = self.done(at);
            InstanceAt { slot: Slot::new(slot), record: RecordIndex(local.record), offset: slot - local.base }
        });
        Checkpoint {
            window: self.config.window,
            seq: self.seq(),
            generation: self.course.generation(),
            next: self.course.next(),
            instances: instances.collect(),
        }
    }

    /// Begins after a checkpoint. Each instance then hands in the records after the one that the checkpoint names.
    ///
    /// # Errors
    /// When its parts do not fit together.
    pub fn restore(config: Config, from: &Checkpoint) -> Result<Self, Refused> {
        if !(1..=INSTANCES_MAX).contains(&from.generation.instances) {
            return Err(Refused::Instances);
        }
        if !(WINDOW_MIN..=WINDOW_MAX).contains(&config.window) {
            return Err(Refused::Window);
        }
        if from.window != config.window {
            return Err(Refused::Checkpoint("another window"));
        }
        let course = from.course()?;
        let locals = from
            .instances
            .iter()
            .enumerate()
            .map(|(at, part)| Local::new(part.record.0, part.slot.number() - part.offset, from.stay(at)));
        let mut wanted = Wanted::NOTHING;
        if let Some(border) = course.border() {
            wanted.want(Place::new(border, from.generation.instances), false);
        }
        let merge = Self {
            config,
            course,
            executing: None,
            locals: locals.collect(),
            wanted,
            reads: Reads::default(),
            waiting: None,
            counts: Counts::default(),
        };
        merge.invariants(false);
        Ok(merge)
    }

    /// A checkpoint replaced the state, by a later or an earlier one. Each instance continues after the record that the checkpoint names.
    /// Its later records that are here are kept, and may be handed in again. [merge L23]
    ///
    /// # Errors
    /// When the checkpoint's parts do not fit together; nothing changed then.
    pub fn jump(&mut self, to: &Checkpoint) -> Result<(), Refused> {
        self.go_on_from(to, true)
    }

    /// As [`Self::jump`], but nothing is kept: each instance hands in again all records after the one that the checkpoint names, and
    /// nothing is delivered before that.
    ///
    /// # Errors
    /// When the checkpoint's parts do not fit together; nothing changed then.
    pub fn begin_again(&mut self, from: &Checkpoint) -> Result<(), Refused> {
        self.go_on_from(from, false)
    }

    fn go_on_from(&mut self, to: &Checkpoint, keeps: bool) -> Result<(), Refused> {
        let fresh = Self::restore(self.config, to)?;
        let old = std::mem::replace(self, fresh);
        self.course.remember(&old.course);
        self.counts = old.counts;
        self.reads = old.reads;
        self.reads.forget();
        self.wanted.keep(old.wanted);
        let (last, count) = (self.locals.len() - 1, self.course.count());
        let same =
            (self.generation(), self.next_generation()) == (old.course.generation(), old.course.next());
        for (at, mut before) in old.locals.into_iter().enumerate().take(last + 1) {
            let lost = planted("merge-jump-resets-one") && at + 1 == count;
            if keeps {
                self.keep(at, &mut before, same, lost);
            }
            let local = &mut self.locals[at];
            (local.asked, local.waited) = (before.asked, before.waited);
            local.lead = before.lead;
            if let Some(lead) = &mut local.lead {
                lead.decided(Slot::new(local.placed));
            }
        }
        Ok(())
    }

    /// Keeps what an instance decided after a checkpoint, if no record between is missing. In the same generation the counts of slots must
    /// agree, too; in another generation slots may have passed while the instance was away.
    fn keep(&mut self, at: usize, before: &mut Local<T>, same: bool, lost: bool) {
        let (done, border) = (self.done(at), self.course.border());
        let local = &mut self.locals[at];
        let (from, last) = (local.record, before.last);
        if from < before.record || from >= last {
            return;
        }
        let fits = !same || before.slot_at(from).is_none_or(|slot| slot == local.base);
        let records = before.take_after(from);
        if !fits {
            return; // it comes again, or what comes is refused
        }
        let mut work = Vec::new();
        for (record, what) in records {
            if lost {
                break;
            }
            local.last = record - 1;
            match local.take(record, what, done, border) {
                Ok(Taken::Work(slot)) => work.push(slot),
                Ok(_) => {}
                Err(_) => {
                    *local = Local::new(from, local.base, local.stay);
                    return;
                }
            }
        }
        (local.last, local.again) = (last, last);
        for slot in work {
            self.wanted.want(Place::at(slot, at), false);
        }
    }
}
