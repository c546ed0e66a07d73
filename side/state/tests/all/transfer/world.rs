//! A simulated network of one requester and several servers. Everything follows from the seed.

use super::states::{Checkpoint, finer, other_lengths, states};
use bytes::Bytes;
use quorate_state::agreement::Offer;
use quorate_state::checkpoint::Growth;
use quorate_state::store::Version;
use quorate_state::transfer::{
    Answer, Effect, Fetch, FetchLimits, Fetched, Input, Kept, Lie, Serve, ServeEffect, ServeInput,
    ServeLimits,
};
use quorate_types::{Digest, Random, ReplicaId, Seq, Span, Time};
use quorate_wire::StateMessage;
use std::collections::{BTreeMap, BTreeSet};

/// What a server does to what it sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lying {
    /// Nothing.
    Honest,
    /// It flips a bit in every so many chunks.
    Flips(u64),
    /// It sends another chunk in place of every so many.
    Swaps(u64),
    /// It cuts every so many chunks.
    Cuts(u64),
    /// Its manifest is another checkpoint's.
    OtherManifest,
    /// Its manifest is damaged.
    DamagedManifest,
    /// Its manifest has the right root and other chunks.
    FinerManifest,
    /// Its manifest has the right root and says other lengths.
    OtherLengths,
}

/// A member that holds checkpoints.
pub(crate) struct Server {
    pub(crate) id: ReplicaId,
    serve: Serve,
    limits: ServeLimits,
    /// Which of the checkpoints.
    pub(crate) holds: BTreeSet<usize>,
    pub(crate) lying: Lying,
    pub(crate) rotten: BTreeSet<u32>,
    pub(crate) up: bool,
    /// Sends nothing until then.
    pub(crate) silent_until: Time,
    /// How long a message takes at most.
    pub(crate) delay: Span,
    pub(crate) chunks_asked: u64,
    pub(crate) chunks_sent: u64,
}

enum Event {
    ToServer(usize, StateMessage),
    ToFetch(ReplicaId, StateMessage),
    Read(usize, u64, Answer),
    Fault(Fault),
}

/// What happens to the world at a moment.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fault {
    /// The requester crashes, and begins again with what was kept.
    CrashFetch,
    /// A server crashes, or comes back.
    Crash(usize),
    Restart(usize),
    /// A server sends nothing for so long.
    Silence(usize, Span),
    /// A server drops a checkpoint.
    Forget(usize, usize),
    /// A server holds a checkpoint from now on.
    Hold(usize, usize),
    /// These parts are damaged at a server, in every checkpoint; none any more.
    Rot(usize, u32),
    Mend(usize),
    /// Messages are lost from now on, in so many of a hundred cases.
    Loss(u64),
    /// A server tells the truth from now on.
    Honesty(usize),
}

pub(crate) struct World {
    pub(crate) now: Time,
    pub(crate) random: Random,
    queue: BTreeMap<(Time, u64), Event>,
    events: u64,
    pub(crate) loss: u64,
    pub(crate) doubles: u64,
    pub(crate) servers: Vec<Server>,
    pub(crate) fetch: Fetch,
    at_least: Seq,
    local: Version,
    pub(crate) limits: FetchLimits,
    /// Which checkpoints are agreed on so far: up to this one.
    pub(crate) agreed: usize,
    /// The disk of the requester.
    pub(crate) kept: Vec<Kept>,
    /// The checkpoint of which that is.
    kept_of: Option<(Seq, Digest)>,
    pub(crate) lies: Vec<(ReplicaId, Lie)>,
    pub(crate) stalled: Vec<ReplicaId>,
    pub(crate) begun: Vec<Seq>,
    pub(crate) done: Option<Fetched>,
    /// Which chunks of which checkpoint were asked for, how often.
    pub(crate) asked: BTreeMap<(Seq, u32), u64>,
    /// Who was asked for the manifest from which byte on.
    pub(crate) manifests: Vec<(ReplicaId, u64)>,
    pub(crate) steps: u64,
}

pub(crate) fn replica(number: usize) -> ReplicaId {
    ReplicaId::new(u16::try_from(number).expect("few members"))
}

pub(crate) fn checkpoint(index: usize) -> &'static Checkpoint {
    &states().checkpoints[index]
}

fn by_name(seq: Seq, digest: Digest) -> Option<usize> {
    states().checkpoints.iter().position(|c| (c.seq, c.digest) == (seq, digest))
}

