//! Replicas that are cut off from others, whose disk is full, or whose clock jumps, for `quorate chaos partition | fill-disk | clock-jump`.
//!
//! That happens only if `dev` started the replica, and only as the file says that `dev` named. Tests:
//! front/cli/tests/all/chaos.rs.

use super::word;
use quorate_runtime::{Jumps, Partition, Quota};
use serde::{Deserialize, Serialize};
use std::io;
use std::path::{Path, PathBuf};

/// The most MiB that a full disk has left: the same in bytes is a number.
pub const MIB_MAX: u64 = 1 << 30;
/// By how many milliseconds a clock jumps at most in one go: a day.
pub const JUMP_MS_MAX: i64 = 24 * 3_600_000;

/// What is done to a replica.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Hurt {
    /// Replicas that it is cut off from.
    pub apart: Vec<u16>,
    /// How many MiB it may still put on its disk; `None`: as many as there are.
    pub disk_mib: Option<u64>,
    /// By how many milliseconds its clock has jumped in all.
    pub clock_ms: i64,
}

impl Hurt {
    /// Writes this into the file that a replica reads.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn tell(&self, file: &Path) -> io::Result<()> {
        let text = toml::to_string(self).map_err(io::Error::other)?;
        word::write(file, &text)
    }
}

/// The parts of a replica that hear of it.
#[derive(Clone, Debug, Default)]
pub struct Parts {
    /// From whom it is cut off.
    pub partition: Partition,
    /// How much it may put on its disk.
    pub quota: Quota,
    /// By how much its clock has jumped.
    pub jumps: Jumps,
}

impl Parts {
    /// Adopts what changed.
    fn hear(&self, before: &Hurt, now: &Hurt) {
        if now.apart != before.apart {
            self.partition.set(now.apart.iter().copied());
            match now.apart.is_empty() {
                true => tracing::warn!("this replica is cut off from nobody any more"),
                false => tracing::warn!("this replica is cut off from now on, from {:?}", now.apart),
            }
        }
        if now.disk_mib != before.disk_mib {
            self.quota.set(now.disk_mib.map(|mib| mib.min(MIB_MAX) << 20));
            match now.disk_mib {
                Some(mib) => tracing::warn!("the disk of this replica has {mib} MiB left from now on"),
                None => tracing::warn!("the disk of this replica has all its room again"),
            }
        }
        if now.clock_ms != before.clock_ms {
            self.jumps.set(now.clock_ms);
            let ms = now.clock_ms.saturating_sub(before.clock_ms);
            tracing::warn!("the clock of this replica jumped by {ms} ms");
        }
    }
}

/// What is done to a replica, as this file says. Anything that can not be read means nothing.
///
/// # Errors
/// When the system refuses.
pub fn told(file: PathBuf) -> io::Result<Parts> {
    let parts = Parts::default();
    let (shared, mut before) = (parts.clone(), Hurt::default());
    let hear = move |word: &str| {
        let now = toml::from_str(word).unwrap_or_default();
        if now != before {
            shared.hear(&before, &now);
            before = now;
        }
    };
    word::listen("hurt", file, hear)?;
    Ok(parts)
}

#[cfg(test)]
mod tests;
