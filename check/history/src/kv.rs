//! One key of the store: its model, and what makes the search for its order short.
//!
//! Values become numbers, 0 is "absent". Operations that cannot matter are dropped before the search:
//! - failed ones, weak reads, and reads without an answer;
//! - a write with unknown outcome that no operation could notice. If a legal order contains it, then the same
//!   order without it is legal too: between it and the next write there is nothing that tells its value from
//!   another one. (Dropping all such writes at once is sound: take them out from the last to the first.)
//!
//! "Could notice" is meant in time, too: an operation that returned before the write was called is no witness.
//!
//! The guide counts, per value, the operations left that need it and those that could write it. A value that
//! is replaced while some operation still needs it, and nothing can write it again, makes the branch
//! hopeless. With unique values this decides nearly all histories without going back far.
//! Tests: `tests/all/brute_force.rs` compares every verdict with all permutations of small histories.

use crate::event::{Answer, Event, Op, Outcome};
use crate::model::{Class, Guide, Model, Operation};
use std::collections::HashMap;

/// The absent value.
const ABSENT: u32 = 0;

/// One key as a sequential object.
#[derive(Clone, Copy, Debug)]
pub struct Key;

/// An operation on one key with its answer; values are numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyOp {
    /// A get that answered `is`; a delete that found nothing; a cas of a value with itself that succeeded.
    Read {
        /// The value.
        is: u32,
    },
    /// A cas that failed, because the value was another one.
    ReadNot {
        /// The value that was not there.
        not: u32,
    },
    /// A put, or one that may happen.
    Put {
        /// The value.
        to: u32,
    },
    /// A delete that found a value, or one that may happen.
    Delete,
    /// A cas that succeeded, or one that may succeed.
    Swap {
        /// The value before.
        from: u32,
        /// The value after, another one.
        to: u32,
    },
}

impl Model for Key {
    type State = u32;
    type Op = KeyOp;

    fn initial() -> u32 {
        ABSENT
    }

    fn step(state: &u32, op: &KeyOp) -> Option<u32> {
        match *op {
            KeyOp::Read { is } => (*state == is).then_some(is),
            KeyOp::ReadNot { not } => (*state != not).then_some(*state),
            KeyOp::Put { to } => Some(to),
            // One that may happen and finds nothing changes nothing: leaving it out says the same.
            KeyOp::Delete => (*state != ABSENT).then_some(ABSENT),
            KeyOp::Swap { from, to } => (*state == from).then_some(to),
        }
    }
}

impl KeyOp {
    /// The value that must be there.
    fn needs(self) -> Option<u32> {
        match self {
            KeyOp::Read { is } => Some(is),
            KeyOp::Swap { from, .. } => Some(from),
            KeyOp::ReadNot { .. } | KeyOp::Put { .. } | KeyOp::Delete => None,
        }
    }

    /// The value that is there afterwards, if that is a change.
    fn writes(self) -> Option<u32> {
        match self {
            KeyOp::Put { to } | KeyOp::Swap { to, .. } => Some(to),
            KeyOp::Delete => Some(ABSENT),
            KeyOp::Read { .. } | KeyOp::ReadNot { .. } => None,
        }
    }
}

/// The operations of one key that the search has to order.
#[derive(Clone, Debug)]
pub(crate) struct Prepared {
    pub(crate) ops: Vec<Operation<KeyOp>>,
    /// Per operation: the position of its event in what was prepared.
    pub(crate) origin: Vec<usize>,
    /// The values, by number minus one.
    pub(crate) values: Vec<String>,
    guide: KeyGuide,
}

impl Prepared {
    /// All events of one key, as they ended.
    pub(crate) fn new(events: &[&Event]) -> Prepared {
        let mut numbers = Numbers::default();
        let mut ops = Vec::with_capacity(events.len());
        let mut origin = Vec::with_capacity(events.len());
        for (index, event) in events.iter().enumerate() {
            if let Some(op) = numbers.key_op(event) {
                ops.push(Operation { op, call: event.call, ret: event.ok_return() });
                origin.push(index);
            }
        }
        let values = numbers.values;
        Prepared { ops, origin, values, guide: KeyGuide::default() }.finish()
    }

