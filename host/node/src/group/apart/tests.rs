//! The stand-in and the lane of a pillar, stepped alone, for a protocol of one member.

use super::*;
use crate::engine::Clock;
use bytes::Bytes;
use quorate_admit::AdmissionLimits;
use quorate_merge::{Bounds, RecordIndex};
use quorate_order::{Effect, Input, OrderConfig, Protocol};
use quorate_types::{AgreedTime, ConnId, InstanceId, ItemsBuilder, ReplicaId, RequestNumber, Room, Seq};
use quorate_types::{SessionId, Slot, Span, View};
use quorate_wire::{Batch, BatchHeader, FRAME_HEADER, FrameKind, Reply, ReplyStatus, write_request};
use std::collections::BTreeMap;

mod frames;
mod ways;

use super::super::own_lane::Setting;
use super::super::pillar::Pillar;
use super::super::{Bridges, Facts, Locally, Pace, Passed};

const NOW: Time = Time::ZERO;
const PATIENCE: Span = Span::from_millis(400);
const CLIENT: ConnId = ConnId::new(7);
const SESSION: SessionId = SessionId { index: 3, generation: 1 };

fn stand_in() -> StandIn {
    stand_in_with(|_| {})
}

fn stand_in_with(change: impl FnOnce(&mut OwnLane)) -> StandIn {
    let me = ReplicaId::new(1);
    stand_in_of(OrderConfig::new(Protocol::RAFT, me, vec![me], 6), change)
}

fn stand_in_of(order: OrderConfig, change: impl FnOnce(&mut OwnLane)) -> StandIn {
    let (me, id) = (ReplicaId::new(1), InstanceId::new(1));
    let order = order.build(id, 0);
    let pace =
        Pace { batches_max: 2, bytes_max: 1 << 20, pipelined: true, gathering_max: Span::from_millis(1) };
    let mut lane = OwnLane::new(
        Setting { me, id, protocol: Protocol::RAFT, pace, patience: PATIENCE },
        6,
        Pillar::new(order, AdmissionLimits::default()),
    );
    change(&mut lane);
    let known = Known::of(&lane);
    StandIn::new(Locally.build(id, lane), known)
}

/// The facts while the merge has room up to this slot and was handed this many records.
fn facts(last: u64, handed: u64) -> Facts {
    let slot = Slot::new;
    Facts {
        view: View::FIRST,
        bounds: Some(Bounds { decided: slot(handed), last: slot(last), border: None, wanted: slot(0) }),
        handed: RecordIndex(handed),
        many: false,
        clock: Clock::new(AgreedTime::from_nanos(5), NOW),
        at: NOW,
        wakes: 0,
        base: None,
        ruling: None,
        far: false,
        executed: Seq::ZERO,
        room: Room::Data,
        room_soon: false,
        ways: Vec::new(),
        links: Vec::new(),
        fits: true,
    }
}

/// A stand-in that leads, because its member is alone; all its effects were carried out.
fn leader() -> StandIn {
    begins_to_lead(stand_in())
}

fn begins_to_lead(mut order: StandIn) -> StandIn {
    let mut out = Effects::new();
    order.tell(Told::Start(None));
    let mut durable = RecordId::ZERO;
    while !order.standing().settled {
        order.take_turn(NOW, &mut Inbox::default(), &mut effects::Effects::new());
        assert!(order.hear(&mut out), "there was something to take");
        durable = persisted(&mut out).unwrap_or(durable);
        order.tell(Told::Durable(durable));
    }
    order.take_turn(NOW, &mut Inbox::default(), &mut effects::Effects::new());
    order.hear(&mut out);
    out.drain().for_each(drop);
    order
}

/// A leader that may propose up to this slot.
fn proposes(last: u64) -> StandIn {
    let mut order = leader();
    let handed = order.status().decided.number();
    order.learn(facts(last + handed, handed));
    turn(&mut order);
    order
}

