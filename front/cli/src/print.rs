//! Writing to standard output. Whoever reads it may stop at any time (`| head`), which is no error of ours.

use crate::failure::{Failure, Outcome};
use std::io::{self, ErrorKind, Write as _};

/// Writes these bytes at once. False when nobody reads any more.
pub(crate) fn bytes(bytes: &[u8]) -> Outcome<bool> {
    let mut out = io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(Failure::new(format!("can not write to standard output: {error}"))),
    }
}

/// An amount of bytes, for people.
pub(crate) fn size(bytes: u64) -> String {
    match bytes {
        0..1024 => format!("{bytes} B"),
        1024..1_048_576 => format!("{:.1} KiB", bytes as f64 / 1024.0),
        1_048_576..1_073_741_824 => format!("{:.1} MiB", bytes as f64 / 1_048_576.0),
        _ => format!("{:.1} GiB", bytes as f64 / 1_073_741_824.0),
    }
}

/// Writes a line. False when nobody reads any more.
pub(crate) fn line(text: impl AsRef<str>) -> Outcome<bool> {
    bytes(format!("{}\n", text.as_ref()).as_bytes())
}
