//! The library as programs use it: clients, services, clusters in one process. One binary for all of it: each has to be linked with everything.

mod client;
mod count;
mod deadlines;
mod evolution;
mod examples;
mod executors;
mod exported;
mod fake;
mod few;
mod letters;
mod liars;
mod long_commands;
mod own_replies;
mod panics;
#[cfg(feature = "sim")]
mod simulated;
mod twice;
mod typed;
mod workers;
