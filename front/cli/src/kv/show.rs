//! Prints keys and values. They may be any bytes, not all of which a terminal may get.

use std::fmt::Write as _;

/// How keys and values are printed.
#[derive(Clone, Copy)]
pub(super) struct Show {
    /// Everything in hexadecimal digits.
    pub(super) hex: bool,
}

impl Show {
    /// The bytes as text; bytes that are no text as `\xNN`, or all as hexadecimal digits.
    pub(super) fn text(self, bytes: &[u8]) -> String {
        if self.hex {
            return hex(bytes);
        }
        match plain(bytes) {
            Some(text) => text.to_owned(),
            None => bytes.escape_ascii().to_string(),
        }
    }

    /// Inserts the value into a JSON object: under `name` if it is text, under `name_hex` if not; null when there is none.
    pub(super) fn insert(self, json: &mut serde_json::Value, name: &str, bytes: Option<&[u8]>) {
        let Some(bytes) = bytes else {
            json[name] = serde_json::Value::Null;
            return;
        };
        match std::str::from_utf8(bytes) {
            Ok(text) if !self.hex => json[name] = text.into(),
            _ => json[format!("{name}_hex")] = hex(bytes).into(),
        }
    }

    /// A line with a key and, perhaps, its value.
    pub(super) fn entry(self, key: &[u8], value: Option<&[u8]>, json: bool) -> String {
        if json {
            let mut json = serde_json::json!({});
            self.insert(&mut json, "key", Some(key));
            if value.is_some() {
                self.insert(&mut json, "value", value);
            }
            return format!("{json}\n");
        }
        match value {
            Some(value) => format!("{}\t{}\n", self.text(key), self.text(value)),
            None => format!("{}\n", self.text(key)),
        }
    }
}

fn plain(bytes: &[u8]) -> Option<&str> {
    let text = std::str::from_utf8(bytes).ok()?;
    text.chars().all(|c| !c.is_control() || c == '\n' || c == '\t').then_some(text)
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        let _ = write!(out, "{byte:02x}");
    }
    out
}

/// Decodes hexadecimal digits.
pub(crate) fn unhex(digits: &[u8]) -> Option<Vec<u8>> {
    let digit = |c: u8| char::from(c).to_digit(16).and_then(|d| u8::try_from(d).ok());
    let (pairs, rest) = digits.as_chunks::<2>();
    if !rest.is_empty() {
        return None;
    }
    pairs.iter().map(|[high, low]| Some(digit(*high)? << 4 | digit(*low)?)).collect()
}
