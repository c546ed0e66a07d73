//! In which order connections are read that have not said who they are, and how much of the lane's time goes to that.
//!
//! A handshake with TLS costs a good part of a millisecond. While the lane has other work, no more than one part in [`HANDSHAKES`] of its
//! time goes to handshakes, and one in [`ENTRY`] to taking connections in, of which many more have to be turned away where a crowd comes;
//! while it has none, as much as they need. Where connections come from take turns, those with the addresses of members first: a crowd
//! at the door does not keep a replica out. Tests: `door/tests.rs`.

use quorate_node::Share;
use quorate_types::{ConnId, Span, Time};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::IpAddr;

/// One part in so many of a busy lane's time is for handshakes.
const HANDSHAKES: u64 = 8;
/// The same for taking in connections: with less, the kernel's queue is full while a crowd comes, and others wait for seconds.
pub(crate) const ENTRY: u64 = 6;

/// Connections that wait to be read.
#[derive(Debug)]
pub(crate) struct Door {
    /// By where they come from.
    waiting: BTreeMap<IpAddr, VecDeque<ConnId>>,
    /// Whose turn it is.
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
    /// A member was found at this address.
    pub(crate) fn know(&mut self, member: IpAddr) {
        // Addresses change now and then; what was one of a member once is not much of a favour.
        if self.members.len() < 1024 {
            self.members.insert(member.to_canonical());
        }
    }

    /// There is something to be read.
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

    /// Who is to be read now.
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

    /// That took so long; `busy`: there is other work.
    pub(crate) fn served(&mut self, now: Time, took: Span, busy: bool) {
        self.handshakes.served(now, took, busy);
    }

    /// When somebody is to be read, if anybody waits.
    pub(crate) fn opens(&self, now: Time) -> Option<Time> {
        let wait = self.handshakes.opens_in(now).unwrap_or(Span::ZERO);
        (!self.turns.is_empty()).then(|| now.plus(wait))
    }
}

#[cfg(test)]
mod tests;