    /// What had happened when the first `returns` operations (by time of return) had returned: of those
    /// called and not yet returned, the writes may have happened or not. (Those that will answer `false` will
    /// have changed nothing: that much of the future is used, and makes the prefix smaller.)
    pub(crate) fn prefix(&self, returns: usize) -> Prepared {
        let order = self.by_return();
        let kept = &order[..returns.min(order.len())];
        let Some(&last) = kept.last() else { return self.keep(|_| None) };
        let now = self.ops[last].ret;
        let mut has_returned = vec![false; self.ops.len()];
        kept.iter().for_each(|&index| has_returned[index] = true);
        self.keep(|index| {
            let op = self.ops[index];
            match op.op {
                _ if has_returned[index] => Some(op),
                KeyOp::Read { .. } | KeyOp::ReadNot { .. } => None,
                _ => (Some(op.call) <= now).then_some(Operation { ret: None, ..op }),
            }
        })
    }

    /// The operations that must happen, by time of return.
    pub(crate) fn by_return(&self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.ops.len()).filter(|&i| self.ops[i].ret.is_some()).collect();
        order.sort_by_key(|&index| (self.ops[index].ret, index));
        order
    }

    /// Some operation needs a value that none can write.
    pub(crate) fn has_value_from_nowhere(&self) -> Option<usize> {
        self.ops.iter().position(|op| {
            op.ret.is_some()
                && op
                    .op
                    .needs()
                    .is_some_and(|value| value != ABSENT && self.guide.writers[value as usize] == 0)
        })
    }

    pub(crate) fn guide(&self) -> KeyGuide {
        self.guide.clone()
    }

    /// A value as people see it.
    pub(crate) fn value(&self, number: u32) -> Option<&str> {
        (number != ABSENT).then(|| self.values[number as usize - 1].as_str())
    }

    fn keep(&self, choose: impl Fn(usize) -> Option<Operation<KeyOp>>) -> Prepared {
        let mut kept = Prepared {
            ops: Vec::new(),
            origin: Vec::new(),
            values: self.values.clone(),
            guide: KeyGuide::default(),
        };
        for index in 0..self.ops.len() {
            if let Some(op) = choose(index) {
                kept.ops.push(op);
                kept.origin.push(self.origin[index]);
            }
        }
        kept.finish()
    }

    /// Drops what cannot be noticed, and counts for the guide.
    fn finish(mut self) -> Prepared {
        let witnesses = Witnesses::new(&self.ops, self.values.len() + 1);
        let is_kept: Vec<bool> =
            self.ops.iter().map(|op| op.ret.is_some() || witnesses.could_notice(op)).collect();
        let mut keep = is_kept.iter();
        self.ops.retain(|_| keep.next() == Some(&true));
        let mut keep = is_kept.iter();
        self.origin.retain(|_| keep.next() == Some(&true));
        self.guide = KeyGuide::new(&self.ops, self.values.len() + 1, &witnesses);
        self
    }
}

/// Gives values their numbers.
#[derive(Default)]
struct Numbers {
    by_value: HashMap<String, u32>,
    values: Vec<String>,
}

impl Numbers {
    fn number(&mut self, value: Option<&str>) -> u32 {
        let Some(value) = value else { return ABSENT };
        if let Some(&number) = self.by_value.get(value) {
            return number;
        }
        self.values.push(value.to_owned());
        let number = self.values.len() as u32;
        self.by_value.insert(value.to_owned(), number);
        number
    }

    /// The event as an operation of the model; `None` if it says nothing about the key.
    fn key_op(&mut self, event: &Event) -> Option<KeyOp> {
        if matches!(event.outcome, Outcome::Fail { .. }) {
            return None;
        }
        match (&event.op, event.answer()) {
            (Op::Put { value }, _) => Some(KeyOp::Put { to: self.number(Some(value)) }),
            (Op::Get, Some(Answer::Value(value))) => Some(KeyOp::Read { is: self.number(value.as_deref()) }),
            (Op::Delete, Some(Answer::Flag(false))) => Some(KeyOp::Read { is: ABSENT }),
            (Op::Delete, _) => Some(KeyOp::Delete),
            (Op::Cas { expect, value }, answer) => {
                let (from, to) = (self.number(expect.as_deref()), self.number(Some(value)));
                match answer {
                    Some(Answer::Flag(false)) => Some(KeyOp::ReadNot { not: from }),
                    Some(_) if from == to => Some(KeyOp::Read { is: from }),
                    None if from == to => None,
                    _ => Some(KeyOp::Swap { from, to }),
                }
            }
            (Op::Get | Op::ReadWeak | Op::Append { .. }, _) => None,
        }
    }
}

/// Until when could somebody notice that a value is there? Times are returns; `MAX` is "for ever".
struct Witnesses {
    /// Per value: by needing it. `None`: by nobody.
    needing: Vec<Option<u64>>,
    /// By a delete that found something.
    deletes: Option<u64>,
    /// By a cas that failed since the value was not the expected one: the latest, and the latest that expects
    /// another value than that one.
    refused: [Option<(u64, u32)>; 2],
}

