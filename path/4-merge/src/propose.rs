//! A leader's side: how far it may go, and what no-op it should propose. docs/protocols/merge.md L12-L14.
//!
//! It needs few numbers of the merge ([`Bounds`]), so it may sit on another lane than the merge, beside its instance. Bounds that are old
//! are lower, never wrong: a leader that has them waits longer. INV-MERGE-5. Tests: tests/merge/fill.rs, tests/merge/cluster.rs.

use quorate_types::Slot;

/// What a leader must know of the merge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// The slots that the instance's decided records stand for.
    pub decided: Slot,
    /// The last slot that may be proposed: a window behind what is delivered, or where the instance leaves.
    pub last: Slot,
    /// While the log ends before this slot, it is the last one.
    pub border: Option<Slot>,
    /// Everything up to this slot is wanted.
    pub wanted: Slot,
}

impl Bounds {
    /// The last slot that a leader may propose whose log ends with slot `tail`. [merge L12]
    fn limit(&self, tail: u64) -> u64 {
        let last = self.last.number();
        match self.border {
            Some(border) if tail < border.number() => last.min(border.number()),
            _ => last,
        }
    }
}

/// One leader, from the beginning of its view to the end of its office. Whoever uses it proposes what it says at once, and only while
/// `Order::leading` holds: what a protocol drops without losing its office is missing for ever.
#[derive(Clone, Copy, Debug, Default)]
pub struct Proposer {
    settled: bool,
    /// The slots that its log stands for, undecided ones included.
    tail: u64,
    /// What was wanted when it had something under way: it waits until that is decided, since more work of its own may come.
    due: Option<Due>,
}

/// A no-op that is put off.
#[derive(Clone, Copy, Debug)]
struct Due {
    /// Its target, if no work comes.
    target: u64,
    /// What was under way ends with this slot.
    behind: u64,
}

impl Proposer {
    /// The merge was handed everything that was decided before its view. From now on it may propose. [merge L12]
    pub fn settle(&mut self, bounds: &Bounds) {
        if !self.settled {
            *self = Self { settled: true, tail: bounds.decided.number(), due: None };
        }
    }

    /// Whether it is settled.
    pub fn is_settled(&self) -> bool {
        self.settled
    }

    /// What it proposed, as far as it was decided or is under way, ends with this slot.
    pub fn tail(&self) -> Slot {
        Slot::new(self.tail)
    }

    /// Its instance decided something.
    pub fn decided(&mut self, slots: Slot) {
        self.tail = self.tail.max(slots.number());
    }

    /// How many more slots it may propose. [merge L12]
    pub fn room(&self, bounds: &Bounds) -> u64 {
        if !self.settled {
            return 0;
        }
        let tail = self.tail_by(bounds);
        bounds.limit(tail).saturating_sub(tail)
    }

    /// Slots that passed while the instance was away count, too.
    fn tail_by(&self, bounds: &Bounds) -> u64 {
        self.tail.max(bounds.decided.number())
    }

    /// Whether somebody waits for more slots than it has proposed.
    pub fn is_wanted(&self, bounds: &Bounds) -> bool {
        let tail = self.tail_by(bounds);
        self.settled && bounds.wanted.number().min(bounds.limit(tail)) > tail
    }

    /// It proposes a batch, which will have this slot if it stays in office.
    ///
    /// # Panics
    /// When there is no room: that is a bug of whoever uses it.
    pub fn propose(&mut self, bounds: &Bounds) -> Slot {
        let within = self.room(bounds) > 0;
        assert!(within, "INV-MERGE-5: a leader proposes within the window and before the border");
        self.tail = self.tail_by(bounds) + 1;
        Slot::new(self.tail)
    }

    /// The target of the no-op that it proposes now, after the batches that it has. With nothing under way it proposes one at once; else
    /// it waits until what is under way is decided, and proposes one if its own work has not come as far by then. So under load there is
    /// one no-op in a round trip, for all that is wanted meanwhile, and none where work comes evenly. [merge L14]
    pub fn fill(&mut self, bounds: &Bounds) -> Option<Slot> {
        let (tail, decided) = (self.tail_by(bounds), bounds.decided.number());
        let target = bounds.wanted.number().min(bounds.limit(tail));
        if !self.settled || target <= tail {
            self.due = None;
            return None;
        }
        if tail > decided {
            let due = *self.due.get_or_insert(Due { target, behind: tail });
            if decided < due.behind {
                return None;
            }
            if due.target <= tail {
                self.due = Some(Due { target, behind: tail });
                return None;
            }
        }
        (self.tail, self.due) = (target, None);
        Some(Slot::new(target))
    }
}
