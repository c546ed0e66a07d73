//! What will happen, in the order of virtual time. What happens at the same time happens in an order that the seed decides.

use crate::random::Rng;
use quorate_node::Part;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// One thing that will happen. Processes are numbered: replicas from 0, then clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Event {
    /// A process looks at what arrived.
    Turn {
        /// Which process.
        who: usize,
        /// In which of its lives.
        life: u32,
    },
    /// A process's timer.
    Wake {
        /// Which process.
        who: usize,
        /// In which of its lives.
        life: u32,
    },
    /// Bytes reach the other end of a connection.
    Deliver {
        /// Which connection.
        conn: u64,
        /// From which of its two ends.
        from: usize,
    },
    /// A connection attempt succeeds or fails.
    Dial {
        /// Its number.
        dial: u64,
    },
    /// A connection breaks: nobody answered for too long.
    TimeOut {
        /// Which connection.
        conn: u64,
    },
    /// A lane beside the main one has its turn.
    Lane {
        /// Whose.
        who: usize,
        /// In which of its lives.
        life: u32,
        /// Which.
        lane: u16,
    },
    /// A part of a replica that has a lane of its own, or the main lane beside it, is to have its turn.
    Run {
        /// Whose.
        who: usize,
        /// In which of its lives.
        life: u32,
        /// Which.
        part: Part,
    },
    /// A liar says something that it held up.
    Said {
        /// Which.
        who: usize,
        /// In which of its lives.
        life: u32,
        /// Its number for it.
        number: u64,
    },
    /// The disk has finished what it was at.
    Disk {
        /// Whose.
        who: usize,
        /// In which of its lives.
        life: u32,
    },
    /// The disk has prepared a segment or read something back.
    Side {
        /// Whose.
        who: usize,
        /// In which of its lives.
        life: u32,
    },
    /// The keeper has done a piece of its work.
    Keep {
        /// Whose.
        who: usize,
        /// In which of its lives.
        life: u32,
    },
    /// A fault of the plan begins.
    Fault {
        /// Its place in the plan.
        index: usize,
    },
    /// A fault of the plan ends.
    Ends {
        /// Its place in the plan.
        index: usize,
    },
    /// A replica starts again.
    Start {
        /// Which.
        who: usize,
        /// Only if this is still the life that ended.
        life: u32,
    },
    /// Faults are over.
    Heal,
    /// Bounds are looked at.
    Look,
}

/// The queue of events.
#[derive(Debug)]
pub struct Queue {
    heap: BinaryHeap<Reverse<(u64, u64, u64, Event)>>,
    rng: Rng,
    count: u64,
}

impl Queue {
    /// Nothing will happen; `rng` decides between events of the same time.
    pub fn new(rng: Rng) -> Self {
        Self { heap: BinaryHeap::new(), rng, count: 0 }
    }

    /// This will happen then.
    pub fn push(&mut self, at: u64, event: Event) {
        self.count += 1;
        let tie = self.rng.number();
        self.heap.push(Reverse((at, tie, self.count, event)));
    }

    /// What happens next, and when.
    pub fn pop(&mut self) -> Option<(u64, Event)> {
        self.heap.pop().map(|Reverse((at, _, _, event))| (at, event))
    }
}
