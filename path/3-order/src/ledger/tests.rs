//! Each part of the ledger by itself.

use crate::ledger::{Ledger, Proof};
use crate::{Effect, Effects, Stored};
use bytes::Bytes;
use quorate_auth::Signed;
use quorate_types::{Digest, RecordId, Slot, View};
use quorate_wire::{Batch, BatchHeader};

mod delivery;
mod format;
mod ledger;
mod loads;
mod records;
mod replay;
mod slots;

fn id(number: u64) -> RecordId {
    RecordId::new(number)
}

fn slot(number: u64) -> Slot {
    Slot::new(number)
}

/// A record that says nothing.
fn record() -> Stored {
    Stored { kind: 1, head: Bytes::new(), payload: Bytes::new() }
}

/// A batch that is told apart by its seed.
fn batch(seed: u64) -> Batch {
    let mut bytes = Vec::new();
    Batch::begin(&mut bytes);
    Batch::seal(bytes, BatchHeader { seed, ..BatchHeader::default() })
}

/// The slots among effects, with the seeds of their batches.
fn decided(out: &mut Effects) -> Vec<(u64, u64)> {
    let one = |effect| match effect {
        Effect::Decided { slot, batch } => Some((slot.number(), batch.header().seed)),
        _ => None,
    };
    out.drain().filter_map(one).collect()
}

/// What shows that the batch with this seed is decided in this slot.
fn proof(number: u64, seed: u64) -> Proof {
    let digest = Digest::new([seed as u8; Digest::BYTES]);
    Proof { slot: slot(number), view: View::FIRST, digest, accepts: Signed::new() }
}

/// Records as a disk keeps them.
#[derive(Default)]
struct Disk {
    records: Vec<Stored>,
}

impl Disk {
    /// Takes what is to be persisted among the effects, and makes it durable.
    fn write(&mut self, ledger: &mut Ledger, out: &mut Effects) {
        for effect in out.drain() {
            if let Effect::Persist { record, .. } = effect {
                self.records.push(record);
            }
        }
        ledger.on_durable(id(self.records.len() as u64));
    }
    fn record(&self, id: RecordId) -> Stored {
        self.records[id.number() as usize - 1].clone()
    }
}
