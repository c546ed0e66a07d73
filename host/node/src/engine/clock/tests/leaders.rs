//! Several leaders and one global log, with clocks that are right. Replicas start again, are cut off, and execute late. From one executed
//! batch to a later one, agreed time grows by at most the real time that passed plus the time by which leaders may be apart.

use super::{Clock, Rule};
use quorate_execute::{
    CheckpointError, CheckpointSink, CheckpointSource, Context, Executor, LEADERS_APART, Outcomes, ReplySink,
    Service, SessionLimits,
};
use quorate_types::{AgreedTime, Random, Span, Time};
use quorate_wire::{Batch, BatchHeader};

const LEADERS: usize = 3;
const RULE: Rule =
    Rule { liars: false, many: true, patience: Span::from_millis(400), off: Span::from_secs(10) };

struct Nothing;

impl Service for Nothing {
    fn execute(&mut self, _: &[u8], _: &Context, _: &mut ReplySink<'_>) {}
    fn query(&self, _: &[u8], _: &Context, _: &mut ReplySink<'_>) {}
    fn checkpoint(&self, _: &mut dyn CheckpointSink) -> Result<(), CheckpointError> {
        Ok(())
    }
    fn restore(&mut self, _: &mut dyn CheckpointSource) -> Result<(), CheckpointError> {
        Ok(())
    }
}

#[derive(Clone, Copy)]
struct Leader {
    clock: Clock,
    /// How many batches of the global log the replica executed.
    executed: usize,
}

struct World {
    random: Random,
    now: Time,
    leaders: Vec<Leader>,
    /// The batches that each replica proposed, and when.
    proposed: Vec<Vec<(BatchHeader, Time)>>,
    executor: Executor,
    /// The agreed time of each batch of the global log.
    times: Vec<AgreedTime>,
    /// The least difference between a batch's agreed time and the moment at which it was proposed.
    least: i128,
    /// The greatest difference between a batch's agreed time and the moment at which it was first executed.
    ahead: i128,
}

/// A clock that knows the leader of the first instance.
fn started(agreed: AgreedTime, now: Time) -> Clock {
    let mut clock = Clock::new(agreed, now);
    clock.led(now, true, RULE);
    clock
}

impl World {
    fn new(seed: u64) -> Self {
        let mut executor = Executor::new(Box::new(Nothing), SessionLimits::default(), AgreedTime::ZERO);
        executor.set_leaders(true, false);
        let leader = || Leader { clock: started(AgreedTime::ZERO, Time::ZERO), executed: 0 };
        Self {
            random: Random::new(seed),
            now: Time::ZERO,
            leaders: (0..LEADERS).map(|_| leader()).collect(),
            proposed: vec![vec![]; LEADERS],
            executor,
            times: vec![],
            least: 0,
            ahead: 0,
        }
    }

    fn known(&self, executed: usize) -> AgreedTime {
        executed.checked_sub(1).map_or(AgreedTime::ZERO, |last| self.times[last])
    }

    fn propose(&mut self, who: usize) {
        let Leader { clock, executed } = self.leaders[who];
        let (time, base) = (clock.read(self.now), Some(self.known(executed)));
        self.proposed[who].push((BatchHeader { time, base, ..BatchHeader::default() }, self.now));
    }

    fn execute(&mut self, who: usize) {
        let at = self.leaders[who].executed;
        if at == self.times.len() && !self.execute_first() {
            return;
        }
        let leader = &mut self.leaders[who];
        leader.executed += 1;
        leader.clock.executed(self.now, self.times[at], RULE);
    }

    /// The next batch of the global log, if it was proposed: leaders take turns.
    fn execute_first(&mut self) -> bool {
        let (slot, of) = (self.times.len() / LEADERS, self.times.len() % LEADERS);
        let Some((header, proposed)) = self.proposed[of].get(slot).copied() else { return false };
        let mut bytes = vec![];
        Batch::begin(&mut bytes);
        let seq = self.executor.seq().next();
        self.executor.execute(seq, &Batch::seal(bytes, header), &mut Outcomes::new());
        let time = self.executor.time();
        self.times.push(time);
        let over = i128::from(time.nanos()) - i128::from(self.now.nanos()) - self.least;
        self.ahead = self.ahead.max(over);
        self.least = self.least.min(i128::from(time.nanos()) - i128::from(proposed.nanos()));
        true
    }

    fn step(&mut self) {
        let who = self.random.below(LEADERS as u64) as usize;
        match self.random.below(100) {
            0 => self.now = self.now.plus(Span::from_millis(self.random.below(20_000))),
            1..20 => self.now = self.now.plus(Span::from_millis(self.random.below(300))),
            20..22 => {
                let known = self.known(self.leaders[who].executed);
                self.leaders[who].clock = started(known, self.now);
            }
            22 => {
                let known = self.random.below(10) < 7;
                self.leaders[who].clock.led(self.now, known, RULE);
            }
            23..50 => self.propose(who),
            _ => self.execute(who),
        }
    }
}

#[test]
fn several_leaders_never_catch_up_with_real_time() {
    let (mut most, mut batches) = (0, 0);
    for seed in 0..300 {
        let mut world = World::new(seed);
        (0..2_000).for_each(|_| world.step());
        assert!(world.ahead <= i128::from(LEADERS_APART.nanos()) + 1_000, "seed {seed}: {}", world.ahead);
        (most, batches) = (most.max(world.ahead), batches + world.times.len());
    }
    assert!(most > i128::from(LEADERS_APART.nanos()) / 2, "the bound is for something: {most}");
    assert!(batches > 10_000, "{batches}");
}
