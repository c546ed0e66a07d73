//! A leader's side: how far it may propose, and which no-op it should propose. docs/protocols/merge.md L12-L14.
//!
//! It needs only a few numbers from the merge ([`Bounds`]), so it may be on another lane than the merge, beside its instance. Bounds that
//! are old are lower, never wrong: a leader with old bounds waits longer. INV-MERGE-5. Tests: tests/merge/fill.rs, tests/merge/cluster.rs.

use quorate_types::Slot;

/// What a leader must know of the merge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// How many slots the instance's decided records stand for.
    pub decided: Slot,
    /// The last slot that may be proposed: a window after what is delivered, or the slot with which the instance leaves.
    pub last: Slot,
    /// While the leader's log ends before this slot, this is the last slot that may be proposed.
    pub border: Option<Slot>,
    /// Everything up to this slot must be decided.
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

/// One leader, from the beginning of its view to the end of its office. The caller proposes at once what it returns, and only while
/// `Order::leading` holds: a proposal that the protocol drops without losing its office would be missing for ever.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Proposer {
    settled: bool,
    /// How many slots its log stands for, with those that are not decided yet.
    tail: u64,
    /// A no-op that waits until what was under way is decided, since more batches may come until then.
    due: Option<Due>,
}

/// A postponed no-op.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Due {
    /// Its target, if no batch comes.
    target: u64,
    /// The slot with which everything under way ends.
    behind: u64,
}

impl Proposer {
    /// The merge was handed everything that was decided before this leader's view, so the leader may propose. [merge L12]
    pub fn settle(&mut self, bounds: &Bounds) {
        if !self.settled {
            *self = Self { settled: true, tail: bounds.decided.number(), due: None };
        }
    }

    /// Whether it is settled.
    pub fn is_settled(&self) -> bool {
        self.settled
    }

    /// The last slot that its log stands for, decided or under way.
    pub fn tail(&self) -> Slot {
        Slot::new(self.tail)
    }

    /// Its instance decided records that stand for this many slots.
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

    /// The tail, with slots that passed while the instance was away.
    fn tail_by(&self, bounds: &Bounds) -> u64 {
        self.tail.max(bounds.decided.number())
    }

    /// Whether more slots are wanted than it has proposed.
    pub fn is_wanted(&self, bounds: &Bounds) -> bool {
        let tail = self.tail_by(bounds);
        self.settled && bounds.wanted.number().min(bounds.limit(tail)) > tail
    }

    /// Proposes a batch. Returns the slot that the batch gets if this leader stays in office.
    ///
    /// # Panics
    /// When there is no room, which is a bug of the caller.
    pub fn propose(&mut self, bounds: &Bounds) -> Slot {
        let within = self.room(bounds) > 0;
        assert!(within, "INV-MERGE-5: a leader proposes within the window and before the border");
        self.tail = self.tail_by(bounds) + 1;
        Slot::new(self.tail)
    }

    /// The target of the no-op that it proposes now, after the batches that it has. With nothing under way it proposes a no-op at once.
    /// Otherwise it waits until everything under way is decided, and proposes one if its batches have not come as far by then. So under
    /// load there is one no-op in a round trip, for everything wanted meanwhile, and none where batches come evenly. [merge L14]
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
