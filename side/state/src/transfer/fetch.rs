//! The requester: from "others agree on a checkpoint that this replica lacks" to that checkpoint, whole and verified.
//!
//! Stages: wait for an offer that a member can send; gather its manifest; compute the digests of what is here; ask for what differs;
//! compute the digests of the result. It never gives up: when no member can send the target, it takes another agreed checkpoint, keeping
//! what it has, or waits and asks again.

use super::building::{Building, Verified, digest_of_piece};
use super::sources::Sources;
use super::{Effect, FetchLimits, Fetched, Input, Kept, Lie, Progress};
use crate::agreement::Offer;
use crate::checkpoint::{Manifest, decode_chunk};
use crate::store::{Part, Store, Version};
use bytes::Bytes;
use quorate_types::{Digest, ReplicaId, Seq, Span, Time};
use quorate_wire::{MANIFEST_MAX, RefusedWhy, StateMessage};
use std::collections::{BTreeMap, BTreeSet};
use std::mem;

/// The manifest as it arrives, piece by piece.
#[derive(Default)]
struct Gathering {
    bytes: Vec<u8>,
    total: Option<u64>,
    /// The member that is asked for the next piece.
    from: Option<ReplicaId>,
    /// The members that sent the pieces so far.
    by: BTreeSet<ReplicaId>,
    /// Whether all pieces must come from one source: pieces of several did not fit together, and it must be found out which source's are
    /// wrong.
    single: bool,
}

impl Gathering {
    fn restart(&mut self, single: bool) {
        *self = Self { single, ..Self::default() };
    }
}

/// Work on digests, done a slice at a time.
struct Slices {
    parts: std::vec::IntoIter<Part>,
}

impl Slices {
    fn of(version: &Version, limits: &FetchLimits) -> Self {
        let about = usize::try_from(version.bytes() / limits.per_step.max(1)).unwrap_or(usize::MAX);
        Self { parts: version.parts(about.saturating_add(1)).into_iter() }
    }
    /// Computes a slice. Returns whether all are done.
    fn compute(&mut self) -> bool {
        if let Some(part) = self.parts.next() {
            part.digest();
        }
        self.parts.len() == 0
    }
}

enum Stage {
    Waiting,
    Gathering(Gathering),
    Comparing(Box<Manifest>, Slices),
    Fetching(Box<Building>),
    Sealing(Box<Building>, Slices),
    Done,
}

/// The requester of a transfer; see the module.
pub struct Fetch {
    limits: FetchLimits,
    at_least: Seq,
    offers: Vec<Offer>,
    /// Valid in every stage but the first.
    target: (Seq, Digest),
    /// Targets that no member could send, how often that was, and until when other targets are preferred. Without this, two targets that
    /// each lack something would be exchanged for one another for ever.
    given_up: BTreeMap<(Seq, Digest), (u32, Time)>,
    /// Members that are said to hold the target.
    holders: Vec<ReplicaId>,
    sources: Sources,
    /// The objects that are here, until the new state is built of them.
    base: Store,
    pieces: BTreeMap<Digest, Bytes>,
    stage: Stage,
    now: Time,
    started: Time,
    received: u64,
}

/// Two time-outs are at least this far apart, so that the host never spins.
const TICK: Span = Span::from_millis(1);
/// A target that was given up is not taken again for this many stall time-outs, while there is another one. Doubled each time.
const GIVEN_UP: u64 = 8;
/// That time is doubled at most this often.
const GIVEN_UP_DOUBLED: u32 = 5;

/// A target is left when each of its sources stalled this often in a row, and a source of another one less often.
const DOUBTED: u32 = 2;

impl Fetch {
    /// Fetches an agreed checkpoint at `at_least` or later. `local` is what this replica has: an older state, a diverged one, or
    /// nothing.
    pub fn new(now: Time, at_least: Seq, local: Version, limits: FetchLimits) -> Self {
        Self {
            sources: Sources::new(limits.clone()),
            limits,
            at_least,
            offers: Vec::new(),
            target: (Seq::ZERO, Digest::new([0; Digest::BYTES])),
            given_up: BTreeMap::new(),
            holders: Vec::new(),
            base: Store::from_version(&local),
            pieces: BTreeMap::new(),
            stage: Stage::Waiting,
            now,
            started: now,
            received: 0,
        }
    }

    /// From now on a checkpoint from this seq on is also enough.
    pub fn takes_from(&mut self, at_least: Seq) {
        self.at_least = self.at_least.min(at_least);
    }

