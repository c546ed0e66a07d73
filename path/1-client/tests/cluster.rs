//! Random faults against a model of a cluster: whatever is lost, doubled or moved, every command runs at most once and in
//! order, every completed one exactly once, and after healing all complete.

mod common;

use common::{World, config, only_item};
use proptest::prelude::*;
use quorate_client::{CallId, Completion, Error, Input, ReadConsistency, SessionHandle};
use quorate_types::{ReplicaId, Seq, Span};
use std::collections::BTreeMap;

/// What was asked: the session's place in our list, and the command.
type Asked = BTreeMap<u64, (usize, Vec<u8>)>;

struct Run {
    world: World,
    sessions: Vec<SessionHandle>,
    asked: Asked,
    next_call: u64,
}

impl Run {
    fn new(seed: u64, sessions: usize) -> Self {
        let mut config = config(seed);
        config.window = 8;
        config.resend_after = Span::from_millis(700);
        let mut world = World::new(3, config);
        let sessions = (0..sessions as u64).map(|index| world.opened_session(1_000_000 + index)).collect();
        Self { world, sessions, asked: Asked::new(), next_call: 1 }
    }

    fn ask(&mut self, deadlines: bool) {
        let count = 1 + self.world.random.below(6);
        for _ in 0..count {
            let which = self.world.random.below(self.sessions.len() as u64) as usize;
            let call = self.next_call;
            self.next_call += 1;
            // A few are large enough to travel shared.
            let len = if self.world.random.chance(5) { 9000 } else { 8 };
            let mut command = call.to_le_bytes().to_vec();
            command.resize(len, 7);
            let deadline = (deadlines && self.world.random.chance(30))
                .then(|| self.world.in_ms(self.world.random.0 % 40));
            self.world.call(call, self.sessions[which], &command, deadline);
            self.asked.insert(call, (which, command));
        }
    }

    fn fault(&mut self) {
        let replica = self.world.random.below(3) as usize;
        match self.world.random.below(10) {
            0 => self.world.crash(replica),
            1 => self.world.cut(replica),
            2 => self.world.elect(None),
            3..=5 => self.world.elect(Some(replica)),
            6 => drop(self.world.paused.insert(replica)),
            7 => self.world.overload_percent = self.world.random.below(60),
            8 => self.world.disk_full = !self.world.disk_full,
            _ => self.heal(),
        }
    }

    fn heal(&mut self) {
        self.world.down.clear();
        // What a paused replica missed is lost here, so its connections end, as after a long pause.
        for replica in std::mem::take(&mut self.world.paused) {
            self.world.cut(replica);
        }
        self.world.overload_percent = 0;
        self.world.disk_full = false;
        let leader = self.world.random.below(3) as usize;
        self.world.elect(Some(leader));
    }

    fn check(&mut self) {
        let ids: Vec<u64> = self.world.sessions.keys().copied().collect();
        let mut ran: BTreeMap<Vec<u8>, u64> = BTreeMap::new();
        for id in ids {
            let session = &self.world.sessions[&id];
            let numbers: Vec<u64> = session
                .ran
                .iter()
                .map(|command| u64::from_le_bytes(*command.first_chunk::<8>().expect("8 bytes")))
                .collect();
            assert!(numbers.windows(2).all(|pair| pair[0] < pair[1]), "in order: {numbers:?}");
            session.ran.iter().for_each(|command| *ran.entry(command.clone()).or_default() += 1);
        }
        assert!(ran.values().all(|times| *times == 1), "a command ran twice");
        for (call, (_, command)) in &self.asked {
            match self.world.done.get(&CallId(*call)) {
                Some(Ok(Completion::Replies(body))) => {
                    assert_eq!(&only_item(body), command, "the reply is the one to this command");
                    assert!(ran.contains_key(command), "completed, so it ran");
                }
                Some(Err(error)) if !error.is_outcome_unknown() => {
                    assert!(!ran.contains_key(command), "known not to have run: {error}");
                }
                Some(Err(_)) => {}
                other => panic!("call {call} ended as {other:?}"),
            }
        }
    }
}

fn faults(seed: u64, steps: usize, deadlines: bool) {
    let mut run = Run::new(seed, 4);
    for _ in 0..steps {
        run.ask(deadlines);
        if run.world.random.chance(40) {
            run.fault();
        }
        let millis = run.world.random.below(80);
        run.world.run_for(Span::from_millis(millis));
    }
    run.heal();
    let calls: Vec<CallId> = run.asked.keys().map(|call| CallId(*call)).collect();
    run.world.run_until(|world| calls.iter().all(|call| world.done.contains_key(call)));
    run.check();
    if !deadlines {
        let errors: Vec<&Error> =
            run.world.done.values().filter_map(|result| result.as_ref().err()).collect();
        assert!(errors.is_empty(), "without deadlines every call succeeds: {errors:?}");
    }
    // What was given up still uses its number: the queues drain.
    run.world.run_until(|world| world.client.waiting() == (0, 0));
    run.check();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_call_runs_exactly_once(seed in any::<u64>()) {
        faults(seed, 40, false);
    }

    #[test]
    fn errors_tell_the_truth(seed in any::<u64>()) {
        faults(seed, 40, true);
    }

    #[test]
    fn session_reads_never_go_back(seed in any::<u64>()) {
        let mut run = Run::new(seed, 1);
        run.world.lag = [(1, 3), (2, 8)].into();
        let mut newest = 0;
        for call in 0..60 {
            run.ask(false);
            if run.world.random.chance(20) {
                let replica = run.world.random.below(3) as usize;
                run.world.cut(replica);
            }
            let call = CallId(5_000_000 + call);
            run.world.input(Input::Read {
                call,
                reader: 1,
                consistency: ReadConsistency::Session,
                after: Seq::ZERO,
                replica: None,
                query: b"q".as_slice().into(),
                deadline: None,
            });
            run.world.run_until(|world| world.done.contains_key(&call));
            let Ok(Completion::Read { seq, .. }) = &run.world.done[&call] else { panic!("no deadline, no error") };
            prop_assert!(seq.number() >= newest, "INV-CLIENT-6");
            newest = seq.number();
        }
    }
}

#[test]
fn the_same_inputs_give_the_same_run() {
    let trace = |seed| {
        let mut run = Run::new(seed, 3);
        for _ in 0..30 {
            run.ask(true);
            run.fault();
            run.world.run_for(Span::from_millis(30));
        }
        (run.world.frames.clone(), run.world.done.clone(), run.world.problems.clone())
    };
    assert_eq!(trace(11), trace(11));
    assert_ne!(trace(11).0, trace(12).0);
}

#[test]
fn redials_are_spaced_out() {
    let mut world = World::new(3, config(5));
    world.down.insert(2);
    world.run_for(Span::from_secs(20));
    let dials = world.dialed[&ReplicaId::new(3)];
    assert!((15..=60).contains(&dials), "{dials} dials in 20 s");
    assert_eq!(world.dialed[&ReplicaId::new(1)], 1);
}
