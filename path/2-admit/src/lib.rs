//! Stage 2: authenticate what arrives, drop what is in flight already, apply back-pressure, and collect requests in the open
//! batch of their instance.
//!
//! In: frames from connections. Out: verified messages and sealed batches, both for stage 3 (order). Execution, not
//! admission, decides what is a duplicate; admission only spares the log what this leader knows to be one.
//! Tests: `admission/tests.rs`, `heard/tests.rs`, `peers/tests.rs`.

mod admission;
mod heard;
mod peers;

pub use admission::{Admission, AdmissionLimits, Answer, Executed, Terms};
pub use heard::{Heard, HeardLimits, Late, Owner};
pub use peers::{Ids, Member, Members, ServedByReplicas, check_identity, verify};
