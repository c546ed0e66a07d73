//! Takes back the records of an earlier life, before the start.
//!
//! The ledger (`ledger/replay.rs`) finds out about decided slots: which lead to the checkpoint, which follow it, which are missing. This
//! file handles views, votes on the undecided slot, and tenures. [mod_smart L81-L88]
//!
//! INV-SMART-9. Tests: tests/restart.rs.

use super::core::Core;
use super::normal::Open;
use super::persist::{Record, read};
use super::tenures::{Tenures, holds_of, number_of};
use crate::ledger::{Decided, inconsistent};
use crate::{Anchor, Effects, Stored};
use quorate_auth::Signed;
use quorate_types::{Digest, Halt, RecordId, Slot, View, planted};
use quorate_wire::{Batch, Holds};
use std::collections::BTreeMap;

/// What is known of tenures while records are taken back.
#[derive(Debug, Default)]
pub(super) struct Replay {
    /// The slots read so far that changed the membership.
    changes: BTreeMap<Slot, Holds>,
    /// The last FLOOR record's slot and the tenures after it, where they do not follow from other records.
    floor_tenures: Option<(Slot, Tenures)>,
}

/// Restoring changes what the replica knows, and its votes on the open slot.
impl Replay {
    /// The log continues after this anchor.
    pub(super) fn anchor(slot: Slot, anchor: &Anchor, core: &mut Core) -> Result<(), Halt> {
        core.members.set_tenures(read_anchor(slot, anchor, core)?);
        core.ledger.restore_position(slot, anchor.clone());
        Ok(())
    }

    /// [mod_smart L81-L84]
    pub(super) fn record(
        &mut self,
        id: RecordId,
        record: Stored,
        core: &mut Core,
        open: &mut Open,
    ) -> Result<(), Halt> {
        core.ledger.restore(id)?;
        match read(record)? {
            Record::View(view, stops) => {
                if view <= core.office.view() {
                    return Err(inconsistent(format!("{view} follows {}", core.office.view())));
                }
                core.office.restore(view, stops);
            }
            Record::Wrote(slot, view, digest, batch) => {
                restore_view(view, core)?;
                restore_batch(slot, digest, (batch, id), core, open);
                open.note_write(view, digest);
            }
            Record::Locked(slot, view, digest, batch) => {
                restore_view(view, core)?;
                restore_batch(slot, digest, (batch, id), core, open);
                open.lock = Some((view, digest));
            }
            Record::Decided(decided) => {
                restore_view(decided.view, core)?;
                self.decision(decided, id, core, open)?;
            }
            Record::Floor(floor, stops) => {
                restore_view(floor.view, core)?;
                core.office.restore(floor.view, stops);
                let tenures =
                    floor.anchor.map(|anchor| read_anchor(floor.slot, &anchor, core)).transpose()?;
                self.floor_tenures = tenures.map(|tenures| (floor.slot, tenures));
                if core.ledger.restore_floor(floor.slot, floor.cleared, floor.proof)? {
                    *open = Open::default();
                }
            }
        }
        core.ledger.evict_restored();
        Ok(())
    }

    /// [mod_smart L86]
    fn decision(
        &mut self,
        decided: Decided,
        id: RecordId,
        core: &mut Core,
        open: &mut Open,
    ) -> Result<(), Halt> {
        let Decided { slot, proof, batch, .. } = decided;
        let votes = std::mem::take(open);
        let of_it = core.ledger.votes_are_on(slot);
        let known = votes.batches.get(&proof.digest).filter(|_| of_it).cloned();
        let found = batch.map(|batch| (batch, id)).or(known);
        if let Some(holds) = found.as_ref().and_then(|(batch, _)| holds_of(batch)) {
            self.changes.insert(slot, holds);
        }
        core.ledger.restore_decided(slot, proof, found)
    }

