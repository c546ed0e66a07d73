use super::super::tests::{ALICE, SESSION, engine_of, opening, request, seal};
use super::super::{Answerers, Delivery, Engine, In};
use crate::effects::Effects;
use quorate_types::{AgreedTime, ConnId, InstanceId, Slot, Span, Time};

const CONN: ConnId = ConnId::FIRST;
const ONE: InstanceId = InstanceId::new(1);
const TWO: InstanceId = InstanceId::new(2);

/// Delivers and executes what the merge has. How many frames go to clients.
fn executed(engine: &mut Engine) -> usize {
    let now = Time::ZERO.plus(Span::from_millis(1));
    let mut out = Effects::new();
    while let Some(delivery) = engine.next(now) {
        if let Delivery::Batch { seq, instance, .. } = delivery {
            engine.is_under_way((seq, instance, false), Time::ZERO, AgreedTime::ZERO);
        }
        while engine.finished(now).is_some() {
            engine.reply(false, Answerers { place: 0, members: 1, answers: 1 });
        }
    }
    engine.send_replies(&mut out);
    let sent = out.drain().count();
    engine.end_turn(&mut out);
    sent
}

/// A client with a session, whose opening waits for a slot of the second instance.
#[test]
fn what_was_decided_before_the_leader_changed_is_answered() {
    let mut engine = engine_of(2);
    assert_eq!(engine.bind((CONN, ALICE), &opening(), |_| Ok(())), Ok(()));
    engine.decided(ONE, Slot::new(1), seal(&[])).unwrap();
    engine.decided(ONE, Slot::new(2), seal(&[opening()])).unwrap();
    engine.step(In::Unbound(CONN, Some(ONE)));
    assert_eq!(executed(&mut engine), 0, "the second slot waits for the first one of the second instance");
    engine.decided(TWO, Slot::new(1), seal(&[])).unwrap();
    assert_eq!(executed(&mut engine), 1, "this replica may be the only one that its client has asked");
    assert_eq!(engine.conn(SESSION), None, "from now on the client asks the next leader");
    engine.decided(ONE, Slot::new(3), seal(&[request(1)])).unwrap();
    engine.decided(TWO, Slot::new(2), seal(&[])).unwrap();
    assert_eq!(executed(&mut engine), 0);
}

/// Whoever asks here again is answered here again.
#[test]
fn a_client_that_comes_back_stays() {
    let mut engine = engine_of(2);
    assert_eq!(engine.bind((CONN, ALICE), &opening(), |_| Ok(())), Ok(()));
    engine.decided(ONE, Slot::new(1), seal(&[opening()])).unwrap();
    engine.decided(TWO, Slot::new(1), seal(&[])).unwrap();
    assert_eq!(executed(&mut engine), 1);
    engine.decided(ONE, Slot::new(2), seal(&[])).unwrap();
    engine.decided(ONE, Slot::new(3), seal(&[])).unwrap();
    engine.step(In::Unbound(CONN, Some(ONE)));
    assert_eq!(engine.bind((CONN, ALICE), &request(1), |_| Ok(())), Ok(()));
    engine.decided(TWO, Slot::new(2), seal(&[])).unwrap();
    assert_eq!((executed(&mut engine), engine.conn(SESSION)), (0, Some(CONN)));
    engine.step(In::Unbound(CONN, Some(ONE)));
    engine.step(In::Closed(CONN));
    assert_eq!((executed(&mut engine), engine.conn(SESSION)), (0, None));
}
