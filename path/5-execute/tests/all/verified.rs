//! Verified execution: replicas whose runs differ now and then come to one final history, and nothing is final before its ruling.

use crate::early::Log;
use crate::ordered::{AHEAD, Cells, Clients, Hints, Says, Step, Workers, deliver, finals, limits, place};
use crate::support::{batch, commands, open, query, seq};
use quorate_execute::{
    Ahead, CheckpointError, Context, Execution, Executor, Final, ImageParts, InOrder, InStore, KeyUse, Known,
    MembershipNow, Memo, Ordered, Outcomes, OwnTokens, Parallel, ParallelService, ReplySink, Ruled,
    Sequential, SessionEnd, StateView, Tellers, Verified, Verify, VerifyConfig, Version, Work, Worked, Worth,
};
use quorate_types::{AgreedTime, Digest, Random, ReplicaId, SessionId, Span, Time};
use quorate_wire::{EarlyTokens, Ruling, Tokens};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Whether runs race now, and how they turn out.
#[derive(Clone, Default)]
pub(crate) struct Race(Arc<AtomicU64>);

impl Race {
    fn set(&self, how: u64) {
        self.0.store(how, Relaxed);
    }
}

/// The key that a race writes, and what a liar says that it wrote.
const RACE: &[u8] = b"race";
const LIE: [u8; 8] = [99; 8];

/// The cells, with commands that race: another one of them then also writes a key of its own.
struct Racy {
    cells: Cells,
    race: Race,
}

