//! Replicas that are correct and late, for `quorate chaos slow`.
//!
//! A replica is slow only if `dev` started it, and only while the file that `dev` named says how much. All that it
//! sends to other replicas then leaves late; it hears them, executes, and answers clients and operators as always. Tests:
//! front/cli/tests/all/few.rs.

use super::word;
use quorate_runtime::Lateness;
use quorate_types::Span;
use std::io;
use std::path::{Path, PathBuf};

/// The most milliseconds: with more, connections would not be made before they are given up.
pub const MS_MAX: u32 = 10_000;
/// The usual milliseconds: late for every T that an election timer of 300 ms allows, which is less than half of that.
pub const MS_USUAL: u32 = 200;

/// Writes into the file that a replica reads that all leaves this many milliseconds late; 0: no more.
///
/// # Errors
/// When the system refuses.
pub fn tell(ms: u32, file: &Path) -> io::Result<()> {
    word::write(file, &ms.to_string())
}

/// How late a replica is to be, as this file says. Anything else than a number means not at all.
///
/// # Errors
/// When the system refuses.
pub fn told(file: PathBuf) -> io::Result<Lateness> {
    let lateness = Lateness::default();
    let shared = lateness.clone();
    let hear = move |word: &str| {
        let ms = word.parse::<u32>().unwrap_or(0).min(MS_MAX);
        let late = Span::from_millis(u64::from(ms));
        if late != shared.get() {
            match ms {
                0 => tracing::warn!("this replica is slow no more"),
                _ => tracing::warn!(
                    "this replica is slow from now on: what it sends to others leaves {ms} ms late"
                ),
            }
            shared.set(late);
        }
    };
    word::listen("slow", file, hear)?;
    Ok(lateness)
}
