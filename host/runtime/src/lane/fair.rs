//! In which order clients are read, so that nobody who sends much delays somebody who sends little.
//!
//! Clients that have bytes to read stand in queues, one for each owner (a name in certificates, or an address) and in it one for its
//! connections. Whoever has just come is light and is read before all that are heavy. A connection that had more to read than was taken
//! at once is heavy, and so is an owner whose connections together had more than its credit; heavy ones are read in turns, and only while
//! what was taken before gets through. This is deficit round robin with a short way for sparse flows: Shreedhar and Varghese, "Efficient
//! Fair Queuing Using Deficit Round Robin", 1995, and RFC 8290 (FQ-CoDel), section 4.
//!
//! While light ones are read beside heavy ones there is contention, and then the queue that all wait in behind is kept short.
//! Tests: `fair/tests.rs`.

use quorate_types::{ConnId, Span, Time};
use std::collections::{BTreeMap, VecDeque};

/// What the connections of one owner may send together before it is heavy, and what a heavy one may in its turn, in bytes.
const CREDIT: i64 = 64 << 10;
/// What reading costs besides its bytes: many small pieces are work, too.
const COST: i64 = 256;
/// There is contention for so long after the last sign of it.
const CONTENTION: Span = Span::from_millis(100);

/// Who is to be read next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Next {
    pub(crate) conn: ConnId,
    pub(crate) owner: u64,
    /// It is read before others that sent more.
    pub(crate) light: bool,
}

#[derive(Debug)]
struct Flow {
    light: VecDeque<ConnId>,
    heavy: VecDeque<ConnId>,
    credit: i64,
    /// Whether its owner stands in the queue of light ones, of heavy ones.
    queued: (bool, bool),
}

impl Flow {
    fn new() -> Self {
        Self { light: VecDeque::new(), heavy: VecDeque::new(), credit: CREDIT, queued: (false, false) }
    }

    fn is_light(&self) -> bool {
        !self.light.is_empty() && self.credit > 0
    }

    fn is_empty(&self) -> bool {
        self.light.is_empty() && self.heavy.is_empty()
    }
}

/// Clients that have something to be read.
#[derive(Debug, Default)]
pub(crate) struct Fair {
    flows: BTreeMap<u64, Flow>,
    /// Owners in the order of their turns. One that stands where it does not belong any more is passed over.
    light: VecDeque<u64>,
    heavy: VecDeque<u64>,
    contended: Option<Time>,
}

impl Fair {
    /// There is something to be read; said once until [`Self::served`].
    pub(crate) fn came(&mut self, conn: ConnId, owner: u64) {
        self.flows.entry(owner).or_insert_with(Flow::new).light.push_back(conn);
        self.queue(owner);
    }

    /// Lets an owner stand where it belongs.
    fn queue(&mut self, owner: u64) {
        let Some(flow) = self.flows.get_mut(&owner) else { return };
        if flow.is_empty() {
            // It begins anew when it comes back.
            if flow.queued == (false, false) {
                self.flows.remove(&owner);
            }
        } else if flow.is_light() {
            if !std::mem::replace(&mut flow.queued.0, true) {
                self.light.push_back(owner);
            }
        } else if !std::mem::replace(&mut flow.queued.1, true) {
            self.heavy.push_back(owner);
        }
    }

    /// Who is to be read now; a heavy one only if `heavy` says that there is room for what it sends.
    pub(crate) fn next(&mut self, now: Time, heavy: impl FnOnce(bool) -> bool) -> Option<Next> {
        while let Some(owner) = self.light.pop_front() {
            let Some(flow) = self.flows.get_mut(&owner) else { continue };
            flow.queued.0 = false;
            let conn = if flow.is_light() { flow.light.pop_front() } else { None };
            let Some(conn) = conn else {
                self.queue(owner);
                continue;
            };
            if !self.heavy.is_empty() {
                self.contended = Some(now.plus(CONTENTION));
            }
            return Some(Next { conn, owner, light: true });
        }
        if self.heavy.is_empty() || !heavy(self.is_contended(now)) {
            return None;
        }
        while let Some(owner) = self.heavy.pop_front() {
            let Some(flow) = self.flows.get_mut(&owner) else { continue };
            flow.queued.1 = false;
            if flow.credit <= 0 {
                flow.credit = CREDIT;
            }
            match flow.light.pop_front().or_else(|| flow.heavy.pop_front()) {
                Some(conn) => return Some(Next { conn, owner, light: false }),
                None => self.queue(owner),
            }
        }
        None
    }

    /// So many bytes were read of it. `more`: some were left.
    pub(crate) fn served(&mut self, next: Next, bytes: usize, more: bool) {
        let Some(flow) = self.flows.get_mut(&next.owner) else { return };
        flow.credit -= COST + i64::try_from(bytes).unwrap_or(i64::MAX / 2);
        if more {
            flow.heavy.push_back(next.conn);
        }
        self.queue(next.owner);
    }

    /// Whether light and heavy ones come at the same time.
    pub(crate) fn is_contended(&self, now: Time) -> bool {
        self.contended.is_some_and(|until| now < until)
    }

    /// Whether somebody is to be read whatever there is room for.
    pub(crate) fn has_light(&self) -> bool {
        !self.light.is_empty()
    }

    /// Whether somebody waits for room.
    pub(crate) fn has_heavy(&self) -> bool {
        !self.heavy.is_empty()
    }
}

#[cfg(test)]
mod tests;
