//! Members that lie in every way, and say the same lies, beside honest ones that are slow, full, cut off and down, while members come and go:
//! every call ends once, with what the honest ones did, or with an error that tells the truth.

mod many;

use many::world::{REPLICAS, World};
use many::{Plain, config, list};
use proptest::prelude::*;
use quorate_client::{CallId, Completion, Error, Input, Macs, ReadConsistency, SessionHandle};
use quorate_types::{Seq, Span};
use std::collections::BTreeMap;
use std::sync::Arc;

struct Run {
    world: World,
    sessions: Vec<SessionHandle>,
    asked: BTreeMap<u64, (usize, Vec<u8>)>,
    /// Reads, with how many commands had run for sure when they were asked.
    reads: BTreeMap<u64, usize>,
    next_call: u64,
}

#[derive(Clone, Copy, Default)]
struct Plan {
    deadlines: bool,
    expiry: bool,
    changes: bool,
}

impl Run {
    fn new(seed: u64, replicas: usize) -> Self {
        let mut config = config(seed);
        config.window = 8;
        config.ordered_reads = seed.is_multiple_of(3);
        config.resend_after = Span::from_millis(700);
        config.connection_bytes_max = 20_000;
        config.frame_bytes_max = 12_000;
        if seed.is_multiple_of(2) {
            config.macs = Some(Macs(Arc::new(Plain)));
            config.leader_first = Some(Span::from_millis(20));
            config.keys_last = Span::from_millis(100);
        }
        let mut world = World::new(replicas, config);
        let sessions = (0..3).map(|index| world.opened_session(1_000_000 + index)).collect();
        Self { world, sessions, asked: BTreeMap::new(), reads: BTreeMap::new(), next_call: 1 }
    }

    /// So many commands had run when the calls that ended by now ended well.
    fn known(&self) -> usize {
        let well = self.world.done.iter().filter(|(_, result)| result.is_ok());
        well.map(|(call, _)| self.position(*call)).max().unwrap_or(0)
    }

    /// What a call that ended well shows to have run.
    fn position(&self, call: CallId) -> usize {
        let place = |body: &[u8]| u64::from_le_bytes(*body.first_chunk().expect("a place")) as usize;
        match &self.world.done[&call] {
            Ok(Completion::Replies(body)) => {
                place(quorate_types::Items::parse(body).expect("a list").bytes()) + 1
            }
            Ok(Completion::Read { body, .. }) => place(body),
            _ => 0,
        }
    }

    fn ask(&mut self, plan: Plan) {
        for _ in 0..1 + self.world.random.below(5) {
            let call = self.next_call;
            self.next_call += 1;
            let late = plan.deadlines && self.world.random.below(100) < 30;
            let millis = self.world.random.below(30);
            let deadline = late.then(|| self.world.now.plus(Span::from_millis(millis)));
            if self.world.random.below(100) < 30 {
                self.reads.insert(call, self.known());
                self.world.input(Input::Read {
                    call: CallId(call),
                    reader: 0,
                    consistency: ReadConsistency::Strong,
                    after: Seq::ZERO,
                    replica: None,
                    query: b"q".as_slice().into(),
                    deadline,
                });
                continue;
            }
            let which = self.world.random.below(self.sessions.len() as u64) as usize;
            let mut command = call.to_le_bytes().to_vec();
            command.resize(if self.world.random.below(100) < 10 { 5000 } else { 8 }, 7);
            self.world.call(call, self.sessions[which], &command, deadline);
            self.asked.insert(call, (which, command));
        }
    }

    fn fault(&mut self, plan: Plan) {
        let replica = self.world.random.below(REPLICAS as u64) as usize;
        match self.world.random.below(10) {
            0..=1 => self.world.crash(replica),
            2..=4 => self.world.cut(replica),
            5 => self.world.overload_percent = self.world.random.below(60),
            6 => self.world.full = !self.world.full,
            7 if plan.expiry => {
                let which = self.world.random.below(100) as usize;
                self.world.expire(which);
            }
            _ => self.heal(),
        }
    }

    fn heal(&mut self) {
        self.world.down.clear();
        self.world.overload_percent = 0;
        self.world.full = false;
    }

