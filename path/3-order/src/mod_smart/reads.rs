//! The leader's heartbeat, and strong reads where nobody lies.
//!
//! A read is confirmed with the highest slot that was proposed or adopted in the leader's view: another replica may have decided that
//! before the leader does. A quorum that answers a heartbeat sent after the read arrived shows that no later view decided anything
//! before. With Byzantine faults no leader's word is enough: a client asks all, and each member waits for what it accepted itself
//! ([0020](../../../../docs/decisions/0020-reads-that-are-not-ordered.md)). [mod_smart L93-L99, L148]
//!
//! Tests: the common suite.

use super::{ModSmart, Phase};
use crate::mod_smart::message::ModSmartBody as Body;
use crate::{Effect, Effects};
use quorate_types::{ReplicaId, Slot, Time, planted};
use std::collections::BTreeMap;

/// Who asked the leader.
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
}

/// Reads that wait, and the rounds that confirm them.
#[derive(Debug, Default)]
pub(super) struct Reads {
    /// The last round that was sent.
    round: u64,
    /// The last round before the view began.
    began: u64,
    /// The last round that each member answered in this view.
    answered: BTreeMap<ReplicaId, u64>,
    /// At the leader.
    waiting: Vec<Waiting>,
    /// Elsewhere: the read, and since when it waits.
    asking: Vec<(u64, Time)>,
    /// The question that is out: its number, how many reads it is for.
    question: Option<(u64, usize)>,
    questions: u64,
}

impl Reads {
    pub(super) fn begin(&mut self, number: u64) {
        (self.questions, self.round) = (number, number);
    }
}

impl ModSmart {
    /// Says that it leads, to all. [mod_smart L59, L93]
    pub(super) fn beat(&mut self, out: &mut Effects) {
        if self.is_mine() && matches!(self.office.phase, Phase::Normal { .. }) {
            self.next_round(out);
        }
    }

    fn next_round(&mut self, out: &mut Effects) {
        self.reads.round += 1;
        let (decided, round) = (self.decided(), self.reads.round);
        self.tell_all(out, &Body::Alive { decided, round });
    }

    /// [mod_smart L59]
    pub(super) fn on_alive(&mut self, from: ReplicaId, decided: Slot, round: u64, out: &mut Effects) {
        if from != self.leader() {
            return;
        }
        self.heard_leader(from);
        self.fetching.hint(from, decided, self.decided());
        self.send(out, from, Body::AliveReply { decided: self.decided(), round }, None);
    }

    /// [mod_smart L94]
    pub(super) fn on_alive_reply(&mut self, from: ReplicaId, decided: Slot, round: u64, out: &mut Effects) {
        if !self.is_mine() || round > self.reads.round {
            return;
        }
        self.note_heard(from);
        self.note_decided(from, decided);
        self.fetching.hint(from, decided, self.decided());
        let answered = self.reads.answered.entry(from).or_insert(round);
        *answered = (*answered).max(round);
        self.confirm_reads(out);
    }

    /// The view begins: its leader asks whether it is still the present one. [mod_smart L99]
    pub(super) fn begin_rounds(&mut self, out: &mut Effects) {
        if self.leads() {
            self.reads.began = self.reads.round;
            self.next_round(out);
        }
    }

    /// Whether a quorum was in this view after it began here: nobody decided anything in a later one before.
    pub(super) fn is_confirmed(&self) -> bool {
        let Reads { began, round, answered, .. } = &self.reads;
        let others = answered.iter().filter(|(id, round)| self.is_member(**id) && *round > began).count();
        others + usize::from(round > began) >= self.members.trust.agreement() as usize
    }

    fn round_of_quorum(&self) -> u64 {
        let mut rounds: Vec<u64> = self
            .reads
            .answered
            .iter()
            .filter(|(id, _)| self.is_member(**id))
            .map(|(_, round)| *round)
            .collect();
        rounds.push(self.reads.round);
        rounds.sort_unstable_by(|one, next| next.cmp(one));
        rounds.get(self.members.trust.agreement() as usize - 1).copied().unwrap_or(0)
    }

    /// Whether the open slot may be decided elsewhere and end the membership: then others may decide what follows, of whom nobody is asked
    /// here. Whoever reads waits until that is over, and is asked again by the new members. [mod_smart L125]
    fn may_change_now(&self) -> bool {
        let slot = self.decided().next();
        let proposed = self.voting.tallies.get(&slot).and_then(|tally| tally.proposal.as_ref());
        let forced = match &self.office.phase {
            Phase::Normal { forced, .. } => forced.as_ref(),
            Phase::Syncing => None,
        };
        let taken = self.voting.open.batches.values().map(|(batch, _)| batch);
        let mut open = proposed.into_iter().chain(forced).map(|(_, batch)| batch).chain(taken);
        open.any(|batch| self.tenure_after(slot, batch).is_some())
    }

    /// [mod_smart L94-L95]
    fn confirm_reads(&mut self, out: &mut Effects) {
        if self.may_change_now() {
            return;
        }
        let round = self.round_of_quorum();
        let waiting = std::mem::take(&mut self.reads.waiting);
        for read in waiting {
            if read.round > round {
                self.reads.waiting.push(read);
                continue;
            }
            match read.asker {
                Asker::Here(read_number) => {
                    out.push(Effect::ReadConfirmed { read: read_number, slot: read.slot });
                }
                Asker::Member(to, number) => {
                    self.send(out, to, Body::ReadReply { read: number, slot: Some(read.slot) }, None);
                }
            }
        }
    }

