//! How connections are bound to instances, and spread over links.

use super::Bindings;
use quorate_types::ConnId;

#[test]
fn connections_are_spread_over_the_instances_that_lead_here() {
    let mut bindings = Bindings::default();
    let conn = ConnId::new;
    let elsewhere = 1;
    assert_eq!(bindings.choose(conn(1), &[], 0), None, "none leads");
    let chosen: Vec<_> = (1..=4).map(|id| bindings.choose(conn(id), &[0, 2], elsewhere)).collect();
    assert_eq!(chosen, [Some(0), Some(2), Some(0), Some(2)]);
    assert_eq!(bindings.bound(conn(3), &[0, 1, 2]), Some(0));
    bindings.forget(conn(1));
    assert_eq!(bindings.choose(conn(5), &[0, 2], elsewhere), Some(0), "the one with the fewest");
    assert_eq!(bindings.choose(conn(6), &[0, 2], 0), Some(0), "whose turn it is");
    bindings.forget(conn(6));
    assert_eq!(bindings.bound(conn(2), &[0]), None, "its instance is led elsewhere now");
    assert_eq!(bindings.choose(conn(2), &[0], elsewhere), Some(0));
    bindings.forget_instance(0);
    assert!(!bindings.is_bound(conn(5), 0));
    assert!(bindings.is_bound(conn(4), 2));
    // Another leader of instance 1 changes nothing for a client of the third instance.
    assert!(bindings.goes_on(conn(4), 0));
    assert!(!bindings.goes_on(conn(4), 2), "its own");
    assert!(!bindings.goes_on(conn(5), 2), "it goes through none");
}

/// Connections that only read are spread over all links but the first. A connection that writes goes to the link of its instance.
#[test]
fn connections_that_only_read_are_spread_over_links() {
    let mut bindings = Bindings::default();
    let conn = ConnId::new;
    assert_eq!(bindings.link_to_read(conn(1), 1), None, "there is one link");
    let links: Vec<_> = (1..=4).map(|id| bindings.link_to_read(conn(id), 4)).collect();
    assert_eq!(links, [Some(1), Some(2), Some(3), Some(1)]);
    assert_eq!(bindings.link_to_read(conn(1), 4), None, "it has one");
    assert_eq!(bindings.choose(conn(1), &[1], 0), Some(1));
    assert_eq!(bindings.link_to_read(conn(1), 4), None, "its instance has it");
    bindings.forget(conn(4));
    assert_eq!(bindings.link_to_read(conn(5), 4), Some(1), "the one with the fewest");
}

/// The lane of an instance takes requests of its connections itself, until it hears that they go elsewhere.
#[test]
fn connections_that_leave_an_instance_are_named() {
    let mut bindings = Bindings::default();
    let conn = ConnId::new;
    assert_eq!(bindings.left(), []);
    bindings.bind(conn(1), 0);
    bindings.bind(conn(1), 0);
    assert_eq!(bindings.left(), [], "it stays");
    bindings.bind(conn(1), 2);
    bindings.bind(conn(2), 1);
    bindings.forget(conn(2));
    bindings.forget(conn(3));
    assert_eq!(bindings.left(), [(conn(1), 0), (conn(2), 1)]);
    assert_eq!(bindings.left(), [], "once");
}
