//! Replicas that are correct and late, for clusters in which one is slow on purpose: frames for members wait before they leave.
//!
//! A replica has no lateness unless it is started with one ([`crate::Options::lateness`]). Frames of one connection stay in order, also
//! while it moves between lanes, and while the lateness changes. They count as bytes that wait to be sent, which are bounded.
//! Tests: `late/tests.rs`, `connection/tests.rs`, front/cli/tests/all/few.rs.

use super::sockets::{Core, Sockets};
use crate::connection::Class;
use quorate_types::{ConnId, Span, Time};
use quorate_wire::OutFrame;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// How late leaves what a replica sends to other members. It may change while the replica runs: clones are the same value.
#[derive(Clone, Debug, Default)]
pub struct Lateness(Arc<AtomicU64>);

impl Lateness {
    /// From now on frames leave this much later. With [`Span::ZERO`], those that wait leave at once.
    pub fn set(&self, late: Span) {
        self.0.store(late.nanos(), Ordering::Release);
    }

    /// How late they leave.
    pub fn get(&self) -> Span {
        Span::from_nanos(self.0.load(Ordering::Acquire))
    }

    /// The problem to report.
    pub(super) fn problem(&self) -> Option<String> {
        let late = Some(self.get()).filter(|late| *late > Span::ZERO)?;
        Some(format!(
            "this replica is slow on purpose: what it sends to others leaves {} ms late, until `quorate chaos slow` with --ms 0",
            late.millis()
        ))
    }
}

impl Sockets {
    /// Sends a frame. Gives it back if the connection is not here.
    pub(super) fn send(
        &mut self,
        conn: ConnId,
        frame: OutFrame,
        written: &mut Vec<ConnId>,
    ) -> Option<OutFrame> {
        let Some(connection) = self.connections.get_mut(&conn) else { return Some(frame) };
        let late = self.lateness.as_ref().filter(|_| connection.class == Class::Member);
        if late.is_some_and(|late| late.get() > Span::ZERO) {
            connection.hold(self.clock.now(), frame);
            self.holding.insert(conn);
        } else {
            connection.send(frame);
        }
        if written.last() != Some(&conn) {
            written.push(conn);
        }
        None
    }

    /// Lets go the frames whose time has come.
    pub(super) fn let_go(&mut self, core: &mut impl Core) {
        let Some(late) = self.lateness.as_ref().filter(|_| !self.holding.is_empty()) else { return };
        let (late, now) = (late.get(), self.clock.now());
        let mut written = Vec::new();
        let connections = &mut self.connections;
        self.holding.retain(|conn| {
            let Some(connection) = connections.get_mut(conn) else { return false };
            if connection.let_go(now, late) {
                written.push(*conn);
            }
            connection.holds_since().is_some()
        });
        self.write_all(now, written, core);
    }

    /// When to call [`Self::let_go`], if nothing happens before.
    pub(super) fn holds_until(&self) -> Option<Time> {
        let late = self.lateness.as_ref()?.get();
        let since = self.holding.iter().filter_map(|conn| self.connections.get(conn)?.holds_since()).min()?;
        Some(since.plus(late))
    }
}

#[cfg(test)]
mod tests;