    fn check(&self) {
        let mut replies: BTreeMap<&[u8], &[u8]> = BTreeMap::new();
        let mut last = BTreeMap::new();
        for (command, reply) in &self.world.ran {
            assert!(replies.insert(command, reply).is_none(), "a command ran twice");
            let call = u64::from_le_bytes(*command.first_chunk().expect("a number"));
            let before = last.insert(self.asked[&call].0, call);
            assert!(before < Some(call), "commands of a session run in order");
        }
        for (call, (_, command)) in &self.asked {
            let reply = replies.get(&command[..]);
            match self.world.done.get(&CallId(*call)) {
                Some(Ok(Completion::Replies(body))) => {
                    assert_eq!(
                        Some(&body[..]),
                        reply.map(|reply| list(&[reply])).as_deref(),
                        "what ran is told"
                    );
                }
                Some(Err(error)) if !error.is_outcome_unknown() => {
                    assert!(reply.is_none(), "known not to have run: {error}");
                }
                Some(Err(_)) => {}
                other => panic!("call {call} ended as {other:?}"),
            }
        }
        for (call, known) in &self.reads {
            match self.world.done.get(&CallId(*call)) {
                Some(Ok(Completion::Read { seq, .. })) => {
                    let saw = self.position(CallId(*call));
                    assert!((*known..=self.world.ran_at_end[&CallId(*call)]).contains(&saw), "linearizable");
                    assert!(seq.number() < 1 << 40, "no liar's position");
                }
                Some(Err(error)) => assert!(!error.is_outcome_unknown(), "{error}"),
                other => panic!("read {call} ended as {other:?}"),
            }
        }
    }
}

fn lies(seed: u64, replicas: usize, plan: Plan) {
    let mut run = Run::new(seed, replicas);
    for _ in 0..30 {
        run.ask(plan);
        if run.world.random.below(100) < 40 {
            run.fault(plan);
        }
        if plan.changes && run.world.random.below(100) < 30 {
            run.world.change();
        }
        let millis = run.world.random.below(80);
        run.world.run_for(Span::from_millis(millis));
    }
    run.heal();
    let calls: Vec<CallId> = run.asked.keys().chain(run.reads.keys()).map(|call| CallId(*call)).collect();
    run.world.run_until(|world| calls.iter().all(|call| world.done.contains_key(call)));
    run.check();
    let errors: Vec<&Error> = run.world.done.values().filter_map(|result| result.as_ref().err()).collect();
    if !plan.deadlines && !plan.expiry {
        assert!(errors.is_empty(), "without deadlines every call succeeds: {errors:?}");
    } else if !plan.deadlines {
        let expired = |error: &&Error| matches!(error, Error::SessionExpired { .. });
        assert!(errors.iter().all(expired), "no liar's word ends a call: {errors:?}");
        let reads = run.reads.keys().map(|call| &run.world.done[&CallId(*call)]);
        assert!(reads.into_iter().all(Result::is_ok), "no read is told of its session's end");
    }
    run.world.run_until(World::is_followed);
    // What was given up still uses its number: the queues drain.
    run.world.run_until(|world| world.client.waiting() == (0, 0));
    run.check();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, max_shrink_iters: 0, ..ProptestConfig::default() })]

    #[test]
    fn every_call_ends_with_what_the_honest_did(seed in any::<u64>(), seven in any::<bool>()) {
        lies(seed, if seven { 7 } else { 4 }, Plan::default());
    }

    #[test]
    fn errors_tell_the_truth(seed in any::<u64>(), seven in any::<bool>()) {
        lies(seed, if seven { 7 } else { 4 }, Plan { deadlines: true, expiry: true, changes: false });
    }

    #[test]
    fn sessions_end_only_when_they_ended(seed in any::<u64>(), seven in any::<bool>()) {
        lies(seed, if seven { 7 } else { 4 }, Plan { expiry: true, ..Plan::default() });
    }

    #[test]
    fn calls_go_on_while_members_come_and_go(seed in any::<u64>(), seven in any::<bool>()) {
        lies(seed, if seven { 7 } else { 4 }, Plan { changes: true, ..Plan::default() });
    }

    #[test]
    fn errors_tell_the_truth_while_members_come_and_go(seed in any::<u64>(), seven in any::<bool>()) {
        lies(seed, if seven { 7 } else { 4 }, Plan { deadlines: true, expiry: true, changes: true });
    }
}

#[test]
fn the_same_inputs_give_the_same_run() {
    let trace = |seed| {
        let mut run = Run::new(seed, 7);
        for _ in 0..30 {
            let plan = Plan { deadlines: true, expiry: true, changes: true };
            run.ask(plan);
            run.fault(plan);
            run.world.change();
            run.world.run_for(Span::from_millis(30));
        }
        (run.world.done, run.world.ran, run.world.client.stats())
    };
    assert_eq!(trace(11), trace(11));
    assert_ne!(trace(11).1, trace(12).1);
}
