//! The ends of replicas' logs, for people who must know why a replica ended. Tests: `logs/tests.rs`.

use quorate_command::print;
use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::Path;

#[cfg(test)]
mod tests;

/// How many lines of the end of a log are shown.
const TAIL_LINES: usize = 8;
/// How many bytes of the end of a log are read.
const TAIL_BYTES: u64 = 8 << 10;
const ERROR_BYTES: u64 = 64 << 10;
/// The longest error that is given, in characters: a response on the control socket has one for each replica.
const ERROR_CHARS: usize = 500;

/// The last lines.
pub(super) fn tail(log: &Path) -> String {
    let text = end(log, 0, TAIL_BYTES).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    let last = &lines[lines.len().saturating_sub(TAIL_LINES)..];
    last.iter().map(|line| format!("  | {line}\n")).collect()
}

/// The last error behind byte `began`, where a process began to write: what it printed as it gave up, or else what it logged as an error or
/// a panic. Without a full stop at its end.
pub(super) fn last_error(log: &Path, began: u64) -> Option<String> {
    let text = end(log, began, ERROR_BYTES).ok()?;
    let given_up = text.lines().rev().find_map(|line| line.strip_prefix("error: "));
    let logged = || text.lines().rev().find_map(|line| Some(line.split_once("ERROR ")?.1));
    let panicked = || text.lines().rev().find(|line| line.contains("panicked at"));
    let error = given_up.or_else(logged).or_else(panicked)?;
    let short: String = error.chars().take(ERROR_CHARS).collect();
    Some(print::clean(short.trim().trim_end_matches('.')))
}

/// At most `most` bytes from the end of a file, and none before byte `from`. A log that was moved since then is shorter, and is read whole.
fn end(log: &Path, from: u64, most: u64) -> io::Result<String> {
    let mut file = File::open(log)?;
    let len = file.metadata()?.len();
    let from = if from > len { 0 } else { from };
    file.seek(SeekFrom::Start(len.saturating_sub(most).max(from)))?;
    let mut bytes = Vec::new();
    file.take(most).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
