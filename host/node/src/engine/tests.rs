//! The engine alone: decided slots go in, outcomes, answers and time come out.

use super::*;
use crate::effects::Effect;
use crate::node::tests::Nothing;
use quorate_execute::{
    Context, InStore, Lookup, ObjectService, Parallel, ParallelService, Published, ReplySink, Sequential,
    Service, SessionLimits, StateView, Store,
};
use quorate_types::{ItemsBuilder, RequestNumber};
use quorate_wire::{
    BatchHeader, ReadConsistency, ReadRequest, ReplyStatus, RequestHeader, RequestKind, RequestProof,
    write_opening, write_read_request, write_request,
};
use std::sync::mpsc::{Sender, channel};

const ONE: InstanceId = InstanceId::new(1);
const CONN: ConnId = ConnId::FIRST;
pub(crate) const ALICE: ClientId = ClientId::new(7);
pub(crate) const SESSION: SessionId = SessionId { index: 0, generation: 1 };

fn at(millis: u64) -> Time {
    Time::ZERO.plus(Span::from_millis(millis))
}

fn engine(may_lie: bool) -> Engine {
    engine_with(may_lie, Box::new(Nothing))
}

fn engine_with(may_lie: bool, service: Box<dyn Service>) -> Engine {
    engine_for(may_lie, service, 1)
}

/// With this many instances, where replicas only crash.
pub(crate) fn engine_of(instances: u16) -> Engine {
    engine_for(false, Box::new(Nothing), instances)
}

fn engine_for(may_lie: bool, service: Box<dyn Service>, instances: u16) -> Engine {
    let config = EngineConfig {
        may_lie,
        patience: Span::from_millis(600),
        reads: ReadLimits::default(),
        start_time: AgreedTime::ZERO,
        seed: 1,
    };
    let executor = Executor::new(service, SessionLimits::default(), AgreedTime::ZERO);
    let mut engine = Engine::new(
        &config,
        Merge::new(crate::MergeConfig { window: 256, held_bytes_max: 1 << 20 }, instances).unwrap(),
        Box::new(Sequential::new(executor)),
    );
    engine.start(at(0));
    engine
}

fn batch(header: BatchHeader, requests: &[Vec<u8>]) -> Batch {
    let mut bytes = Vec::new();
    Batch::begin(&mut bytes);
    requests.iter().for_each(|request| bytes.extend_from_slice(request));
    Batch::seal(bytes, BatchHeader { count: requests.len() as u32, ..header })
}

pub(crate) fn seal(requests: &[Vec<u8>]) -> Batch {
    batch(BatchHeader::default(), requests)
}

pub(crate) fn opening() -> Vec<u8> {
    let (body, number) = (write_opening(ALICE, None), RequestNumber::FIRST);
    let header = RequestHeader {
        session: SessionId::NONE,
        number,
        lowest_unanswered: number,
        kind: RequestKind::OpenSession,
        len: body.len() as u32,
        proof: RequestProof::None,
    };
    [&header.bytes()[..], &body].concat()
}

pub(crate) fn request(number: u64) -> Vec<u8> {
    let (mut bytes, mut commands) = (Vec::new(), ItemsBuilder::new());
    commands.push(b"anything");
    write_request(&mut bytes, SESSION, RequestNumber::new(number), RequestNumber::FIRST, &commands);
    bytes
}

/// The next slot of the only instance holds these requests. Gives whether it was executed, and what is sent.
fn decide(engine: &mut Engine, now: Time, slot: u64, header: BatchHeader, requests: &[Vec<u8>]) -> usize {
    engine.decided(ONE, Slot::new(slot), batch(header, requests)).unwrap();
    let mut frames = 0;
    while let Some(delivery) = engine.next(now) {
        let Delivery::Batch { seq, instance: ONE, .. } = delivery else { panic!("{delivery:?}") };
        engine.is_under_way((seq, ONE, true), now, AgreedTime::ZERO);
        engine.learn_time(now);
        let finished = engine.finished(now);
        assert!(matches!(finished, Some(Finished::Batch { instance: ONE, proposed: true })));
        assert!(engine.finished(now).is_none() && !engine.is_behind());
        engine.reply(true, Answerers { place: 0, members: 1, answers: 1 });
        let mut out = Effects::new();
        engine.send_replies(&mut out);
        frames += out.drain().filter(|effect| matches!(effect, Effect::Send { conn: CONN, .. })).count();
    }
    frames
}

