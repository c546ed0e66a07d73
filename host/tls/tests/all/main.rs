//! Sessions and certificates. What ends its own process is in `exit.rs`, a binary of its own.

mod certificates;
mod common;
mod sessions;
