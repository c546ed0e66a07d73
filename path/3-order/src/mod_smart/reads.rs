//! The leader's heartbeat, and strong reads where no replica lies.
//!
//! A read is confirmed with the highest slot that was proposed or adopted in the leader's view, since another replica may have decided that
//! slot before the leader. If a quorum answers a heartbeat that was sent after the read arrived, no later view had decided anything before
//! that. With Byzantine faults no leader's word is enough: a client asks all members, and each waits for what it accepted itself
//! ([0020](../../../../docs/decisions/0020-reads-that-are-not-ordered.md)). [mod_smart L93-L99, L148]
//!
//! Tests: tests/parts.rs, the common suite.

use super::core::Core;
use super::normal::Voting;
use super::office::Phase;
use crate::mod_smart::message::ModSmartBody as Body;
use crate::{Effect, Effects};
use quorate_types::{ReplicaId, Slot, Time, planted};
use std::collections::BTreeMap;

/// Where a read at the leader comes from.
#[derive(Clone, Copy, Debug)]
enum Asker {
    Here(u64),
    Member(ReplicaId, u64),
}

#[derive(Clone, Copy, Debug)]
struct Waiting {
    asker: Asker,
    slot: Slot,
    /// The first round that was sent after the read arrived.
    round: u64,
    since: Time,
}

/// Reads that wait, and the rounds that confirm them.
#[derive(Debug, Default)]
pub(super) struct Reads {
    /// The round that was sent last.
    round: u64,
    /// The last round before the view began.
    began: u64,
    /// When the view began at its leader.
    began_at: Time,
    /// The last round that each member answered in this view.
    answered: BTreeMap<ReplicaId, u64>,
    /// Reads that wait at the leader.
    waiting: Vec<Waiting>,
    /// Reads that wait at another replica, and since when.
    asking: Vec<(u64, Time)>,
    /// The question to the leader that is not answered yet: its number, and for how many reads it is.
    question: Option<(u64, usize)>,
    questions: u64,
}

/// What decides for which slots a read must wait.
#[derive(Clone, Copy)]
pub(super) struct Look<'a> {
    pub(super) core: &'a Core,
    pub(super) voting: &'a Voting,
}

impl Look<'_> {
    /// Whether the open slot may be decided elsewhere and end the membership, or the small quorums known here. Then members that are not asked
    /// here may decide later slots. So a reader waits until that is over, and the new members are asked. [mod_smart L125, visigoth L49]
    fn may_change_now(&self) -> bool {
        let slot = self.core.decided().next();
        let proposed = self.voting.tallies.get(&slot).and_then(|tally| tally.proposal.as_ref());
        let forced = match self.core.office.phase() {
            Phase::Normal { forced, .. } => forced.as_ref(),
            Phase::Syncing => None,
        };
        let taken = self.voting.open.batches.values().map(|(batch, _)| batch);
        let mut open = proposed.into_iter().chain(forced).map(|(_, batch)| batch).chain(taken);
        open.any(|batch| {
            self.core.members.tenure_after(slot, batch).is_some() || self.core.says_who_counts(batch)
        })
    }

    /// The highest slot that any replica may have decided. [mod_smart L95]
    fn read_bound(&self) -> Slot {
        let next = self.core.decided().next();
        let Phase::Normal { settled, .. } = self.core.office.phase() else { return next };
        let proposed = self.voting.tallies.get(&next).is_some_and(|tally| tally.proposal.is_some());
        let open = if proposed || self.voting.open.taken(self.core.office.view()).is_some() {
            next
        } else {
            self.core.decided()
        };
        // What a checkpoint ahead of the log holds is decided, too.
        open.max(*settled).max(self.core.ledger.delivered())
    }

    /// The highest slot that this replica may have accepted, in any view, or knows to be decided. What an honest replica decided earlier, a
    /// quorum accepted; a client that asks a quorum reaches one of those that accepted it and do not lie. [mod_smart L148]
    fn accepted_to(&self) -> Slot {
        let locked = self.voting.open.lock.is_some() && !planted("read-at-once");
        let accepted = if locked { self.core.decided().next() } else { self.core.decided() };
        accepted.max(self.core.ledger.delivered())
    }
}

