//! Ordered execution beside sequential execution of the same batches: equal outcomes, events and images, whatever workers do and whatever the
//! service names as keys.

use crate::support::{Ask, batch, close, commands, open, query, seq};
use quorate_execute::{
    Ahead, AheadLimits, Context, Events, Execution, Executor, Final, InOrder, InStore, KeyUse, MembershipNow,
    Ordered, Outcomes, Parallel, ParallelService, Parallelism, ReplySink, Sequential, SessionEnd,
    SessionLimits, StateView, Stopwatch, Work, Worked,
};
use quorate_types::{AgreedTime, InstanceId, MembershipId, Random, ReplicaId, SessionId, Slot, Span, Time};
use quorate_wire::Batch;
use std::any::Any;

/// How wrong the named keys are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hints {
    Right,
    /// So many of 100 are left out or others.
    Wrong(u64),
    Nothing,
    /// All commands name one key.
    Same,
}

/// A service with keys of one byte. A command is an operation, a key, and an amount.
pub(crate) struct Cells {
    pub(crate) hints: Hints,
}

/// What a command does. The key `b` of two is the next one.
fn key(at: u8) -> [u8; 1] {
    [at % 24]
}

impl ParallelService for Cells {
    fn execute(&self, view: &mut StateView<'_>, command: &[u8], ctx: &Context, reply: &mut ReplySink<'_>) {
        let [what, at, amount, ..] = *command else { return reply.write(b"what?") };
        let (one, other) = (key(at), key(at.wrapping_add(1 + amount % 5)));
        match what % 9 {
            0 => reply.write(&[u8::from(view.put(&one, &[amount]))]),
            1 => view.set(&one, &[amount, 0]),
            2 => reply.write(view.get(&one).as_deref().unwrap_or(b"none")),
            3 => reply.write(&[u8::from(view.remove(&one))]),
            4 => {
                let sum = view.range(&one, Some(&other)).fold(0_u8, |sum, (_, v)| sum.wrapping_add(v[0]));
                reply.write(&[sum]);
                if sum % 3 == 0 {
                    view.put(&other, &[sum]);
                }
            }
            // The first entries only, from some key on.
            5 => view.range(&one, None).take(2).for_each(|(key, value)| reply.write(&[key[0], value[0]])),
            // Which key it writes depends on what it reads.
            6 => {
                let way = view.get(&one).map_or(0, |value| value[0]);
                let target = if self.hints == Hints::Right { other } else { key(way) };
                let had = view.get(&target).map(|value| value[0]).unwrap_or(9);
                view.put(&target, &[had.wrapping_add(amount)]);
                view.tell((ctx.seq().number(), ctx.request_index(), ctx.command_index(), had));
                reply.write(&[way, had]);
            }
            7 => {
                let value = view.get(&one).map_or(1, |value| value[0].wrapping_mul(3).wrapping_add(amount));
                // All that a command learns about itself.
                let (instance, slot) = (ctx.instance().number(), ctx.slot().number());
                view.put(&one, &[value, ctx.seed() as u8, instance as u8, slot as u8]);
                let who = (ctx.client().number(), ctx.session().number());
                [who.0, who.1, ctx.seq().number(), ctx.time().nanos(), slot, instance.into()]
                    .iter()
                    .for_each(|number| reply.write(&number.to_le_bytes()));
            }
            // More than a reply may have.
            _ => reply.write(&vec![what; usize::from(amount) * 8]),
        }
    }

    fn query(&self, view: &StateView<'_>, query: &[u8], _: &Context, reply: &mut ReplySink<'_>) {
        view.range(query, None).for_each(|(key, value)| reply.write(&[key[0], value[0]]));
    }

