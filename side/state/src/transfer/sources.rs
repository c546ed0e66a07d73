//! Who can send, what each was asked for, and who gets the next chunks.
//!
//! Every source has a window in bytes and gets new chunks as its old ones arrive, so faster ones do more by themselves. A source
//! answers in the order in which it is asked; so a chunk whose successors arrived is lost, and one from which nothing comes at
//! all stalls. Either way the chunks go back to those that anybody may be asked for.

use super::FetchLimits;
use quorate_types::{ReplicaId, Span, Time};
use std::collections::{BTreeMap, BTreeSet};

/// A chunk counts for so much in a window at least: each is a message and a read.
const LEAST: u64 = 4 << 10;
/// A source's time-out is doubled at most so many times.
const STRIKES_MAX: u32 = 4;

/// A chunk that a source was asked for.
#[derive(Clone, Copy, Debug)]
struct Asked {
    at: Time,
    /// Counts what this source was asked for.
    order: u64,
    bytes: u64,
}

/// Another member, as somebody to fetch from.
#[derive(Debug)]
pub(super) struct Source {
    connected: bool,
    /// It said that it holds the target.
    holder: bool,
    /// Sent something that the agreed digest proves wrong: never asked again, unless nobody else is left at all.
    liar: bool,
    /// Not asked before.
    rest: Option<Time>,
    strikes: u32,
    /// So many times in a row it was busy. What it refused at one moment counts once.
    refusals: u32,
    /// So many times in a row it did not hold the target.
    misses: u32,
    /// Damaged or missing there.
    without: BTreeSet<u32>,
    asked: BTreeMap<u32, Asked>,
    in_flight: u64,
    orders: u64,
    /// The highest order that was answered.
    answered: u64,
    /// When it was last heard of, or asked for something after it had nothing to answer.
    heard: Time,
    /// It was asked for a piece of the manifest.
    manifest: bool,
}

impl Source {
    fn new() -> Self {
        Self {
            connected: true,
            holder: false,
            liar: false,
            rest: None,
            strikes: 0,
            refusals: 0,
            misses: 0,
            without: BTreeSet::new(),
            asked: BTreeMap::new(),
            in_flight: 0,
            orders: 0,
            answered: 0,
            heard: Time::ZERO,
            manifest: false,
        }
    }
    fn rests(&self, now: Time) -> bool {
        self.rest.is_some_and(|until| until > now)
    }
    fn available(&self, now: Time) -> bool {
        self.connected && self.holder && !self.liar && !self.rests(now)
    }
    fn waits(&self) -> bool {
        self.manifest || !self.asked.is_empty()
    }
    fn patience(&self, limits: &FetchLimits) -> Span {
        limits.stall.times(1 << self.strikes.min(STRIKES_MAX))
    }
    /// When it stalls, unless something comes from it before.
    fn stalls(&self, limits: &FetchLimits) -> Option<Time> {
        self.waits().then(|| self.heard.plus(self.patience(limits)))
    }
    /// When a chunk that was passed over counts as lost.
    fn lost(&self, asked: &Asked, limits: &FetchLimits) -> Option<Time> {
        (asked.order < self.answered).then(|| asked.at.plus(self.patience(limits)))
    }
    fn began_to_wait(&mut self, now: Time) {
        if !self.waits() {
            self.heard = now;
        }
    }
}

/// All other members.
#[derive(Debug)]
pub(super) struct Sources {
    limits: FetchLimits,
    all: BTreeMap<ReplicaId, Source>,
    /// Parts of the target that are not here. Empty until its manifest is.
    missing: BTreeSet<u32>,
    /// Those of them that nobody is asked for.
    todo: BTreeSet<u32>,
    /// At how many sources a chunk is asked for.
    wanted: BTreeMap<u32, u32>,
}

impl Sources {
    pub(super) fn new(limits: FetchLimits) -> Self {
        Self {
            limits,
            all: BTreeMap::new(),
            missing: BTreeSet::new(),
            todo: BTreeSet::new(),
            wanted: BTreeMap::new(),
        }
    }

    pub(super) fn knows(&self, id: ReplicaId) -> bool {
        self.all.contains_key(&id)
    }
    /// From now on these are known.
    pub(super) fn know(&mut self, ids: &[ReplicaId]) {
        for id in ids {
            self.all.entry(*id).or_insert_with(Source::new);
        }
    }
    pub(super) fn is_liar(&self, id: ReplicaId) -> bool {
        self.all.get(&id).is_none_or(|source| source.liar)
    }