    /// Reacts to one input. One step does a bounded amount of work; while there is more, [`Self::deadline`] is in the past.
    pub fn step(&mut self, now: Time, input: Input, out: &mut Vec<Effect>) {
        self.now = self.now.max(now);
        match input {
            Input::Kept(kept) => self.take_kept(kept),
            Input::Offers(offers) => self.take_offers(offers),
            Input::Receive { from, message } if self.sources.knows(from) => self.receive(from, message, out),
            Input::Receive { .. } => {}
            Input::Connected(member) => self.sources.connected(member),
            Input::Disconnected(member) => self.sources.disconnected(member),
            Input::Deadline => {}
        }
        self.advance(out);
    }

    /// When to call [`Self::step`] with [`Input::Deadline`], if no other input comes first.
    pub fn deadline(&self) -> Option<Time> {
        match &self.stage {
            Stage::Comparing(..) | Stage::Sealing(..) => Some(self.now),
            Stage::Done => None,
            stage => {
                let waits = !(matches!(stage, Stage::Waiting) && self.offers.is_empty());
                // One that was given up may be taken again.
                let rests = self.given_up.values().map(|(_, until)| *until).filter(|until| *until > self.now);
                let next = self.sources.deadline(self.now).into_iter().chain(rests).min().filter(|_| waits);
                next.map(|at| at.max(self.now.plus(TICK)))
            }
        }
    }

    /// The progress so far.
    pub fn progress(&self) -> Progress {
        let mut progress = Progress {
            sources: self.sources.busy_ones(),
            started: self.started,
            received: self.received,
            ..Progress::default()
        };
        if !matches!(self.stage, Stage::Waiting) {
            progress.target = Some(self.target);
        }
        if let Stage::Fetching(building) | Stage::Sealing(building, _) = &self.stage {
            progress.manifest = true;
            (progress.bytes_done, progress.bytes_total) = building.bytes();
            progress.chunks_total = building.parts();
            progress.chunks_done = progress.chunks_total - self.sources.missing() as u64;
        }
        progress
    }

    /// Whether the transfer has ended.
    pub fn is_done(&self) -> bool {
        matches!(self.stage, Stage::Done)
    }

    /// Panics with the name of the invariant that does not hold. Goes through everything; for tests.
    pub fn invariants(&self) {
        self.sources.invariants();
    }

    /// Kept parts are only something to compare with: the manifest will tell which of them are of use.
    fn take_kept(&mut self, kept: Kept) {
        if !matches!(self.stage, Stage::Waiting) {
            return;
        }
        match kept {
            Kept::System { bytes } => drop(self.pieces.insert(digest_of_piece(&bytes), bytes)),
            Kept::Objects { path, bytes } => {
                if let Ok(entries) = decode_chunk(&bytes) {
                    // A refused one changes nothing, and is fetched again.
                    let _ = self.base.replace(&path, &mut entries.iter().copied());
                }
            }
        }
    }

    fn take_offers(&mut self, mut offers: Vec<Offer>) {
        offers.retain(|offer| offer.seq >= self.at_least);
        offers.sort_by_key(|offer| std::cmp::Reverse(offer.seq));
        offers.iter().for_each(|offer| self.sources.know(&offer.holders));
        self.given_up.retain(|target, _| offers.iter().any(|offer| (offer.seq, offer.digest) == *target));
        self.offers = offers;
        if !matches!(self.stage, Stage::Waiting) && self.offered().is_some() {
            self.renew_holders();
        }
    }

    fn offered(&self) -> Option<&Offer> {
        self.offers.iter().find(|offer| (offer.seq, offer.digest) == self.target)
    }

    fn renew_holders(&mut self) {
        self.holders = self.offered().map(|offer| offer.holders.clone()).unwrap_or_default();
        self.sources.set_holders(&self.holders);
    }

    fn receive(&mut self, from: ReplicaId, message: StateMessage, out: &mut Vec<Effect>) {
        if matches!(self.stage, Stage::Waiting) || message.about() != self.target {
            return;
        }
        match message {
            StateMessage::Manifest { offset, total, bytes, .. } => {
                self.piece(from, offset, total, &bytes, out)
            }
            StateMessage::Chunk { chunk, bytes, .. } => self.chunk(from, chunk, &bytes, out),
            StateMessage::Refused { why, chunks, .. } => self.refused(from, why, &chunks, out),
            StateMessage::Digest { .. }
            | StateMessage::FetchManifest { .. }
            | StateMessage::FetchChunks { .. }
            | StateMessage::WantBorder { .. } => {}
        }
    }