impl Reads {
    pub(super) fn begin(&mut self, number: u64) {
        (self.questions, self.round) = (number, number);
    }

    /// Sends a heartbeat to all. [mod_smart L59, L93]
    pub(super) fn beat(&mut self, core: &Core, out: &mut Effects) {
        if core.is_mine() && core.has_begun() {
            self.next_round(core, out);
        }
    }

    /// Sends the last heartbeat once more. [mod_smart L157]
    pub(super) fn beat_again(&self, core: &Core, out: &mut Effects) {
        if core.is_mine() && core.has_begun() {
            self.tell_round(core, out);
        }
    }

    fn next_round(&mut self, core: &Core, out: &mut Effects) {
        self.round += 1;
        self.tell_round(core, out);
    }

    fn tell_round(&self, core: &Core, out: &mut Effects) {
        let (decided, round) = (core.decided(), self.round);
        core.tell_all(out, &Body::Alive { decided, round });
    }

    /// The round that was sent last; an answer to a later round is wrong.
    pub(super) fn round(&self) -> u64 {
        self.round
    }

    /// A member answered a round of this view. [mod_smart L94]
    pub(super) fn answered(&mut self, from: ReplicaId, round: u64, look: Look<'_>, out: &mut Effects) {
        let answered = self.answered.entry(from).or_insert(round);
        *answered = (*answered).max(round);
        self.confirm(look, out);
    }

    /// The view begins; its leader asks whether the view is still the present one. [mod_smart L99]
    pub(super) fn begin_rounds(&mut self, core: &Core, out: &mut Effects) {
        if core.leads() {
            (self.began, self.began_at) = (self.round, core.now());
            self.next_round(core, out);
        }
    }

    /// The last round that a member answered in this view; the leader answers itself.
    fn round_of(&self, id: ReplicaId, core: &Core) -> Option<u64> {
        if id == core.config.me { Some(self.round) } else { self.answered.get(&id).copied() }
    }

    /// The members that answered this round, or a later one.
    fn who_answered(&self, round: u64, core: &Core) -> impl Iterator<Item = ReplicaId> {
        let voters = core.members.voters().iter().copied();
        voters.filter(move |id| self.round_of(*id, core).is_some_and(|last| last >= round))
    }

    /// Whether a quorum was in this view after it began here. Then no later view had decided anything before that.
    pub(super) fn is_confirmed(&self, core: &Core) -> bool {
        let has = |id: ReplicaId| {
            core.is_member(id) && self.round_of(id, core).is_some_and(|round| round > self.began)
        };
        let others = self.answered.iter().filter(|(id, round)| **round > self.began && core.is_member(**id));
        let own = usize::from(core.votes() && self.round > self.began);
        core.quorums().hold(own + others.count(), has)
    }

    /// When the first round of the view was sent.
    pub(super) fn began_at(&self) -> Time {
        self.began_at
    }

    /// Who was in this view after it began here.
    pub(super) fn first_supporters(&self, core: &Core) -> Vec<ReplicaId> {
        self.who_answered(self.began + 1, core).collect()
    }

    /// The last round that a quorum answered, the leader among it.
    fn round_of_quorum(&self, core: &Core) -> u64 {
        core.quorums().reach(core.members.voters(), |id| self.round_of(id, core))
    }

    /// Since when the read waits that waits longest at the leader.
    pub(super) fn waits_since(&self) -> Option<Time> {
        // In the order of their rounds.
        self.waiting.first().map(|read| read.since)
    }

    /// Who answered a round for the read that waits longest.
    pub(super) fn supporters(&self, core: &Core) -> Vec<ReplicaId> {
        self.waiting.first().map_or_else(Vec::new, |read| self.who_answered(read.round, core).collect())
    }

