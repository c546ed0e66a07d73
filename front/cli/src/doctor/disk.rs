//! Measures the disk: long reads and writes, and small writes with a sync each.
//!
//! The file has no name, so it disappears with this process, however that ends. It is filled before syncs are measured, as the log's
//! segments are, so that a sync changes no metadata.

use super::Findings;
use hdrhistogram::Histogram;
use quorate_command::failure::{Doing as _, Failure, Outcome};
use quorate_command::nameless;
use quorate_command::print::amount;
use quorate_command::print::size;
use quorate_command::progress::Progress;
use rustix::fs::{Advice, fadvise};
use serde::Serialize;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

/// The sizes of synced writes: a few commands, a batch, a block under load.
pub(super) const SIZES: [usize; 3] = [4 << 10, 64 << 10, 1 << 20];
/// Size of the file if there is room.
const FILE_BYTES: u64 = 256 << 20;
/// The smallest file on which a measurement is possible.
const FILE_BYTES_MIN: u64 = 8 << 20;
const PIECE: usize = 1 << 20;
/// The fewest syncs from which the 99th percentile is known.
const SAMPLES_MIN: u64 = 20;

/// Appends of one size, each with its sync.
#[derive(Clone, Debug, Serialize)]
pub(super) struct SyncSpeed {
    pub(super) bytes: usize,
    pub(super) samples: u64,
    pub(super) p50_us: f64,
    pub(super) p99_us: f64,
    pub(super) p99_9_us: f64,
    pub(super) max_us: f64,
    pub(super) per_s: f64,
}

/// The speeds of the disk.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Speed {
    pub(super) syncs: Vec<SyncSpeed>,
    /// In millions of bytes per second, the last sync included.
    pub(super) write_mb_s: f64,
    pub(super) read_mb_s: f64,
    pub(super) file_bytes: u64,
}

/// Measures in `directory`, which has this much free space. `None` when that is too little.
///
/// # Errors
/// When the disk fails.
pub(super) fn measure(
    directory: &Path,
    free: u64,
    length: Duration,
    findings: &mut Findings,
) -> Outcome<Option<Speed>> {
    // At most a quarter, so that other writers on this disk do not notice it.
    let bytes = (FILE_BYTES.min(free / 4) / PIECE as u64) * PIECE as u64;
    let file = match nameless::file(directory) {
        _ if bytes < FILE_BYTES_MIN => {
            findings.warning(
                format!("there is {} free in {}, too little to measure", size(free), directory.display()),
                "Free some space on that disk",
            );
            return Ok(None);
        }
        Ok(file) => file,
        Err(why) => {
            findings.problem(
                format!("can not make a file in {}: {why}", directory.display()),
                "Make the directory writable for the user that runs the replica",
            );
            return Ok(None);
        }
    };
    let doing = format!("measure the disk of {}", directory.display());
    let write_mb_s = fill(&file, bytes).doing(&doing)?;
    let share = length / SIZES.len() as u32;
    let progress = Progress::new("syncs", length);
    let begun = Instant::now();
    let mut syncs = Vec::new();
    for size in SIZES {
        let speed = sync_speed(&file, bytes, size, share, |speed| progress.at(begun.elapsed(), speed))?;
        syncs.push(speed);
    }
    drop(progress);
    let read_mb_s = read(&file, bytes).doing(&doing)?;
    Ok(Some(Speed { syncs, write_mb_s, read_mb_s, file_bytes: bytes }))
}

/// Writes the file in order and syncs it; gives millions of bytes per second.
fn fill(file: &File, bytes: u64) -> io::Result<f64> {
    let progress = Progress::counting("writing", bytes);
    // No zeros: a disk that compresses would be too good.
    let piece: Vec<u8> =
        (0..PIECE).map(|at| (at as u32).wrapping_mul(0x9e37_79b9).to_le_bytes()[3]).collect();
    let begun = Instant::now();
    let mut at = 0;
    while at < bytes {
        file.write_all_at(&piece, at)?;
        at += PIECE as u64;
        progress.count(at);
    }
    file.sync_all()?;
    Ok(mb_s(bytes, begun.elapsed()))
}

/// Reads the file in order, from the disk and not from memory if the system allows; gives millions of bytes per second.
fn read(file: &File, bytes: u64) -> io::Result<f64> {
    let progress = Progress::counting("reading", bytes);
    // A hint: where the system ignores it, reads come from memory and look fast.
    let _ = fadvise(file, 0, None, Advice::DontNeed);
    let _ = fadvise(file, 0, None, Advice::Sequential);
    let mut piece = vec![0; PIECE];
    let begun = Instant::now();
    let mut at = 0;
    while at < bytes {
        file.read_exact_at(&mut piece, at)?;
        at += PIECE as u64;
        progress.count(at);
    }
    Ok(mb_s(bytes, begun.elapsed()))
}

/// Rounds to a tenth, the precision of all figures here.
fn tenth(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}

fn mb_s(bytes: u64, time: Duration) -> f64 {
    tenth(bytes as f64 / 1e6 / time.as_secs_f64().max(1e-9))
}

fn sync_speed(
    file: &File,
    file_bytes: u64,
    size: usize,
    length: Duration,
    mut look: impl FnMut(&dyn Fn() -> String),
) -> Outcome<SyncSpeed> {
    let mut times = Histogram::<u64>::new(3).map_err(|why| Failure::new(format!("no histogram: {why}")))?;
    let mut piece = vec![0; size];
    let (begun, mut at) = (Instant::now(), 0);
    while begun.elapsed() < length || times.len() < SAMPLES_MIN {
        piece[..8].copy_from_slice(&times.len().to_le_bytes());
        let sent = Instant::now();
        let done = file.write_all_at(&piece, at).and_then(|()| file.sync_data());
        done.doing("sync a file")?;
        // The histogram grows as it must.
        let _ = times.record(sent.elapsed().as_nanos() as u64);
        at += size as u64;
        if at + size as u64 > file_bytes {
            at = 0;
        }
        let per_s = || times.len() as f64 / begun.elapsed().as_secs_f64();
        look(&|| format!("{} KiB: {}/s", size >> 10, amount(per_s())));
        // A disk this slow is bad enough to say so at once.
        if begun.elapsed() > length.max(Duration::from_secs(1)) * 10 {
            break;
        }
    }
    Ok(SyncSpeed::of(size, &times, begun.elapsed()))
}

impl SyncSpeed {
    /// From times in nanoseconds, measured one after the other for this long.
    pub(super) fn of(bytes: usize, times: &Histogram<u64>, length: Duration) -> Self {
        let us = |quantile: f64| tenth(times.value_at_quantile(quantile) as f64 / 1000.0);
        Self {
            bytes,
            samples: times.len(),
            p50_us: us(0.5),
            p99_us: us(0.99),
            p99_9_us: us(0.999),
            max_us: tenth(times.max() as f64 / 1000.0),
            per_s: tenth(times.len() as f64 / length.as_secs_f64().max(1e-9)),
        }
    }
}
