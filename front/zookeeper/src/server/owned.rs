//! The sessions that are attached to a server, and when it heard of each.
//!
//! Tests: tests/all/server.rs.

use super::ConnId;
use crate::command::Command;
use crate::sessions::silent_after_ms;
use quorate_types::{Span, Time};
use std::collections::BTreeMap;

/// A session at this server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Own {
    pub(super) attached: i32,
    pub(super) timeout_ms: i32,
    /// When its client was heard last.
    pub(super) heard: Time,
    /// Its connection, if there is one now.
    pub(super) conn: Option<ConnId>,
}

/// The sessions at this server.
#[derive(Debug)]
pub(super) struct Owned {
    /// The number of this life of the server.
    server: i64,
    list: BTreeMap<i64, Own>,
    /// When to say next that they live.
    next: Time,
    every: Span,
    /// When the last word was put together that is not ordered yet.
    under_way: Option<Time>,
    /// When the last word was put together that is known to be ordered. None while there is nothing to say.
    confirmed: Option<Time>,
}

impl Owned {
    pub(super) fn new(server: i64, tick: Span) -> Self {
        Self {
            server,
            list: BTreeMap::new(),
            next: Time::ZERO,
            every: tick.divided(3),
            under_way: None,
            confirmed: None,
        }
    }

    pub(super) const fn server(&self) -> i64 {
        self.server
    }

    pub(super) fn insert(&mut self, session: i64, own: Own) -> Option<Own> {
        self.list.insert(session, own)
    }

    pub(super) fn get(&self, session: i64) -> Option<&Own> {
        self.list.get(&session)
    }

    pub(super) fn remove(&mut self, session: i64) -> Option<Own> {
        self.list.remove(&session)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (i64, &Own)> {
        self.list.iter().map(|(session, own)| (*session, own))
    }

    /// Its client was heard.
    pub(super) fn heard(&mut self, session: i64, now: Time) {
        if let Some(own) = self.list.get_mut(&session) {
            own.heard = now;
        }
    }

    /// Its connection is gone.
    pub(super) fn lost(&mut self, session: i64, conn: ConnId) {
        if let Some(own) = self.list.get_mut(&session).filter(|own| own.conn == Some(conn)) {
            own.conn = None;
        }
    }

    /// What to say now of all sessions, if it is time to. `zxid`: the last transaction that the server knows.
    pub(super) fn word(&mut self, now: Time, zxid: i64) -> Option<Command<'static>> {
        if self.list.is_empty() {
            self.confirmed = None;
        }
        if self.list.is_empty() || self.under_way.is_some() || now < self.next {
            return None;
        }
        self.confirmed = self.confirmed.or(Some(now));
        (self.next, self.under_way) = (now.plus(self.every), Some(now));
        let silence_ms = |own: &Own| now.since(own.heard).millis() as i64;
        let silent = self.list.iter().map(|(session, own)| (*session, silence_ms(own), own.timeout_ms));
        let silent = silent.filter(|(_, silence_ms, timeout_ms)| *silence_ms > silent_after_ms(*timeout_ms));
        let silent = silent.map(|(session, silence_ms, _)| (session, silence_ms)).collect();
        Some(Command::Live { server: self.server, zxid, silent })
    }

    /// The last word is ordered, or nobody knows.
    pub(super) fn said(&mut self, is_ordered: bool) {
        let said = self.under_way.take();
        if is_ordered {
            self.confirmed = said;
        }
    }

    /// When the cluster was last known to hear this server; now if there was nothing to say.
    pub(super) fn confirmed(&self, now: Time) -> Time {
        self.confirmed.unwrap_or(now)
    }

    /// Keeps some sessions only.
    pub(super) fn keep(&mut self, stays: impl Fn(i64) -> bool) {
        self.list.retain(|session, _| stays(*session));
    }

    /// When there may be something to say.
    pub(super) fn deadline(&self) -> Option<Time> {
        (!self.list.is_empty() && self.under_way.is_none()).then_some(self.next)
    }
}
