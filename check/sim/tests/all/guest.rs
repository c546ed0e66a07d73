//! A service of somebody else's in a simulated cluster: a counter, with a front at each replica.

use bytes::Bytes;
use quorate_execute::{Context, ParallelService, ReplySink, StateView};
use quorate_sim::campaign::run_guest;
use quorate_sim::checks::Failure;
use quorate_sim::guest::{Front, Guest, Hosted};
use quorate_sim::{Level, Plan, Profile};
use std::sync::{Arc, Mutex};

const COUNT: &[u8] = b"\0count";
/// So many times each front counts on.
const TIMES: u64 = 20;

/// Counts on with each command, by one. What it answers is the count; with `lies`, replicas answer differently.
struct Counter {
    who: usize,
    lies: bool,
}

fn count(view: &StateView<'_>) -> u64 {
    view.get(COUNT).and_then(|bytes| bytes.first_chunk().copied()).map_or(0, u64::from_le_bytes)
}

impl ParallelService for Counter {
    fn execute(&self, view: &mut StateView<'_>, _: &[u8], _: &Context, reply: &mut ReplySink<'_>) {
        let count = count(view) + 1;
        view.set(COUNT, &count.to_le_bytes());
        reply.write(&count.to_le_bytes());
        if self.lies {
            reply.write(&[self.who as u8]);
        }
    }

    fn query(&self, view: &StateView<'_>, _: &[u8], _: &Context, reply: &mut ReplySink<'_>) {
        reply.write(&count(view).to_le_bytes());
    }
}

/// What a front sent, and what it was told.
#[derive(Clone, Copy, Default)]
struct Told {
    asked: u64,
    acknowledged: u64,
    seen: u64,
}

/// Fronts that count, and in the end ask how far it is.
#[derive(Default)]
struct Counting {
    fronts: Vec<Told>,
    lies: bool,
    /// How many were acknowledged when it asked how far it is.
    asked: Option<u64>,
    /// The answer to that.
    end: Arc<Mutex<Option<u64>>>,
    is_calm: bool,
}

fn number(answer: &[u8]) -> u64 {
    answer.first_chunk().copied().map_or(0, u64::from_le_bytes)
}

impl Guest for Counting {
    fn service(&mut self, who: usize) -> Hosted {
        Hosted::Beside(Arc::new(Counter { who, lies: self.lies }))
    }

    fn carriers(&self, replicas: usize) -> usize {
        replicas
    }

    fn dies(&mut self, _: usize) {}

    fn acts(&mut self, _: u64, fronts: &[Front]) {
        self.fronts.resize(fronts.len(), Told::default());
        for state in fronts.iter().filter_map(|front| front.newest.as_ref()) {
            let shown = state.objects.get(COUNT).map_or(0, number);
            let sent: u64 = self.fronts.iter().map(|front| front.asked).sum();
            assert!(shown <= sent, "{shown} of {sent} are published");
        }
    }

    fn commands(&mut self, carrier: usize) -> Vec<Bytes> {
        let front = &mut self.fronts[carrier];
        if front.asked == TIMES {
            return Vec::new();
        }
        front.asked += 1;
        vec![Bytes::from_static(b"on")]
    }

    fn queries(&mut self, carrier: usize) -> Vec<(u64, Bytes)> {
        if !self.is_calm || carrier > 0 || self.asked.is_some() {
            return Vec::new();
        }
        self.asked = Some(self.fronts.iter().map(|front| front.acknowledged).sum());
        vec![(7, Bytes::from_static(b"how many"))]
    }

    fn replied(&mut self, carrier: usize, replies: Vec<Option<Bytes>>) {
        let front = &mut self.fronts[carrier];
        for reply in replies.into_iter().flatten() {
            assert!(number(&reply) > front.seen, "the count goes on");
            (front.acknowledged, front.seen) = (front.acknowledged + 1, number(&reply));
        }
    }

    fn answered(&mut self, _: usize, name: u64, answer: Option<Bytes>) {
        assert_eq!(name, 7);
        let Some(answer) = answer else {
            self.asked = None;
            return;
        };
        let sent = self.fronts.iter().map(|front| front.asked).sum();
        let least = self.asked.expect("it asked");
        assert!((least..=sent).contains(&number(&answer)), "{} of {least} to {sent}", number(&answer));
        *self.end.lock().expect("nobody panicked") = Some(number(&answer));
    }

    fn calms_down(&mut self) {
        self.is_calm = true;
    }

    fn is_over(&self) -> bool {
        let all = self.fronts.iter().all(|front| front.asked == TIMES);
        all && self.end.lock().expect("nobody panicked").is_some()
    }
}

fn run(seed: u64, profile: &Profile, lies: bool) -> (Option<Failure>, Option<u64>) {
    let guest = Counting { lies, ..Counting::default() };
    let end = guest.end.clone();
    let plan = Plan::with_guest(seed, profile, &guest);
    let (report, _) = run_guest(plan, Box::new(guest), Level::Hash);
    let end = *end.lock().expect("nobody panicked");
    (report.failure, end)
}

#[test]
fn a_guest_counts_whatever_happens() {
    for instances in [1, 3] {
        let profile = Profile { replicas: Some(3), instances: Some(instances), ..Profile::default() };
        for seed in 1..=15 {
            let (failure, end) = run(seed, &profile, false);
            assert!(failure.is_none(), "seed {seed}: {failure:?}");
            assert!(end.is_some(), "seed {seed}: it was asked");
        }
    }
}

#[test]
fn runs_with_a_guest_are_the_same_each_time() {
    let profile = Profile { replicas: Some(3), ..Profile::default() };
    let plan = || Plan::with_guest(5, &profile, &Counting::default());
    let hash = || run_guest(plan(), Box::new(Counting::default()), Level::Hash).0.hash;
    assert_eq!(hash(), hash());
}

#[test]
fn a_guest_that_answers_differently_on_each_replica_is_found() {
    let profile = Profile { replicas: Some(3), ..Profile::default() };
    let (failure, _) = run(1, &profile, true);
    assert_eq!(failure.map(|failure| failure.checker), Some("agreement"));
}
