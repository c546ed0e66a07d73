//! Stage 1: the client. It numbers requests, keeps sessions, finds the leader, and sends again until there is an answer.
//!
//! In: what callers ask, and what arrives. Out: frames, and completions ([`Effect`]). A plain state machine: the same inputs in the same
//! order give the same effects. The host (`host/quorate`) owns the sockets and the clock.
//!
//! A session's requests are numbered from 1 and sent in order, many at a time. The cluster runs each number once, so sending one again is
//! harmless. When a caller gives up, its number is still used. When a session expires, its unanswered requests are reported as such and
//! never repeated.
//!
//! Where replicas may do anything ([`Config::faults`]), requests go to all of them, and an answer counts once f+1 gave equal ones. The
//! answer to a read counts once a quorum gave it, or once f+1 gave it in the order of commands. The client follows a change of the members
//! once f+1 of those before told of it; or,
//! if it knows their public keys ([`Config::membership`]), once a chain of membership links proves it (`chain.rs`).
//!
//! Start with `core.rs` (the inputs), then `reach/` (where requests go and when an answer counts: to the leader, or to all), `sessions/`
//! (numbers, queues, refusals, time-outs), `reads.rs`, `contacts.rs` (connections), `letters.rs` (what the service sends unasked), `votes.rs` (equal answers) and `combiner.rs` (other
//! ways to compare them). Tests beside each part step it alone.
//! Tests: tests/core.rs, tests/cluster.rs, tests/byzantine.rs, tests/liars.rs, tests/first.rs, tests/members.rs.

mod back_off;
pub mod chain;
mod combiner;
mod config;
mod contact;
mod contacts;
mod core;
mod effects;
mod encode;
mod era;
mod error;
mod letters;
mod parts;
mod reach;
mod reads;
mod sessions;
mod step;
mod votes;

pub use combiner::{Combiner, Combines};
pub use config::{Config, Macs, Signer};
pub use core::{ClientCore, Stats};
pub use effects::{CallId, Completion, Effect, Effects, Input, ReadConsistency, ReplicaReply, SessionHandle};
pub use error::Error;
pub use letters::LetterLimits;
