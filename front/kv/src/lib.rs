//! The key-value service: put, get, delete, scan, compare-and-swap, transactions; and services for measurements.
//!
//! [`Kv`] keeps its state in the object store ([`quorate_execute::ParallelService`]); it runs as
//! `InStore::new(Parallel::new(Kv::new(config)))`.
//! A client encodes a [`KvCommand`] or [`KvQuery`] and decodes a [`KvReply`]; the bytes are drawn in docs/formats/kv.md. Gets and scans are queries (weak or strong reads) and also
//! commands (ordered like writes). Start with `service.rs`. Tests: `tests/`.

mod codec;
mod echo;
pub mod fuzzing;
pub mod lists;
mod service;
pub mod shop;
mod tally;
mod work;

pub use codec::{Compare, Condition, KvCommand, KvError, KvQuery, KvReply, Malformed, Operation, Scan};
pub use echo::{Echo, echo_command, echo_query};
pub use service::{Kv, KvConfig};
pub use tally::{Tally, Totals};
pub use work::{Tables, Work, WorkCommand, compute};
