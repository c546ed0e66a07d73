//! Binds each client's connection to an instance: the requests of one connection stay in order, and instances have about as many
//! connections. Tests: bindings/tests.rs.

use crate::gate::link_of;
use quorate_types::ConnId;
use std::collections::BTreeMap;

/// The instance to which each client's connection is bound, while it leads here.
#[derive(Debug, Default)]
pub(super) struct Bindings {
    instances: BTreeMap<ConnId, usize>,
    /// Connections that have only read so far, and their links.
    readers: BTreeMap<ConnId, u16>,
    /// Connections that are bound no more to the instance of before, if somebody asks for them.
    left: Option<Vec<(ConnId, usize)>>,
}

impl Bindings {
    /// Gives a link to a connection that is bound to no instance, if it has none yet: the one with the fewest.
    pub(super) fn link_to_read(&mut self, conn: ConnId, links: u16) -> Option<u16> {
        if links == 1 || self.instances.contains_key(&conn) || self.readers.contains_key(&conn) {
            return None;
        }
        let mut counts = vec![0u32; usize::from(links)];
        let bound = self.instances.values().map(|at| link_of(*at, links));
        for link in bound.chain(self.readers.values().copied()) {
            counts[usize::from(link)] += 1;
        }
        let link = (1..links).min_by_key(|link| counts[usize::from(*link)])?;
        self.readers.insert(conn, link);
        Some(link)
    }

    /// The instance to which this connection is bound, if it still leads here.
    pub(super) fn bound(&self, conn: ConnId, led: &[usize]) -> Option<usize> {
        self.instances.get(&conn).copied().filter(|at| led.contains(at))
    }

    /// Binds this connection to an instance that leads here: the one whose turn it is, or the one with the fewest connections.
    pub(super) fn choose(&mut self, conn: ConnId, led: &[usize], turn: usize) -> Option<usize> {
        let turn = Some(turn).filter(|at| led.contains(at));
        let at = turn.or_else(|| led.iter().copied().min_by_key(|at| (self.count(*at), *at)))?;
        self.bind(conn, at);
        Some(at)
    }

    pub(super) fn bind(&mut self, conn: ConnId, at: usize) {
        let before = self.instances.insert(conn, at);
        self.leaves(conn, before.filter(|before| *before != at));
        self.readers.remove(&conn);
    }

    /// Whether a connection is bound to an instance other than this one.
    pub(super) fn goes_on(&self, conn: ConnId, without: usize) -> bool {
        self.instances.get(&conn).is_some_and(|at| *at != without)
    }

    /// How many connections are bound to an instance.
    pub(super) fn count(&self, at: usize) -> usize {
        self.instances.values().filter(|bound| **bound == at).count()
    }

    pub(super) fn is_bound(&self, conn: ConnId, at: usize) -> bool {
        self.instances.get(&conn) == Some(&at)
    }

    pub(super) fn forget(&mut self, conn: ConnId) {
        let before = self.instances.remove(&conn);
        self.leaves(conn, before);
        self.readers.remove(&conn);
    }

    fn leaves(&mut self, conn: ConnId, before: Option<usize>) {
        if let Some((left, before)) = self.left.as_mut().zip(before) {
            left.push((conn, before));
        }
    }

    /// The connections that are bound no more to an instance, since the last call; none at the first one.
    pub(super) fn left(&mut self) -> Vec<(ConnId, usize)> {
        self.left.replace(Vec::new()).unwrap_or_default()
    }

    pub(super) fn forget_instance(&mut self, at: usize) {
        self.instances.retain(|_, bound| *bound != at);
    }
}

#[cfg(test)]
mod tests;
