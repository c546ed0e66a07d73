//! The connections between this replica and one member, in both directions.
//!
//! A replica may dial each member several times. The first connection makes the two known to each other, and
//! carries what concerns the whole replica: state, room, membership, questions for no-ops. Each further one is dialed when the first one is
//! established, and carries the ordering messages of some instances. If there is only the first one, it carries everything. The host keeps
//! the connections of one link, to all members and of clients, on one lane.
//!
//! An instance counts as connected to a member while the first connection is established in both directions, its own way to the member is,
//! and the way back did not break.
//! Tests: links/tests.rs, check/sim.

use quorate_types::{ConnId, Span, Time};
use quorate_wire::Link;
use std::collections::BTreeMap;

pub(crate) const REDIAL_FIRST: Span = Span::from_millis(20);
const REDIAL_MAX: Span = Span::from_millis(500);

/// The link of an instance, of this many links. Link 0 is the first one; it has instances only if it is the only link.
pub(crate) fn link_of(at: usize, links: u16) -> u16 {
    match usize::from(links) {
        0 | 1 => 0,
        // The result is smaller than the number of links.
        many => 1 + (at % (many - 1)) as u16,
    }
}

/// Whether a link carries an instance's messages.
pub(crate) fn carries(link: Link, at: usize) -> bool {
    link_of(at, link.of) == link.number
}

/// The link here to which messages belong that a member sends on one of its links.
pub(crate) fn link_for(link: Link, links: u16) -> u16 {
    match (link.number, links) {
        (0, _) | (_, 0 | 1) => 0,
        (number, links) if link.of == links => number,
        (number, links) => link_of(usize::from(number) - 1, links),
    }
}

/// The state of a connection that this replica makes.
#[derive(Clone, Debug)]
pub(crate) enum Outgoing {
    Waiting {
        until: Time,
    },
    Dialing {
        until: Time,
    },
    Shaking,
    Ready(ConnId),
    /// Established with a member of another era.
    Across(ConnId),
}

/// A connection that this replica makes, and makes again when it ends.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    pub(crate) outgoing: Outgoing,
    pub(crate) backoff: Span,
}

impl Line {
    fn new(now: Time) -> Self {
        Self { outgoing: Outgoing::Waiting { until: now }, backoff: REDIAL_FIRST }
    }

    pub(crate) fn ready(&self) -> Option<ConnId> {
        match self.outgoing {
            Outgoing::Ready(conn) => Some(conn),
            _ => None,
        }
    }

    /// When to dial it, if nothing happens before.
    pub(crate) fn due(&self) -> Option<Time> {
        match self.outgoing {
            Outgoing::Waiting { until } | Outgoing::Dialing { until } => Some(until),
            Outgoing::Shaking | Outgoing::Ready(_) | Outgoing::Across(_) => None,
        }
    }

    /// Whether a dial is under way or was given up, and no other one succeeded.
    pub(crate) fn awaits_dial(&self) -> bool {
        self.due().is_some()
    }

    /// Dials again at `until`; the wait doubles each time, up to a limit.
    pub(crate) fn later(&mut self, until: Time) {
        self.outgoing = Outgoing::Waiting { until };
        self.backoff = self.backoff.times(2).min(REDIAL_MAX);
    }
}

/// The connections that this replica makes to one member.
#[derive(Clone, Debug)]
pub(crate) struct Lines {
    list: Vec<Line>,
}

impl Lines {
    /// This many connections.
    pub(crate) fn new(now: Time, links: u16) -> Self {
        Self { list: (0..links.max(1)).map(|_| Line::new(now)).collect() }
    }

    pub(crate) fn first(&self) -> &Line {
        &self.list[0]
    }

    pub(crate) fn first_mut(&mut self) -> &mut Line {
        &mut self.list[0]
    }

    pub(crate) fn get_mut(&mut self, link: u16) -> Option<&mut Line> {
        self.list.get_mut(usize::from(link))
    }

    /// The link with this number.
    pub(crate) fn link(&self, number: u16) -> Link {
        if number == 0 { Link::FIRST } else { Link { number, of: self.list.len() as u16 } }
    }

    /// The connection for the messages of an instance.
    pub(crate) fn of(&self, at: usize) -> &Line {
        &self.list[usize::from(link_of(at, self.list.len() as u16))]
    }

    /// How many of them may be dialed now: the further ones only when the first one is established.
    fn dialed(&self) -> usize {
        if self.first().ready().is_some() { self.list.len() } else { 1 }
    }

    /// The connections that may be dialed.
    pub(crate) fn dialable(&mut self) -> impl Iterator<Item = (u16, &mut Line)> {
        let count = self.dialed();
        (0..).zip(self.list[..count].iter_mut())
    }

    /// When to dial the next one.
    pub(crate) fn deadline(&self) -> Option<Time> {
        self.list[..self.dialed()].iter().filter_map(Line::due).min()
    }

    /// Drops the further connections, because the first one is gone.
    pub(crate) fn forget_further(&mut self, now: Time) {
        self.list[1..].iter_mut().for_each(|line| *line = Line::new(now));
    }

    /// How many are established.
    pub(crate) fn standing(&self) -> usize {
        self.list.iter().filter(|line| line.ready().is_some()).count()
    }
}

/// The connections that one member makes to this replica.
#[derive(Clone, Debug, Default)]
pub(crate) struct Incoming {
    pub(crate) first: Option<ConnId>,
    /// Further connections since the first one was established; none for one that broke.
    further: BTreeMap<Link, Option<ConnId>>,
}

impl Incoming {
    /// Notes a new connection. Gives the connection that it replaces.
    pub(crate) fn came(&mut self, link: Link, conn: ConnId) -> Option<ConnId> {
        if link == Link::FIRST {
            self.first.replace(conn)
        } else {
            self.further.insert(link, Some(conn)).flatten()
        }
    }

    /// A connection broke.
    pub(crate) fn broke(&mut self, link: Link) {
        if link == Link::FIRST {
            self.first = None;
        } else if let Some(conn) = self.further.get_mut(&link) {
            *conn = None;
        }
    }

    /// The connection on which messages for an instance come in.
    pub(crate) fn of(&self, at: usize) -> Option<ConnId> {
        match self.further.iter().find(|(link, _)| carries(**link, at)) {
            Some((_, conn)) => *conn,
            None => self.first,
        }
    }

    /// Drops the further connections, because the first one is gone.
    pub(crate) fn forget_further(&mut self) {
        self.further.clear();
    }

    /// Whether messages of an instance to this replica may have been lost, and will go on being lost.
    pub(crate) fn broken_for(&self, at: usize) -> bool {
        self.further.iter().any(|(link, conn)| conn.is_none() && carries(*link, at))
    }
}

#[cfg(test)]
mod tests;
