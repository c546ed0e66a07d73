//! The path of a subtree of the store: the half bytes with which all its keys begin.

use std::cmp::Ordering;
use std::fmt;

use super::symbols::{END_PLACE, place_of};
use super::{END, KEY_BYTES_MAX};

/// The half bytes that all keys of a subtree begin with, the high one of each byte first; or a whole key and "ends here" ([`Path::END`]).
///
/// Paths are ordered like the keys under them: a path comes before longer ones that begin with it, and "ends here" before all half bytes.
/// There is only one key under a path that ends.
#[derive(Clone, PartialEq, Eq, Hash, Default)]
pub struct Path(Box<[u8]>);

impl Path {
    /// The symbol for "a key ends here". Only a path's last symbol can be it.
    pub const END: u8 = END;

    /// The path of everything.
    pub fn root() -> Self {
        Self::default()
    }

    /// The path with these symbols: 0 to 15, and perhaps [`Path::END`] as the last one, after whole bytes. `None` for anything else.
    pub fn from_bytes(symbols: &[u8]) -> Option<Self> {
        let (nibbles, ended) = match symbols.split_last() {
            Some((&END, nibbles)) => (nibbles, true),
            _ => (symbols, false),
        };
        let fits = nibbles.len() <= 2 * KEY_BYTES_MAX && (!ended || nibbles.len().is_multiple_of(2));
        (fits && nibbles.iter().all(|&nibble| nibble < 16)).then(|| Self(symbols.into()))
    }

    /// Its symbols, one byte each; [`Path::from_bytes`] reads them.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// How many symbols it has.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether this is the path of everything.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether the key lies under this path.
    pub fn contains(&self, key: &[u8]) -> bool {
        self.0.len() <= 2 * key.len() + 1
            && self.0.iter().enumerate().all(|(at, &symbol)| place_of(key, at) == place(symbol))
    }

    /// Whether everything under `other` lies under this path, too.
    pub fn covers(&self, other: &Self) -> bool {
        other.0.starts_with(&self.0)
    }

    /// The path with these symbols, which come from keys.
    pub(super) fn from_symbols(symbols: &[u8]) -> Self {
        Self(symbols.into())
    }

    /// The lowest key that could lie under it, and the lowest key after all those (`None`: there is none).
    pub(super) fn bounds(&self) -> (Vec<u8>, Option<Vec<u8>>) {
        if let Some((&END, nibbles)) = self.0.split_last() {
            let key = packed(nibbles);
            let mut after = key.clone();
            after.push(0);
            return (key, Some(after));
        }
        let kept = self.0.len() - self.0.iter().rev().take_while(|&&nibble| nibble == 15).count();
        let after = (kept > 0).then(|| {
            let mut nibbles = self.0[..kept].to_vec();
            nibbles[kept - 1] += 1;
            packed(&nibbles)
        });
        (packed(&self.0), after)
    }
}

/// A symbol's place in the order of symbols.
fn place(symbol: u8) -> u32 {
    if symbol == END { END_PLACE } else { u32::from(symbol) + 1 }
}

/// The bytes with these half bytes; a missing last one is 0.
fn packed(nibbles: &[u8]) -> Vec<u8> {
    nibbles.chunks(2).map(|pair| pair[0] << 4 | pair.get(1).copied().unwrap_or(0)).collect()
}

impl Ord for Path {
    fn cmp(&self, other: &Self) -> Ordering {
        let differing = self.0.iter().zip(&other.0).find(|(ours, theirs)| ours != theirs);
        match differing {
            Some((&END, _)) => Ordering::Less,
            Some((_, &END)) => Ordering::Greater,
            Some((ours, theirs)) => ours.cmp(theirs),
            None => self.0.len().cmp(&other.0.len()),
        }
    }
}

impl PartialOrd for Path {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for Path {
    /// Its half bytes as hexadecimal digits, and a full stop where a key ends.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|&symbol| match symbol {
            END => f.write_str("."),
            nibble => write!(f, "{nibble:x}"),
        })
    }
}

impl fmt::Debug for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Path({self})")
    }
}