    /// All records were given. [mod_smart L88]
    pub(super) fn finish(self, core: &mut Core, open: &mut Open, out: &mut Effects) -> Result<(), Halt> {
        if core.office.view() == View::ZERO && core.ledger.records().last() > RecordId::ZERO {
            return Err(inconsistent("no record says in which view this replica was"));
        }
        // [mod_smart L102]
        if !core.ledger.go_on(open.read()) {
            *open = Open::default();
        }
        // Of decided slots, and after a gap, the record that holds it may be gone.
        let whole = open.writes.iter().all(|write| open.batches.contains_key(&write.1));
        if !whole && !core.ledger.has_gap() {
            return Err(inconsistent(format!("a vote on {} without its batch", core.ledger.last().next())));
        }
        self.tenures(core)?;
        if let Some(cleared) = core.ledger.floor_is_due() {
            core.persist_floor(cleared, out);
        }
        Ok(())
    }

    /// The tenures follow from the checkpoint, or, where the log ends before the checkpoint, from the log's beginning; and from what was
    /// decided since. [mod_smart L124]
    fn tenures(self, core: &mut Core) -> Result<(), Halt> {
        let (last, checkpoint) = (core.ledger.last(), core.ledger.checkpoint());
        let Self { changes, floor_tenures } = self;
        let (at, known) = match floor_tenures.unwrap_or_else(|| (Slot::ZERO, core.members.created().clone()))
        {
            _ if last >= checkpoint => (checkpoint, core.members.tenures().clone()),
            before => before,
        };
        core.members.set_tenures(known.replayed(at, last, &changes));
        core.know_members();
        core.members.forget(core.ledger.floor());
        let decided = core.decided();
        core.members.count_by_tenure(core.config.faults, decided);
        let (number, view) = (core.membership_number(), core.office.view());
        if view > View::ZERO && number_of(view) > number && !planted("smart-views-go-on") {
            return Err(inconsistent(format!("{view} is no view of membership {number}")));
        }
        Ok(())
    }
}

/// The tenures in an anchor of this slot.
pub(super) fn read_anchor(slot: Slot, anchor: &Anchor, core: &Core) -> Result<Tenures, Halt> {
    Tenures::read(core.members.created(), slot, anchor)
}

/// A record says that this replica was in this view.
fn restore_view(view: View, core: &mut Core) -> Result<(), Halt> {
    // Where the log begins, or after a gap, the record that says so may be missing.
    let unknown = core.office.view() == View::ZERO || core.ledger.has_gap();
    if view < core.office.view() || (view > core.office.view() && !unknown) {
        return Err(inconsistent(format!("a record of {view} in {}", core.office.view())));
    }
    if view > core.office.view() {
        core.office.restore(view, Signed::new());
    }
    Ok(())
}

/// A vote on this slot follows, perhaps with its batch.
fn restore_batch(
    slot: Slot,
    digest: Digest,
    (batch, id): (Option<Batch>, RecordId),
    core: &mut Core,
    open: &mut Open,
) {
    if core.ledger.restore_vote(slot) {
        *open = Open::default();
    }
    if let Some(batch) = batch {
        open.batches.insert(digest, (batch, id));
    }
}

/// Records are missing here. [mod_smart L85]
pub(super) fn lose(core: &mut Core, open: &mut Open) {
    core.ledger.restore_gap();
    *open = Open::default();
}

/// [mod_smart L87]
pub(super) fn is_covered_by(slot: Slot, anchor: &Anchor, core: &Core) -> bool {
    read_anchor(slot, anchor, core).is_ok() && slot >= core.ledger.floor()
}

/// [mod_smart L87]
pub(super) fn install(slot: Slot, anchor: &Anchor, core: &mut Core, open: &mut Open) -> Result<(), Halt> {
    assert!(
        is_covered_by(slot, anchor, core),
        "INV-SMART-9: whoever lost records takes part only from a checkpoint on that continues what is left"
    );
    core.members.set_tenures(read_anchor(slot, anchor, core)?);
    if core.ledger.restore_over(slot, anchor.clone()) {
        *open = Open::default();
    }
    Ok(())
}
