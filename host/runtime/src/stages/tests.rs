use super::{Limits, Slow, SlowStatus, Stages};
use crate::clock::Clock;
use crate::logged::logged;
use quorate_execute::{
    CheckpointError, CheckpointSink, CheckpointSource, Context, Executor, Outcome, ReplySink, Service,
    SessionLimits,
};
use quorate_node::{Moment, Sealed, Witness as _};
use quorate_types::{
    AgreedTime, ClientId, InstanceId, RecordId, RequestNumber, Seq, SessionId, Span, Time, View,
};
use quorate_wire::{Batch, BatchHeader, ReplyStatus};
use serde_json::Value;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

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

/// A clock that stands at a millisecond.
#[derive(Default)]
struct Still(AtomicU64);

impl Clock for Still {
    fn now(&self) -> Time {
        at(self.0.load(Ordering::Relaxed))
    }
}

fn at(ms: u64) -> Time {
    Time::from_nanos(ms * 1_000_000)
}

/// Stages with limits in milliseconds.
struct Watched {
    clock: Arc<Still>,
    slow: Arc<Slow>,
    stages: Stages,
    executor: Executor,
}

fn watched(execution: u64, request: u64) -> Watched {
    let (clock, slow) = (Arc::new(Still::default()), Arc::new(Slow::default()));
    let limit = |ms: u64| (ms > 0).then(|| Span::from_millis(ms));
    let limits = Limits { execution: limit(execution), request: limit(request) };
    let stages = Stages::new(clock.clone(), limits, slow.clone(), "tally".into());
    let executor = Executor::new(Box::new(Nothing), SessionLimits::default(), AgreedTime::ZERO);
    Watched { clock, slow, stages, executor }
}

fn batch(seed: u64, count: u32) -> Batch {
    let mut bytes = Vec::new();
    Batch::begin(&mut bytes);
    Batch::seal(bytes, BatchHeader { seed, count, ..BatchHeader::default() })
}

impl Watched {
    fn hears(&mut self, moment: Moment<'_>) {
        self.stages.hears(moment);
    }

    /// Everything up to the replies, a batch of `count` requests that came in at 0; execution takes `ms`.
    fn passes(&mut self, seq: u64, count: u32, ms: u64) {
        let (seed, begins) = (1000 + seq, self.clock.0.load(Ordering::Relaxed));
        let time = |ms: u64| at(begins + ms);
        self.hears(Moment::Logged { seed, record: RecordId::new(seq), at: time(2), durable: false });
        self.hears(Moment::Sealed(Sealed { seed, since: time(0), at: time(2) }));
        self.hears(Moment::Decided { seed, at: time(7) });
        self.hears(Moment::Durable(RecordId::new(seq), time(8)));
        let (batch, instance) = (batch(seed, count), (InstanceId::new(1), View::new(4)));
        let seq = Seq::new(seq);
        self.hears(Moment::Delivered { seq, batch: &batch, instance, proposed: true, at: time(9) });
        self.clock.0.fetch_add(10, Ordering::Relaxed);
        self.hears(Moment::Executes);
        self.clock.0.fetch_add(ms, Ordering::Relaxed);
        let outcomes: Vec<Outcome> = (1..=count).map(|number| opening(u64::from(number))).collect();
        let stages = &mut self.stages;
        stages.hears(Moment::Executed { seq, outcomes: &outcomes, executor: &self.executor });
        self.clock.0.fetch_add(1, Ordering::Relaxed);
        self.hears(Moment::Replied);
    }
}

fn opening(number: u64) -> Outcome {
    Outcome {
        session: SessionId::NONE,
        number: RequestNumber::new(number),
        status: ReplyStatus::SessionOpened,
        body: 0..0,
        opening: Some(ClientId::new(70 + number)),
        withheld: false,
    }
}

#[test]
fn a_slow_execution_is_one_line_with_its_client() {
    let mut watched = watched(100, 0);
    let lines = logged(|| {
        watched.passes(7, 1, 99);
        watched.passes(8, 3, 100);
    });
    assert_eq!(lines.len(), 1, "{lines:?}");
    let line = &lines[0];
    assert_eq!((&line["client"], &line["number"], &line["seq"]), (&71.into(), &1.into(), &8.into()));
    assert_eq!((&line["requests"], &line["also"]), (&3.into(), &"72:2 73:3".into()), "{line}");
    assert_eq!(
        (&line["service"], &line["bytes"], &line["took_ms"]),
        (&"tally".into(), &24.into(), &100.0.into())
    );
    assert_eq!(watched.slow.status(), SlowStatus { executions: 1, requests: 0 });
}

