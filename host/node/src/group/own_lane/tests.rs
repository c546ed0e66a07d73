//! The lane's own bookkeeping, beside a protocol that says what the test wants.

use super::*;
use quorate_admit::AdmissionLimits;
use quorate_order::{OrderConfig, Protocol};

/// In another view the bounds of the one before do not hold, and nobody waits for its batches.
#[test]
fn another_view_begins_without_what_was_to_be_proposed() {
    let (me, id) = (ReplicaId::new(1), InstanceId::new(1));
    let order = OrderConfig::new(Protocol::RAFT, me, vec![me], 6).build(id, 0);
    let patience = Span::from_millis(400);
    let pace = Pace { batches_max: 2, bytes_max: 1 << 20, pipelined: true, gathering_max: patience };
    let pillar = Pillar::new(order, AdmissionLimits::default());
    let mut lane = OwnLane::new(Setting { me, id, protocol: Protocol::RAFT, pace, patience }, 6, pillar);
    let slot = Slot::new;
    lane.proposer.settle(&Bounds { decided: slot(3), last: slot(9), border: None, wanted: slot(0) });
    lane.ahead.push_back(Batch::no_op(slot(4)));
    let mut turn = Turn { proposed: Some(slot(4)), ..Turn::default() };
    lane.effects.push(Effect::LeaderChanged { view: View::new(9), leader: Some(me), planned: false });
    lane.settle(&mut turn, &mut effects::Effects::new());
    assert_eq!((lane.proposer, lane.waiting_bytes(), turn.proposed), (Proposer::default(), 0, None));
    assert_eq!(turn.effects.len(), 1, "the main lane hears of it");
}
