//! Writing to standard output. The reader may stop at any time (`| head`), which is no error.

use crate::failure::{Doing as _, Failure, Outcome};
use serde::Serialize;
use std::io::{self, ErrorKind, Write as _};

#[cfg(test)]
mod tests;

/// Writes these bytes at once. `false` when nobody reads any more.
pub fn bytes(bytes: &[u8]) -> Outcome<bool> {
    let mut out = io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(Failure::new(format!("can not write to standard output: {error}"))),
    }
}

/// A number of bytes, for people.
pub fn size(bytes: u64) -> String {
    match bytes {
        0..1024 => format!("{bytes} B"),
        1024..1_048_576 => format!("{:.1} KiB", bytes as f64 / 1024.0),
        1_048_576..1_073_741_824 => format!("{:.1} MiB", bytes as f64 / 1_048_576.0),
        _ => format!("{:.1} GiB", bytes as f64 / 1_073_741_824.0),
    }
}

/// Writes a line. `false` when nobody reads any more.
pub fn line(text: impl AsRef<str>) -> Outcome<bool> {
    bytes(format!("{}\n", text.as_ref()).as_bytes())
}

/// A JSON document as text.
///
/// # Errors
/// When it can not be written as JSON.
pub fn json(document: &impl Serialize) -> Outcome<String> {
    serde_json::to_string_pretty(document).doing("write JSON")
}

/// A number with three digits and a letter: 17.6 M.
pub fn amount(value: f64) -> String {
    let (scaled, letter) = match value {
        v if v >= 1e9 => (v / 1e9, " G"),
        v if v >= 1e6 => (v / 1e6, " M"),
        v if v >= 1e3 => (v / 1e3, " k"),
        v => (v, ""),
    };
    let digits = match scaled {
        s if s >= 99.95 => 0,
        s if s >= 9.995 => 1,
        _ => 2,
    };
    format!("{scaled:.digits$}{letter}")
}
