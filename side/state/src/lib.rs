//! The state beside the path: objects by key with digests, checkpoints of them, and their transfer between replicas.
//!
//! `store` holds the objects, `checkpoint` writes and reads checkpoints, `agreement` compares digests, `transfer` fetches what a replica
//! lacks. There is no I/O here: files are a trait that the host implements; messages and time are arguments.

pub mod agreement;
pub mod checkpoint;
pub mod store;
pub mod transfer;
