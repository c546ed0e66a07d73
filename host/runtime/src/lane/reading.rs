//! Which connections the lane reads, and how much of each: members whenever they have bytes, each for its share of the time
//! (`quorate_node::Costs`); unknown sides at the pace of the door; clients in a fair order.

use super::sockets::{CLOSING, Core, Sockets};
use crate::connection::{Arrival, Class, End};
use quorate_node::{ConnClass, Input};
use quorate_tls::Trouble;
use quorate_types::{ConnId, Reject, Span, Time};
use quorate_wire::{FrameKind, Refusal, RefusalReason};
use std::sync::Arc;
use std::time::Duration;

/// The most bytes of clients in one turn, and of one connection at once; less while light ones wait beside heavy ones.
const CLIENT_BYTES: usize = 2 << 20;
const PIECE_BYTES: usize = 256 << 10;
const CONTENDED_BYTES: usize = 32 << 10;
const CONTENDED_PIECE_BYTES: usize = 16 << 10;
/// The most bytes of an unknown side at once: a hello or a part of a handshake.
const DOOR_BYTES: usize = 64 << 10;

impl Sockets {
    /// Notes that a connection may have bytes to read which no event will announce.
    pub(super) fn wants_read(&mut self, conn: ConnId) {
        let Some(connection) = self.connections.get_mut(&conn) else { return };
        if connection.connecting || std::mem::replace(&mut connection.queued, true) {
            return;
        }
        match connection.class {
            _ if connection.closing => self.first.push(conn),
            Class::Member => self.first.push(conn),
            Class::Client(owner) => self.fair.came(conn, owner),
            Class::Door => match connection.from {
                Some(from) => self.door.came(conn, from.ip()),
                None => self.first.push(conn),
            },
        }
    }

    /// Reads every connection whose turn it is.
    pub(super) fn read_all(&mut self, now: Time, core: &mut impl Core) {
        if !core.takes_any() {
            return; // they stay where they stand
        }
        for conn in std::mem::take(&mut self.first) {
            if self.costs.may(now, conn) {
                self.busy = true;
                self.read_member(now, conn, core);
            } else if self.connections.contains_key(&conn) {
                self.first.push(conn);
            }
        }
        self.costs.turned();
        self.read_clients(now, core);
        self.read_strangers(now, core);
    }

    /// Reads a member for as long as it may have the lane in this turn.
    fn read_member(&mut self, now: Time, conn: ConnId, core: &mut impl Core) {
        let (mut had, mut more) = (self.costs.begin(conn), true);
        let mut before = self.clock.now();
        while more && had.may_have_more() {
            let (bytes, unread) = self.read(now, conn, self.costs.piece(conn), core);
            let after = self.clock.now();
            self.costs.read(conn, &mut had, bytes, after.since(before));
            (before, more) = (after, unread);
        }
        if self.connections.contains_key(&conn) {
            self.costs.served(before, conn, had, core.suspects(before, conn));
        }
        self.queue_again(conn, more);
    }

    fn read_clients(&mut self, now: Time, core: &mut impl Core) {
        let mut left = CLIENT_BYTES;
        while left > 0 {
            let pace = &self.pace;
            let heavy = |contended| core.takes_more(contended) && (!contended || pace.allows(now));
            let Some(next) = self.fair.next(now, heavy) else { return };
            self.busy = true;
            let contended = self.fair.is_contended(now);
            if contended {
                left = left.min(CONTENDED_BYTES);
            }
            let piece = if contended { CONTENDED_PIECE_BYTES } else { PIECE_BYTES };
            let (bytes, more) = self.read(now, next.conn, piece, core);
            if !next.light {
                self.pace.served(now);
            }
            let connection = self.connections.get_mut(&next.conn);
            let little = connection.is_some_and(|connection| connection.lately.sent(now, bytes));
            self.fair.served(now, next, bytes, (more, little));
            // A light client was read because it delays no other one.
            left = left.saturating_sub(bytes.max(1));
        }
    }

    /// Reads one unknown side per turn, since others may wait.
    fn read_strangers(&mut self, now: Time, core: &mut impl Core) {
        let before = self.clock.now();
        let Some(conn) = self.door.next(before) else { return };
        self.read_and_queue(now, conn, DOOR_BYTES, core);
        let after = self.clock.now();
        self.door.served(after, after.since(before), self.busy);
    }

    fn read_and_queue(&mut self, now: Time, conn: ConnId, bytes: usize, core: &mut impl Core) {
        let (_, more) = self.read(now, conn, bytes, core);
        self.queue_again(conn, more);
    }

    fn queue_again(&mut self, conn: ConnId, more: bool) {
        if more && let Some(connection) = self.connections.get_mut(&conn) {
            connection.queued = false;
            self.wants_read(conn);
        }
    }

