//! One member and the connection to it: dial, greet, and again with growing waits when it is lost.
//!
//! INV-CLIENT-7: at most one connection per member, and no connection number is used twice.

use crate::back_off::back_off;
use crate::config::Config;
use crate::repliers::{LATE_DOUBLINGS, LATE_FOR};
use crate::spread::Missed;
use quorate_types::{ConnId, Random, ReplicaId, Seq, Span, Time, View};
use quorate_wire::AnswerMode;

/// A connection that lasted so many dial time-outs was a good one: the waits start small again.
const GOOD_AFTER: u64 = 1;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LinkState {
    Down { retry_at: Time },
    Dialing { conn: ConnId, give_up: Time },
    Greeting { conn: ConnId, give_up: Time },
    Up { conn: ConnId, since: Time },
}

#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) replica: ReplicaId,
    pub(crate) state: LinkState,
    attempt: u32,
    /// Bytes handed to the connection and not yet written.
    pub(crate) out_bytes: usize,
    /// When the last frame came.
    pub(crate) heard: Time,
    /// It let a read wait: others are asked first until then.
    pub(crate) slow_until: Time,
    /// Reads that wait to be sent.
    pub(crate) reads: Vec<u64>,
    /// Why there is no connection.
    pub(crate) problem: Option<String>,
    /// It refused the last connection for a reason that will not pass by itself.
    pub(crate) refused: bool,
    /// It is no member any more.
    pub(crate) left: bool,
    /// What went to others and not to it (`spread.rs`).
    pub(crate) missed: Missed,
    /// What it says of who leads; only where one word is not enough.
    pub(crate) notice: Option<(View, Option<ReplicaId>)>,
    /// How far it says that it executed; as well.
    pub(crate) executed: Seq,
    /// How it was told to answer, on this connection, and since when it answers so much (`repliers.rs`).
    pub(crate) told: Option<(AnswerMode, Time)>,
    /// Others answer in its place until then.
    pub(crate) late_until: Time,
    /// How often it was late of late, and when it was last.
    lates: (u32, Time),
}

impl Link {
    pub(crate) const fn new(replica: ReplicaId) -> Self {
        Self {
            replica,
            state: LinkState::Down { retry_at: Time::ZERO },
            attempt: 0,
            out_bytes: 0,
            heard: Time::ZERO,
            slow_until: Time::ZERO,
            reads: Vec::new(),
            problem: None,
            refused: false,
            left: false,
            missed: Missed::new(),
            notice: None,
            executed: Seq::ZERO,
            told: None,
            late_until: Time::ZERO,
            lates: (0, Time::ZERO),
        }
    }

    /// Others answer in its place for a while, and those first that were late longer ago; `last`: until when anybody is late. Whether that
    /// is news.
    pub(crate) fn be_late(&mut self, now: Time, last: Time) -> bool {
        let (times, before) = self.lates;
        if before == now {
            return false; // many requests say so
        }
        let long = |times: u32| LATE_FOR.times(1 << times.min(LATE_DOUBLINGS));
        let times = if now.since(before) > long(times).times(2) { 0 } else { times };
        self.late_until = now.plus(long(times)).max(last.plus(Span::from_nanos(1)));
        self.lates = (times.saturating_add(1), now);
        true
    }

    /// The connection, welcomed or not.
    pub(crate) const fn conn(&self) -> Option<ConnId> {
        match self.state {
            LinkState::Down { .. } => None,
            LinkState::Dialing { conn, .. }
            | LinkState::Greeting { conn, .. }
            | LinkState::Up { conn, .. } => Some(conn),
        }
    }

    /// The connection, if it was welcomed.
    pub(crate) const fn up(&self) -> Option<ConnId> {
        match self.state {
            LinkState::Up { conn, .. } => Some(conn),
            _ => None,
        }
    }

    pub(crate) const fn due(&self) -> Option<Time> {
        match self.state {
            LinkState::Down { retry_at } => Some(retry_at),
            LinkState::Dialing { give_up, .. } | LinkState::Greeting { give_up, .. } => Some(give_up),
            LinkState::Up { .. } => None,
        }
    }

    /// The connection is gone; returns when it is dialed again.
    pub(crate) fn lost(&mut self, now: Time, config: &Config, random: &mut Random) -> Time {
        if let LinkState::Up { since, .. } = self.state
            && now.since(since) >= config.dial_timeout.times(GOOD_AFTER)
        {
            self.attempt = 0;
        }
        let wait = back_off(random, self.attempt, config.dial_back_off_min, config.dial_back_off_max);
        self.attempt = self.attempt.saturating_add(1);
        let retry_at = now.plus(wait);
        self.state = LinkState::Down { retry_at };
        self.out_bytes = 0;
        self.reads.clear();
        self.missed.clear();
        self.notice = None;
        self.told = None;
        retry_at
    }
}