/// The last record that is to be persisted, if there is one.
fn persisted(out: &mut Effects) -> Option<RecordId> {
    let persisted = out.drain().filter_map(|effect| match effect {
        Effect::Persist { id, .. } => Some(id),
        _ => None,
    });
    persisted.max()
}

/// A turn of the lane, of which the main lane hears. Gives what the lane sent.
fn turn(order: &mut StandIn) -> Vec<(ConnId, FrameKind)> {
    let mut out = effects::Effects::new();
    order.take_turn(NOW, &mut Inbox::default(), &mut out);
    order.hear(&mut Effects::new());
    let sent = out.drain().filter_map(|effect| match effect {
        effects::Effect::Send { conn, frame } => Some((conn, frame.kind())),
        _ => None,
    });
    sent.collect()
}

/// What a frame of replies says.
fn statuses(effect: &effects::Effect) -> Vec<ReplyStatus> {
    let effects::Effect::Send { frame, .. } = effect else { return Vec::new() };
    assert_eq!(frame.kind(), FrameKind::Replies);
    let bytes = frame.to_vec();
    let replies = Reply::walk(&bytes[FRAME_HEADER..]).map(|reply| reply.expect("our own words").status);
    replies.collect()
}

fn batch() -> Batch {
    let mut bytes = Vec::new();
    Batch::begin(&mut bytes);
    Batch::seal(bytes, BatchHeader::default())
}

/// Requests with these numbers of a session that has executed `last`.
fn requests(numbers: &[u64], last: u64) -> Told {
    let mut bytes = Vec::new();
    for number in numbers {
        let mut commands = ItemsBuilder::new();
        commands.push(b"command");
        write_request(&mut bytes, SESSION, RequestNumber::new(*number), RequestNumber::FIRST, &commands);
    }
    Told::Requests(Passed {
        conn: Some(CLIENT),
        requests: Bytes::from(bytes),
        last: BTreeMap::from([(SESSION, RequestNumber::new(last))]),
        view: View::FIRST,
        handed: RecordIndex(0),
        settled: true,
        frees: false,
        may_all: true,
    })
}

#[test]
fn what_it_wants_is_heard_after_its_turn() {
    let (mut order, mut out) = (proposes(9), Effects::new());
    order.tell(Told::Propose(batch()));
    assert!(!order.hear(&mut out) && out.is_empty(), "its lane had no turn");
    order.take_turn(NOW, &mut Inbox::default(), &mut effects::Effects::new());
    assert!(out.is_empty(), "nobody has heard of it");
    assert!(order.hear(&mut out) && !out.is_empty());
    order.take_turn(NOW, &mut Inbox::default(), &mut effects::Effects::new());
    assert!(!order.hear(&mut out), "that was all");
}

#[test]
fn a_lane_is_asked_once() {
    let mut order = leader();
    assert!(!order.asks(), "there is nothing to take");
    order.tell(Told::Propose(batch()));
    order.tell(Told::Propose(batch()));
    assert!(order.asks() && !order.asks());
    order.take_turn(NOW, &mut Inbox::default(), &mut effects::Effects::new());
    order.tell(Told::Step(Input::Deadline));
    assert!(order.asks(), "it took what it was asked to take");
}

/// Facts change with every batch of any instance. Most lanes need them only when something else happens there.
#[test]
fn facts_alone_ask_only_a_lane_that_waits_for_them() {
    let mut order = proposes(9);
    let handed = order.status().decided.number();
    order.learn(Facts { executed: Seq::new(7), ..facts(9 + handed, handed) });
    assert!(!order.asks(), "nothing waits there");
    turn(&mut order);
    assert!(!order.asks(), "it took them with another turn");
    // Its request waits, since the merge has no room.
    order.learn(facts(handed, handed));
    order.tell(requests(&[1], 0));
    assert!(order.asks());
    turn(&mut order);
    order.learn(facts(9 + handed, handed));
    assert!(order.asks(), "now there is room");
}