impl World {
    /// Servers r2, r3, ... that hold the checkpoints up to `agreed`; the requester r1 has `local`.
    pub(crate) fn new(seed: u64, servers: usize, agreed: usize, local: Version) -> Self {
        let limits = FetchLimits { window: 200 << 10, per_message: 4, growth: 1, ..FetchLimits::default() };
        Self::with_limits(seed, servers, agreed, local, limits)
    }

    pub(crate) fn with_limits(
        seed: u64,
        servers: usize,
        agreed: usize,
        local: Version,
        limits: FetchLimits,
    ) -> Self {
        let at_least = Seq::new(1);
        let server = |at: usize| {
            let limits = ServeLimits::default();
            Server {
                id: replica(at + 2),
                serve: Serve::new(limits.clone()),
                limits,
                holds: (0..=agreed).collect(),
                lying: Lying::Honest,
                rotten: BTreeSet::new(),
                up: true,
                silent_until: Time::ZERO,
                delay: Span::from_millis(5),
                chunks_asked: 0,
                chunks_sent: 0,
            }
        };
        Self {
            now: Time::ZERO,
            random: Random::new(seed),
            queue: BTreeMap::new(),
            events: 0,
            loss: 0,
            doubles: 0,
            servers: (0..servers).map(server).collect(),
            fetch: Fetch::new(Time::ZERO, at_least, local.clone(), limits.clone()),
            at_least,
            local,
            limits,
            agreed,
            kept: Vec::new(),
            kept_of: None,
            lies: Vec::new(),
            stalled: Vec::new(),
            begun: Vec::new(),
            done: None,
            asked: BTreeMap::new(),
            manifests: Vec::new(),
            steps: 0,
        }
    }

    pub(crate) fn serve_with(&mut self, limits: &ServeLimits) {
        for server in &mut self.servers {
            server.limits = limits.clone();
            server.serve = Serve::new(limits.clone());
        }
    }

    pub(crate) fn at(&mut self, millis: u64, fault: Fault) {
        self.push(Time::ZERO.plus(Span::from_millis(millis)), Event::Fault(fault));
    }

    fn push(&mut self, at: Time, event: Event) {
        self.events += 1;
        self.queue.insert((at.max(self.now), self.events), event);
    }

    /// What agreement would say.
    pub(crate) fn offers(&self) -> Vec<Offer> {
        let offer = |index: usize| {
            let holders: Vec<ReplicaId> =
                self.servers.iter().filter(|s| s.holds.contains(&index)).map(|s| s.id).collect();
            let Checkpoint { seq, digest, .. } = checkpoint(index);
            (!holders.is_empty()).then_some(Offer { seq: *seq, digest: *digest, holders })
        };
        (0..=self.agreed).rev().filter_map(offer).collect()
    }

    pub(crate) fn offer(&mut self) {
        let offers = self.offers();
        self.step(Input::Offers(offers));
    }