#[test]
fn a_request_that_waits_says_in_which_stage() {
    let mut watched = watched(0, 60);
    let lines = logged(|| {
        watched.passes(7, 1, 48);
        watched.passes(8, 1, 49);
    });
    assert_eq!(lines.len(), 1, "{lines:?}");
    let line = &lines[0];
    let ms = |stage: &str| line[format!("{stage}_ms")].as_f64();
    assert_eq!(ms("took"), Some(60.0), "{line}");
    let each = ["admit", "order", "log", "merge", "execute", "reply"].map(ms);
    assert_eq!(each, [2.0, 5.0, 6.0, 2.0, 49.0, 1.0].map(Some), "{line}");
    assert_eq!((&line["longest"], &line["view"]), (&"execute".into(), &4.into()));
    assert_eq!(watched.slow.status(), SlowStatus { executions: 0, requests: 1 });
}

#[test]
fn limits_of_zero_and_batches_without_requests_write_nothing() {
    let lines = logged(|| {
        watched(0, 0).passes(1, 1, 100_000);
        watched(1, 1).passes(1, 0, 100_000);
    });
    assert!(lines.is_empty(), "{lines:?}");
}

#[test]
fn many_lines_are_cut_and_counted() {
    let mut watched = watched(1, 0);
    let lines = logged(|| {
        (1..=20).for_each(|seq| watched.passes(seq, 1, 1));
        watched.clock.0.fetch_add(1000, Ordering::Relaxed);
        watched.hears(Moment::Replied);
        watched.hears(Moment::Replied);
    });
    let counts: Vec<&Value> =
        lines.iter().map(|line| &line["left_out"]).filter(|count| !count.is_null()).collect();
    assert_eq!((lines.len(), counts), (6, vec![&Value::from(15)]), "{lines:?}");
    assert_eq!(watched.slow.status().executions, 20, "all are counted");
}

/// A leader that loses its view leaves batches behind that never get a place, and a disk that hangs finishes no record.
#[test]
fn what_is_never_done_is_bounded_and_in_nobodys_way() {
    let mut watched = watched(0, 5);
    for seed in 0..10_000 {
        watched.hears(Moment::Sealed(Sealed { seed, since: at(0), at: at(1) }));
    }
    assert_eq!(watched.stages.lives.len(), super::LIVES_MAX);
    let lines = logged(|| watched.passes(50_000, 1, 1));
    assert_eq!(lines.len(), 1, "{lines:?}");
}

/// The disk of this replica is slower than those of a majority: the line waits for it.
#[test]
fn the_line_waits_for_the_disk() {
    let mut watched = watched(0, 5);
    let (seed, seq) = (5, Seq::new(1));
    let batch = batch(seed, 1);
    let lines = logged(|| {
        watched.hears(Moment::Sealed(Sealed { seed, since: at(0), at: at(1) }));
        watched.hears(Moment::Logged { seed, record: RecordId::new(9), at: at(1), durable: false });
        watched.hears(Moment::Decided { seed, at: at(2) });
        let instance = (InstanceId::new(1), View::new(1));
        watched.hears(Moment::Delivered { seq, batch: &batch, instance, proposed: true, at: at(2) });
        watched.clock.0.store(7, Ordering::Relaxed);
        let executor = &watched.executor;
        watched.stages.hears(Moment::Executed { seq, outcomes: &[opening(1)], executor });
        watched.hears(Moment::Replied);
        watched.hears(Moment::Durable(RecordId::new(8), at(20)));
        assert_eq!(watched.slow.status().requests, 0);
        watched.hears(Moment::Durable(RecordId::new(9), at(31)));
    });
    assert_eq!((lines.len(), &lines[0]["log_ms"]), (1, &30.0.into()), "{lines:?}");
    assert!(watched.stages.lives.is_empty());
}
