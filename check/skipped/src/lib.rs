//! Tests that can not run where they are: the test harness counts them as passed, so each notes that it was skipped, and why.
//!
//! `cargo xtask test` names a file in which each of them leaves a line, and prints the number of lines.

use std::fmt::Display;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;

#[cfg(test)]
mod tests;

/// The variable that names the file.
pub const FILE: &str = "QUORATE_SKIPPED";

/// Notes that the calling test was skipped, and why. The test must then return.
pub fn skipped(why: impl Display) {
    let line = line(std::thread::current().name(), why);
    // Past the harness, which keeps what tests print unless they fail.
    let _ = std::io::stderr().write_all(line.as_bytes());
    if let Some(file) = std::env::var_os(FILE) {
        note(Path::new(&file), &line);
    }
}

fn line(test: Option<&str>, why: impl Display) -> String {
    format!("skipped: {}: {why}\n", test.unwrap_or("a test"))
}

/// Tests run side by side: a line goes out with one write.
fn note(file: &Path, line: &str) {
    let file = OpenOptions::new().create(true).append(true).open(file);
    let _ = file.and_then(|mut file| file.write_all(line.as_bytes()));
}
