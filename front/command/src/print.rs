//! Writing to standard output. The reader may stop at any time (`| head`), which is no error.

use crate::failure::{Doing as _, Failure, Outcome};
use serde::Serialize;
use std::fmt::Write as _;
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

/// A word of a shell that stands for exactly this text.
pub fn quoted(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-:,=@%+".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// A text of somebody else for a terminal, which shows it and does not obey it: what can not be printed is escaped, as in `\u{1b}`.
pub fn clean(text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    for char in text.chars() {
        if is_printable(char) { clean.push(char) } else { clean.extend(char.escape_debug()) }
    }
    clean
}

/// A JSON document in one line, in which what can not be printed is escaped: a terminal shows it and does not obey it.
pub fn json_line(document: &serde_json::Value) -> String {
    let mut line = String::new();
    for char in document.to_string().chars() {
        if is_printable(char) {
            line.push(char);
        } else {
            // Such a character can only stand in a string. Those below the space are escaped already.
            for unit in char.encode_utf16(&mut [0; 2]) {
                let _ = write!(line, "\\u{unit:04x}");
            }
        }
    }
    line
}

/// Whether a terminal shows the character as it is, and does nothing else for it.
fn is_printable(char: char) -> bool {
    matches!(char, '\\' | '"' | '\'') || char.escape_debug().len() == 1
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
