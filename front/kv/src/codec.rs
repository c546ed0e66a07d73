//! The bytes of commands, queries and replies (docs/formats/kv.md).
//!
//! A number is a LEB128 varint: seven bits to a byte, the lowest first; the top bit says that another byte follows. A string is its length,
//! then its bytes. A put of 16 bytes under a key of 16 bytes takes 35 bytes. Decoders borrow from their input, reserve no memory for
//! lengths that are merely announced, and never panic.

use std::fmt;

/// The bytes are no command, query or reply of this service. Names the part that is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed(&'static str);

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "malformed {}", self.0)
    }
}

impl std::error::Error for Malformed {}

/// What a key must satisfy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition<'a> {
    /// The key has no value.
    Absent,
    /// The key has a value.
    Present,
    /// The key has this value.
    Equals(&'a [u8]),
}

/// A condition of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compare<'a> {
    /// The key.
    pub key: &'a [u8],
    /// What it must satisfy.
    pub condition: Condition<'a>,
}

/// A range of keys, in the order of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scan<'a> {
    /// The first key of the range; the empty key stands before all others.
    pub start: &'a [u8],
    /// The first key behind the range; empty: the range goes on to the last key.
    pub end: &'a [u8],
    /// The most entries; 0, or more than the service's limit, means that limit.
    pub limit: u64,
}

/// One step of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation<'a> {
    /// Write a value under a key.
    Put {
        /// The key.
        key: &'a [u8],
        /// The new value.
        value: &'a [u8],
    },
    /// Read a key.
    Get {
        /// The key.
        key: &'a [u8],
    },
    /// Remove a key and its value.
    Delete {
        /// The key.
        key: &'a [u8],
    },
}

/// A command, which is ordered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KvCommand<'a> {
    /// A single operation.
    One(Operation<'a>),
    /// Read a range of keys.
    Scan(Scan<'a>),
    /// Write a value under a key if a condition holds for it.
    Swap {
        /// The key.
        key: &'a [u8],
        /// The condition.
        condition: Condition<'a>,
        /// The new value.
        value: &'a [u8],
    },
    /// Carry out the first list of operations if all conditions hold, else the second; all of it in one step.
    Transaction {
        /// The conditions.
        compares: Vec<Compare<'a>>,
        /// What to do if all conditions hold.
        then: Vec<Operation<'a>>,
        /// What to do if one does not.
        otherwise: Vec<Operation<'a>>,
    },
}

/// A query, which reads and is not ordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KvQuery<'a> {
    /// One key's value.
    Get {
        /// The key.
        key: &'a [u8],
    },
    /// A range of keys.
    Scan(Scan<'a>),
}

/// Why nothing was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KvError {
    /// The bytes are no command or query of this service.
    Malformed,
    /// A key is too long.
    KeyTooLong {
        /// The limit `key_bytes_max`.
        max: u64,
    },
    /// A value is too long.
    ValueTooLong {
        /// The limit `value_bytes_max`.
        max: u64,
    },
    /// A transaction has too many conditions and operations.
    TooManyOperations {
        /// The limit `transaction_ops_max`.
        max: u64,
    },
}

impl fmt::Display for KvError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed => f.write_str("the service could not read the command and did nothing"),
            Self::KeyTooLong { max } => write!(f, "a key is over key_bytes_max ({max}); nothing was done"),
            Self::ValueTooLong { max } => {
                write!(f, "a value is over value_bytes_max ({max}); nothing was done")
            }
            Self::TooManyOperations { max } => {
                write!(f, "a transaction is over transaction_ops_max ({max}); nothing was done")
            }
        }
    }
}

impl std::error::Error for KvError {}

