//! How connections are bound to instances; what a leader proposed itself.

use super::{Bindings, FIRST};
use crate::config::NodeConfig;
use crate::effects::Input;
use crate::levels::LevelConfig;
use crate::members::tests::{Host, joins, r};
use crate::recovered::Recovered;
use crate::restoring::Restoring;
use quorate_order::{OrderConfig, Protocol};
use quorate_types::{ConnId, Seq, Time};
use quorate_wire::FEATURE_LEVEL;

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
    // Another leader of instance 1 is nothing to whoever goes through the third one.
    assert!(bindings.goes_on(conn(4), 0));
    assert!(!bindings.goes_on(conn(4), 2), "its own");
    assert!(!bindings.goes_on(conn(5), 2), "it goes through none");
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
    assert_eq!(bindings.choose(conn(1), &[1], 0), Some(1));
    assert_eq!(bindings.lane_to_read(conn(1), 4), None, "its instance has it");
    bindings.forget(conn(4));
    assert_eq!(bindings.lane_to_read(conn(5), 4), Some(1), "the one with the fewest");
}

/// Where nobody lies it need not wait for its share of the interval, at the present feature level either.
#[test]
fn a_border_that_is_asked_for_comes_at_once() {
    let order = OrderConfig::new(Protocol::RAFT, r(4), vec![r(4)], 6);
    let config = NodeConfig { order, level: LevelConfig::made_with(FEATURE_LEVEL), ..joins() };
    let restoring = Restoring::new(config.clone(), Recovered::default()).expect("nothing was there");
    let mut host = Host::restart(restoring, config);
    host.step(Input::Deadline);
    host.node.keeping.order_border();
    host.step(Input::Deadline);
    assert_eq!(host.node.engine.merge().seq(), Seq::new(1), "a batch that asks for a border");
    assert_eq!(host.images[0].border, 1, "which is there");
}

/// What a leader of before proposed is executed by all, too: only one of them says of a request in it that it was not taken.
#[test]
fn a_leader_knows_what_it_proposed_itself() {
    let config = NodeConfig { order: OrderConfig::new(Protocol::RAFT, r(4), vec![r(4)], 6), ..joins() };
    let restoring = Restoring::new(config.clone(), Recovered::default()).expect("nothing was there");
    let mut host = Host::restart(restoring, config);
    host.step(Input::Deadline);
    assert!(!host.node.proposed_here(FIRST), "nothing was proposed");
    host.node.keeping.order_border();
    host.step(Input::Deadline);
    assert_eq!(host.node.engine.merge().seq(), Seq::new(1), "a batch that asks for a border");
    assert!(host.node.proposed_here(FIRST));
    let group = &mut host.node.groups[FIRST];
    let (view, decided) = (group.view(), group.decided());
    group.lead_mut().announced(Time::ZERO, view.next(), Some(r(4)));
    group.lead_mut().settle(decided);
    assert!(!host.node.proposed_here(FIRST), "it was there when this view began");
    host.node.groups[FIRST].is_led(view, Some(r(1)));
    assert!(!host.node.proposed_here(FIRST), "and another one leads");
}
