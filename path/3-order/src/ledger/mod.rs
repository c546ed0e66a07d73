//! What every protocol keeps beside its rules: records and their numbers, where the log begins, questions to the disk, restarts, and the
//! delivery of decided slots in order.
//!
//! Protocols differ in how a slot is decided. They do not differ in what happens afterwards, or in what a restart needs of the log, so that
//! code stands here once. Each part owns a few fields and is stepped through its inputs, so that tests step it alone (tests/).
//!
//! | part | knows | used by |
//! | --- | --- | --- |
//! | [`Records`] | numbers, what is durable, FLOOR records, the lowest record that must stay | all |
//! | [`Question`] | what is being read back; the part that asked keeps it | all |
//! | [`Delivery`] | how far decided slots were handed on | all |
//! | [`Ledger`] | the decided slots with their proofs, over the parts above; restoring them, also after gaps; checkpoints | protocols that decide slot by slot |
//!
//! Raft has a log of indexes whose end may be replaced as long as it is not committed (`raft/log.rs`). It uses the first three parts only.
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

/// The halt that says, for this reason, that the log can not be trusted.
pub fn inconsistent(why: impl Into<String>) -> Halt {
    Halt::LogInconsistent { why: why.into() }
}

#[cfg(test)]
mod tests;
