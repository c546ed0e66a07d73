//! The keys in which a diverged state differs from the agreed one: evidence for the operator.

use crate::store::{Store, Version};
use bytes::Bytes;

/// How a key differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Difference {
    /// Both have it, with different values.
    Value,
    /// Only the diverged state has it.
    Extra,
    /// Only the agreed state has it.
    Lacking,
}

/// The keys that differ.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Differing {
    /// The first ones, in key order.
    pub keys: Vec<(Bytes, Difference)>,
    /// How many there are in all, as far as was counted.
    pub count: u64,
    /// Whether counting stopped before the end.
    pub more: bool,
}

/// Counting stops here: more than this is of no use, and counting takes time.
const COUNT_MAX: u64 = 1 << 20;

/// Compares this replica's diverged state with the fetched, agreed one. Lists at most `keys_max` keys; parts that the two share are
/// skipped.
pub fn differing_keys(diverged: &Version, agreed: &Store, keys_max: usize) -> Differing {
    let agreed = agreed.version();
    let mut differing = Differing::default();
    for (key, value) in agreed.changes_since(diverged) {
        if differing.count >= COUNT_MAX {
            differing.more = true;
            break;
        }
        let difference = match (diverged.get(key), value) {
            (Some(ours), Some(theirs)) if ours == theirs => continue,
            (None, None) => continue,
            (Some(_), Some(_)) => Difference::Value,
            (Some(_), None) => Difference::Extra,
            (None, Some(_)) => Difference::Lacking,
        };
        differing.count += 1;
        if differing.keys.len() < keys_max {
            differing.keys.push((Bytes::copy_from_slice(key), difference));
        }
    }
    differing
}
