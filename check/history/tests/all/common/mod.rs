//! What the tests share: short ways to write events, a seeded generator, and a slow checker that is easy to trust.

use quorate_history::{Answer, Event, Op, Outcome};

/// A seeded generator (splitmix64).
pub(crate) struct Rng(pub u64);

impl Rng {
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % bound
    }

    pub(crate) fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    pub(crate) fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len() as u64) as usize]
    }
}

pub(crate) fn put(value: &str) -> Op {
    Op::Put { value: value.to_owned() }
}

pub(crate) fn append(value: &str) -> Op {
    Op::Append { value: value.to_owned() }
}

pub(crate) fn cas(expect: Option<&str>, value: &str) -> Op {
    Op::Cas { expect: expect.map(str::to_owned), value: value.to_owned() }
}

pub(crate) fn value(text: &str) -> Answer {
    Answer::Value(Some(text.to_owned()))
}

pub(crate) fn ok(client: u64, key: &str, op: Op, answer: Answer, call: u64, ret: u64) -> Event {
    Event { client, key: key.to_owned(), op, call, outcome: Outcome::Ok { ret, answer } }
}

pub(crate) fn unknown(client: u64, key: &str, op: Op, call: u64) -> Event {
    Event { client, key: key.to_owned(), op, call, outcome: Outcome::Unknown { ret: None } }
}

pub(crate) fn fail(client: u64, key: &str, op: Op, call: u64, ret: u64) -> Event {
    Event { client, key: key.to_owned(), op, call, outcome: Outcome::Fail { ret: Some(ret) } }
}

/// Does `op` on a key; the answer of a correct store.
pub(crate) fn apply(state: &mut Option<String>, op: &Op) -> Answer {
    match op {
        Op::Put { value } => {
            *state = Some(value.clone());
            Answer::Done
        }
        Op::Get | Op::ReadWeak => Answer::Value(state.clone()),
        Op::Delete => Answer::Flag(state.take().is_some()),
        Op::Cas { expect, value } => {
            let matches = *state == *expect;
            if matches {
                *state = Some(value.clone());
            }
            Answer::Flag(matches)
        }
        Op::Append { value } => {
            let list = state.get_or_insert_default();
            if !list.is_empty() {
                list.push(',');
            }
            list.push_str(value);
            Answer::Done
        }
        other => panic!("no semantics for {other:?}"),
    }
}

/// Tries every order that respects real time, and every choice of unknown operations that happened. All keys at once.
pub(crate) fn is_linearizable_by_force(events: &[Event]) -> bool {
    let judged: Vec<&Event> = events
        .iter()
        .filter(|event| !matches!(event.outcome, Outcome::Fail { .. }) && event.op != Op::ReadWeak)
        .collect();
    try_orders(&judged, &mut vec![false; judged.len()], &std::collections::BTreeMap::new())
}

fn try_orders(
    events: &[&Event],
    is_placed: &mut Vec<bool>,
    store: &std::collections::BTreeMap<String, Option<String>>,
) -> bool {
    let open = |is_placed: &[bool]| -> Vec<usize> { (0..events.len()).filter(|&i| !is_placed[i]).collect() };
    let left = open(is_placed);
    if left.iter().all(|&i| events[i].ok_return().is_none()) {
        return true;
    }
    for &next in &left {
        let must_wait =
            left.iter().any(|&other| events[other].ok_return().is_some_and(|ret| ret < events[next].call));
        if must_wait {
            continue;
        }
        let mut after = store.clone();
        let answer = apply(after.entry(events[next].key.clone()).or_default(), &events[next].op);
        if events[next].answer().is_some_and(|got| *got != answer) {
            continue;
        }
        is_placed[next] = true;
        let found = try_orders(events, is_placed, &after);
        is_placed[next] = false;
        if found {
            return true;
        }
    }
    false
}

