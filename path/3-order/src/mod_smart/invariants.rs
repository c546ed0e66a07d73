//! What must hold after every step. A failure is a bug of ours and stops the replica.
//!
//! Most are asserted where they could break; those that follow from the state as a whole stand here.

use super::normal::Own;
use super::{ModSmart, Phase, is_view_of};

impl ModSmart {
    pub(super) fn check_invariants(&self, thorough: bool) {
        let (numbered, durable) = (self.ledger.records().last(), self.ledger.records().durable());
        assert!(durable <= numbered, "INV-SMART-1: {numbered} numbered");
        if !self.started || self.halted {
            return;
        }
        let next = self.decided().next();
        assert!(
            self.ledger.floor() <= self.ledger.delivered(),
            "INV-SMART-2: what is forgotten was handed on, up to {}",
            self.ledger.floor()
        );
        let tenure = self.tenures.now();
        assert!(self.view >= tenure.begins, "INV-SMART-7: views begin with {}", tenure.begins);
        let of_it = is_view_of(self.view, tenure.number()) && tenure.since <= self.decided();
        assert!(of_it, "INV-SMART-12: {} is a view of {}", self.view, tenure.number());
        assert!(
            self.members.is_bounded(self.voters.len()),
            "INV-SMART-12: of each that listens a few numbers"
        );
        assert!(
            self.votes() || (self.open.taken(self.view).is_none() && self.own.is_empty()),
            "INV-SMART-12: who is no member votes for nothing"
        );
        assert!(
            self.open.lock.is_none_or(|(view, _)| view <= self.view),
            "INV-SMART-4: no lock of a later view"
        );
        assert!(
            self.open.writes.iter().all(|(view, _)| *view <= self.view),
            "INV-SMART-4: no vote in a later view"
        );
        if matches!(self.phase, Phase::Normal { .. }) && self.may_lie() {
            let locked = self.open.lock.filter(|lock| lock.0 == self.view).map(|lock| lock.1);
            let wrote = self.open.writes.iter().find(|write| write.0 == self.view).map(|write| write.1);
            assert!(
                locked.is_none() || wrote.is_none() || locked == wrote,
                "INV-SMART-4: what is locked is what was written"
            );
        }
        if let Phase::Normal { base, forced, .. } = &self.phase {
            assert!(
                forced.is_none() || *base >= next,
                "INV-SMART-3: what binds a view binds its first slot, which is not decided"
            );
        }
        assert!(self.gathered.is_bounded(self.voters.len()), "INV-SMART-8: a statement of each member");
        assert!(self.vouched.is_bounded(), "INV-SMART-10: a few values of a few slots");
        assert!(self.rotation.is_bounded(self.trust.faults()), "INV-SMART-7: f are passed over at most");
        assert!(self.rates.is_bounded(self.voters.len()), "INV-SMART-11: a few times of a few slots");
        for (record, own) in &self.own {
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
            let beyond = self.tallies.keys().any(|slot| *slot < next);
            assert!(!beyond, "INV-SMART-6: votes on decided slots are forgotten");
        }
    }
}
