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