impl ParallelService for Racy {
    fn execute(&self, view: &mut StateView<'_>, command: &[u8], ctx: &Context, reply: &mut ReplySink<'_>) {
        assert_ne!(view.get(RACE).as_deref(), Some(&LIE[..]), "commands ran on a state that a liar made up");
        self.cells.execute(view, command, ctx, reply);
        let how = self.race.0.load(Relaxed);
        if how > 0 {
            view.put(RACE, &how.to_le_bytes());
        }
    }
    fn query(&self, view: &StateView<'_>, query: &[u8], ctx: &Context, reply: &mut ReplySink<'_>) {
        self.cells.query(view, query, ctx, reply);
    }
    fn hints(&self, command: &[u8], uses: &mut dyn FnMut(KeyUse<'_>)) -> bool {
        self.cells.hints(command, uses)
    }
    fn next_deadline(&self, view: &StateView<'_>) -> Option<AgreedTime> {
        self.cells.next_deadline(view)
    }
    fn deadline_reached(&self, view: &mut StateView<'_>, ctx: &Context) {
        self.cells.deadline_reached(view, ctx);
    }
    fn session_ended(&self, view: &mut StateView<'_>, why: SessionEnd, ctx: &Context) {
        self.cells.session_ended(view, why, ctx);
    }
    fn membership_changed(&self, view: &mut StateView<'_>, now: &MembershipNow, ctx: &Context) {
        self.cells.membership_changed(view, now, ctx);
    }
}

/// An execution whose commands race while it runs them, if that is wanted. Commands that run alone do not.
struct Racing {
    inner: Box<dyn Execution>,
    race: Race,
    wanted: Race,
    raced: bool,
    may_vary: bool,
}

impl Execution for Racing {
    fn deliver(&mut self, ordered: Ordered) {
        self.inner.deliver(ordered);
    }
    fn next(&mut self, now: Time, outcomes: &mut Outcomes) -> Option<Final> {
        self.raced = self.wanted.0.load(Relaxed) > 0;
        self.race.set(self.wanted.0.load(Relaxed));
        let done = self.inner.next(now, outcomes);
        self.race.set(0);
        done
    }
    fn deadline(&self) -> Option<Time> {
        self.inner.deadline()
    }
    fn work(&mut self) -> Option<Work> {
        self.inner.work()
    }
    fn worked(&mut self, done: Worked) {
        self.inner.worked(done);
    }
    fn has_room(&self) -> bool {
        self.inner.has_room()
    }
    fn may_vary(&self) -> bool {
        self.may_vary
    }
    fn has_varied(&self) -> bool {
        self.may_vary && self.raced
    }
    fn take_over(&mut self, known: &Known<'_>) {
        self.inner.take_over(known);
    }
    fn invariants(&self) {
        self.inner.invariants();
    }
    fn is_behind(&self) -> bool {
        self.inner.is_behind()
    }
    fn state(&self) -> &Executor {
        self.inner.state()
    }
    fn state_mut(&mut self) -> &mut Executor {
        self.inner.state_mut()
    }
    fn restore(&mut self, system: &[u8], objects: &Version) -> Result<(), CheckpointError> {
        self.inner.restore(system, objects)
    }
}

fn executor(race: &Race) -> Executor {
    let service = Racy { cells: Cells { hints: Hints::Right }, race: race.clone() };
    Executor::new(Box::new(InStore::new(Parallel::new(service))), limits(), AgreedTime::ZERO)
}

fn id(at: usize) -> ReplicaId {
    ReplicaId::new(at as u16 + 1)
}

/// A replica that verifies.
pub(crate) struct Replica {
    pub(crate) stage: Verified,
    verify: Verify,
    race: Race,
    workers: Workers,
    finals: Vec<String>,
    /// How many steps of the log it has.
    at: usize,
    /// How much was final before its ruling.
    early: usize,
    /// What it knows of before it is decided.
    log: Log,
    /// How it was made: its number, of how many, and how.
    made: (usize, usize, How),
    /// The memos that its log has, with those that are not durable, and the checkpoint from which it goes on.
    kept: Vec<Memo>,
    noted: Vec<Memo>,
    from: Option<(ImageParts, usize, Vec<String>)>,
    restarts: usize,
}

/// How a replica executes.
#[derive(Clone, Copy)]
pub(crate) struct How {
    parallel: bool,
    /// Results are final before their ruling if all agree.
    fast: bool,
    /// It may start again, so what may come out differently has memos.
    restarts: bool,
    /// After so many rulings on which all agreed, all have to.
    extra: u32,
}

/// One that executes in turn.
pub(crate) const ONE: How = How { parallel: false, fast: false, restarts: false, extra: 0 };

/// What is ordered: a step, and the ruling in its batch.
pub(crate) type Entry = (Step, Option<Ruling>);

const PATIENCE: Span = Span::from_nanos(50);

impl Replica {
    pub(crate) fn new(at: usize, of: usize, how: How) -> Self {
        let How { parallel, fast, restarts, extra } = how;
        let (race, wanted) = (Race::default(), Race::default());
        let ahead = |executor| -> Box<dyn Execution> {
            let inner: Box<dyn Execution> = if parallel {
                let in_order = InOrder::new(executor, Ahead { long: 0, ..AHEAD }, Box::new(Says(0, 1000)));
                Box::new(in_order.unwrap_or_else(|_| panic!("it is parallel")))
            } else {
                Box::new(Sequential::new(executor))
            };
            let (race, wanted) = (race.clone(), wanted.clone());
            Box::new(Racing { inner, race, wanted, raced: false, may_vary: restarts })
        };
        let mut stage = Verified::new(executor(&race), ahead).unwrap_or_else(|_| panic!("it has a twin"));
        if extra > 0 {
            stage.tell_what_ran_again();
        }
        let mut verify = Verify::new(VerifyConfig { me: id(at), patience: PATIENCE, extra });
        verify.set_varies(restarts);
        let majority = of as u32 / 2 + 1;
        // With an even seed they answer before the ruling if all agree.
        verify.set_executors(
            (0..of).map(id).collect(),
            majority,
            fast.then(|| Tellers { usual: of - (of - 1) / 2, least: of - (of - 1) / 2 }),
        );
        Self {
            stage,
            verify,
            race: wanted,
            workers: Workers::default(),
            finals: Vec::new(),
            at: 0,
            early: 0,
            log: Log::default(),
            made: (at, of, how),
            kept: Vec::new(),
            noted: Vec::new(),
            from: None,
            restarts: 0,
        }
    }

    /// Its log takes memos, and some become durable.
    fn keep(&mut self, random: &mut Random) {
        while let Some(memo) = self.stage.unkept().cloned() {
            if random.next().is_multiple_of(30) && self.stage.can_not_keep() {
                continue;
            }
            self.noted.push(memo);
            self.stage.is_noted();
        }
        if random.next().is_multiple_of(3) {
            let durable = std::mem::take(&mut self.noted);
            durable.iter().for_each(|memo| self.stage.is_kept(memo.number));
            self.kept.extend(durable);
        }
    }

    /// It starts again, with its checkpoint and its log.
    fn restart(&mut self) {
        let (at, of, how) = self.made;
        let mut again = Self::new(at, of, how);
        if let Some((image, at, finals)) = &self.from {
            again.stage.restore(&image.system, &image.objects).expect("its own");
            drop(again.stage.state_mut().take_events());
            (again.at, again.finals) = (*at, finals.clone());
        }
        again.stage.recall(self.kept.clone());
        (again.kept, again.from) = (std::mem::take(&mut self.kept), self.from.take());
        (again.early, again.restarts) = (self.early, self.restarts + 1);
        *self = again;
    }

