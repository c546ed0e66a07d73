//! Signatures under requests that go to an instance led here, while they are checked elsewhere.
//!
//! Where the host has workers, a leader gives out what it would check in a turn, in pieces, and goes on. A piece waits until it is answered
//! and all pieces before it are, so requests stay in the order in which they were given. An answer is what checking here would give; so the
//! lane may check a piece by itself at any time. It does so in four cases: when few signatures are to be checked and nothing is out; when as
//! much is out as may be; when the host says that nobody checked a piece; and when an answer does not come. So a worker that dies, or the
//! loss of all of them, costs only speed.
//!
//! INV-HEARD-5: at most so many signatures are out as the host allows, and at the end of a turn at most [`WAITING_TIMES`] times as many
//! requests wait. Tests: checking/tests.rs, check/sim/tests/all/signed.rs.

use super::signed::{Given, Looked};
use quorate_auth::{CheckWork, RequestChecks, RequestClaim};
use quorate_types::{Span, Time, planted};
use std::collections::VecDeque;
use std::sync::Arc;

/// How many signatures the host checks for this replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChecksAway {
    /// With fewer at once the lane does it, unless some are out: another thread would begin only after some 10 microseconds.
    pub least: usize,
    /// The most that may be out; 0: the lane checks all.
    pub most: usize,
}

impl ChecksAway {
    /// The lane checks all.
    pub const NONE: Self = Self { least: 0, most: 0 };
}

/// At most this many signatures are one piece. More together would hardly be faster, and several workers share the pieces.
const PIECE_MAX: usize = 64;
/// If this many times as many requests wait as may be out, the lane checks everything by itself.
const WAITING_TIMES: usize = 4;
/// An answer that takes longer than this is not waited for.
const ANSWER_MAX: Span = Span::from_millis(200);
/// After that nothing is given out for so long: whatever keeps the workers may keep them longer.
const AGAIN_AFTER: Span = Span::from_secs(2);

/// Requests that were given together, and the signatures among them that are out.
#[derive(Debug)]
struct Piece {
    id: u64,
    since: Time,
    given: Vec<Given>,
    looked: Looked,
    claims: Arc<[RequestClaim]>,
    /// Which of the claims are right, once that is known.
    right: Option<Vec<bool>>,
}

/// Requests whose signatures are checked.
pub(super) struct Checked {
    /// The requests.
    pub(super) given: Vec<Given>,
    /// What was known of them before.
    pub(super) looked: Looked,
    /// Which of the open signatures are right.
    pub(super) right: Vec<bool>,
}

/// What is out, and what waits behind it.
#[derive(Debug)]
pub(super) struct Checking {
    checks: RequestChecks,
    away: ChecksAway,
    /// In the order in which they were given.
    pieces: VecDeque<Piece>,
    /// How many signatures are out.
    out: usize,
    /// How many requests wait.
    waiting: usize,
    next: u64,
    /// An answer did not come, so nothing is given out until then.
    again_at: Time,
}

impl Checking {
    pub(super) const fn new(checks: RequestChecks, away: ChecksAway) -> Self {
        Self { checks, away, pieces: VecDeque::new(), out: 0, waiting: 0, next: 0, again_at: Time::ZERO }
    }

    /// Whether nothing waits.
    pub(super) fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Whether no more may be out.
    pub(super) const fn is_full(&self) -> bool {
        self.away.most > 0 && self.out >= self.away.most
    }

    /// Whether requests go elsewhere, or behind those that did: `claims` of their signatures are to be checked.
    pub(super) fn takes(&self, now: Time, claims: usize) -> bool {
        !self.is_empty() || self.away.most > 0 && now >= self.again_at && claims >= self.away.least
    }

