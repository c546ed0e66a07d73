//! A map of lists of strings: a service to measure with, and small enough to check every answer.
//!
//! Source: Bessani, Sousa, Alchieri, "State Machine Replication for the Masses with BFT-SMaRt", DSN 2014, section 6.3 (BFTMapList: `put`,
//! `remove`, `size`, `containsKey` and `putEntry`). A list is one object: its strings, each with its length before it.
//!
//! ```text
//! command  1 u8 | key: an empty list, in place of the one that the key has
//!        | 2 u8 | key | string: append
//!        | 3 u8 | key: remove
//! query    4 u8: the number of keys and of strings
//!        | 5 u8 | key: the length of its list
//! key      length u16 | bytes            string   bytes, to the end
//! reply    1 u8 | length u64: of the list before the command, or now    | 2 u8: the key has no list
//!        | 3 u8 | keys u64 | strings u64
//!        | 4 u8: refused, since it is malformed or too long; nothing changed
//! ```
//!
//! Numbers are little-endian. Tests: `tests/all/lists.rs`.

use quorate_execute::{Context, ObjectService, ReplySink, Store};

/// The longest key and the longest string, in bytes.
pub const TEXT_BYTES_MAX: usize = 4096;
/// The longest list, in bytes with the lengths of its strings.
pub const LIST_BYTES_MAX: usize = 1 << 20;
/// Bytes before each string.
const LEN: usize = 2;

/// What a client asks for. The first three are commands, the others queries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListAsk<'a> {
    /// Gives the key an empty list.
    Put(&'a [u8]),
    /// Appends a string to the list of the key, which begins with it if there was none.
    Append(&'a [u8], &'a [u8]),
    /// Removes the key.
    Remove(&'a [u8]),
    /// How many keys and strings there are.
    Totals,
    /// The length of the key's list.
    Length(&'a [u8]),
}

/// The answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListReply {
    /// How many strings the key's list has, or had before the command; `None`: the key has, or had, no list.
    Length(Option<u64>),
    /// All keys and all strings.
    Totals {
        /// The number of keys.
        keys: u64,
        /// The number of strings in their lists.
        strings: u64,
    },
    /// It is malformed or too long. Nothing changed.
    Refused,
}

impl<'a> ListAsk<'a> {
    /// Its bytes.
    ///
    /// # Panics
    /// When a key is longer than a length can say, 65535 bytes.
    pub fn encode(&self) -> Vec<u8> {
        let (kind, key, string): (u8, &[u8], &[u8]) = match self {
            Self::Put(key) => (1, key, b""),
            Self::Append(key, string) => (2, key, string),
            Self::Remove(key) => (3, key, b""),
            Self::Totals => return vec![4],
            Self::Length(key) => (5, key, b""),
        };
        let len = u16::try_from(key.len()).expect("a key of at most 65535 bytes");
        [&[kind][..], &len.to_le_bytes(), key, string].concat()
    }

    /// Reads what [`Self::encode`] wrote; `None`: the bytes are none, or a text is too long.
    pub fn decode(bytes: &'a [u8]) -> Option<Self> {
        let (kind, rest) = bytes.split_first()?;
        if *kind == 4 {
            return rest.is_empty().then_some(Self::Totals);
        }
        let (len, rest) = rest.split_first_chunk::<LEN>()?;
        let (key, string) = rest.split_at_checked(usize::from(u16::from_le_bytes(*len)))?;
        if key.len() > TEXT_BYTES_MAX || string.len() > TEXT_BYTES_MAX {
            return None;
        }
        match kind {
            2 => Some(Self::Append(key, string)),
            1 if string.is_empty() => Some(Self::Put(key)),
            3 if string.is_empty() => Some(Self::Remove(key)),
            5 if string.is_empty() => Some(Self::Length(key)),
            _ => None,
        }
    }
}

impl ListReply {
    /// Its bytes.
    pub fn encode(&self) -> Vec<u8> {
        match self {
            Self::Length(Some(length)) => [&[1][..], &length.to_le_bytes()].concat(),
            Self::Length(None) => vec![2],
            Self::Totals { keys, strings } => {
                [&[3][..], &keys.to_le_bytes(), &strings.to_le_bytes()].concat()
            }
            Self::Refused => vec![4],
        }
    }

    /// Reads what [`Self::encode`] wrote; `None`: the bytes are something else.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let (kind, rest) = bytes.split_first()?;
        let (numbers, left) = rest.as_chunks::<8>();
        let numbers: Vec<u64> = numbers.iter().map(|bytes| u64::from_le_bytes(*bytes)).collect();
        match (kind, &numbers[..], left) {
            (1, [length], []) => Some(Self::Length(Some(*length))),
            (2, [], []) => Some(Self::Length(None)),
            (3, [keys, strings], []) => Some(Self::Totals { keys: *keys, strings: *strings }),
            (4, [], []) => Some(Self::Refused),
            _ => None,
        }
    }
}

/// The number of strings in a list.
fn length(list: &[u8]) -> u64 {
    let (mut rest, mut count) = (list, 0);
    while let Some((len, after)) = rest.split_first_chunk::<LEN>() {
        rest = after.get(usize::from(u16::from_le_bytes(*len))..).unwrap_or_default();
        count += 1;
    }
    count
}

/// The service. Objects are named by the keys.
#[derive(Clone, Copy, Debug, Default)]
pub struct Lists;

impl Lists {
    fn change(store: &mut Store, ask: ListAsk<'_>) -> ListReply {
        let before = |store: &Store, key: &[u8]| ListReply::Length(store.get(key).map(length));
        match ask {
            ListAsk::Put(key) => {
                let reply = before(store, key);
                store.put(key, b"");
                reply
            }
            ListAsk::Append(key, string) => {
                let reply = before(store, key);
                let list = store.get(key).unwrap_or_default();
                if list.len() + LEN + string.len() > LIST_BYTES_MAX {
                    return ListReply::Refused;
                }
                // The decoder let no longer one pass.
                let len = string.len() as u16;
                let list = [list, &len.to_le_bytes(), string].concat();
                store.put(key, &list);
                reply
            }
            ListAsk::Remove(key) => {
                let reply = before(store, key);
                store.remove(key);
                reply
            }
            ListAsk::Totals | ListAsk::Length(_) => Self::answer(store, ask),
        }
    }

    fn answer(store: &Store, ask: ListAsk<'_>) -> ListReply {
        match ask {
            ListAsk::Totals => {
                let add = |(keys, strings): (u64, u64), list: &[u8]| (keys + 1, strings + length(list));
                let (keys, strings) = store.range(b"", None).fold((0, 0), |all, (_, list)| add(all, list));
                ListReply::Totals { keys, strings }
            }
            ListAsk::Length(key) => ListReply::Length(store.get(key).map(length)),
            ListAsk::Put(_) | ListAsk::Append(..) | ListAsk::Remove(_) => ListReply::Refused,
        }
    }
}

impl ObjectService for Lists {
    fn execute(&mut self, store: &mut Store, command: &[u8], _: &Context, reply: &mut ReplySink<'_>) {
        let answer = ListAsk::decode(command).map_or(ListReply::Refused, |ask| Self::change(store, ask));
        reply.write(&answer.encode());
    }

    fn query(&self, store: &Store, query: &[u8], _: &Context, reply: &mut ReplySink<'_>) {
        let answer = ListAsk::decode(query).map_or(ListReply::Refused, |ask| Self::answer(store, ask));
        reply.write(&answer.encode());
    }
}
