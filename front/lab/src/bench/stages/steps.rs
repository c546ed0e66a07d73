//! The stages of a replica. Each is a type that takes what the stage before gives; the product's own parts do the work.

use super::Plan;
use bytes::Bytes;
use quorate_admit::{Admission, AdmissionLimits, Executed, Terms};
use quorate_command::failure::{Doing as _, Failure, Outcome};
use quorate_execute::{Executor, Outcomes, SessionLimits};
use quorate_kv::{Tally, Totals};
use quorate_log::{Class, Log as Blocks, LogConfig, LogEffect, Record, SyncMode};
use quorate_merge::{Config as MergeConfig, Decided, Delivered, Leader, Merge, RecordIndex};
use quorate_order::raft::{Raft, RaftConfig};
use quorate_order::{Effect, Effects, Input, Order as _, Stored};
use quorate_tls::Session;
use quorate_types::{AgreedTime, InstanceId, RecordId, ReplicaId, RequestNumber, Room, Seq, Slot, Time};
use quorate_wire::{Batch, BatchHeader, ClientMessage, Frame, FrameKind, FrameReader, OutFrame};
use std::io::IoSlice;
use std::time::Instant;

/// The largest frame.
pub(super) const FRAME_BYTES_MAX: u32 = 4 << 20;
/// The only instance.
const ONE: InstanceId = InstanceId::new(1);

/// Time since a beginning.
#[derive(Clone, Copy)]
pub(super) struct Clock(Instant);

impl Clock {
    pub(super) fn new() -> Self {
        Self(Instant::now())
    }