/// Where a no-op is wanted, and where a leader begins, facts are what the lane waits for.
#[test]
fn facts_ask_a_lane_that_is_to_fill_or_to_begin() {
    let mut order = leader();
    let handed = order.status().decided.number();
    order.learn(facts(9 + handed, handed));
    assert!(order.asks(), "it has not begun to propose");
    turn(&mut order);
    let wanted = Slot::new(handed + 2);
    let bounds = facts(9 + handed, handed).bounds.map(|bounds| Bounds { wanted, ..bounds });
    order.learn(Facts { bounds, many: true, ..facts(9 + handed, handed) });
    assert!(order.asks());
}

/// The host counts the proposals that are on their way to decide how much to propose.
#[test]
fn what_was_proposed_counts_at_once_and_once() {
    let mut order = proposes(9);
    let before = order.standing();
    order.tell(Told::Propose(batch()));
    let counts = |order: &StandIn| {
        let now = order.standing();
        assert!(now.in_flight_bytes >= before.in_flight_bytes + batch().bytes().len());
        now.in_flight - before.in_flight
    };
    assert_eq!(counts(&order), 1);
    order.take_turn(NOW, &mut Inbox::default(), &mut effects::Effects::new());
    assert_eq!(counts(&order), 1);
    order.hear(&mut Effects::new());
    assert_eq!(counts(&order), 1, "now the protocol itself says so");
}

/// The stand-in answers only with what the main lane has heard.
#[test]
fn nothing_is_known_that_was_not_heard() {
    let (mut order, mut out) = (proposes(9), Effects::new());
    let (decided, last) = (order.status().decided, order.keep_from());
    order.tell(Told::Propose(batch()));
    order.take_turn(NOW, &mut Inbox::default(), &mut effects::Effects::new());
    order.hear(&mut out);
    let record = persisted(&mut out).expect("a proposal is written down");
    order.tell(Told::Durable(record));
    order.take_turn(NOW, &mut Inbox::default(), &mut effects::Effects::new());
    assert_eq!(order.status().decided, decided);
    order.hear(&mut out);
    assert_eq!(order.status().decided, decided.next());
    assert_eq!(order.keep_from(), last);
}

#[test]
fn it_has_no_deadline_while_its_lane_has_something_to_take() {
    let mut order = leader();
    assert!(order.deadline().is_some(), "a leader has one");
    order.tell(Told::Propose(batch()));
    assert!(order.deadline().is_none(), "the turn that was asked for comes first");
}

#[test]
#[should_panic = "INV-NODE-11"]
fn nobody_looks_into_it_while_its_lane_has_something_to_take() {
    let mut order = leader();
    order.tell(Told::Propose(batch()));
    order.look(|_| ());
}

/// The merge's window is used up by the lane itself; old bounds allow less.
#[test]
fn it_proposes_as_far_as_the_facts_allow() {
    let mut order = proposes(1);
    let first = order.status().decided.number() + 1;
    order.tell(requests(&[1], 0));
    turn(&mut order);
    let news = order.news().expect("its lane had a turn");
    assert_eq!(news.batch, Some(Slot::new(first)));
    assert!(!news.waits_for_room);
    order.tell(requests(&[2], 0));
    turn(&mut order);
    let news = order.news().expect("its lane had a turn");
    assert_eq!(news.batch, None, "there is no room");
    assert!(news.waits_for_room && order.waiting_bytes() > 0);
    let more = facts(first + 1, first - 1);
    order.learn(more.clone());
    turn(&mut order);
    assert_eq!(order.news().and_then(|news| news.batch), Some(Slot::new(first + 1)));
    order.learn(more);
    assert!(!order.asks(), "facts that are known are not told again");
}

/// What was decided before its view may be on the way to the merge. A leader that proposed behind less than that would take slots for free
/// that are used.
#[test]
fn it_proposes_nothing_before_the_merge_has_what_was_decided() {
    let mut order = begins_to_lead(stand_in_with(|lane| lane.decided = Slot::new(2)));
    order.learn(facts(9, 1));
    order.tell(requests(&[1], 0));
    turn(&mut order);
    assert!(order.news().is_some_and(|news| news.batch.is_none() && !news.proposer.is_settled()));
    order.learn(Facts { view: View::ZERO, ..facts(9, 2) });
    turn(&mut order);
    assert!(order.news().is_some_and(|news| news.batch.is_none()), "the main lane has not heard of its view");
    order.learn(facts(9, 2));
    turn(&mut order);
    assert_eq!(order.news().and_then(|news| news.batch), Some(Slot::new(3)));
}

