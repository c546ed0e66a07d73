//! Mod-SMaRt's records: how views, votes and decisions lie in the log. `restore` takes them back.
//!
//! ```text
//! VIEW     head: view u64                                payload: the STOPs that made it
//! WROTE    head: slot u64, view u64, digest 32           payload: the batch, unless an earlier record of the slot holds it
//! LOCKED   head: slot u64, view u64, digest 32           payload: the same
//! ```
//!
//! DECIDED and FLOOR are the ledger's records (`ledger/format.rs`). In a FLOOR, the protocol's own part holds the STOPs that made the view,
//! and the anchor tells the tenure. Slots never go back, except that a FLOOR with `cleared` begins the log anew after its slot.
//!
//! docs/protocols/mod_smart.md L75-L90. INV-SMART-1, INV-SMART-4. Tests: tests/restart.rs, tests/chaos.rs.

use super::core::Core;
use crate::ledger::{
    Decided, Floor, RECORD_DECIDED, RECORD_FLOOR, RecordedBatch, batch_of, inconsistent, u64_at, unreadable,
};
use crate::{Effects, Stored};
use bytes::Bytes;
use quorate_auth::{Signed, decode_signed, write_signed};
use quorate_types::{Digest, Halt, MembershipId, RecordId, Slot, View};
use quorate_wire::Batch;

/// [`Stored::kind`] of a view that was entered.
pub const RECORD_VIEW: u8 = 1;
/// [`Stored::kind`] of a value that was written.
pub const RECORD_WROTE: u8 = 2;
/// [`Stored::kind`] of a value that was locked.
pub const RECORD_LOCKED: u8 = 3;
const VOTE_HEAD: usize = 16 + Digest::BYTES;
/// The contents of a record.
#[derive(Debug)]
pub(super) enum Record {
    View(View, Signed),
    Wrote(Slot, View, Digest, Option<Batch>),
    Locked(Slot, View, Digest, Option<Batch>),
    Decided(Decided),
    Floor(Floor, Signed),
}

/// Reads a record.
pub(super) fn read(record: Stored) -> Result<Record, Halt> {
    let (head, payload) = (&record.head, &record.payload);
    let number = |at| u64_at(head, at);
    match (record.kind, head.len()) {
        (RECORD_VIEW, 8) => Ok(Record::View(
            View::new(number(0)),
            decode_signed(payload.clone()).map_err(unreadable("a view"))?,
        )),
        (RECORD_WROTE | RECORD_LOCKED, VOTE_HEAD) => {
            let (slot, view) = (Slot::new(number(0)), View::new(number(8)));
            let mut digest = [0; Digest::BYTES];
            digest.copy_from_slice(&head[16..]);
            let (digest, batch) = (Digest::new(digest), batch_of(payload.clone())?);
            let wrote = record.kind == RECORD_WROTE;
            let vote = if wrote { Record::Wrote } else { Record::Locked };
            Ok(vote(slot, view, digest, batch))
        }
        (RECORD_DECIDED, _) => Decided::read(record).map(Record::Decided),
        (RECORD_FLOOR, _) => {
            let floor = Floor::read(record)?;
            let stops = decode_signed(floor.own.clone()).map_err(unreadable("a view"))?;
            Ok(Record::Floor(floor, stops))
        }
        (kind, _) => Err(inconsistent(format!("a record of kind {kind} is unreadable"))),
    }
}

/// How a vote lies in the log. [mod_smart L77]
pub(super) fn vote_head(slot: Slot, view: View, digest: Digest) -> Vec<u8> {
    let mut head = Vec::with_capacity(VOTE_HEAD);
    head.extend_from_slice(&slot.number().to_le_bytes());
    head.extend_from_slice(&view.number().to_le_bytes());
    head.extend_from_slice(digest.bytes());
    head
}

/// The batch in a vote's record. The ledger itself reads the records of decided slots.
pub(super) fn held(record: Stored) -> Result<RecordedBatch, Halt> {
    match read(record)? {
        Record::Wrote(slot, _, digest, Some(batch)) | Record::Locked(slot, _, digest, Some(batch)) => {
            Ok((slot, digest, batch))
        }
        _ => Err(inconsistent("another record was read than one with a batch")),
    }
}

impl Core {
    pub(super) fn write(
        &mut self,
        kind: u8,
        head: Vec<u8>,
        payload: Bytes,
        vital: bool,
        out: &mut Effects,
    ) -> RecordId {
        self.ledger.persist(Stored { kind, head: Bytes::from(head), payload }, vital, out)
    }

    /// [mod_smart L76]
    pub(super) fn persist_view(&mut self, out: &mut Effects) {
        let mut stops = Vec::new();
        write_signed(&mut stops, self.office.certificate());
        let head = self.office.view().number().to_le_bytes().to_vec();
        let record = self.write(RECORD_VIEW, head, Bytes::from(stops), true, out);
        self.office.written(record);
    }

    /// Whether the log begins after the cluster did: with a state, or in a later tenure. That a cluster began empty goes without saying.
    pub(super) fn begins_late(&self) -> bool {
        let tenure = self.members.tenures().of(self.ledger.floor().next());
        tenure.number() > MembershipId::FIRST || tenure.is_of_state()
    }

    /// Writes down where the log begins, and the view again; older records are then not needed. [mod_smart L79]
    pub(super) fn persist_floor(&mut self, cleared: bool, out: &mut Effects) {
        let slot = self.ledger.floor();
        let told = self.begins_late();
        let mut stops = Vec::new();
        write_signed(&mut stops, self.office.certificate());
        let floor = Floor {
            slot,
            view: self.office.view(),
            cleared,
            own: Bytes::from(stops),
            anchor: self.members.tenures().anchor(slot).filter(|_| told),
            proof: self.ledger.proof(slot).cloned(),
        };
        self.ledger.persist_floor(&floor, out);
    }
}
