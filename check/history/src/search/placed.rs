//! The set of operations that are placed, as bits, and its short form for the cache.
//!
//! Operations that must happen are numbered by call. All but the latest of them are placed, so the short form
//! leaves out the full words in front and the empty words behind. Operations that need not happen have words
//! of their own, or one that never happens would keep every word after it.

use crate::model::Operation;

pub(super) struct PlacedSet {
    must: Vec<u64>,
    may: Vec<u64>,
    /// Per operation: its bit, in `may` if it need not happen.
    bit: Vec<u32>,
    is_optional: Vec<bool>,
    /// All words of `must` below this one are full.
    first_open: usize,
    /// All words of `must` above this one are empty.
    last_used: usize,
}

impl PlacedSet {
    pub(super) fn new<O>(ops: &[Operation<O>]) -> PlacedSet {
        let mut by_call: Vec<usize> = (0..ops.len()).collect();
        by_call.sort_by_key(|&op| ops[op].call);
        let mut bit = vec![0; ops.len()];
        let (mut must, mut may) = (0u32, 0u32);
        for op in by_call {
            let count = if ops[op].ret.is_some() { &mut must } else { &mut may };
            bit[op] = *count;
            *count += 1;
        }
        PlacedSet {
            must: vec![0; must.div_ceil(64) as usize],
            may: vec![0; may.div_ceil(64) as usize],
            bit,
            is_optional: ops.iter().map(|op| op.ret.is_none()).collect(),
            first_open: 0,
            last_used: 0,
        }
    }

    pub(super) fn insert(&mut self, op: usize) {
        let (word, mask) = self.place(op);
        if self.is_optional[op] {
            self.may[word] |= mask;
            return;
        }
        self.must[word] |= mask;
        self.last_used = self.last_used.max(word);
        while self.must.get(self.first_open) == Some(&u64::MAX) {
            self.first_open += 1;
        }
    }

    pub(super) fn remove(&mut self, op: usize) {
        let (word, mask) = self.place(op);
        if self.is_optional[op] {
            self.may[word] &= !mask;
            return;
        }
        self.must[word] &= !mask;
        self.first_open = self.first_open.min(word);
        while self.last_used > 0 && self.must[self.last_used] == 0 {
            self.last_used -= 1;
        }
    }

    /// The same sets have the same short form, and others have others: the first word says where the words
    /// of `must` start, and the number of words of `may` is fixed.
    pub(super) fn short_form(&self) -> Box<[u64]> {
        let end = (self.last_used + 1).min(self.must.len());
        let start = self.first_open.min(end);
        let mut words = Vec::with_capacity(1 + end - start + self.may.len());
        words.push(start as u64);
        words.extend_from_slice(&self.must[start..end]);
        words.extend_from_slice(&self.may);
        words.into_boxed_slice()
    }

    fn place(&self, op: usize) -> (usize, u64) {
        let bit = self.bit[op];
        ((bit / 64) as usize, 1 << (bit % 64))
    }
}
