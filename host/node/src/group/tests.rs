//! A group, stepped alone. The effects of its protocol are made up, or come from a protocol of one member.

use super::*;
use quorate_order::raft::message::RaftMessage;
use quorate_order::{OrderConfig, OrderMessage, Protocol};
use quorate_types::AgreedTime;

const NOW: Time = Time::ZERO;

fn group(stay: u64) -> Group {
    let (me, id) = (ReplicaId::new(1), InstanceId::new(1));
    let order = OrderConfig::new(Protocol::RAFT, me, vec![me], 6).build(id, 0);
    Group::new(id, stay, order, AdmissionLimits::default(), Volumes::default().open(id))
}

fn message() -> OrderMessage {
    OrderMessage::of(RaftMessage::TimeoutNow { view: View::FIRST })
}

fn send(after: Option<u64>) -> Effect {
    Effect::Send { to: ReplicaId::new(2), message: message(), after: after.map(RecordId::new) }
}

fn decided(slot: u64) -> Effect {
    let header = BatchHeader { time: AgreedTime::ZERO, ..BatchHeader::default() };
    let mut bytes = Vec::new();
    Batch::begin(&mut bytes);
    Effect::Decided { slot: Slot::new(slot), batch: Batch::seal(bytes, header) }
}

fn led(view: u64, leader: Option<u16>) -> Effect {
    Effect::LeaderChanged { view: View::new(view), leader: leader.map(ReplicaId::new), planned: false }
}

#[test]
fn a_message_waits_for_its_record_and_for_those_before_it() {
    let mut group = group(0);
    assert!(group.settle(NOW, send(None)).is_some(), "this one names no record");
    assert!(group.settle(NOW, send(Some(3))).is_none());
    assert!(group.settle(NOW, send(Some(4))).is_none());
    group.is_durable(NOW, RecordId::new(2));
    assert!(group.release().is_none());
    group.is_durable(NOW, RecordId::new(3));
    assert!(group.release().is_some_and(|(to, _)| to == ReplicaId::new(2)));
    assert!(group.release().is_none(), "the second one waits for record 4");
    assert!(group.settle(NOW, send(Some(3))).is_some(), "and what is durable holds back nothing");
    group.is_durable(NOW, RecordId::new(9));
    assert!(group.release().is_some());
}

#[test]
#[should_panic = "INV-NODE-1"]
fn a_message_that_was_forgotten_is_noticed() {
    let mut group = group(0);
    assert!(group.settle(NOW, send(Some(3))).is_none());
    group.invariants(true, RecordId::new(3));
}

#[test]
fn records_are_handed_on_in_order() {
    let mut group = group(0);
    for slot in 1..=3 {
        assert!(group.settle(NOW, decided(slot)).is_some());
        assert_eq!(group.decided(), Slot::new(slot));
    }
}

#[test]
#[should_panic = "INV-NODE-2"]
fn no_record_is_left_out() {
    let mut group = group(0);
    assert!(group.settle(NOW, decided(1)).is_some());
    let _ = group.settle(NOW, decided(3));
}

#[test]
fn a_leader_is_announced_once() {
    let mut group = group(0);
    assert!(group.settle(NOW, led(2, Some(1))).is_some());
    assert!(group.settle(NOW, led(2, Some(1))).is_none(), "that is known");
    group.lead_mut().settle(Slot::new(7));
    assert_eq!(group.lead().settled_at(), Some(Slot::new(7)));
    assert!(group.settle(NOW, led(3, Some(1))).is_some(), "another view");
    assert_eq!((group.view(), group.leader()), (View::new(3), Some(ReplicaId::new(1))));
    assert_eq!(group.lead().settled_at(), None, "in which it leads only since now");
}

#[test]
fn before_it_starts_it_hears_nothing() {
    let mut group = group(0);
    group.connects(NOW, ReplicaId::new(2));
    group.step(NOW, OrderInput::Deadline);
    assert!(group.is_quiet() && group.deadline().is_none());
    group.start(NOW);
    assert!(group.has_started() && group.has_news(RecordId::ZERO), "what it wants is looked at");
}

/// One member leads by itself: it proposes as many small batches as it may, and then waits.
#[test]
fn small_batches_wait_for_those_under_way() {
    let mut group = group(0);
    group.start(NOW);
    group.step(NOW, OrderInput::Deadline);
    let pace = Pace { batches_max: 0, bytes_max: 0, pipelined: true, gathering_max: Span::from_millis(1) };
    assert!(group.next_batch(NOW, &pace, || panic!("no batch, no header")).is_none());
    let pace = Pace { batches_max: 1, ..pace };
    assert!(group.next_batch(NOW, &pace, BatchHeader::default).is_none(), "nobody asked for anything");
    assert!(!group.gathers(NOW, &pace, || panic!("only where one slot follows the other")));
}

#[test]
fn a_stay_that_is_over_is_not_present() {
    let mut group = group(3);
    assert!(group.stay().is_present() && group.stay().may_begin());
    group.leave(Seq::new(9));
    assert!(!group.stay().is_present());
    assert_eq!(group.stay().number(), 3);
    group.stay_mut().unborn = true;
    assert!(!group.stay().may_begin());
}

/// The state goes back to before a stay began, which was stopped while its decisions waited. It decides them again; its records are written.
#[test]
fn a_stay_that_begins_again_hands_on_what_it_decides_from_its_beginning() {
    let (me, id) = (ReplicaId::new(1), InstanceId::new(1));
    let config = OrderConfig::new(Protocol::RAFT, me, vec![me], 6);
    let anchor = config.next_stay(None, None).expect("an anchor");
    let mut group = group(0).born(Birth { id, record: Slot::ZERO, anchor }).expect("it is valid");
    group.start(NOW);
    group.take().drain().for_each(drop);
    let record = Stored { kind: 1, head: Vec::new().into(), payload: Vec::new().into() };
    group.effects.push(Effect::Persist { id: RecordId::new(5), record, vital: false });
    group.effects.push(decided(7));
    assert!(group.wakes(NOW));
    let (mut records, mut decisions) = (Vec::new(), Vec::new());
    for effect in group.take().drain() {
        match effect {
            Effect::Persist { id, .. } => records.push(id),
            Effect::Decided { slot, .. } => decisions.push(slot),
            _ => {}
        }
    }
    assert_eq!((records.first(), &decisions[..]), (Some(&RecordId::new(5)), &[][..]));
}
