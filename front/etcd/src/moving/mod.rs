//! Moving in and out: reads what an etcd saved as a store of ours, and writes a store of ours so that an etcd takes it.
//!
//! `bolt` is the file format, `layout` what etcd keeps in it, `import` and `export` the two directions, `bcrypt` what etcd hashes passwords
//! with. Source: `server/storage/schema`, `server/storage/mvcc/kvstore.go` and `server/lease/lessor.go` of etcd 3.6.16.
//! Tests: `tests.rs`, and with real servers `front/cli/tests/all/etcd/moving.rs`.

pub mod bcrypt;
mod bolt;
mod export;
mod import;
mod layout;
#[cfg(test)]
mod tests;

pub use bolt::BoltError;
pub use export::{ExportError, Exported, write};
pub use import::{Counts, ImportError, Imported, read};
