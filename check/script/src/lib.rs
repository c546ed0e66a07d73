//! Golden scripts: text in, text out. A script tells a story in commands and pins every event that follows from them, so
//! that a protocol can be read, and a change of its behaviour is a diff.
//!
//! ```text
//! # A leader decides what a majority holds.
//! cluster n=3
//! expire r1; run quiet
//! ---
//! r1  leads v1
//! ...
//! ```
//!
//! [`check_file`] runs a script against a [`Harness`]; [`raft::Cluster`] is the one for Raft, [`merge::Replicas`] the one for the
//! merge, [`nested::Shop`] the one for services that ask others; their modules list the commands. With `QUORATE_UPDATE=1` in the environment tests
//! write the expected output anew. Scripts stand in
//! `scripts/`, a folder for each subject, in the order in which its `README.md` lists them; the suite that every protocol passes is
//! `tests/all/order_suite.rs`. Tests of the runner itself: `src/*/tests.rs`.

mod command;
mod diff;
mod harness;
pub mod merge;
pub mod mod_smart;
pub mod nested;
pub mod raft;
mod script;
pub mod world;

pub use command::Command;
pub use diff::diff;
pub use harness::{Failure, Harness, check_file, run, updates_wanted};
pub use script::{Block, Part, Script, ScriptError};
