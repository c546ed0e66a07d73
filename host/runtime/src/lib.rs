//! Runs a node in the real world. One thread runs the lane (sockets, protocol, service), one writes and syncs the log, one prepares
//! segments and reads old records back. Workers do what any thread can do (`workers.rs`).
//!
//! Start with `replica.rs` (how a replica starts and stops), then `lane.rs` (the loop). `disk.rs` and `clock.rs` have two traits that tests
//! replace. fsync never runs on a lane.

mod calls;
mod cells;
mod chain_files;
mod clerk;
mod clock;
mod config;
mod connection;
mod directory;
mod disk;
mod disk_thread;
mod era;
mod event_log;
mod evidence;
mod facts;
mod files;
mod health;
mod keeper_thread;
mod kept_files;
mod lane;
#[cfg(test)]
mod logged;
mod metrics;
mod mouth;
mod network;
mod newest;
mod open_files;
mod oracle;
mod ports;
mod replica;
mod stages;
mod throttle;
mod traces;
mod workers;

pub use calls::{Calls, FrontCalls};
pub use clock::{Clock, Jumps, MonotonicClock};
pub use config::UpgradeConfig;
pub use config::{
    AccessConfig, AdministrationConfig, Auto, CheckpointConfig, CheckpointMode, ClientAccess, Config,
    ConfigError, Cores, Durability, DurabilityConfig, ExecutionConfig, ExecutorCount, ExecutorKind,
    MemberConfig, NEEDS_AN_ORACLE, NEEDS_THE_RULE, OracleConfig, Others, Pillars, PlacementConfig,
    ReadsConfig, ServiceConfig, SigningConfig, SigningKey, TelemetryConfig, TimingConfig, WorkerCount,
};
pub use directory::{DataDirectory, DirectoryError, Identity};
pub use disk::{DelayedDisk, Disk, FileDisk, Quota};
pub use era::EraOnDisk;
pub use facts::memory_bytes;
pub use files::{CheckpointFiles, FileError, MemoryFiles};
pub use lane::{Lateness, Partition};
pub use metrics::{Kind as MetricKind, METRICS, Metric};
pub use mouth::{Listener, Mouth, Saying};
pub use network::{Network, SystemNetwork};
pub use newest::{Newest, NewestReader, NewestWriter, Wake};
pub use oracle::{Held, MemoryOracle, Oracle};
pub use ports::free_ports;
pub use quorate_node::NodeStatus;
pub use quorate_order::mod_smart::Group;
pub use quorate_tls::{CredentialsError, TlsFiles};
pub use replica::{Asker, Options, Reloader, Replica, Running, StartError, Stopper};
