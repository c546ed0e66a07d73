//! Golden scripts, and the suite that every ordering protocol must pass. One binary for all of it: each has to be linked.

mod golden;
mod merge;
mod mod_smart;
mod nested;
mod order_suite;
mod raft;
mod suite;
mod toy;
mod visigoth;
