//! Messages as JSON, by the public rules for Protocol Buffers: bytes in base64, numbers of 64 bits as strings, choices by name. Fields with
//! their default value are left out; unknown fields are skipped.
//!
//! The tables of fields are made from `proto/` by the build. Input of clients is never trusted: the JSON reader bounds the depth, and no
//! memory is reserved for lengths that are merely announced. Tests: `json/tests.rs`, and beside a real etcd `tests/all/gateway.rs`.

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use quorate_etcd::proto::{self, Fields, Value as Wire};
use serde_json::Value;

#[cfg(test)]
mod tests;

/// A field of a message.
struct Field {
    number: u32,
    name: &'static str,
    /// Its name in JSON.
    json: &'static str,
    kind: Kind,
    repeated: bool,
    /// The field is one of a `oneof`: it is shown even if it has its default value, and only one may be given. No message has two of them.
    chosen: bool,
}

/// The type of a field; messages and choices are given by their index in the tables.
#[derive(Clone, Copy)]
enum Kind {
    Int64,
    Uint64,
    Uint32,
    Bool,
    Text,
    Bytes,
    Choice(usize),
    Message(usize),
}

include!(concat!(env!("OUT_DIR"), "/schema.rs"));

/// A call: the types of its request and response.
#[derive(Clone, Copy)]
pub(crate) struct Method {
    input: usize,
    output: usize,
}

/// The call with this path.
pub(crate) fn method(path: &str) -> Option<Method> {
    let found = METHODS.iter().find(|(known, ..)| *known == path);
    found.map(|(_, input, output)| Method { input: *input, output: *output })
}

impl Method {
    /// Encodes a request that is given as JSON.
    ///
    /// # Errors
    /// Says what is wrong with it.
    pub(crate) fn request(self, json: &[u8]) -> Result<Vec<u8>, String> {
        let mut out = Vec::new();
        if !json.is_empty() {
            let value: Value = serde_json::from_slice(json).map_err(|why| why.to_string())?;
            write_message(self.input, &value, &mut out)?;
        }
        Ok(out)
    }

    /// A response as JSON.
    ///
    /// # Errors
    /// When the bytes are not that message.
    pub(crate) fn response(self, message: &[u8]) -> Result<String, proto::Malformed> {
        let mut out = String::with_capacity(message.len() * 2);
        show_message(self.output, message, &mut out)?;
        Ok(out)
    }
}

/// How many characters of a wrong value an error shows.
const SHOWN: usize = 100;

/// Accepts what Go's decoder accepts: with or without padding, and with unused bits set.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_allow_trailing_bits(true)
        .with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

fn write_message(message: usize, value: &Value, out: &mut Vec<u8>) -> Result<(), String> {
    let Value::Object(object) = value else { return Err(unlike("an object", value)) };
    let mut chosen: Option<&str> = None;
    for (name, value) in object {
        let known = MESSAGES[message].iter().find(|field| field.name == *name || field.json == *name);
        let Some(field) = known.filter(|_| !value.is_null()) else { continue };
        let wrong = |why: String| format!("{name}: {why}");
        if field.chosen
            && let Some(other) = chosen.replace(name)
        {
            return Err(format!("{other} and {name} can not stand together"));
        }
        match (field.repeated, value) {
            (false, value) => write_field(field, value, out).map_err(wrong)?,
            (true, Value::Array(values)) => {
                values.iter().try_for_each(|value| write_field(field, value, out)).map_err(wrong)?;
            }
            (true, other) => return Err(wrong(unlike("a list", other))),
        }
    }
    Ok(())
}

fn write_field(field: &Field, value: &Value, out: &mut Vec<u8>) -> Result<(), String> {
    let number = match field.kind {
        Kind::Text => {
            let text = value.as_str().ok_or_else(|| unlike("a text", value))?;
            proto::message_field(out, field.number, text.as_bytes());
            return Ok(());
        }
        Kind::Bytes => {
            let text = value.as_str().ok_or_else(|| unlike("bytes in base64", value))?;
            proto::message_field(out, field.number, &decode(text)?);
            return Ok(());
        }
        Kind::Message(message) => {
            let mut inner = Vec::new();
            write_message(message, value, &mut inner)?;
            proto::message_field(out, field.number, &inner);
            return Ok(());
        }
        Kind::Int64 => signed(value)? as u64,
        Kind::Uint64 => unsigned(value)?,
        Kind::Uint32 => u64::from(narrow::<u32, _>(signed(value)?)?),
        Kind::Bool => u64::from(value.as_bool().ok_or_else(|| unlike("a flag", value))?),
        Kind::Choice(choice) => i64::from(choose(choice, value)?) as u64,
    };
    proto::number(out, u64::from(field.number) << 3);
    proto::number(out, number);
    Ok(())
}