/// What [`random_history`] makes.
#[derive(Clone, Copy)]
pub(crate) struct Shape {
    pub(crate) events: u64,
    pub(crate) keys: u64,
    pub(crate) values: u64,
    pub(crate) times: u64,
    /// Answers that are made up instead of computed, in percent.
    pub(crate) lies: u64,
    /// Every write has a value of its own.
    pub(crate) unique: bool,
}

/// A history of a store that takes one operation at a time, with some lies in it. Unknown operations take
/// effect at some later point, or never.
pub(crate) fn random_history(rng: &mut Rng, shape: Shape) -> Vec<Event> {
    struct Planned {
        event: Event,
        point: u64,
    }
    let names = ["a", "b", "c", "d", "e"];
    let mut planned: Vec<Planned> = Vec::new();
    for index in 0..shape.events {
        let (call, ret) = {
            let (x, y) = (rng.below(shape.times), rng.below(shape.times));
            (x.min(y), x.max(y))
        };
        let new = match shape.unique {
            true => format!("v{index}"),
            false => (*rng.pick(&names[..shape.values as usize])).to_owned(),
        };
        let old = match (rng.chance(25), shape.unique) {
            (true, _) => None,
            (_, true) => Some(format!("v{}", rng.below(shape.events))),
            (_, false) => Some((*rng.pick(&names[..shape.values as usize])).to_owned()),
        };
        let op = match rng.below(10) {
            0..=2 => Op::Put { value: new },
            3..=5 => Op::Get,
            6 => Op::Delete,
            7..=8 => Op::Cas { expect: old, value: new },
            _ => {
                if rng.chance(30) {
                    Op::ReadWeak
                } else {
                    Op::Get
                }
            }
        };
        let key = format!("k{}", rng.below(shape.keys));
        let outcome = match rng.below(10) {
            0 => Outcome::Fail { ret: Some(ret) },
            1..=2 => Outcome::Unknown { ret: rng.chance(50).then_some(ret) },
            _ => Outcome::Ok { ret, answer: Answer::Done },
        };
        let late = if matches!(outcome, Outcome::Unknown { .. }) { shape.times * 2 } else { ret + 1 };
        let point = call + rng.below(late - call);
        planned.push(Planned { event: Event { client: index, key, op, call, outcome }, point });
    }
    planned.sort_by_key(|planned| planned.point);
    let mut store = std::collections::BTreeMap::new();
    for Planned { event, .. } in &mut planned {
        if matches!(event.outcome, Outcome::Fail { .. }) {
            continue;
        }
        let mut right = apply(store.entry(event.key.clone()).or_default(), &event.op);
        if let Outcome::Ok { answer, .. } = &mut event.outcome {
            if event.op != Op::ReadWeak && rng.chance(shape.lies) {
                right = match right {
                    Answer::Flag(flag) => Answer::Flag(!flag),
                    Answer::Value(_) if rng.chance(30) => Answer::Value(None),
                    Answer::Value(_) if shape.unique => value(&format!("v{}", rng.below(shape.events))),
                    Answer::Value(_) => value(rng.pick::<&str>(&names[..shape.values as usize])),
                    Answer::Done => Answer::Done,
                };
            }
            *answer = right;
        }
    }
    planned.into_iter().map(|planned| planned.event).collect()
}

/// What a simulated store does wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bug {
    /// Nothing.
    None,
    /// Some gets are answered from a copy that is behind.
    StaleReads,
    /// A request that is sent again, since its answer was lost, is done again.
    RepeatsRetries,
    /// A cas compares first and sets later.
    CasInTwoSteps,
    /// One acknowledged write is forgotten in a crash.
    ForgetsAWrite,
}

/// How big a simulated history is.
#[derive(Clone, Copy)]
pub(crate) struct Load {
    pub(crate) clients: u64,
    pub(crate) keys: u64,
    pub(crate) per_client: u64,
    pub(crate) unknown_per_mille: u64,
}

struct Request {
    event: Event,
    ret: u64,
    is_unknown: bool,
}

/// One step of the server: it does (part of) a request.
#[derive(Clone, Copy)]
enum Step {
    Do,
    Again,
    SecondHalf,
}