    /// Another checkpoint: nothing is asked for of it, and what was refused of the one before does not matter.
    pub(super) fn retarget(&mut self, holders: &[ReplicaId]) {
        self.missing.clear();
        self.todo.clear();
        self.wanted.clear();
        for source in self.all.values_mut() {
            source.asked.clear();
            source.without.clear();
            (source.in_flight, source.manifest) = (0, false);
        }
        self.set_holders(holders);
    }

    pub(super) fn set_holders(&mut self, holders: &[ReplicaId]) {
        self.all.iter_mut().for_each(|(id, source)| source.holder = holders.contains(id));
    }

    /// The manifest is here, these parts are missing.
    pub(super) fn begin(&mut self, missing: BTreeSet<u32>) {
        self.todo.clone_from(&missing);
        self.missing = missing;
    }

    /// How many parts are not here.
    pub(super) fn missing(&self) -> usize {
        self.missing.len()
    }
    /// Whether this part is not here.
    pub(super) fn misses(&self, chunk: u32) -> bool {
        self.missing.contains(&chunk)
    }

    pub(super) fn connected(&mut self, id: ReplicaId) {
        self.know(&[id]);
        if let Some(source) = self.all.get_mut(&id) {
            (source.connected, source.rest, source.strikes) = (true, None, 0);
            (source.refusals, source.misses) = (0, 0);
        }
    }

    pub(super) fn disconnected(&mut self, id: ReplicaId) {
        self.know(&[id]);
        self.take_back(id);
        if let Some(source) = self.all.get_mut(&id) {
            source.connected = false;
        }
    }

    /// What this source was asked for may be asked of others.
    pub(super) fn take_back(&mut self, id: ReplicaId) {
        let Some(source) = self.all.get_mut(&id) else { return };
        source.manifest = false;
        let asked: Vec<u32> = source.asked.keys().copied().collect();
        asked.into_iter().for_each(|chunk| self.take_back_one(id, chunk));
    }

    fn take_back_one(&mut self, id: ReplicaId, chunk: u32) {
        let Some(source) = self.all.get_mut(&id) else { return };
        let Some(asked) = source.asked.remove(&chunk) else { return };
        source.in_flight -= asked.bytes;
        let left = self.wanted.get(&chunk).map_or(0, |wanted| wanted - 1);
        if left > 0 {
            self.wanted.insert(chunk, left);
            return;
        }
        self.wanted.remove(&chunk);
        if self.missing.contains(&chunk) {
            self.todo.insert(chunk);
        }
    }

    /// A chunk came from this source, right or wrong.
    pub(super) fn arrived(&mut self, now: Time, id: ReplicaId, chunk: u32) {
        self.heard(now, id);
        let Some(source) = self.all.get_mut(&id) else { return };
        if let Some(asked) = source.asked.get(&chunk) {
            source.answered = source.answered.max(asked.order);
        }
        self.take_back_one(id, chunk);
    }

    /// A chunk is in place: nobody needs to be asked for it.
    pub(super) fn placed(&mut self, chunk: u32) {
        self.missing.remove(&chunk);
        self.todo.remove(&chunk);
    }

    /// A source sent something of use: it does not stall, and need not rest for having done so.
    pub(super) fn heard(&mut self, now: Time, id: ReplicaId) {
        if let Some(source) = self.all.get_mut(&id) {
            source.rest = source.rest.filter(|_| source.strikes == 0);
            (source.heard, source.strikes, source.refusals, source.misses) = (now, 0, 0, 0);
        }
    }

    /// A source sends nothing of this for now.
    pub(super) fn busy(&mut self, now: Time, id: ReplicaId, chunks: &[u32]) {
        chunks.iter().for_each(|chunk| self.take_back_one(id, *chunk));
        let limits = &self.limits;
        let Some(source) = self.all.get_mut(&id) else { return };
        source.manifest &= !chunks.is_empty();
        source.heard = now;
        if source.rests(now) {
            // One more of the requests that were under way when it refused the first.
            return;
        }
        let rest = limits.busy.times(1 << source.refusals.min(10)).min(limits.stall);
        (source.rest, source.refusals) = (Some(now.plus(rest)), source.refusals + 1);
    }

    /// A source does not hold the target any more. It most likely holds a newer one, and is asked for that at once; only one that
    /// says so again and again is left alone for a while.
    pub(super) fn not_held(&mut self, now: Time, id: ReplicaId) {
        self.take_back(id);
        let limits = &self.limits;
        let Some(source) = self.all.get_mut(&id) else { return };
        if let Some(again) = source.misses.checked_sub(1) {
            let most = limits.stall.times(1 << STRIKES_MAX);
            source.rest = Some(now.plus(limits.busy.times(1 << again.min(10)).min(most)));
        }
        source.misses += 1;
    }

