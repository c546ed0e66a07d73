//! Letters: what the service sends to this client's sessions without being asked.
//!
//! Each replica that is connected is told in which sessions the client listens, and how far it has their letters; it sends all later ones.
//! A letter counts once as many members sent the same as an answer needs: one where replicas only crash, f+1 where they may lie. Letters of
//! a session are passed on in the order of their numbers, none twice.
//!
//! A letter may be lost: it came while too few members were connected, and they have forgotten it. Once a later one counts, the client waits for
//! [`LetterLimits::patience`]; then it goes on, and says how many are missing. What one member makes the client keep is bounded: a copy that
//! does not fit does not count. So a member that lies can neither make up a letter nor hold up others for longer than that.
//!
//! Source: docs/decisions/0060-letters.md.
//! INV-CLIENT-12: a letter is passed on once, after all with smaller numbers, and only if f+1 members sent it.
//! Tests: letters/tests.rs, tests/repliers.rs.

use crate::contacts::{Contacts, MEMBERS_MAX};
use crate::effects::Effect;
use crate::sessions::Sessions;
use crate::step::{NEVER, Step};
use crate::votes::{KeptAnswers, keep};
use bytes::Bytes;
use quorate_types::{ConnId, SessionId, Span, Time};
use quorate_wire::{LISTENS_MAX, LetterFrame, Listen, listen_frame};
use std::collections::{BTreeMap, BTreeSet};

/// What a client with letters keeps, and how long it waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LetterLimits {
    /// Bytes of letters of each member that wait for others or for earlier letters.
    pub held_bytes_max: usize,
    /// How long a letter waits for those before it.
    pub patience: Span,
}

impl Default for LetterLimits {
    fn default() -> Self {
        Self { held_bytes_max: 4 << 20, patience: Span::from_secs(1) }
    }
}

/// What a kept copy counts beside its bytes.
const COPY_COST: usize = 64;

/// Equal copies of a letter.
#[derive(Debug)]
struct Copies {
    body: Bytes,
    /// The members that sent it, as bits by contact.
    members: u64,
}

/// The letters of one session.
#[derive(Debug, Default)]
struct Inbox {
    /// The number of the last letter that was passed on, or given up.
    last: u64,
    /// Copies by the number of their letter; nearly always they are all equal.
    waiting: BTreeMap<u64, Vec<Copies>>,
    /// The numbers of letters that count. A liar may make many others wait, so they are not searched for.
    counts: BTreeSet<u64>,
    /// Since when a letter that counts waits for an earlier one.
    gap_since: Option<Time>,
}

impl Inbox {
    /// Only copies of those that stay are kept, and `needed` equal ones count.
    fn leave(&mut self, staying: u64, needed: u32, held: &mut KeptAnswers) {
        for copies in self.waiting.values_mut().flatten() {
            give(held, &copies.body, copies.members & !staying);
            copies.members &= staying;
        }
        self.waiting.values_mut().for_each(|all| all.retain(|copies| copies.members != 0));
        self.waiting.retain(|_, all| !all.is_empty());
        let counts = |all: &[Copies]| all.iter().any(|copies| copies.members.count_ones() >= needed);
        let counting = self.waiting.iter().filter(|(_, all)| counts(all));
        self.counts = counting.map(|(number, _)| *number).collect();
    }

    /// Nothing of it is kept any more.
    fn give_back(all: &[Copies], held: &mut KeptAnswers) {
        all.iter().for_each(|copies| give(held, &copies.body, copies.members));
    }
}

/// All letters of a client.
#[derive(Debug)]
pub(crate) struct Letters {
    /// So many members must send the same.
    needed: u32,
    inboxes: BTreeMap<SessionId, Inbox>,
    held: KeptAnswers,
    /// By contact: the connection over which the member was told in which sessions the client listens.
    told: Vec<Option<ConnId>>,
    /// No inbox has to be looked at before.
    due: Time,
}

impl Letters {
    /// `needed`: how many members must send the same.
    pub(crate) fn new(needed: u32, limits: Option<LetterLimits>) -> Self {
        let max = limits.map_or(0, |limits| limits.held_bytes_max);
        let held = KeptAnswers::new(MEMBERS_MAX, max);
        Self { needed, inboxes: BTreeMap::new(), held, told: Vec::new(), due: NEVER }
    }

    pub(crate) const fn deadline(&self) -> Time {
        self.due
    }

    /// Tells members in which sessions the client listens: those on new connections all, the others those that were opened since.
    pub(crate) fn listen(&mut self, step: &mut Step<'_>, contacts: &mut Contacts, sessions: &mut Sessions) {
        let fresh = sessions.take_fresh();
        self.told.resize(contacts.len(), None);
        for contact in 0..contacts.len() {
            let conn = contacts.up(contact);
            let is_new = std::mem::replace(&mut self.told[contact], conn) != conn;
            if conn.is_none() || !is_new && fresh.is_empty() {
                continue;
            }
            let all = if is_new { sessions.open_ids() } else { fresh.clone() };
            let listens: Vec<Listen> = all.into_iter().map(|session| self.listens(session)).collect();
            for some in listens.chunks(LISTENS_MAX) {
                contacts.send(step, contact, listen_frame(some));
            }
        }
    }

    fn listens(&self, session: SessionId) -> Listen {
        Listen { session, after: self.inboxes.get(&session).map_or(0, |inbox| inbox.last) }
    }