    /// Takes requests. Gives the work for others; what is too much for them is checked at once.
    pub(super) fn take(&mut self, now: Time, given: Vec<Given>, looked: Looked) -> Vec<CheckWork> {
        let works = pieces(given, looked).into_iter().filter_map(|(given, mut looked)| {
            let claims: Arc<[RequestClaim]> = std::mem::take(&mut looked.claims).into();
            let id = self.next;
            self.next += 1;
            self.waiting += given.len();
            let room = now >= self.again_at && self.out + claims.len() <= self.away.most;
            let away = room && !claims.is_empty();
            let right = if away { None } else { Some(self.checks.each(&claims)) };
            self.out += if away { claims.len() } else { 0 };
            self.pieces.push_back(Piece { id, since: now, given, looked, claims: claims.clone(), right });
            away.then_some(CheckWork { id, checks: self.checks, claims })
        });
        let works = works.collect();
        if self.waiting > self.away.most * WAITING_TIMES {
            self.check_here(|_| true);
        }
        works
    }

    /// An answer: which claims of a piece are right, or that nobody checked them.
    pub(super) fn answered(&mut self, id: u64, right: Option<Vec<bool>>) {
        let at = self.pieces.binary_search_by_key(&id, |piece| piece.id);
        let at = if planted("check-of-another") { Ok(0) } else { at };
        // The lane may have checked it by itself.
        let Some(piece) = at.ok().and_then(|at| self.pieces.get_mut(at)) else { return };
        if piece.right.is_some() {
            return;
        }
        let fits = |right: &Vec<bool>| right.len() == piece.claims.len() || planted("check-of-another");
        self.out -= piece.claims.len();
        piece.right = Some(right.filter(fits).unwrap_or_else(|| self.checks.each(&piece.claims)));
    }

    /// Does not wait any longer for answers that take too long.
    pub(super) fn give_up(&mut self, now: Time) {
        let before = self.out;
        self.check_here(|piece| now.since(piece.since) > ANSWER_MAX);
        if self.out < before {
            self.again_at = now.plus(AGAIN_AFTER);
        }
    }

    /// Checks pieces here that are out.
    fn check_here(&mut self, which: impl Fn(&Piece) -> bool) {
        for piece in self.pieces.iter_mut().filter(|piece| piece.right.is_none()) {
            if which(piece) {
                self.out -= piece.claims.len();
                piece.right = Some(self.checks.each(&piece.claims));
            }
        }
    }

    /// The next requests in order, if their signatures are checked.
    pub(super) fn next(&mut self) -> Option<Checked> {
        let piece = self.pieces.pop_front_if(|piece| piece.right.is_some())?;
        self.waiting -= piece.given.len();
        let Piece { given, looked, right, .. } = piece;
        Some(Checked { given, looked, right: right.unwrap_or_default() })
    }

    pub(super) fn invariants(&self) {
        let open = self.pieces.iter().filter(|piece| piece.right.is_none());
        let out: usize = open.map(|piece| piece.claims.len()).sum();
        assert!(out == self.out && out <= self.away.most, "INV-HEARD-5 {out} signatures are out");
        let waiting: usize = self.pieces.iter().map(|piece| piece.given.len()).sum();
        let bounded = waiting == self.waiting && waiting <= self.away.most * WAITING_TIMES;
        assert!(bounded, "INV-HEARD-5 {waiting} requests wait until signatures are checked");
    }
}

/// Cuts requests into pieces with few signatures each.
fn pieces(given: Vec<Given>, looked: Looked) -> Vec<(Vec<Given>, Looked)> {
    if looked.claims.len() <= PIECE_MAX {
        return vec![(given, looked)];
    }
    let mut pieces: Vec<(Vec<Given>, Looked)> = Vec::new();
    let mut open = looked.open.into_iter().zip(looked.claims).peekable();
    for (at, (given, is_right)) in given.into_iter().zip(looked.are_right).enumerate() {
        if pieces.last().is_none_or(|(_, looked)| looked.claims.len() >= PIECE_MAX) {
            pieces.push(Default::default());
        }
        let Some((requests, looked)) = pieces.last_mut() else { continue };
        if let Some(((_, header), claim)) = open.next_if(|((of, _), _)| *of == at) {
            looked.open.push((requests.len(), header));
            looked.claims.push(claim);
        }
        requests.push(given);
        looked.are_right.push(is_right);
    }
    pieces
}

#[cfg(test)]
mod tests;
