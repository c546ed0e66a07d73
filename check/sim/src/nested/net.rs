//! The network: connections between two ends, each in order in both directions, and pairs that are cut off from each other.

use std::collections::{BTreeMap, BTreeSet};

#[derive(Debug)]
struct Wire {
    ends: [usize; 2],
    /// When the last thing on its way to each end arrives.
    last: [u64; 2],
    /// The end that has hung up.
    left: Option<usize>,
}

#[derive(Debug, Default)]
pub(super) struct Net {
    wires: BTreeMap<u64, Wire>,
    made: u64,
    cut: BTreeSet<(usize, usize)>,
}

fn pair(one: usize, other: usize) -> (usize, usize) {
    (one.min(other), one.max(other))
}

impl Net {
    pub(super) fn connect(&mut self, from: usize, to: usize) -> u64 {
        self.made += 1;
        self.wires.insert(self.made, Wire { ends: [from, to], last: [0; 2], left: None });
        self.made
    }

    /// The other end of a connection, while this end has it.
    pub(super) fn other(&self, conn: u64, who: usize) -> Option<usize> {
        let wire = self.wires.get(&conn).filter(|wire| wire.left != Some(who))?;
        wire.ends.iter().position(|end| *end == who).map(|at| wire.ends[1 - at])
    }

    /// Whether there is a connection that this end made to that one.
    pub(super) fn connects(&self, from: usize, to: usize) -> bool {
        self.wires.values().any(|wire| wire.ends == [from, to] && wire.left.is_none())
    }

    /// To whom, and when, something arrives that leaves now and would arrive at `soon`.
    pub(super) fn way(&mut self, conn: u64, from: usize, soon: u64) -> Option<(usize, u64)> {
        let wire = self.wires.get_mut(&conn).filter(|wire| wire.left.is_none())?;
        let at = 1 - wire.ends.iter().position(|end| *end == from)?;
        wire.last[at] = wire.last[at].max(soon) + 1;
        Some((wire.ends[at], wire.last[at]))
    }

    /// This end hangs up: what it sent before still arrives.
    pub(super) fn hang_up(&mut self, conn: u64, from: usize, soon: u64) -> Option<(usize, u64)> {
        let way = self.way(conn, from, soon)?;
        if let Some(wire) = self.wires.get_mut(&conn) {
            wire.left = Some(from);
        }
        Some(way)
    }

    pub(super) fn forget(&mut self, conn: u64) {
        self.wires.remove(&conn);
    }

    /// All connections of this end are gone. Gives each with its other end.
    pub(super) fn drop_all(&mut self, who: usize) -> Vec<(u64, usize)> {
        let all: Vec<(u64, usize)> =
            self.wires.keys().filter_map(|conn| Some((*conn, self.other(*conn, who)?))).collect();
        self.wires.retain(|_, wire| !wire.ends.contains(&who));
        all
    }

    pub(super) fn is_cut(&self, one: usize, other: usize) -> bool {
        self.cut.contains(&pair(one, other))
    }

    /// These two do not reach each other. Gives the connections that break.
    pub(super) fn cut(&mut self, one: usize, other: usize) -> Vec<u64> {
        self.cut.insert(pair(one, other));
        let between = |wire: &Wire| pair(wire.ends[0], wire.ends[1]) == pair(one, other);
        let broken: Vec<u64> =
            self.wires.iter().filter(|(_, wire)| between(wire)).map(|(conn, _)| *conn).collect();
        self.wires.retain(|conn, _| !broken.contains(conn));
        broken
    }

    pub(super) fn heal(&mut self) {
        self.cut.clear();
    }
}
