//! A witness: somebody outside of the replica who hears what happens to batches, for a log of slow requests and for traces. It says nothing
//! back, so nothing that a replica does depends on it, and the core reads no clock for it: a moment has the time of its step, and only the
//! witness knows how long something took within a step. Without a witness nothing here costs anything. Tests: `host/runtime/tests/all/slow.rs`,
//! host/runtime/tests/all/traces.rs.

use quorate_execute::{Executor, Outcome};
use quorate_types::{InstanceId, RecordId, Seq, Time, View};
use quorate_wire::Batch;

/// A batch that the leader made of requests of clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sealed {
    /// Its seed, by which moments of one batch are told from those of another.
    pub seed: u64,
    /// When its first request came in.
    pub since: Time,
    /// When it was proposed.
    pub at: Time,
}

/// A moment in the life of a batch.
#[derive(Clone, Copy)]
pub enum Moment<'a> {
    /// It was made here. Other moments of the same turn may be told before.
    Sealed(Sealed),
    /// It was given to the log as this record; where replicas follow, this is when they have it. `durable`: it is so already.
    Logged {
        /// Its seed.
        seed: u64,
        /// The record.
        record: RecordId,
        /// When.
        at: Time,
        /// Whether the record is durable already.
        durable: bool,
    },
    /// The log is durable up to this record.
    Durable(RecordId, Time),
    /// The replicas agreed on it.
    Decided {
        /// Its seed.
        seed: u64,
        /// When.
        at: Time,
    },
    /// It has its place in the global log, and execution has it.
    Delivered {
        /// Its place.
        seq: Seq,
        /// The batch.
        batch: &'a Batch,
        /// The instance that decided it, and its view.
        instance: (InstanceId, View),
        /// Whether it was proposed here.
        proposed: bool,
        /// When.
        at: Time,
    },
    /// Execution begins with the next delivered batch now, within the step. Not told where commands run side by side.
    Executes,
    /// It is executed and final now, within the step.
    Executed {
        /// Its place.
        seq: Seq,
        /// What became of its requests.
        outcomes: &'a [Outcome],
        /// The final state, which knows whose sessions these are.
        executor: &'a Executor,
    },
    /// The replies to everything that was executed have left, now.
    Replied,
}

/// See the module.
pub trait Witness: Send {
    /// Hears of a moment.
    fn hears(&mut self, moment: Moment<'_>);
}

/// A record that the log was given, if it is a batch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Logged {
    pub(crate) seed: u64,
    pub(crate) record: RecordId,
    /// Whether it is durable already.
    pub(crate) durable: bool,
}

/// What byte 20 of a batch may be that is no no-op (`base/wire/src/batch.rs`).
const WHATS: u8 = 1 | 4 | 8;

/// The seed of a batch, or of the batch that a record is; none of a no-op, and of records that hold something else.
pub(crate) fn seed_in(bytes: &[u8]) -> Option<u64> {
    let header = bytes.first_chunk::<{ Batch::HEADER }>()?;
    let is_batch = header[20] & !WHATS == 0 && header[21..] == [0; 3];
    let seed = header[8..].first_chunk::<8>()?;
    is_batch.then(|| u64::from_le_bytes(*seed))
}