    /// A source can not send these chunks; without any, the manifest.
    pub(super) fn rotten(&mut self, now: Time, id: ReplicaId, chunks: &[u32]) {
        chunks.iter().for_each(|chunk| self.take_back_one(id, *chunk));
        let (limits, missing) = (&self.limits, &self.missing);
        let Some(source) = self.all.get_mut(&id) else { return };
        source.heard = now;
        source.without.extend(chunks.iter().filter(|chunk| missing.contains(chunk)));
        if chunks.is_empty() {
            (source.manifest, source.rest) = (false, Some(now.plus(limits.stall)));
        }
    }

    /// A source is not asked for as long as its patience lasts, and what it was asked for goes to others.
    pub(super) fn rest(&mut self, now: Time, id: ReplicaId) {
        self.take_back(id);
        let limits = &self.limits;
        if let Some(source) = self.all.get_mut(&id) {
            source.rest = Some(now.plus(source.patience(limits)));
            source.strikes = (source.strikes + 1).min(STRIKES_MAX);
        }
    }

    /// A source lied.
    pub(super) fn lied(&mut self, id: ReplicaId) {
        self.take_back(id);
        if let Some(source) = self.all.get_mut(&id) {
            source.liar = true;
        }
    }

    /// Takes back what will not come any more; gives the sources that stall.
    pub(super) fn expire(&mut self, now: Time) -> Vec<ReplicaId> {
        let mut stalled = Vec::new();
        let ids: Vec<ReplicaId> = self.all.keys().copied().collect();
        for id in ids {
            let source = &self.all[&id];
            if source.stalls(&self.limits).is_some_and(|at| at <= now) {
                self.rest(now, id);
                stalled.push(id);
                continue;
            }
            let lost = |asked: &Asked| source.lost(asked, &self.limits).is_some_and(|at| at <= now);
            let lost: Vec<u32> =
                source.asked.iter().filter(|(_, a)| lost(a)).map(|(chunk, _)| *chunk).collect();
            lost.into_iter().for_each(|chunk| self.take_back_one(id, chunk));
        }
        stalled
    }

    /// Whom to ask for the manifest, if anybody can be: who sent the piece before, or who stalled least.
    pub(super) fn for_manifest(&self, now: Time, last: Option<ReplicaId>) -> Option<ReplicaId> {
        let available = self.all.iter().filter(|(_, source)| source.available(now));
        let rank =
            |(id, source): &(&ReplicaId, &Source)| (Some(**id) != last, source.strikes, source.heard, **id);
        available.min_by_key(rank).map(|(id, _)| *id)
    }

    pub(super) fn waits_for_manifest(&self, id: ReplicaId) -> bool {
        self.all.get(&id).is_some_and(|source| source.manifest)
    }

    pub(super) fn ask_manifest(&mut self, now: Time, id: ReplicaId) {
        if let Some(source) = self.all.get_mut(&id) {
            source.began_to_wait(now);
            source.manifest = true;
        }
    }

    /// The next chunks to ask a source for, as a list for one message each, until all windows are full. `size` says how many
    /// bytes a chunk should have.
    pub(super) fn ask(&mut self, now: Time, size: impl Fn(u32) -> u64) -> Vec<(ReplicaId, Vec<u32>)> {
        let (mut all, ids) = (Vec::new(), self.all.keys().copied().collect::<Vec<_>>());
        loop {
            let before = all.len();
            for id in &ids {
                if !self.all[id].available(now) {
                    continue;
                }
                let batch = self.batch(now, *id, &size);
                if !batch.is_empty() {
                    all.push((*id, batch));
                }
            }
            if all.len() == before {
                return all;
            }
        }
    }

    fn batch(&mut self, now: Time, id: ReplicaId, size: &impl Fn(u32) -> u64) -> Vec<u32> {
        let (limits, source) = (&self.limits, &self.all[&id]);
        // One request for several chunks rather than one for each as the window moves.
        if source.in_flight > limits.window - limits.window / 4 {
            return Vec::new();
        }
        let has = |chunk: &&u32| !source.without.contains(chunk);
        let mut candidates: Vec<u32> =
            self.todo.iter().filter(has).take(limits.per_message).copied().collect();
        if candidates.is_empty() && source.asked.is_empty() {
            let late = |chunk: &&u32| self.hedged_at(id, **chunk).is_some_and(|at| at <= now);
            candidates = self.missing.iter().filter(late).take(limits.per_message).copied().collect();
        }
        let Some(source) = self.all.get_mut(&id) else { return Vec::new() };
        let mut batch = Vec::new();
        for chunk in candidates {
            let bytes = size(chunk).clamp(LEAST, limits.window.max(LEAST));
            if source.in_flight > 0 && source.in_flight + bytes > limits.window {
                break;
            }
            source.began_to_wait(now);
            source.orders += 1;
            source.asked.insert(chunk, Asked { at: now, order: source.orders, bytes });
            source.in_flight += bytes;
            *self.wanted.entry(chunk).or_insert(0) += 1;
            self.todo.remove(&chunk);
            batch.push(chunk);
        }
        batch
    }

