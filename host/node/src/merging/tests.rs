//! How connections are bound to instances.

use super::Bindings;
use quorate_types::ConnId;

#[test]
fn connections_are_spread_over_the_instances_that_lead_here() {
    let mut bindings = Bindings::default();
    let conn = ConnId::new;
    let (new, as_before) = (true, false);
    assert_eq!(bindings.choose(conn(1), &[]), None, "none leads");
    let chosen: Vec<_> = (1..=4).map(|id| bindings.choose(conn(id), &[0, 2])).collect();
    assert_eq!(chosen, [Some((0, new)), Some((2, new)), Some((0, new)), Some((2, new))]);
    assert_eq!(bindings.choose(conn(3), &[0, 1, 2]), Some((0, as_before)));
    bindings.forget(conn(1));
    assert_eq!(bindings.choose(conn(5), &[0, 2]), Some((0, new)), "the one with the fewest");
    assert_eq!(bindings.choose(conn(2), &[0]), Some((0, new)), "its instance is led elsewhere now");
    bindings.forget_instance(0);
    assert!(!bindings.is_bound(conn(5), 0));
    assert!(bindings.is_bound(conn(4), 2));
}

/// What readers cost is spread over all lanes beside the first; whoever writes as well goes where its instance is.
#[test]
fn connections_that_only_read_are_spread_over_lanes() {
    let mut bindings = Bindings::default();
    let conn = ConnId::new;
    assert_eq!(bindings.lane_to_read(conn(1), 1), None, "there is one lane");
    let lanes: Vec<_> = (1..=4).map(|id| bindings.lane_to_read(conn(id), 4)).collect();
    assert_eq!(lanes, [Some(1), Some(2), Some(3), Some(1)]);
    assert_eq!(bindings.lane_to_read(conn(1), 4), None, "it has one");
    assert_eq!(bindings.choose(conn(1), &[1]), Some((1, true)));
    assert_eq!(bindings.lane_to_read(conn(1), 4), None, "its instance has it");
    bindings.forget(conn(4));
    assert_eq!(bindings.lane_to_read(conn(5), 4), Some(1), "the one with the fewest");
}
