//! Replicas that lie, through the real encoders: each runs the protocol, and changes, adds or withholds what leaves it. It signs what
//! it likes, as itself; with others that lie it shares nothing but the world's seed.
//!
//! With up to f of them nothing wrong is decided, and after the network heals everything asked for is; with f+1 the checks of the
//! world find contradictions.

mod few;
mod proofs;

use super::chaos;
use super::world::{Plan, World, another, batch, encode, place, replica, value};
use crate::OrderMessage;
use crate::ledger::Proof;
use crate::mod_smart::Statements;
use crate::mod_smart::message::{Collect, Complaint, ModSmartBody as Body, ModSmartMessage};
use crate::mod_smart::tenures::number_of;
use crate::visigoth::Missing;
use quorate_auth::{Authenticator, Keyed};
use quorate_auth::{Signature, Signed};
use quorate_types::{AgreedTime, ClusterId, Digest, InstanceId, Random, ReplicaId, Slot, Span, View};
use quorate_wire::{Batch, BatchHeader, Holds, Member, Membership, Memberships, SystemCommand};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// A way to lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum How {
    /// Sends nothing.
    Silent,
    /// Sends to some only.
    Selective,
    /// Proposes one thing to some and another to others, and votes for whatever each of them saw.
    Equivocate,
    /// Proposes what no client asked for, the same to all, and votes for it.
    Unasked,
    /// Votes for everything that it hears of, also against itself.
    DoubleVotes,
    /// Hides what it locked and wrote when a view changes.
    Forgetful,
    /// Claims locks and writes that never were. (T2)
    Inventive,
    /// Claims slots that nobody decided, with proofs that are none. (T3, T4)
    Boasting,
    /// Says again what it, or others, said in another view or slot. (T6)
    Replay,
    /// Begins its views with what nobody said, and differently for each.
    FalseSync,
    /// Certificates of views that nobody asked for.
    FalseViews,
    /// Decisions that are none.
    FalseDecisions,
    /// Complains all the time.
    Complains,
    /// Names absurd slots, views and rounds.
    Huge,
    /// Changes bytes at random.
    Mutate,
    /// Lets a quorum accept what it proposes, keeps its own accept and what is decided with it to itself, and shows the proof when a view
    /// changes, before anybody else can say anything.
    KeepsProofs,
    /// Where few are slow: misses all others, or whom it likes, is alive for some only, and asks all the time whom others miss.
    FalseMisses,
    /// Where few are slow: writes for the leader alone, and accepts nothing, so that the leader has what nobody else gets.
    HalfVotes,
    /// Where few are slow: asks the oracle for what nobody said or decided.
    FalseClaims,
    /// Any of these, each time another.
    All,
}

pub(super) const ALL: [How; 20] = [
    How::Silent,
    How::Selective,
    How::Equivocate,
    How::Unasked,
    How::DoubleVotes,
    How::Forgetful,
    How::Inventive,
    How::Boasting,
    How::Replay,
    How::FalseSync,
    How::FalseViews,
    How::FalseDecisions,
    How::Complains,
    How::Huge,
    How::Mutate,
    How::KeepsProofs,
    How::FalseMisses,
    How::HalfVotes,
    How::FalseClaims,
    How::All,
];

/// A SYNC that shows what is not so: of which view, and what it votes for then.
type Forged = (View, Body, Option<(Slot, Digest)>);

/// One that lies.
pub(super) struct Lies {
    pub(super) how: How,
    me: usize,
    members: usize,
    auth: Keyed,
    /// What it has heard and said, to say it again.
    heard: Vec<ModSmartMessage>,
    /// Statements of others, by view.
    collects: BTreeMap<View, BTreeMap<ReplicaId, Collect>>,
    proofs: Vec<(Proof, Batch)>,
    /// Whom others missed, in which view.
    misses: Vec<(View, Missing)>,
    invented: u64,
    /// What it showed last as the beginning of a view, with its value.
    forged: Option<Forged>,
}

