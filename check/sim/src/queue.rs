//! Future events, in the order of virtual time. The seed decides the order of events at the same time.

use crate::random::Rng;
use quorate_node::Part;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A future event. Processes are numbered: replicas from 0, then clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Event {
    /// A process looks at what arrived.
    Turn {
        /// The process.
        who: usize,
        /// Its life.
        life: u32,
    },
    /// A process's timer.
    Wake {
        /// The process.
        who: usize,
        /// Its life.
        life: u32,
    },
    /// The guest acts.
    Guest,
    /// Bytes reach the other end of a connection.
    Deliver {
        /// The connection.
        conn: u64,
        /// The end from which the bytes come.
        from: usize,
    },
    /// A connection attempt succeeds or fails.
    Dial {
        /// Its number.
        dial: u64,
    },
    /// A connection breaks, because the other side did not answer for too long.
    TimeOut {
        /// The connection.
        conn: u64,
    },
    /// A lane beside the main one has its turn.
    Lane {
        /// The replica.
        who: usize,
        /// Its life.
        life: u32,
        /// The lane.
        lane: u16,
    },
    /// A link of a replica moves to another lane.
    MoveLink {
        /// The replica.
        who: usize,
        /// Its life.
        life: u32,
    },
    /// A part of a replica that has a lane of its own has its turn, or the main lane hears what such parts said.
    Run {
        /// The replica.
        who: usize,
        /// Its life.
        life: u32,
        /// The part.
        part: Part,
    },
    /// A liar sends a message that it delayed.
    Said {
        /// The replica.
        who: usize,
        /// Its life.
        life: u32,
        /// The message's number.
        number: u64,
    },
    /// The disk has finished its present work.
    Disk {
        /// The replica.
        who: usize,
        /// Its life.
        life: u32,
    },
    /// The disk has prepared a segment or read something back.
    Side {
        /// The replica.
        who: usize,
        /// Its life.
        life: u32,
    },
    /// The keeper has done a piece of its work.
    Keep {
        /// The replica.
        who: usize,
        /// Its life.
        life: u32,
    },
    /// A worker of a replica has checked signatures, or nobody will.
    Checked {
        /// The replica.
        who: usize,
        /// Its life.
        life: u32,
        /// The number of the work.
        work: u64,
    },
    /// Workers of a replica ran commands, or did not.
    Worked {
        /// The replica.
        who: usize,
        /// Its life.
        life: u32,
        /// The number of the work.
        work: u64,
    },
    /// A question arrives at the oracle, or its answer at the replica.
    Letter {
        /// The replica.
        who: usize,
        /// Its life.
        life: u32,
        /// The number of what travels.
        letter: u64,
    },
    /// A fault of the plan begins.
    Fault {
        /// Its index in the plan.
        index: usize,
    },
    /// A fault of the plan ends.
    Ends {
        /// Its index in the plan.
        index: usize,
    },
    /// A replica starts again.
    Start {
        /// The replica.
        who: usize,
        /// The life that ended; ignored if another one has begun.
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
    /// An empty queue. `rng` decides between events of the same time.
    pub fn new(rng: Rng) -> Self {
        Self { heap: BinaryHeap::new(), rng, count: 0 }
    }

    /// Adds an event.
    pub fn push(&mut self, at: u64, event: Event) {
        self.count += 1;
        let tie = self.rng.number();
        self.heap.push(Reverse((at, tie, self.count, event)));
    }

    /// The next event, and its time, if it happens until `end`. A later one stays: a run may go on behind its end.
    pub fn pop_until(&mut self, end: u64) -> Option<(u64, Event)> {
        self.heap.peek().filter(|Reverse((at, ..))| *at <= end)?;
        self.heap.pop().map(|Reverse((at, _, _, event))| (at, event))
    }
}
