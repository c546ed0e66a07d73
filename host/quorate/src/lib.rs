//! Quorate makes any deterministic service fault tolerant.
//!
//! Write a [`TypedService`], when commands are ordinary Rust types, an [`ObjectService`], when the state is large, or a
//! [`Service`] over bytes; run it on several machines as a [`Replica`], and call it through a [`Client`] or a
//! [`BlockingClient`]. [`LocalCluster`] runs a whole cluster in one process, for a service's own tests; [`twice`] finds
//! what is not deterministic there. With the feature `sim` a service runs in the simulator, on virtual time, with all faults.
//!
//! `examples/counter.rs` is a whole service with a test that stops its leader, `examples/tickets.rs` one in the object store.

pub mod client;
mod local;
pub mod program;
#[cfg(feature = "sim")]
pub mod sim;
mod twice;

pub use client::{BlockingClient, Client, Error, TlsFiles, TypedCallError};
pub use local::{CheckError, LocalCluster};
pub use program::run;
pub use quorate_execute::{
    BatchReplies, CheckpointError, CheckpointSink, CheckpointSource, Context, Entry, Events, FreshKeys,
    InStore, KeyUse, Letter, LetterTooLong, Letters, Map, MembershipNow, ObjectService, Observer, OwnReplies,
    Parallel, ParallelService, Published, ReplySink, Service, SessionEnd, Set, StateRange, StateView, Store,
    Tells, Tracked, Typed, TypedError, TypedService, checkpoint_tracked, decode_letter, decode_reply,
    encode_command, encode_command_since, read_all, read_append, read_exact, restore_tracked,
};
pub use quorate_order::Protocol;
pub use quorate_runtime::{
    Clock, Config, ConfigError, Disk, Durability, MemberConfig, Network, Options, Replica, Running,
    StartError, SystemNetwork,
};
pub use quorate_types::{
    AgreedTime, ClientId, ClusterId, Halt, Items, MembershipId, ReplicaId, RequestNumber, Seq, SessionId,
    Span,
};
pub use twice::twice;

/// The programs in README.md, compiled by the tests.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
pub struct Readme;

/// The programs in docs/evolution.md.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/evolution.md")]
pub struct Evolution;
