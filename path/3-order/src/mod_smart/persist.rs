//! Mod-SMaRt's records: how views, votes and decisions lie in the log; `restore` takes them back.
//!
//! ```text
//! VIEW     head: view u64                                payload: the STOPs that made it
//! WROTE    head: slot u64, view u64, digest 32           payload: the batch, unless an earlier record of the slot holds it
//! LOCKED   head: slot u64, view u64, digest 32           payload: the same
//! DECIDED  head: slot u64, own view u64                  payload: length u32 of the proof, proof, batch unless ...
//! FLOOR    head: slot u64, view u64, what u8             payload: length u32 of the STOPs, STOPs, proof or nothing;
//!                what: 1 cleared, + 2 with the tenure             with the tenure, before the proof: length u32, anchor
//! ```
//!
//! Slots never go back, except that FLOOR with `cleared` begins the log anew after its slot. A DECIDED record says in which view its
//! writer was, and ends all votes on its slot: what comes after it tells all votes that still matter.
//!
//! docs/protocols/mod_smart.md L75-L90. INV-SMART-1, INV-SMART-4. Tests: tests/restart.rs, tests/chaos.rs.

use super::ModSmart;
use super::log::Entry;
use crate::mod_smart::message::{ModSmartBody as Body, Proof};
use crate::{Anchor, Effect, Effects, Stored};
use bytes::Bytes;
use quorate_auth::{Signed, decode_signed, write_signed};
use quorate_types::{Digest, Halt, MembershipId, RecordId, ReplicaId, Slot, View};
use quorate_wire::Batch;
use std::collections::BTreeMap;

/// [`Stored::kind`] of a view that was entered.
pub const RECORD_VIEW: u8 = 1;
/// [`Stored::kind`] of a value that was written.
pub const RECORD_WROTE: u8 = 2;
/// [`Stored::kind`] of a value that was locked.
pub const RECORD_LOCKED: u8 = 3;
/// [`Stored::kind`] of a decided slot.
pub const RECORD_DECIDED: u8 = 4;
/// [`Stored::kind`] of the slot after which the log begins.
pub const RECORD_FLOOR: u8 = 5;

/// In the last byte of a FLOOR's head: the log is empty after it.
const CLEARED: u8 = 1;
/// The same: it says which tenure holds after it.
const WITH_TENURE: u8 = 2;

const VOTE_HEAD: usize = 16 + Digest::BYTES;
/// One question to the disk asks for so many slots at most.
const LOAD_SLOTS: u64 = 32;

pub(super) fn inconsistent(why: impl Into<String>) -> Halt {
    Halt::LogInconsistent { why: why.into() }
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(word)
}

/// What a record says.
#[derive(Debug)]
pub(super) enum Record {
    View(View, Signed),
    Wrote(Slot, View, Digest, Option<Batch>),
    Locked(Slot, View, Digest, Option<Batch>),
    Decided(Slot, View, Proof, Option<Batch>),
    Floor {
        slot: Slot,
        view: View,
        cleared: bool,
        stops: Signed,
        anchor: Option<Anchor>,
        proof: Option<Proof>,
    },
}

fn batch_of(bytes: Bytes) -> Result<Option<Batch>, Halt> {
    if bytes.is_empty() {
        return Ok(None);
    }
    Batch::decode(bytes).map(Some).map_err(|why| inconsistent(format!("a batch is unreadable: {why}")))
}

/// Takes a part with its length off the front.
fn part(bytes: &mut Bytes) -> Result<Bytes, Halt> {
    let short = || inconsistent("a record is cut off");
    let len = *bytes.first_chunk::<4>().ok_or_else(short)?;
    let len = u32::from_le_bytes(len) as usize;
    let _ = bytes.split_to(4);
    if len > bytes.len() {
        return Err(short());
    }
    Ok(bytes.split_to(len))
}

fn unreadable(what: &'static str) -> impl Fn(quorate_types::Reject) -> Halt {
    move |why| inconsistent(format!("{what} is unreadable: {why}"))
}

/// Reads a record back.
pub(super) fn read(record: Stored) -> Result<Record, Halt> {
    let (head, mut payload) = (&record.head, record.payload);
    let number = |at| u64_at(head, at);
    match (record.kind, head.len()) {
        (RECORD_VIEW, 8) => {
            Ok(Record::View(View::new(number(0)), decode_signed(payload).map_err(unreadable("a view"))?))
        }
        (RECORD_WROTE | RECORD_LOCKED, VOTE_HEAD) => {
            let (slot, view) = (Slot::new(number(0)), View::new(number(8)));
            let mut digest = [0; Digest::BYTES];
            digest.copy_from_slice(&head[16..]);
            let (digest, batch) = (Digest::new(digest), batch_of(payload)?);
            let wrote = record.kind == RECORD_WROTE;
            let vote = if wrote { Record::Wrote } else { Record::Locked };
            Ok(vote(slot, view, digest, batch))
        }
        (RECORD_DECIDED, 16) => {
            let proof = Proof::decode(part(&mut payload)?).map_err(unreadable("a proof"))?;
            Ok(Record::Decided(Slot::new(number(0)), View::new(number(8)), proof, batch_of(payload)?))
        }
        (RECORD_FLOOR, 17) if head[16] <= 3 => {
            let stops = decode_signed(part(&mut payload)?).map_err(unreadable("a view"))?;
            let anchor = match head[16] & WITH_TENURE {
                0 => None,
                _ => Some(Anchor::decode(&part(&mut payload)?).map_err(unreadable("a tenure"))?),
            };
            let proof = match payload.is_empty() {
                true => None,
                false => Some(Proof::decode(payload).map_err(unreadable("a proof"))?),
            };
            let (slot, view) = (Slot::new(number(0)), View::new(number(8)));
            let cleared = head[16] & CLEARED != 0;
            Ok(Record::Floor { slot, view, cleared, stops, anchor, proof })
        }
        (kind, _) => Err(inconsistent(format!("a record of kind {kind} is unreadable"))),
    }
}

