//! Bounds the memory that connections hold: bytes that wait to be sent, and frames that have arrived in part; for each client and for all
//! together. Bytes that wait for replicas mostly belong to the log's cache, and have a bound of their own. Tests: `pressure/tests.rs`,
//! front/cli/tests/all/hostile.rs.

use super::sockets::{Core, Sockets};
use crate::connection::{Class, Connection};
use quorate_node::Input;
use quorate_types::{ConnId, Span, Time};
use quorate_wire::{Refusal, RefusalReason};
use serde::Serialize;
use std::collections::BTreeMap;

/// A client is disconnected when this many times the bytes wait for it that stop reading from it.
pub(crate) const UNSENT_TIMES: usize = 16;
/// The most bytes that may wait for all members of a lane together.
const MEMBERS_OUT_BYTES_MAX: usize = 256 << 20;
/// This many bytes are never too much for one member: they may be a few frames.
const MEMBER_OUT_BYTES_MIN: usize = 32 << 20;
/// How often slow readers are checked.
const LOOK: Span = Span::from_millis(500);

/// The limits of a lane's clients.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LaneLimits {
    /// While more bytes wait for a client, nothing is read from it.
    pub(crate) unsent_bytes: usize,
    /// The most bytes that all clients together may hold.
    pub(crate) buffer_bytes: usize,
    /// A client that reads nothing for this time is disconnected.
    pub(crate) slow_reader: Span,
}

impl LaneLimits {
    /// The limits of each of this many lanes: an equal share, and no less than one client may have waiting.
    pub(super) fn shared_by(self, lanes: usize) -> Self {
        let least = self.unsent_bytes.saturating_mul(UNSENT_TIMES);
        Self { buffer_bytes: (self.buffer_bytes / lanes.max(1)).max(least), ..self }
    }
}

/// What connections hold.
#[derive(Debug, Default)]
pub(super) struct Pressure {
    /// Bytes that connections of clients and of unknown sides hold.
    held: usize,
    /// Clients that do not read what waits for them, and since when.
    slow: BTreeMap<ConnId, Time>,
    look: Option<Time>,
    cut: u64,
}

/// The part of the status about it.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct BufferStatus {
    /// Bytes that the connections of clients hold, to be sent or half received.
    pub(super) bytes: usize,
    /// The limit of those bytes.
    pub(super) bytes_max: usize,
    /// Clients that do not read what waits for them now.
    pub(super) slow_readers: usize,
    /// Clients that were disconnected for that, or for holding too much, since the start of the process.
    pub(super) cut: u64,
}

impl BufferStatus {
    /// The problem to report, if there is one.
    pub(super) fn problem(&self) -> Option<String> {
        problem(self.bytes, self.bytes_max)
    }
}

impl Sockets {
    pub(super) fn buffer_status(&self) -> BufferStatus {
        BufferStatus {
            bytes: self.pressure.held,
            bytes_max: self.limits.buffer_bytes,
            slow_readers: self.pressure.slow.len(),
            cut: self.pressure.cut,
        }
    }

    /// Whether more waits for a member than its share. A member that reads nothing takes nothing from the others' shares.
    pub(super) fn is_too_much(&self, waits: usize) -> bool {
        if waits <= MEMBER_OUT_BYTES_MIN {
            return false;
        }
        let members = self.connections.values().filter(|connection| connection.class == Class::Member);
        waits > member_part(members.count())
    }

    /// Counts what a connection holds now.
    pub(super) fn settle(&mut self, conn: ConnId) {
        let Some(connection) = self.connections.get_mut(&conn) else { return };
        let holds = if connection.class == Class::Member { 0 } else { connection.holds() };
        let counted = std::mem::replace(&mut connection.counted, holds);
        self.pressure.held = self.pressure.held - counted + holds;
    }

    /// Forgets a connection that is gone, and what it held.
    pub(super) fn forget(&mut self, conn: ConnId, connection: &Connection) {
        self.pressure.held -= connection.counted;
        self.pressure.slow.remove(&conn);
        self.costs.forget(conn);
    }

