//! A safety net for redesigns: the trace hashes of runs of every kind of cluster, recorded in a file, and compared with what the program
//! does later.
//!
//! A trace hash covers every event of a run (`trace.rs`). So code that only moves keeps all hashes, and an unintended change shows in the
//! kinds of clusters that it affects. A file has a line of JSON for each kind: the arguments of `quorate sim` for it, the first seed, and
//! the hashes of that seed and those that follow.

use crate::campaign::{Campaign, run_where};
use crate::plan::{Focus, Profile};
use quorate_log::SyncMode;
use quorate_order::Protocol;
use quorate_types::FaultModel;
use serde::{Deserialize, Serialize};
use std::io::{self, BufRead, Write};

/// The first seed of each kind.
const FIRST: u64 = 1;

/// Runs of one kind of cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recorded {
    /// The arguments of `quorate sim` for it.
    pub kind: String,
    /// The first seed.
    pub first: u64,
    /// The trace hash of this seed, and of each that follows, in hexadecimal.
    pub hashes: Vec<String>,
}

/// The comparison for one kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compared {
    /// The arguments of `quorate sim` for it.
    pub kind: String,
    /// How many runs were compared.
    pub runs: usize,
    /// The seeds whose runs are different now.
    pub differ: Vec<u64>,
}

/// All kinds of clusters: each protocol and fault model, with each choice for it, one at a time.
pub fn kinds() -> Vec<Profile> {
    let usual = Profile::default();
    let smart = Profile { protocol: Some(Protocol::MOD_SMART), ..usual };
    let liars = Profile { fault_model: Some(FaultModel::Byzantine), ..usual };
    let mut kinds = Vec::new();
    for base in [usual, smart, liars] {
        kinds.push(base);
        kinds.extend([1, 2, 3, 8].map(|instances| Profile { instances: Some(instances), ..base }));
        kinds.extend([1, 4].map(|lanes| Profile { lanes: Some(lanes), ..base }));
        kinds.extend([false, true].map(|apart| Profile { apart: Some(apart), ..base }));
        kinds.extend([false, true].map(|upgrades| Profile { upgrades: Some(upgrades), ..base }));
        let modes = [SyncMode::Group, SyncMode::Async, SyncMode::Memory];
        kinds.extend(modes.map(|mode| Profile { sync: Some(mode), ..base }));
        kinds.push(Profile { faults: false, ..base });
        let focuses = Focus::ALL.iter().map(|focus| Profile { focus: Some(*focus), ..base });
        kinds.extend(focuses.filter(Profile::has_focus));
    }
    for base in [usual, smart] {
        kinds.push(Profile { changes: Some(true), ..base });
        kinds.extend([1, 2, 5, 7].map(|replicas| Profile { replicas: Some(replicas), ..base }));
    }
    kinds.push(Profile { resizes: Some(true), ..usual });
    kinds.extend([4, 7].map(|replicas| Profile { replicas: Some(replicas), ..liars }));
    kinds
}

/// The trace hashes of `count` seeds of one kind. `told` is called for each run that ended.
fn hashes_of(profile: Profile, first: u64, count: u64, jobs: usize, told: &mut dyn FnMut()) -> Vec<String> {
    let campaign = Campaign { profile, first, count, jobs, failures_max: usize::MAX };
    let mut found = Vec::new();
    run_where(
        &campaign,
        |_| true,
        |_, report| {
            found.push((report.seed, report.hash));
            told();
        },
    );
    found.sort_unstable();
    found.into_iter().map(|(_, hash)| format!("{hash:016x}")).collect()
}

/// Runs about `count` seeds, equally many of each of these kinds, and writes their hashes. Returns how many ran.
///
/// # Errors
/// When `out` can not be written.
pub fn record(
    kinds: &[Profile],
    count: u64,
    jobs: usize,
    out: &mut dyn Write,
    mut told: impl FnMut(u64, u64),
) -> io::Result<u64> {
    let each = count.div_ceil(kinds.len().max(1) as u64).max(1);
    let (mut done, total) = (0, each * kinds.len() as u64);
    for profile in kinds {
        let mut tell = || {
            done += 1;
            told(done, total);
        };
        let hashes = hashes_of(*profile, FIRST, each, jobs, &mut tell);
        let recorded = Recorded { kind: profile.arguments(), first: FIRST, hashes };
        writeln!(out, "{}", serde_json::to_string(&recorded)?)?;
    }
    out.flush()?;
    Ok(total)
}

/// Reads what was recorded.
///
/// # Errors
/// When a line is not one of such a file, or of a kind of cluster that this program does not have.
pub fn read(file: impl BufRead) -> io::Result<Vec<(Profile, Recorded)>> {
    let kinds = kinds();
    let read = |(line, text): (usize, io::Result<String>)| {
        let broken =
            |why: String| io::Error::new(io::ErrorKind::InvalidData, format!("line {}: {why}", line + 1));
        let recorded: Recorded = serde_json::from_str(&text?).map_err(|why| broken(why.to_string()))?;
        let profile = kinds.iter().find(|profile| profile.arguments() == recorded.kind);
        let profile =
            profile.ok_or_else(|| broken(format!("no kind of cluster here is `{}`", recorded.kind)))?;
        Ok((*profile, recorded))
    };
    file.lines().enumerate().map(read).collect()
}

/// Runs what was recorded again.
pub fn compare(
    recorded: &[(Profile, Recorded)],
    jobs: usize,
    mut told: impl FnMut(u64, u64),
) -> Vec<Compared> {
    let total = recorded.iter().map(|(_, recorded)| recorded.hashes.len() as u64).sum();
    let mut done = 0;
    let mut again = |(profile, before): &(Profile, Recorded)| {
        let mut tell = || {
            done += 1;
            told(done, total);
        };
        let now = hashes_of(*profile, before.first, before.hashes.len() as u64, jobs, &mut tell);
        let seeds = (before.first..).zip(before.hashes.iter().zip(&now));
        let differ = seeds.filter(|(_, (before, now))| before != now).map(|(seed, _)| seed).collect();
        Compared { kind: before.kind.clone(), runs: now.len(), differ }
    };
    recorded.iter().map(&mut again).collect()
}
