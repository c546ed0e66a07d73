//! Runs whole clusters and their clients in one thread on virtual time, from one seed, with everything going wrong, and checks
//! what clients saw and what replicas did. The code that runs is the real one: host/node, the client core, the wire format,
//! the log.
//!
//! Start with `world.rs` (one run), then `plan.rs` (what a seed decides) and `checks.rs` (what must hold). docs/testing.md tells
//! how to repeat a failure, and how to write a scenario, a fault and a checker.

pub mod alone;
pub mod campaign;
pub mod cells;
pub mod checks;
pub mod client;
pub mod clock;
pub mod command;
pub mod disk;
pub mod files;
pub mod guest;
pub mod hashes;
pub mod html;
pub mod late;
pub mod liars;
pub mod nested;
pub mod net;
pub mod plan;
pub mod planted;
pub mod processes;
pub mod queue;
pub mod racy;
pub mod random;
pub mod replica;
pub mod service;
pub mod shrink;
pub mod timeline;
pub mod trace;
pub mod trips;
pub mod watching;
pub mod work;
pub mod world;

pub use plan::{ExecutorKind, Fault, Focus, Plan, Profile};
pub use quorate_log::SyncMode;
pub use quorate_types::HAS_PLANTED;
pub use trace::{Level, Trace};
pub use world::{Report, World};