/// A reply of the service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KvReply<'a> {
    /// Nothing was done.
    Error(KvError),
    /// The value was written.
    Put {
        /// Whether the key had a value before.
        replaced: bool,
    },
    /// The key's value, if it has one.
    Value(Option<&'a [u8]>),
    /// The key has no value any more.
    Deleted {
        /// Whether it had one.
        existed: bool,
    },
    /// The entries of a range, in the order of keys.
    Entries {
        /// Keys and values.
        entries: Vec<(&'a [u8], &'a [u8])>,
        /// The key to continue at, if a limit ended the scan before the range's end.
        next: Option<&'a [u8]>,
    },
    /// The condition held, and the value was written.
    Swapped,
    /// The condition did not hold, and nothing was done.
    NotSwapped {
        /// The key's value, if it has one.
        current: Option<&'a [u8]>,
    },
    /// The transaction was carried out.
    Transaction {
        /// Whether all conditions held.
        succeeded: bool,
        /// The reply to each operation that was carried out.
        replies: Vec<KvReply<'a>>,
    },
}

pub(crate) const PUT: u8 = 1;
pub(crate) const GET: u8 = 2;
pub(crate) const DELETE: u8 = 3;
const SCAN: u8 = 4;
const SWAP: u8 = 5;
const TRANSACTION: u8 = 6;
/// Tag that only replies have.
pub(crate) const ENTRIES: u8 = 4;
pub(crate) const SWAPPED: u8 = 5;
pub(crate) const TRANSACTION_DONE: u8 = 6;
pub(crate) const NOT_SWAPPED: u8 = 7;
pub(crate) const ERROR: u8 = 8;
/// Tag of an entry in a scan's reply.
pub(crate) const ENTRY: u8 = 1;
pub(crate) const END: u8 = 0;
pub(crate) const MORE: u8 = 2;

impl<'a> KvCommand<'a> {
    /// Appends the command.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::One(operation) => operation.encode(out),
            Self::Scan(scan) => scan.encode(out),
            Self::Swap { key, condition, value } => {
                out.push(SWAP);
                put_string(out, key);
                condition.encode(out);
                put_string(out, value);
            }
            Self::Transaction { compares, then, otherwise } => {
                out.push(TRANSACTION);
                put_number(out, compares.len() as u64);
                for compare in compares {
                    put_string(out, compare.key);
                    compare.condition.encode(out);
                }
                for list in [then, otherwise] {
                    put_number(out, list.len() as u64);
                    list.iter().for_each(|operation| operation.encode(out));
                }
            }
        }
    }

    /// Decodes a command; it must fill `bytes`.
    ///
    /// # Errors
    /// When the bytes are no command.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let mut r = Reader { bytes, what: "command" };
        let command = match r.byte()? {
            SCAN => Self::Scan(Scan::decode(&mut r)?),
            SWAP => {
                Self::Swap { key: r.string()?, condition: Condition::decode(&mut r)?, value: r.string()? }
            }
            TRANSACTION => Self::Transaction {
                compares: r.list(|r| Ok(Compare { key: r.string()?, condition: Condition::decode(r)? }))?,
                then: r.list(Operation::decode)?,
                otherwise: r.list(Operation::decode)?,
            },
            tag => Self::One(Operation::decode_rest(tag, &mut r)?),
        };
        r.end()?;
        Ok(command)
    }
}

impl<'a> Operation<'a> {
    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Put { key, value } => {
                out.push(PUT);
                put_string(out, key);
                put_string(out, value);
            }
            Self::Get { key } => {
                out.push(GET);
                put_string(out, key);
            }
            Self::Delete { key } => {
                out.push(DELETE);
                put_string(out, key);
            }
        }
    }
    fn decode(r: &mut Reader<'a>) -> Result<Self, Malformed> {
        let tag = r.byte()?;
        Self::decode_rest(tag, r)
    }
    fn decode_rest(tag: u8, r: &mut Reader<'a>) -> Result<Self, Malformed> {
        match tag {
            PUT => Ok(Self::Put { key: r.string()?, value: r.string()? }),
            GET => Ok(Self::Get { key: r.string()? }),
            DELETE => Ok(Self::Delete { key: r.string()? }),
            _ => Err(r.malformed()),
        }
    }
    /// The key of the operation.
    pub const fn key(&self) -> &'a [u8] {
        match self {
            Self::Put { key, .. } | Self::Get { key } | Self::Delete { key } => key,
        }
    }
}

