//! The operations that are not yet placed, as a doubly linked list of their calls and returns in time order.
//!
//! Taking an operation out and putting it back cost a constant, as long as they are undone in reverse order
//! (Knuth's dancing links; Lowe 2017, section 4).

use crate::model::Operation;

/// The head of the ring; also what follows the last entry.
pub(super) const HEAD: u32 = 0;

#[derive(Clone, Copy)]
struct Entry {
    op: u32,
    is_return: bool,
}

pub(super) struct Pending {
    next: Vec<u32>,
    prev: Vec<u32>,
    entries: Vec<Entry>,
    /// Per operation: where its call stands.
    call_at: Vec<u32>,
    /// Per operation: where its return stands; `HEAD` if it never returns.
    return_at: Vec<u32>,
}

impl Pending {
    pub(super) fn new<O>(ops: &[Operation<O>]) -> Pending {
        // Calls come before returns of the same time: equal times do not order operations.
        let mut events: Vec<(u64, bool, u32)> = Vec::with_capacity(ops.len() * 2);
        for (index, op) in ops.iter().enumerate() {
            events.push((op.call, false, index as u32));
            if let Some(ret) = op.ret {
                events.push((ret, true, index as u32));
            }
        }
        events.sort_unstable();
        let count = events.len() as u32;
        let mut list = Pending {
            next: (1..=count).chain([HEAD]).collect(),
            prev: [count].into_iter().chain(0..count).collect(),
            entries: vec![Entry { op: 0, is_return: true }],
            call_at: vec![HEAD; ops.len()],
            return_at: vec![HEAD; ops.len()],
        };
        for (at, (_, is_return, op)) in events.into_iter().enumerate() {
            let node = at as u32 + 1;
            let place = if is_return { &mut list.return_at } else { &mut list.call_at };
            place[op as usize] = node;
            list.entries.push(Entry { op, is_return });
        }
        list
    }

    /// The entry after `node`.
    pub(super) fn after(&self, node: u32) -> u32 {
        self.next[node as usize]
    }

    /// The node of the call of `op`.
    pub(super) fn call_of(&self, op: u32) -> u32 {
        self.call_at[op as usize]
    }

    /// The operation that may come next according to `node`; `None` where the first return (or the end) is
    /// met: operations called after it must wait.
    pub(super) fn candidate(&self, node: u32) -> Option<u32> {
        let entry = self.entries[node as usize];
        (!entry.is_return).then_some(entry.op)
    }

    /// Takes `op` out.
    pub(super) fn lift(&mut self, op: u32) {
        self.unlink(self.call_at[op as usize]);
        if self.return_at[op as usize] != HEAD {
            self.unlink(self.return_at[op as usize]);
        }
    }

    /// Puts back the operation that was taken out last.
    pub(super) fn unlift(&mut self, op: u32) {
        if self.return_at[op as usize] != HEAD {
            self.relink(self.return_at[op as usize]);
        }
        self.relink(self.call_at[op as usize]);
    }

    fn unlink(&mut self, node: u32) {
        let (prev, next) = (self.prev[node as usize], self.next[node as usize]);
        self.next[prev as usize] = next;
        self.prev[next as usize] = prev;
    }

    fn relink(&mut self, node: u32) {
        let (prev, next) = (self.prev[node as usize], self.next[node as usize]);
        self.next[prev as usize] = node;
        self.prev[next as usize] = node;
    }
}
