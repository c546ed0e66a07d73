//! Which members answer, where f+1 equal answers are needed: f+1 members, one of them with the whole answer and the others with digests.
//! All others are silent, and have the answers ready.
//!
//! Every member executes every request, so any member can replace any other. A member is told on each connection what to send, and again
//! when that changes ([`AnswerMode`]). A member that is to send more than before is sent everything under way again; it answers at once
//! what it executed while it was silent.
//!
//! - A member that is not connected is no replier.
//! - Once one replier answered a request, the others have a while: several times what they usually need, and at least [`WAIT_MIN`]. A
//!   replier that has not answered by then is late. Others answer in its place until it gets another chance, which comes later the more
//!   often it is late. So in the end the nearest members answer, wherever replicas stand.
//! - When repliers differ, all are asked. A member that contradicted f+1 others is late for a long time.
//! - Where too few members are never late, those answer whose last chance is the longest ago. If that does not help, all are asked, and the
//!   request is not looked at again before it is sent again.
//!
//! The order of members differs from client to client, so that all members have the same work.
//!
//! Tests: repliers/tests.rs, tests/repliers.rs, tests/liars.rs.

use crate::contacts::Contacts;
use crate::sessions::Sessions;
use crate::step::Step;
use quorate_types::{Span, Time};
use quorate_wire::AnswerMode;
use std::collections::VecDeque;

/// After the first answer the others have at least this long.
const WAIT_MIN: Span = Span::from_millis(50);
/// They have at most this long.
const WAIT_MAX: Span = Span::from_millis(500);
/// They have this many times as long as they usually need.
const WAIT_TIMES: u64 = 16;
/// A late member is no replier for so long, and twice as long each time it is late again.
const LATE_FOR: Span = Span::from_secs(1);
const LATE_DOUBLINGS: u32 = 6;
/// A member that lied is no replier for this long.
const LIED_FOR: Span = Span::from_secs(60);
/// When answers differ, or none come, all members are asked for this long.
const ALL_FOR: Span = Span::from_secs(10);
/// Times that are no further apart than this are handled together.
const GRAIN: Span = Span::from_millis(1);

/// A request that one member answered, and not enough others yet.
#[derive(Clone, Copy, Debug)]
struct Begun {
    since: Time,
    cell: u32,
    generation: u32,
    number: u64,
    /// How often it was looked at in vain.
    tries: u8,
}

/// What is known of one member.
#[derive(Clone, Debug, Default)]
struct Replier {
    /// How it was told to answer on this connection, and since when it answers in this way.
    told: Option<(AnswerMode, Time)>,
    /// Until then others answer in its place.
    late_until: Time,
    /// How often it was late lately, and when it was late last.
    lates: (u32, Time),
}

impl Replier {
    /// Others answer in its place for a while. `last`: until when any member is late, since members that were late longer ago come first.
    /// Returns whether this is new.
    fn be_late(&mut self, now: Time, last: Time) -> bool {
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
}

/// Which members answer.
#[derive(Debug)]
pub(super) struct Repliers {
    /// This many equal answers are needed.
    needed: u32,
    /// By contact.
    members: Vec<Replier>,
    /// Requests in the order in which they got their first answer.
    begun: VecDeque<Begun>,
    /// How long the others usually need after the first answer.
    gap: Span,
    /// Until then all members are asked.
    all_until: Time,
    /// Whether the choice must be made again.
    stale: bool,
    /// When a late member gets another chance.
    again_at: Option<Time>,
}

impl Repliers {
    /// For this many members, of which `needed` must say the same.
    pub(super) fn new(members: usize, needed: u32) -> Self {
        Self {
            needed,
            members: vec![Replier::default(); members],
            begun: VecDeque::new(),
            gap: Span::ZERO,
            all_until: Time::ZERO,
            stale: false,
            again_at: None,
        }
    }

    /// The members changed; `stays`: by contact, whether its member belongs to those before and now. The choice is made anew.
    pub(super) fn follow(&mut self, stays: &[bool], needed: u32) {
        self.needed = needed;
        self.members.resize(stays.len(), Replier::default());
        for (member, _) in self.members.iter_mut().zip(stays).filter(|(_, stays)| !**stays) {
            *member = Replier::default();
        }
        self.begun.clear();
        self.stale = true;
    }

    /// How long the others have after the first answer.
    fn wait(&self) -> Span {
        self.gap.times(WAIT_TIMES).clamp(WAIT_MIN, WAIT_MAX)
    }

    /// When to look at the requests again.
    pub(super) fn deadline(&self) -> Option<Time> {
        let begun = self.begun.front().map(|begun| begun.since.plus(self.wait()));
        begun.into_iter().chain(self.again_at).min()
    }

    /// A member is connected.
    pub(super) const fn connected(&mut self) {
        self.stale = true;
    }

    /// A member is not connected any more.
    pub(super) fn lost(&mut self, contact: usize) {
        self.members[contact].told = None;
        self.stale = true;
    }

    /// A request got its first answer.
    pub(super) fn begun(&mut self, now: Time, sessions: &Sessions, cell: u32, number: u64) {
        let generation = sessions.generation(cell);
        self.begun.push_back(Begun { since: now, cell, generation, number, tries: 0 });
    }