impl<'a> Scan<'a> {
    fn encode(&self, out: &mut Vec<u8>) {
        out.push(SCAN);
        put_string(out, self.start);
        put_string(out, self.end);
        put_number(out, self.limit);
    }
    fn decode(r: &mut Reader<'a>) -> Result<Self, Malformed> {
        Ok(Self { start: r.string()?, end: r.string()?, limit: r.number()? })
    }
}

impl<'a> Condition<'a> {
    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Absent => out.push(0),
            Self::Present => out.push(1),
            Self::Equals(value) => {
                out.push(2);
                put_string(out, value);
            }
        }
    }
    fn decode(r: &mut Reader<'a>) -> Result<Self, Malformed> {
        match r.byte()? {
            0 => Ok(Self::Absent),
            1 => Ok(Self::Present),
            2 => Ok(Self::Equals(r.string()?)),
            _ => Err(r.malformed()),
        }
    }
}

impl<'a> KvQuery<'a> {
    /// Appends the query.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Get { key } => Operation::Get { key }.encode(out),
            Self::Scan(scan) => scan.encode(out),
        }
    }
    /// Decodes a query; it must fill `bytes`.
    ///
    /// # Errors
    /// When the bytes are no query.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let mut r = Reader { bytes, what: "query" };
        let query = match r.byte()? {
            GET => Self::Get { key: r.string()? },
            SCAN => Self::Scan(Scan::decode(&mut r)?),
            _ => return Err(r.malformed()),
        };
        r.end()?;
        Ok(query)
    }
}

impl KvError {
    fn encode(self, out: &mut Vec<u8>) {
        let (code, max) = match self {
            Self::Malformed => (1, 0),
            Self::KeyTooLong { max } => (2, max),
            Self::ValueTooLong { max } => (3, max),
            Self::TooManyOperations { max } => (4, max),
        };
        out.push(code);
        put_number(out, max);
    }
    fn decode(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        match (r.byte()?, r.number()?) {
            (1, 0) => Ok(Self::Malformed),
            (2, max) => Ok(Self::KeyTooLong { max }),
            (3, max) => Ok(Self::ValueTooLong { max }),
            (4, max) => Ok(Self::TooManyOperations { max }),
            _ => Err(r.malformed()),
        }
    }
}

impl<'a> KvReply<'a> {
    /// Appends the reply.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Error(error) => {
                out.push(ERROR);
                error.encode(out);
            }
            Self::Put { replaced } => out.extend_from_slice(&[PUT, u8::from(*replaced)]),
            Self::Value(value) => {
                out.push(GET);
                put_option(out, *value);
            }
            Self::Deleted { existed } => out.extend_from_slice(&[DELETE, u8::from(*existed)]),
            Self::Entries { entries, next } => {
                out.push(ENTRIES);
                for (key, value) in entries {
                    out.push(ENTRY);
                    put_string(out, key);
                    put_string(out, value);
                }
                out.push(if next.is_some() { MORE } else { END });
                if let Some(next) = next {
                    put_string(out, next);
                }
            }
            Self::Swapped => out.push(SWAPPED),
            Self::NotSwapped { current } => {
                out.push(NOT_SWAPPED);
                put_option(out, *current);
            }
            Self::Transaction { succeeded, replies } => {
                out.extend_from_slice(&[TRANSACTION_DONE, u8::from(*succeeded)]);
                put_number(out, replies.len() as u64);
                replies.iter().for_each(|reply| reply.encode(out));
            }
        }
    }

    /// Decodes a reply; it must fill `bytes`.
    ///
    /// # Errors
    /// When the bytes are no reply.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let mut r = Reader { bytes, what: "reply" };
        let reply = match r.byte()? {
            ERROR => Self::Error(KvError::decode(&mut r)?),
            ENTRIES => Self::decode_entries(&mut r)?,
            SWAPPED => Self::Swapped,
            NOT_SWAPPED => Self::NotSwapped { current: r.option()? },
            TRANSACTION_DONE => Self::Transaction {
                succeeded: r.bool()?,
                // Only replies to single operations: a reply can not nest, whatever the bytes say.
                replies: r.list(|r| {
                    let tag = r.byte()?;
                    Self::decode_one(tag, r)
                })?,
            },
            tag => Self::decode_one(tag, &mut r)?,
        };
        r.end()?;
        Ok(reply)
    }

    fn decode_one(tag: u8, r: &mut Reader<'a>) -> Result<Self, Malformed> {
        match tag {
            PUT => Ok(Self::Put { replaced: r.bool()? }),
            GET => Ok(Self::Value(r.option()?)),
            DELETE => Ok(Self::Deleted { existed: r.bool()? }),
            _ => Err(r.malformed()),
        }
    }

    fn decode_entries(r: &mut Reader<'a>) -> Result<Self, Malformed> {
        let mut entries = Vec::new();
        loop {
            match r.byte()? {
                ENTRY => entries.push((r.string()?, r.string()?)),
                END => return Ok(Self::Entries { entries, next: None }),
                MORE => return Ok(Self::Entries { entries, next: Some(r.string()?) }),
                _ => return Err(r.malformed()),
            }
        }
    }
}

