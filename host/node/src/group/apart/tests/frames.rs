//! Frames that come in on the lane itself: messages of members, and requests of clients.

use super::*;
use crate::effects::Input as Arrival;
use quorate_wire::{FRAME_HEADER, Frame};

const A: ReplicaId = ReplicaId::new(1);
const B: ReplicaId = ReplicaId::new(2);
const LINK: ConnId = ConnId::new(9);

fn config(me: ReplicaId) -> OrderConfig {
    OrderConfig::new(Protocol::RAFT, me, vec![A, B], 6)
}

/// A frame with the first message of B, which wants to lead this instance.
fn message(of: u16) -> Frame {
    let (id, mut out, mut now) = (InstanceId::new(of), Effects::new(), NOW);
    let mut other = config(B).build(id, 0);
    other.start(NOW, &mut out);
    other.step(NOW, Input::Connected(A), &mut out);
    loop {
        let list: Vec<Effect> = out.drain().collect();
        for effect in list {
            match effect {
                Effect::Persist { id, .. } => other.step(now, Input::Durable(id), &mut out),
                Effect::Send { message, .. } => {
                    let payload = message.frame(id).to_vec().split_off(FRAME_HEADER).into();
                    return Frame { kind: FrameKind::Order, payload };
                }
                _ => {}
            }
        }
        if out.is_empty() {
            now = now.max(other.deadline().expect("it waits for a leader"));
            other.step(now, Input::Deadline, &mut out);
        }
    }
}

/// What the lane leaves of these frames in a turn.
fn left(order: &mut StandIn, frames: &[(ConnId, Frame)]) -> usize {
    let mut inbox = Inbox::default();
    for (conn, frame) in frames {
        inbox.put(Arrival::Frame { conn: *conn, frame: frame.clone() });
    }
    order.take_turn(NOW, &mut inbox, &mut effects::Effects::new());
    inbox.pass_on().count()
}

fn follower(facts: Facts) -> StandIn {
    let mut order = stand_in_of(config(A), |_| {});
    order.tell(Told::Start(None));
    order.learn(facts);
    turn(&mut order);
    order
}

#[test]
fn messages_of_members_are_taken_from_links_that_the_main_lane_named() {
    let linked = Facts { links: vec![(LINK, B)], ..facts(0, 0) };
    let mut order = follower(linked.clone());
    assert_eq!(left(&mut order, &[(LINK, message(1))]), 0);
    assert!(order.hear(&mut Effects::new()), "the main lane hears of it");
    assert_eq!(order.signs(), [B], "it is a sign of life");
    assert!(order.signs().is_empty(), "once");
    let refused: [(Facts, ConnId, Frame); 5] = [
        (linked.clone(), ConnId::new(8), message(1)),
        (Facts { links: Vec::new(), ..linked.clone() }, LINK, message(1)),
        (Facts { fits: false, ..linked.clone() }, LINK, message(1)),
        (linked.clone(), LINK, message(2)),
        (linked, LINK, Frame { kind: FrameKind::Room, payload: Bytes::from_static(&[1]) }),
    ];
    for (facts, conn, frame) in refused {
        let mut order = follower(facts);
        assert_eq!(left(&mut order, &[(conn, frame)]), 1);
        assert!(!order.hear(&mut Effects::new()), "nothing happened");
    }
}

/// Mail that was sent before a frame came in says what holds for the frame.
#[test]
fn mail_comes_before_frames() {
    let linked = Facts { links: vec![(LINK, B)], ..facts(0, 0) };
    let mut order = follower(linked.clone());
    order.learn(Facts { links: Vec::new(), ..linked });
    assert_eq!(left(&mut order, &[(LINK, message(1))]), 1, "the link is gone");
}

/// The frame that [`requests`] would pass on.
fn asks(number: u64) -> (ConnId, Frame) {
    let Told::Requests(passed) = requests(&[number], 0) else { panic!("they are requests") };
    (CLIENT, Frame { kind: FrameKind::Requests, payload: passed.requests })
}

#[test]
fn requests_are_taken_once_the_main_lane_passed_on_earlier_ones() {
    let mut order = proposes(9);
    assert_eq!(left(&mut order, &[asks(1)]), 1, "execution must be asked whose session it is");
    order.tell(requests(&[1], 0));
    turn(&mut order);
    let before = order.standing();
    assert_eq!(left(&mut order, &[asks(2), asks(3)]), 0);
    order.hear(&mut Effects::new());
    assert_eq!(order.standing().in_flight, before.in_flight + 1, "they are proposed");
    assert_eq!(left(&mut order, &[asks(3)]), 1, "it was sent again");
    order.tell(Told::Unbound(CLIENT));
    assert_eq!(left(&mut order, &[asks(4)]), 1);
}

#[test]
fn requests_are_for_the_main_lane_while_there_is_little_room_or_another_leader() {
    for room in [Room::Frees, Room::Full] {
        let mut order = proposes(9);
        order.tell(requests(&[1], 0));
        let handed = order.status().decided.number();
        order.learn(Facts { room, ..facts(9 + handed, handed) });
        turn(&mut order);
        assert_eq!(left(&mut order, &[asks(2)]), 1, "{room:?}");
    }
    let mut order = follower(facts(9, 0));
    order.tell(requests(&[1], 0));
    turn(&mut order);
    assert_eq!(left(&mut order, &[asks(2)]), 1, "it does not lead");
}

#[test]
fn after_a_jump_execution_is_asked_again() {
    let mut order = proposes(9);
    order.tell(requests(&[1], 0));
    turn(&mut order);
    for end in [Told::Jumped, Told::Forget] {
        order.tell(requests(&[1], 0));
        turn(&mut order);
        order.tell(end);
        assert_eq!(left(&mut order, &[asks(2)]), 1, "it is unknown what is in flight");
    }
}

/// New facts are sent before the main lane hears that a request waits for them, which came in on the lane.
#[test]
fn facts_that_were_sent_before_are_asked_for_when_something_waits() {
    let mut order = proposes(9);
    let handed = order.status().decided.number();
    order.tell(requests(&[1], 0));
    turn(&mut order);
    order.learn(facts(handed, handed));
    turn(&mut order);
    assert_eq!(left(&mut order, &[asks(2)]), 0, "it waits, since the merge has no room");
    order.learn(facts(9 + handed, handed));
    assert!(!order.asks(), "nobody knows that something waits");
    order.hear(&mut Effects::new());
    assert!(order.asks());
}
