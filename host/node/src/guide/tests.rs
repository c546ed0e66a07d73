//! The leader that a client is sent to. The guide is stepped within a node, which shows it the other parts.

use super::*;
use crate::config::NodeConfig;
use crate::effects::Input;
use crate::node::Node;
use crate::node::tests::{Host, joins, r};
use crate::recovered::Recovered;
use crate::restoring::Restoring;
use quorate_order::{OrderConfig, Protocol};

fn instance_for(node: &mut Node, conn: ConnId) -> Option<usize> {
    let (guide, look) = node.guide();
    guide.instance_for(&look, conn, &mut Effects::new())
}

/// Before its first session a client's turn is unknown: it may have come to another instance that leads here.
#[test]
fn new_clients_move_to_the_instance_whose_turn_it_is() {
    let order = OrderConfig::new(Protocol::RAFT, r(4), vec![r(4)], 6);
    let config = NodeConfig { order, instances: 2, ..joins() };
    let restoring = Restoring::new(config.clone(), Recovered::default()).expect("nothing was there");
    let mut host = Host::restart(restoring, config);
    host.step(Input::Deadline);
    let (node, conn, mut out) = (&mut host.node, ConnId::new(7), Effects::new());
    assert_eq!(led_count(&node.groups), 2, "nobody else votes");
    assert_eq!(instance_for(node, conn), Some(0));
    node.guide.ranks.opened.push((conn, 5));
    let (guide, look) = node.guide();
    guide.end_turn(&look, &mut out);
    assert_eq!(instance_for(node, conn), Some(1), "its rank is odd");
    let rebind = |node: &mut Node, at| {
        let (guide, look) = node.guide();
        guide.rebind(&look, conn, at, &mut Effects::new())
    };
    assert!(!rebind(node, 1), "it is there");
    assert!(!rebind(node, 2), "that leads nowhere");
    assert_eq!(instance_for(node, conn), Some(1));
}