impl Lies {
    pub(super) fn new(how: How, me: usize, world: &World) -> Self {
        Self {
            how,
            me,
            members: world.members(),
            auth: world.auth(me),
            heard: Vec::new(),
            collects: BTreeMap::new(),
            proofs: Vec::new(),
            misses: Vec::new(),
            invented: 1 << 40,
            forged: None,
        }
    }

    /// What arrives is remembered.
    pub(super) fn hear(&mut self, message: &OrderMessage) {
        let Some(message) = message.get::<ModSmartMessage>() else { return };
        match &message.body {
            Body::StopData { collect, .. } => {
                let list = self.collects.entry(message.view).or_default();
                list.insert(collect.from, collect.clone());
            }
            Body::Sync { collects, .. } => {
                let list = self.collects.entry(message.view).or_default();
                list.extend(collects.iter().map(|collect| (collect.from, collect.clone())));
            }
            Body::Decision { proof, batch } => self.proofs.push((proof.clone(), batch.clone())),
            Body::Misses { ids, signature, .. } => {
                // Who said it is not in the message; the liar finds out by trying.
                let from = (0..self.members).map(replica).find(|id| !ids.contains(id));
                let missing = from.map(|from| Missing { from, misses: ids.clone(), signature: *signature });
                self.misses.extend(missing.map(|missing| (message.view, missing)));
            }
            _ => {}
        }
        if self.heard.len() < 400 {
            self.heard.push(message.clone());
        }
    }

    fn invent(&mut self) -> Batch {
        self.invented += 1;
        if self.invented.is_multiple_of(4) {
            return self.coup();
        }
        batch(self.invented + ((self.me as u64) << 32), 3)
    }

    /// Of the membership whose view it is, as far as it has views.
    fn statements(&self, view: View) -> Statements {
        let membership = number_of(view.max(View::FIRST));
        Statements { cluster: ClusterId::new(0), membership, instance: InstanceId::new(1) }
    }

    fn whole(&self, view: View, body: Body) -> Vec<u8> {
        let membership = self.statements(view).membership;
        encode(&ModSmartMessage { membership, view, body })
    }

    /// A membership without one of the others, which nobody ordered.
    fn coup(&self) -> Batch {
        let all: Vec<_> = (0..self.members).map(replica).collect();
        let created = Memberships::created(&all).now().clone();
        let mut members = created.members().to_vec();
        members.remove(self.invented as usize / 4 % self.members);
        members.push(Member::voter(replica(self.members)));
        let now = Membership::new(created.number().next(), members).expect("a membership");
        let change = Memberships::change(created, now).expect("the next one");
        let (since, begins, leader) = (Slot::ZERO, View::FIRST, replica(self.me));
        let header = BatchHeader {
            time: AgreedTime::ZERO,
            seed: 0,
            count: 0,
            border: false,
            base: None,
            ruling: None,
        };
        SystemCommand::Holds(Holds { change, since, begins, leader }).batch(header)
    }

    fn sign_collect(&self, view: View, mut collect: Collect) -> Collect {
        collect.from = replica(self.me);
        collect.signature = self.auth.sign(&self.statements(view).collect(view, &collect));
        collect
    }

    fn accept(&self, view: View, slot: Slot, digest: Digest) -> Body {
        let signature = self.auth.sign(&self.statements(view).accept(view, slot, digest));
        Body::Accept { slot, digest, signature }
    }

