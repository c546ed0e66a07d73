//! One member and the connection to it: dial, greet, and dial again after growing waits when it is lost.

use crate::back_off::back_off;
use crate::step::Step;
use quorate_types::{ConnId, ReplicaId, Time};

/// After a connection that lasted this many dial time-outs, the waits start small again.
const GOOD_AFTER: u64 = 1;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ContactState {
    Down { retry_at: Time },
    Dialing { conn: ConnId, give_up: Time },
    Greeting { conn: ConnId, give_up: Time },
    Up { conn: ConnId, since: Time },
}

/// What is known of one member and the connection to it.
#[derive(Debug)]
pub(crate) struct Contact {
    pub(crate) replica: ReplicaId,
    pub(crate) state: ContactState,
    attempt: u32,
    /// Bytes that were handed to the connection and not yet written.
    pub(crate) out_bytes: usize,
    /// When the last frame came.
    pub(crate) heard: Time,
    /// Why there is no connection.
    pub(crate) problem: Option<String>,
    /// It refused the last connection for a reason that will not go away by itself.
    pub(crate) refused: bool,
    /// It is not a member any more.
    pub(crate) left: bool,
}

impl Contact {
    pub(crate) const fn new(replica: ReplicaId) -> Self {
        Self {
            replica,
            state: ContactState::Down { retry_at: Time::ZERO },
            attempt: 0,
            out_bytes: 0,
            heard: Time::ZERO,
            problem: None,
            refused: false,
            left: false,
        }
    }

    /// The connection, welcomed or not.
    pub(crate) const fn conn(&self) -> Option<ConnId> {
        match self.state {
            ContactState::Down { .. } => None,
            ContactState::Dialing { conn, .. }
            | ContactState::Greeting { conn, .. }
            | ContactState::Up { conn, .. } => Some(conn),
        }
    }

    /// The connection, if it was welcomed.
    pub(crate) const fn up(&self) -> Option<ConnId> {
        match self.state {
            ContactState::Up { conn, .. } => Some(conn),
            _ => None,
        }
    }

    pub(crate) const fn due(&self) -> Option<Time> {
        match self.state {
            ContactState::Down { retry_at } => Some(retry_at),
            ContactState::Dialing { give_up, .. } | ContactState::Greeting { give_up, .. } => Some(give_up),
            ContactState::Up { .. } => None,
        }
    }

    /// Whether this many more bytes may be handed to the connection. A frame larger than the limit is sent when nothing else waits.
    pub(crate) const fn has_room(&self, bytes: usize, max: usize) -> bool {
        self.out_bytes == 0 || self.out_bytes + bytes < max
    }

    /// The connection is lost and is made again after a while.
    pub(crate) fn lost(&mut self, step: &mut Step<'_>) {
        let config = step.config;
        if let ContactState::Up { since, .. } = self.state
            && step.now.since(since) >= config.dial_timeout.times(GOOD_AFTER)
        {
            self.attempt = 0;
        }
        let wait = back_off(step.random, self.attempt, config.dial_back_off_min, config.dial_back_off_max);
        self.attempt = self.attempt.saturating_add(1);
        self.state = ContactState::Down { retry_at: step.now.plus(wait) };
        self.out_bytes = 0;
    }
}