    fn take(&mut self, entry: &Entry) {
        deliver(&mut self.stage, &entry.0);
        if let (Step::Batch(number, ..), Some(ruling)) = (&entry.0, entry.1) {
            self.stage.deliver(Ordered::Ruled(seq(*number), ruling));
        }
        self.at += 1;
        if let Step::Batch(number, batch, _) = &entry.0 {
            self.stage.is_placed(seq(*number), self.at as u64, batch);
        }
    }

    fn turn(&mut self, now: Time, random: &mut Random) -> Option<Tokens> {
        finals(&mut self.stage, &mut self.finals);
        self.workers.turn(&mut self.stage, random, &mut Says(0, 1000));
        finals(&mut self.stage, &mut self.finals);
        self.stage.invariants();
        let delivered = self.stage.state().agreed().seq();
        self.stage.take_placed().into_iter().for_each(|(seq, view)| self.verify.placed(seq, view));
        self.verify.delivered(now, self.stage.ruled(), self.stage.waits(), delivered);
        self.verify.invariants();
        self.keep(random);
        let own = self.stage.take_tokens().map(|own| self.verify.ran(now, own));
        if let Some((seq, token)) = self.verify.final_already() {
            self.stage.agree(self.stage.ruled().attempt, seq, token);
            let before = self.finals.len();
            finals(&mut self.stage, &mut self.finals);
            self.early += self.finals.len() - before;
        }
        own.map(|OwnTokens { attempt, list }| Tokens { attempt, last: seq(0), list })
    }
}

struct World {
    replicas: Vec<Replica>,
    log: Vec<Entry>,
    random: Random,
    now: Time,
    /// Tokens on their way.
    sent: Vec<(usize, usize, Tokens)>,
    /// Whether replicas hear of batches before they are decided, and tokens of those on their way.
    foresees: bool,
    sent_early: Vec<(usize, usize, EarlyTokens)>,
    repaired: usize,
}

impl World {
    fn new(seed: u64, count: usize) -> Self {
        let (fast, restarts) = (seed.is_multiple_of(2), seed % 4 > 1);
        let extra = if seed % 8 > 3 { 2 } else { 0 };
        let how = |at| How { parallel: at % 3 == 1, fast, restarts, extra };
        let replicas = (0..count).map(|at| Replica::new(at, count, how(at))).collect();
        let (random, now) = (Random::new(seed ^ 0xeee), Time::ZERO);
        let (log, sent, sent_early, foresees) = (Vec::new(), Vec::new(), Vec::new(), seed % 16 > 7);
        Self { replicas, log, random, now, sent, foresees, sent_early, repaired: 0 }
    }

    fn below(&mut self, below: u64) -> u64 {
        self.random.next() % below
    }

    /// A replica has a turn: it may deliver, run, and tell.
    fn turn(&mut self, who: usize, racing: u64) {
        let race = if self.below(1000) < racing { 1 + self.below(2) } else { 0 };
        let deliveries = self.below(4) as usize;
        let replica = &mut self.replicas[who];
        replica.race.set(race);
        for entry in self.log.iter().skip(replica.at).take(deliveries) {
            if self.foresees {
                replica.log.decide(&mut replica.stage, replica.at + 1, &self.log);
            }
            replica.take(entry);
        }
        if self.foresees {
            replica.log.grow(&mut replica.stage, &self.log, &mut self.random);
            let next = place(replica.stage.state().agreed().seq().next().number());
            replica.stage.foresee_behind(replica.at as u64, next);
        }
        let told = replica.turn(self.now, &mut self.random);
        self.tell_early(who);
        let replica = &mut self.replicas[who];
        replica.race.set(0);
        let count = self.replicas.len();
        if let Some(told) = told {
            self.sent.extend((0..count).filter(|to| *to != who).map(|to| (who, to, told.clone())));
        }
        for _ in 0..self.below(4) {
            if !self.sent.is_empty() {
                let next = self.below(self.sent.len() as u64) as usize;
                let (from, to, tokens) = self.sent.swap_remove(next);
                let now = self.now;
                self.replicas[to].verify.heard(now, id(from), &tokens);
            }
        }
        self.exchange(who);
        if self.replicas[who].stage.differs().is_some() {
            self.repair(who);
        }
    }

