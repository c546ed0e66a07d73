//! Quorate, a replication engine: what users depend on.
//!
//! [`client`] talks to a cluster, asynchronously on any runtime ([`client::Client`]) or blocking
//! ([`client::BlockingClient`]).

pub mod client;

pub use client::{BlockingClient, Client, Error};
