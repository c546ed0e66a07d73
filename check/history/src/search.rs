//! The search for a legal order of a history's operations.
//!
//! Source: Wing and Gong 1993 (try every operation that may come next, go back when stuck) with Lowe's cache
//! of configurations: a set of placed operations and the state after it is never explored twice.
//! Deviations: (1) a legal read is placed at once, without alternative; (2) a blind overwrite stands for all
//! overwrites; (3) a guide may give up a branch early. [`crate::model::Class`] gives the arguments for (1)
//! and (2); the guide answers for (3). (4) Operations that need not happen have no return in the list, so
//! they stay candidates to the end, and the search ends when all others are placed.
//!
//! The work is bounded by counts, never by a clock: the same history and budget give the same finding.
//! Tests: `tests/all/brute_force.rs`, `tests/all/other_models.rs`, `tests/all/speed.rs`.

mod pending;
mod placed;

use crate::model::{Class, Guide, Model, Operation};
use pending::{HEAD, Pending};
use placed::PlacedSet;
use std::collections::HashSet;

/// How much work a search may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Candidates looked at: some millions a second where the cache grows, tens of millions where it does not.
    pub steps: u64,
    /// Words of eight bytes that the cache may hold at one time; an entry takes four words and its bits.
    pub cache_words: u64,
}

impl Default for Budget {
    /// About half a minute and a gigabyte, on a usual machine, where a history needs all of it.
    fn default() -> Budget {
        Budget { steps: 100_000_000, cache_words: 100_000_000 }
    }
}

/// What a search found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finding {
    /// A legal order, as positions of operations.
    Ordered(Vec<usize>),
    /// There is none.
    Impossible {
        /// The order that placed the most operations that must happen.
        longest: Vec<usize>,
    },
    /// The budget ended first.
    OutOfBudget {
        /// The part of the budget that ended.
        what: &'static str,
        /// The order that placed the most operations that must happen.
        longest: Vec<usize>,
    },
}

/// A finding, and what it cost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Searched {
    /// The finding.
    pub finding: Finding,
    /// The candidates that were looked at.
    pub steps: u64,
}

/// Looks for an order of `ops` that is legal for `M` and respects real time: an operation that returned before
/// another was called comes first. Operations without a return may be left out.
pub fn search<M: Model, G: Guide<M>>(ops: &[Operation<M::Op>], guide: &mut G, budget: Budget) -> Searched {
    if ops.len() > (u32::MAX / 4) as usize {
        let finding =
            Finding::OutOfBudget { what: "too many operations for one search", longest: Vec::new() };
        return Searched { finding, steps: 0 };
    }
    let required = ops.iter().filter(|op| op.ret.is_some()).count();
    let mut search = Search::<M, G> {
        ops,
        guide,
        pending: Pending::new(ops),
        placed: PlacedSet::new(ops),
        seen: HashSet::new(),
        seen_words: 0,
        stack: Vec::new(),
        state: M::initial(),
        missing: required,
        steps: 0,
        longest: Longest { order: Vec::new(), shared: 0, missing: required },
    };
    let finding = search.run(budget);
    Searched { finding, steps: search.steps }
}

struct Frame<S> {
    op: u32,
    before: S,
    /// There was no other choice worth trying.
    is_forced: bool,
    /// The blind overwrite that stood for all overwrites when this choice was made; `HEAD` if none.
    blind: u32,
}

/// The order that came furthest so far.
struct Longest {
    order: Vec<u32>,
    /// This many first entries of `order` are those of the stack.
    shared: usize,
    missing: usize,
}

struct Search<'a, M: Model, G> {
    ops: &'a [Operation<M::Op>],
    guide: &'a mut G,
    pending: Pending,
    placed: PlacedSet,
    seen: HashSet<(Box<[u64]>, M::State)>,
    seen_words: u64,
    stack: Vec<Frame<M::State>>,
    state: M::State,
    /// Operations that must happen and are not placed.
    missing: usize,
    steps: u64,
    longest: Longest,
}

enum Choice<S> {
    /// A read that is legal now: its state afterwards, which is the one before.
    Read(u32, S),
    /// Anything up to the first return, except what the blind overwrite at this node stands for.
    Open { blind: u32 },
}

