//! Strong reads without a log entry (ReadIndex). docs/protocols/raft.md L66-L76.
//!
//! A leader that committed an entry of its own view knows everything decided so far. It notes the slot at which a read
//! arrives and begins a round of heartbeats; when a quorum has answered that round in its view, nobody else can have
//! decided anything before the read arrived. Reads that arrive while a round is out share the next one. A follower asks
//! the leader, one question at a time, for all reads that wait there. While a leader holds a lease (`leases`) no round is needed.
//!
//! Tests: tests/reads.rs; tests/chaos.rs compares every confirmed read with what was decided before it.

use super::{Raft, Role, reject, send};
use crate::raft::message::RaftMessage;
use crate::{Effect, Effects};
use quorate_types::{Reject, ReplicaId, Slot, Time, View, planted};

/// No member has more reads waiting at the leader: a correct one has one.
const REMOTE_READS_MAX: usize = 64;

/// Who waits for an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reader {
    /// The host, for its read with this number.
    Host(u64),
    /// A follower, for its question with this number.
    Member(ReplicaId, u64),
}

#[derive(Clone, Copy, Debug)]
struct LeaderRead {
    reader: Reader,
    /// The slots decided when it arrived; none while this leader can not know.
    slot: Option<Slot>,
}

/// Reads at a leader.
#[derive(Debug, Default)]
pub(super) struct LeaderReads {
    /// Covered by the round that is out.
    out: Vec<LeaderRead>,
    /// The round that must be answered for them; 0 when none is out.
    round: u64,
    /// They arrived later, and share the next round.
    waiting: Vec<LeaderRead>,
}

/// Reads elsewhere.
#[derive(Debug, Default)]
pub(super) struct FollowerReads {
    /// The question's number, so that a late answer is known as one.
    number: u64,
    asked: Vec<u64>,
    asked_due: Option<Time>,
    waiting: Vec<u64>,
    waiting_due: Option<Time>,
    /// Questions answered by leases.
    pub(super) leased: u64,
}

impl FollowerReads {
    /// Numbers questions from `number` on.
    pub(super) fn begin(&mut self, number: u64) {
        self.number = number;
    }
    pub(super) fn deadline(&self) -> Option<Time> {
        [self.asked_due, self.waiting_due].into_iter().flatten().min()
    }
}

fn fail(reads: &mut Vec<u64>, out: &mut Effects) {
    for read in reads.drain(..) {
        out.push(Effect::ReadFailed { read });
    }
}

impl Raft {
    pub(super) fn on_read(&mut self, read: u64, out: &mut Effects) {
        if let Role::Leader(_) = self.role {
            return self.accept_read(Reader::Host(read), out);
        }
        // [raft L72]
        let due = self.life.now.plus(self.config.election_min);
        self.reads.waiting.push(read);
        self.reads.waiting_due.get_or_insert(due);
        self.ask_leader(out);
    }

    /// [raft L66]
    fn accept_read(&mut self, reader: Reader, out: &mut Effects) {
        let slot = Slot::new(self.log.slots_at(self.commit));
        let Role::Leader(lead) = &mut self.role else { return };
        let known = self.commit >= lead.start || planted("read-before-own-commit");
        let slot = known.then_some(slot);
        lead.reads.waiting.push(LeaderRead { reader, slot });
        self.begin_round(out);
    }

    /// The leader now knows what is decided: reads that waited for that can begin. [raft L67]
    pub(super) fn begin_held_reads(&mut self, out: &mut Effects) {
        let slot = Slot::new(self.log.slots_at(self.commit));
        let Role::Leader(lead) = &mut self.role else { return };
        for read in &mut lead.reads.waiting {
            read.slot.get_or_insert(slot);
        }
        self.begin_round(out);
    }

    /// Begins a round for all reads that wait, unless one is out, or none is needed. [raft L68, L134]
    fn begin_round(&mut self, out: &mut Effects) {
        let leased = self.holds_lease();
        let Role::Leader(lead) = &mut self.role else { return };
        let held = self.commit < lead.start && !planted("read-before-own-commit");
        if held || lead.reads.waiting.is_empty() {
            return;
        }
        if leased {
            let reads = std::mem::take(&mut lead.reads.waiting);
            self.reads.leased += reads.len() as u64;
            return self.answer_reads(reads, out);
        }
        if lead.reads.round != 0 {
            return;
        }
        lead.round += 1;
        lead.reads.round = lead.round;
        std::mem::swap(&mut lead.reads.out, &mut lead.reads.waiting);
        self.note_round();
        self.heartbeat(out);
        // Where this replica alone is a quorum nobody else answers.
        self.confirm_reads(out);
    }

    /// Answers the reads of a round that a quorum answered, and begins the next. [raft L69-L71]
    pub(super) fn confirm_reads(&mut self, out: &mut Effects) {
        let Role::Leader(lead) = &self.role else { return };
        let (me, round) = (self.config.me, lead.reads.round);
        let answered = |id| id == me || lead.peers.iter().any(|peer| peer.id == id && peer.round >= round);
        if round == 0 || (!self.has_quorum(answered) && !planted("read-not-confirmed")) {
            return;
        }
        let Role::Leader(lead) = &mut self.role else { return };
        lead.reads.round = 0;
        let reads = std::mem::take(&mut lead.reads.out);
        self.answer_reads(reads, out);
        self.begin_round(out);
    }