/// The main lane's batches are on their way for long: they go first, and wait for room.
#[test]
fn batches_of_the_main_lane_go_first_and_wait() {
    let mut order = proposes(0);
    order.tell(Told::Propose(batch()));
    order.tell(requests(&[1], 0));
    turn(&mut order);
    let (waiting, handed) = (order.waiting_bytes(), order.status().decided.number());
    assert!(waiting > batch().bytes().len(), "both wait");
    order.learn(facts(handed + 1, handed));
    turn(&mut order);
    assert_eq!(order.waiting_bytes(), waiting - batch().bytes().len());
}

#[test]
fn a_request_that_is_in_flight_is_no_new_one_and_a_gap_is_named() {
    let mut order = proposes(9);
    order.tell(requests(&[1, 2], 0));
    assert_eq!(turn(&mut order), []);
    let waiting = order.standing().in_flight;
    order.tell(requests(&[2], 0));
    assert_eq!(turn(&mut order), []);
    assert_eq!(order.standing().in_flight, waiting, "nothing was proposed");
    order.tell(requests(&[9], 0));
    assert_eq!(turn(&mut order), [(CLIENT, FrameKind::Replies)], "3 is expected");
}

/// Others may wait for no-ops only if there are others. With one instance and liars, nobody votes for a no-op.
#[test]
fn it_fills_only_among_several_instances() {
    for (many, batch) in [(false, None), (true, Some(()))] {
        let mut order = leader();
        let handed = order.status().decided.number();
        let mut facts = Facts { many, ..facts(handed + 9, handed) };
        facts.bounds.as_mut().expect("there are bounds").wanted = Slot::new(handed + 3);
        order.learn(facts);
        let mut out = Effects::new();
        order.take_turn(NOW, &mut Inbox::default(), &mut effects::Effects::new());
        order.hear(&mut out);
        assert_eq!(persisted(&mut out).map(drop), batch);
    }
}

/// The process may have been stopped, or there may have been no leader: such a time does not count, and only the main lane knows of it.
#[test]
fn an_old_clock_is_not_extended() {
    let mut order = proposes(9);
    let later = NOW.plus(PATIENCE).plus(Span::from_nanos(1));
    order.tell(requests(&[1], 0));
    order.take_turn(later, &mut Inbox::default(), &mut effects::Effects::new());
    order.hear(&mut Effects::new());
    assert_eq!((order.standing().in_flight, order.waiting_bytes() > 0), (0, true));
    let handed = order.status().decided.number();
    order.learn(Facts { at: later, ..facts(9 + handed, handed) });
    assert!(order.asks(), "the same clock is told again, as of now");
    order.take_turn(later, &mut Inbox::default(), &mut effects::Effects::new());
    order.hear(&mut Effects::new());
    assert_eq!((order.standing().in_flight, order.waiting_bytes()), (1, 0));
}