    /// What it sends instead of an honest message: to whom, which bytes.
    pub(super) fn instead(
        &mut self,
        random: &mut Random,
        to: usize,
        message: ModSmartMessage,
    ) -> Vec<(usize, Vec<u8>)> {
        self.hear(&OrderMessage::of(message.clone()));
        let how = match self.how {
            How::All if random.below(3) == 0 => return vec![(to, encode(&message))],
            How::All => ALL[random.below(ALL.len() as u64 - 1) as usize],
            how => how,
        };
        let honest = || (to, encode(&message));
        let view = message.view;
        match how {
            How::Silent => vec![],
            How::Selective if to % 2 == self.me % 2 => vec![],
            How::Equivocate | How::Unasked | How::DoubleVotes => self.equivocate(how, to, &message),
            How::Forgetful | How::Inventive | How::Boasting => self.lie_on_entry(how, random, to, &message),
            How::Replay => self.replay(random, to, &message),
            How::FalseSync => self.false_sync(random, to, &message),
            How::FalseViews => {
                let asked = view.plus(1 + random.below(3) * random.below(1 << 20));
                let own = (replica(self.me), self.auth.sign(&self.statements(asked).stop(asked)));
                let forged =
                    |id: usize| (replica(id), if random.below(2) == 0 { own.1 } else { Signature::NONE });
                let mut stops: Signed = (0..self.members).map(forged).collect();
                stops[self.me] = own;
                if random.below(4) == 0 {
                    stops = vec![own];
                }
                vec![honest(), (to, self.whole(asked, Body::Certificate { stops }))]
            }
            How::FalseDecisions => vec![honest(), (to, self.false_decision(random, view, &message))],
            How::Complains => {
                let asked = view.plus(1 + random.below(2));
                let why = match random.below(3) {
                    0 => Complaint::Silence,
                    1 => Complaint::Leaves,
                    _ => Complaint::Slot(Slot::new(random.below(50))),
                };
                let signature = self.auth.sign(&self.statements(asked).stop(asked));
                vec![
                    honest(),
                    (
                        to,
                        self.whole(
                            view,
                            Body::Stop { asked, why, decided: Slot::new(random.below(40)), signature },
                        ),
                    ),
                ]
            }
            How::Huge => vec![honest(), (to, self.huge(random, view))],
            How::Mutate => vec![(to, mutated(random, encode(&message)))],
            How::KeepsProofs => self.keep_proofs(to, &message),
            How::FalseMisses => self.false_misses(random, to, &message),
            How::HalfVotes => match message.body {
                Body::Accept { .. } => vec![],
                Body::Write { .. } if to != view.number() as usize % self.members => vec![],
                _ => vec![honest()],
            },
            How::Selective | How::All | How::FalseClaims => vec![honest()],
        }
    }

    /// The first members after it, as many as a quorum needs besides it, hear what it proposes.
    fn keep_proofs(&self, to: usize, message: &ModSmartMessage) -> Vec<(usize, Vec<u8>)> {
        let quorum = (self.members + (self.members - 1) / 3 + 1).div_ceil(2);
        let near = (to + self.members - self.me) % self.members < quorum;
        let kept = match &message.body {
            Body::Propose { .. } | Body::Write { .. } => !near,
            Body::Accept { .. } | Body::Decision { .. } | Body::Gone { .. } => true,
            _ => false,
        };
        if kept { vec![] } else { vec![(to, encode(message))] }
    }

    /// Whether neither a disk nor the way to others takes it any time.
    pub(super) fn is_fast(&self) -> bool {
        matches!(self.how, How::KeepsProofs | How::HalfVotes)
    }

    fn replay(&self, random: &mut Random, to: usize, message: &ModSmartMessage) -> Vec<(usize, Vec<u8>)> {
        let mut list = vec![(to, encode(message))];
        for _ in 0..random.below(3) {
            let which = random.below(self.heard.len() as u64) as usize;
            let mut old = self.heard[which].clone();
            if random.below(2) == 0 {
                old.view = message.view;
            }
            list.push((random.below(self.members as u64) as usize, encode(&old)));
        }
        list
    }

