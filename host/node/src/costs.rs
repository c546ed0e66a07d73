//! How members share the lane's time: by what their messages cost, however few bytes they have. A signature that fails costs as much as one
//! that holds, and its sender pays for it (decision 0029).
//!
//! In one turn a member is read for a slice of time. If it takes more, it owes the rest: it has less in the next turns, or nothing, while
//! others are served. If no other member has anything to be read, it does not wait. A suspect that has misbehaved lately gets one part in
//! [`SUSPECT`] of the time, in small pieces, even if no other member is there. Tests: `costs/tests.rs`.

use quorate_types::{ConnId, Span, Time, planted};
use std::collections::BTreeMap;

/// The most bytes, and the most time, to read of a member in one turn.
const TURN_BYTES: usize = 2 << 20;
const SLICE: Span = Span::from_millis(4);
/// The most bytes to read at once; the number depends on what the bytes before cost.
const PIECE_MAX: usize = 256 << 10;
const PIECE_MIN: usize = 4 << 10;
/// A suspect gets one part in this many of the lane's time.
const SUSPECT: u64 = 16;
/// The most time that a member can owe: the machine may have slept, or the clock jumped.
const OWED_MAX: Span = Span::from_millis(200);

/// The account of one member's connection.
#[derive(Debug)]
struct Account {
    /// The time that it had too much.
    owed: Span,
    /// Whether it was read in this turn.
    read: bool,
    /// How many bytes to read at once.
    piece: usize,
    /// Its part of the time, while it is a suspect.
    part: Share,
}

impl Default for Account {
    fn default() -> Self {
        Self { owed: Span::ZERO, read: false, piece: PIECE_MAX, part: Share::one_in(SUSPECT) }
    }
}

/// The most time that counts: if something took longer, the machine slept or the clock jumped.
const TOOK_MAX: Span = Span::from_millis(20);

/// A limit for work that gets at most one part in this many of a busy lane's time.
#[derive(Debug)]
pub struct Share {
    parts: u64,
    /// The time in which the work gets nothing. At other times, even earlier ones, the clock may have jumped.
    closed: Option<(Time, Time)>,
}

impl Share {
    /// A limit of one part in `parts`.
    pub fn one_in(parts: u64) -> Self {
        Self { parts, closed: None }
    }

    /// The work took this long; `busy`: whether there is other work.
    pub fn served(&mut self, now: Time, took: Span, busy: bool) {
        self.closed = busy.then(|| (now, now.plus(took.min(TOOK_MAX).times(self.parts - 1))));
    }

    /// How long the work has to wait, if it does.
    pub fn opens_in(&self, now: Time) -> Option<Span> {
        let closed = self.closed.filter(|(since, until)| (*since..*until).contains(&now));
        closed.map(|(_, until)| until.since(now))
    }
}

/// What one member had in this turn.
#[derive(Clone, Copy, Debug, Default)]
pub struct Had {
    bytes: usize,
    time: Span,
}

impl Had {
    /// Whether the member may have more.
    pub fn may_have_more(self) -> bool {
        self.bytes < TURN_BYTES && (self.time < SLICE || planted("turn-shared-by-bytes"))
    }
}

/// What members have cost lately, by their connections.
#[derive(Debug, Default)]
pub struct Costs {
    accounts: BTreeMap<ConnId, Account>,
    /// The time that all members had in this turn.
    turn: Span,
}

impl Costs {
    /// Whether a connection may be read in this turn.
    pub fn may(&self, now: Time, conn: ConnId) -> bool {
        self.accounts.get(&conn).is_none_or(|account| {
            account.owed < SLICE && account.part.opens_in(now).is_none() || planted("turn-shared-by-bytes")
        })
    }

    /// How long a connection must wait, if others do not make it longer.
    pub fn opens_in(&self, now: Time, conn: ConnId) -> Span {
        self.accounts.get(&conn).and_then(|account| account.part.opens_in(now)).unwrap_or(Span::ZERO)
    }

    /// Begins to read a connection in this turn: what it owes counts as had.
    pub fn begin(&self, conn: ConnId) -> Had {
        Had { bytes: 0, time: self.accounts.get(&conn).map_or(Span::ZERO, |account| account.owed) }
    }

    /// How many bytes of a connection to read at once.
    pub fn piece(&self, conn: ConnId) -> usize {
        self.accounts.get(&conn).map_or(PIECE_MAX, |account| account.piece)
    }

    /// Notes that this many bytes were read, and how long it took.
    pub fn read(&mut self, conn: ConnId, had: &mut Had, bytes: usize, took: Span) {
        had.bytes += bytes;
        had.time = had.time.plus(took);
        self.turn = self.turn.plus(took);
        if bytes < PIECE_MIN && took < SLICE {
            return; // too little to judge by, or to note
        }
        let account = self.accounts.entry(conn).or_default();
        let fits = SLICE.nanos().saturating_mul(bytes as u64) / took.nanos().max(1);
        let fits = usize::try_from(fits).unwrap_or(usize::MAX);
        account.piece = fits.min(account.piece * 2).clamp(PIECE_MIN, PIECE_MAX);
    }

    /// Ends a connection's part of this turn.
    pub fn served(&mut self, now: Time, conn: ConnId, had: Had, suspect: bool) {
        if !suspect && had.time <= SLICE && !self.accounts.contains_key(&conn) {
            return;
        }
        let account = self.accounts.entry(conn).or_default();
        account.owed = had.time.minus(SLICE).min(OWED_MAX);
        account.read = true;
        if suspect && !planted("evidence-costs-nothing") {
            account.piece = PIECE_MIN;
            account.part.served(now, had.time, true);
        }
    }

    /// Ends a turn. The time that others had reduces what a connection owes. If no connection had any time, all debtors are waiting for
    /// each other; then each is let off what the smallest debtor owes.
    pub fn turned(&mut self) {
        let others = std::mem::take(&mut self.turn);
        let least =
            self.accounts.values().map(|account| account.owed).filter(|owed| *owed > Span::ZERO).min();
        let paid = if others == Span::ZERO { least.unwrap_or_default() } else { others };
        for account in self.accounts.values_mut() {
            if !std::mem::take(&mut account.read) {
                account.owed = account.owed.minus(paid);
            }
        }
    }

    /// A connection is gone.
    pub fn forget(&mut self, conn: ConnId) {
        self.accounts.remove(&conn);
    }
}

#[cfg(test)]
mod tests;
