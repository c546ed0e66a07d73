//! A protocol of one member: what is proposed is written down, and decided once that is durable. It shows what a protocol must bring along:
//! these lines. Records, restarts, old slots, checkpoints before, within and beyond the log are the ledger's.

use bytes::Bytes;
use quorate_order::ledger::{
    Decided, Floor, Ledger, Proof, RECORD_DECIDED, RECORD_FLOOR, RecordedBatch, Votes, inconsistent,
};
use quorate_order::mod_smart::digest_of;
use quorate_order::protocols::Row;
use quorate_order::{Anchor, Effect, Effects, Input, Nature, Order, Restored, Standing, Status, Stored};
use quorate_types::{Halt, RecordId, Reject, ReplicaId, Slot, Time, View};
use quorate_wire::{Batch, Memberships};
use std::collections::VecDeque;
use std::sync::Arc;

/// Its row: all that the rest of the program must know.
pub(crate) static ROW: Row = Row {
    name: "toy",
    title: "Toy",
    number: 99,
    able: Nature::PLAIN,
    decode: |_| Err(Reject::Malformed("toy: who is alone hears nothing")),
    build: |config, _| {
        let ledger = Ledger::new(config.reload.then_some(config.cache_bytes));
        Box::new(Toy { me: config.me, ledger, open: None, queue: VecDeque::new(), started: None })
    },
    patience: |config| config.timeout,
    anchor_anew: |_, _| Anchor::EMPTY,
    stays: None,
};

#[derive(Debug)]
struct Toy {
    me: ReplicaId,
    ledger: Ledger,
    /// What is proposed and not durable yet, and what waits behind it.
    open: Option<(Batch, RecordId)>,
    queue: VecDeque<Batch>,
    started: Option<Time>,
}

/// A proposal's record. Head: the slot, u64; payload: the batch.
fn held(record: Stored) -> Result<RecordedBatch, Halt> {
    let slot = record.head.first_chunk().ok_or_else(|| inconsistent("no slot"))?;
    let batch = Batch::decode(record.payload).map_err(|_| inconsistent("no batch"))?;
    Ok((Slot::new(u64::from_le_bytes(*slot)), digest_of(&batch), batch))
}

impl Toy {
    fn persist_floor(&mut self, cleared: bool, out: &mut Effects) {
        self.ledger.persist_floor(&Floor::after(self.ledger.floor(), View::FIRST, cleared), out);
    }
    fn progress(&mut self, out: &mut Effects) {
        loop {
            let slot = self.ledger.last().next();
            if let Some(batch) = self.queue.pop_front_if(|_| self.open.is_none()) {
                let head = Bytes::copy_from_slice(&slot.number().to_le_bytes());
                let record = Stored { kind: 1, head, payload: batch.bytes().clone() };
                self.open = Some((batch, self.ledger.persist(record, false, out)));
            }
            let durable = self.ledger.records().durable();
            let Some((batch, record)) = self.open.take_if(|(_, record)| *record <= durable) else { break };
            let proof = Proof { slot, view: View::FIRST, digest: digest_of(&batch), accepts: Vec::new() };
            self.ledger.decide(proof, batch, View::FIRST, Some(record), out);
        }
        self.ledger.deliver(out);
        self.ledger.evict();
    }
}

impl Order for Toy {
    fn restore_anchor(&mut self, slot: Slot, anchor: &Anchor) -> Result<(), Halt> {
        self.ledger.restore_position(slot, anchor.clone());
        if *anchor == Anchor::EMPTY { Ok(()) } else { Err(inconsistent("the anchor is none of the toy's")) }
    }
    fn restore_outdated(&mut self) {
        self.ledger.restore_outdated();
    }
    fn restore(&mut self, id: RecordId, record: Stored) -> Result<(), Halt> {
        self.ledger.restore(id)?;
        if record.kind == RECORD_FLOOR {
            let Floor { slot, cleared, proof, .. } = Floor::read(record)?;
            self.ledger.restore_floor(slot, cleared, proof)?;
        } else if record.kind == RECORD_DECIDED {
            let Decided { slot, proof, .. } = Decided::read(record)?;
            let found = self.open.take().filter(|_| self.ledger.votes_are_on(slot));
            self.ledger.restore_decided(slot, proof, found)?;
        } else {
            let (slot, _, batch) = held(record)?;
            self.ledger.restore_vote(slot);
            self.open = Some((batch, id));
        }
        Ok(())
    }
    fn restore_gap(&mut self, _missing: u64) {
        self.ledger.restore_gap();
    }
    fn restored(&self) -> Restored {
        self.ledger.restored(Votes { any: self.open.is_some(), whole: true })
    }
    fn covers(&self, slot: Slot, _anchor: &Anchor) -> bool {
        slot >= self.ledger.floor()
    }
    fn restore_installed(&mut self, slot: Slot, anchor: &Anchor) -> Result<(), Halt> {
        self.ledger.restore_over(slot, anchor.clone());
        Ok(())
    }
    fn start(&mut self, now: Time, out: &mut Effects) {
        self.started = Some(now);
        let open = self.ledger.go_on(Votes { any: self.open.is_some(), whole: true });
        self.open.take_if(|_| !open);
        if let Some(cleared) = self.ledger.floor_is_due() {
            self.persist_floor(cleared, out);
        }
        out.push(Effect::LeaderChanged { view: View::FIRST, leader: Some(self.me), planned: false });
        self.progress(out);
    }
    fn step(&mut self, _now: Time, input: Input, out: &mut Effects) {
        self.ledger.begin();
        match input {
            Input::Propose(batch) => self.queue.push_back(batch),
            Input::Durable(record) => self.ledger.on_durable(record),
            Input::Loaded { load, records } => {
                self.ledger.on_loaded(load, records, held, out).expect("a disk that keeps what it took");
            }
            Input::Read(read) => out.push(Effect::ReadConfirmed { read, slot: self.ledger.known() }),
            Input::Trim { slot } if self.ledger.trim(slot) => self.persist_floor(false, out),
            Input::Installed { slot, .. } if !self.ledger.installed(slot, out) => {
                self.ledger.begin_after(slot);
                self.open = None;
                self.persist_floor(true, out);
            }
            _ => {}
        }
        self.progress(out);
    }
    fn deadline(&self) -> Option<Time> {
        self.started.filter(|_| !self.ledger.has_begun())
    }
    fn heartbeats(&self, _: &mut Effects) {}
    fn standing(&self) -> Standing {
        let all = || self.open.iter().map(|(batch, _)| batch).chain(&self.queue);
        let (in_flight, in_flight_bytes) = (all().count(), all().map(|batch| batch.bytes().len()).sum());
        let (leading, view) = (self.started.is_some(), View::FIRST);
        let settled = leading && self.ledger.delivered() >= self.ledger.last();
        let handed_on = settled;
        Standing { view, leading, handed_on, settled, in_flight, in_flight_bytes, ..Standing::default() }
    }
    fn status(&self) -> Status {
        let members = Arc::new(Memberships::created(&[self.me]));
        Status::of(View::FIRST, Some(self.me), self.ledger.delivered(), members)
    }
    fn anchor(&self, slot: Slot) -> Option<Anchor> {
        (self.ledger.floor()..=self.ledger.known()).contains(&slot).then_some(Anchor::EMPTY)
    }
    fn keep_from(&self) -> Option<RecordId> {
        self.ledger.keep_from(self.open.as_ref().map(|(_, record)| *record))
    }
    fn invariants(&self, _thorough: bool) {
        self.ledger.check();
    }
}