    fn huge(&mut self, random: &mut Random, view: View) -> Vec<u8> {
        let slot = Slot::new(match random.below(3) {
            0 => u64::MAX,
            1 => 1 << (40 + random.below(10)),
            _ => random.below(100),
        });
        let digest = Digest::new([9; 32]);
        let body = match random.below(8) {
            0 => Body::Write { slot, digest },
            1 => self.accept(view, slot, digest),
            2 => Body::Alive { decided: slot, round: random.next() },
            3 => Body::AliveReply { decided: slot, round: random.next() },
            4 => Body::Fetch { slot, count: 64 },
            5 => Body::Gone { slot, proof: None },
            6 => Body::Propose { slot, batch: self.invent() },
            _ => Body::Stop {
                asked: View::new(slot.number()),
                why: Complaint::Silence,
                decided: slot,
                signature: Signature::NONE,
            },
        };
        self.whole(view, body)
    }

    fn equivocate(&mut self, how: How, to: usize, message: &ModSmartMessage) -> Vec<(usize, Vec<u8>)> {
        let view = message.view;
        let honest = (to, encode(message));
        match &message.body {
            Body::Propose { slot, batch } if how != How::DoubleVotes => {
                let seed = batch.header().seed + (1 << 50);
                let mine = match how {
                    How::Unasked => super::world::batch(seed, 5),
                    // Of the same clients, so that each finds nothing wrong.
                    _ if to.is_multiple_of(2) => batch.clone(),
                    _ => another(batch, seed),
                };
                let digest = value(&mine);
                vec![
                    (to, self.whole(view, Body::Propose { slot: *slot, batch: mine })),
                    (to, self.whole(view, Body::Write { slot: *slot, digest })),
                    (to, self.whole(view, self.accept(view, *slot, digest))),
                ]
            }
            Body::Write { .. } | Body::Accept { .. } if how != How::DoubleVotes => vec![],
            Body::Write { slot, .. } | Body::Accept { slot, .. } => {
                // Whatever anybody votes for, this one does, too.
                let votes = self.heard.iter().rev().filter(|old| old.view == view).take(20);
                let digests: Vec<Digest> = votes
                    .filter_map(|old| match &old.body {
                        Body::Write { slot: of, digest } | Body::Accept { slot: of, digest, .. }
                            if of == slot =>
                        {
                            Some(*digest)
                        }
                        _ => None,
                    })
                    .collect();
                let mut list = vec![honest];
                for digest in digests {
                    list.push((to, self.whole(view, Body::Write { slot: *slot, digest })));
                    list.push((to, self.whole(view, self.accept(view, *slot, digest))));
                }
                list
            }
            _ => vec![honest],
        }
    }

    fn lie_on_entry(
        &mut self,
        how: How,
        random: &mut Random,
        to: usize,
        message: &ModSmartMessage,
    ) -> Vec<(usize, Vec<u8>)> {
        let view = message.view;
        let Body::StopData { collect, last, batches } = &message.body else {
            return vec![(to, encode(message))];
        };
        let (mut collect, mut last, mut batches) = (collect.clone(), last.clone(), batches.clone());
        match how {
            How::Forgetful => {
                (collect.lock, collect.writes) = (None, vec![]);
            }
            How::Inventive => {
                let mine = self.invent();
                let digest = value(&mine);
                let locked = match random.below(3) {
                    0 => View::new(99),
                    1 => view.previous(),
                    _ => View::FIRST,
                };
                collect.lock = Some((locked, digest));
                collect.writes = vec![(locked, digest)];
                if random.below(2) == 0 {
                    collect.writes.push((locked.next(), digest));
                }
                batches = vec![mine];
            }
            _ => {
                let slot = match random.below(3) {
                    0 => Slot::new(1 << 40),
                    1 => collect.decided.plus(1 + random.below(3)),
                    _ => Slot::new(random.below(collect.decided.number() + 1)),
                };
                collect.decided = slot;
                (collect.lock, collect.writes) = (None, vec![]);
                let digest = Digest::new([3; 32]);
                let signature = self.auth.sign(&self.statements(view).accept(view, slot, digest));
                let accepts = (0..self.members).map(|id| (replica(id), signature)).collect();
                last = match random.below(3) {
                    0 => None,
                    1 => Some(Proof { slot, view, digest, accepts }),
                    _ => last.map(|proof| Proof { slot, ..proof }),
                };
            }
        }
        let collect = self.sign_collect(view, collect);
        vec![(to, self.whole(view, Body::StopData { collect, last, batches }))]
    }

