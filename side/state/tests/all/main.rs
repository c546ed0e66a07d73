//! The store, checkpoints and transfers, against models and with what goes wrong. One binary for all of it: each has to be linked.

mod checkpoint_common;
mod checkpoint_digests;
mod checkpoint_fuzz;
mod checkpoint_jobs;
mod checkpoint_model;
mod checkpoint_note;
mod checkpoint_partial;
#[cfg(planted)]
mod checkpoint_planted;
mod checkpoint_rot;
mod checkpoint_same;
mod checkpoint_single;
mod checkpoint_versions;
mod reference;
mod store;
mod store_bulk;
mod store_edges;
#[cfg(planted)]
mod store_planted;
mod store_proof;
mod transfer;
mod transfer_serve;