    fn piece(&mut self, from: ReplicaId, offset: u64, total: u64, bytes: &[u8], out: &mut Vec<Effect>) {
        let Stage::Gathering(gathering) = &mut self.stage else { return };
        if gathering.from != Some(from) || offset != gathering.bytes.len() as u64 {
            return;
        }
        gathering.from = None;
        self.received += bytes.len() as u64;
        self.sources.take_back(from);
        self.sources.heard(self.now, from);
        gathering.by.insert(from);
        let known = *gathering.total.get_or_insert(total);
        let fits = offset.checked_add(bytes.len() as u64).is_some_and(|end| end <= total);
        if known != total || !fits || total > MANIFEST_MAX || bytes.is_empty() {
            return self.bad_manifest("its pieces do not fit together", out);
        }
        gathering.bytes.extend_from_slice(bytes);
        if (gathering.bytes.len() as u64) < total {
            return;
        }
        let bytes = mem::take(&mut gathering.bytes);
        match Manifest::decode(&bytes) {
            Ok(manifest) if manifest.digest() == self.target.1 && manifest.seq() == self.target.0 => {
                let slices = Slices::of(&self.base.version(), &self.limits);
                self.stage = Stage::Comparing(Box::new(manifest), slices);
            }
            Ok(_) => self.bad_manifest("it does not have the agreed digest", out),
            Err(_) => self.bad_manifest("it is none", out),
        }
    }

    /// If the whole manifest came from one source, that source lied. Otherwise it is asked for again, from one source at a time.
    fn bad_manifest(&mut self, why: &'static str, out: &mut Vec<Effect>) {
        let Stage::Gathering(gathering) = &mut self.stage else { return };
        let (by, mut of_one) = (mem::take(&mut gathering.by), None);
        if let (Some(source), 1) = (by.first(), by.len()) {
            of_one = Some(*source);
        }
        gathering.restart(gathering.single || of_one.is_none());
        if let Some(source) = of_one {
            self.lied(source, Lie::Manifest { why }, out);
        }
    }

    fn lied(&mut self, source: ReplicaId, lie: Lie, out: &mut Vec<Effect>) {
        self.sources.lied(source);
        let (seq, digest) = self.target;
        out.push(Effect::Lied { source, seq, digest, lie });
    }

    fn chunk(&mut self, from: ReplicaId, chunk: u32, bytes: &Bytes, out: &mut Vec<Effect>) {
        let Stage::Fetching(building) = &mut self.stage else { return };
        self.sources.arrived(self.now, from, chunk);
        self.received += bytes.len() as u64;
        if self.sources.is_liar(from) || !self.sources.misses(chunk) {
            return;
        }
        if let Verified::Wrong { expected, found } = building.place(chunk, bytes) {
            return self.lied(from, Lie::Chunk { chunk, expected, found }, out);
        }
        self.sources.placed(chunk);
    }

    fn refused(&mut self, from: ReplicaId, why: RefusedWhy, chunks: &[u32], out: &mut Vec<Effect>) {
        match why {
            RefusedWhy::Busy => self.sources.busy(self.now, from, chunks),
            RefusedWhy::Rotten => self.sources.rotten(self.now, from, chunks),
            RefusedWhy::NotHeld => {
                self.sources.not_held(self.now, from);
                self.holders.retain(|holder| *holder != from);
                self.sources.set_holders(&self.holders);
                let (seq, digest) = self.target;
                // Nor is it asked again because of what was offered before it said so.
                for offer in self.offers.iter_mut().filter(|offer| (offer.seq, offer.digest) == (seq, digest))
                {
                    offer.holders.retain(|holder| *holder != from);
                }
                out.push(Effect::NotHeld { source: from, seq, digest });
            }
        }
    }

    /// Does one bounded piece of work, whatever the stage.
    fn advance(&mut self, out: &mut Vec<Effect>) {
        let stalled = self.sources.expire(self.now);
        out.extend(stalled.into_iter().map(|source| Effect::Stalled { source }));
        match mem::replace(&mut self.stage, Stage::Waiting) {
            Stage::Waiting => self.choose(out),
            Stage::Gathering(gathering) => self.gather(gathering, out),
            Stage::Comparing(manifest, mut slices) => {
                if !slices.compute() {
                    self.stage = Stage::Comparing(manifest, slices);
                    return;
                }
                let base = mem::take(&mut self.base).version();
                let (building, missing) = Building::new(*manifest, &base, &self.pieces);
                self.sources.begin(missing);
                self.fetch(Box::new(building), out);
            }
            Stage::Fetching(building) => self.fetch(building, out),
            Stage::Sealing(building, slices) => self.seal(building, slices, out),
            Stage::Done => self.stage = Stage::Done,
        }
    }

    /// Chooses an agreed checkpoint that a member can send, the newest first.
    fn choose(&mut self, out: &mut Vec<Effect>) {
        let now = self.now;
        let reachable = |offer: &&Offer| self.sources.fewest_strikes_of(now, &offer.holders).is_some();
        if let Some(offer) = self.offers.iter().find(reachable).cloned() {
            return self.begin(offer, out);
        }
        let any_hope = |offer: &Offer| self.sources.any_hope(&offer.holders);
        if !self.offers.is_empty() && !self.offers.iter().any(any_hope) {
            self.sources.forgive(now);
        }
    }

