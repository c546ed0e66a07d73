//! Which members can send, what each was asked for, and which gets the next chunks to send.
//!
//! Every source has a window in bytes, and is asked for new chunks as its old ones arrive, so faster sources send more. A source answers in
//! the order in which it is asked. So a chunk is lost when later ones arrived, and a source from which nothing comes has stalled. In both
//! cases the chunks may be asked for anywhere again.

use super::FetchLimits;
use quorate_types::{ReplicaId, Span, Time};
use std::collections::{BTreeMap, BTreeSet};

/// A chunk counts for at least this much in a window, since each is a message and a read.
const LEAST: u64 = 4 << 10;
/// A source's time-out is doubled at most this many times.
const STRIKES_MAX: u32 = 4;

/// A chunk that was asked of a source.
#[derive(Clone, Copy, Debug)]
struct Asked {
    at: Time,
    /// The number of this question to the source.
    order: u64,
    bytes: u64,
}

/// Another member, as a source of chunks.
#[derive(Debug)]
pub(super) struct Source {
    connected: bool,
    /// Whether it said that it holds the target.
    holder: bool,
    /// It sent something that the agreed digest proves wrong. It is not asked again, unless no other source is left at all.
    liar: bool,
    /// It is not asked before this time.
    rest: Option<Time>,
    strikes: u32,
    /// How often in a row it was busy. All that it refused at one moment counts once.
    refusals: u32,
    /// How often in a row it did not hold the target.
    misses: u32,
    /// Chunks that are damaged or missing there.
    without: BTreeSet<u32>,
    asked: BTreeMap<u32, Asked>,
    in_flight: u64,
    orders: u64,
    /// The highest number of a question that it answered.
    answered: u64,
    /// When something last came from it, or it was asked while it had nothing to answer.
    heard: Time,
    /// Whether it was asked for a piece of the manifest.
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
    fn patience(&self, limits: &FetchLimits, left: u32) -> Span {
        limits.stall.times(1 << self.strikes.saturating_add(left).min(STRIKES_MAX))
    }
    /// When it counts as stalled, unless something comes from it before.
    fn stalls(&self, limits: &FetchLimits, left: u32) -> Option<Time> {
        self.waits().then(|| self.heard.plus(self.patience(limits, left)))
    }
    /// When a chunk that was skipped counts as lost.
    fn lost(&self, asked: &Asked, limits: &FetchLimits, left: u32) -> Option<Time> {
        (asked.order < self.answered).then(|| asked.at.plus(self.patience(limits, left)))
    }
    fn began_to_wait(&mut self, now: Time) {
        if !self.waits() {
            self.heard = now;
        }
    }
}

/// All other members, as sources.
#[derive(Debug)]
pub(super) struct Sources {
    limits: FetchLimits,
    all: BTreeMap<ReplicaId, Source>,
    /// How many targets were left. Each time sources get twice as long to answer: they may be slow rather than gone, and a target that is left
    /// whenever one is slow is never finished.
    left: u32,
    /// Missing parts of the target. Empty until the manifest is here.
    missing: BTreeSet<u32>,
    /// Those of them that no source is asked for.
    todo: BTreeSet<u32>,
    /// How many sources each chunk is asked of.
    wanted: BTreeMap<u32, u32>,
}

impl Sources {
    pub(super) fn new(limits: FetchLimits) -> Self {
        Self {
            limits,
            all: BTreeMap::new(),
            left: 0,
            missing: BTreeSet::new(),
            todo: BTreeSet::new(),
            wanted: BTreeMap::new(),
        }
    }

    pub(super) fn knows(&self, id: ReplicaId) -> bool {
        self.all.contains_key(&id)
    }
    /// Sets the known members.
    pub(super) fn know(&mut self, ids: &[ReplicaId]) {
        for id in ids {
            self.all.entry(*id).or_insert_with(Source::new);
        }
    }
    pub(super) fn is_liar(&self, id: ReplicaId) -> bool {
        self.all.get(&id).is_none_or(|source| source.liar)
    }

    /// A target is left.
    pub(super) fn be_patient(&mut self) {
        self.left = self.left.saturating_add(1);
    }

    /// Another checkpoint is the target. No questions about it are open, and refusals of the one before do not matter.
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

    /// The manifest is here; these parts are missing.
    pub(super) fn begin(&mut self, missing: BTreeSet<u32>) {
        self.todo.clone_from(&missing);
        self.missing = missing;
    }

    /// The first missing part.
    pub(super) fn first_missing(&self) -> Option<u32> {
        self.missing.first().copied()
    }
    /// How many parts are missing.
    pub(super) fn missing(&self) -> usize {
        self.missing.len()
    }
    /// Whether this part is missing.
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