/// The bytes of a number, and how many of them are used.
pub(crate) fn number(mut number: u64) -> ([u8; 10], usize) {
    let mut bytes = [0; 10];
    let mut len = 0;
    while number >= 0x80 {
        bytes[len] = number as u8 | 0x80;
        number >>= 7;
        len += 1;
    }
    bytes[len] = number as u8;
    (bytes, len + 1)
}

fn put_number(out: &mut Vec<u8>, value: u64) {
    let (bytes, len) = number(value);
    out.extend_from_slice(&bytes[..len]);
}

fn put_string(out: &mut Vec<u8>, string: &[u8]) {
    put_number(out, string.len() as u64);
    out.extend_from_slice(string);
}

fn put_option(out: &mut Vec<u8>, value: Option<&[u8]>) {
    out.push(u8::from(value.is_some()));
    if let Some(value) = value {
        put_string(out, value);
    }
}

struct Reader<'a> {
    bytes: &'a [u8],
    what: &'static str,
}

impl<'a> Reader<'a> {
    fn malformed(&self) -> Malformed {
        Malformed(self.what)
    }
    fn byte(&mut self) -> Result<u8, Malformed> {
        let (byte, rest) = self.bytes.split_first().ok_or(self.malformed())?;
        self.bytes = rest;
        Ok(*byte)
    }
    fn bool(&mut self) -> Result<bool, Malformed> {
        match self.byte()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(self.malformed()),
        }
    }
    fn number(&mut self) -> Result<u64, Malformed> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if bits << shift >> shift != bits {
                return Err(self.malformed());
            }
            number |= bits << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(self.malformed())
    }
    fn string(&mut self) -> Result<&'a [u8], Malformed> {
        let len = self.number()?;
        let (string, rest) = usize::try_from(len)
            .ok()
            .and_then(|len| self.bytes.split_at_checked(len))
            .ok_or(self.malformed())?;
        self.bytes = rest;
        Ok(string)
    }
    fn option(&mut self) -> Result<Option<&'a [u8]>, Malformed> {
        if self.bool()? { self.string().map(Some) } else { Ok(None) }
    }
    /// A count, then that many items. Every item takes bytes, so a false count ends at the end of the input.
    fn list<T>(&mut self, item: impl Fn(&mut Self) -> Result<T, Malformed>) -> Result<Vec<T>, Malformed> {
        let count = self.number()?;
        let mut list = Vec::new();
        for _ in 0..count {
            list.push(item(self)?);
        }
        Ok(list)
    }
    fn end(self) -> Result<(), Malformed> {
        if self.bytes.is_empty() { Ok(()) } else { Err(Malformed(self.what)) }
    }
}
