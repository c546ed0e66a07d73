//! The mixer: puts the requests of a batch into waves. Requests of one wave run at the same time, and waves one after the other.
//!
//! Source: Kapritsos (Eve), section 3.3.1. There a request goes into the first set in which nothing conflicts with it, so it may run before
//! one that it conflicts with. Here its wave is one behind the last wave of all earlier ones that it conflicts with. So if no hint is
//! wrong, the result is that of one request after the other. The waves follow from the batch alone, so they are the same at all replicas.

use crate::hints::{Entry, Hint, within};
use quorate_types::{SessionId, planted};
use std::collections::BTreeMap;

/// With more ranges than this, later requests that name one wait for all before.
const RANGES_MAX: usize = 64;

/// The waves so far: for each key and session the last one that used it, counted from 1.
#[derive(Default)]
struct Mixer<'e> {
    reads: BTreeMap<&'e [u8], usize>,
    writes: BTreeMap<&'e [u8], usize>,
    ranges: Vec<Read<'e>>,
    sessions: BTreeMap<SessionId, usize>,
    /// The last wave that conflicts with everything, and the last one.
    floor: usize,
    last: usize,
}

/// A range that a request reads, and its wave.
struct Read<'e> {
    start: &'e [u8],
    end: Option<&'e [u8]>,
    wave: usize,
}

/// The requests by their waves, each wave in the order of the batch. `entries` are sorted by their index.
pub(super) fn waves<'e>(entries: impl Iterator<Item = (usize, &'e Entry)>) -> Vec<Vec<usize>> {
    let (mut mixer, mut waves) = (Mixer::default(), Vec::<Vec<usize>>::new());
    for (index, entry) in entries {
        let wave = mixer.enter(entry);
        if waves.len() < wave {
            waves.resize(wave, Vec::new());
        }
        waves[wave - 1].push(index);
    }
    waves
}

impl<'e> Mixer<'e> {
    /// The wave of the next request.
    fn enter(&mut self, entry: &'e Entry) -> usize {
        let session = entry.ctx.session();
        let ranges = entry.hints.iter().filter(|hint| matches!(hint, Hint::Range(..))).count();
        let conflicts_with_all = !entry.is_known || self.ranges.len() + ranges > RANGES_MAX;
        let mut before = if conflicts_with_all { self.last } else { self.floor };
        if !planted("session-in-one-wave") {
            before = before.max(self.sessions.get(&session).copied().unwrap_or(0));
        }
        for hint in &entry.hints {
            before = before.max(self.before(hint));
        }
        let first_fit = planted("mixer-by-first-fit") && !conflicts_with_all;
        let wave = if first_fit { self.floor + 1 + usize::from(before > self.floor) } else { before + 1 };
        self.last = self.last.max(wave);
        self.sessions.insert(session, wave);
        if conflicts_with_all {
            self.floor = wave;
        } else {
            entry.hints.iter().for_each(|hint| self.note(hint, wave));
        }
        wave
    }

    /// The last wave with a request that conflicts with one that uses this.
    fn before(&self, hint: &Hint) -> usize {
        let of = |map: &BTreeMap<&[u8], usize>, key: &[u8]| map.get(key).copied().unwrap_or(0);
        match hint {
            Hint::Read(key) => of(&self.writes, key),
            Hint::Write(key) => {
                let covers =
                    |read: &&Read<'_>| read.start <= &**key && read.end.is_none_or(|end| &**key < end);
                let ranges = self.ranges.iter().filter(covers).map(|read| read.wave).max();
                of(&self.writes, key).max(of(&self.reads, key)).max(ranges.unwrap_or(0))
            }
            Hint::Range(start, end) => {
                let writes = self.writes.range::<[u8], _>(within(start, end.as_deref()));
                writes.map(|(_, wave)| *wave).max().unwrap_or(0)
            }
        }
    }

    fn note(&mut self, hint: &'e Hint, wave: usize) {
        let latest = |map: &mut BTreeMap<&'e [u8], usize>, key| {
            let of = map.entry(key).or_insert(0);
            *of = wave.max(*of);
        };
        match hint {
            Hint::Read(key) => latest(&mut self.reads, key),
            Hint::Write(key) => latest(&mut self.writes, key),
            Hint::Range(start, end) => self.ranges.push(Read { start, end: end.as_deref(), wave }),
        }
    }
}

#[cfg(test)]
pub(super) mod tests;
