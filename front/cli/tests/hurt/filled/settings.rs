//! Clusters whose borders are close to each other.

use crate::rig::cluster::{Cluster, REPLICAS};
use crate::rig::random::Random;
use std::fmt::Write as _;

/// The smallest interval that the configuration takes.
pub(crate) const INTERVAL_MIN: u64 = 64 << 10;
/// The smallest segments that it takes, in MiB.
pub(crate) const SEGMENT_MIB: u64 = 20;

/// `[checkpoints]` as a test wants it.
#[derive(Clone, Copy)]
pub(crate) struct Settings {
    pub(crate) mode: &'static str,
    pub(crate) interval_bytes: u64,
    pub(crate) full_every: u32,
    /// For sending the state; 0 is no limit.
    pub(crate) transfer_rate_bytes: u64,
    /// Commands run side by side, however short they are.
    pub(crate) ordered: bool,
    /// Whether commands run in waves on workers, in one memory.
    pub(crate) speculative: bool,
    /// Whether replicas compare results.
    pub(crate) verify: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            mode: "differential",
            interval_bytes: INTERVAL_MIN,
            full_every: 4,
            transfer_rate_bytes: 0,
            ordered: false,
            speculative: false,
            verify: false,
        }
    }
}

impl Settings {
    /// Writes it into the files of a cluster that was not started yet.
    pub(crate) fn configure(self, cluster: &Cluster) {
        for at in 0..REPLICAS {
            let file = cluster.home(at).join("replica.toml");
            let mut text = std::fs::read_to_string(&file).unwrap();
            assert!(!text.contains("[checkpoints]"), "{text}");
            let Self { mode, interval_bytes, full_every, transfer_rate_bytes, ordered, speculative, verify } =
                self;
            write!(
                text,
                "\n[checkpoints]\nmode = \"{mode}\"\ninterval_bytes = {interval_bytes}\ninterval_state_percent = 0\nfull_every = {full_every}\n\
                 rate_bytes = 0\ntransfer_rate_bytes = {transfer_rate_bytes}\n"
            )
            .unwrap();
            if ordered || speculative || verify {
                text.push_str("\n[execution]\n");
            }
            if verify || speculative {
                text.push_str("verify = true\n");
            }
            if speculative {
                text.push_str("executor = \"speculative\"\nworkers = 4\nlong_us = 0\n");
            }
            if ordered {
                text.push_str("executor = \"ordered\"\nworkers = 4\nlong_us = 0\n");
            }
            std::fs::write(&file, text).unwrap();
        }
    }

    /// A cluster like that, at work.
    pub(crate) fn started(self, name: &str, random: &mut Random) -> Cluster {
        let mut cluster = Cluster::new(name, SEGMENT_MIB, random);
        self.configure(&cluster);
        cluster.heal();
        cluster.wait_for_leader();
        cluster
    }
}
