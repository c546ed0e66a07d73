//! Whole clusters in one thread. One binary for all of it: each has to be linked with everything. The search for planted bugs has its own, `planted.rs`.

mod apart;
mod asleep;
mod checkers;
mod command;
mod costs;
mod count;
mod focus;
mod hashes;
mod hybrid;
mod jumps;
mod late;
mod liars;
mod ring;
mod rotation;
mod seeds;
mod shrink;
mod signed;
mod starved;
mod stopped;
mod tags;
mod time;
mod toy;
mod trips;
mod visigoth;
mod watches;
mod work;
