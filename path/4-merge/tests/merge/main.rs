//! The merge against models of it. One program, so that what puts bugs back can run what finds them.

mod changes;
mod checkpoints;
mod cluster;
mod common;
mod deliver;
mod fill;
mod model;
mod planted;
mod reads;