    /// Runs until the transfer is done or that moment has come. Whether it is done.
    pub(crate) fn run_until(&mut self, end: Time) -> bool {
        while self.done.is_none() {
            let event = self.queue.first_key_value().map(|((at, _), _)| *at);
            let deadlines = self.servers.iter().filter(|s| s.up).filter_map(|s| s.serve.deadline());
            let next = deadlines.chain(self.fetch.deadline()).chain(event).min();
            let Some(next) = next.filter(|next| *next <= end) else {
                self.now = self.now.max(end);
                return false;
            };
            self.now = self.now.max(next);
            if event.is_some_and(|at| at <= self.now) {
                let (_, event) = self.queue.pop_first().expect("there is one");
                self.happen(event);
                continue;
            }
            for at in 0..self.servers.len() {
                if self.servers[at].up && self.servers[at].serve.deadline().is_some_and(|due| due <= self.now)
                {
                    self.server_step(at, ServeInput::Deadline);
                }
            }
            if self.fetch.deadline().is_some_and(|due| due <= self.now) {
                self.step(Input::Deadline);
            }
        }
        true
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::ToServer(at, message) if self.servers[at].up => {
                self.server_step(at, ServeInput::Asked { from: replica(1), message });
            }
            Event::ToServer(..) => {}
            Event::ToFetch(from, message) => {
                self.step(Input::Receive { from, message });
            }
            Event::Read(at, ticket, answer) if self.servers[at].up => {
                self.server_step(at, ServeInput::Answered { ticket, answer });
            }
            Event::Read(..) => {}
            Event::Fault(fault) => self.fault(fault),
        }
    }

    pub(crate) fn fault(&mut self, fault: Fault) {
        match fault {
            Fault::CrashFetch => self.restart_fetch(),
            Fault::Crash(at) => {
                self.servers[at].up = false;
                self.servers[at].serve = Serve::new(self.servers[at].limits.clone());
                self.step(Input::Disconnected(replica(at + 2)));
            }
            Fault::Restart(at) => {
                self.servers[at].up = true;
                self.step(Input::Connected(replica(at + 2)));
            }
            Fault::Silence(at, span) => self.servers[at].silent_until = self.now.plus(span),
            Fault::Forget(at, index) => {
                self.servers[at].holds.remove(&index);
            }
            Fault::Hold(at, index) => {
                self.servers[at].holds.insert(index);
                self.agreed = self.agreed.max(index);
                self.offer();
            }
            Fault::Rot(at, part) => {
                self.servers[at].rotten.insert(part);
            }
            Fault::Mend(at) => self.servers[at].rotten.clear(),
            Fault::Loss(percent) => self.loss = percent,
            Fault::Honesty(at) => self.servers[at].lying = Lying::Honest,
        }
    }

    /// A crash: everything in memory is lost, the disk stays. Answers to the former self still arrive.
    fn restart_fetch(&mut self) {
        self.fetch = Fetch::new(self.now, self.at_least, self.local.clone(), self.limits.clone());
        for kept in self.kept.clone() {
            self.step(Input::Kept(kept));
        }
        for at in 0..self.servers.len() {
            let peer = replica(at + 2);
            let up = self.servers[at].up;
            self.step(if up { Input::Connected(peer) } else { Input::Disconnected(peer) });
        }
        self.offer();
    }

    pub(crate) fn step(&mut self, input: Input) {
        self.steps += 1;
        assert!(self.steps < 200_000, "it spins at {:?}", self.now);
        let mut effects = Vec::new();
        self.fetch.step(self.now, input, &mut effects);
        self.fetch.invariants();
        for effect in effects {
            self.effect(effect);
        }
    }

    /// Keeps what a keeper would write: the parts without a gap of one checkpoint.
    fn grew(&mut self, growth: &Growth) {
        let of = (growth.manifest.seq(), growth.manifest.digest());
        assert!(by_name(of.0, of.1).is_some(), "what grows is an agreed checkpoint");
        if self.kept_of != Some(of) {
            (self.kept_of, self.kept) = (Some(of), Vec::new());
        }
        for part in self.kept.len() as u32..growth.upto {
            let kept = piece(growth, part);
            assert!(is_true(&kept), "what is kept was verified");
            self.kept.push(kept);
        }
    }

    fn effect(&mut self, effect: Effect) {
        match effect {
            Effect::Send { to, message } => {
                let at = usize::from(to.number()) - 2;
                if let StateMessage::FetchManifest { offset, .. } = &message {
                    self.manifests.push((to, *offset));
                }
                if let StateMessage::FetchChunks { seq, chunks, .. } = &message {
                    self.servers[at].chunks_asked += chunks.len() as u64;
                    chunks.iter().for_each(|chunk| *self.asked.entry((*seq, *chunk)).or_default() += 1);
                }
                let delay = self.servers[at].delay;
                self.post(delay, |message| Event::ToServer(at, message), message);
            }
            Effect::Begun { seq, .. } => self.begun.push(seq),
            Effect::Grew(growth) => self.grew(&growth),
            Effect::Lied { source, seq, digest, lie } => {
                assert!(by_name(seq, digest).is_some(), "evidence names an agreed checkpoint");
                self.lies.push((source, lie));
            }
            Effect::Stalled { source } => self.stalled.push(source),
            Effect::NotHeld { source, seq, digest } => {
                // What the host does: agreement takes it back.
                let at = usize::from(source.number()) - 2;
                let index = by_name(seq, digest).expect("a target is agreed");
                if !self.servers[at].holds.contains(&index) {
                    self.offer();
                }
            }
            Effect::StartedOver { .. } => panic!("this replica's memory is good"),
            Effect::Done(fetched) => {
                check_fetched(&fetched);
                self.done = Some(*fetched);
            }
        }
    }

    fn post(&mut self, most: Span, event: impl Fn(StateMessage) -> Event, message: StateMessage) {
        if self.random.below(100) < self.loss {
            return;
        }
        for _ in 0..1 + u64::from(self.random.below(100) < self.doubles) {
            let delay = Span::from_nanos(self.random.below(most.nanos()) + 1);
            self.push(self.now.plus(delay), event(message.clone()));
        }
    }

    fn server_step(&mut self, at: usize, input: ServeInput) {
        let mut effects = Vec::new();
        self.servers[at].serve.step(self.now, input, &mut effects);
        for effect in effects {
            match effect {
                ServeEffect::ReadManifest { ticket, seq, digest, offset, len } => {
                    let answer = self.manifest(at, seq, digest, offset, len);
                    self.read(at, ticket, answer);
                }
                ServeEffect::ReadChunk { ticket, seq, digest, chunk } => {
                    let answer = self.chunk(at, seq, digest, chunk);
                    self.read(at, ticket, answer);
                }
                ServeEffect::Send { message, .. } => {
                    if self.servers[at].silent_until > self.now {
                        continue;
                    }
                    if matches!(message, StateMessage::Chunk { .. }) {
                        self.servers[at].chunks_sent += 1;
                    }
                    let (delay, from) = (self.servers[at].delay, self.servers[at].id);
                    self.post(delay, |message| Event::ToFetch(from, message), message);
                }
            }
        }
    }

    fn read(&mut self, at: usize, ticket: u64, answer: Answer) {
        let delay = Span::from_nanos(self.random.below(1_000_000));
        self.push(self.now.plus(delay), Event::Read(at, ticket, answer));
    }

    fn manifest(&mut self, at: usize, seq: Seq, digest: Digest, offset: u64, len: u32) -> Answer {
        let server = &self.servers[at];
        let Some(index) = by_name(seq, digest).filter(|index| server.holds.contains(index)) else {
            return Answer::NotHeld;
        };
        let honest = &checkpoint(index).manifest_bytes;
        let all: Bytes = match server.lying {
            Lying::OtherManifest => checkpoint((index + 1) % 3).manifest_bytes.clone(),
            Lying::DamagedManifest => {
                let mut bytes = honest.to_vec();
                let at = self.random.below(bytes.len() as u64) as usize;
                bytes[at] ^= 1 << self.random.below(8);
                bytes.into()
            }
            Lying::FinerManifest => finer(checkpoint(index)),
            Lying::OtherLengths => other_lengths(checkpoint(index)),
            _ => honest.clone(),
        };
        let from = (offset as usize).min(all.len());
        let to = (from + len as usize).min(all.len());
        Answer::Manifest { total: all.len() as u64, bytes: all.slice(from..to) }
    }

    fn chunk(&mut self, at: usize, seq: Seq, digest: Digest, chunk: u32) -> Answer {
        let server = &self.servers[at];
        let Some(index) = by_name(seq, digest).filter(|index| server.holds.contains(index)) else {
            return Answer::NotHeld;
        };
        if server.rotten.contains(&chunk) {
            return Answer::Rotten;
        }
        let parts = &checkpoint(index).parts;
        let Some(bytes) = parts.get(chunk as usize).cloned() else { return Answer::Rotten };
        let bytes = match server.lying {
            Lying::Flips(every) if self.random.below(every) == 0 => {
                let mut bytes = bytes.to_vec();
                let at = self.random.below(bytes.len() as u64) as usize;
                bytes[at] ^= 1 << self.random.below(8);
                bytes.into()
            }
            Lying::Swaps(every) if self.random.below(every) == 0 => {
                parts[(chunk as usize + 1) % parts.len()].clone()
            }
            Lying::Cuts(every) if self.random.below(every) == 0 => {
                bytes.slice(..self.random.below(bytes.len() as u64) as usize)
            }
            _ => bytes,
        };
        Answer::Chunk { bytes }
    }
}