#[test]
fn what_is_decided_is_executed_once_and_answered_where_somebody_waits() {
    let mut engine = engine(false);
    assert_eq!(engine.bind((CONN, ALICE), &opening(), |_| Ok(())), Ok(()));
    let header = BatchHeader::default();
    assert_eq!(decide(&mut engine, at(1), 1, header, &[opening()]), 1);
    assert_eq!(engine.executor().client(SESSION), Some(ALICE));
    assert_eq!(engine.conn(SESSION), Some(CONN), "the opening bound its session");
    assert_eq!(decide(&mut engine, at(2), 2, header, &[request(1), request(2)]), 1);
    let statuses: Vec<ReplyStatus> = engine.outcomes().iter().map(|outcome| outcome.status).collect();
    assert_eq!(statuses, [ReplyStatus::Done; 2]);
    let forbidden = engine.bind((CONN, ClientId::new(8)), &request(3), |_| Ok(()));
    assert!(forbidden.is_err_and(|why| why.contains("uses")), "a client speaks for its own sessions only");
    assert_eq!(engine.bind((CONN, ALICE), &request(3), |_| Err("no")), Err("no".into()));
    engine.step(In::Closed(CONN));
    assert_eq!(decide(&mut engine, at(3), 3, header, &[request(3)]), 0, "nobody waits");
    let Counts { requests, batches, reads } = engine.counts();
    assert_eq!((requests, batches, reads), (4, 3, 0));
    assert_eq!(engine.executor().seq(), Seq::new(3));
    engine.invariants(true);
}

/// A client asks again after a change of leaders. Meanwhile something is executed that the earlier leader proposed: its answer leaves at once,
/// before those to earlier requests whose repeats are still on their way. They get theirs when they come.
#[test]
fn an_answer_may_overtake_those_to_repeats_that_are_still_on_their_way() {
    let mut engine = engine(false);
    let header = BatchHeader::default();
    decide(&mut engine, at(1), 1, header, &[opening()]);
    assert_eq!(decide(&mut engine, at(2), 2, header, &[request(1), request(2)]), 0, "nobody waits");
    let kept = |engine: &Engine, number| {
        matches!(engine.executor().lookup(SESSION, RequestNumber::new(number)), Lookup::Done { .. })
    };
    // The first repeat comes, and binds the session to the new connection.
    assert_eq!(engine.bind((CONN, ALICE), &request(1), |_| Ok(())), Ok(()));
    assert!(kept(&engine, 1));
    assert_eq!(decide(&mut engine, at(3), 3, header, &[request(3)]), 1, "the answer to 3 leaves");
    assert_eq!(engine.bind((CONN, ALICE), &request(2), |_| Ok(())), Ok(()));
    assert!(kept(&engine, 2), "admission answers the repeat of 2");
    // The repeat of 3 was admitted before 3 was executed: it is answered again, which clients expect.
    assert_eq!(decide(&mut engine, at(4), 4, header, &[request(3)]), 1);
    assert_eq!(engine.outcomes()[0].status, ReplyStatus::Done);
    engine.invariants(true);
}

#[test]
fn a_slot_that_does_not_follow_is_refused() {
    let mut engine = engine(false);
    let halt = engine.decided(ONE, Slot::new(2), batch(BatchHeader::default(), &[])).unwrap_err();
    assert!(matches!(halt, Halt::LogInconsistent { .. }), "{halt:?}");
    assert!(engine.next(at(1)).is_none());
}

