//! What must hold after every step. A failure is a bug of ours and stops the replica.
//!
//! Most are asserted where they could break; those that follow from the state as a whole stand here.

use super::{Raft, Role};
use quorate_types::{RecordId, Slot};

impl Raft {
    pub(super) fn check_invariants(&self, thorough: bool) {
        let last = self.log.last();
        assert!(self.commit <= last.index, "INV-RAFT-5: commit {} within the log {last}", self.commit);
        assert!(
            self.delivered() <= self.commit,
            "INV-RAFT-13: delivered {} <= {}",
            self.delivered(),
            self.commit
        );
        let floor = self.log.floor();
        assert!(floor.index <= self.delivered(), "INV-RAFT-15: what is forgotten was handed on, {floor}");
        // A replica enters the view of its checkpoint when it starts [raft L83]; a restored one waits for the others before that.
        assert!(
            !self.life.started || last.view <= self.term.view(),
            "INV-RAFT-2: log {last} not ahead of {}",
            self.term.view()
        );
        let (numbered, durable) = (self.records.last(), self.records.durable());
        assert!(durable <= numbered, "INV-RAFT-8: {numbered} numbered");
        self.check_durable();
        self.check_role();
        self.check_members();
        if thorough {
            self.log.check();
            self.records.check();
            assert!(
                self.delivery.slot() == Slot::new(self.log.slots_at(self.delivered())),
                "INV-RAFT-13: {}",
                self.delivery.slot()
            );
        }
    }

    fn check_durable(&self) {
        let durable = self.log.durable();
        assert!(durable <= self.log.last().index, "INV-RAFT-7: durable {durable} within the log");
        let record = self.log.record_at(durable);
        assert!(record <= self.records.durable(), "INV-RAFT-7: index {durable} needs {record}");
        let next = self.log.record_at(durable.next());
        assert!(
            next == RecordId::ZERO || next > self.records.durable(),
            "INV-RAFT-7: index {durable} is the last"
        );
    }

    fn check_role(&self) {
        let leads = self.term.leader() == Some(self.config.me);
        let leader = matches!(self.role, Role::Leader(_));
        assert!(leads == leader, "INV-RAFT-9: leads exactly as leader");
        self.term.check();
        if let Role::Leader(lead) = &self.role {
            assert!(self.term.voted() == Some(self.config.me), "INV-RAFT-9: a leader voted for itself");
            assert!(lead.start <= self.log.last().index, "INV-RAFT-12: a leader keeps its log");
            assert!(self.log.last().view == self.term.view(), "INV-RAFT-10: a leader's log ends in its view");
            for peer in &lead.peers {
                let (matched, next) = (peer.matched, peer.next);
                assert!(
                    matched < next && next <= self.log.last().index.next(),
                    "INV-RAFT-5: {}: {next}",
                    peer.id
                );
                assert!(
                    next > self.log.floor().index,
                    "INV-RAFT-15: {}: {next} comes after the floor",
                    peer.id
                );
            }
        } else if let Role::Candidate(_) = self.role {
            assert!(self.term.voted() == Some(self.config.me), "INV-RAFT-9: a candidate votes for itself");
        }
    }
}
