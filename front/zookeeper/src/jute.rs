//! Jute, ZooKeeper's encoding of records: numbers are big-endian, and texts, buffers and lists begin with a length of four bytes. The length
//! -1 stands for nothing.
//!
//! Readers never panic, and reserve no memory for lengths that are merely announced. Texts are bytes here: whoever needs characters checks
//! them. Tests: tests/all/jute.rs.

use std::fmt;

/// The bytes are no record of the expected kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the record does not decode")
    }
}

impl std::error::Error for Malformed {}

/// Reads values one after the other.
#[derive(Clone, Debug)]
pub struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    /// Reads from these bytes.
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// What was not read yet. Servers ignore what follows a record.
    pub const fn rest(&self) -> &'a [u8] {
        self.0
    }

    fn take<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (first, rest) = self.0.split_first_chunk().ok_or(Malformed)?;
        self.0 = rest;
        Ok(*first)
    }

    /// An `int`.
    ///
    /// # Errors
    /// When fewer bytes are left; so for all others.
    pub fn int(&mut self) -> Result<i32, Malformed> {
        self.take().map(i32::from_be_bytes)
    }

    /// A `long`.
    ///
    /// # Errors
    /// As [`Self::int`].
    pub fn long(&mut self) -> Result<i64, Malformed> {
        self.take().map(i64::from_be_bytes)
    }

    /// A `boolean`: every byte but 0 is yes.
    ///
    /// # Errors
    /// As [`Self::int`].
    pub fn flag(&mut self) -> Result<bool, Malformed> {
        self.take().map(|[byte]| byte != 0)
    }

    /// A `buffer` or `ustring`; `None` for nothing.
    ///
    /// # Errors
    /// As [`Self::int`], or when the length is negative and not -1.
    pub fn bytes(&mut self) -> Result<Option<&'a [u8]>, Malformed> {
        let length = self.int()?;
        if length == -1 {
            return Ok(None);
        }
        let length = usize::try_from(length).map_err(|_| Malformed)?;
        let (bytes, rest) = self.0.split_at_checked(length).ok_or(Malformed)?;
        self.0 = rest;
        Ok(Some(bytes))
    }

    /// A `vector`, each element read by `one`; `None` for nothing.
    ///
    /// # Errors
    /// As [`Self::bytes`], or when an element does not decode.
    pub fn list<T>(
        &mut self,
        mut one: impl FnMut(&mut Self) -> Result<T, Malformed>,
    ) -> Result<Option<Vec<T>>, Malformed> {
        let count = self.int()?;
        if count == -1 {
            return Ok(None);
        }
        let count = usize::try_from(count).map_err(|_| Malformed)?;
        let mut list = Vec::new();
        for _ in 0..count {
            list.push(one(self)?);
        }
        Ok(Some(list))
    }
}

/// Appends values one after the other.
pub trait Write {
    /// An `int`.
    fn int(&mut self, value: i32);
    /// A `long`.
    fn long(&mut self, value: i64);
    /// A `boolean`.
    fn flag(&mut self, value: bool);
    /// A `buffer` or `ustring`; `None` for nothing.
    ///
    /// # Panics
    /// When it has 2^31 bytes or more.
    fn bytes(&mut self, value: Option<&[u8]>);
    /// A `vector`, each element written by `one`.
    ///
    /// # Panics
    /// When it has 2^31 elements or more.
    fn list<T>(&mut self, list: Option<&[T]>, one: impl FnMut(&mut Self, &T));
}

impl Write for Vec<u8> {
    fn int(&mut self, value: i32) {
        self.extend_from_slice(&value.to_be_bytes());
    }
    fn long(&mut self, value: i64) {
        self.extend_from_slice(&value.to_be_bytes());
    }
    fn flag(&mut self, value: bool) {
        self.push(u8::from(value));
    }
    fn bytes(&mut self, value: Option<&[u8]>) {
        self.int(value.map_or(-1, |bytes| length(bytes.len())));
        self.extend_from_slice(value.unwrap_or_default());
    }
    fn list<T>(&mut self, list: Option<&[T]>, mut one: impl FnMut(&mut Self, &T)) {
        self.int(list.map_or(-1, |list| length(list.len())));
        list.unwrap_or_default().iter().for_each(|value| one(self, value));
    }
}

fn length(length: usize) -> i32 {
    i32::try_from(length).expect("a record has less than 2 GiB")
}
