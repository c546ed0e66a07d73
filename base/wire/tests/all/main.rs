//! The bytes of frames and messages: golden ones, random ones, and those of the fuzz targets. One binary for all of it: each has to be linked.

mod common;
mod corpus;
mod golden;
mod neighbours;
mod properties;