    /// A replica tells what it ran early, and some of that arrives somewhere.
    fn tell_early(&mut self, who: usize) {
        let (now, count, replica) = (self.now, self.replicas.len(), &mut self.replicas[who]);
        while let Some((view, own)) = replica.stage.take_early() {
            let mut tokens = EarlyTokens { attempt: own.attempt, view, list: own.list };
            tokens.list = replica.verify.heard_early(now, id(who), &tokens);
            EARLY.fetch_add(tokens.list.len() as u64, Relaxed);
            let others = (0..count).filter(|to| *to != who);
            self.sent_early.extend(others.map(|to| (who, to, tokens.clone())));
        }
        for _ in 0..self.below(4).min(self.sent_early.len() as u64) {
            let next = self.below(self.sent_early.len() as u64) as usize;
            let (from, to, tokens) = self.sent_early.swap_remove(next);
            self.replicas[to].verify.heard_early(now, id(from), &tokens);
        }
    }

    /// A replica that lacks what was ruled asks another one, which may lie.
    fn exchange(&mut self, who: usize) {
        let Some(wanted) = self.replicas[who].stage.wanted() else { return };
        let other = self.below(self.replicas.len() as u64) as usize;
        let Some(mut memos) = self.replicas[other].stage.answer(wanted) else {
            if self.below(30) == 0 {
                self.replicas[who].stage.give_up();
            }
            return;
        };
        let (lies, at) = (self.below(4) == 0, self.below(1 << 20) as usize);
        if lies && !memos.list.is_empty() {
            let which = at % memos.list.len();
            let mut body = memos.list[which].body.to_vec();
            let raced = body.windows(RACE.len()).position(|key| key == RACE);
            match raced.and_then(|raced| body.get_mut(raced + RACE.len()..)?.get_mut(..LIE.len())) {
                Some(value) if at.is_multiple_of(2) => value.copy_from_slice(&LIE),
                _ => {
                    let at = at % body.len();
                    body[at] ^= 1 << self.below(8);
                }
            }
            memos.list[which].body = body.into();
        } else if lies && !memos.steps.is_empty() {
            let which = at % memos.steps.len();
            memos.steps[which].1 = Digest::new([9; 32]);
        }
        let worth = self.replicas[who].stage.told(memos);
        LEARNT.fetch_add(u64::from(worth == Worth::All), Relaxed);
        let replica = &mut self.replicas[who];
        finals(&mut replica.stage, &mut replica.finals);
    }

    /// A replica whose results are others gets the state of one that is as far as what was ruled.
    fn repair(&mut self, who: usize) {
        let wrong = self.replicas[who].stage.differs().expect("it differs").seq;
        let sound = (0..self.replicas.len()).find(|other| {
            let other = &self.replicas[*other].stage;
            other.differs().is_none() && other.state().seq() >= wrong && !other.is_behind()
        });
        let Some(sound) = sound else { return };
        // A border is ordered there: all know it, and this replica goes on from it.
        let from = &mut self.replicas[sound];
        from.stage.deliver(Ordered::Border);
        let before = from.finals.len();
        let mut outcomes = Outcomes::new();
        let Some(Final::Image(Ok(image))) = from.stage.next(self.now, &mut outcomes) else {
            panic!("nothing else is under way");
        };
        assert_eq!(from.finals.len(), before);
        let (at, finals) = (from.at, from.finals.clone());
        let to = &mut self.replicas[who];
        to.stage.restore(&image.system, &image.objects).expect("its own");
        to.verify.restart();
        drop(to.stage.state_mut().take_events());
        (to.at, to.finals) = (at, finals.clone());
        to.from = Some((image, at, finals));
        self.repaired += 1;
    }

    /// Now and then one replica starts again, or all of them.
    fn stop_some(&mut self, seed: u64) {
        if seed % 4 < 2 {
            return;
        }
        let (all, one) = (self.below(60) == 0, self.below(25) == 0);
        let which = self.below(self.replicas.len() as u64) as usize;
        for (at, replica) in self.replicas.iter_mut().enumerate() {
            if all || one && at == which {
                replica.restart();
            }
        }
    }

