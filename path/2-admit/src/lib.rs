//! Stage 2: authenticate what arrives, drop requests that are in flight already, apply back-pressure, and collect requests in the open
//! batch of their instance.
//!
//! In: frames from connections. Out: verified messages and sealed batches, both for stage 3 (order). Execution, not admission, decides what
//! is a duplicate; admission only keeps duplicates that this leader knows of out of the log.
//!
//! Requests come in by one of two intakes with one interface (`intake.rs`). Where replicas only crash, the leader's word is enough; where
//! they may lie, each replica vouches for what it heard itself (`vouched/`). Tests: `admission/tests.rs`, `vouched/tests.rs` and those
//! beside its parts, `peers/tests.rs`.

mod admission;
mod facts;
mod intake;
mod peers;
mod sift;
mod vouched;

pub use admission::{Admission, AdmissionLimits, Answer, Executed, Terms};
pub use facts::{Facts, Lookup, Place, Sessions};
pub use intake::{Intake, Out, Sender};
pub use peers::{KnownMember, Members, ServedByReplicas, check_identity, verify};
pub use sift::{Sifted, sift};
pub use vouched::heard::HeardLimits;
pub use vouched::{AHEAD_MAX, ChecksAway, Suspect, Vouched, VouchedConfig};
