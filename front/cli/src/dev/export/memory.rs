//! How much memory a replica may take, and quantities of Kubernetes.

use crate::etcd;
use quorate_etcd_grpc::EtcdSettings;
use quorate_runtime::Config;
use std::fmt;
use std::path::Path;

/// An amount of memory, in MiB.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Memory {
    mib: u64,
}

/// What the program takes beside what its limits name, in MiB: itself, sessions, connections.
const BASE_MIB: u64 = 256;
/// The room for a state that nothing limits, in bytes; as much as etcd's usual quota.
const STATE_BYTES: u64 = 2 << 30;
/// Sizes are rounded up to this many MiB.
const STEP_MIB: u64 = 64;
/// The least that a replica may be given, in MiB.
const LEAST_MIB: u64 = 256;
/// What a pod asks for to be placed, in MiB: what a small state takes.
const REQUEST_MIB: u64 = 512;

impl Memory {
    /// What a replica with this configuration takes at most: its queues, its cache, what connections hold, and three times the state:
    /// small keys take twice what the quota counts (docs/etcd.md), and what changes while a checkpoint is written is held twice.
    pub(super) fn of(config: &Config) -> Self {
        let limits = &config.limits;
        let quota =
            config.front.get(etcd::FRONT).and_then(|table| EtcdSettings::read(table, Path::new("")).ok());
        let state =
            quota.map(|settings| settings.quota_bytes).filter(|bytes| *bytes > 0).unwrap_or(STATE_BYTES);
        let bytes = [limits.queue_bytes, limits.cache_bytes, limits.buffer_bytes].map(|bytes| bytes as u64);
        let bytes = bytes.into_iter().fold(state.saturating_mul(3), u64::saturating_add);
        let mib = (bytes >> 20).saturating_add(BASE_MIB).div_ceil(STEP_MIB).saturating_mul(STEP_MIB);
        Self { mib }
    }

    /// For Kubernetes, and for people.
    pub(super) fn binary(self) -> String {
        format!("{}Mi", self.mib)
    }

    /// What a pod asks for, so that it is placed where that is free.
    pub(super) fn request(self) -> String {
        format!("{}Mi", self.mib.min(REQUEST_MIB))
    }

    /// For compose, whose letters are powers of 1024.
    pub(super) fn compose(self) -> String {
        format!("{}m", self.mib)
    }

    /// For systemd, whose letters are powers of 1024.
    pub(super) fn systemd(self) -> String {
        format!("{}M", self.mib)
    }
}

impl fmt::Display for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.binary())
    }
}

/// `512Mi` or `4Gi`
pub(super) fn parse(text: &str) -> Result<Memory, String> {
    let wrong = "a size is a whole number with Mi or Gi, as in 4Gi";
    let (number, factor) = match (text.strip_suffix("Mi"), text.strip_suffix("Gi")) {
        (Some(number), _) => (number, 1),
        (_, Some(number)) => (number, 1024),
        _ => return Err(wrong.to_owned()),
    };
    let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    let mib = number.parse::<u64>().ok().filter(|_| is_number).and_then(|number| number.checked_mul(factor));
    match mib {
        None => Err(wrong.to_owned()),
        Some(mib) if (LEAST_MIB..=1 << 24).contains(&mib) => Ok(Memory { mib }),
        Some(_) => Err(format!("a replica is given {LEAST_MIB}Mi to 16384Gi")),
    }
}

/// A quantity as Kubernetes writes it; it is above 0.
pub(super) fn parse_quantity(text: &str) -> Result<String, String> {
    const ENDINGS: [&str; 13] = ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei", "k", "M", "G", "T", "P", "E", ""];
    let number = ENDINGS.iter().find_map(|ending| text.strip_suffix(ending)).unwrap_or_default();
    let (whole, part) = number.split_once('.').unwrap_or((number, "0"));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if digits(whole) && digits(part) && number.bytes().any(|byte| (b'1'..=b'9').contains(&byte)) {
        return Ok(text.to_owned());
    }
    Err("a quantity is a number with Gi, Ti or another such ending, as in 50Gi".to_owned())
}