    /// The ruling that one of the replicas thinks is due, or one that counts for nothing.
    fn ruling(&mut self) -> Option<Ruling> {
        let who = self.below(self.replicas.len() as u64) as usize;
        let (now, end) = (self.now, self.log.len());
        // A leader knows everything that was decided before.
        let knows_all = |replica: &&Replica| replica.at == end || !replica.made.2.restarts;
        let leader = &self.replicas[who];
        let due = Some(leader).filter(knows_all).and_then(|replica| replica.verify.due(now));
        let of_all = self.replicas.len() > 1 && leader.verify.protects();
        match due.filter(|_| of_all) {
            Some(Ruling::Final { .. }) => drop(PROTECTED[0].fetch_add(1, Relaxed)),
            Some(Ruling::Redo { .. }) => drop(PROTECTED[1].fetch_add(1, Relaxed)),
            None => {}
        }
        match (due, self.random.next() % 12) {
            (Some(Ruling::Final { attempt, seq, token }), 0) if attempt > 0 => {
                Some(Ruling::Final { attempt: attempt - 1, seq, token })
            }
            (_, 1) => Some(Ruling::Final { attempt: 0, seq: seq(1), token: Digest::new([9; 32]) }),
            (_, 2) => Some(Ruling::Final { attempt: 99, seq: seq(1 << 40), token: Digest::new([9; 32]) }),
            _ => due,
        }
    }
}

/// One history at replicas that race in so many of 1000 turns. Gives how often everything ran again, how often a state was replaced, and how
/// much was final before its ruling.
fn play(seed: u64, count: usize, racing: u64) -> (u64, usize, usize) {
    let (mut world, mut clients) = (World::new(seed, count), Clients::new(seed));
    let mut one = Sequential::new(executor(&Race::default()));
    let (mut number, mut expected) = (0, Vec::new());
    for at in 0..220 {
        world.now = world.now.plus(Span::from_nanos(world.below(20)));
        if at < 160 && world.below(2) == 0 {
            let step = clients.step(&mut number);
            deliver(&mut one, &step);
            finals(&mut one, &mut expected);
            let ruling = world.ruling();
            world.log.push((step, ruling));
        } else if let Some(ruling) = world.ruling() {
            number += 1;
            let step = Step::Batch(number, batch(0, number, &[]), false);
            deliver(&mut one, &step);
            finals(&mut one, &mut expected);
            world.log.push((step, Some(ruling)));
        }
        for who in 0..count {
            world.turn(who, racing);
        }
        world.stop_some(seed);
    }
    settle(seed, &mut world, |step| {
        deliver(&mut one, step);
        finals(&mut one, &mut expected);
    });
    judge(seed, &world, racing, &expected);
    let early = world.replicas.iter().map(|replica| replica.early).sum();
    RESTARTS.fetch_add(world.replicas.iter().map(|replica| replica.restarts as u64).sum(), Relaxed);
    (world.replicas[0].stage.ruled().attempt, world.repaired, early)
}

/// Lets everything come to its end.
fn settle(seed: u64, world: &mut World, mut also: impl FnMut(&Step)) {
    for _ in 0..2000 {
        let end = world.log.len();
        if world.replicas.iter().all(|replica| replica.at == end && !replica.stage.is_behind()) {
            return;
        }
        world.now = world.now.plus(Span::from_nanos(5));
        let last = world.log.iter().rev().find_map(|(step, _)| match step {
            Step::Batch(number, ..) | Step::Pass(number) => Some(*number),
            _ => None,
        });
        let number = last.unwrap_or(0) + 1;
        if let Some(ruling) = world.ruling() {
            let step = Step::Batch(number, batch(0, number, &[]), false);
            also(&step);
            world.log.push((step, Some(ruling)));
        }
        (0..world.replicas.len()).for_each(|who| world.turn(who, 0));
    }
    let stand = |replica: &Replica| {
        let stage = &replica.stage;
        format!("{:?} {:?} {} {:?}", stage.counts(), stage.differs(), stage.state().seq(), replica.restarts)
    };
    let all: Vec<String> = world.replicas.iter().map(stand).collect();
    panic!("seed {seed}: something is never final: {all:#?}");
}

/// All replicas have one history and one state; without races it is the sequential one.
fn judge(seed: u64, world: &World, racing: u64, expected: &[String]) {
    // An image also says what was ruled, and states that were replaced are no part of what a replica itself made final.
    let plain = |all: &[String]| -> Vec<String> {
        all.iter().filter(|line| !line.starts_with("image")).cloned().collect()
    };
    let first = plain(&world.replicas[0].finals);
    for (who, replica) in world.replicas.iter().enumerate() {
        let own = plain(&replica.finals);
        for (at, (expected, found)) in first.iter().zip(&own).enumerate() {
            assert_eq!(expected, found, "seed {seed}: number {at} at {who}");
        }
        assert_eq!(first.len(), own.len(), "seed {seed}: replica {who}");
        let (one, other) = (world.replicas[0].stage.state(), replica.stage.state());
        assert!(bytes(one) == bytes(other), "seed {seed}: another state at {who}");
    }
    if racing == 0 {
        assert_eq!(plain(expected), first, "seed {seed}: another history than the sequential one");
    }
}

/// The objects, and what the sessions keep.
pub(crate) fn bytes(executor: &Executor) -> String {
    let published = executor.published().expect("it is in the store");
    let cells = (0..12).flat_map(|index| (1..20).map(move |generation| SessionId { index, generation }));
    let sessions: Vec<_> = cells
        .filter(|session| executor.client(*session).is_some())
        .map(|session| {
            let kept = executor.kept_after(session, quorate_types::RequestNumber::ZERO);
            format!("{session} {:?} {:?}", executor.last_number(session), kept.collect::<Vec<_>>())
        })
        .collect();
    format!("{} {} {} {sessions:?}", executor.seq(), executor.time().nanos(), published.objects.root())
}

/// How often replicas started again, and how often one took over what was ruled from another one.
static RESTARTS: AtomicU64 = AtomicU64::new(0);
static LEARNT: AtomicU64 = AtomicU64::new(0);
/// How much was told before it was delivered.
static EARLY: AtomicU64 = AtomicU64::new(0);
/// How often all had to tell the same, and did; and how often they did not.
static PROTECTED: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];