#[test]
fn a_strong_read_waits_for_a_leader_and_for_execution() {
    let mut engine = engine(false);
    let read = |read, consistency| {
        let mut frame = Vec::new();
        write_read_request(&mut frame, &ReadRequest { read, consistency, seen: Seq::ZERO, query: b"" });
        frame
    };
    engine.asked(at(1), (CONN, 1), &read(1, ReadConsistency::Weak), (true, None));
    assert_eq!((engine.counts().reads, engine.take_reads()), (1, None), "a weak one is answered at once");
    engine.asked(at(1), (CONN, 1), &read(2, ReadConsistency::Strong), (true, None));
    let group = engine.take_reads().expect("a leader is asked");
    engine.step(In::ReadConfirmed(group, ONE, RecordIndex(1)));
    assert_eq!(engine.confirm_reads(), []);
    engine.run_reads(at(2), |_| 1);
    assert_eq!(engine.counts().reads, 1, "its place is not executed yet");
    decide(&mut engine, at(3), 1, BatchHeader::default(), &[opening()]);
    assert_eq!(engine.confirm_reads(), []);
    engine.run_reads(at(3), |_| 1);
    assert_eq!((engine.counts().reads, engine.waiting_reads().0), (2, 0));
    engine.asked(at(3), (CONN, 1), &read(3, ReadConsistency::Weak), (false, None));
    assert_eq!(engine.counts().reads, 2, "another replica answers, whose state is sound");
    let mut out = Effects::new();
    engine.send_replies(&mut out);
    assert_eq!(out.drain().count(), 1, "all answers of a connection leave together");
}

struct Empty;

