//! Tests of Raft: `chaos` runs whole clusters through random schedules, the others look at one delicate point each.

mod asking;
mod cache;
mod changes;
mod chaos;
mod checkpoints;
mod commit;
mod election;
mod gaps;
mod hostile;
mod leading;
mod leases;
mod log;
mod members;
mod one;
#[cfg(planted)]
mod planted;
mod reads;
mod replication;
mod restart;
mod stays;
mod store;
mod term;
mod timer;
mod transfer;
mod votes;
mod world;
