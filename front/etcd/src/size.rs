//! The size of the store, for those who keep it within bounds.

use crate::proto;
use crate::space::Meta;
use quorate_execute::Store;

/// The answer to [`Query::Size`](crate::Query::Size).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SizeNow {
    /// The bytes of all objects: keys, values, what was overwritten or deleted since the compacted revision, users and leases.
    pub bytes: u64,
    /// How many objects there are.
    pub objects: u64,
    /// The compacted revision, 0 before the first compaction.
    pub compacted: i64,
    /// Whether entries that were compacted are still being removed.
    pub is_sweeping: bool,
}

impl SizeNow {
    pub(crate) fn of(store: &Store, meta: &Meta) -> Self {
        Self {
            bytes: store.bytes(),
            objects: store.len(),
            compacted: meta.compacted,
            is_sweeping: meta.is_sweeping(),
        }
    }

    pub(crate) fn encode(self, out: &mut Vec<u8>) {
        let numbers = [self.bytes, self.objects, self.compacted as u64, u64::from(self.is_sweeping)];
        numbers.into_iter().for_each(|number| proto::number(out, number));
    }

    /// Decodes the answer's body; nothing if it is none.
    pub fn decode(mut body: &[u8]) -> Option<Self> {
        let mut next = || proto::read_number(&mut body);
        Some(Self { bytes: next()?, objects: next()?, compacted: next()? as i64, is_sweeping: next()? != 0 })
    }
}
