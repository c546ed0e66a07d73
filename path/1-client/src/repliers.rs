//! Who answers, where f+1 equal answers are needed: f+1 members, one of them whole and the others by digests. All others are silent, and
//! have the answers ready.
//!
//! Every member executes every request, so that anybody can take anybody's place. What a member is to send is told once on each
//! connection, and again when that changes ([`AnswerMode`]). Who is to send more than before is sent everything under way once more: it
//! answers at once what it executed while it was silent.
//!
//! - A member that is not connected is no replier.
//! - Once somebody answered a request, the others have a while: so much longer than they usually need that it is no chance, and
//!   [`WAIT_MIN`] at least. Whoever has not answered by then is late: others answer in its place, until it gets another chance; the more
//!   often it is late, the later that is. So the nearest ones answer in the end, wherever replicas stand.
//! - When repliers differ, all are asked, and who said something else than f+1 did is late for long.
//! - Where too few are never late, those answer whose last chance is the longest ago. Where that does not help, all are asked, and nobody
//!   looks again before the request is sent again.
//!
//! Who comes first differs from client to client, so that all members have the same work.
//!
//! Tests: tests/repliers.rs, tests/liars.rs.

use crate::core::ClientCore;
use crate::effects::{Effect, Effects};
use quorate_types::{Span, Time};
use quorate_wire::AnswerMode;
use std::collections::VecDeque;

/// The others have so long at least after the first answer.
const WAIT_MIN: Span = Span::from_millis(50);
/// And no longer than this.
const WAIT_MAX: Span = Span::from_millis(500);
/// And so many times as long as they usually need.
const WAIT_TIMES: u64 = 16;
/// Who is late is no replier for so long, twice as long each time it is late again.
pub(crate) const LATE_FOR: Span = Span::from_secs(1);
pub(crate) const LATE_DOUBLINGS: u32 = 6;
/// Who lied is none for so long.
const LIED_FOR: Span = Span::from_secs(60);
/// When answers differ, or none come, all are asked for so long.
const ALL_FOR: Span = Span::from_secs(10);
/// Times are looked at together that are no further apart than this.
const GRAIN: Span = Span::from_millis(1);

/// A request that somebody answered, and not enough others yet.
#[derive(Clone, Copy, Debug)]
struct Begun {
    since: Time,
    place: u32,
    generation: u32,
    number: u64,
    /// So often it was looked at in vain.
    tries: u8,
}

/// Who is to answer.
#[derive(Debug, Default)]
pub(crate) struct Repliers {
    /// In the order in which they began.
    begun: VecDeque<Begun>,
    /// How long the others usually need after the first one.
    gap: Span,
    /// All are asked until then.
    all_until: Time,
    /// Something changed.
    stale: bool,
    /// When somebody gets another chance.
    again_at: Option<Time>,
}

impl Repliers {
    /// How long the others have after the first one.
    fn wait(&self) -> Span {
        self.gap.times(WAIT_TIMES).clamp(WAIT_MIN, WAIT_MAX)
    }

    pub(crate) fn due(&self) -> Option<Time> {
        let begun = self.begun.front().map(|begun| begun.since.plus(self.wait()));
        begun.into_iter().chain(self.again_at).min()
    }

    pub(crate) const fn changed(&mut self) {
        self.stale = true;
    }
}

impl ClientCore {
    /// Somebody answered a request first.
    pub(crate) fn begun(&mut self, now: Time, place: u32, number: u64) {
        let generation = self.sessions.places[place as usize].generation;
        self.repliers.begun.push_back(Begun { since: now, place, generation, number, tries: 0 });
    }

    /// A request is answered, so long after somebody answered it first; these said something else.
    pub(crate) fn judged(&mut self, now: Time, since: Time, liars: u64) {
        let (gap, old) = (now.since(since).nanos(), self.repliers.gap.nanos());
        // A running mean over some sixteen of them.
        self.repliers.gap = Span::from_nanos(old - old / 16 + gap / 16);
        for link in (0..self.links.len()).filter(|link| liars & (1 << link) != 0) {
            let link = &mut self.links[link];
            link.late_until = link.late_until.max(now.plus(LIED_FOR));
            self.repliers.stale = true;
        }
        while let Some(front) = self.repliers.begun.front().copied()
            && !self.waits_for_others(&front)
        {
            self.repliers.begun.pop_front();
        }
    }

    fn waits_for_others(&mut self, begun: &Begun) -> bool {
        let Some(place) = self.sessions.places.get_mut(begun.place as usize) else { return false };
        let session = place.session.as_mut().filter(|_| place.generation == begun.generation);
        session.is_some_and(|session| session.sent_entry(begun.number).is_some())
    }

