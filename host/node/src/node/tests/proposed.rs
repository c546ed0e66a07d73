//! A border on request, and batches that the leader proposed itself.

use crate::config::NodeConfig;
use crate::effects::Input;
use crate::group::FIRST;
use crate::node::tests::{Host, joins, r};
use crate::recovered::Recovered;
use crate::restoring::Restoring;
use quorate_order::{OrderConfig, Protocol};
use quorate_types::{Seq, Time};

/// Where no replica lies, a border need not wait for its share of the interval.
#[test]
fn a_border_that_is_asked_for_comes_at_once() {
    let order = OrderConfig::new(Protocol::RAFT, r(4), vec![r(4)], 6);
    let config = NodeConfig { order, ..joins() };
    let restoring = Restoring::new(config.clone(), Recovered::default()).expect("nothing was there");
    let mut host = Host::restart(restoring, config);
    host.step(Input::Deadline);
    host.node.keeping.order_border();
    host.step(Input::Deadline);
    assert_eq!(host.node.engine.merge().seq(), Seq::new(1), "a batch that asks for a border");
    assert_eq!(host.images[0].border, 1, "which is there");
}

fn proposed_here(host: &Host) -> bool {
    host.node.groups.first().proposed(host.node.engine.merge(), r(4))
}

/// All replicas execute what an earlier leader proposed, but only one says that a request in it was not taken.
#[test]
fn a_leader_knows_what_it_proposed_itself() {
    let config = NodeConfig { order: OrderConfig::new(Protocol::RAFT, r(4), vec![r(4)], 6), ..joins() };
    let restoring = Restoring::new(config.clone(), Recovered::default()).expect("nothing was there");
    let mut host = Host::restart(restoring, config);
    host.step(Input::Deadline);
    assert!(!proposed_here(&host), "nothing was proposed");
    host.node.keeping.order_border();
    host.step(Input::Deadline);
    assert_eq!(host.node.engine.merge().seq(), Seq::new(1), "a batch that asks for a border");
    assert!(proposed_here(&host));
    let group = &mut host.node.groups[FIRST];
    let (view, decided) = (group.view(), group.decided());
    group.lead_mut().announced(Time::ZERO, view.next(), Some(r(4)));
    group.lead_mut().settle(decided);
    assert!(!proposed_here(&host), "it was there when this view began");
    host.node.groups[FIRST].is_led(view, Some(r(1)));
    assert!(!proposed_here(&host), "and another one leads");
}
