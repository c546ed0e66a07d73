//! Transfers in a simulated network: loss, delay, duplicates, lies, stalls and crashes of either side, and checkpoints that are
//! forgotten in the middle. Whatever happens, a transfer ends with exactly the agreed state and never takes a wrong byte.

mod scenarios;
mod seeds;
mod slow;
mod states;
mod world;
