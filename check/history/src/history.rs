//! A whole history in memory, with the line that each event came from.

use crate::event::Event;
use crate::jsonl::{ReadError, Reader};
use std::collections::BTreeMap;
use std::io::BufRead;

/// Events and their line numbers. The order of the events carries no meaning, except between operations of
/// one client that were called at the same nanosecond.
#[derive(Clone, Debug, Default)]
pub struct History {
    events: Vec<Event>,
    lines: Vec<u64>,
}

impl History {
    /// A history built in memory; event `i` counts as line `i + 1`. The caller answers for
    /// [`Event::validate`].
    pub fn from_events(events: Vec<Event>) -> History {
        let lines = (1..=events.len() as u64).collect();
        History { events, lines }
    }

    /// Reads all lines, up to the first bad one.
    pub fn read(reader: impl BufRead) -> Result<History, ReadError> {
        let mut history = History::default();
        let mut reader = Reader::new(reader);
        while let Some(event) = reader.next() {
            history.events.push(event?);
            history.lines.push(reader.line());
        }
        Ok(history)
    }

    /// All events, in file order.
    pub fn events(&self) -> &[Event] {
        &self.events
    }

    /// The line of event `index`.
    pub(crate) fn line(&self, index: usize) -> u64 {
        self.lines[index]
    }

    /// The positions of each key's events, keys in order.
    pub(crate) fn by_key(&self) -> BTreeMap<&str, Vec<usize>> {
        let mut keys: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for (index, event) in self.events.iter().enumerate() {
            keys.entry(&event.key).or_default().push(index);
        }
        keys
    }
}

impl From<Vec<Event>> for History {
    fn from(events: Vec<Event>) -> History {
        History::from_events(events)
    }
}