fn put_part(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    let at = out.len();
    out.extend_from_slice(&[0; 4]);
    write(out);
    let len = (out.len() - at - 4) as u32;
    out[at..at + 4].copy_from_slice(&len.to_le_bytes());
}

/// What a question to the disk is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    Delivery,
    Answer(ReplicaId),
    /// The answer is of no use any more.
    Nothing,
}

#[derive(Clone, Debug)]
struct Question {
    first: Slot,
    count: u64,
    /// The lowest record that is asked for.
    record: RecordId,
    purpose: Purpose,
}

/// Questions to the disk that are not answered yet.
#[derive(Debug, Default)]
pub(super) struct Loads {
    count: u64,
    open: BTreeMap<u64, Question>,
}

impl Loads {
    pub(super) fn delivers(&self) -> bool {
        self.open.values().any(|question| question.purpose == Purpose::Delivery)
    }
    /// What is being read for delivery is not waited for any more.
    pub(super) fn forget_delivery(&mut self) {
        let delivery = self.open.values_mut().filter(|question| question.purpose == Purpose::Delivery);
        delivery.for_each(|question| question.purpose = Purpose::Nothing);
    }
    fn first_record(&self) -> Option<RecordId> {
        self.open.values().map(|question| question.record).min()
    }
}

impl ModSmart {
    fn write(&mut self, kind: u8, head: Vec<u8>, payload: Bytes, vital: bool, out: &mut Effects) -> RecordId {
        self.records = self.records.next();
        let record = Stored { kind, head: Bytes::from(head), payload };
        out.push(Effect::Persist { id: self.records, record, vital });
        self.records
    }

    /// [mod_smart L76]
    pub(super) fn persist_view(&mut self, out: &mut Effects) {
        let mut stops = Vec::new();
        write_signed(&mut stops, &self.certificate);
        let head = self.view.number().to_le_bytes().to_vec();
        self.view_record = self.write(RECORD_VIEW, head, Bytes::from(stops), true, out);
    }

    fn vote_head(&self, slot: Slot, digest: Digest) -> Vec<u8> {
        let mut head = Vec::with_capacity(VOTE_HEAD);
        head.extend_from_slice(&slot.number().to_le_bytes());
        head.extend_from_slice(&self.view.number().to_le_bytes());
        head.extend_from_slice(digest.bytes());
        head
    }

    /// Writes a vote, with its batch unless that lies in the log already. [mod_smart L77]
    fn persist_vote(
        &mut self,
        kind: u8,
        (slot, digest): (Slot, Digest),
        batch: Option<Batch>,
        out: &mut Effects,
    ) -> RecordId {
        let head = self.vote_head(slot, digest);
        let new = batch.filter(|_| !self.open.batches.contains_key(&digest));
        let payload = new.as_ref().map_or_else(Bytes::new, |batch| batch.bytes().clone());
        let record = self.write(kind, head, payload, new.is_none(), out);
        if let Some(batch) = new {
            self.open.batches.insert(digest, (batch, record));
        }
        record
    }

    pub(super) fn persist_write(
        &mut self,
        slot: Slot,
        digest: Digest,
        batch: Batch,
        out: &mut Effects,
    ) -> RecordId {
        self.persist_vote(RECORD_WROTE, (slot, digest), Some(batch), out)
    }

    pub(super) fn persist_lock(
        &mut self,
        slot: Slot,
        digest: Digest,
        batch: Option<Batch>,
        out: &mut Effects,
    ) -> RecordId {
        self.persist_vote(RECORD_LOCKED, (slot, digest), batch, out)
    }

    /// [mod_smart L78]
    pub(super) fn persist_decision(&mut self, proof: Proof, batch: Batch, out: &mut Effects) {
        let known = self.open.batches.get(&proof.digest).map(|(_, record)| *record);
        let mut head = proof.slot.number().to_le_bytes().to_vec();
        head.extend_from_slice(&self.view.number().to_le_bytes());
        let mut payload = Vec::new();
        put_part(&mut payload, |out| proof.write_to(out));
        if known.is_none() {
            payload.extend_from_slice(batch.bytes());
        }
        // What a vote brought has its batch in the log, so this ends what was begun there, and is small.
        let record = self.write(RECORD_DECIDED, head, Bytes::from(payload), known.is_some(), out);
        let batch_record = known.unwrap_or(record);
        self.log.push(Entry { batch_record, record, kept: Some((batch, proof)) });
    }

