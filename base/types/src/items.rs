//! A list of byte strings in one buffer: the commands of a request, the replies to them.
//!
//! Layout, little-endian (docs/formats/wire.md): `count u32, len u32`, then, when `len` is [`MIXED`], `count` lengths
//! of 4 bytes each, then the strings one after the other. Strings of one length cost no length of their own, so
//! thousands of small commands travel as their plain bytes.

use std::fmt;

/// Instead of the common length: every string has its own length.
const MIXED: u32 = u32::MAX;
const HEADER: usize = 8;

/// Why bytes are not a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ItemError(&'static str);

impl fmt::Display for ItemError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for ItemError {}

/// A checked list, borrowed from the bytes that hold it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Items<'a> {
    count: u32,
    len: u32,
    lens: &'a [u8],
    bytes: &'a [u8],
}

impl<'a> Items<'a> {
    /// Reads a list that fills `bytes` exactly.
    ///
    /// # Errors
    /// When the lengths do not add up to the bytes that are there.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, ItemError> {
        let (head, rest) = bytes.split_first_chunk::<HEADER>().ok_or(ItemError("list without a header"))?;
        let [c0, c1, c2, c3, l0, l1, l2, l3] = *head;
        let count = u32::from_le_bytes([c0, c1, c2, c3]);
        let len = u32::from_le_bytes([l0, l1, l2, l3]);
        if len != MIXED {
            let total = u64::from(count) * u64::from(len);
            if total != rest.len() as u64 {
                return Err(ItemError("list whose length is not count times item length"));
            }
            return Ok(Self { count, len, lens: &[], bytes: rest });
        }
        let table = u64::from(count) * 4;
        if table > rest.len() as u64 {
            return Err(ItemError("list cut off in its lengths"));
        }
        let (lens, bytes) = rest.split_at(table as usize);
        let total: u64 = lens.chunks_exact(4).map(|l| u64::from(read_u32(l))).sum();
        if total != bytes.len() as u64 {
            return Err(ItemError("list whose lengths do not add up to its bytes"));
        }
        Ok(Self { count, len, lens, bytes })
    }

    /// How many strings.
    pub const fn len(&self) -> usize {
        self.count as usize
    }
    /// Whether there is none.
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }
    /// All strings one after the other.
    pub const fn bytes(&self) -> &'a [u8] {
        self.bytes
    }
    /// The length that all strings share, if they do.
    pub fn common_len(&self) -> Option<usize> {
        (self.len != MIXED).then_some(self.len as usize)
    }
    /// The strings in order.
    pub const fn iter(&self) -> ItemsIter<'a> {
        ItemsIter { items: *self, next: 0, at: 0 }
    }
}

impl fmt::Debug for Items<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl<'a> IntoIterator for Items<'a> {
    type Item = &'a [u8];
    type IntoIter = ItemsIter<'a>;
    fn into_iter(self) -> ItemsIter<'a> {
        self.iter()
    }
}

/// The strings of a list, in order.
#[derive(Clone, Debug)]
pub struct ItemsIter<'a> {
    items: Items<'a>,
    next: u32,
    at: usize,
}

impl<'a> Iterator for ItemsIter<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        if self.next == self.items.count {
            return None;
        }
        let len = if self.items.len == MIXED {
            read_u32(&self.items.lens[self.next as usize * 4..]) as usize
        } else {
            self.items.len as usize
        };
        let item = &self.items.bytes[self.at..self.at + len];
        self.next += 1;
        self.at += len;
        Some(item)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = (self.items.count - self.next) as usize;
        (left, Some(left))
    }
}

impl ExactSizeIterator for ItemsIter<'_> {}

fn read_u32(bytes: &[u8]) -> u32 {
    bytes.first_chunk::<4>().map_or(0, |b| u32::from_le_bytes(*b))
}

/// Collects strings and writes the list. It keeps its buffers, so that one builder can be used again without allocating.
#[derive(Clone, Debug, Default)]
pub struct ItemsBuilder {
    lens: Vec<u32>,
    bytes: Vec<u8>,
}

impl ItemsBuilder {
    /// An empty list.
    pub fn new() -> Self {
        Self::default()
    }
    /// Adds one string.
    ///
    /// # Panics
    /// When it is 4 GiB or longer.
    pub fn push(&mut self, item: &[u8]) {
        self.bytes.extend_from_slice(item);
        self.push_len(item.len());
    }
    /// Adds one string that `write` appends to the buffer, which saves the caller a buffer of its own.
    ///
    /// # Panics
    /// When it is 4 GiB or longer, or when `write` shortens the buffer.
    pub fn push_with(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        let before = self.bytes.len();
        write(&mut self.bytes);
        assert!(self.bytes.len() >= before, "a writer may only append");
        self.push_len(self.bytes.len() - before);
    }
    fn push_len(&mut self, len: usize) {
        let len =
            u32::try_from(len).ok().filter(|len| *len != MIXED).expect("a list's string is under 4 GiB");
        self.lens.push(len);
    }
    /// How many strings so far.
    pub fn len(&self) -> usize {
        self.lens.len()
    }
    /// Whether there is none yet.
    pub fn is_empty(&self) -> bool {
        self.lens.is_empty()
    }
    /// The bytes of all strings so far.
    pub fn byte_len(&self) -> usize {
        self.bytes.len()
    }
    /// Forgets all strings beyond the first `count`: undoes what one command wrote.
    pub fn truncate(&mut self, count: usize) {
        let gone: usize = self.lens.iter().skip(count).map(|len| *len as usize).sum();
        self.lens.truncate(count);
        self.bytes.truncate(self.bytes.len() - gone);
    }
    /// Forgets all strings and keeps the memory.
    pub fn clear(&mut self) {
        self.lens.clear();
        self.bytes.clear();
    }
    /// How many bytes [`Self::write_to`] will append.
    pub fn encoded_len(&self) -> usize {
        HEADER + if self.is_uniform() { 0 } else { self.lens.len() * 4 } + self.bytes.len()
    }
    /// Appends the encoded list to `out`.
    pub fn write_to(&self, out: &mut Vec<u8>) {
        out.reserve(self.encoded_len());
        out.extend_from_slice(&(self.lens.len() as u32).to_le_bytes());
        if self.is_uniform() {
            out.extend_from_slice(&self.lens.first().copied().unwrap_or(0).to_le_bytes());
        } else {
            out.extend_from_slice(&MIXED.to_le_bytes());
            for len in &self.lens {
                out.extend_from_slice(&len.to_le_bytes());
            }
        }
        out.extend_from_slice(&self.bytes);
    }
    fn is_uniform(&self) -> bool {
        self.lens.windows(2).all(|pair| pair[0] == pair[1])
    }
}

#[cfg(test)]
mod tests;