/// A part of a checkpoint that is here so far.
fn piece(growth: &Growth, part: u32) -> Kept {
    let part = part as usize;
    match part.checked_sub(growth.manifest.system().len()) {
        None => Kept::System { bytes: growth.image.system.piece(part).expect("it is whole") },
        Some(chunk) => {
            let path = growth.manifest.chunks()[chunk].path.clone();
            Kept::Objects { bytes: super::states::chunk_at(&growth.image.objects, &path), path }
        }
    }
}

/// Whether some agreed checkpoint really has this part.
fn is_true(kept: &Kept) -> bool {
    let mut all = states().checkpoints.iter();
    match kept {
        Kept::System { bytes } => all.any(|c| c.parts[..c.pieces()].contains(bytes)),
        Kept::Objects { path, bytes } => {
            all.any(|c| super::states::chunk_at(&c.image.objects, path) == *bytes)
        }
    }
}

/// The result is exactly one of the agreed checkpoints.
fn check_fetched(fetched: &Fetched) {
    let index = by_name(fetched.manifest.seq(), fetched.manifest.digest()).expect("an agreed checkpoint");
    let wanted = checkpoint(index);
    assert_eq!(fetched.manifest, wanted.manifest);
    assert_eq!(fetched.system, wanted.image.system);
    let objects = fetched.store.version();
    assert_eq!(objects.root(), wanted.image.objects.root());
    assert!(objects.range(&[], None).eq(wanted.image.objects.range(&[], None)), "every entry");
}
