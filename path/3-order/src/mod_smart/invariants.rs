//! What must hold after every step. A failure is a bug of this program and stops the replica.
//!
//! Most invariants are asserted where they could break, or by the part that keeps them. Those between parts stand here.

use super::office::Phase;
use super::{ModSmart, is_view_of};

pub(super) fn check(smart: &ModSmart, thorough: bool) {
    let core = &smart.core;
    let (numbered, durable) = (core.ledger.records().last(), core.ledger.records().durable());
    assert!(durable <= numbered, "INV-SMART-1: {numbered} numbered");
    if !core.life.started || core.life.halted {
        return;
    }
    assert!(
        core.ledger.floor() <= core.ledger.delivered(),
        "INV-SMART-2: what is forgotten was handed on, up to {}",
        core.ledger.floor()
    );
    let (tenure, view) = (core.members.tenures().now(), core.office.view());
    assert!(view >= tenure.begins, "INV-SMART-7: views begin with {}", tenure.begins);
    let of_it = is_view_of(view, tenure.number()) && tenure.since <= core.decided();
    assert!(of_it, "INV-SMART-12: {view} is a view of {}", tenure.number());
    let voters = core.members.voters().len();
    assert!(core.members.is_bounded(voters), "INV-SMART-12: of each that listens a few numbers");
    if let Phase::Normal { base, forced, .. } = core.office.phase() {
        assert!(
            forced.is_none() || *base > core.decided(),
            "INV-SMART-3: what binds a view binds its first slot, which is not decided"
        );
    }
    smart.voting.check(core, thorough);
    assert!(smart.testimony.is_bounded(voters), "INV-SMART-13: a statement of each member");
    assert!(smart.gathered.is_bounded(voters), "INV-SMART-8: a statement of each member");
    let f = core.members.trust().faults();
    assert!(smart.rotation.is_bounded(f), "INV-SMART-7: f are passed over at most");
    assert!(smart.rates.is_bounded(voters), "INV-SMART-11: a few times of a few slots");
    if thorough {
        core.ledger.check();
    }
}
