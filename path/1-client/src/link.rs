//! One member and the connection to it: dial, greet, and again with growing waits when it is lost.
//!
//! INV-CLIENT-7: at most one connection per member, and no connection number is used twice.

use crate::back_off::back_off;
use crate::config::Config;
use crate::spread::Missed;
use quorate_types::Random;
use quorate_types::{ConnId, ReplicaId, Seq, Time, View};

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
        }
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
        retry_at
    }
}
