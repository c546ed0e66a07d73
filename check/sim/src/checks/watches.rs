//! INV-SIM-WATCH: a watch gets exactly the store's events from its start on, in order, each once, and none late: if nothing is on its way
//! to it, it lacks nothing. It ends as compacted only if an event that it has not seen may be gone.

use super::Failure;
use crate::service::Row;
use crate::watching::key_of;
use quorate_etcd::WatchSpec;

/// An event as a client sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shown {
    /// Its revision.
    pub revision: i64,
    /// Its key.
    pub key: Vec<u8>,
    /// The value that was put.
    pub value: Vec<u8>,
}

/// What one watch has seen.
#[derive(Clone, Debug)]
pub struct Watched {
    spec: WatchSpec,
    /// The revision from which it asked for events.
    start: i64,
    /// It has seen everything before this revision.
    next: i64,
}

impl Watched {
    /// A watch that begins at this revision.
    pub fn new(spec: WatchSpec, start: i64) -> Self {
        Self { spec, start, next: start }
    }

    /// The watch got an event. Each command puts one key, so the command with index i has the revision i + 2.
    ///
    /// # Errors
    /// When the event is not the next one that it should get.
    pub fn shown(&mut self, shown: &Shown, rows: &[Row]) -> Result<(), Failure> {
        if shown.revision < self.start {
            return self.wrong(format!("gets an event from before its start: {shown:?}"));
        }
        if shown.revision < self.next {
            return self.wrong(format!("gets an event that it has seen, or was to see earlier: {shown:?}"));
        }
        self.lacks_nothing_before(shown.revision, rows)?;
        let op = usize::try_from(shown.revision - 2).ok().and_then(|index| rows.get(index)).map(|row| row.op);
        let value = |op: (u32, u32)| [op.0.to_le_bytes(), op.1.to_le_bytes()].concat();
        if !op.is_some_and(|op| value(op) == shown.value && key_of(op) == shown.key) {
            return self.wrong(format!("gets {shown:?}, and the command was {op:?}"));
        }
        self.next = shown.revision + 1;
        Ok(())
    }

    /// Nothing is on its way to the watch, and the store is at this revision.
    ///
    /// # Errors
    /// When it lacks something.
    pub fn is_complete(&mut self, newest: i64, rows: &[Row]) -> Result<(), Failure> {
        self.lacks_nothing_before(newest + 1, rows)?;
        self.next = self.next.max(newest + 1);
        Ok(())
    }

    /// The watch ends, since events before the revision `compacted` are gone.
    ///
    /// # Errors
    /// When it has seen all of those, or did not ask for them.
    pub fn may_end(&self, compacted: i64) -> Result<(), Failure> {
        if self.next >= compacted {
            return self.wrong(format!("ends as compacted at {compacted}"));
        }
        Ok(())
    }

    fn lacks_nothing_before(&self, end: i64, rows: &[Row]) -> Result<(), Failure> {
        let at = |revision: i64| usize::try_from(revision - 2).unwrap_or(0);
        let between = rows.get(at(self.next)..at(end).min(rows.len()).max(at(self.next))).unwrap_or_default();
        match between.iter().position(|row| self.spec.query(0, 0).covers(&key_of(row.op))) {
            Some(index) => self.wrong(format!("misses the event of revision {}", self.next + index as i64)),
            None => Ok(()),
        }
    }

    fn wrong(&self, what: String) -> Result<(), Failure> {
        let Self { start, next, .. } = self;
        Err(Failure::new("watches", format!("a watch from {start} that has seen all before {next} {what}")))
    }
}
