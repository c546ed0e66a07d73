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

/// Writes a line. False when nobody reads any more.
pub(crate) fn line(text: impl AsRef<str>) -> Outcome<bool> {
    bytes(format!("{}\n", text.as_ref()).as_bytes())
}