    fn hints(&self, command: &[u8], uses: &mut dyn FnMut(KeyUse<'_>)) -> bool {
        let [what, at, amount, ..] = *command else { return true };
        match self.hints {
            Hints::Nothing => return false,
            Hints::Same => uses(KeyUse::Write(b"all")),
            Hints::Wrong(share) if Random::new(command[0].into()).next() % 100 < share => {
                uses(KeyUse::Read(&key(at.wrapping_add(3))));
            }
            Hints::Right | Hints::Wrong(_) => {
                let (one, other) = (key(at), key(at.wrapping_add(1 + amount % 5)));
                match what % 9 {
                    2 => uses(KeyUse::Read(&one)),
                    4 => {
                        uses(KeyUse::ReadRange { start: &one, end: Some(&other) });
                        uses(KeyUse::Write(&other));
                    }
                    5 => uses(KeyUse::ReadRange { start: &one, end: None }),
                    6 => [one, other].iter().for_each(|key| uses(KeyUse::Write(key))),
                    8 => {}
                    _ => uses(KeyUse::Write(&one)),
                }
            }
        }
        true
    }

    fn next_deadline(&self, view: &StateView<'_>) -> Option<AgreedTime> {
        let at = view.get(&key(7))?;
        (at[0] % 4 == 0).then(|| AgreedTime::from_nanos(u64::from(at[0]) * 40))
    }

    fn deadline_reached(&self, view: &mut StateView<'_>, ctx: &Context) {
        view.put(&key(7), &[1]);
        view.put(&key(ctx.time().nanos() as u8), b"rang");
    }

    fn session_ended(&self, view: &mut StateView<'_>, _: SessionEnd, ctx: &Context) {
        view.put(&key(ctx.session().index as u8), b"ended");
    }

    fn membership_changed(&self, view: &mut StateView<'_>, now: &MembershipNow, _: &Context) {
        view.put(&key(now.number.number() as u8), b"members");
    }
}

/// A stopwatch by which every request is long, or every one short.
pub(crate) struct Says(pub(crate) u64, pub(crate) u64);

impl Stopwatch for Says {
    fn nanos(&mut self) -> u64 {
        self.0 += self.1;
        self.0
    }
}

/// Limits that are so small that each of them is reached.
const TIGHT: AheadLimits = AheadLimits { planned: 9, held_bytes: 900, finals: 3, items: 5, bytes: 400 };
pub(crate) const AHEAD: Ahead = Ahead { workers: 3, long: 40_000, limits: WIDE };
const WIDE: AheadLimits =
    AheadLimits { planned: 4096, held_bytes: 128 << 20, finals: 1024, items: 4096, bytes: 64 << 20 };

pub(crate) fn limits() -> SessionLimits {
    SessionLimits {
        ttl: Span::from_nanos(900),
        window: 9,
        reply_bytes_max: 700,
        reply_bytes_per_request_max: 300,
        reply_bytes_per_batch_max: 1500,
        ..SessionLimits::default()
    }
}

fn executor(hints: Hints) -> Executor {
    let service = InStore::new(Parallel::new(Cells { hints }));
    Executor::new(Box::new(service), limits(), AgreedTime::ZERO)
}

/// What a client may see of a batch, and an observer.
pub(crate) fn seen(done: &Final, outcomes: &mut Outcomes) -> String {
    let told = outcomes.take_events().and_then(Events::of::<Vec<Box<dyn Any + Send>>>).unwrap_or_default();
    let told: Vec<_> =
        told.iter().map(|told| *told.downcast_ref::<(u64, u32, u32, u8)>().expect("ours")).collect();
    match done {
        Final::Batch(seq) => format!("{seq} {:?} {:?} {told:?}", outcomes.list(), outcomes.arena()),
        Final::Nothing => format!("nothing {told:?}"),
        Final::Ahead(border, objects) => {
            format!("ahead {border} {:?}", objects.as_ref().map(|objects| objects.root()))
        }
        Final::Image(image) => {
            let image = image.as_ref().expect("it gives its state");
            format!("image {:?} {:?}", image.objects.root(), image.system)
        }
    }
}

/// Sessions of some clients, and what they ask.
pub(crate) struct Clients {
    random: Random,
    sessions: Vec<(SessionId, u64)>,
    time: u64,
}

impl Clients {
    pub(crate) fn new(seed: u64) -> Self {
        let sessions = (0..6).map(|index| (SessionId { index, generation: 1 }, 0)).collect();
        Self { random: Random::new(seed), sessions, time: 10 }
    }

