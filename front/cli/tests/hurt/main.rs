//! Clusters of real processes are hurt while clients write down what they saw. `rig` has the clusters, clients and judges; `filled` fills their state.

mod etcd_full;
mod etcd_kills;
mod etcd_leases;
mod filled;
mod kills;
mod replace_all;
mod rig;
mod state;
mod tmpfs;
mod torn_logs;
mod upgrades;
