//! Strong reads at a leader, without a log entry (ReadIndex). docs/protocols/raft.md L66-L71.
//!
//! A leader that committed an entry of its own view knows everything decided so far. It notes the slot at which a read arrives and begins a
//! round of heartbeats. When a quorum has answered that round in its view, no other leader can have decided anything before the read
//! arrived. Reads that arrive while a round is under way share the next one. A follower asks for all reads that wait there (`asking`).
//! While a leader holds a lease (`leases`) no round is needed.
//!
//! Tests: tests/reads.rs; tests/chaos.rs compares every confirmed read with what was decided before it.

use super::{Leading, Scene};
use crate::raft::message::RaftMessage;
use crate::raft::store::Store;
use crate::raft::{RaftConfig, reject, send};
use crate::{Effect, Effects};
use quorate_types::{Reject, ReplicaId, Slot, Time, planted};

/// At most this many reads of one member wait at the leader; a correct member has one.
const REMOTE_READS_MAX: usize = 64;

/// Where a read comes from.
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
    /// The slots decided when the read arrived; none while this leader can not know that.
    slot: Option<Slot>,
}

/// Reads at a leader.
#[derive(Debug, Default)]
pub(super) struct LeaderReads {
    /// Reads that the present round confirms.
    out: Vec<LeaderRead>,
    /// The present round; 0 when there is none.
    round: u64,
    /// Reads that arrived later and share the next round.
    waiting: Vec<LeaderRead>,
}

impl LeaderReads {
    /// This replica does not lead any more, so its reads fail.
    pub(super) fn fail(self, store: &Store, out: &mut Effects) {
        for LeaderRead { reader, .. } in self.out.into_iter().chain(self.waiting) {
            match reader {
                Reader::Host(read) => out.push(Effect::ReadFailed { read }),
                Reader::Member(to, read) => {
                    // With a vote for its successor the leader enters that view before it leaves its office.
                    let reply = RaftMessage::ReadIndexReply { view: store.view(), read, slot: None };
                    send(out, to, reply, store.view_pending());
                }
            }
        }
    }

    /// The reads of this member that wait.
    fn of_member(&self, member: ReplicaId) -> Vec<Reader> {
        let all = self.out.iter().chain(&self.waiting);
        let of_member = all.filter(|read| matches!(read.reader, Reader::Member(id, _) if id == member));
        of_member.map(|read| read.reader).take(REMOTE_READS_MAX).collect()
    }
}

impl Leading {
    /// The host reads here.
    pub(in crate::raft) fn read(&mut self, read: u64, scene: &mut Scene<'_>) {
        self.accept_read(Reader::Host(read), scene);
    }

    /// A follower asks for its reads.
    pub(in crate::raft) fn on_read_index(&mut self, from: ReplicaId, read: u64, scene: &mut Scene<'_>) {
        let (reader, open) = (Reader::Member(from, read), self.reads.of_member(from));
        if open.len() == REMOTE_READS_MAX {
            return reject(scene.out, from, Reject::NotAllowed("raft: so many reads at once"));
        }
        if !open.contains(&reader) {
            self.accept_read(reader, scene);
        }
    }

    /// [raft L66]
    fn accept_read(&mut self, reader: Reader, scene: &mut Scene<'_>) {
        let known = scene.store.commit() >= self.start || planted("read-before-own-commit");
        let slot = known.then(|| scene.store.committed_slot());
        self.reads.waiting.push(LeaderRead { reader, slot });
        self.begin_round(scene);
    }

    /// The leader now knows what is decided: reads that waited for that can begin. [raft L67]
    pub(super) fn begin_held_reads(&mut self, scene: &mut Scene<'_>) {
        let slot = scene.store.committed_slot();
        for read in &mut self.reads.waiting {
            read.slot.get_or_insert(slot);
        }
        self.begin_round(scene);
    }

    /// Begins a round for all reads that wait, unless a round is under way or none is needed. [raft L68, L134]
    fn begin_round(&mut self, scene: &mut Scene<'_>) {
        let held = scene.store.commit() < self.start && !planted("read-before-own-commit");
        if held || self.reads.waiting.is_empty() {
            return;
        }
        if self.holds_lease(scene.now, scene.config, scene.store) {
            let reads = std::mem::take(&mut self.reads.waiting);
            scene.counts.leased += reads.len() as u64;
            return self.answer_reads(reads, scene);
        }
        if self.reads.round != 0 {
            return;
        }
        self.round += 1;
        self.reads.round = self.round;
        std::mem::swap(&mut self.reads.out, &mut self.reads.waiting);
        self.note_round(scene);
        self.heartbeat(scene);
        // Where this replica alone is a quorum nobody else answers.
        self.confirm_reads(scene);
    }

    /// Answers the reads of a round that a quorum answered, and begins the next. [raft L69-L71]
    pub(super) fn confirm_reads(&mut self, scene: &mut Scene<'_>) {
        let (me, round) = (scene.config.me, self.reads.round);
        let answered = |id| id == me || self.peers.iter().any(|peer| peer.id == id && peer.round >= round);
        if round == 0 || (!scene.store.has_quorum(answered) && !planted("read-not-confirmed")) {
            return;
        }
        self.reads.round = 0;
        let reads = std::mem::take(&mut self.reads.out);
        self.answer_reads(reads, scene);
        self.begin_round(scene);
    }

    /// These reads may run once their slot is executed. [raft L69-L70]
    fn answer_reads(&mut self, reads: Vec<LeaderRead>, scene: &mut Scene<'_>) {
        for LeaderRead { reader, slot } in reads {
            assert!(slot.is_some(), "INV-RAFT-14: a leader confirms reads after a commit of its own view");
            let slot = slot.unwrap_or_default();
            match reader {
                Reader::Host(read) => scene.out.push(Effect::ReadConfirmed { read, slot }),
                Reader::Member(to, read) => {
                    self.tell_commit(Some(to), scene);
                    let (view, slot) = (scene.store.view(), Some(slot.number()));
                    send(scene.out, to, RaftMessage::ReadIndexReply { view, read, slot }, None);
                }
            }
        }
    }

    /// Notes when the present round began, if that is of use. [raft L131]
    pub(super) fn note_round(&mut self, scene: &Scene<'_>) {
        self.lease.note_round(self.round, scene.now, scene.config);
    }

    /// Where there are leases, makes every heartbeat a round of its own. [raft L131]
    pub(super) fn begin_heartbeat_round(&mut self, scene: &Scene<'_>) {
        if scene.config.lease_drift_percent.is_some() {
            self.round += 1;
            self.note_round(scene);
        }
    }

    /// This member answered a round, so it promised something after the round began. [raft L132]
    pub(super) fn note_promise(&mut self, from: ReplicaId, round: u64, now: Time) {
        let sent = self.lease.began(round, now);
        if let Some(peer) = self.peer_mut(from) {
            peer.promised_after = peer.promised_after.max(sent);
        }
    }

    /// Whether no other replica can have been elected by now. [raft L133-L135]
    pub(in crate::raft) fn holds_lease(&self, now: Time, config: &RaftConfig, store: &Store) -> bool {
        let Some(span) = config.lease() else { return false };
        let handing_over = self.handover.ends_lease() && !planted("lease-kept-over-a-transfer");
        if store.commit() < self.start || handing_over || !store.votes() {
            return false;
        }
        let lasts = |sent: Time| now < sent.plus(span);
        let promised =
            |id| self.peers.iter().any(|peer| peer.id == id && peer.promised_after.is_some_and(lasts));
        store.has_quorum(|id| id == config.me || promised(id))
    }
}