/// Clients that wait for each answer before the next call, against one server. Every write has its own value.
pub(crate) fn simulate(rng: &mut Rng, load: Load, bug: Bug) -> Vec<Event> {
    let mut requests: Vec<Request> = Vec::new();
    let mut steps: Vec<(u64, usize, Step)> = Vec::new();
    for client in 0..load.clients {
        let mut now = rng.below(1000);
        for number in 0..load.per_client {
            let call = now + rng.below(300);
            let done = call + 1 + rng.below(400);
            let is_retried = rng.chance(8);
            let again = done + 1 + rng.below(2000);
            let ret = if is_retried { again } else { done } + 1 + rng.below(400);
            let is_unknown = rng.below(1000) < load.unknown_per_mille;
            now = ret;
            let new = format!("{client}.{number}");
            let op = match rng.below(10) {
                0..=3 => Op::Put { value: new },
                4..=7 => Op::Get,
                8 => Op::Cas { expect: None, value: new }, // what it expects is filled in when it arrives
                _ => Op::Delete,
            };
            let key = format!("key{}", rng.below(load.keys));
            let index = requests.len();
            let outcome = Outcome::Unknown { ret: Some(ret) };
            requests.push(Request { event: Event { client, key, op, call, outcome }, ret, is_unknown });
            // Of the unknown ones, some are done late and some never.
            match (is_unknown, rng.below(3)) {
                (false, _) | (true, 0) => steps.push((done, index, Step::Do)),
                (true, 1) => steps.push((done + rng.below(20_000), index, Step::Do)),
                (true, _) => {}
            }
            if !is_unknown && is_retried && bug == Bug::RepeatsRetries {
                steps.push((again, index, Step::Again));
            }
        }
    }
    steps.sort_by_key(|&(time, index, _)| (time, index));
    run_server(rng, requests, steps, bug)
}

fn run_server(
    rng: &mut Rng,
    mut requests: Vec<Request>,
    steps: Vec<(u64, usize, Step)>,
    bug: Bug,
) -> Vec<Event> {
    use std::collections::{BTreeMap, BTreeSet};
    let mut store: BTreeMap<String, Option<String>> = BTreeMap::new();
    let mut behind: BTreeMap<String, Option<String>> = BTreeMap::new();
    let mut queue: BTreeSet<(u64, usize, u8)> =
        steps.iter().map(|&(time, index, step)| (time, index, step as u8)).collect();
    let crash_at = queue.len() / 2;
    let mut count = 0;
    while let Some((time, index, step)) = queue.pop_first() {
        count += 1;
        let Request { event, ret, is_unknown } = &mut requests[index];
        let value = store.entry(event.key.clone()).or_default();
        let old = behind.entry(event.key.clone()).or_default();
        if let (Op::Cas { expect, .. }, 0) = (&mut event.op, step) {
            *expect = if rng.chance(60) { value.clone() } else { None };
        }
        if bug == Bug::ForgetsAWrite && count > crash_at && *value != *old && event.op == Op::Get {
            *value = old.clone();
            count = 0; // once is enough: what is left is less than half
        }
        let is_split = bug == Bug::CasInTwoSteps && step == Step::Do as u8;
        let answer = match &event.op {
            Op::Cas { expect, .. } if is_split && !*is_unknown => {
                queue.insert((time + (*ret - time) / 2, index, Step::SecondHalf as u8));
                Answer::Flag(value == expect)
            }
            Op::Cas { value: new, .. } if step == Step::SecondHalf as u8 => {
                if event.answer() == Some(&Answer::Flag(true)) {
                    *value = Some(new.clone());
                }
                continue;
            }
            Op::Get if bug == Bug::StaleReads && rng.chance(10) => Answer::Value(old.clone()),
            op => {
                let before = value.clone();
                let answer = apply(value, op);
                if before != *value {
                    *old = before;
                }
                answer
            }
        };
        if step == Step::Do as u8 && !*is_unknown {
            event.outcome = Outcome::Ok { ret: *ret, answer };
        }
    }
    requests.into_iter().map(|request| request.event).collect()
}