    /// How long the lane may wait before a connection must be read; `None` when none waits.
    pub(super) fn reads_in(&self, core: &impl Core) -> Option<Duration> {
        if !core.takes_any() {
            return None;
        }
        let now = self.clock.now();
        let first = self.first.iter().map(|conn| self.costs.opens_in(now, *conn)).min();
        if first == Some(Span::ZERO) || self.fair.has_light() {
            return Some(Duration::ZERO);
        }
        let contended = self.fair.is_contended(now);
        // Without room for them something else wakes the lane when there is.
        let heavy = (self.fair.has_heavy() && core.takes_more(contended))
            .then(|| if contended { self.pace.wait(now) } else { Span::ZERO });
        let door = self.door.opens(now).map(|at| at.since(now));
        first.into_iter().chain(heavy).chain(door).min().map(|wait| Duration::from_nanos(wait.nanos()))
    }

    /// Reads about this many bytes of a connection. Gives their number, and whether more may be left.
    fn read(&mut self, now: Time, conn: ConnId, bytes: usize, core: &mut impl Core) -> (usize, bool) {
        let apart = self.partition.is_some() && self.connections.get(&conn).is_some_and(|c| self.is_apart(c));
        let Some(connection) = self.connections.get_mut(&conn) else { return (0, false) };
        connection.queued = false;
        if apart {
            connection.unread = true;
            self.apart.insert(conn);
            return (0, false);
        }
        if connection.closing {
            if connection.discard().is_err() {
                self.drop_connection(conn);
            }
            return (0, false);
        }
        if connection.class != Class::Member && connection.out_bytes() > self.limits.unsent_bytes {
            // It does not take what it asked for, so it may not ask for more until it does.
            connection.unread = true;
            return (0, false);
        }
        let clock = &self.clock;
        let (read, ended) = connection.read(&mut self.scratch, bytes, |connection, arrival| {
            // Not the time of the turn's beginning: a lease that held then may be over.
            let now = clock.now();
            let frame = match arrival {
                Arrival::Frame(frame) => frame,
                Arrival::Identity(identity) => {
                    return core.take(now, Input::Identified { conn, identity: Arc::new(identity) });
                }
            };
            let handshake = matches!(frame.kind, FrameKind::Hello | FrameKind::Welcome);
            core.take(now, Input::Frame { conn, frame });
            // After a handshake larger frames come, perhaps together with it.
            if handshake && let Some(bytes) = core.frame_limit(conn) {
                connection.set_frame_limit(bytes);
            }
        });
        if connection.class == Class::Door {
            match core.class(conn) {
                ConnClass::Member => {
                    (connection.class, connection.member) = (Class::Member, core.member(conn));
                }
                ConnClass::Client(owner) => connection.class = Class::Client(owner),
                ConnClass::Stranger => {}
            }
        }
        let (unread, answers) = (connection.unread, connection.wants_to_write());
        let ended = self.after_read(now, conn, ended, core);
        if !ended && answers {
            self.write(now, conn, core); // the handshake's own words
        }
        self.settle(conn);
        let more = unread && !ended && self.connections.contains_key(&conn);
        if more && let Some(connection) = self.connections.get_mut(&conn) {
            connection.queued = true;
        }
        (read, more)
    }

    /// Ends a connection that can not be read any more. Says whether it did.
    fn after_read(&mut self, now: Time, conn: ConnId, ended: Result<(), End>, core: &mut impl Core) -> bool {
        match ended {
            Ok(()) => return false,
            Err(End::Unsafe(trouble)) => self.turn_away(now, conn, &trouble, core),
            Err(End::Bad(why)) => {
                if self.refusals.allows(now) {
                    tracing::warn!("{conn}: {why}; the connection is closed");
                }
                self.refuse(now, conn, &why, core);
            }
            Err(End::Closed) => {
                // While it is being closed by the node nobody waits to hear of it.
                let known = self.connections.contains_key(&conn);
                self.drop_connection(conn);
                if known {
                    core.take(now, Input::Closed(conn));
                }
            }
        }
        true
    }

    /// The bytes are no frame, or one that is too large: tells the sender, and ends the connection.
    fn refuse(&mut self, now: Time, conn: ConnId, why: &Reject, core: &mut impl Core) {
        let Some(connection) = self.connections.get_mut(&conn) else { return };
        connection.closing = true;
        if connection.class != Class::Member {
            let text = format!("{why}: this port speaks Quorate's own protocol");
            connection.send(Refusal { reason: RefusalReason::NoHello, text }.frame());
        }
        self.closing.push_back((now.plus(CLOSING), conn));
        core.take(now, Input::Closed(conn));
        self.write(now, conn, core);
    }

    /// The other side is not identified: tells it why, and ends the connection.
    fn turn_away(&mut self, now: Time, conn: ConnId, trouble: &Trouble, core: &mut impl Core) {
        let Some(connection) = self.connections.get_mut(&conn) else { return };
        if connection.closing {
            return;
        }
        connection.turn_away(trouble);
        let from = connection.from.map_or_else(String::new, |from| format!("{from}: "));
        self.closing.push_back((now.plus(CLOSING), conn));
        core.take(now, Input::Unsafe { conn, why: format!("{from}{trouble}") });
        self.write(now, conn, core);
    }
}
