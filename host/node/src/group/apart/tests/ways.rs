//! Messages leave over the connections that there are when the protocol sends them: a leader of two members, whose peer connects again.

use super::*;
use quorate_order::Order;
use quorate_wire::{FRAME_HEADER, Verified};

const A: ReplicaId = ReplicaId::new(1);
const B: ReplicaId = ReplicaId::new(2);

fn config(me: ReplicaId) -> OrderConfig {
    OrderConfig::new(Protocol::RAFT, me, vec![A, B], 6)
}

fn on(ways: &[(ReplicaId, ConnId)]) -> Facts {
    Facts { ways: ways.to_vec(), ..facts(0, 0) }
}

/// What the lane sends in a turn at this time.
fn sent_at(order: &mut StandIn, now: Time, out: &mut Effects) -> Vec<(ConnId, Vec<u8>)> {
    let mut effects = effects::Effects::new();
    order.take_turn(now, &mut Inbox::default(), &mut effects);
    order.hear(out);
    let sent = effects.drain().filter_map(|effect| match effect {
        effects::Effect::Send { conn, frame } => Some((conn, frame.to_vec())),
        _ => None,
    });
    sent.collect()
}

/// The other member takes what the leader sent, and answers.
fn answer(other: &mut dyn Order, now: Time, sent: Vec<(ConnId, Vec<u8>)>, order: &mut StandIn) {
    let mut out = Effects::new();
    for (_, mut frame) in sent {
        let (_, message) = config(B).decode(frame.split_off(FRAME_HEADER).into()).expect("it is one");
        other.step(now, Input::Receive(Verified::vouch(A, message)), &mut out);
    }
    loop {
        let list: Vec<Effect> = out.drain().collect();
        if list.is_empty() {
            return;
        }
        for effect in list {
            match effect {
                Effect::Persist { id, .. } => other.step(now, Input::Durable(id), &mut out),
                Effect::Send { message, .. } => {
                    order.tell(Told::Step(Input::Receive(Verified::vouch(B, message))));
                }
                _ => {}
            }
        }
    }
}

#[test]
fn what_is_sent_when_a_member_connects_goes_over_the_new_connection() {
    let (mut order, mut out, mut now) = (stand_in_of(config(A), |_| {}), Effects::new(), NOW);
    let mut other = config(B).build(InstanceId::new(1), 0);
    other.start(NOW, &mut out);
    out.drain().for_each(drop);
    order.tell(Told::Start(None));
    order.learn(on(&[(B, ConnId::new(9))]));
    order.tell(Told::Step(Input::Connected(B)));
    while !order.standing().settled {
        let sent = sent_at(&mut order, now, &mut out);
        let durable = persisted(&mut out);
        durable.into_iter().for_each(|id| order.tell(Told::Durable(id)));
        answer(&mut *other, now, sent, &mut order);
        if let Some(at) = order.deadline() {
            assert!(now < NOW.plus(Span::from_secs(600)), "it leads some time");
            now = now.max(at);
            order.tell(Told::Step(Input::Deadline));
        }
    }
    order.tell(Told::Step(Input::Disconnected(B)));
    order.learn(on(&[]));
    assert_eq!(sent_at(&mut order, now, &mut out), [], "nothing goes over the connection that is gone");
    // The protocol hears of the connection in the step in which it is up, and the lane of the way at the end of that step.
    order.tell(Told::Step(Input::Connected(B)));
    order.learn(on(&[(B, ConnId::new(10))]));
    let sent: Vec<ConnId> = sent_at(&mut order, now, &mut out).into_iter().map(|(conn, _)| conn).collect();
    assert_eq!(sent, [ConnId::new(10)], "what the member lost is asked for at once");
}
