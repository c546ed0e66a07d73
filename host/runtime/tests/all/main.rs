//! Replicas with real sockets, disks and threads, in this process. One binary for all of it: each has to be linked with everything.

mod checkpoints;
mod common;
mod config;
mod directory;
mod faults;
mod health;
mod lanes;
mod leases;
mod links;
mod rot;
mod sessions;
mod slow;
mod traces;
