//! Whether requests that ran at the same time did what they would have done one after the other, in some order.
//!
//! Of each key that was written, the order of its writers is known; and of each read, which of these versions it saw. So a request comes before
//! another one if that one wrote over what it wrote or saw, or saw what it wrote. If that has no circle, any order that respects it gives the same
//! replies and the same state. All requests of a wave were asked for before any of them was answered, so each such order is right for clients
//! (Herlihy, Wing: linearizability). Sources: Papadimitriou, "The serializability of concurrent database updates" (JACM 1979); Adya's
//! version order. INV-EXEC-11: what becomes final of a wave is what an order of its requests gives. Tests: serial/tests.rs, by brute force.

use crate::hints::within;
use crate::view::{Noted, RangeEnd, RunId};
use quorate_types::planted;
use std::collections::{BTreeMap, BTreeSet};

/// The keys that a wave wrote, each with the places of its writers in the wave, in their order.
pub(super) type Writers = BTreeMap<Box<[u8]>, Vec<usize>>;

/// How the requests of a wave met.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Met {
    /// None used what another one wrote.
    Apart,
    /// They did what they do one after the other in this order of their places.
    Serial(Vec<usize>),
    /// No order is known in which they do it.
    Tangled,
}

/// How the requests of a wave met.
pub(super) fn met(wave: &[&Noted], writers: &Writers) -> Met {
    let mut before = BTreeSet::new();
    for of in writers.values() {
        before.extend(of.windows(2).map(|pair| (pair[0], pair[1])));
    }
    for (reader, noted) in wave.iter().enumerate() {
        let changed = noted.reads.changed.iter().map(|(key, version)| (key, version));
        for (key, version) in noted.reads.keys.iter().chain(changed) {
            if let Some(of) = writers.get(key) {
                saw(reader, of, *version, &mut before);
            }
        }
        for range in noted.reads.ranges.iter().filter(|_| !planted("meetings-in-ranges-missed")) {
            let seen: BTreeMap<&[u8], RunId> = range.saw.iter().map(|(key, run)| (&**key, *run)).collect();
            let inside = writers.range::<[u8], _>(within(&range.start, None));
            for (key, of) in inside.take_while(|(key, _)| range.end.covers(key)) {
                saw(reader, of, seen.get(&**key).copied(), &mut before);
            }
        }
    }
    before.retain(|(one, other)| one != other);
    if before.is_empty() {
        return Met::Apart;
    }
    order(wave.len(), &before).map_or(Met::Tangled, Met::Serial)
}

/// A request saw this version of a key with these writers: it comes behind the one that wrote it, and before the next.
fn saw(reader: usize, writers: &[usize], version: Option<RunId>, before: &mut BTreeSet<(usize, usize)>) {
    let version = version.map_or(0, |version| version.0 as usize);
    before.extend(version.checked_sub(1).and_then(|last| Some((*writers.get(last)?, reader))));
    before.extend(writers.get(version).map(|next| (reader, *next)));
}

/// The first order of so many that respects these pairs, if there is one.
fn order(count: usize, before: &BTreeSet<(usize, usize)>) -> Option<Vec<usize>> {
    let mut waits = vec![0; count];
    before.iter().for_each(|(_, other)| waits[*other] += 1);
    let mut ready: BTreeSet<usize> = (0..count).filter(|at| waits[*at] == 0).collect();
    let mut order = Vec::with_capacity(count);
    while let Some(next) = ready.pop_first() {
        order.push(next);
        for (_, other) in before.range((next, 0)..(next + 1, 0)) {
            waits[*other] -= 1;
            if waits[*other] == 0 {
                ready.insert(*other);
            }
        }
    }
    (order.len() == count).then_some(order)
}

/// The last requests of a batch that used a key.
#[derive(Clone, Copy, Default)]
struct Last {
    read: Option<usize>,
    write: Option<usize>,
}

/// What requests of a batch used in the waves so far. A later request of the batch may have run in an earlier wave; if one uses what the other wrote, the
/// result is not that of the batch's order. Only wrong hints do that.
#[derive(Default)]
pub(super) struct Past {
    uses: BTreeMap<Box<[u8]>, Last>,
    ranges: Vec<(Box<[u8]>, RangeEnd, usize)>,
    /// Whether such a thing happened.
    pub(super) is_turned: bool,
}

impl Past {
    /// A wave ran: these requests, by their places in the batch.
    pub(super) fn wave<'n>(&mut self, requests: impl Iterator<Item = (usize, &'n Noted)> + Clone) {
        self.is_turned |= requests.clone().any(|(index, noted)| self.turns(index, noted));
        for (index, noted) in requests {
            let reads = noted.reads.keys.keys().map(|key| (key, false));
            for (key, writes) in reads.chain(noted.writes.keys().map(|key| (key, true))) {
                let Last { read, write } = self.uses.entry(key.clone()).or_default();
                let last = if writes { write } else { read };
                *last = (*last).max(Some(index));
            }
            let ranges = noted.reads.ranges.iter();
            self.ranges.extend(ranges.map(|range| (range.start.clone(), range.end.clone(), index)));
        }
    }

    /// Whether a later request that ran before uses what this one wrote, or wrote what it used.
    fn turns(&self, index: usize, noted: &Noted) -> bool {
        let later = |last: Option<usize>| last > Some(index);
        let of = |key: &[u8]| self.uses.get(key).copied().unwrap_or_default();
        let any_later = self.ranges.iter().any(|(.., reader)| *reader > index);
        let in_range = |key: &[u8]| {
            let covers = |(start, end, reader): &(Box<[u8]>, RangeEnd, usize)| {
                *reader > index && **start <= *key && end.covers(key)
            };
            any_later && self.ranges.iter().any(covers)
        };
        noted.reads.keys.keys().any(|key| later(of(key).write))
            || noted.writes.keys().any(|key| later(of(key).read.max(of(key).write)) || in_range(key))
            || noted.reads.ranges.iter().any(|range| {
                let inside = self.uses.range::<[u8], _>(within(&range.start, None));
                inside.take_while(|(key, _)| range.end.covers(key)).any(|(_, last)| later(last.write))
            })
    }
}

#[cfg(test)]
mod tests;
