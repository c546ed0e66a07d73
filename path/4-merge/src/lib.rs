//! Stage 4: one global log of the logs of many instances (paper: sequencer).
//!
//! In: what each instance decided, from stage 3 (order). Out: batches in the order of the global log, to stage 5 (execute). The order is
//! fixed before anything is decided: slot 1 of instance 1, of 2, ... of R, slot 2 of instance 1, and so on. So all replicas merge alike
//! without exchanging a word. The price: nothing passes an instance that has nothing to propose, so it is filled with no-ops, one record
//! for many slots.
//!
//! [`Merge`] is a plain state machine without I/O; it never looks into a batch. A host uses it like this:
//!
//! - an instance decided something: call [`Merge::decided`], then [`Merge::next`] until it returns nothing. Execute each batch before
//!   taking the next. If a batch holds a command for another number of instances, call [`Merge::change`] while that batch is the last one
//!   taken;
//! - an instance has another leader: [`Merge::leader`]; this replica leads and knows what was decided before: [`Merge::settled`];
//! - at the end of a turn, for instances that lead here and may propose: propose while [`Merge::room`] allows it, and report each batch
//!   with [`Merge::proposed`]; then call [`Merge::reads`], [`Merge::fill`] for the instances that lead here, and [`Merge::asks`] for the
//!   others. What another replica asks for goes to [`Merge::asked`];
//! - the leader of an instance on another lane has a [`Proposer`] there. The proposer is given [`Merge::bounds`] when they change, and its
//!   proposals are reported with [`Merge::proposes_apart`];
//! - strong reads: ask the leader of [`Merge::read_through`], and give its answer to [`Merge::read_confirmed`];
//! - checkpoints: [`Merge::checkpoint`], [`Merge::restore`], [`Merge::jump`].
//!
//! ```
//! use quorate_merge::{Config, Decided, Delivered, Leader, Merge, RecordIndex};
//! use quorate_types::{InstanceId, Slot, Time};
//!
//! let mut merge = Merge::new(Config { window: 64, held_bytes_max: 1 << 20 }, 2)?;
//! let (one, two) = (InstanceId::new(1), InstanceId::new(2));
//! merge.leader(one, Leader::Here);
//! merge.settled(one);
//! merge.decided(two, RecordIndex(1), Decided::Batch { payload: "b", bytes: 1 })?;
//! assert_eq!(merge.next(Time::ZERO), None); // slot 1 of instance 1 comes first
//! assert_eq!(merge.fill(one), Some(Slot::new(1))); // its leader sits here: it proposes a no-op
//! merge.decided(one, RecordIndex(1), Decided::Noop { target: Slot::new(1) })?;
//! assert!(matches!(merge.next(Time::ZERO), Some(Delivered::Noops { .. })));
//! assert!(matches!(merge.next(Time::ZERO), Some(Delivered::Batch { payload: "b", .. })));
//! # Ok::<(), quorate_merge::Refused>(())
//! ```
//!
//! Sources: Deyerl and Distler, "In Search of a Scalable Raft-based Replication Architecture", PaPoC 2019 (sections 3.2 to 3.5); Behl,
//! Distler and Kapitza, "Consensus-Oriented Parallelization", Middleware 2015. docs/protocols/merge.md has the protocol in numbered lines,
//! and how it departs from them. Invariants: INV-MERGE-1 to 7 (`invariants.rs`). Tests: `tests/`; golden scripts:
//! check/script/scripts/merge.

mod change;
mod checkpoint;
mod course;
mod fill;
mod generation;
mod invariants;
mod local;
mod merge;
mod metrics;
mod propose;
mod reads;
mod refused;
mod wanted;

pub use checkpoint::{Checkpoint, InstanceAt};
pub use fill::Leader;
pub use generation::{Generation, INSTANCES_MAX, Place, SLOT_MAX, WINDOW_MAX, WINDOW_MIN};
pub use local::{Decided, RecordIndex};
pub use merge::{Config, Delivered, Merge};
pub use metrics::{Counts, InstanceStatus, Status, Waits};
pub use propose::{Bounds, Proposer};
pub use reads::ReadEnd;
pub use refused::Refused;
