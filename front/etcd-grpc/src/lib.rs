//! etcd's interface over the network, in front of the store of `quorate-etcd`.
//!
//! [`Front`] listens for clients of etcd and works for one replica. Changes are ordered, many in one request (`backend.rs`). Watches are
//! served from what this replica executes (`hub.rs`, `watch.rs`). Messages of the key-value, lease and watch services are passed on as they
//! are; the other services use messages generated from `proto/`. What other fronts need as well is in `quorate-kit`.
//!
//! Start with `server.rs` (connections and paths), then `kv.rs`. docs/etcd.md lists what is supported.
//! Tests: `tests/`, and with real clients `front/cli/tests/all/etcd.rs`.

mod asker;
mod auth;
mod backend;
mod calls;
mod cluster;
mod errors;
mod framing;
mod gateway;
mod header;
mod hub;
mod json;
mod jwt;
mod kv;
mod lease;
mod lines;
mod maintenance;
mod objects;
mod operator;
mod password;
pub mod pb;
mod recipes;
pub mod saved;
mod server;
mod settings;
mod upkeep;
mod watch;
mod watchers;

pub use hub::Hub;
pub use server::{Front, FrontConfig, StartError, TokenConfig};
pub use settings::{EtcdSettings, TokenSettings};
pub use upkeep::{AutoCompaction, UpkeepConfig};
