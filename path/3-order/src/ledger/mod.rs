//! What every protocol keeps beside its rules: records and their numbers, what was trimmed, what is read back from disk, what a restart
//! finds, and decided slots that are handed on in order.
//!
//! Protocols differ in how a slot is decided. They do not differ in what becomes of it afterwards, and in what a restart needs of the log:
//! that stands here, once. Each part owns a few fields and is reached through its inputs, so that it can be stepped alone (tests/).
//!
//! | part | knows | used by |
//! | --- | --- | --- |
//! | [`Records`] | numbers, what is durable, FLOOR records, the lowest record that must stay | all |
//! | [`Question`] | what is being read back, held by whoever waits for it | all |
//! | [`Delivery`] | how far decided slots were handed on | all |
//! | [`Ledger`] | the decided slots with their proofs, over the parts above; restoring them, also after gaps; checkpoints | who decides slot by slot |
//!
//! Raft's log of indexes, which may be replaced behind what is committed, is its own (`raft/log.rs`); it uses the first three.
//!
//! Invariants: INV-LEDGER-1 to INV-LEDGER-5.

mod delivery;
mod format;
#[allow(clippy::module_inception, reason = "the part that gave the folder its name")]
mod ledger;
mod loads;
mod proof;
mod records;
mod replay;
mod slots;

pub use delivery::Delivery;
pub use format::{Decided, Floor, RECORD_DECIDED, RECORD_FLOOR};
pub(crate) use format::{batch_of, u64_at, unreadable};
pub use ledger::{Ledger, RecordedBatch, read_back};
pub use loads::Question;
pub use proof::Proof;
pub(crate) use proof::{put_optional_proof, put_proof, read_optional_proof, read_proof};
pub use records::Records;
pub use replay::Votes;

use quorate_types::Halt;

/// The log can not be trusted, for this reason.
pub fn inconsistent(why: impl Into<String>) -> Halt {
    Halt::LogInconsistent { why: why.into() }
}

#[cfg(test)]
mod tests;
