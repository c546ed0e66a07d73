//! What the log promises, over random lives, crashes and damage, and the bytes it writes. One binary for all of it: each has to be linked.

mod common;
mod crash;
mod fuzz;
mod golden;
mod rot;
