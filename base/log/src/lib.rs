//! The replica's one write-ahead log, as logic without I/O: record format, segment plan, group commit, recovery.
//!
//! All instances of a replica share it. The host (the runtime, or the simulator) does the reads, writes and syncs that [`Log::poll`]
//! returns, and reports what completed. At the start it feeds the segments to [`Recovery`]. docs/formats/log.md draws the bytes, and argues
//! how a torn tail is told from rot and why a stale block never comes back.
//!
//! Where to start: `format.rs` (the bytes), `writer.rs` (group commit and room), `recover.rs` (the damage rule), `recover/beyond.rs` (where
//! the log continues after damage).
//!
//! Invariants: INV-LOG-1 to INV-LOG-6 are asserted by [`Log`], INV-LOG-7 to INV-LOG-10 are about what recovery
//! finds. Tests: `format/tests.rs` (golden bytes), `writer/tests.rs` (group commit, room, full disk),
//! `recover/tests.rs` (the damage rule, case by case), `tests/all/crash.rs` (random crashes), `tests/all/rot.rs` (random
//! bit flips), `tests/all/fuzz.rs` (arbitrary bytes).

mod block;
mod config;
mod format;
pub mod fuzzing;
mod index;
mod recover;
mod scrub;
mod writer;

pub use config::{Class, ConfigError, LogConfig, SyncMode};
pub use format::{FORMAT_VERSION, Record, SECTOR};
pub use index::Extent;
pub use recover::{Damage, RecoverError, Recovered, Recovery, Rewrite};
pub use scrub::{Rot, ScrubOk, scrub};
pub use writer::{AppendError, DiskFull, Log, LogEffect, SyncId, Write, WriteId};