    /// The highest slot that anybody may have decided. [mod_smart L95]
    fn read_bound(&self) -> Slot {
        let next = self.decided().next();
        let Phase::Normal { settled, .. } = &self.office.phase else { return next };
        let proposed = self.voting.tallies.get(&next).is_some_and(|tally| tally.proposal.is_some());
        let open = if proposed || self.voting.open.taken(self.office.view).is_some() {
            next
        } else {
            self.decided()
        };
        // What a checkpoint ahead of the log holds is decided, too.
        open.max(*settled).max(self.ledger.delivered())
    }

    fn wait_at_leader(&mut self, asker: Asker, out: &mut Effects) {
        let (slot, round) = (self.read_bound(), self.reads.round + 1);
        let under_way = self.reads.waiting.iter().any(|read| read.round == round);
        self.reads.waiting.push(Waiting { asker, slot, round });
        if !under_way {
            self.next_round(out);
            self.confirm_reads(out);
        }
    }

    /// The highest slot that this replica may have accepted, in any view, or knows as decided. What somebody honest decided before, a quorum
    /// accepted; who asks a quorum asks one of those who did, and do not lie. [mod_smart L148]
    fn accepted_to(&self) -> Slot {
        let locked = self.voting.open.lock.is_some() && !planted("read-at-once");
        let accepted = if locked { self.decided().next() } else { self.decided() };
        accepted.max(self.ledger.delivered())
    }

    /// [mod_smart L95-L97, L148]
    pub(super) fn on_read(&mut self, read: u64, out: &mut Effects) {
        if self.may_lie() {
            // Who does not vote may know nothing of what others accepted.
            let slot = self.accepted_to();
            return out.push(match self.votes() {
                true => Effect::ReadConfirmed { read, slot },
                false => Effect::ReadFailed { read },
            });
        }
        if self.leads() {
            return self.wait_at_leader(Asker::Here(read), out);
        }
        self.reads.asking.push((read, self.life.now));
        self.ask_leader(out);
    }

    /// One question at a time, for all reads that wait. [mod_smart L96]
    fn ask_leader(&mut self, out: &mut Effects) {
        let known = matches!(self.office.phase, Phase::Normal { .. }) && self.leader() != self.config.me;
        if !known || self.reads.question.is_some() || self.reads.asking.is_empty() {
            return;
        }
        self.reads.questions += 1;
        self.reads.question = Some((self.reads.questions, self.reads.asking.len()));
        let read = self.reads.questions;
        self.send(out, self.leader(), Body::Read { read }, None);
    }

    pub(super) fn on_read_question(&mut self, from: ReplicaId, read: u64, out: &mut Effects) {
        if self.may_lie() || !self.leads() {
            return self.send(out, from, Body::ReadReply { read, slot: None }, None);
        }
        self.wait_at_leader(Asker::Member(from, read), out);
    }

    /// [mod_smart L96]
    pub(super) fn on_read_reply(
        &mut self,
        from: ReplicaId,
        read: u64,
        slot: Option<Slot>,
        out: &mut Effects,
    ) {
        let Some((_, count)) = self.reads.question.filter(|(number, _)| *number == read) else { return };
        if from != self.leader() {
            return;
        }
        self.reads.question = None;
        let count = count.min(self.reads.asking.len());
        for (read, _) in self.reads.asking.drain(..count) {
            out.push(match slot {
                Some(slot) => Effect::ReadConfirmed { read, slot },
                None => Effect::ReadFailed { read },
            });
        }
        self.ask_leader(out);
    }

    /// Another view: nobody confirms what waited at its leader, or was asked of it. [mod_smart L97]
    pub(super) fn fail_reads(&mut self, out: &mut Effects) {
        self.reads.answered.clear();
        for waiting in std::mem::take(&mut self.reads.waiting) {
            if let Asker::Here(read) = waiting.asker {
                out.push(Effect::ReadFailed { read });
            }
        }
        if let Some((_, count)) = self.reads.question.take() {
            let count = count.min(self.reads.asking.len());
            for (read, _) in self.reads.asking.drain(..count) {
                out.push(Effect::ReadFailed { read });
            }
        }
    }

    /// [mod_smart L97-L98]
    pub(super) fn expire_reads(&mut self, out: &mut Effects) {
        let old = self
            .reads
            .asking
            .iter()
            .take_while(|(_, since)| self.life.now.since(*since) > self.config.timeout);
        let old = old.count();
        if old > 0 {
            self.reads.question = None;
            for (read, _) in self.reads.asking.drain(..old) {
                out.push(Effect::ReadFailed { read });
            }
        }
        self.ask_leader(out);
    }

    /// What the leader knows of the others.
    pub(super) fn member_status(&self) -> Vec<(ReplicaId, u64, bool)> {
        if !self.leads() {
            return Vec::new();
        }
        self.others().into_iter().map(|id| (id, 0, self.hears(id))).collect()
    }

    pub(super) fn there(&self) -> Vec<ReplicaId> {
        if !self.leads() {
            return Vec::new();
        }
        self.others().into_iter().filter(|id| self.hears(*id)).collect()
    }
}