    fn false_sync(
        &mut self,
        random: &mut Random,
        to: usize,
        message: &ModSmartMessage,
    ) -> Vec<(usize, Vec<u8>)> {
        let view = message.view;
        let Body::Sync { stops, collects, last, value } = &message.body else {
            return vec![(to, encode(message))];
        };
        // The same for all, or something else for each.
        if let Some((of, body, voted)) = &self.forged
            && *of == view
            && random.below(4) > 0
        {
            return self.with_votes(view, to, body.clone(), *voted);
        }
        let (mut collects, mut last, mut value) = (collects.clone(), last.clone(), value.clone());
        match random.below(6) {
            0 => {
                // Statements of an earlier view.
                if let Some((_, old)) = self.collects.range(..view).next_back() {
                    collects = old.values().cloned().collect();
                }
                value = None;
            }
            1 => {
                collects.truncate(self.members / 2);
                value = Some(self.invent());
            }
            2 => value = Some(self.invent()),
            3 => value = None,
            4 => {
                // Its own statement once more, changed, in the place of another's.
                let mine = self.sign_collect(
                    view,
                    Collect {
                        from: replica(self.me),
                        decided: collects.first().map_or(Slot::ZERO, |collect| collect.decided),
                        lock: None,
                        writes: vec![],
                        signature: Signature::NONE,
                    },
                );
                for collect in &mut collects {
                    *collect = Collect { from: collect.from, ..mine.clone() };
                }
                value = Some(self.invent());
            }
            _ => last = None,
        }
        let slot = last.as_ref().map_or(Slot::FIRST, |proof| proof.slot.next());
        let voted = value.as_ref().map(|batch| (slot, super::world::value(batch)));
        let body = Body::Sync { stops: stops.clone(), collects, last, value };
        self.forged = Some((view, body.clone(), voted));
        self.with_votes(view, to, body, voted)
    }

    /// It votes for what it showed.
    fn with_votes(
        &self,
        view: View,
        to: usize,
        body: Body,
        voted: Option<(Slot, Digest)>,
    ) -> Vec<(usize, Vec<u8>)> {
        let mut list = vec![(to, self.whole(view, body))];
        if let Some((slot, digest)) = voted {
            list.push((to, self.whole(view, Body::Write { slot, digest })));
            list.push((to, self.whole(view, self.accept(view, slot, digest))));
        }
        list
    }

    fn false_decision(&mut self, random: &mut Random, view: View, message: &ModSmartMessage) -> Vec<u8> {
        let slot = match &message.body {
            Body::Write { slot, .. } | Body::Accept { slot, .. } | Body::Propose { slot, .. } => *slot,
            Body::Alive { decided, .. } | Body::AliveReply { decided, .. } => decided.next(),
            _ => Slot::new(1 + random.below(20)),
        };
        let mine = self.invent();
        let digest = value(&mine);
        let own = self.auth.sign(&self.statements(view).accept(view, slot, digest));
        let accepts: Signed = match random.below(3) {
            0 => vec![(replica(self.me), own)],
            1 => (0..self.members).map(|id| (replica(id), own)).collect(),
            _ => match self.proofs.last() {
                // The votes of another slot.
                Some((proof, _)) => proof.accepts.clone(),
                None => vec![],
            },
        };
        self.whole(view, Body::Decision { proof: Proof { slot, view, digest, accepts }, batch: mine })
    }
}

fn mutated(random: &mut Random, mut bytes: Vec<u8>) -> Vec<u8> {
    for _ in 0..=random.below(3) {
        let at = random.below(bytes.len() as u64) as usize;
        bytes[at] = if random.below(2) == 0 { random.next() as u8 } else { bytes[at] ^ 1 };
    }
    bytes
}