impl<M: Model, G: Guide<M>> Search<'_, M, G> {
    fn run(&mut self, budget: Budget) -> Finding {
        while self.missing > 0 {
            let mut moved = match self.survey() {
                Choice::Read(op, state) => {
                    self.place(op, state, true, HEAD);
                    true
                }
                Choice::Open { blind } => self.place_next(self.pending.after(HEAD), blind),
            };
            while !moved {
                self.note_longest();
                let Some(frame) = self.take_back() else {
                    return Finding::Impossible { longest: self.longest_order() };
                };
                if !frame.is_forced {
                    let from = self.pending.after(self.pending.call_of(frame.op));
                    moved = self.place_next(from, frame.blind);
                }
            }
            if let Some(what) = self.overdrawn(budget) {
                self.note_longest();
                return Finding::OutOfBudget { what, longest: self.longest_order() };
            }
        }
        Finding::Ordered(self.stack.iter().map(|frame| frame.op as usize).collect())
    }

    fn overdrawn(&self, budget: Budget) -> Option<&'static str> {
        if self.missing == 0 {
            None
        } else if self.steps > budget.steps {
            Some("all steps of the budget were used")
        } else if self.seen_words > budget.cache_words {
            Some("the cache grew to its budget")
        } else {
            None
        }
    }

    /// Looks for a choice that needs no alternative.
    fn survey(&mut self) -> Choice<M::State> {
        let mut blind = HEAD;
        let mut node = self.pending.after(HEAD);
        while let Some(op) = self.pending.candidate(node) {
            self.steps += 1;
            match self.guide.class(op as usize) {
                Class::Read => {
                    if let Some(state) = M::step(&self.state, &self.ops[op as usize].op) {
                        return Choice::Read(op, state);
                    }
                }
                Class::Blind if blind == HEAD => blind = node,
                Class::Blind | Class::Overwrite | Class::Other => {}
            }
            node = self.pending.after(node);
        }
        Choice::Open { blind }
    }

    /// Places the first operation from `node` on that leads to something new.
    fn place_next(&mut self, mut node: u32, blind: u32) -> bool {
        while let Some(op) = self.pending.candidate(node) {
            self.steps += 1;
            let is_covered = match self.guide.class(op as usize) {
                Class::Read => true, // not legal in this state, or `survey` had chosen it
                Class::Overwrite | Class::Blind => blind != HEAD && node != blind,
                Class::Other => false,
            };
            if !is_covered
                && let Some(after) = M::step(&self.state, &self.ops[op as usize].op)
                && self.place(op, after, false, blind)
            {
                return true;
            }
            node = self.pending.after(node);
        }
        false
    }

    /// Places `op`. False, with nothing changed, if that leads nowhere or where the search has been.
    fn place(&mut self, op: u32, after: M::State, is_forced: bool, blind: u32) -> bool {
        let index = op as usize;
        let is_hopeful = self.guide.advance(index, &self.state, &after);
        self.placed.insert(index);
        let is_worth_it = is_forced || (is_hopeful && self.is_new(&after));
        if !is_worth_it {
            self.placed.remove(index);
            self.guide.retreat(index);
            return false;
        }
        self.pending.lift(op);
        self.missing -= usize::from(self.ops[index].ret.is_some());
        let before = std::mem::replace(&mut self.state, after);
        self.stack.push(Frame { op, before, is_forced, blind });
        true
    }

    fn is_new(&mut self, after: &M::State) -> bool {
        let key = self.placed.short_form();
        let words = key.len() as u64 + 4;
        let is_new = self.seen.insert((key, after.clone()));
        if is_new {
            self.seen_words += words;
        }
        is_new
    }

    fn take_back(&mut self) -> Option<Frame<M::State>> {
        let frame = self.stack.pop()?;
        let index = frame.op as usize;
        self.state = frame.before.clone();
        self.pending.unlift(frame.op);
        self.placed.remove(index);
        self.guide.retreat(index);
        self.missing += usize::from(self.ops[index].ret.is_some());
        self.longest.shared = self.longest.shared.min(self.stack.len());
        Some(frame)
    }

    /// Called before every step back, so that a long straight run costs one copy at its end.
    fn note_longest(&mut self) {
        if self.missing < self.longest.missing {
            let longest = &mut self.longest;
            longest.order.truncate(longest.shared);
            longest.order.extend(self.stack[longest.shared..].iter().map(|frame| frame.op));
            longest.shared = longest.order.len();
            longest.missing = self.missing;
        }
    }

    fn longest_order(&self) -> Vec<usize> {
        self.longest.order.iter().map(|&op| op as usize).collect()
    }
}