    /// All are asked for a while.
    pub(crate) fn ask_all(&mut self, now: Time) {
        if self.may_lie() {
            self.repliers.all_until = now.plus(ALL_FOR);
            self.repliers.stale = true;
        }
    }

    /// Looks at what somebody answered and others did not.
    pub(crate) fn repliers_due(&mut self, now: Time) {
        if self.repliers.again_at.is_some_and(|at| at <= now) {
            self.repliers.stale = true;
        }
        let wait = self.repliers.wait();
        while let Some(begun) = self.repliers.begun.front().copied()
            && begun.since.plus(wait) <= now.plus(GRAIN)
        {
            self.repliers.begun.pop_front();
            self.doubt(now, begun);
        }
    }

    /// A request waits for others for too long: who is late?
    fn doubt(&mut self, now: Time, begun: Begun) {
        let (needed, wait) = (self.needed, self.repliers.wait());
        let place = self.sessions.places.get_mut(begun.place as usize);
        let place = place.filter(|place| place.generation == begun.generation);
        let Some(session) = place.and_then(|place| place.session.as_mut()) else { return };
        let Some(entry) = session.sent_entry(begun.number) else { return };
        let tries = begun.tries + 1;
        entry.votes.rests = usize::from(tries) > self.links.len();
        let (answered, lacks) = (entry.votes.decided(), entry.votes.lacks(needed));
        let last = self.links.iter().map(|link| link.late_until).max().unwrap_or_default();
        let mut owing = false;
        for (at, link) in self.links.iter_mut().enumerate() {
            let Some((mode, since)) = link.told.filter(|(mode, _)| *mode < AnswerMode::Silent) else {
                continue;
            };
            let owes_all = lacks && mode == AnswerMode::Full;
            if owes_all || answered & (1 << at) == 0 {
                owing = true;
                // Who was asked only since then has a while, too.
                if since.plus(wait) <= now.plus(GRAIN) && link.be_late(now, last) {
                    self.repliers.stale = true;
                }
            }
        }
        // They differ, or nobody does better than those that are late.
        if !owing || usize::from(tries) > self.links.len() {
            self.ask_all(now);
        }
        if usize::from(tries) <= self.links.len() {
            self.repliers.begun.push_back(Begun { since: now, tries, ..begun });
        }
    }

    /// A session's requests are sent again: what was looked at in vain before is looked at once more. Who is to answer may be somebody else by
    /// now, and lie.
    pub(crate) fn look_again(&mut self, now: Time, index: u32) {
        let Some(session) = self.sessions.at(index) else { return };
        for number in session.take_resting() {
            self.begun(now, index, number);
        }
    }

    /// Tells each member how to answer, where that is something else than it was told.
    pub(crate) fn appoint(&mut self, now: Time, out: &mut Effects) {
        if !std::mem::take(&mut self.repliers.stale) {
            return;
        }
        let (count, first) = (self.links.len(), self.config.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32);
        let turn = (first % count.max(1) as u64) as usize;
        let up = (0..count).map(|rank| (turn + rank) % count).filter(|link| self.links[*link].up().is_some());
        let mut ranked: Vec<usize> = up.collect();
        let late_until = |link: &usize| Some(self.links[*link].late_until).filter(|until| *until > now);
        ranked.sort_by_key(late_until);
        let enough = (self.needed + self.config.spare_repliers) as usize;
        let asked = if self.repliers.all_until > now { count } else { enough };
        let chances = ranked.iter().filter_map(late_until);
        self.repliers.again_at =
            chances.chain(Some(self.repliers.all_until).filter(|until| *until > now)).min();
        for (rank, link) in ranked.into_iter().enumerate() {
            let mode = match rank {
                0 => AnswerMode::Full,
                // Who puts answers together needs them all.
                _ if rank < asked && self.config.combiner.is_some() => AnswerMode::Full,
                _ if rank < asked => AnswerMode::Digests,
                _ => AnswerMode::Silent,
            };
            self.tell(now, link, mode, out);
        }
    }

    fn tell(&mut self, now: Time, index: usize, mode: AnswerMode, out: &mut Effects) {
        let link = &mut self.links[index];
        let before = link.told.map(|(mode, _)| mode);
        let Some(conn) = link.up().filter(|_| before != Some(mode)) else { return };
        let more = before.is_some_and(|before| mode < before);
        let since = link.told.map(|(_, since)| since).filter(|_| !more).unwrap_or(now);
        link.told = Some((mode, since));
        let frame = mode.frame();
        link.out_bytes += frame.len();
        out.push(Effect::Send { conn, frame });
        if more {
            self.joined(index);
        }
    }
}