/// So many histories.
pub(crate) fn histories(seeds: u64) {
    let (mut redone, mut repaired, mut early) = (0, 0, 0);
    RESTARTS.store(0, Relaxed);
    LEARNT.store(0, Relaxed);
    EARLY.store(0, Relaxed);
    PROTECTED.iter().for_each(|count| count.store(0, Relaxed));
    for seed in 0..seeds {
        for (count, racing) in [(3, 0), (3, 100), (3, 500), (5, 200), (1, 0)] {
            let (attempt, repairs, before) = play(seed, count, racing);
            redone += attempt * u64::from(racing > 0);
            (repaired, early) = (repaired + repairs, early + if count > 1 { before } else { 0 });
        }
    }
    let counts =
        format!("run again {redone} times, replaced {repaired} times, {early} finals before their ruling");
    let (restarts, learnt) = (RESTARTS.load(Relaxed), LEARNT.load(Relaxed));
    let protected = PROTECTED.each_ref().map(|count| count.load(Relaxed));
    let foreseen = EARLY.load(Relaxed);
    let counts = format!(
        "{counts}, {foreseen} tokens before delivery, {restarts} restarts, {learnt} learnt from others, {protected:?} rulings by all"
    );
    println!("{counts}");
    assert!(
        redone > seeds
            && repaired > 0
            && early > 100
            && restarts > seeds
            && learnt > seeds / 10
            && foreseen > 10 * seeds
            && protected.iter().all(|count| *count > seeds),
        "{counts}"
    );
}

#[test]
fn replicas_that_race_come_to_one_history() {
    histories(std::env::var("QUORATE_SEEDS").ok().and_then(|count| count.parse().ok()).unwrap_or(40));
}

/// Histories in which all replicas started again, more than once, before a result that was ruled was in a checkpoint.
#[test]
fn what_was_ruled_is_repeated_after_any_restarts() {
    for seed in [71, 378] {
        for (count, racing) in [(3, 100), (3, 500), (5, 200)] {
            play(seed, count, racing);
        }
    }
}

