//! Stage 5: run delivered batches on the service, each request once, and remember what was answered.
//!
//! In: batches in seq order, from stage 4 (merge). Out: [`Outcomes`], to stage 6 (reply). A user of Quorate writes a
//! [`Service`], or a [`TypedService`] when commands are ordinary Rust types; everything else here is the engine's.
//!
//! The session table and the replies it keeps live here rather than in stage 6, since whether a request runs depends
//! on them: they are part of the replicated state (docs/decisions/0001-reply-cache-beside-the-sessions.md).
//!
//! Everything is deterministic: equal batches in equal order give equal outcomes and equal checkpoint bytes.
//! Invariants: INV-EXEC-1 to 4 (`sequential.rs`), INV-SESSION-1 to 6 (`sessions.rs`). Tests: `tests/`.
//!
//! A whole service:
//! ```
//! use quorate_execute::{Context, TypedService};
//! use serde::{Deserialize, Serialize};
//!
//! #[derive(Default, Serialize, Deserialize)]
//! struct Counter {
//!     value: i64,
//! }
//!
//! #[derive(Serialize, Deserialize)]
//! enum Change {
//!     Add(i64),
//!     Reset,
//! }
//!
//! impl TypedService for Counter {
//!     type Command = Change;
//!     type Reply = i64;
//!     type Query = ();
//!     type Answer = i64;
//!
//!     fn execute(&mut self, change: Change, _: &Context) -> i64 {
//!         match change {
//!             Change::Add(amount) => self.value = self.value.wrapping_add(amount),
//!             Change::Reset => self.value = 0,
//!         }
//!         self.value
//!     }
//!     fn query(&self, _: (), _: &Context) -> i64 {
//!         self.value
//!     }
//! }
//! ```

mod checkpoint;
mod context;
mod outcomes;
mod sequential;
mod service;
mod sessions;
mod typed;

pub use checkpoint::{CheckpointError, CheckpointSink, CheckpointSource, read_all, read_append, read_exact};
pub use context::Context;
pub use outcomes::{Outcome, Outcomes};
pub use quorate_types::Random;
pub use sequential::Executor;
pub use service::{BatchReplies, ReplySink, ReplyTooLarge, Service};
pub use sessions::{Lookup, SessionLimits, SessionTable, Verdict};
pub use typed::{Typed, TypedError, TypedService, decode_reply, encode_command};
