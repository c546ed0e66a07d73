//! What is asked of the writes in the end: every acknowledged one is there, once, and in the order in which they were made.
//!
//! The store counts how often each key was written, and numbers all writes by the order in which they took effect. Tests: `check/tests.rs`.

use super::store::Entry;
use super::writer::{Sent, key, value};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

#[cfg(test)]
mod tests;

/// What came out, by the numbers of the writes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Verdict {
    /// Acknowledged writes that are there, with their value.
    pub(super) found: u64,
    /// Acknowledged writes that are not there.
    pub(super) lost: Vec<u64>,
    /// Writes that were done more than once.
    pub(super) twice: Vec<u64>,
    /// Acknowledged writes that took effect before an earlier one.
    pub(super) out_of_order: Vec<u64>,
    /// Keys with another value than the one written, or that nobody wrote, or whose write was said never to be done.
    pub(super) wrong: Vec<String>,
}

impl Verdict {
    /// Whether all is as it must be.
    pub(super) fn is_right(&self) -> bool {
        self.lost.is_empty() && self.twice.is_empty() && self.out_of_order.is_empty() && self.wrong.is_empty()
    }

    /// The same, for programs.
    pub(super) fn json(&self) -> Value {
        json!({
            "found": self.found,
            "lost": self.lost,
            "twice": self.twice,
            "out_of_order": self.out_of_order,
            "wrong": self.wrong,
        })
    }

    /// What is wrong, in words.
    pub(super) fn text(&self) -> String {
        let Self { lost, twice, out_of_order, wrong, .. } = self;
        format!(
            "{} acknowledged writes are right, but: lost {}, done twice {}, out of order {}, other than written {}. This must never \
             happen: please report it",
            self.found,
            lost.len(),
            twice.len(),
            out_of_order.len(),
            wrong.len()
        )
    }
}

/// Compares what was sent with what is there.
pub(super) fn compare(sent: &Sent, entries: &[Entry]) -> Verdict {
    let mut verdict = Verdict::default();
    let mut there: BTreeMap<&[u8], &Entry> =
        entries.iter().map(|entry| (entry.key.as_slice(), entry)).collect();
    // A key that comes twice is not one entry of a store.
    if there.len() < entries.len() {
        verdict.wrong.push(format!("{} keys come more than once", entries.len() - there.len()));
    }
    let unknown: BTreeSet<u64> = sent.unknown.iter().copied().collect();
    let (mut last, mut all) = (0, sent.acknowledged.clone());
    all.extend(&sent.unknown);
    all.sort_unstable();
    for number in all {
        let (key, certain) = (key(number), !unknown.contains(&number));
        let Some(entry) = there.remove(key.as_bytes()) else {
            if certain {
                verdict.lost.push(number);
            }
            continue;
        };
        if entry.value != value(number).as_bytes() {
            verdict.wrong.push(key);
            continue;
        }
        if entry.version != 1 {
            verdict.twice.push(number);
        }
        // A write of which nobody was told may take effect late.
        if certain {
            verdict.found += 1;
            if entry.revision <= last {
                verdict.out_of_order.push(number);
            }
            last = last.max(entry.revision);
        }
    }
    verdict.wrong.extend(there.keys().map(|key| String::from_utf8_lossy(key).into_owned()));
    verdict
}
