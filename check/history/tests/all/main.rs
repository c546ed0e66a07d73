//! The judges of histories: known ones, random ones beside brute force, and bugs that must be seen. One binary for all of it: each has to be linked.

mod brute_force;
mod common;
mod exactly_once;
mod format;
mod known_histories;
mod other_models;
mod planted_bug;
mod speed;