    /// A member sent a letter. Returns whether it is of use.
    pub(crate) fn arrived(
        &mut self,
        step: &mut Step<'_>,
        sessions: &Sessions,
        from: usize,
        letter: &LetterFrame<'_>,
        payload: &Bytes,
    ) -> bool {
        if step.config.letters.is_none() || sessions.cell_of(letter.session).is_none() {
            return false;
        }
        if !self.inboxes.contains_key(&letter.session) {
            self.forget_ended(sessions);
        }
        let inbox = self.inboxes.entry(letter.session).or_default();
        if letter.number <= inbox.last
            || !keep_copy((inbox, &mut self.held), from, letter, payload, self.needed)
        {
            return false;
        }
        self.pass_on(step, letter.session);
        true
    }

    /// Drops the letters of sessions that are over.
    fn forget_ended(&mut self, sessions: &Sessions) {
        let held = &mut self.held;
        self.inboxes.retain(|session, inbox| {
            let lives = sessions.cell_of(*session).is_some();
            if !lives {
                inbox.waiting.values().for_each(|all| Inbox::give_back(all, held));
            }
            lives
        });
    }

    /// The members changed. What members sent that left counts no more. `stays`: by contact, whether it belongs to both memberships.
    pub(crate) fn members_changed(&mut self, step: &mut Step<'_>, needed: u32, stays: &[bool]) {
        let staying =
            (0..stays.len()).filter(|contact| stays[*contact]).fold(0, |bits, contact| bits | 1 << contact);
        self.needed = needed;
        for inbox in self.inboxes.values_mut() {
            inbox.leave(staying, needed, &mut self.held);
        }
        // Where fewer are needed now, something may count that did not before.
        let sessions: Vec<SessionId> = self.inboxes.keys().copied().collect();
        sessions.into_iter().for_each(|session| self.pass_on(step, session));
    }

    /// Passes on what counts and comes next.
    fn pass_on(&mut self, step: &mut Step<'_>, session: SessionId) {
        let Some(inbox) = self.inboxes.get_mut(&session) else { return };
        let needed = self.needed;
        while inbox.counts.first() == Some(&(inbox.last + 1)) {
            pass_next(step, session, (inbox, &mut self.held), needed);
        }
        let waits = !inbox.counts.is_empty();
        inbox.gap_since = if waits { inbox.gap_since.or(Some(step.now)) } else { None };
        if let (Some(since), Some(limits)) = (inbox.gap_since, step.config.letters) {
            self.due = self.due.min(since.plus(limits.patience));
        }
    }

    /// Gives up letters that others have waited for too long.
    pub(crate) fn due(&mut self, step: &mut Step<'_>) {
        let Some(limits) = step.config.letters else { return };
        let needed = self.needed;
        self.due = NEVER;
        let sessions: Vec<SessionId> = self.inboxes.keys().copied().collect();
        for session in sessions {
            let Some(inbox) = self.inboxes.get_mut(&session) else { continue };
            if inbox.gap_since.is_some_and(|since| since.plus(limits.patience) <= step.now) {
                inbox.gap_since = None;
                pass_next(step, session, (inbox, &mut self.held), needed);
            }
            self.pass_on(step, session);
        }
    }

    /// Checks INV-CLIENT-10 for letters.
    pub(crate) fn check(&self) {
        let all = self.inboxes.values().flat_map(|inbox| inbox.waiting.values()).flatten();
        let held: usize = all.map(|copies| cost(&copies.body) * copies.members.count_ones() as usize).sum();
        assert!(held == self.held.total(), "INV-CLIENT-10: what is kept of letters is counted");
    }
}

fn cost(body: &Bytes) -> usize {
    COPY_COST + body.len()
}

/// Copies of these members are not kept any more.
fn give(held: &mut KeptAnswers, body: &Bytes, members: u64) {
    let members = (0..MEMBERS_MAX).filter(|member| members & (1 << member) != 0);
    members.for_each(|member| held.give(member, cost(body)));
}

/// Keeps a member's copy of a letter. False if it sent that letter before, or there is no room.
fn keep_copy(
    (inbox, held): (&mut Inbox, &mut KeptAnswers),
    from: usize,
    letter: &LetterFrame<'_>,
    payload: &Bytes,
    needed: u32,
) -> bool {
    let bit = 1 << from;
    let known = inbox.waiting.get(&letter.number);
    if known.is_some_and(|all| all.iter().any(|copies| copies.members & bit != 0)) {
        return false;
    }
    if !held.take(from, COPY_COST + letter.body.len()) {
        return false;
    }
    let all = inbox.waiting.entry(letter.number).or_default();
    let members = match all.iter_mut().find(|copies| copies.body[..] == *letter.body) {
        Some(copies) => {
            copies.members |= bit;
            copies.members
        }
        None => {
            all.push(Copies { body: keep(letter.body, payload), members: bit });
            bit
        }
    };
    if members.count_ones() >= needed {
        inbox.counts.insert(letter.number);
    }
    true
}

/// Passes on the first letter that counts; those before it are given up.
fn pass_next(
    step: &mut Step<'_>,
    session: SessionId,
    (inbox, held): (&mut Inbox, &mut KeptAnswers),
    needed: u32,
) {
    let Some(number) = inbox.counts.pop_first() else { return };
    let later = inbox.waiting.split_off(&(number + 1));
    let these = std::mem::replace(&mut inbox.waiting, later);
    these.values().for_each(|all| Inbox::give_back(all, held));
    let counts = |copies: &&Copies| copies.members.count_ones() >= needed;
    let Some(copies) = these.get(&number).and_then(|all| all.iter().find(counts)) else { return };
    assert!(number > inbox.last, "INV-CLIENT-12: letters are passed on in order, each once");
    let missed = number - inbox.last - 1;
    inbox.last = number;
    step.out.push(Effect::Letter { session, number, missed, body: copies.body.clone() });
}

#[cfg(test)]
mod tests;
