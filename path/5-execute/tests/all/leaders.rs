//! Where several leaders propose: what a batch adds to the agreed time is limited, unless its leader had executed all before it; deadlines
//! and sessions end later by as much.

use crate::support::{self, empty, seq};
use quorate_execute::{
    CheckpointError, CheckpointSink, CheckpointSource, Context, Executor, LEADERS_APART, Outcomes, ReplySink,
    Service, SessionLimits,
};
use quorate_types::{AgreedTime, Span};
use quorate_wire::{Batch, BatchHeader, ReplyStatus};

const APART: u64 = LEADERS_APART.nanos();

/// A query is answered with the times at which its only deadline was reached.
#[derive(Default)]
struct Alarm {
    next: Option<AgreedTime>,
    reached: Vec<u64>,
}

impl Service for Alarm {
    fn execute(&mut self, _: &[u8], _: &Context, _: &mut ReplySink<'_>) {}
    fn query(&self, _: &[u8], _: &Context, reply: &mut ReplySink<'_>) {
        self.reached.iter().for_each(|time| reply.write(&time.to_le_bytes()));
    }
    fn checkpoint(&self, _: &mut dyn CheckpointSink) -> Result<(), CheckpointError> {
        Ok(())
    }
    fn restore(&mut self, _: &mut dyn CheckpointSource) -> Result<(), CheckpointError> {
        Ok(())
    }
    fn next_deadline(&self) -> Option<AgreedTime> {
        self.next
    }
    fn deadline_reached(&mut self, ctx: &Context) {
        self.reached.push(ctx.time().nanos());
        self.next = None;
    }
}

fn agreed(nanos: u64) -> AgreedTime {
    AgreedTime::from_nanos(nanos)
}

fn of_many(service: Alarm) -> Executor {
    let limits = SessionLimits { ttl: Span::from_secs(10), ..SessionLimits::default() };
    let mut executor = Executor::new(Box::new(service), limits, AgreedTime::ZERO);
    executor.set_leaders(true, false);
    executor
}

/// Executes an empty batch that a leader proposed at `time` when it knew `base`, and gives the agreed time.
fn after(executor: &mut Executor, time: u64, base: u64) -> u64 {
    let mut bytes = vec![];
    Batch::begin(&mut bytes);
    let header = BatchHeader { time: agreed(time), base: Some(agreed(base)), ..BatchHeader::default() };
    let batch = Batch::decode(Batch::seal(bytes, header).bytes().clone()).expect("it decodes");
    assert_eq!(batch.header(), header);
    executor.execute(executor.seq().next(), &batch, &mut Outcomes::new());
    executor.time().nanos()
}

#[test]
fn a_leader_that_knows_all_says_what_time_it_is() {
    let mut executor = of_many(Alarm::default());
    assert_eq!(after(&mut executor, 20 * APART, 0), 20 * APART);
    let now = executor.time().nanos();
    assert_eq!(after(&mut executor, 90 * APART, now), 90 * APART);
}

#[test]
fn one_that_does_not_adds_a_little_to_what_it_knew() {
    let mut executor = of_many(Alarm::default());
    let knew = after(&mut executor, 20 * APART, 0);
    let now = after(&mut executor, knew + 5, knew);
    assert_eq!(after(&mut executor, 90 * APART, knew), knew + APART, "something came between");
    assert_eq!(after(&mut executor, now + 7, now), knew + APART + 1, "each batch has a time of its own");
}

/// Else a liar could say that it knows nothing, and let time stand still.
#[test]
fn where_leaders_may_lie_what_they_say_they_knew_counts_for_nothing() {
    let mut executor = of_many(Alarm::default());
    executor.set_leaders(true, true);
    assert_eq!(after(&mut executor, 20 * APART, 0), 20 * APART);
    assert_eq!(after(&mut executor, 90 * APART, 0), 90 * APART);
    assert_eq!(after(&mut executor, 80 * APART, 90 * APART), 90 * APART, "it never goes back");
}

#[cfg(planted)]
#[test]
#[ignore = "a bug is in force in the whole process: run it alone"]
fn what_counts_in_full_is_seen() {
    quorate_types::plant(Some("time-apart"));
    let found = std::panic::catch_unwind(one_that_does_not_adds_a_little_to_what_it_knew);
    quorate_types::plant(None);
    assert!(found.is_err());
}

#[test]
fn deadlines_are_reached_later_by_what_leaders_are_apart() {
    let mut executor = of_many(Alarm { next: Some(agreed(100)), reached: vec![] });
    assert_eq!(executor.next_deadline(), Some(agreed(100 + APART)));
    for time in [100, 99 + APART, 103 + APART] {
        let now = executor.time().nanos();
        after(&mut executor, time, now);
    }
    let mut reached = vec![];
    executor.query(b"", &mut reached).expect("a short answer");
    assert_eq!(reached, 103u64.to_le_bytes());
}

#[test]
fn so_do_sessions() {
    let mut executor = of_many(Alarm::default());
    let mut out = Outcomes::new();
    executor.execute(seq(1), &support::batch(0, 0, &[support::open(1, 1)]), &mut out);
    let id = out.list()[0].session;
    let ttl = Span::from_secs(10).nanos();
    for (time, status) in
        [(ttl + APART - 5, ReplyStatus::Done), (2 * (ttl + APART), ReplyStatus::SessionExpired)]
    {
        let now = executor.time().nanos();
        after(&mut executor, time, now);
        executor.execute(executor.seq().next(), &support::batch(0, 0, &[empty(id, 1, 1)]), &mut out);
        assert_eq!(out.list()[0].status, status);
    }
}
