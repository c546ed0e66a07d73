//! The two numbers of a record: instances number their own records, the log numbers all.

use quorate_types::RecordId;

/// Maps the two numberings. Both are consecutive, so they differ by a constant, except where a record of another instance or of the node
/// lies in between. Only those places are kept.
#[derive(Debug, Default)]
pub(crate) struct RecordMap {
    /// (The instance's number, the log's number) at the start of each run.
    runs: Vec<(u64, u64)>,
    last: u64,
    /// Records below this number of the log are forgotten.
    begin: u64,
}

impl RecordMap {
    /// The instance's next record has this number in the log.
    pub(crate) fn push(&mut self, own: RecordId, log: RecordId) {
        let (own, log) = (own.number(), log.number());
        assert_eq!(own, self.last + 1, "INV-NODE-3 an instance numbers its records without gaps");
        self.last = own;
        let continues = self.runs.last().is_some_and(|(o, l)| own - o == log - l);
        if !continues {
            self.runs.push((own, log));
        }
    }

    /// Forgets the records below this number of the log, which the log does not hold any more.
    pub(crate) fn forget_below(&mut self, log: RecordId) {
        let gone = self.runs.partition_point(|(_, l)| *l <= log.number()).saturating_sub(1);
        self.runs.drain(..gone);
        self.begin = self.begin.max(log.number());
    }

    /// The log's number of an instance's record.
    pub(crate) fn log(&self, own: RecordId) -> Option<RecordId> {
        let own = own.number();
        if own == 0 || own > self.last {
            return None;
        }
        let run = self.runs.partition_point(|(o, _)| *o <= own).checked_sub(1)?;
        let (o, l) = self.runs[run];
        Some(RecordId::new(l + (own - o))).filter(|log| log.number() >= self.begin)
    }

    /// The instance's last record that is not after this one of the log; 0 if it is forgotten.
    pub(crate) fn own_up_to(&self, log: RecordId) -> RecordId {
        let log = log.number();
        let Some(run) = self.runs.partition_point(|(_, l)| *l <= log).checked_sub(1) else {
            return RecordId::ZERO;
        };
        let (o, l) = self.runs[run];
        let end = self.runs.get(run + 1).map_or(self.last, |(next, _)| next - 1);
        RecordId::new((o + (log - l)).min(end))
    }
}

#[cfg(test)]
mod tests;
