//! The order in which connections without a handshake are read, and the share of the lane's time for that.
//!
//! A TLS handshake costs a good part of a millisecond. While the lane has other work, at most one part in [`HANDSHAKES`] of its time goes
//! to handshakes, and one in [`ENTRY`] to accepting connections, since many more must be refused when a crowd comes. An idle lane gives
//! them as much as they need. Source addresses take turns, those of members first: a crowd can not keep a replica out. Tests:
//! `door/tests.rs`.

use quorate_node::Share;
use quorate_types::{ConnId, Span, Time};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::IpAddr;

/// A busy lane gives handshakes one part in this many of its time.
const HANDSHAKES: u64 = 8;
/// The same for accepting connections. With less, the kernel's queue would be full while a crowd comes, and others would wait for seconds.
pub(crate) const ENTRY: u64 = 6;

/// Connections that wait to be read.
#[derive(Debug)]
pub(crate) struct Door {
    /// By source address.
    waiting: BTreeMap<IpAddr, VecDeque<ConnId>>,
    /// The source addresses in the order of their turns.
    turns: VecDeque<IpAddr>,
    members: BTreeSet<IpAddr>,
    handshakes: Share,
}

impl Default for Door {
    fn default() -> Self {
        Self {
            waiting: BTreeMap::new(),
            turns: VecDeque::new(),
            members: BTreeSet::new(),
            handshakes: Share::one_in(HANDSHAKES),
        }
    }
}

impl Door {
    /// Notes the address of a member.
    pub(crate) fn know(&mut self, member: IpAddr) {
        // Addresses change now and then; what was one of a member once is not much of a favour.
        if self.members.len() < 1024 {
            self.members.insert(member.to_canonical());
        }
    }

    /// A connection has bytes to read.
    pub(crate) fn came(&mut self, conn: ConnId, from: IpAddr) {
        let from = from.to_canonical();
        let waiting = self.waiting.entry(from).or_default();
        waiting.push_back(conn);
        if waiting.len() == 1 {
            if self.members.contains(&from) {
                self.turns.push_front(from);
            } else {
                self.turns.push_back(from);
            }
        }
    }

    /// The next connection to read.
    pub(crate) fn next(&mut self, now: Time) -> Option<ConnId> {
        if self.opens(now).is_none_or(|at| at > now) {
            return None;
        }
        let from = self.turns.pop_front()?;
        let waiting = self.waiting.get_mut(&from)?;
        let conn = waiting.pop_front();
        if waiting.is_empty() {
            self.waiting.remove(&from);
        } else {
            self.turns.push_back(from);
        }
        conn
    }

    /// Notes how long the last one took; `busy`: there is other work.
    pub(crate) fn served(&mut self, now: Time, took: Span, busy: bool) {
        self.handshakes.served(now, took, busy);
    }

    /// When the next connection may be read, if one waits.
    pub(crate) fn opens(&self, now: Time) -> Option<Time> {
        let wait = self.handshakes.opens_in(now).unwrap_or(Span::ZERO);
        (!self.turns.is_empty()).then(|| now.plus(wait))
    }
}

#[cfg(test)]
mod tests;