    /// What was asked of this source may be asked of others.
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

    /// A chunk was put in, so no source need be asked for it.
    pub(super) fn placed(&mut self, chunk: u32) {
        self.missing.remove(&chunk);
        self.todo.remove(&chunk);
    }

    /// A source sent something of use, so it does not stall and need not rest.
    pub(super) fn heard(&mut self, now: Time, id: ReplicaId) {
        if let Some(source) = self.all.get_mut(&id) {
            source.rest = source.rest.filter(|_| source.strikes == 0);
            (source.heard, source.strikes, source.refusals, source.misses) = (now, 0, 0, 0);
        }
    }

    /// A source will not send these chunks for now.
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

    /// A source does not hold the target any more. It probably holds a newer one, and is asked for that at once; only if it says so again
    /// and again is it left alone for a while.
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

    /// A source is not asked for as long as its patience lasts; what it was asked for goes to others.
    pub(super) fn rest(&mut self, now: Time, id: ReplicaId) {
        self.take_back(id);
        let (limits, left) = (&self.limits, self.left);
        if let Some(source) = self.all.get_mut(&id) {
            source.rest = Some(now.plus(source.patience(limits, left)));
            source.strikes = source.strikes.saturating_add(1);
        }
    }

    /// A source lied.
    pub(super) fn lied(&mut self, id: ReplicaId) {
        self.take_back(id);
        if let Some(source) = self.all.get_mut(&id) {
            source.liar = true;
        }
    }

    /// Takes back what will not come any more. Returns the sources that have stalled.
    pub(super) fn expire(&mut self, now: Time) -> Vec<ReplicaId> {
        let mut stalled = Vec::new();
        let ids: Vec<ReplicaId> = self.all.keys().copied().collect();
        for id in ids {
            let source = &self.all[&id];
            if source.stalls(&self.limits, self.left).is_some_and(|at| at <= now) {
                self.rest(now, id);
                stalled.push(id);
                continue;
            }
            let lost =
                |asked: &Asked| source.lost(asked, &self.limits, self.left).is_some_and(|at| at <= now);
            let lost: Vec<u32> =
                source.asked.iter().filter(|(_, a)| lost(a)).map(|(chunk, _)| *chunk).collect();
            lost.into_iter().for_each(|chunk| self.take_back_one(id, chunk));
        }
        stalled
    }

    /// The source to ask for the manifest, if there is one: the one that sent the piece before, or the one that stalled least.
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

    /// The next chunks to ask each source for, one list per message, until all windows are full. `size`: how many bytes a chunk should
    /// have.
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

    /// When this source may also be asked for a chunk that another one was asked for.
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

    /// How often the best source stalled since it last sent something, among those that are asked for something, or can be now. A source that
    /// can give nothing more does not count. None: nobody is asked.
    pub(super) fn fewest_strikes(&self, now: Time) -> Option<u32> {
        let useful = |s: &&Source| s.waits() || s.available(now) && self.gives(s);
        self.all.values().filter(useful).map(|source| source.strikes).min()
    }

    /// The same of these sources, among those that could be asked for a manifest now. None: none could.
    pub(super) fn fewest_strikes_of(&self, now: Time, holders: &[ReplicaId]) -> Option<u32> {
        let reachable = |s: &&Source| s.connected && !s.liar && !s.rests(now);
        holders.iter().filter_map(|id| self.all.get(id)).filter(reachable).map(|source| source.strikes).min()
    }

    /// No other source is left, so all get another chance, after a rest.
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

    /// Whether some source is connected, can be asked after its rest, and has something that is missing.
    pub(super) fn any_hope(&self, holders: &[ReplicaId]) -> bool {
        let hope = |source: &&Source| !source.liar && self.gives(source);
        holders.iter().filter_map(|id| self.all.get(id)).any(|source| hope(&source))
    }

    /// The next moment at which something changes by itself.
    pub(super) fn deadline(&self, now: Time) -> Option<Time> {
        let limits = &self.limits;
        let mut times: Vec<Time> = Vec::new();
        for (id, source) in &self.all {
            times.extend(source.stalls(limits, self.left));
            times.extend(source.asked.values().filter_map(|asked| source.lost(asked, limits, self.left)));
            times.extend(source.rest.filter(|until| *until > now && source.connected));
            if source.available(now) && source.asked.is_empty() {
                times.extend(self.missing.iter().filter_map(|chunk| self.hedged_at(*id, *chunk)));
            }
        }
        times.into_iter().min()
    }

    /// The sources that are asked for something.
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
