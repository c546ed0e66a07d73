//! What must hold after every step. A failure is a bug of ours and stops the replica.
//!
//! Most are asserted where they could break; those that follow from the state as a whole stand here.

use super::normal::Own;
use super::{ModSmart, Phase, is_view_of};

impl ModSmart {
    pub(super) fn check_invariants(&self, thorough: bool) {
        let (numbered, durable) = (self.ledger.records().last(), self.ledger.records().durable());
        assert!(durable <= numbered, "INV-SMART-1: {numbered} numbered");
        if !self.life.started || self.life.halted {
            return;
        }
        let next = self.decided().next();
        assert!(
            self.ledger.floor() <= self.ledger.delivered(),
            "INV-SMART-2: what is forgotten was handed on, up to {}",
            self.ledger.floor()
        );
        self.check_members();
        assert!(
            self.voting.open.lock.is_none_or(|(view, _)| view <= self.office.view),
            "INV-SMART-4: no lock of a later view"
        );
        assert!(
            self.voting.open.writes.iter().all(|(view, _)| *view <= self.office.view),
            "INV-SMART-4: no vote in a later view"
        );
        if matches!(self.office.phase, Phase::Normal { .. }) && self.may_lie() {
            let locked = self.voting.open.lock.filter(|lock| lock.0 == self.office.view).map(|lock| lock.1);
            let wrote =
                self.voting.open.writes.iter().find(|write| write.0 == self.office.view).map(|write| write.1);
            assert!(
                locked.is_none() || wrote.is_none() || locked == wrote,
                "INV-SMART-4: what is locked is what was written"
            );
        }
        if let Phase::Normal { base, forced, .. } = &self.office.phase {
            assert!(
                forced.is_none() || *base >= next,
                "INV-SMART-3: what binds a view binds its first slot, which is not decided"
            );
        }
        assert!(
            self.gathered.is_bounded(self.members.voters.len()),
            "INV-SMART-8: a statement of each member"
        );
        assert!(self.voting.vouched.is_bounded(), "INV-SMART-10: a few values of a few slots");
        assert!(
            self.rotation.is_bounded(self.members.trust.faults()),
            "INV-SMART-7: f are passed over at most"
        );
        assert!(self.rates.is_bounded(self.members.voters.len()), "INV-SMART-11: a few times of a few slots");
        for (record, own) in &self.voting.own {
            assert!(
                *record <= self.ledger.records().last(),
                "INV-SMART-5: a vote waits for a record that was numbered"
            );
            let fits = match own {
                Own::Write(slot, _) | Own::Accept(slot, ..) => *slot == next,
                Own::Collect(_) => true,
            };
            assert!(fits, "INV-SMART-5: own votes are on {next}");
        }
        if thorough {
            self.ledger.check();
            let beyond = self.voting.tallies.keys().any(|slot| *slot < next);
            assert!(!beyond, "INV-SMART-6: votes on decided slots are forgotten");
        }
    }

    fn check_members(&self) {
        let tenure = self.members.tenures.now();
        assert!(self.office.view >= tenure.begins, "INV-SMART-7: views begin with {}", tenure.begins);
        let of_it = is_view_of(self.office.view, tenure.number()) && tenure.since <= self.decided();
        assert!(of_it, "INV-SMART-12: {} is a view of {}", self.office.view, tenure.number());
        assert!(
            self.members.is_bounded(self.members.voters.len()),
            "INV-SMART-12: of each that listens a few numbers"
        );
        assert!(
            self.votes()
                || (self.voting.open.taken(self.office.view).is_none() && self.voting.own.is_empty()),
            "INV-SMART-12: who is no member votes for nothing"
        );
    }
}