fn unlike(what: &str, value: &Value) -> String {
    let value = value.to_string();
    match value.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{what} is wanted, not {}...", &value[..end]),
        None => format!("{what} is wanted, not {value}"),
    }
}

/// The digits of a number, given as a number or as a string. `1e3` and `1.0` are allowed.
fn whole(value: &Value) -> Result<i128, String> {
    let text = match value {
        Value::Number(number) => number.to_string(),
        Value::String(text) => text.clone(),
        _ => return Err(unlike("a number", value)),
    };
    if let Ok(number) = text.parse() {
        return Ok(number);
    }
    let number: f64 = text.parse().map_err(|_| unlike("a number", value))?;
    let is_whole = number.fract() == 0.0 && number.abs() < 2f64.powi(64);
    if is_whole { Ok(number as i128) } else { Err(unlike("a whole number", value)) }
}

fn signed(value: &Value) -> Result<i64, String> {
    narrow(whole(value)?)
}

fn unsigned(value: &Value) -> Result<u64, String> {
    narrow(whole(value)?)
}

fn narrow<T: TryFrom<N>, N>(number: N) -> Result<T, String> {
    T::try_from(number).map_err(|_| "the number is too large".to_owned())
}

/// A choice, given by its name or its number.
fn choose(choice: usize, value: &Value) -> Result<i32, String> {
    let Value::String(name) = value else { return narrow(signed(value)?) };
    let known = CHOICES[choice].iter().find(|(_, known)| known == name);
    known.map(|(number, _)| *number).ok_or_else(|| format!("there is no {name}"))
}

fn decode(text: &str) -> Result<Vec<u8>, String> {
    let plain = |c: char| match c {
        '-' => '+',
        '_' => '/',
        c => c,
    };
    let text: String = text.chars().filter(|c| !"\r\n".contains(*c)).map(plain).collect();
    BASE64.decode(text).map_err(|why| format!("no base64: {why}"))
}

fn show_message(message: usize, bytes: &[u8], out: &mut String) -> Result<(), proto::Malformed> {
    let fields: Vec<(u32, Wire<'_>)> = Fields::of(bytes).collect::<Result<_, _>>()?;
    out.push('{');
    let begin = out.len();
    for field in MESSAGES[message] {
        let mut found = fields.iter().filter(|(number, _)| *number == field.number).map(|(_, value)| *value);
        if field.repeated {
            let Some(first) = found.next() else { continue };
            show_name(field, begin, out);
            out.push('[');
            show(field.kind, first, out)?;
            for value in found {
                out.push(',');
                show(field.kind, value, out)?;
            }
            out.push(']');
        } else if let Some(last) = found.next_back()
            && (field.chosen || matches!(field.kind, Kind::Message(_)) || !is_default(last))
        {
            show_name(field, begin, out);
            show(field.kind, last, out)?;
        }
    }
    out.push('}');
    Ok(())
}

fn show_name(field: &Field, begin: usize, out: &mut String) {
    if out.len() > begin {
        out.push(',');
    }
    out.push('"');
    out.push_str(field.name);
    out.push_str("\":");
}

fn is_default(value: Wire<'_>) -> bool {
    matches!(value, Wire::Number(0) | Wire::Bytes([]))
}

fn show(kind: Kind, value: Wire<'_>, out: &mut String) -> Result<(), proto::Malformed> {
    match kind {
        Kind::Int64 => out.push_str(&format!("\"{}\"", value.int()?)),
        Kind::Uint64 => out.push_str(&format!("\"{}\"", value.int()? as u64)),
        Kind::Uint32 => out.push_str(&(value.int()? as u32).to_string()),
        Kind::Bool => out.push_str(if value.flag()? { "true" } else { "false" }),
        Kind::Text => {
            let text = String::from_utf8_lossy(value.bytes()?);
            out.push_str(&Value::from(text).to_string());
        }
        Kind::Bytes => {
            out.push('"');
            BASE64.encode_string(value.bytes()?, out);
            out.push('"');
        }
        Kind::Choice(choice) => {
            let number = value.int()? as i32;
            match CHOICES[choice].iter().find(|(known, _)| *known == number) {
                Some((_, name)) => out.push_str(&format!("\"{name}\"")),
                None => out.push_str(&number.to_string()),
            }
        }
        Kind::Message(message) => show_message(message, value.bytes()?, out)?,
    }
    Ok(())
}
