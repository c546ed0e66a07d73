//! What always holds. docs/invariants.md lists the invariants in words.

use crate::local::{Local, Stay};
use crate::merge::Merge;

/// Panics with the name of the invariant that does not hold. `thorough` looks at every record.
pub(crate) fn check<T>(merge: &Merge<T>, thorough: bool) {
    merge.course.check();
    for (at, local) in merge.locals.iter().enumerate() {
        let done = merge.done(at);
        assert!(
            local.base <= done && local.noop_end().is_none_or(|end| end > done),
            "INV-MERGE-2: the floor lies between two records, the last one delivered whole"
        );
        if let Stay::Leaves(border) = local.stay {
            assert!(local.placed <= border, "INV-MERGE-4: an instance leaves at the border");
        }
        if let Some(lead) = local.lead {
            assert!(
                !lead.is_settled() || lead.tail().number() >= local.placed,
                "INV-MERGE-5: a leader knows its own log"
            );
        }
        if thorough {
            local.scan();
        }
    }
}

impl<T> Local<T> {
    fn scan(&self) {
        let (mut end, mut record, mut bytes) = (self.base, self.record, 0);
        for item in &self.queue {
            let slots = item.end.checked_sub(end).filter(|slots| *slots > 0);
            let fits = slots.is_some_and(|slots| item.payload.is_none() || slots == 1);
            assert!(
                fits && item.record > record,
                "INV-MERGE-2: records follow each other without a gap between slots"
            );
            (end, record) = (item.end, item.record);
            bytes += item.payload.as_ref().map_or(0, |(_, bytes)| *bytes);
        }
        assert!(end == self.placed && record <= self.last, "INV-MERGE-2: the slots of records are summed up");
        bytes += self.unplaced.iter().map(|(_, what)| crate::local::bytes_of(what)).sum::<usize>();
        assert!(bytes == self.bytes, "INV-MERGE-2: bytes that are held are counted");
    }
}
