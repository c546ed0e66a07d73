//! How members share the lane's time: by what their messages cost, however few bytes they are. A signature that fails costs as much
//! as one that holds, and is the loss of who sent it (decision 0029).
//!
//! In one turn a member is read for a slice of time. What it took beyond that it owes: it has less in the next turns, or nothing, while others
//! are served. Where nobody else has anything to be read it waits for nobody. A member that lately did what no honest one does gets one part
//! in [`SUSPECT`] of the time, whoever else is there, in small pieces. Tests: `costs/tests.rs`.

use quorate_types::{ConnId, Span, Time, planted};
use std::collections::BTreeMap;

/// Of one member in one turn, at most, in bytes and in time.
const TURN_BYTES: usize = 2 << 20;
const SLICE: Span = Span::from_millis(4);
/// So much is read at once, depending on what the bytes before it cost.
const PIECE_MAX: usize = 256 << 10;
const PIECE_MIN: usize = 4 << 10;
/// A member that lies gets one part in so many of the lane's time.
const SUSPECT: u64 = 16;
/// More is not owed: the machine may have slept, or the clock jumped.
const OWED_MAX: Span = Span::from_millis(200);

/// One member's connection.
#[derive(Debug)]
struct Account {
    /// Time that it had too much.
    owed: Span,
    /// It was read in this turn.
    read: bool,
    /// What is read of it at once.
    piece: usize,
    /// Its part of the time, while it is suspected.
    part: Share,
}

impl Default for Account {
    fn default() -> Self {
        Self { owed: Span::ZERO, read: false, piece: PIECE_MAX, part: Share::one_in(SUSPECT) }
    }
}

/// Nobody takes longer, unless the machine slept or the clock jumped.
const TOOK_MAX: Span = Span::from_millis(20);

/// Something that gets no more than one part in so many of a busy lane's time.
#[derive(Debug)]
pub struct Share {
    parts: u64,
    /// From when to when it gets nothing. Outside of that, even before, the clock may have jumped.
    closed: Option<(Time, Time)>,
}

impl Share {
    /// One part in so many.
    pub fn one_in(parts: u64) -> Self {
        Self { parts, closed: None }
    }

    /// It took so long; `busy`: there is other work.
    pub fn served(&mut self, now: Time, took: Span, busy: bool) {
        self.closed = busy.then(|| (now, now.plus(took.min(TOOK_MAX).times(self.parts - 1))));
    }

    /// How long it has to wait, if it has to.
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
    /// Whether it may have more.
    pub fn may_have_more(self) -> bool {
        self.bytes < TURN_BYTES && (self.time < SLICE || planted("turn-shared-by-bytes"))
    }
}

/// What members have cost lately, by their connections.
#[derive(Debug, Default)]
pub struct Costs {
    accounts: BTreeMap<ConnId, Account>,
    /// The time that members had in this turn, all together.
    turn: Span,
}

impl Costs {
    /// Whether it may be read in this turn.
    pub fn may(&self, now: Time, conn: ConnId) -> bool {
        self.accounts.get(&conn).is_none_or(|account| {
            account.owed < SLICE && account.part.opens_in(now).is_none() || planted("turn-shared-by-bytes")
        })
    }

    /// How long to wait until it may, if others do not make it longer.
    pub fn opens_in(&self, now: Time, conn: ConnId) -> Span {
        self.accounts.get(&conn).and_then(|account| account.part.opens_in(now)).unwrap_or(Span::ZERO)
    }

    /// It is read in this turn: what it owes counts as had.
    pub fn begin(&self, conn: ConnId) -> Had {
        Had { bytes: 0, time: self.accounts.get(&conn).map_or(Span::ZERO, |account| account.owed) }
    }

    /// So much is to be read of it at once.
    pub fn piece(&self, conn: ConnId) -> usize {
        self.accounts.get(&conn).map_or(PIECE_MAX, |account| account.piece)
    }

    /// So much of it was read in this time.
    pub fn read(&mut self, conn: ConnId, had: &mut Had, bytes: usize, took: Span) {
        had.bytes += bytes;
        had.time = had.time.plus(took);
        self.turn = self.turn.plus(took);
        if bytes < PIECE_MIN && took < SLICE {
            return; // too little to tell, and nothing to be noted
        }
        let account = self.accounts.entry(conn).or_default();
        let fits = SLICE.nanos().saturating_mul(bytes as u64) / took.nanos().max(1);
        let fits = usize::try_from(fits).unwrap_or(usize::MAX);
        account.piece = fits.min(account.piece * 2).clamp(PIECE_MIN, PIECE_MAX);
    }

    /// Its part of this turn is over.
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

    /// A turn is over. What others had counts for those who owe. Where nobody had anything, all who owe wait for each other: the first of
    /// them need not wait any more.
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

    /// It is gone.
    pub fn forget(&mut self, conn: ConnId) {
        self.accounts.remove(&conn);
    }
}

#[cfg(test)]
mod tests;
