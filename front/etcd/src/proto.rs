//! Protocol Buffers, as far as the store needs them: reads fields that borrow from the message, and appends fields.
//!
//! Written by hand, so that a request is read where it lies, and a stored entry is copied into a response as it is. Source: the public
//! encoding of Protocol Buffers, version 3. Readers never panic, reserve no memory for lengths that are merely announced, and skip fields
//! that they do not know. Tests: `tests/all/bytes.rs`.

/// The bytes are no message of the expected kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

/// The value of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value<'a> {
    /// A number or a flag.
    Number(u64),
    /// A string, bytes or a message.
    Bytes(&'a [u8]),
    /// A kind of value that no message here has.
    Other,
}

impl<'a> Value<'a> {
    /// The value as a signed number.
    ///
    /// # Errors
    /// When it is no number.
    pub const fn int(self) -> Result<i64, Malformed> {
        match self {
            Self::Number(number) => Ok(number as i64),
            _ => Err(Malformed),
        }
    }
    /// The value as a flag.
    ///
    /// # Errors
    /// When it is no number.
    pub const fn flag(self) -> Result<bool, Malformed> {
        match self {
            Self::Number(number) => Ok(number != 0),
            _ => Err(Malformed),
        }
    }
    /// The value as bytes.
    ///
    /// # Errors
    /// When it is no string, bytes or message.
    pub const fn bytes(self) -> Result<&'a [u8], Malformed> {
        match self {
            Self::Bytes(bytes) => Ok(bytes),
            _ => Err(Malformed),
        }
    }
}

/// The fields of a message in their order.
#[derive(Clone, Debug)]
pub struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    /// The fields of this message.
    pub const fn of(message: &'a [u8]) -> Self {
        Self(message)
    }
    /// The bytes that were not read yet.
    pub const fn rest(&self) -> &'a [u8] {
        self.0
    }

    fn field(&mut self) -> Result<(u32, Value<'a>), Malformed> {
        let tag = read_number(&mut self.0).ok_or(Malformed)?;
        let number = u32::try_from(tag >> 3).ok().filter(|number| *number != 0).ok_or(Malformed)?;
        let value = match tag & 7 {
            0 => Value::Number(read_number(&mut self.0).ok_or(Malformed)?),
            1 => take(&mut self.0, 8).map(|_| Value::Other).ok_or(Malformed)?,
            2 => {
                let len = read_number(&mut self.0).and_then(|len| usize::try_from(len).ok());
                Value::Bytes(len.and_then(|len| take(&mut self.0, len)).ok_or(Malformed)?)
            }
            5 => take(&mut self.0, 4).map(|_| Value::Other).ok_or(Malformed)?,
            _ => return Err(Malformed),
        };
        Ok((number, value))
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<(u32, Value<'a>), Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let field = self.field();
        if field.is_err() {
            self.0 = &[];
        }
        Some(field)
    }
}

/// Takes a number off the front.
pub fn read_number(from: &mut &[u8]) -> Option<u64> {
    let mut number = 0u64;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = from.split_first()?;
        *from = rest;
        number |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(number);
        }
    }
    None
}

/// Takes a length, and that many bytes, off the front.
pub fn read_string<'a>(from: &mut &'a [u8]) -> Option<&'a [u8]> {
    let len = read_number(from)?;
    take(from, usize::try_from(len).ok()?)
}

fn take<'a>(from: &mut &'a [u8], len: usize) -> Option<&'a [u8]> {
    let (taken, rest) = from.split_at_checked(len)?;
    *from = rest;
    Some(taken)
}

/// Appends a number.
pub fn number(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// How many bytes the encoding of a number takes.
pub const fn number_len(number: u64) -> usize {
    (70 - (number | 1).leading_zeros() as usize) / 7
}

/// Appends a length and bytes.
pub fn string(out: &mut Vec<u8>, bytes: &[u8]) {
    number(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Appends a field with a number, unless it is 0.
pub fn int_field(out: &mut Vec<u8>, field: u32, value: i64) {
    if value != 0 {
        number(out, u64::from(field) << 3);
        number(out, value as u64);
    }
}

/// Appends a field with a flag, unless it is false.
pub fn flag_field(out: &mut Vec<u8>, field: u32, value: bool) {
    int_field(out, field, i64::from(value));
}

/// Appends a field with bytes, unless there are none.
pub fn bytes_field(out: &mut Vec<u8>, field: u32, bytes: &[u8]) {
    if !bytes.is_empty() {
        message_field(out, field, bytes);
    }
}

/// Appends a field with a message, empty or not.
pub fn message_field(out: &mut Vec<u8>, field: u32, message: &[u8]) {
    number(out, u64::from(field) << 3 | 2);
    string(out, message);
}

/// Appends a field with the message that `write` appends.
pub fn nested_field<T>(out: &mut Vec<u8>, field: u32, write: impl FnOnce(&mut Vec<u8>) -> T) -> T {
    number(out, u64::from(field) << 3 | 2);
    let at = out.len();
    out.push(0);
    let result = write(out);
    let len = out.len() - at - 1;
    if len < 0x80 {
        out[at] = len as u8;
    } else {
        // The length needs more than the byte that was kept for it.
        let mut bytes = Vec::with_capacity(10);
        number(&mut bytes, len as u64);
        out.splice(at..=at, bytes);
    }
    result
}
