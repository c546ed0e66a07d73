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
//! Start with `core.rs` (what comes in), then `reach/` (to whom requests go and when an answer is true: to the leader, or to all), `sessions/`
//! (numbers, queues, refusals, time-outs), `reads.rs`, `contacts.rs` (connections), `votes.rs` (equal answers) and `combiner.rs` (other ways to
//! compare them). Each part is stepped alone by tests beside it.
//! Tests: tests/core.rs, tests/cluster.rs, tests/byzantine.rs, tests/liars.rs, tests/first.rs.

mod back_off;
mod combiner;
mod config;
mod contact;
mod contacts;
mod core;
mod effects;
mod encode;
mod error;
mod parts;
mod reach;
mod reads;
mod sessions;
mod step;
mod votes;

pub use combiner::{Combiner, Combines};
pub use config::{Config, Macs, Signer};
pub use core::{ClientCore, Stats};
pub use effects::{CallId, Completion, Effect, Effects, Input, ReadConsistency, SessionHandle};
pub use error::Error;