impl ObjectService for Empty {
    fn execute(&mut self, _: &mut Store, _: &[u8], _: &Context, _: &mut ReplySink<'_>) {}
    fn query(&self, _: &Store, _: &[u8], _: &Context, _: &mut ReplySink<'_>) {}
}

impl ParallelService for Empty {
    fn execute(&self, _: &mut StateView<'_>, _: &[u8], _: &Context, _: &mut ReplySink<'_>) {}
    fn query(&self, _: &StateView<'_>, _: &[u8], _: &Context, _: &mut ReplySink<'_>) {}
}

/// Behind the border of a change the next batches of the first instance are not the next ones of the global log.
#[test]
fn nothing_runs_early_while_the_number_of_instances_changes() {
    let foresees = |changes: bool| {
        let mut engine = engine(false);
        let service = Box::new(InStore::new(Parallel::new(Empty)));
        let executor = Executor::new(service, SessionLimits::default(), AgreedTime::ZERO);
        let verified = Verified::new(executor, |ahead| Box::new(Sequential::new(ahead)));
        engine.execution = Box::new(verified.ok().expect("it has a twin"));
        engine.decided(ONE, Slot::new(1), seal(&[opening()])).unwrap();
        assert!(engine.next(at(1)).is_some());
        assert!(engine.owes_turn());
        while engine.finished(at(1)).is_some() {}
        assert!(!engine.owes_turn());
        if changes {
            engine.change_instances(2).unwrap();
        }
        engine.proposed(ONE, Slot::new(2), View::FIRST, seal(&[request(1)]));
        engine.end_turn(&mut Effects::new());
        let now = engine.execution_deadline(at(2)) == Some(at(2));
        assert_eq!(engine.foresee(), now);
        now
    };
    assert!(foresees(false));
    assert!(!foresees(true));
}

/// Wants each state once, and says what it gets.
struct Wants(Option<Seq>, Sender<Option<Seq>>);

impl Publisher for Wants {
    fn wants(&self, seq: Seq) -> bool {
        self.0 != Some(seq)
    }
    fn publish(&mut self, state: Published) {
        self.0 = Some(state.seq);
        self.1.send(self.0).unwrap();
    }
    fn withdraw(&mut self) {
        self.0 = None;
        self.1.send(None).unwrap();
    }
}

#[test]
fn what_is_final_is_published_once_in_a_turn_and_withdrawn_where_another_state_takes_its_place() {
    let mut engine = engine_with(false, Box::new(InStore::new(Empty)));
    let (sender, published) = channel();
    engine.publish_to(Box::new(Wants(None, sender)));
    engine.run_reads(at(1), |_| 1);
    decide(&mut engine, at(2), 1, BatchHeader::default(), &[opening()]);
    decide(&mut engine, at(2), 2, BatchHeader::default(), &[]);
    assert_eq!(published.try_iter().collect::<Vec<_>>(), [Some(Seq::ZERO)], "the turn has not ended");
    engine.run_reads(at(2), |_| 1);
    engine.run_reads(at(3), |_| 1);
    assert_eq!(published.try_iter().collect::<Vec<_>>(), [Some(Seq::new(2))]);
    let image = engine.execution.state_mut().image().unwrap();
    engine.restore(&image.system, &image.objects, Answerers { place: 0, members: 1, answers: 1 }).unwrap();
    engine.run_reads(at(4), |_| 1);
    assert_eq!(published.try_iter().collect::<Vec<_>>(), [None, Some(Seq::new(2))]);
}

/// Two of three members answer each session, and each member answers two of three sessions.
#[test]
fn some_members_answer_each_session() {
    let session = |index| SessionId { index, generation: 1 };
    for index in 0..6 {
        let answer = |place| Answerers { place, members: 3, answers: 2 }.answer(session(index));
        assert_eq!((0..3).filter(|place| answer(*place)).count(), 2);
    }
}

/// The time of an executed batch is the agreed time; the own extension goes on from there, once a replica leads.
#[test]
fn time_goes_on_from_what_was_executed() {
    let mut engine = engine(false);
    let time = |millis: u64| AgreedTime::from_nanos(millis * 1_000_000);
    engine.led(at(0), true);
    let header = BatchHeader { time: time(5000), ..BatchHeader::default() };
    engine.decided(ONE, Slot::new(1), batch(header, &[])).unwrap();
    assert!(engine.next(at(10)).is_some() && engine.is_behind(), "delivered, and not executed");
    assert_eq!(engine.learn_time(at(10)), Some(Span::from_millis(5000)), "so far ahead of its own");
    assert!(engine.agreed_time(at(2000)) >= time(5000));
    assert_eq!(engine.overdue_at(at(10)), None, "where nobody lies no leader is asked why");
}

/// A leader knows the time of what was decided before, also while that waits to be delivered: it proposes no other one.
#[test]
fn a_leader_extends_the_time_of_what_is_decided() {
    let time = |millis: u64| AgreedTime::from_nanos(millis * 1_000_000);
    let at_time = |millis| BatchHeader { time: time(millis), ..BatchHeader::default() };
    let mut engine = engine(false);
    engine.led(at(0), true);
    assert_eq!(decide(&mut engine, at(0), 1, at_time(5000), &[]), 0);
    // Another leader's time went on more slowly than this replica's.
    engine.decided(ONE, Slot::new(2), batch(at_time(5500), &[])).unwrap();
    assert_eq!(engine.header(at(9000), true).time, time(5500), "decided, and not delivered");
    assert_eq!(engine.header(at(9100), true).time, time(5600), "and its own proposals from there");
}

/// What a leader proposes while it hears nobody is decided afterwards, and what it proposes then goes on from there.
#[test]
fn a_leader_goes_on_from_what_it_proposed_alone() {
    let mut engine = engine(false);
    engine.led(at(0), true);
    engine.leads_alone(at(3500), true);
    let alone = engine.header(at(3900), true).time;
    engine.leads_alone(at(4000), false);
    assert_eq!(engine.header(at(4000), true).time, alone, "the time between does not count");
    assert_eq!(engine.header(at(5000), true).time, alone.plus(Span::from_millis(1000)));
}
