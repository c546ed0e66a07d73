//! Stage 1: the client. Numbers requests, keeps sessions, finds the leader, sends again until there is an answer.
//!
//! In: what callers ask and what arrives. Out: frames, and completions ([`Effect`]). A plain state machine: the same inputs
//! in the same order give the same effects. Whoever drives it owns the sockets and the clock (`host/quorate`).
//!
//! A session's requests are numbered from 1 and sent in order, many at a time; the cluster runs each number once, so
//! sending one again is harmless. When a caller gives up, its number is used all the same. What was unanswered when a
//! session expired is reported as such and never repeated.
//!
//! Where replicas may do anything ([`Config::faults`]), requests go to all of them, and an answer is true once f+1 of them gave
//! equal ones; a read's answer is true once a quorum gave it, or when f+1 gave it in the order of commands.
//!
//! Start with `core.rs` (connections and the leader), then `session.rs` (one session's queue), `sessions.rs` and `sending.rs`. For
//! Byzantine faults: `votes.rs` (when an answer counts), `combiner.rs` (other ways to compare), `byzantine.rs` (what answers do), `spread.rs` (sending to all), `first.rs` (to the leader first),
//! `tagging.rs`, `repliers.rs` (who answers), `unordered.rs` and `queries.rs` (reads).
//! Tests: tests/core.rs, tests/cluster.rs, tests/byzantine.rs, tests/liars.rs, tests/first.rs.

mod back_off;
mod byzantine;
mod combiner;
mod config;
mod core;
mod effects;
mod encode;
mod error;
mod first;
mod link;
mod queries;
mod reads;
mod repliers;
mod sending;
mod session;
mod sessions;
mod spread;
mod tagging;
mod unordered;
mod votes;

pub use combiner::{Combiner, Combines};
pub use config::{Config, Macs, Signer};
pub use core::{ClientCore, Stats};
pub use effects::{CallId, Completion, Effect, Effects, Input, ReadConsistency, SessionHandle};
pub use error::Error;
