//! A server that only answers reads, while nothing can be ordered: for clients that said when they connected that it will do.
//!
//! Nothing of it is ordered. A session that the state knows goes on without a new attachment, so it ends as if its client were silent; a new one
//! is known to nobody else. Once there is a leader again these connections end, and their clients look for a server that writes. Source:
//! `ReadOnlyZooKeeperServer` and `ReadOnlyRequestProcessor` of Apache ZooKeeper 3.9.4. Tests: tests/all/reading.rs.

use super::{ConnId, Now, PASSWORD_BYTES, Server, Stage, Waits, frames};
use crate::error::ZkError;
use crate::op::Op;
use crate::records::ConnectRequest;
use crate::sessions;
use bytes::Bytes;

/// The first byte of sessions that are known to one server only. The cluster's count up from another one.
const ALONE: i64 = 0x7e << 56;

impl Server {
    /// Whether the replica knows a leader now. Only where clients may be served without one need this be said, a few times in a tick.
    pub fn led(&mut self, is_led: bool, now: Now) {
        if is_led {
            self.unled_since = None;
            if std::mem::take(&mut self.only_reads) {
                self.close_all();
            }
            return;
        }
        // A new leader is often there at once. Nobody has to move for that.
        let since = *self.unled_since.get_or_insert(now.time);
        if self.config.read_only && !self.only_reads && now.time.since(since) >= self.config.tick {
            self.only_reads = true;
            self.close_all();
        }
    }

    /// The first frame of a connection, while nothing can be ordered.
    pub(super) fn connect_to_read(&mut self, id: ConnId, hello: &ConnectRequest<'_>) {
        // Whoever has seen more than there is here would see its state go back.
        let Some(view) = self.state.view().filter(|_| hello.last_zxid <= self.state.zxid()) else {
            return self.close(id);
        };
        if hello.read_only != Some(true) {
            return self.close(id);
        }
        let digest = self.secrets.digest(hello.password);
        let known = sessions::timeout_of(&view, hello.session, &digest);
        let (min, max) = self.config.timeout_ms;
        let (session, timeout_ms, password) = match hello.session {
            0 => {
                let (number, password) = (self.secrets.password(), self.secrets.password());
                let number = number.first_chunk().map_or(0, |bytes| i64::from_be_bytes(*bytes));
                (ALONE | number & ((1 << 56) - 1), hello.timeout_ms.clamp(min, max), password)
            }
            session => match (known, hello.password.try_into()) {
                (Some(timeout_ms), Ok(password)) => (session, timeout_ms, password),
                _ => return self.refuse(id),
            },
        };
        let Some(conn) = self.conns.get_mut(&id) else { return };
        conn.begin_to_read(session, timeout_ms);
        self.welcome(id, timeout_ms, session, &password as &[u8; PASSWORD_BYTES]);
    }

    /// A request of a client that may only read.
    pub(super) fn request_to_read(&mut self, id: ConnId, (xid, op): (i32, i32), request: Bytes, now: Now) {
        let zxid = self.state.zxid();
        match Op::of(op) {
            Some(Op::CloseSession) => {
                self.send(id, frames::own_reply(xid, zxid, 0, |_| ()));
                self.close(id);
            }
            Some(op) if op.writes() || matches!(op, Op::Sync | Op::Check) => {
                self.send(id, frames::own_reply(xid, zxid, ZkError::NotReadOnly.code(), |_| ()));
            }
            _ => {
                let Some(conn) = self.conns.get_mut(&id) else { return };
                conn.push(xid, request.len(), Waits::Here { op, request, zxid: Some(0) });
                self.advance(id, now);
            }
        }
    }
}

impl super::conn::Conn {
    /// Its client may read, in this session.
    fn begin_to_read(&mut self, session: i64, timeout_ms: i32) {
        (self.stage, self.only_reads) = (Stage::Open, true);
        (self.caller.session, self.timeout_ms, self.knows_read_only) = (session, timeout_ms, true);
    }
}
