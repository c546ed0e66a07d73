//! ZooKeeper's client protocol, with its records, error codes and path rules, and its tree of nodes in the object store.
//!
//! Source: the protocol definition `zookeeper.jute` of Apache ZooKeeper 3.9, and the behaviour of its release 3.9.4.

pub mod command;
pub mod error;
pub mod feed;
pub mod import;
pub mod jute;
pub mod members;
pub mod op;
pub mod path;
pub mod records;
pub mod request;
pub mod server;
pub mod service;
mod sessions;
pub mod tree;