impl Witnesses {
    fn new(ops: &[Operation<KeyOp>], values: usize) -> Witnesses {
        let mut this = Witnesses { needing: vec![None; values], deletes: None, refused: [None; 2] };
        for op in ops {
            let Some(ret) = op.ret else { continue };
            match op.op {
                KeyOp::Read { is: value } | KeyOp::Swap { from: value, .. } => {
                    let until = &mut this.needing[value as usize];
                    *until = (*until).max(Some(ret));
                }
                KeyOp::ReadNot { not } => this.refuse(ret, not),
                KeyOp::Delete => this.deletes = this.deletes.max(Some(ret)),
                KeyOp::Put { .. } => {}
            }
        }
        // A cas that may happen is a witness for ever, but only if somebody could notice its own effect.
        loop {
            let mut has_grown = false;
            for op in ops.iter().filter(|op| op.ret.is_none()) {
                if let KeyOp::Swap { from, .. } = op.op
                    && this.needing[from as usize] != Some(u64::MAX)
                    && this.could_notice(op)
                {
                    this.needing[from as usize] = Some(u64::MAX);
                    has_grown = true;
                }
            }
            if !has_grown {
                return this;
            }
        }
    }

    fn refuse(&mut self, ret: u64, not: u32) {
        let new = Some((ret, not));
        match self.refused[0] {
            Some((latest, of)) if of == not => self.refused[0] = Some((latest.max(ret), not)),
            first if first.is_none_or(|(latest, _)| latest < ret) => self.refused = [new, first],
            _ if self.refused[1].is_none_or(|(latest, _)| latest < ret) => self.refused[1] = new,
            _ => {}
        }
    }

    fn could_notice(&self, op: &Operation<KeyOp>) -> bool {
        let Some(value) = op.op.writes() else { return true };
        let refused = self.refused.iter().flatten().find(|(_, not)| *not != value).map(|(ret, _)| *ret);
        let deletes = if value == ABSENT { None } else { self.deletes };
        self.needing[value as usize].max(refused).max(deletes) >= Some(op.call)
    }
}

/// What is known about the operations of one key.
#[derive(Clone, Debug, Default)]
pub(crate) struct KeyGuide {
    ops: Vec<KeyOp>,
    is_required: Vec<bool>,
    classes: Vec<Class>,
    /// Per value: operations that must happen, are not placed, and need it.
    needed: Vec<u32>,
    /// Per value: operations that are not placed and could write it.
    writers: Vec<u32>,
}

impl KeyGuide {
    fn new(ops: &[Operation<KeyOp>], values: usize, witnesses: &Witnesses) -> KeyGuide {
        let class = |op: &Operation<KeyOp>| match (op.op, op.ret) {
            (KeyOp::Read { .. } | KeyOp::ReadNot { .. }, _) => Class::Read,
            (KeyOp::Put { .. }, Some(_)) if !witnesses.could_notice(op) => Class::Blind,
            (KeyOp::Put { .. }, _) | (KeyOp::Delete, None) => Class::Overwrite,
            (KeyOp::Delete, Some(_)) | (KeyOp::Swap { .. }, _) => Class::Other,
        };
        let mut guide = KeyGuide {
            ops: ops.iter().map(|op| op.op).collect(),
            is_required: ops.iter().map(|op| op.ret.is_some()).collect(),
            classes: ops.iter().map(class).collect(),
            needed: vec![0; values],
            writers: vec![0; values],
        };
        for index in 0..ops.len() {
            guide.retreat(index); // counts each operation as not placed
        }
        guide
    }

    /// The counters that `op` belongs to: the value needed, the value written.
    fn counters(&self, op: usize) -> (Option<u32>, Option<u32>) {
        let needs = if self.is_required[op] { self.ops[op].needs() } else { None };
        (needs, self.ops[op].writes())
    }
}

impl Guide<Key> for KeyGuide {
    fn class(&self, op: usize) -> Class {
        self.classes[op]
    }

    fn advance(&mut self, op: usize, before: &u32, after: &u32) -> bool {
        let (needs, writes) = self.counters(op);
        if let Some(value) = needs {
            self.needed[value as usize] -= 1;
        }
        if let Some(value) = writes {
            self.writers[value as usize] -= 1;
        }
        let gone = *before as usize;
        before == after || self.needed[gone] == 0 || self.writers[gone] > 0
    }

    fn retreat(&mut self, op: usize) {
        let (needs, writes) = self.counters(op);
        if let Some(value) = needs {
            self.needed[value as usize] += 1;
        }
        if let Some(value) = writes {
            self.writers[value as usize] += 1;
        }
    }
}
