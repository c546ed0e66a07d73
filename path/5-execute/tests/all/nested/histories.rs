//! Random histories: replicas that start again, roll back, run late, or keep no future do the same as one that does none of that.

use super::asking::{BANK, POST, ask, rules};
use super::service::Step;
use super::world::{Did, Place, Replica, answer, place};
use crate::support::{close, open, query};
use quorate_execute::{NestedRequest, NestedRules, Schedule};
use quorate_types::{Digest, Random, SessionId, Span};

/// A log: what its batches hold, without or with what comes from other services.
pub(crate) struct Log {
    pub(crate) rules: NestedRules,
    pub(crate) batches: Vec<Place>,
    /// How much later each batch is than the one before, in nanoseconds.
    apart: u64,
}

const BATCHES: u64 = 8;
const TIME: u64 = 5;

fn pick(random: &mut Random, below: u64) -> u8 {
    (random.next() % below) as u8
}

/// Takes and gives back locks, and halts in between.
fn locks(random: &mut Random) -> Vec<Step> {
    let count = 1 + pick(random, 6);
    let part = |_| match pick(random, 4) {
        0 => vec![Step::Unlock(pick(random, 3))],
        1 => vec![Step::Ask(BANK), Step::Answer],
        _ => vec![Step::Lock(pick(random, 3)), Step::Add(0)],
    };
    (0..count).flat_map(part).collect()
}

fn program(random: &mut Random) -> Vec<Step> {
    if pick(random, 3) == 0 {
        return locks(random);
    }
    let count = 1 + pick(random, 9);
    let mut steps: Vec<Step> = (0..count)
        .map(|_| match pick(random, 24) {
            0..=2 => Step::Get(pick(random, 4)),
            3 => Step::All,
            4 | 5 => Step::Put(pick(random, 4)),
            6..=8 => Step::Add(pick(random, 4)),
            9 => Step::Remove(pick(random, 4)),
            10..=12 => Step::Lock(pick(random, 3)),
            13 => Step::Unlock(pick(random, 3)),
            14..=18 => Step::Ask(if pick(random, 3) == 0 { POST } else { BANK }),
            19..=22 => Step::Answer,
            _ => {
                if pick(random, 4) == 0 {
                    Step::Panic
                } else {
                    Step::Sleep
                }
            }
        })
        .collect();
    if pick(random, 2) == 0 {
        steps.push(Step::Answer);
    }
    steps
}

impl Log {
    /// A random log, whose batches are so far apart. The first one opens sessions.
    pub(crate) fn random(rules: &NestedRules, seed: u64, apart: u64) -> Self {
        let mut random = Random::new(seed);
        let clients = 2 + random.next() % 5;
        let openings: Vec<_> = (1..=clients).map(|client| open(client, 1)).collect();
        let first = place(TIME, &openings, vec![]);
        let sessions: Vec<SessionId> =
            Replica::new(rules).run(&first).ended.iter().map(|seen| seen.session).collect();
        let mut numbers = vec![0; sessions.len()];
        let mut all = vec![first];
        for at in 1..=BATCHES {
            let asks: Vec<_> = (0..pick(&mut random, 6))
                .map(|_| {
                    let at = usize::from(pick(&mut random, clients));
                    let repeats = numbers[at] > 0 && pick(&mut random, 8) == 0;
                    numbers[at] += u64::from(!repeats);
                    match pick(&mut random, 40) {
                        0 => close(sessions[at], numbers[at]),
                        1..=3 => query(sessions[at], numbers[at], 1, &[1]),
                        _ => ask(sessions[at], numbers[at], &program(&mut random)),
                    }
                })
                .collect();
            all.push(place(TIME + at * apart, &asks, vec![]));
        }
        Self { rules: rules.clone(), batches: all, apart }
    }

    /// The log with answers at random places, to its end.
    pub(crate) fn played(mut self, seed: u64) -> Self {
        let mut replica = Replica::new(&self.rules);
        self.batches = drained(&mut replica, &self, Some(seed), |_| {});
        self
    }
}

pub(crate) fn shuffled<T>(list: &mut [T], random: &mut Random) {
    for at in (1..list.len()).rev() {
        list.swap(at, (random.next() % (at as u64 + 1)) as usize);
    }
}

