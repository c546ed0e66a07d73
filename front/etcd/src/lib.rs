//! The store behind the etcd interface: a service with revisions, ranges, transactions, compaction and leases.
//!
//! [`Etcd`] keeps its state in the object store; it runs as `InStore::new(Etcd::new(config))`. A command or query is one byte for its kind
//! ([`Command`], [`Query`]) and etcd's own request message, as it came over the network. A reply is etcd's own response message without the
//! header. So a server copies bytes and decodes nothing (docs/formats/etcd.md).
//! This crate knows no gRPC: the servers are in a crate of their own.
//!
//! Start with `service.rs`; then `space.rs` (the layout of the object store), `write.rs`, `range.rs`, `txn.rs`, `lease.rs`, `compact.rs`,
//! `auth/`; `watches.rs` decides which watch gets which events; `moving/` reads and writes the files of an etcd.
//! Tests: `tests/`; `tests/all/model` is the same contract in its simplest form.

mod alarms;
mod auth;
mod check;
mod compact;
mod delete;
mod error;
mod events;
mod hash;
mod lease;
pub mod moving;
pub mod proto;
mod range;
mod request;
mod service;
mod size;
mod space;
mod txn;
mod watches;
mod write;

pub use alarms::has_no_space;
pub use auth::manage::AuthQuery;
pub use auth::{TOKEN_BYTES, Who};
pub use error::EtcdError;
pub use events::{EventsPage, EventsQuery, LiveEvent, LiveEvents, Observer, Wants};
pub use hash::{HashPage, HashQuery};
pub use range::{RangePage, RangeQuery};
pub use service::{Command, Done, Etcd, EtcdConfig, Query, Reply, check_invariants};
pub use size::SizeNow;
pub use watches::{WatchName, WatchOutput, WatchSpec, Watches};