    fn begin(&mut self, offer: Offer, out: &mut Vec<Effect>) {
        let (seq, digest) = (offer.seq, offer.digest);
        self.target = (seq, digest);
        self.holders = offer.holders;
        self.sources.retarget(&self.holders);
        out.push(Effect::Begun { seq, digest });
        self.gather(Gathering::default(), out);
    }

    fn gather(&mut self, mut gathering: Gathering, out: &mut Vec<Effect>) {
        if gathering.from.is_some_and(|from| !self.sources.waits_for_manifest(from)) {
            gathering.from = None;
        }
        if gathering.from.is_none() {
            let last = gathering.by.last().copied();
            if self.reconsider(out) {
                return;
            }
            let Some(next) = self.sources.for_manifest(self.now, last) else {
                self.stage = Stage::Gathering(gathering);
                return;
            };
            if gathering.single && gathering.by.iter().any(|by| *by != next) {
                gathering.restart(true);
            }
            gathering.from = Some(next);
            self.sources.ask_manifest(self.now, next);
            let ((seq, digest), offset) = (self.target, gathering.bytes.len() as u64);
            let message = StateMessage::FetchManifest { seq, digest, offset };
            out.push(Effect::Send { to: next, message });
        }
        self.stage = Stage::Gathering(gathering);
    }

    fn fetch(&mut self, mut building: Box<Building>, out: &mut Vec<Effect>) {
        let Some(first_missing) = self.sources.first_missing() else {
            let slices = Slices::of(&building.objects(), &self.limits);
            self.stage = Stage::Sealing(building, slices);
            return;
        };
        out.extend(building.growth(first_missing, self.limits.growth).map(Effect::Grew));
        let (seq, digest) = self.target;
        for (to, chunks) in self.sources.ask(self.now, |chunk| building.size(chunk)) {
            out.push(Effect::Send { to, message: StateMessage::FetchChunks { seq, digest, chunks } });
        }
        self.stage = Stage::Fetching(building);
        self.reconsider(out);
    }

    /// Takes another target if no member can be asked for this one at present, or if those that can have stalled, and one that stalled less has
    /// the other. They may be gone, while their rests take turns. Returns whether it did.
    fn reconsider(&mut self, out: &mut Vec<Effect>) -> bool {
        let (now, strikes) = (self.now, self.sources.fewest_strikes(self.now));
        if strikes.is_some_and(|few| few < DOUBTED) {
            return false;
        }
        let good = |offer: &&Offer| {
            let target = (offer.seq, offer.digest);
            let rests = self.given_up.get(&target).is_some_and(|(_, until)| *until > now);
            let fewest = self.sources.fewest_strikes_of(now, &offer.holders);
            target != self.target && !rests && fewest.is_some_and(|few| strikes.is_none_or(|many| few < many))
        };
        if let Some(offer) = self.offers.iter().find(good).cloned() {
            self.give_up_target();
            self.begin(offer, out);
            return true;
        }
        if self.holders.is_empty() {
            self.renew_holders();
        }
        if strikes.is_none() && !self.sources.any_hope(&self.holders) {
            self.sources.forgive(now);
        }
        false
    }

    /// The next target begins with what is here so far.
    fn give_up_target(&mut self) {
        let (times, until) = self.given_up.entry(self.target).or_insert((0, self.now));
        *until = self.now.plus(self.limits.stall.times(GIVEN_UP << (*times).min(GIVEN_UP_DOUBLED)));
        *times += 1;
        self.sources.be_patient();
        if let Stage::Fetching(building) = mem::replace(&mut self.stage, Stage::Waiting) {
            self.pieces.extend(building.pieces().map(|piece| (digest_of_piece(piece), piece.clone())));
            self.base = building.into_store();
        }
    }

    fn seal(&mut self, building: Box<Building>, mut slices: Slices, out: &mut Vec<Effect>) {
        if !slices.compute() {
            self.stage = Stage::Sealing(building, slices);
            return;
        }
        let (seq, agreed) = self.target;
        match building.whole(agreed) {
            Ok((manifest, system)) => {
                self.stage = Stage::Done;
                out.push(Effect::Done(Box::new(Fetched { manifest, system, store: building.into_store() })));
            }
            Err(found) => {
                // Every chunk that came was compared. What was here before was not what its digests said: without it, then.
                (self.base, self.pieces) = (Store::new(), BTreeMap::new());
                out.push(Effect::StartedOver { seq, digest: agreed, found });
                self.choose(out);
            }
        }
    }
}