/// Hosts that need a moment to know who sent what is proposed, and one that never does, keep nobody from deciding.
#[test]
fn hosts_that_know_late_or_never_are_survived() {
    for how in [How::Silent, How::Equivocate, How::Unasked, How::All] {
        for (members, hows) in [(4, vec![how]), (4, vec![]), (7, vec![how, How::Selective])] {
            for seed in chaos::seeds(10) {
                chaos::schedule(seed, Plan { late: true, ..Plan::byzantine(members) }, &hows);
            }
        }
    }
}

/// Up to f of one kind.
#[test]
fn four_replicas_survive_every_liar() {
    for how in ALL {
        for seed in chaos::seeds(25) {
            chaos::schedule(seed, Plan::byzantine(4), &[how]);
        }
    }
}

/// With time-outs so short that views follow each other all the time.
#[test]
fn four_hasty_replicas_survive_every_liar() {
    for how in ALL {
        for seed in chaos::seeds(15) {
            let plan = Plan { configure: chaos::hasty, ..Plan::byzantine(4) };
            chaos::schedule(seed, plan, &[how]);
        }
    }
}

/// Two kinds among seven.
#[test]
fn seven_replicas_survive_two_liars() {
    for (at, how) in ALL.into_iter().enumerate() {
        for seed in chaos::seeds(6) {
            let other = ALL[(at + seed as usize) % ALL.len()];
            chaos::schedule(seed, Plan::byzantine(7), &[how, other]);
        }
    }
}

/// Members come and go while one of those that began lies, also when it is a member no more, or only listens.
#[test]
fn changes_of_membership_survive_a_liar() {
    for how in ALL {
        for seed in chaos::seeds(10) {
            chaos::schedule(seed, Plan { changes: true, ..Plan::byzantine(5) }, &[how]);
        }
    }
}

/// Five are not enough for two, and survive one.
#[test]
fn five_replicas_survive_one_liar() {
    for how in ALL {
        for seed in chaos::seeds(6) {
            chaos::schedule(seed, Plan::byzantine(5), &[how]);
        }
    }
}

/// One liar more than the model allows: the checks find that something is wrong.
#[test]
fn one_liar_too_many_is_seen() {
    for (members, hows) in [(4, [How::Equivocate, How::DoubleVotes].as_slice()), (7, &[How::Equivocate; 3])] {
        let seen = chaos::seeds(300).find(|seed| {
            let plan = Plan::byzantine(members);
            catch_unwind(AssertUnwindSafe(|| chaos::schedule(*seed, plan, hows))).is_err()
        });
        assert!(seen.is_some(), "{} liars of {members} are not seen", hows.len());
    }
}

/// One that keeps what proves a decision, and shows it in each view, stops nobody: what is shown can be had.
#[test]
pub(super) fn who_keeps_a_proof_stops_nobody() {
    for seed in chaos::seeds(20) {
        let mut world = World::new(seed, Plan::byzantine(4));
        // It leads the first view.
        world.lies[1] = Some(Lies::new(How::KeepsProofs, 1, &world));
        for _ in 0..5 {
            world.ask(100);
        }
        let done = world.run_until(Span::from_secs(20), World::is_done);
        assert!(done, "seed {seed}: {}", world.describe());
        assert!((0..4).all(|at| world.view(at) <= 4), "seed {seed}: {}", world.describe());
    }
}

/// Liars are seen as such: what they send is refused, and reported.
#[test]
fn lies_are_evidence() {
    for how in [How::Inventive, How::FalseDecisions, How::FalseViews] {
        let found: u64 =
            chaos::seeds(10).map(|seed| chaos::schedule(seed, Plan::byzantine(4), &[how]).evidence).sum();
        assert!(found > 0, "{how:?}");
    }
    assert_eq!(place(replica(3)), 3);
}