    /// After a write, or a failed one: notes slow readers, and disconnects a client with far too much waiting.
    pub(super) fn wrote(&mut self, now: Time, conn: ConnId, core: &mut impl Core) {
        self.settle(conn);
        let limits = self.limits;
        let Some(connection) = self.connections.get_mut(&conn) else { return };
        if connection.class == Class::Member || connection.closing {
            return;
        }
        let waits = connection.out_bytes();
        let moved = std::mem::take(&mut connection.moved);
        if waits == 0 {
            if !self.pressure.slow.is_empty() {
                self.pressure.slow.remove(&conn);
            }
        } else if moved {
            self.pressure.slow.insert(conn, now);
        } else {
            self.pressure.slow.entry(conn).or_insert(now);
        }
        if !self.pressure.slow.is_empty() && self.pressure.look.is_none() {
            self.pressure.look = Some(now.plus(LOOK));
        }
        if waits > limits.unsent_bytes * UNSENT_TIMES {
            let why = format!(
                "{waits} bytes wait for it, which is too much: it asked for more than it takes (limits.unsent_bytes)"
            );
            self.cut(now, conn, why, core);
        }
    }

    /// When to call [`Self::relieve`], if nothing happens before.
    pub(super) fn look_at_slow(&self) -> Option<Time> {
        self.pressure.look
    }

    /// Disconnects clients that read nothing for too long, and those that hold most while all together hold too much.
    pub(super) fn relieve(&mut self, now: Time, core: &mut impl Core) {
        if self.pressure.look.is_some_and(|at| at <= now) {
            let patience = self.limits.slow_reader;
            let late: Vec<ConnId> = self
                .pressure
                .slow
                .iter()
                .filter(|(_, since)| now.since(**since) >= patience)
                .map(|(conn, _)| *conn)
                .collect();
            for conn in late {
                let why = format!(
                    "it took nothing of what waits for it for {} s (timing.slow_reader_ms)",
                    patience.millis() as f64 / 1000.0
                );
                self.cut(now, conn, why, core);
            }
            self.pressure.look = (!self.pressure.slow.is_empty()).then(|| now.plus(LOOK));
        }
        if self.pressure.held > self.limits.buffer_bytes {
            self.make_room(now, core);
        }
    }

    fn make_room(&mut self, now: Time, core: &mut impl Core) {
        let enough = self.limits.buffer_bytes / 4 * 3;
        // Room for reading that nothing is in is no loss.
        let roomy: Vec<ConnId> =
            self.connections.iter().filter(|(_, c)| c.counted > 0).map(|(conn, _)| *conn).collect();
        for conn in &roomy {
            if let Some(connection) = self.connections.get_mut(conn) {
                connection.relax();
            }
            self.settle(*conn);
        }
        if self.pressure.held <= enough {
            return;
        }
        let mut held: Vec<(usize, ConnId)> =
            self.connections.iter().map(|(conn, c)| (c.counted, *conn)).collect();
        held.sort_unstable_by(|a, b| b.cmp(a));
        for (bytes, conn) in held {
            if self.pressure.held <= enough || bytes == 0 {
                return;
            }
            let why = format!(
                "clients hold {} bytes together, which is too much, and it {bytes} of them (limits.buffer_bytes)",
                self.pressure.held
            );
            self.cut(now, conn, why, core);
        }
    }

    /// Ends a connection that holds too much. Unless it is in the middle of an answer, it gets the reason.
    fn cut(&mut self, now: Time, conn: ConnId, why: String, core: &mut impl Core) {
        let Some(connection) = self.connections.get_mut(&conn) else { return };
        self.pressure.cut += 1;
        if self.refusals.allows(now) {
            let from = connection.from.map_or_else(String::new, |from| format!(" from {from}"));
            tracing::warn!("{conn}{from} is cut: {why}");
        }
        if connection.out_bytes() == 0 {
            connection.send(Refusal { reason: RefusalReason::TooMany, text: why }.frame());
            let _ = connection.write();
            connection.finish();
        }
        self.drop_connection(conn);
        core.take(now, Input::Closed(conn));
    }
}

/// The share of each of this many members.
fn member_part(members: usize) -> usize {
    (MEMBERS_OUT_BYTES_MAX / members.max(1)).max(MEMBER_OUT_BYTES_MIN)
}

/// The problem to report when clients hold this many bytes.
pub(super) fn problem(held: usize, most: usize) -> Option<String> {
    (held > most / 4 * 3).then(|| {
        format!(
            "the connections of clients hold {} of {} MiB: those that hold most are cut when that is full. Look for clients that do not \
             take what they asked for (`ss -tn`), or raise limits.buffer_bytes",
            held >> 20,
            most >> 20
        )
    })
}

#[cfg(test)]
mod tests;