    /// These reads may run once their slot is executed. [raft L69-L70]
    fn answer_reads(&mut self, reads: Vec<LeaderRead>, out: &mut Effects) {
        for LeaderRead { reader, slot } in reads {
            assert!(slot.is_some(), "INV-RAFT-14: a leader confirms reads after a commit of its own view");
            let slot = slot.unwrap_or_default();
            match reader {
                Reader::Host(read) => out.push(Effect::ReadConfirmed { read, slot }),
                Reader::Member(to, read) => {
                    self.tell_commit(Some(to), out);
                    let slot = Some(slot.number());
                    send(out, to, RaftMessage::ReadIndexReply { view: self.term.view(), read, slot }, None);
                }
            }
        }
    }

    /// Reads at a leader that is none any more.
    pub(super) fn fail_leader_reads(&mut self, reads: LeaderReads, out: &mut Effects) {
        for LeaderRead { reader, .. } in reads.out.into_iter().chain(reads.waiting) {
            match reader {
                Reader::Host(read) => out.push(Effect::ReadFailed { read }),
                Reader::Member(to, read) => {
                    // With a vote for its successor the leader enters that view before it leaves its office.
                    let reply = RaftMessage::ReadIndexReply { view: self.term.view(), read, slot: None };
                    send(out, to, reply, self.view_pending());
                }
            }
        }
    }

    /// Reads that waited for a leader find one here.
    pub(super) fn adopt_waiting_reads(&mut self, out: &mut Effects) {
        self.reads.waiting_due = None;
        for read in std::mem::take(&mut self.reads.waiting) {
            self.accept_read(Reader::Host(read), out);
        }
    }

    /// The leader that was asked is not the leader any more. [raft L75]
    pub(super) fn fail_asked_reads(&mut self, out: &mut Effects) {
        self.reads.asked_due = None;
        fail(&mut self.reads.asked, out);
    }

    /// Sends one question for all reads that wait, if a leader is known and no question is open. [raft L73]
    pub(super) fn ask_leader(&mut self, out: &mut Effects) {
        let Some(leader) = self.term.leader().filter(|leader| *leader != self.config.me) else { return };
        if self.reads.waiting.is_empty() || self.reads.asked_due.is_some() {
            return;
        }
        std::mem::swap(&mut self.reads.asked, &mut self.reads.waiting);
        self.reads.asked_due = Some(self.life.now.plus(self.config.election_min));
        self.reads.waiting_due = None;
        self.reads.number = self.reads.number.wrapping_add(1);
        let message = RaftMessage::ReadIndex { view: self.term.view(), read: self.reads.number };
        send(out, leader, message, self.view_pending());
    }

    /// [raft L76]
    pub(super) fn expire_reads(&mut self, out: &mut Effects) {
        if self.reads.asked_due.is_some_and(|due| self.life.now >= due) {
            self.fail_asked_reads(out);
            self.ask_leader(out);
        }
        if self.reads.waiting_due.is_some_and(|due| self.life.now >= due) {
            self.reads.waiting_due = None;
            fail(&mut self.reads.waiting, out);
        }
    }

    pub(super) fn on_read_index(&mut self, from: ReplicaId, view: View, read: u64, out: &mut Effects) {
        let reader = Reader::Member(from, read);
        if let Role::Leader(lead) = &self.role
            && view == self.term.view()
        {
            let all = lead.reads.out.iter().chain(&lead.reads.waiting);
            let of_member = all.filter(|read| matches!(read.reader, Reader::Member(id, _) if id == from));
            let open: Vec<_> = of_member.map(|read| read.reader).take(REMOTE_READS_MAX).collect();
            if open.len() == REMOTE_READS_MAX {
                return reject(out, from, Reject::NotAllowed("raft: so many reads at once"));
            }
            if !open.contains(&reader) {
                self.accept_read(reader, out);
            }
            return;
        }
        send(
            out,
            from,
            RaftMessage::ReadIndexReply { view: self.term.view(), read, slot: None },
            self.view_pending(),
        );
    }

    /// [raft L74]
    pub(super) fn on_read_index_reply(
        &mut self,
        from: ReplicaId,
        view: View,
        read: u64,
        slot: Option<u64>,
        out: &mut Effects,
    ) {
        let open =
            self.reads.asked_due.is_some() && self.reads.number == read && self.term.leader() == Some(from);
        if !open {
            return;
        }
        match slot {
            Some(slot) if view == self.term.view() => {
                self.reads.asked_due = None;
                for read in self.reads.asked.drain(..) {
                    out.push(Effect::ReadConfirmed { read, slot: Slot::new(slot) });
                }
            }
            Some(_) => return,
            None => self.fail_asked_reads(out),
        }
        self.ask_leader(out);
    }
}
