//! What others may know of an instance. This file changes nothing.

use super::office::Phase;
use super::{ModSmart, rotation};
use crate::{Restored, Standing, Status};
use quorate_types::ReplicaId;

/// The protocol's standing after a step.
pub(super) fn standing(smart: &ModSmart) -> Standing {
    let core = &smart.core;
    let (in_flight, in_flight_bytes) = smart.voting.proposed_and_open(core);
    let leading = core.leads() && !smart.stops.is_leaving() && !rotation::is_full(core, in_flight);
    let handed_on = match core.office.phase() {
        Phase::Normal { settled, .. } => core.ledger.delivered() >= *settled,
        Phase::Syncing => false,
    };
    let handed_on = core.leads() && handed_on;
    let settled = leading && handed_on && smart.reads.is_confirmed(core);
    let (view, holds_back) = (core.office.view(), false);
    Standing {
        view,
        leading,
        handed_on,
        settled,
        holds_back,
        in_flight,
        in_flight_bytes,
        ..Standing::default()
    }
}

/// The full status.
pub(super) fn status(smart: &ModSmart) -> Status {
    let (core, tenures) = (&smart.core, smart.core.members.tenures());
    let hears = |id: &ReplicaId| smart.watch.hears(*id, core);
    // A view that has just begun says nothing of who is silent.
    let early = core.now().since(smart.watch.entered()) <= smart.watch.patience(&core.config);
    let others = if core.leads() { core.members.others() } else { Vec::new() };
    Status {
        view: core.office.view(),
        leader: core.office.announced(),
        decided: core.ledger.delivered(),
        knows_decision: core.slow_after().is_some() && core.knows_decision(),
        // What the leader knows of the others.
        members: others.iter().map(|id| (*id, 0, early || hears(id))).collect(),
        // [mod_smart L121]
        caught_up: core.members.near().filter(|_| core.leads() || core.may_lie()).filter(hears).collect(),
        there: others.iter().copied().filter(hears).collect(),
        lost: Vec::new(),
        open: smart.voting.open.batches.values().map(|(batch, _)| batch.clone()).collect(),
        lease: None,
        small_quorums: smart.few.small(core, &smart.watch),
        counts: core.gathers_after().filter(|_| core.votes()).map(|_| smart.unaided.counts()),
        answered_by_lease: 0,
        membership: tenures.now().members.clone(),
        committed_membership: core.members.established_number(core.decided()),
        memberships: tenures.all().iter().map(|tenure| tenure.members.clone()).collect(),
    }
}

/// What can be concluded from the restored records, before the start.
pub(super) fn restored(smart: &ModSmart) -> Restored {
    let ledger = &smart.core.ledger;
    let restored = ledger.restored(smart.voting.open.read());
    let begins_after = if smart.core.life.started { ledger.floor() } else { restored.begins_after };
    Restored { begins_after, ..restored }
}
