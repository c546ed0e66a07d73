//! The mixer: which earlier requests a request should wait for, by the keys that the service names.
//!
//! Source: Kapritsos, section 3.3.1, for what it is: its errors cost time and nothing else. There requests are put into waves; here each
//! waits for the last writer of every key that it uses, so a slow request holds back only those that need it. A write waits as a read
//! does, since most commands that write a key also say what was there.

use crate::hints::{Hint, within};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// The requests that are not final, by the keys that they will probably write.
#[derive(Debug, Default)]
pub(super) struct Mixer {
    writers: BTreeMap<Box<[u8]>, VecDeque<u64>>,
}

impl Mixer {
    /// The next request enters. Gives those before it that it should wait for.
    pub(super) fn enter(&mut self, at: u64, hints: &[Hint]) -> BTreeSet<u64> {
        let mut before = BTreeSet::new();
        for hint in hints {
            match hint {
                Hint::Read(key) | Hint::Write(key) => before.extend(self.last(key)),
                Hint::Range(start, end) => {
                    let writers = self.writers.range::<[u8], _>(within(start, end.as_deref()));
                    before.extend(writers.filter_map(|(_, writers)| writers.back()));
                }
            }
        }
        for hint in hints {
            if let Hint::Write(key) = hint {
                let writers = self.writers.entry(key.clone()).or_default();
                if writers.back() != Some(&at) {
                    writers.push_back(at);
                }
            }
        }
        before
    }

    fn last(&self, key: &[u8]) -> Option<u64> {
        self.writers.get(key)?.back().copied()
    }

    /// A request is final. Requests leave in the order in which they entered.
    pub(super) fn leave(&mut self, at: u64, hints: &[Hint]) {
        for hint in hints {
            if let Hint::Write(key) = hint
                && let Some(writers) = self.writers.get_mut(key)
            {
                if writers.front() == Some(&at) {
                    writers.pop_front();
                }
                if writers.is_empty() {
                    self.writers.remove(key);
                }
            }
        }
    }

    /// Whether nobody is in it.
    pub(super) fn is_empty(&self) -> bool {
        self.writers.is_empty()
    }
}
