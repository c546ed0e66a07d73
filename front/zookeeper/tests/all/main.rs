//! The records of the protocol, byte by byte, and the rules for paths. One binary for all of it: each has to be linked.

mod admin;
mod differential;
mod feed;
mod frames;
mod import;
mod jute;
mod members;
mod path;
mod quota;
mod reading;
mod records;
mod requests;
mod sasl;
mod server;
mod service;
mod sessions;
mod support;
mod tree;
mod watches;
mod words;
mod world;