/// Runs these batches, answers what leaves, and goes on until nothing is under way. Answers come at once, or after random delays and in random
/// order, some of them twice. Gives the log.
pub(crate) fn drained(
    replica: &mut Replica,
    of: &Log,
    delays: Option<u64>,
    mut each: impl FnMut(&Did),
) -> Vec<Place> {
    let mut random = delays.map(Random::new);
    let (mut waiting, mut log): (Vec<NestedRequest>, Vec<Place>) = (Vec::new(), Vec::new());
    let batches = &of.batches;
    for at in 0.. {
        if at >= batches.len() && waiting.is_empty() && replica.executor().under_way() == 0 {
            break;
        }
        assert!(at < batches.len() + 2000, "what is under way never ends");
        let mut place =
            batches.get(at).cloned().unwrap_or_else(|| place(TIME + at as u64 * of.apart, &[], vec![]));
        let mut due = std::mem::take(&mut waiting);
        if let Some(random) = &mut random {
            shuffled(&mut due, random);
            waiting = due.split_off(usize::from(pick(random, due.len() as u64 + 1)));
            if waiting.len() > 50 {
                due.append(&mut waiting);
            }
        }
        place.arrivals.extend(due.iter().map(answer));
        if let (Some(random), Some(again)) = (&mut random, due.first())
            && pick(random, 5) == 0
        {
            place.arrivals.push(answer(again));
        }
        let did = replica.run(&place);
        each(&did);
        waiting.extend(did.left);
        log.push(place);
    }
    log
}

/// What a replica did with a log, after each place.
type Lived = Vec<(Did, (Digest, Digest))>;

fn lived(log: &Log, how: u64, seed: u64) -> Lived {
    let mut random = Random::new(seed ^ how << 32);
    let mut replica = Replica::new(&log.rules);
    if how == 1 {
        replica.executor().keep_running(0);
    }
    let mut lived = Lived::new();
    let mut ahead = 0;
    for (at, place) in log.batches.iter().enumerate() {
        match how {
            // It starts again now and then.
            2 if pick(&mut random, 3) == 0 => replica = replica.restarted(),
            // It takes batches back, and runs them again.
            3 if pick(&mut random, 2) == 0 => {
                let before = replica.image();
                replica.run(place);
                replica.roll_back(&before);
            }
            _ => {}
        }
        for report in replica.executor().take_reports() {
            assert!(!report.words.contains("awaits an answer"), "seed {seed}: {report:?}");
        }
        if how == 4 {
            // What comes later is delivered before it runs.
            while ahead < log.batches.len() && (ahead <= at || pick(&mut random, 2) == 0) {
                replica.deliver(&log.batches[ahead]);
                ahead += 1;
            }
            lived.push((replica.next(), replica.digest()));
        } else {
            lived.push((replica.run(place), replica.digest()));
        }
    }
    lived
}

/// Replicas on threads of their own live one log in different ways. All do the same, and at the end nothing is under way.
pub(crate) fn replicas_agree(seeds: std::ops::Range<u64>) {
    for seed in seeds {
        let mut random = Random::new(!seed);
        let schedule = match pick(&mut random, 3) {
            0 => Schedule::Ring(1 + u32::from(pick(&mut random, 4))),
            _ => Schedule::Answered,
        };
        let journal_bytes_max = if pick(&mut random, 4) == 0 { 4000 } else { 1 << 20 };
        // In some of them answers come too late.
        let patience = Span::from_nanos(if pick(&mut random, 2) == 0 { 20 } else { 1 << 40 });
        let rules = NestedRules { schedule, journal_bytes_max, patience, ..rules() };
        let log = Log::random(&rules, seed, 3).played(seed);
        let all: Vec<Lived> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..5)
                .map(|how| {
                    scope.spawn({
                        let log = &log;
                        move || lived(log, how, seed)
                    })
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().expect("seed: a replica")).collect()
        });
        for (how, other) in all.iter().enumerate() {
            for (at, (mine, theirs)) in all[0].iter().zip(other).enumerate() {
                assert_eq!(mine, theirs, "seed {seed}: {how} at {at}");
            }
        }
    }
}

#[test]
fn replicas_agree_however_they_live() {
    let seeds = std::env::var("QUORATE_SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(150);
    replicas_agree(0..seeds);
}
