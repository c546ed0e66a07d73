//! ZooKeeper's client port, in front of the tree of `quorate-zookeeper`.
//!
//! [`Front`] listens for clients of ZooKeeper and works for one replica. What it does with frames, answers and events is decided by the
//! server of `quorate-zookeeper`, which has no sockets and no clocks; this package gives it both. Start with `front.rs`, then
//! `connection.rs`; `admin.rs` is the admin server. docs/zookeeper.md lists what is supported. Tests: with real clients, front/cli/tests/all/zookeeper.rs.

mod admin;
mod connection;
mod front;
mod members;
mod outbox;
mod secrets;
mod settings;

pub use front::{Front, FrontConfig};
pub use secrets::session_digest;
pub use settings::{Reads, ZooKeeperSettings};