/// The main lane may have told its clock before it heard that the process had been stopped.
#[test]
fn a_lane_that_was_stopped_waits_until_the_main_lane_knows_of_it() {
    let mut order = proposes(9);
    let handed = order.status().decided.number();
    let woken = order.deadline().expect("a leader has one").plus(PATIENCE).plus(Span::from_nanos(1));
    let facts = Facts { at: woken, executed: Seq::new(1), ..facts(9 + handed, handed) };
    order.learn(facts.clone());
    assert!(order.facts.as_ref().is_some_and(|told| told.at == woken), "a clock as of now, which is told");
    order.tell(requests(&[1], 0));
    order.take_turn(woken, &mut Inbox::default(), &mut effects::Effects::new());
    order.tell(Told::Step(Input::Deadline));
    order.take_turn(woken, &mut Inbox::default(), &mut effects::Effects::new());
    assert!(order.wanted().is_some_and(|at| at < woken), "the main lane may look before it hears");
    assert!(order.hear(&mut Effects::new()));
    assert!(order.wanted().is_some_and(|at| at > woken), "the next deadline");
    order.hear(&mut Effects::new());
    assert_eq!((order.standing().in_flight, order.waiting_bytes() > 0), (0, true));
    assert!(order.woke().is_some() && order.woke().is_none(), "the engine is told, once");
    order.learn(facts);
    order.take_turn(woken, &mut Inbox::default(), &mut effects::Effects::new());
    order.hear(&mut Effects::new());
    assert_eq!((order.standing().in_flight, order.waiting_bytes()), (1, 0));
}

/// The main lane asked execution before this leader decided something, or in another view: then a session may be new.
#[test]
fn a_session_is_over_only_if_execution_knew_everything() {
    let (again, over) = (ReplyStatus::Overloaded, ReplyStatus::SessionExpired);
    for (view, handed, status) in [(0, 1, again), (1, 0, again), (1, 1, over)] {
        let mut order = begins_to_lead(stand_in_with(|lane| lane.decided = Slot::new(1)));
        order.learn(facts(9, 1));
        turn(&mut order);
        let Told::Requests(passed) = requests(&[1], 0) else { panic!("these are requests") };
        let (last, view, handed) = (BTreeMap::new(), View::new(view), RecordIndex(handed));
        order.tell(Told::Requests(Passed { last, view, handed, ..passed }));
        let mut out = effects::Effects::new();
        order.take_turn(NOW, &mut Inbox::default(), &mut out);
        order.hear(&mut Effects::new());
        let answers: Vec<ReplyStatus> = out.drain().flat_map(|effect| statuses(&effect)).collect();
        assert_eq!(answers, [status, ReplyStatus::Position], "{view} {handed:?}");
        assert_eq!(order.waiting_bytes(), 0);
    }
}

/// A lane that takes nothing for long must not fill the memory: messages count as lost.
#[test]
fn messages_on_their_way_have_a_limit() {
    let mut order = leader();
    let message = quorate_order::OrderMessage::of(quorate_order::raft::message::RaftMessage::TimeoutNow {
        view: View::FIRST,
    });
    let message = quorate_wire::Verified::vouch(ReplicaId::new(2), message);
    order.tell(Told::Receive(message.clone(), RECEIVED_MAX));
    assert!(!order.is_full());
    order.tell(Told::Receive(message, 1));
    assert!(order.is_full());
    turn(&mut order);
    assert!(!order.is_full(), "the lane has taken them");
}

/// Another replica leads: its main lane has told the client, or will do so.
#[test]
fn who_does_not_lead_drops_requests() {
    let mut order = stand_in_with(|lane| lane.pillar.is_led(View::new(1), Some(ReplicaId::new(2))));
    order.learn(facts(9, 0));
    order.tell(requests(&[1], 0));
    assert!(order.waiting_bytes() > 0, "they are on their way");
    turn(&mut order);
    assert_eq!(order.waiting_bytes(), 0);
}

/// A stay that is no longer in force hands over what its lane did, and goes on without what its clients asked before.
#[test]
fn a_stay_that_rests_and_returns_loses_no_record() {
    let (mut order, mut out) = (proposes(9), Effects::new());
    order.tell(requests(&[1], 0));
    order.take_turn(NOW, &mut Inbox::default(), &mut effects::Effects::new());
    order.rests(&mut out);
    assert!(persisted(&mut out).is_some(), "its turn is heard");
    assert!(!order.hear(&mut out));
    order.returns();
    assert!(order.asks(), "it forgets what clients asked");
    let handed = order.status().decided.number();
    order.learn(facts(9 + handed, handed));
    turn(&mut order);
    order.tell(requests(&[1], 0));
    turn(&mut order);
    assert_eq!(order.standing().in_flight, 2, "the request is taken again");
}
