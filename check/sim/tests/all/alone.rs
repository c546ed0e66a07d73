//! A service that is all that a simulated cluster runs: what differs between replicas is found at the first command after which it does.

use bytes::Bytes;
use quorate_execute::{
    CheckpointError, CheckpointSink, CheckpointSource, Context, ReplySink, Service, read_all,
};
use quorate_sim::campaign::run_guest;
use quorate_sim::checks::Failure;
use quorate_sim::guest::{Guest, Holds, Hosted};
use quorate_sim::{Fault, Level, Plan, Profile};

/// How many commands each carrier asks for.
const TIMES: u64 = 15;

/// What is wrong with a replica's service.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wrong {
    Nothing,
    Reply,
    State,
}

/// Adds up what commands have. The second replica's one may be wrong.
struct Sum {
    sum: u64,
    wrong: Wrong,
}

impl Service for Sum {
    fn execute(&mut self, command: &[u8], _: &Context, reply: &mut ReplySink<'_>) {
        self.sum += u64::from(command[0]) + u64::from(self.wrong == Wrong::State);
        reply.write(
            &(self.sum + u64::from(self.wrong == Wrong::Reply)).to_le_bytes()
                [..usize::from(self.wrong == Wrong::Reply)],
        );
    }

    fn query(&self, _: &[u8], _: &Context, reply: &mut ReplySink<'_>) {
        reply.write(&self.sum.to_le_bytes());
    }

    fn checkpoint(&self, out: &mut dyn CheckpointSink) -> Result<(), CheckpointError> {
        out.write(&self.sum.to_le_bytes())
    }

    fn restore(&mut self, from: &mut dyn CheckpointSource) -> Result<(), CheckpointError> {
        let bytes = read_all(from, 8)?;
        self.sum = bytes.first_chunk().copied().map(u64::from_le_bytes).ok_or(CheckpointError::CutOff)?;
        Ok(())
    }
}

/// Clients that add.
struct Adding {
    wrong: Wrong,
    /// The most that the sum may be.
    most: u64,
    left: Vec<u64>,
    open: usize,
}

impl Guest for Adding {
    fn service(&mut self, who: usize) -> Hosted {
        let wrong = if who == 1 { self.wrong } else { Wrong::Nothing };
        let most = self.most;
        let holds: Holds = Box::new(move |service, ctx| {
            let mut answer = Vec::new();
            service.query(&[], ctx, &mut ReplySink::new(&mut answer, 8));
            let sum = answer.first_chunk().copied().map_or(0, u64::from_le_bytes);
            if sum <= most { Ok(()) } else { Err(format!("the sum is {sum}")) }
        });
        Hosted::Alone(Box::new(Sum { sum: 0, wrong }), Some(holds))
    }

    fn commands(&mut self, carrier: usize) -> Vec<Bytes> {
        if self.left[carrier] == 0 {
            return Vec::new();
        }
        (self.left[carrier], self.open) = (self.left[carrier] - 1, self.open + 1);
        vec![Bytes::from_static(&[3])]
    }

    fn replied(&mut self, _: usize, _: Vec<Option<Bytes>>) {
        self.open -= 1;
    }

    fn is_over(&self) -> bool {
        self.open == 0 && self.left.iter().all(|left| *left == 0)
    }
}

fn run(seed: u64, profile: &Profile, wrong: Wrong, most: u64) -> (Option<Failure>, usize) {
    let plan = Plan::alone(seed, profile);
    assert!(!plan.faults.iter().any(|(_, fault)| matches!(fault, Fault::Corrupt { .. })));
    let guest = Adding { wrong, most, left: vec![TIMES; plan.clients], open: 0 };
    let (report, _) = run_guest(plan, Box::new(guest), Level::Hash);
    (report.failure, report.commands)
}

#[test]
fn a_service_alone_runs_whatever_happens() {
    for seed in 1..=30 {
        let (failure, commands) = run(seed, &Profile::default(), Wrong::Nothing, u64::MAX);
        assert!(failure.is_none(), "seed {seed}: {failure:?}");
        assert!(commands >= TIMES as usize, "seed {seed}: {commands}");
    }
}

#[test]
fn the_first_command_after_which_replicas_differ_is_named() {
    let profile = Profile { replicas: Some(3), ..Profile::default() };
    for (wrong, says) in [(Wrong::Reply, "command 1 of "), (Wrong::State, "after command 1 the state of ")] {
        let (failure, _) = run(4, &profile, wrong, u64::MAX);
        let failure = failure.expect("they differ");
        assert_eq!(failure.checker, "agreement", "{failure:?}");
        assert!(failure.text.starts_with(says), "{failure:?}");
    }
}

#[test]
fn what_must_hold_is_asked_after_each_command() {
    let (failure, _) = run(4, &Profile::default(), Wrong::Nothing, 10);
    let failure = failure.expect("the sum is above 10 after four commands");
    assert!(failure.checker == "invariant" && failure.text.ends_with(": the sum is 12"), "{failure:?}");
}