    /// When this source may be asked for a chunk that another one was asked for.
    fn hedged_at(&self, id: ReplicaId, chunk: u32) -> Option<Time> {
        if self.wanted.get(&chunk) != Some(&1) || self.all[&id].without.contains(&chunk) {
            return None;
        }
        let other = self.all.iter().find_map(|(other, source)| Some((*other, source.asked.get(&chunk)?)));
        other.filter(|(other, _)| *other != id).map(|(_, asked)| asked.at.plus(self.limits.hedge))
    }

    fn gives(&self, source: &Source) -> bool {
        self.missing.is_empty() || self.missing.iter().any(|chunk| !source.without.contains(chunk))
    }

    /// Whether somebody is asked for something, or can be now. A source with nothing left to give is none.
    pub(super) fn any_useful(&self, now: Time) -> bool {
        self.all.values().any(|source| source.waits() || source.available(now) && self.gives(source))
    }

    /// Whether one of them could be asked for a manifest now.
    pub(super) fn any_reachable(&self, now: Time, holders: &[ReplicaId]) -> bool {
        let reachable = |s: &Source| s.connected && !s.liar && !s.rests(now);
        holders.iter().filter_map(|id| self.all.get(id)).any(reachable)
    }

    /// Nobody else is left: everybody gets another chance, after a rest.
    pub(super) fn forgive(&mut self, now: Time) {
        let rest = now.plus(self.limits.stall.times(1 << STRIKES_MAX));
        for source in self.all.values_mut() {
            if source.liar {
                (source.liar, source.rest) = (false, Some(rest));
            }
            if !source.without.is_empty() && source.rest.is_none_or(|until| until <= now) {
                source.rest = Some(now.plus(self.limits.stall));
            }
            source.without.clear();
        }
    }

    /// Whether some source is connected, could be asked after its rest, and gives what is missing.
    pub(super) fn any_hope(&self, holders: &[ReplicaId]) -> bool {
        let hope = |source: &&Source| !source.liar && self.gives(source);
        holders.iter().filter_map(|id| self.all.get(id)).any(|source| hope(&source))
    }

    /// The next moment at which something changes by itself.
    pub(super) fn deadline(&self, now: Time) -> Option<Time> {
        let limits = &self.limits;
        let mut times: Vec<Time> = Vec::new();
        for (id, source) in &self.all {
            times.extend(source.stalls(limits));
            times.extend(source.asked.values().filter_map(|asked| source.lost(asked, limits)));
            times.extend(source.rest.filter(|until| *until > now && source.connected));
            if source.available(now) && source.asked.is_empty() {
                times.extend(self.missing.iter().filter_map(|chunk| self.hedged_at(*id, *chunk)));
            }
        }
        times.into_iter().min()
    }

    /// Those that are asked for something.
    pub(super) fn busy_ones(&self) -> Vec<ReplicaId> {
        self.all.iter().filter(|(_, source)| source.waits()).map(|(id, _)| *id).collect()
    }

    pub(super) fn invariants(&self) {
        let mut wanted: BTreeMap<u32, u32> = BTreeMap::new();
        for source in self.all.values() {
            let sum: u64 = source.asked.values().map(|asked| asked.bytes).sum();
            let alone = source.asked.len() <= 1;
            assert!(
                sum == source.in_flight && (alone || sum <= self.limits.window),
                "INV-FETCH-4: what is asked of a source fits into its window"
            );
            source.asked.keys().for_each(|chunk| *wanted.entry(*chunk).or_insert(0) += 1);
        }
        assert!(wanted == self.wanted, "INV-FETCH-3: what is asked for is counted");
        assert!(wanted.values().all(|count| *count <= 2), "INV-FETCH-3: at most two are asked for a chunk");
        let lost = self.missing.iter().any(|chunk| !self.todo.contains(chunk) && !wanted.contains_key(chunk));
        assert!(!lost, "INV-FETCH-3: a missing chunk is asked for or waits to be");
    }
}