    /// [mod_smart L94-L95]
    pub(super) fn confirm(&mut self, look: Look<'_>, out: &mut Effects) {
        if look.may_change_now() {
            return;
        }
        let core = look.core;
        let round = self.round_of_quorum(core);
        let waiting = std::mem::take(&mut self.waiting);
        for read in waiting {
            if read.round > round {
                self.waiting.push(read);
                continue;
            }
            match read.asker {
                Asker::Here(read_number) => {
                    out.push(Effect::ReadConfirmed { read: read_number, slot: read.slot });
                }
                Asker::Member(to, number) => {
                    core.send(out, to, Body::ReadReply { read: number, slot: Some(read.slot) }, None);
                }
            }
        }
    }

    fn wait_at_leader(&mut self, asker: Asker, look: Look<'_>, out: &mut Effects) {
        let (slot, round) = (look.read_bound(), self.round + 1);
        let under_way = self.waiting.iter().any(|read| read.round == round);
        self.waiting.push(Waiting { asker, slot, round, since: look.core.now() });
        if !under_way {
            self.next_round(look.core, out);
            self.confirm(look, out);
        }
    }

    /// [mod_smart L95-L97, L148]
    pub(super) fn on_read(&mut self, read: u64, look: Look<'_>, out: &mut Effects) {
        let core = look.core;
        if core.may_lie() {
            // A replica that does not vote may know nothing of what others accepted.
            let slot = look.accepted_to();
            return out.push(match core.votes() {
                true => Effect::ReadConfirmed { read, slot },
                false => Effect::ReadFailed { read },
            });
        }
        if core.leads() {
            return self.wait_at_leader(Asker::Here(read), look, out);
        }
        self.asking.push((read, core.now()));
        self.ask_leader(core, out);
    }

    /// Asks the leader one question at a time, for all reads that wait. [mod_smart L96]
    fn ask_leader(&mut self, core: &Core, out: &mut Effects) {
        let known = core.has_begun() && !core.is_leader();
        if !known || self.question.is_some() || self.asking.is_empty() {
            return;
        }
        self.questions += 1;
        self.question = Some((self.questions, self.asking.len()));
        let read = self.questions;
        core.send(out, core.leader(), Body::Read { read }, None);
    }

    pub(super) fn on_question(&mut self, from: ReplicaId, read: u64, look: Look<'_>, out: &mut Effects) {
        let core = look.core;
        if core.may_lie() || !core.leads() {
            return core.send(out, from, Body::ReadReply { read, slot: None }, None);
        }
        self.wait_at_leader(Asker::Member(from, read), look, out);
    }

    /// [mod_smart L96]
    pub(super) fn on_reply(
        &mut self,
        from: ReplicaId,
        read: u64,
        slot: Option<Slot>,
        core: &Core,
        out: &mut Effects,
    ) {
        let Some((_, count)) = self.question.filter(|(number, _)| *number == read) else { return };
        if from != core.leader() {
            return;
        }
        self.question = None;
        let count = count.min(self.asking.len());
        for (read, _) in self.asking.drain(..count) {
            out.push(match slot {
                Some(slot) => Effect::ReadConfirmed { read, slot },
                None => Effect::ReadFailed { read },
            });
        }
        self.ask_leader(core, out);
    }

    /// Another view was entered: reads that wait at the leader, or for its answer, fail. [mod_smart L97]
    pub(super) fn fail(&mut self, out: &mut Effects) {
        self.answered.clear();
        for waiting in std::mem::take(&mut self.waiting) {
            if let Asker::Here(read) = waiting.asker {
                out.push(Effect::ReadFailed { read });
            }
        }
        if let Some((_, count)) = self.question.take() {
            let count = count.min(self.asking.len());
            for (read, _) in self.asking.drain(..count) {
                out.push(Effect::ReadFailed { read });
            }
        }
    }

    /// [mod_smart L97-L98]
    pub(super) fn expire(&mut self, core: &Core, out: &mut Effects) {
        let late = |since: &Time| core.now().since(*since) > core.config.timeout;
        let old = self.asking.iter().take_while(|(_, since)| late(since)).count();
        if old > 0 {
            self.question = None;
            for (read, _) in self.asking.drain(..old) {
                out.push(Effect::ReadFailed { read });
            }
        }
        self.ask_leader(core, out);
    }
}