    fn below(&mut self, below: u64) -> u64 {
        self.random.next() % below
    }

    fn ask(&mut self) -> Ask {
        let at = self.below(6) as usize;
        let (session, number) = self.sessions[at];
        match self.below(40) {
            0 => open(at as u64, 1),
            1 => close(session, number + 1),
            // Again, or one too far.
            2 => commands(session, number.max(1), 0, &[&[6, 1, 2]]),
            3 => commands(session, number + 2, 0, &[&[6, 1, 3]]),
            4 => {
                self.sessions[at].1 += 1;
                query(session, number + 1, number, &[3])
            }
            5 => {
                // The session that takes a closed one's cell.
                self.sessions[at] = (SessionId { generation: session.generation + 1, ..session }, 0);
                open(at as u64 + 10, self.time)
            }
            _ => {
                self.sessions[at].1 += 1;
                let count = 1 + self.below(3);
                let list: Vec<[u8; 3]> = (0..count)
                    .map(|_| self.random.next().to_le_bytes()[..3].try_into().expect("three"))
                    .collect();
                let list: Vec<&[u8]> = list.iter().map(|command| &command[..]).collect();
                commands(session, number + 1, number.saturating_sub(self.below(3)), &list)
            }
        }
    }

    pub(crate) fn step(&mut self, number: &mut u64) -> Step {
        self.time += self.below(60);
        let what = self.below(20);
        if *number > 0 && what < 3 {
            return match what {
                0 => Step::Border,
                1 => Step::Ahead,
                _ => {
                    *number += 2;
                    Step::Pass(*number)
                }
            };
        }
        *number += 1;
        let asks: Vec<Ask> = match *number {
            1 => (0..6).map(|client| open(client, 1)).collect(),
            _ => (0..self.below(14)).map(|_| self.ask()).collect(),
        };
        let members = self.below(15) == 0;
        Step::Batch(*number, batch(self.time, *number * 7, &asks), members)
    }
}

/// What is delivered next.
pub(crate) enum Step {
    /// A batch, perhaps with a change of the membership at its end.
    Batch(u64, Batch, bool),
    Pass(u64),
    Ahead,
    Border,
}

/// Where a batch was decided: by an instance that left out slots before.
pub(crate) fn place(number: u64) -> (InstanceId, Slot) {
    (InstanceId::new(3), Slot::new(number + 7))
}

pub(crate) fn deliver(stage: &mut (dyn Execution + 'static), step: &Step) {
    match step {
        Step::Batch(number, batch, members) => {
            stage.batch_of(seq(*number), place(*number), batch.clone());
            if *members {
                let (number, replicas) = (MembershipId::new(*number), vec![ReplicaId::new(1)]);
                stage.deliver(Ordered::Members(MembershipNow { number, replicas }));
            }
        }
        Step::Pass(number) => stage.pass(seq(*number)),
        Step::Ahead => stage.deliver(Ordered::Ahead(3)),
        Step::Border => stage.deliver(Ordered::Border),
    }
}

/// Everything that is final by now.
pub(crate) fn finals(stage: &mut dyn Execution, all: &mut Vec<String>) {
    let mut outcomes = Outcomes::new();
    while let Some(done) = stage.next(Time::ZERO, &mut outcomes) {
        all.push(seen(&done, &mut outcomes));
    }
}

/// Workers that take and answer in any order, and sometimes do not do what they were given.
#[derive(Default)]
pub(crate) struct Workers {
    given: Vec<Work>,
    answers: Vec<Worked>,
}

impl Workers {
    pub(crate) fn turn(&mut self, stage: &mut dyn Execution, random: &mut Random, watch: &mut Says) {
        self.given.extend(std::iter::from_fn(|| stage.work()));
        for _ in 0..random.next() % 6 {
            let (given, answers) = (self.given.len() as u64, self.answers.len() as u64);
            if given > 0 && random.next().is_multiple_of(2) {
                let work = self.given.swap_remove((random.next() % given) as usize);
                let is_lost = random.next().is_multiple_of(12);
                self.answers.push(if is_lost { work.undone() } else { work.run(watch) });
            } else if answers > 0 {
                stage.worked(self.answers.swap_remove((random.next() % answers) as usize));
            }
            self.given.extend(std::iter::from_fn(|| stage.work()));
            stage.invariants();
        }
    }
}

/// One history under both executions. Gives the numbers of the parallel one.
fn play(seed: u64, hints: Hints) -> Parallelism {
    let mut random = Random::new(seed ^ 0x5eed);
    let mut clients = Clients::new(seed);
    let mut one = Sequential::new(executor(hints));
    // Long requests; and in every fourth history sometimes short ones, so that they change their place.
    let long = 100_000;
    let measured = if seed.is_multiple_of(4) { 1000 } else { long };
    let ahead = if seed % 3 == 1 { Ahead { limits: TIGHT, ..AHEAD } } else { AHEAD };
    let mut other =
        InOrder::new(executor(hints), ahead, Box::new(Says(0, measured))).ok().expect("it is parallel");
    let (mut number, mut expected, mut found) = (0, Vec::new(), Vec::new());
    let mut workers = Workers::default();
    for at in 0..60 {
        let step = clients.step(&mut number);
        deliver(&mut one, &step);
        deliver(&mut other, &step);
        finals(&mut one, &mut expected);
        let mut watch = Says(0, if at % 20 < 15 { long } else { 10 });
        for _ in 0..random.next() % 4 {
            workers.turn(&mut other, &mut random, &mut watch);
            finals(&mut other, &mut found);
        }
        if seed % 8 == 5 && at == 30 {
            // Another state takes the place of what was under way.
            let image = one.state_mut().image().expect("it gives its state");
            other.restore(&image.system, &image.objects).expect("its own");
            found.clone_from(&expected);
            drop(other.state_mut().take_events());
        }
    }
    for _ in 0..10_000 {
        if !other.is_behind() {
            break;
        }
        workers.turn(&mut other, &mut random, &mut Says(0, long));
        finals(&mut other, &mut found);
    }
    assert!(!other.is_behind(), "seed {seed}: something is never final");
    for (at, (expected, found)) in expected.iter().zip(&found).enumerate() {
        assert_eq!(expected, found, "seed {seed} {hints:?}: number {at}");
    }
    assert_eq!(expected.len(), found.len(), "seed {seed} {hints:?}");
    let image = |stage: &mut dyn Execution| {
        let image = stage.state_mut().image().expect("it gives its state");
        (image.system, image.objects.root())
    };
    assert!(image(&mut one) == image(&mut other), "seed {seed} {hints:?}: another state");
    other.parallelism().expect("it is parallel")
}

const HINTS: [Hints; 5] = [Hints::Right, Hints::Wrong(5), Hints::Wrong(60), Hints::Nothing, Hints::Same];

#[test]
fn whatever_workers_do_it_is_as_one_after_the_other() {
    histories(std::env::var("QUORATE_SEEDS").ok().and_then(|count| count.parse().ok()).unwrap_or(150));
}

/// So many histories with each kind of hints.
pub(crate) fn histories(seeds: u64) {
    let (mut adopted, mut void) = (0, 0);
    for hints in HINTS {
        let mut all = Parallelism::default();
        for seed in 0..seeds {
            let one = play(seed, hints);
            (all.adopted, all.void, all.runs) =
                (all.adopted + one.adopted, all.void + one.void, all.runs + one.runs);
        }
        println!("{hints:?}: {all:?}");
        (adopted, void) = (adopted + all.adopted, void + all.void);
    }
    assert!(adopted > 1000 && void > 1000, "{adopted} results counted, {void} did not");
}

/// Six sessions, and a batch in which each asks once for these commands; all are long.
fn asked(hints: Hints, list: [[u8; 3]; 6]) -> InOrder {
    asked_with(AHEAD, hints, list)
}

fn asked_with(ahead: Ahead, hints: Hints, list: [[u8; 3]; 6]) -> InOrder {
    let limits = SessionLimits::default();
    let service = Box::new(InStore::new(Parallel::new(Cells { hints })));
    let mut stage =
        InOrder::new(Executor::new(service, limits, AgreedTime::ZERO), ahead, Box::new(Says(0, 1_000_000)))
            .ok()
            .expect("it is parallel");
    let session = |index: u32| SessionId { index, generation: 1 };
    let whole: &mut (dyn Execution + 'static) = &mut stage;
    whole.batch(seq(1), batch(10, 1, &(0..6).map(|client| open(client, 1)).collect::<Vec<_>>()));
    let first: Vec<Ask> = (0..6).map(|at| commands(session(at), 1, 1, &[&[2, at as u8, 0]])).collect();
    whole.batch(seq(2), batch(20, 2, &first));
    let mut all = Vec::new();
    finals(whole, &mut all);
    assert_eq!(all.len(), 2, "at first all run on the lane");
    let asks: Vec<Ask> =
        (0..).zip(list).map(|(at, command)| commands(session(at), 2, 2, &[&command])).collect();
    whole.batch(seq(3), batch(30, 3, &asks));
    finals(whole, &mut all);
    assert_eq!(all.len(), 2, "then they wait for workers");
    stage
}

/// Lets workers run what is given out, in one go, until all is final. Gives how many requests ran side by side.
fn sizes(stage: &mut InOrder) -> Vec<usize> {
    let (mut sizes, mut all) = (Vec::new(), Vec::new());
    while stage.is_behind() {
        let mut work = Vec::new();
        work.extend(std::iter::from_fn(|| stage.work()));
        sizes.push(work.iter().map(Work::len).sum());
        work.iter().for_each(|work| stage.worked(work.run(&mut Says(0, 100_000))));
        finals(stage, &mut all);
        stage.invariants();
    }
    sizes
}

#[test]
fn who_shares_no_key_runs_side_by_side() {
    let mut stage = asked(Hints::Right, [[0, 1, 1], [0, 2, 1], [0, 3, 1], [2, 4, 1], [2, 4, 1], [3, 5, 1]]);
    assert_eq!(sizes(&mut stage), [6]);
    assert_eq!(stage.parallelism().map(|p| (p.runs, p.void, p.adopted)), Some((6, 0, 6)));
}

#[test]
fn who_shares_a_key_waits_for_the_writer_before() {
    // Three in a row write one key; two others read the one after.
    let mut stage = asked(Hints::Right, [[0, 1, 1], [0, 1, 2], [2, 9, 0], [0, 1, 3], [2, 1, 0], [2, 1, 0]]);
    assert_eq!(sizes(&mut stage), [2, 1, 1, 2]);
    assert_eq!(stage.parallelism().map(|p| (p.runs, p.void, p.adopted)), Some((6, 0, 6)));
}

/// Nothing is known of their keys: they run at once, and what read too early runs again, with what was written before.
#[test]
fn who_read_too_early_runs_again() {
    let mut stage = asked(Hints::Nothing, [[7, 1, 1], [7, 1, 2], [7, 1, 3], [0, 2, 9], [2, 3, 0], [2, 3, 0]]);
    assert_eq!(sizes(&mut stage), [6, 2, 1]);
    assert_eq!(stage.parallelism().map(|p| (p.runs, p.void, p.adopted)), Some((9, 3, 6)));
}

/// A blind write depends on nothing.
#[test]
fn who_only_writes_never_runs_again() {
    let mut stage = asked(Hints::Nothing, [[1, 1, 1], [1, 1, 2], [1, 1, 3], [1, 1, 4], [1, 1, 5], [1, 1, 6]]);
    assert_eq!(sizes(&mut stage), [6]);
    let mut value = Vec::new();
    stage.state().query(&[1], &mut value).expect("a short answer");
    assert_eq!(value, [1, 6], "the last one's");
}

/// Who is given up by the workers runs on the lane at its turn.
#[test]
fn what_nobody_ran_runs_on_the_lane() {
    let mut stage = asked(Hints::Right, [[0, 1, 1], [7, 1, 2], [2, 1, 0], [0, 4, 1], [0, 5, 1], [0, 6, 1]]);
    let (mut work, mut all) = (Vec::new(), Vec::new());
    while stage.is_behind() {
        work.extend(std::iter::from_fn(|| stage.work()));
        work.drain(..).for_each(|work| stage.worked(work.undone()));
        finals(&mut stage, &mut all);
    }
    assert_eq!(stage.parallelism().map(|p| p.adopted), Some(0));
}

/// A run on a view that no order gives may never end. The lane runs that command, and what the worker says afterwards counts for nothing.
#[test]
fn nobody_waits_for_ever_for_a_run_that_does_not_end() {
    let mut stage = asked(Hints::Right, [[0, 1, 1], [0, 2, 1], [7, 3, 1], [0, 3, 1], [0, 5, 1], [0, 6, 1]]);
    let (mut work, mut outcomes) = (Vec::new(), Outcomes::new());
    work.extend(std::iter::from_fn(|| stage.work()));
    // The third one does not end; the others are answered.
    let stuck = work.remove(2);
    work.drain(..).for_each(|work| stage.worked(work.run(&mut Says(0, 100_000))));
    let at = |seconds| Time::ZERO.plus(Span::from_secs(seconds));
    assert!(stage.next(at(1), &mut outcomes).is_none());
    assert_eq!(stage.deadline(), Some(at(11)));
    assert!(stage.next(at(10), &mut outcomes).is_none(), "it has time");
    assert!(stage.next(at(11), &mut outcomes).is_none(), "who waited for it runs now");
    work.extend(std::iter::from_fn(|| stage.work()));
    work.drain(..).for_each(|work| stage.worked(work.run(&mut Says(0, 100_000))));
    assert!(matches!(stage.next(at(11), &mut outcomes), Some(Final::Batch(_))));
    stage.worked(stuck.run(&mut Says(0, 100_000)));
    stage.invariants();
    assert!(!stage.is_behind() && stage.deadline().is_none());
    assert_eq!(
        stage.parallelism().map(|p| p.adopted),
        Some(4),
        "the stuck one, and who waited for it, ran on the lane"
    );
}

/// No worker ever answers: one request after the other runs on the lane.
#[test]
fn all_workers_may_be_lost() {
    let list = [[0, 1, 1], [0, 2, 1], [7, 3, 1], [0, 3, 1], [0, 5, 1], [0, 6, 1]];
    let mut stage = asked_with(Ahead { workers: 1, ..AHEAD }, Hints::Same, list);
    let (mut lost, mut all) = (Vec::new(), Vec::new());
    for turn in 0..20 {
        lost.extend(std::iter::from_fn(|| stage.work()));
        let (now, mut outcomes) = (Time::ZERO.plus(Span::from_secs(turn * 11)), Outcomes::new());
        while let Some(done) = stage.next(now, &mut outcomes) {
            all.push(seen(&done, &mut outcomes));
        }
        stage.invariants();
    }
    assert_eq!(all.len(), 1);
    assert!(!stage.is_behind() && lost.len() == 6, "{}", lost.len());
}

/// Only a service that says so runs side by side.
#[test]
fn others_are_not_taken() {
    let executor = Executor::new(Box::<crate::support::Echo>::default(), limits(), AgreedTime::ZERO);
    assert!(InOrder::new(executor, AHEAD, Box::new(Says(0, 1))).is_err());
}
