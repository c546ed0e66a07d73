//! The record that says where a stay begins.

use super::*;
use quorate_order::Protocol;
use quorate_types::ReplicaId;

#[test]
fn a_birth_comes_back_from_the_log() {
    let order = OrderConfig::new(Protocol::RAFT, ReplicaId::new(1), vec![ReplicaId::new(1)], 6);
    let first = order.next_stay(None, None).expect("an anchor");
    let again = order.next_stay(Some((Slot::ZERO, &first)), None).expect("the stay after it");
    assert_eq!(order.stay_of(Slot::ZERO, &first), Ok(0));
    assert_eq!(order.stay_of(Slot::new(7), &again), Ok(1));
    for (record, anchor) in [(Slot::ZERO, first), (Slot::new(7), again)] {
        let birth = Birth { id: InstanceId::new(3), record, anchor };
        assert_eq!(Birth::read(&birth.to_record()), Ok(birth.clone()));
        let cut = Record { head: birth.to_record().head.slice(..9), ..birth.to_record() };
        assert!(matches!(Birth::read(&cut), Err(Halt::LogInconsistent { .. })));
    }
}