    /// Writes down where the log begins, and the view again: with that, older records are not needed. [mod_smart L79]
    pub(super) fn persist_floor(&mut self, cleared: bool, out: &mut Effects) {
        let slot = self.log.floor();
        let mut head = slot.number().to_le_bytes().to_vec();
        head.extend_from_slice(&self.view.number().to_le_bytes());
        // That a cluster began empty goes without saying.
        let tenure = self.tenures.of(slot.next());
        let told = tenure.number() > MembershipId::FIRST || tenure.is_of_state();
        let anchor = self.tenures.anchor(slot).filter(|_| told);
        head.push(u8::from(cleared) * CLEARED + u8::from(anchor.is_some()) * WITH_TENURE);
        let mut payload = Vec::new();
        put_part(&mut payload, |out| write_signed(out, &self.certificate));
        if let Some(anchor) = anchor {
            put_part(&mut payload, |out| out.extend_from_slice(anchor.encode()));
        }
        if let Some(proof) = self.log.proof(slot) {
            proof.write_to(&mut payload);
        }
        let record = self.write(RECORD_FLOOR, head, Bytes::from(payload), true, out);
        self.floor_records.push_back(record);
    }

    /// The lowest record that a restart needs, or that is being read back. [mod_smart L80]
    pub(super) fn records_needed_from(&self) -> Option<RecordId> {
        if self.records == RecordId::ZERO {
            return None;
        }
        let floor = self.floor_records.front().copied().filter(|id| *id <= self.durable);
        let floor = floor.unwrap_or(RecordId::FIRST);
        let votes = self.open.first_record();
        let all = [Some(floor), self.log.first_record(), votes, self.loads.first_record()];
        all.into_iter().flatten().min()
    }

    /// Asks the disk for decided slots from `first` on, up to `last`. [mod_smart L28]
    pub(super) fn load(&mut self, first: Slot, last: Slot, purpose: Purpose, out: &mut Effects) {
        if purpose != Purpose::Delivery && self.loads.open.values().any(|q| q.purpose == purpose) {
            // One question at a time for each that asks.
            return;
        }
        let (mut records, mut slot, mut count) = (Vec::new(), first, 0);
        while slot <= last && count < LOAD_SLOTS {
            let Some(entry) = self.log.get(slot).filter(|entry| entry.record <= self.durable) else { break };
            records.push(entry.batch_record);
            if entry.record != entry.batch_record {
                records.push(entry.record);
            }
            (slot, count) = (slot.next(), count + 1);
        }
        let Some(record) = records.iter().min().copied() else { return };
        self.loads.count += 1;
        self.loads.open.insert(self.loads.count, Question { first, count, record, purpose });
        out.push(Effect::Load { load: self.loads.count, records });
    }

    pub(super) fn on_loaded(&mut self, load: u64, records: Vec<Stored>, out: &mut Effects) {
        let Some(question) = self.loads.open.remove(&load) else { return };
        let decisions = match decisions(&question, records) {
            Ok(decisions) => decisions,
            Err(why) => return self.halt(why, out),
        };
        for (proof, batch) in decisions {
            match question.purpose {
                Purpose::Delivery => {
                    if proof.slot == self.log.delivered().next() {
                        out.push(Effect::Decided { slot: proof.slot, batch });
                        self.log.set_delivered(proof.slot);
                    }
                }
                Purpose::Answer(to) => {
                    self.fetching.charge(to, batch.bytes().len(), self.now);
                    self.send(out, to, Body::Decision { proof, batch }, None);
                }
                Purpose::Nothing => {}
            }
        }
        self.deliver(out);
    }
}

/// The decided slots that were read back.
fn decisions(question: &Question, records: Vec<Stored>) -> Result<Vec<(Proof, Batch)>, Halt> {
    let (mut list, mut batches) = (Vec::new(), BTreeMap::new());
    let mut slot = question.first;
    for record in records {
        match read(record)? {
            Record::Wrote(of, _, digest, Some(batch)) | Record::Locked(of, _, digest, Some(batch))
                if of == slot =>
            {
                batches.insert(digest, batch);
            }
            Record::Decided(of, _, proof, own) if of == slot => {
                let batch = own.or_else(|| batches.remove(&proof.digest));
                let batch =
                    batch.ok_or_else(|| inconsistent(format!("{slot} was read without its batch")))?;
                list.push((proof, batch));
                slot = slot.next();
            }
            _ => return Err(inconsistent(format!("another record was read than one of {slot}"))),
        }
    }
    if list.len() as u64 == question.count { Ok(list) } else { Err(inconsistent("records are missing")) }
}
