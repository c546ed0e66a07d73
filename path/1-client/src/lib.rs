//! Stage 1: the client. Numbers requests, keeps sessions, finds the leader, sends again until there is an answer.
//!
//! In: what callers ask and what arrives. Out: frames, and completions ([`Effect`]). A plain state machine: the same inputs
//! in the same order give the same effects. Whoever drives it owns the sockets and the clock (`host/quorate`).
//!
//! A session's requests are numbered from 1 and sent in order, many at a time; the cluster runs each number once, so
//! sending one again is harmless. When a caller gives up, its number is used all the same. What was unanswered when a
//! session expired is reported as such and never repeated.
//!
//! Start with `core.rs` (connections and the leader), then `session.rs` (one session's queue) and `sessions.rs`.
//! Tests: tests/core.rs, tests/cluster.rs.

mod back_off;
mod config;
mod core;
mod effects;
mod encode;
mod error;
mod link;
mod reads;
mod session;
mod sessions;

pub use config::Config;
pub use core::{ClientCore, Stats};
pub use effects::{CallId, Completion, Effect, Effects, Input, ReadConsistency, SessionHandle};
pub use error::Error;