/// One replica, and its first batches: sessions, and a command.
fn one_command() -> Verified {
    let mut stage = Replica::new(0, 1, ONE).stage;
    let whole: &mut (dyn Execution + 'static) = &mut stage;
    whole.batch(seq(1), batch(10, 1, &[open(0, 1)]));
    whole.batch(seq(2), batch(20, 2, &[commands(session(), 1, 1, &[&[0, 1, 5]])]));
    stage
}

pub(crate) fn session() -> SessionId {
    SessionId { index: 0, generation: 1 }
}

pub(crate) fn ran(stage: &mut Verified) -> usize {
    let mut all = Vec::new();
    finals(stage, &mut all);
    all.len()
}

/// A planted bug lets results out too early.
#[test]
pub(crate) fn nothing_is_final_before_its_ruling() {
    let mut stage = one_command();
    assert_eq!(ran(&mut stage), 1, "only the session is open");
    assert_eq!((stage.state().seq(), stage.waits()), (seq(1), Some(seq(2))));
    let own = stage.take_tokens().expect("both ran");
    let [(first, _), (second, token)] = own.list[..] else { panic!("{own:?}") };
    assert_eq!((own.attempt, first, second), (0, seq(1), seq(2)));
    // Readers and admission see what is final.
    let mut answer = Vec::new();
    stage.state().query(&[], &mut answer).expect("it is short");
    assert!(answer.is_empty(), "a read of what is not final: {answer:?}");
    assert_eq!(stage.state().last_number(session()).map(quorate_types::RequestNumber::number), Some(0));
    let whole: &mut (dyn Execution + 'static) = &mut stage;
    whole.batch(seq(3), batch(30, 3, &[]));
    stage.deliver(Ordered::Ruled(seq(3), Ruling::Final { attempt: 0, seq: seq(2), token }));
    assert_eq!(ran(&mut stage), 2, "the command, and the batch with the ruling");
    stage.state().query(&[], &mut answer).expect("it is short");
    assert_eq!(answer, [1, 5]);
}

/// An image of a state that is not final would be that of a run which may not count.
#[test]
pub(crate) fn an_image_waits_for_the_rulings_before_it() {
    let mut stage = one_command();
    stage.deliver(Ordered::Border);
    assert!(!stage.is_settled() && ran(&mut stage) == 1);
    let whole: &mut (dyn Execution + 'static) = &mut stage;
    whole.batch(seq(3), batch(30, 3, &[query(session(), 2, 1, &[])]));
    stage.deliver(Ordered::Ruled(seq(3), Ruling::Redo { attempt: 0 }));
    assert!(stage.is_settled(), "the ruling says how the state at the border comes about");
    assert_eq!(ran(&mut stage), 3, "the command, the image, and the query in the same batch");
}

#[test]
pub(crate) fn a_ruling_of_another_attempt_counts_for_nothing() {
    let mut stage = one_command();
    ran(&mut stage);
    let (_, token) = stage.take_tokens().expect("both ran").list[1];
    let whole: &mut (dyn Execution + 'static) = &mut stage;
    whole.batch(seq(3), batch(30, 3, &[commands(session(), 2, 1, &[&[0, 2, 6]])]));
    for ruling in [
        Ruling::Final { attempt: 1, seq: seq(2), token },
        Ruling::Redo { attempt: 7 },
        // Nobody knows the results of a batch before it is ordered.
        Ruling::Final { attempt: 0, seq: seq(3), token },
        Ruling::Final { attempt: 0, seq: seq(99), token },
    ] {
        stage.deliver(Ordered::Ruled(seq(3), ruling));
        assert_eq!(ran(&mut stage), 0, "{ruling:?}");
    }
    assert_eq!(stage.counts().ignored, 4);
    stage.deliver(Ordered::Ruled(seq(3), Ruling::Redo { attempt: 0 }));
    assert_eq!((ran(&mut stage), stage.ruled()), (2, Ruled { attempt: 1, seq: seq(3), token: None }));
    // It was for the attempt before.
    let whole: &mut (dyn Execution + 'static) = &mut stage;
    whole.batch(seq(4), batch(40, 4, &[commands(session(), 3, 1, &[&[0, 2, 6]])]));
    stage.deliver(Ordered::Ruled(seq(4), Ruling::Redo { attempt: 0 }));
    assert_eq!(ran(&mut stage), 0);
}

/// Two of three race in the same way. While all are there the third is enough to see it, and what runs again is told as well.
#[test]
pub(crate) fn who_differs_from_a_majority_is_heard_with_extra_protection() {
    let how = How { parallel: false, fast: true, restarts: false, extra: 1 };
    let mut replicas: Vec<Replica> = (0..3).map(|at| Replica::new(at, 3, how)).collect();
    let mut random = Random::new(1);
    let commands_of =
        |number| batch(number * 10, number, &[commands(session(), number - 1, 1, &[&[0, 1, 5]])]);
    let entry = |number, ruling| (Step::Batch(number, commands_of(number), false), ruling);
    let mut turn = |replicas: &mut Vec<Replica>, entry: &Entry, racing: &[usize]| {
        let mut told = Vec::new();
        for (at, replica) in replicas.iter_mut().enumerate() {
            replica.race.set(u64::from(racing.contains(&at)));
            replica.take(entry);
            // It runs, and its log has what it did. Then it tells that.
            let all = [(); 3].map(|()| replica.turn(Time::ZERO, &mut random));
            told.extend(all.into_iter().flatten().map(|tokens| (at, tokens)));
        }
        for (at, tokens) in told {
            let others = replicas.iter_mut().enumerate().filter(|(other, _)| *other != at);
            others.for_each(|(_, other)| other.verify.heard(Time::ZERO, id(at), &tokens));
        }
        replicas[0].verify.due(Time::ZERO)
    };
    let opening = (Step::Batch(1, batch(10, 1, &[open(0, 1)]), false), None);
    assert_eq!(turn(&mut replicas, &opening, &[]), None, "it is quiet");
    let due = turn(&mut replicas, &entry(2, None), &[]);
    assert!(matches!(due, Some(Ruling::Final { .. })), "{due:?}");
    let due = turn(&mut replicas, &entry(3, due), &[0, 1]);
    assert!(replicas[0].verify.protects(), "all told the same of the batch before");
    assert_eq!(due, Some(Ruling::Redo { attempt: 0 }), "two raced alike");
    let due = turn(&mut replicas, &(Step::Batch(4, batch(40, 4, &[]), false), due), &[]);
    assert_eq!((due, replicas[0].stage.state().seq()), (None, seq(4)), "they ran again, and that is final");
    let told = |replica: &Replica| replica.verify.own().list.first().copied();
    assert!(matches!(told(&replicas[0]), Some((at, _)) if at == seq(4)), "what came of running again");
    assert!(replicas.iter().all(|replica| told(replica) == told(&replicas[0])), "and all told the same");
    let mut answer = Vec::new();
    for replica in &mut replicas {
        let now = Time::ZERO.plus(PATIENCE);
        let _ = replica.turn(now, &mut random);
        assert!(replica.verify.protects(), "all told in time what came of running again");
        replica.stage.state().query(&[], &mut answer).expect("it is short");
    }
    assert!(!answer.is_empty());
    let objects: Vec<_> =
        replicas.iter().map(|of| of.stage.state().published().expect("it is in the store").objects).collect();
    assert!(objects.iter().all(|objects| objects.get(RACE).is_none()), "nothing of the race is left");
}

/// Two replicas that did different things before have no token in common, although they did the same in the last batch (EVE-08).
#[test]
pub(crate) fn a_token_stands_for_everything_before() {
    let run = |amount: u8| {
        let mut stage = Replica::new(0, 3, ONE).stage;
        let whole: &mut (dyn Execution + 'static) = &mut stage;
        whole.batch(seq(1), batch(10, 1, &[open(0, 1)]));
        whole.batch(seq(2), batch(20, 2, &[commands(session(), 1, 1, &[&[1, 1, amount]])]));
        whole.batch(seq(3), batch(30, 3, &[commands(session(), 2, 1, &[&[1, 2, 3]])]));
        ran(&mut stage);
        stage.take_tokens().expect("it ran").list
    };
    let (one, other) = (run(5), run(6));
    assert_eq!(one[0], other[0]);
    assert_ne!(one[1], other[1]);
    assert_ne!(one[2], other[2], "a lie about the batch before would not be seen");
    assert_eq!(one, run(5));
}

/// A cluster that was restored from a backup does not wait for the rulings of the one before.
#[test]
fn a_backup_needs_no_ruling() {
    let mut stage = one_command();
    stage.deliver(Ordered::Border);
    ran(&mut stage);
    let (_, token) = stage.take_tokens().expect("both ran").list[1];
    let whole: &mut (dyn Execution + 'static) = &mut stage;
    whole.batch(seq(3), batch(30, 3, &[]));
    stage.deliver(Ordered::Ruled(seq(3), Ruling::Final { attempt: 0, seq: seq(2), token }));
    let mut outcomes = Outcomes::new();
    let image = std::iter::from_fn(|| stage.next(Time::ZERO, &mut outcomes)).find_map(|done| match done {
        Final::Image(image) => image.ok(),
        _ => None,
    });
    let image = image.expect("a border");
    let mut other = Replica::new(0, 1, ONE).stage;
    other.restore(&image.system, &image.objects).expect("its own");
    assert!(!other.is_settled(), "the ruling for the state there lies behind the border");
    let anew = quorate_execute::system_begins_anew(&image.system).expect("its own");
    other.restore(&anew, &image.objects).expect("its own");
    assert!(other.is_settled() && other.waits().is_none());
    assert_eq!(bytes(other.state()), bytes(stage.state()));
}
