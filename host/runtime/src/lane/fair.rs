//! The order in which clients are read, so that clients that send much do not delay those that send little.
//!
//! Clients with bytes to read stand in queues: one for each owner (a name in certificates, or an address), which has a queue of its
//! connections. An owner that has just come is light and is read before all heavy ones. A connection is heavy if it had more to read than
//! was taken at once, and an owner if its connections together had more than its credit. Heavy ones are read in turns, and only while the
//! node can take what was read before. This is deficit round robin with a short way for sparse flows: Shreedhar and Varghese, "Efficient
//! Fair Queuing Using Deficit Round Robin", 1995, and RFC 8290 (FQ-CoDel), section 4.
//!
//! While light ones are read beside heavy ones there is contention, and then the queue that all of them wait behind is kept short. Only a
//! connection that sends little for longer than a moment ([`Lately`]) is a sign of that: clients that all send much meet each other with
//! nothing left to read now and then, and a short queue would only cost them throughput.
//! Tests: `fair/tests.rs`.

use quorate_types::{ConnId, Span, Time};
use std::collections::{BTreeMap, VecDeque};

/// How many bytes an owner's connections may send together before it is heavy, and how many a heavy one may send in its turn.
const CREDIT: i64 = 64 << 10;
/// The cost of a read besides its bytes: many small pieces are work, too.
const COST: i64 = 256;
/// How long contention lasts after its last sign.
const CONTENTION: Span = Span::from_millis(100);

/// The connection to read next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Next {
    pub(crate) conn: ConnId,
    pub(crate) owner: u64,
    /// It is read before others that sent more.
    pub(crate) light: bool,
}

/// How much a connection sent lately: its bytes, of which a credit is forgotten in the time that contention lasts.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Lately {
    bytes: u64,
    at: Time,
}

impl Lately {
    /// Notes bytes that were read. Whether it sends little.
    pub(crate) fn sent(&mut self, now: Time, bytes: usize) -> bool {
        let (credit, span) = (CREDIT.unsigned_abs(), CONTENTION.nanos());
        let forgotten = now.since(self.at).nanos().min(2 * span) * credit / span;
        // However much it was, it is forgotten soon.
        self.bytes = (self.bytes.saturating_sub(forgotten) + bytes as u64).min(2 * credit);
        self.at = now;
        self.bytes < credit
    }
}

#[derive(Debug)]
struct Flow {
    light: VecDeque<ConnId>,
    heavy: VecDeque<ConnId>,
    credit: i64,
    /// Whether its owner stands in the queue of light ones, and in that of heavy ones.
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

/// Clients that have bytes to read.
#[derive(Debug, Default)]
pub(crate) struct Fair {
    flows: BTreeMap<u64, Flow>,
    /// Owners in the order of their turns. An owner in a queue where it no longer belongs is skipped.
    light: VecDeque<u64>,
    heavy: VecDeque<u64>,
    contended: Option<Time>,
}

impl Fair {
    /// A connection has bytes to read; called once until [`Self::served`].
    pub(crate) fn came(&mut self, conn: ConnId, owner: u64) {
        self.flows.entry(owner).or_insert_with(Flow::new).light.push_back(conn);
        self.queue(owner);
    }

    /// Puts an owner into the queue where it belongs.
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

    /// The connection to read next; a heavy one only if `heavy` says that there is room for its requests.
    pub(crate) fn next(&mut self, now: Time, heavy: impl FnOnce(bool) -> bool) -> Option<Next> {
        while let Some(owner) = self.light.pop_front() {
            let Some(flow) = self.flows.get_mut(&owner) else { continue };
            flow.queued.0 = false;
            let conn = if flow.is_light() { flow.light.pop_front() } else { None };
            let Some(conn) = conn else {
                self.queue(owner);
                continue;
            };
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

    /// Notes that this many bytes of it were read. `more`: some are left. `little`: it sends little ([`Lately`]).
    pub(crate) fn served(&mut self, now: Time, next: Next, bytes: usize, (more, little): (bool, bool)) {
        if next.light && little && !self.heavy.is_empty() {
            self.contended = Some(now.plus(CONTENTION));
        }
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

    /// Whether a light one waits.
    pub(crate) fn has_light(&self) -> bool {
        !self.light.is_empty()
    }

    /// Whether a heavy one waits.
    pub(crate) fn has_heavy(&self) -> bool {
        !self.heavy.is_empty()
    }
}

#[cfg(test)]
mod tests;