    fn now(self) -> Time {
        Time::from_nanos(u64::try_from(self.0.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }
}

/// Cuts frames from plain bytes, and puts their requests into batches.
pub(super) struct Admit {
    reader: FrameReader,
    admission: Admission,
    answer: Vec<u8>,
    clock: Clock,
}

impl Admit {
    pub(super) fn new(plan: Plan, clock: Clock) -> Self {
        let limits = AdmissionLimits {
            batch_bytes: plan.bytes * plan.commands_per_call,
            ..AdmissionLimits::default()
        };
        let (reader, admission) = (FrameReader::new(FRAME_BYTES_MAX), Admission::new(limits));
        Self { reader, admission, answer: Vec::new(), clock }
    }

    pub(super) fn push(&mut self, plain: &[u8]) {
        self.reader.push_part(plain, 256 << 10);
    }

    /// Gives the batches of the complete frames.
    pub(super) fn batches(&mut self, mut give: impl FnMut(Batch) -> Outcome<()>) -> Outcome<()> {
        while let Some(frame) = self.reader.frame().doing("read a frame")? {
            self.admit(frame)?;
        }
        let time = AgreedTime::from_nanos(self.clock.now().nanos());
        let header = BatchHeader { time, ..BatchHeader::default() };
        while let Some(batch) = self.admission.seal(header) {
            give(batch)?;
        }
        Ok(())
    }

    fn admit(&mut self, frame: Frame) -> Outcome<()> {
        let ClientMessage::Requests(requests) = ClientMessage::decode(frame).doing("read requests")? else {
            return Err(Failure::new("the client reads where it was to write"));
        };
        let terms = Terms {
            in_flight: 0,
            room: Room::Data,
            room_soon: false,
            settled: true,
            forbids: true,
            answer_bytes_max: 1 << 20,
        };
        // The client repeats nothing, so what execution knows is not asked.
        let executed = |_, _| Executed::Not(RequestNumber::ZERO);
        self.admission.requests(&requests, terms, executed, &mut self.answer);
        if self.answer.is_empty() { Ok(()) } else { Err(Failure::new("a request was refused")) }
    }
}

/// Raft with a single voter.
pub(super) struct Ordering {
    raft: Raft,
    effects: Effects,
    clock: Clock,
}

/// What ordering asks for.
pub(super) enum Ordered {
    /// Write this record. Ordering and the log use the same numbers, since there is one instance.
    Persist(Stored),
    Decided(Slot, Batch),
}

impl Ordering {
    pub(super) fn new(clock: Clock) -> Self {
        let me = ReplicaId::new(1);
        let raft = Raft::new(RaftConfig::new(me, vec![me], 1));
        let mut ordering = Self { raft, effects: Effects::new(), clock };
        ordering.raft.start(clock.now(), &mut ordering.effects);
        ordering
    }

    pub(super) fn leads(&self) -> bool {
        self.raft.standing().leading
    }

    /// Sets the clock to the deadline that ordering waits for: waiting would gain nothing.
    pub(super) fn hurry(&mut self) {
        if let Some(at) = self.raft.deadline() {
            self.raft.step(at, Input::Deadline, &mut self.effects);
        }
    }

    pub(super) fn propose(&mut self, batch: Batch) {
        self.raft.step(self.clock.now(), Input::Propose(batch), &mut self.effects);
    }

    pub(super) fn durable(&mut self, record: RecordId) {
        self.raft.step(self.clock.now(), Input::Durable(record), &mut self.effects);
    }

    /// Gives everything that ordering asked for since the last call.
    pub(super) fn take(&mut self, mut give: impl FnMut(Ordered) -> Outcome<()>) -> Outcome<()> {
        self.effects.drain().try_for_each(|effect| match effect {
            Effect::Persist { record, .. } => give(Ordered::Persist(record)),
            Effect::Decided { slot, batch } => give(Ordered::Decided(slot, batch)),
            Effect::Halt(why) => Err(Failure::new(format!("ordering halted: {why:?}"))),
            _ => Ok(()),
        })
    }
}

/// The log: records become blocks. The blocks are not written: a disk would cost all ways the same.
pub(super) struct Logging {
    blocks: Blocks,
    /// A count of bytes, so that the compiler can not leave the work out.
    bytes: u64,
}

impl Logging {
    pub(super) fn new() -> Self {
        let config = LogConfig { sync: SyncMode::Async, ..LogConfig::default() };
        let mut logging = Self { blocks: Blocks::create(1, config), bytes: 0 };
        logging.write();
        logging
    }

    pub(super) fn append(&mut self, record: Stored) -> Outcome<()> {
        let Stored { kind, head, payload } = record;
        let record = Record { instance: ONE, kind, head, payload };
        if self.blocks.append(record.clone(), Class::Data).is_ok() {
            return Ok(());
        }
        // Queued records take the prepared space; a block later there is more.
        self.write();
        self.blocks.append(record, Class::Data).doing("append to the log").map(drop)
    }

    /// Builds blocks from the waiting records. Gives the last durable record.
    pub(super) fn write(&mut self) -> RecordId {
        while let Some(effect) = self.blocks.poll() {
            match effect {
                LogEffect::Write(write) => {
                    self.bytes += write.data.iter().map(|piece| piece.len() as u64).sum::<u64>();
                    self.blocks.written(write.id);
                }
                LogEffect::Prepare { segment } => self.blocks.prepared(segment, Ok(())),
                LogEffect::Sync { id, .. } => self.blocks.synced(id),
            }
        }
        let durable = self.blocks.durable();
        self.blocks.trim(durable);
        durable
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }
}

/// Execution, with or without the merge before it.
pub(super) struct Executing {
    merge: Option<Merge<Batch>>,
    executor: Executor,
    outcomes: Outcomes,
    clock: Clock,
}

impl Executing {
    pub(super) fn new(merged: bool, clock: Clock) -> Outcome<Self> {
        let mut merge = None;
        if merged {
            let config = MergeConfig { window: 256, held_bytes_max: 64 << 20 };
            let merge = merge.insert(Merge::new(config, 1).doing("begin a global log")?);
            merge.leader(ONE, Leader::Here);
            merge.settled(ONE);
        }
        let executor = Executor::new(Box::new(Tally::default()), SessionLimits::default(), AgreedTime::ZERO);
        Ok(Self { merge, executor, outcomes: Outcomes::new(), clock })
    }

    /// Notes that a batch will be proposed; the merge, if there is one, is asked and told as in a replica.
    pub(super) fn proposed(&mut self) {
        if let Some(merge) = &mut self.merge
            && merge.room(ONE) > 0
        {
            merge.proposed(ONE);
        }
    }

    /// Executes a decided batch; appends the replies.
    pub(super) fn decided(&mut self, slot: Slot, batch: Batch, replies: &mut Vec<u8>) -> Outcome<()> {
        let Self { merge, executor, outcomes, clock } = self;
        let Some(merge) = merge else {
            execute(executor, outcomes, executor.seq().next(), &batch, replies);
            return Ok(());
        };
        let what = match batch.no_op_target() {
            Some(target) => Decided::Noop { target },
            None => Decided::Batch { bytes: batch.bytes().len(), payload: batch },
        };
        merge.decided(ONE, RecordIndex(slot.number()), what).doing("merge what was decided")?;
        while let Some(delivered) = merge.next(clock.now()) {
            match delivered {
                Delivered::Batch { seq, payload, .. } => execute(executor, outcomes, seq, &payload, replies),
                Delivered::Noops { last, .. } => executor.pass(last),
            }
        }
        Ok(())
    }

    pub(super) fn totals(&self) -> Outcome<Totals> {
        let mut out = Vec::new();
        self.executor.query(&[], &mut out).map_err(|_| Failure::new("the totals are too large"))?;
        Totals::decode(&out).ok_or_else(|| Failure::new("the totals can not be read"))
    }
}

fn execute(executor: &mut Executor, outcomes: &mut Outcomes, seq: Seq, batch: &Batch, replies: &mut Vec<u8>) {
    executor.execute(seq, batch, outcomes);
    outcomes.replies().for_each(|(_, reply)| reply.write_to(replies));
}

/// A frame of the replies; `None` if there are none.
pub(super) fn reply_frame(replies: &mut Vec<u8>) -> Option<OutFrame> {
    let body = Bytes::from(std::mem::take(replies));
    (!body.is_empty()).then(|| OutFrame::new(FrameKind::Replies, &[], vec![body]))
}

/// Seals a frame for the other side.
pub(super) fn seal(tls: &mut Session, frame: OutFrame, sealed: &mut Vec<u8>) -> Outcome<()> {
    for part in frame.into_parts() {
        let mut left = &part[..];
        while !left.is_empty() {
            let taken = tls.write(&[IoSlice::new(left)]);
            left = &left[taken..];
            while tls.wants_send() {
                tls.send(sealed).doing("seal a frame")?;
            }
        }
    }
    Ok(())
}
