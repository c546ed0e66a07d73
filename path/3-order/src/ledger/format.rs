//! The records of every protocol that decides slot by slot, as they lie in the log.
//!
//! ```text
//! DECIDED  head: slot u64, own view u64      payload: length u32 of the proof, proof, batch unless an earlier record of the slot holds it
//! FLOOR    head: slot u64, view u64, what u8 payload: length u32 of what is the protocol's own, that, proof or nothing;
//!                what: 1 cleared, + 2 with an anchor          with an anchor, before the proof: length u32, anchor
//! ```
//!
//! A DECIDED record says in which view its writer was, and ends all votes on its slot. So the records after it hold every vote that still
//! matters. FLOOR says where the log begins; with `cleared` it says also that the log is empty after that. Tests: tests/format.rs.

use super::{Proof, inconsistent};
use crate::{Anchor, Stored};
use bytes::Bytes;
use quorate_types::{Halt, Reject, Slot, View};
use quorate_wire::Batch;

/// [`Stored::kind`] of a decided slot. The kinds of a protocol's own records have lower numbers.
pub const RECORD_DECIDED: u8 = 4;
/// [`Stored::kind`] of the slot after which the log begins.
pub const RECORD_FLOOR: u8 = 5;

/// In the last byte of a FLOOR's head: the log is empty after it.
const CLEARED: u8 = 1;
/// In the same byte: the record holds what an anchor of that slot says.
const WITH_ANCHOR: u8 = 2;

/// A decided slot, as its record says it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decided {
    /// The slot.
    pub slot: Slot,
    /// The view of the writer.
    pub view: View,
    /// The proof that the slot is decided.
    pub proof: Proof,
    /// Its batch, unless an earlier record of the slot holds it.
    pub batch: Option<Batch>,
}

/// Where the log begins, as a FLOOR record says it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Floor {
    /// The log begins after this slot.
    pub slot: Slot,
    /// The view of the writer.
    pub view: View,
    /// Whether the log is empty after this slot.
    pub cleared: bool,
    /// Bytes of the protocol itself: what else it needs of the slots before.
    pub own: Bytes,
    /// What an anchor of the slot says, if that does not follow from other records.
    pub anchor: Option<Anchor>,
    /// The proof that the slot is decided, if the writer has it.
    pub proof: Option<Proof>,
}

/// The number at this offset. The caller has checked the length.
pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(word)
}

/// The error about bytes that can not be read.
pub(crate) fn unreadable(what: &'static str) -> impl Fn(Reject) -> Halt {
    move |why| inconsistent(format!("{what} is unreadable: {why}"))
}

/// A batch, or nothing.
pub(crate) fn batch_of(bytes: Bytes) -> Result<Option<Batch>, Halt> {
    if bytes.is_empty() {
        return Ok(None);
    }
    Batch::decode(bytes).map(Some).map_err(unreadable("a batch"))
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

fn put_part(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    let at = out.len();
    out.extend_from_slice(&[0; 4]);
    write(out);
    let len = (out.len() - at - 4) as u32;
    out[at..at + 4].copy_from_slice(&len.to_le_bytes());
}

fn head_of(slot: Slot, view: View) -> Vec<u8> {
    let mut head = slot.number().to_le_bytes().to_vec();
    head.extend_from_slice(&view.number().to_le_bytes());
    head
}

impl Decided {
    /// The record of a slot that was decided with this proof, by a writer in this view. The batch is given unless an earlier record of the
    /// slot holds it.
    pub fn record(proof: &Proof, view: View, batch: Option<&Batch>) -> Stored {
        let mut payload = Vec::new();
        put_part(&mut payload, |out| proof.write_to(out));
        payload.extend_from_slice(batch.map_or(&[], |batch| batch.bytes()));
        Stored {
            kind: RECORD_DECIDED,
            head: Bytes::from(head_of(proof.slot, view)),
            payload: Bytes::from(payload),
        }
    }

    /// Reads what [`Self::record`] wrote.
    ///
    /// # Errors
    /// When the record is not a DECIDED record.
    pub fn read(record: Stored) -> Result<Self, Halt> {
        if record.kind != RECORD_DECIDED || record.head.len() != 16 {
            return Err(inconsistent(format!("a record of kind {} is unreadable", record.kind)));
        }
        let mut payload = record.payload;
        let proof = Proof::decode(part(&mut payload)?).map_err(unreadable("a proof"))?;
        let (slot, view) = (Slot::new(u64_at(&record.head, 0)), View::new(u64_at(&record.head, 8)));
        Ok(Self { slot, view, proof, batch: batch_of(payload)? })
    }
}

impl Floor {
    /// A log that begins after this slot, with nothing else to say.
    pub fn after(slot: Slot, view: View, cleared: bool) -> Self {
        Self { slot, view, cleared, own: Bytes::new(), anchor: None, proof: None }
    }

    /// The record of this floor.
    pub fn record(&self) -> Stored {
        let mut head = head_of(self.slot, self.view);
        head.push(u8::from(self.cleared) * CLEARED + u8::from(self.anchor.is_some()) * WITH_ANCHOR);
        let mut payload = Vec::new();
        put_part(&mut payload, |out| out.extend_from_slice(&self.own));
        if let Some(anchor) = &self.anchor {
            put_part(&mut payload, |out| out.extend_from_slice(anchor.encode()));
        }
        if let Some(proof) = &self.proof {
            proof.write_to(&mut payload);
        }
        Stored { kind: RECORD_FLOOR, head: Bytes::from(head), payload: Bytes::from(payload) }
    }

    /// Reads what [`Self::record`] wrote.
    ///
    /// # Errors
    /// When the record is not a FLOOR record.
    pub fn read(record: Stored) -> Result<Self, Halt> {
        let head = &record.head;
        if record.kind != RECORD_FLOOR || head.len() != 17 || head[16] > CLEARED + WITH_ANCHOR {
            return Err(inconsistent(format!("a record of kind {} is unreadable", record.kind)));
        }
        let mut payload = record.payload;
        let own = part(&mut payload)?;
        let anchor = match head[16] & WITH_ANCHOR {
            0 => None,
            _ => Some(Anchor::decode(&part(&mut payload)?).map_err(unreadable("an anchor"))?),
        };
        let proof = match payload.is_empty() {
            true => None,
            false => Some(Proof::decode(payload).map_err(unreadable("a proof"))?),
        };
        let (slot, view) = (Slot::new(u64_at(head, 0)), View::new(u64_at(head, 8)));
        Ok(Self { slot, view, cleared: head[16] & CLEARED != 0, own, anchor, proof })
    }
}