    /// A request is answered, this long after its first answer. These members said something else.
    pub(super) fn judged(&mut self, now: Time, sessions: &mut Sessions, since: Time, liars: u64) {
        let (gap, old) = (now.since(since).nanos(), self.gap.nanos());
        // A running mean over some sixteen of them.
        self.gap = Span::from_nanos(old - old / 16 + gap / 16);
        let liars = self.members.iter_mut().enumerate().filter(|(contact, _)| liars & (1 << contact) != 0);
        for (_, member) in liars {
            member.late_until = member.late_until.max(now.plus(LIED_FOR));
            self.stale = true;
        }
        while let Some(front) = self.begun.front() {
            let session = sessions.still_at(front.cell, front.generation);
            if session.is_some_and(|session| session.sent_entry(front.number).is_some()) {
                break;
            }
            self.begun.pop_front();
        }
    }

    /// Asks all members for a while.
    pub(super) fn ask_all(&mut self, now: Time) {
        self.all_until = now.plus(ALL_FOR);
        self.stale = true;
    }

    /// Looks at requests that one member answered and others did not.
    pub(super) fn due(&mut self, now: Time, sessions: &mut Sessions) {
        if self.again_at.is_some_and(|at| at <= now) {
            self.stale = true;
        }
        let wait = self.wait();
        while let Some(begun) = self.begun.front().copied()
            && begun.since.plus(wait) <= now.plus(GRAIN)
        {
            self.begun.pop_front();
            self.doubt(now, sessions, begun);
        }
    }

    /// A request waits for others for too long: finds which members are late.
    fn doubt(&mut self, now: Time, sessions: &mut Sessions, begun: Begun) {
        let (wait, count) = (self.wait(), self.members.len());
        let Some(session) = sessions.still_at(begun.cell, begun.generation) else { return };
        let Some(entry) = session.sent_entry(begun.number) else { return };
        let tries = begun.tries + 1;
        entry.votes.rests = usize::from(tries) > count;
        let (answered, lacks) = (entry.votes.decided(), entry.votes.lacks(self.needed));
        let last = self.members.iter().map(|member| member.late_until).max().unwrap_or_default();
        let mut owing = false;
        for (at, member) in self.members.iter_mut().enumerate() {
            let Some((mode, since)) = member.told.filter(|(mode, _)| *mode < AnswerMode::Silent) else {
                continue;
            };
            let owes_all = lacks && mode == AnswerMode::Full;
            if owes_all || answered & (1 << at) == 0 {
                owing = true;
                // A replica that was asked only since then has a while, too.
                if since.plus(wait) <= now.plus(GRAIN) && member.be_late(now, last) {
                    self.stale = true;
                }
            }
        }
        // They differ, or nobody does better than those that are late.
        if !owing || usize::from(tries) > count {
            self.ask_all(now);
        }
        if usize::from(tries) <= count {
            self.begun.push_back(Begun { since: now, tries, ..begun });
        }
    }

    /// A session's requests are sent again. All members are asked, and requests that were looked at in vain are looked at again: a liar may
    /// be among the present repliers.
    pub(super) fn look_again(&mut self, now: Time, sessions: &mut Sessions, cell: u32) {
        self.ask_all(now);
        let Some(session) = sessions.at(cell) else { return };
        for number in session.take_resting() {
            self.begun(now, sessions, cell, number);
        }
    }

    /// Tells each member how to answer, if that changed. Returns the members, as bits, that answer more than before; they must get
    /// everything under way again.
    pub(super) fn appoint(&mut self, step: &mut Step<'_>, contacts: &mut Contacts) -> u64 {
        if !std::mem::take(&mut self.stale) {
            return 0;
        }
        let (count, first) = (self.members.len(), step.config.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32);
        let turn = (first % count.max(1) as u64) as usize;
        let up =
            (0..count).map(|rank| (turn + rank) % count).filter(|contact| contacts.up(*contact).is_some());
        let mut ranked: Vec<usize> = up.collect();
        let now = step.now;
        let late_until =
            |contact: &usize| Some(self.members[*contact].late_until).filter(|until| *until > now);
        ranked.sort_by_key(late_until);
        let enough = (self.needed + step.config.spare_repliers) as usize;
        let asked = if self.all_until > now { count } else { enough };
        let chances = ranked.iter().filter_map(late_until);
        self.again_at = chances.chain(Some(self.all_until).filter(|until| *until > now)).min();
        let mut more = 0;
        for (rank, contact) in ranked.into_iter().enumerate() {
            let mode = match rank {
                0 => AnswerMode::Full,
                // A client that combines answers needs all of them.
                _ if rank < asked && step.config.combiner.is_some() => AnswerMode::Full,
                _ if rank < asked || step.config.tells_replies => AnswerMode::Digests,
                _ => AnswerMode::Silent,
            };
            if self.tell(step, contacts, contact, mode) {
                more |= 1 << contact;
            }
        }
        more
    }

    /// Returns whether the member answers more than before.
    fn tell(
        &mut self,
        step: &mut Step<'_>,
        contacts: &mut Contacts,
        contact: usize,
        mode: AnswerMode,
    ) -> bool {
        let member = &mut self.members[contact];
        let before = member.told.map(|(mode, _)| mode);
        if before == Some(mode) {
            return false;
        }
        let more = before.is_some_and(|before| mode < before);
        let since = member.told.map(|(_, since)| since).filter(|_| !more).unwrap_or(step.now);
        member.told = Some((mode, since));
        contacts.send(step, contact, mode.frame());
        more
    }
}

#[cfg(test)]
mod tests;
