//! When a leader hands over. The part is stepped within a node, which shows it the other parts.

use super::*;
use crate::effects::{Effects, Input};
use crate::keeping::{self, Need, Why};
use crate::node::look;
use crate::node::tests::{Host, joins, r};
use crate::recovered::Recovered;
use crate::restoring::Restoring;
use quorate_order::{OrderConfig, Protocol};
use quorate_types::{FaultModel, Faults, InstanceId, Seq};

fn lags_at(host: &Host) -> Option<Time> {
    host.node.leading.lags_at(&look!(host.node, leading))
}

fn gathers_at(host: &Host) -> Option<Time> {
    host.node.leading.gathers_at(&look!(host.node, leading))
}

/// What the leader has to execute next is not in its memory, on its disk or in a checkpoint. It can not order the border that the others
/// need to make one.
#[test]
fn a_leader_that_lacks_what_comes_next_hands_over_also_where_there_is_one_instance() {
    let config = NodeConfig { order: OrderConfig::new(Protocol::RAFT, r(4), vec![r(4)], 6), ..joins() };
    let restoring = Restoring::new(config.clone(), Recovered::default()).expect("nothing was there");
    let mut host = Host::restart(restoring, config.clone());
    host.step(Input::Deadline);
    assert!(host.node.groups[0].standing().leading, "nobody else votes");
    assert_eq!(lags_at(&host), None);
    let since = Time::ZERO.plus(Span::from_secs(3));
    let fetch = keeping::In::Fetch { need: Need::new(Seq::new(8), Why::Behind), connected: Vec::new() };
    host.node.keep(since, fetch, &mut Effects::new());
    assert_eq!(lags_at(&host), Some(since.plus(config.order.patience())));
}

/// A replica that leads the first of two instances hears no leader in the other one, and is told that another member does.
fn told(order: OrderConfig) -> Host {
    let config = NodeConfig { order, instances: 2, ..joins() };
    let restoring = Restoring::new(config.clone(), Recovered::default()).expect("nothing was there");
    let mut host = Host::restart(restoring, config);
    host.step(Input::Deadline);
    assert!(host.node.groups[0].standing().leading, "nobody else votes");
    let second = &mut host.node.groups[1];
    second.is_led(second.view(), None);
    let heard = [1, 2].map(InstanceId::new).into_iter().collect();
    host.node.lead(Time::ZERO, In::Sight(r(2), heard), &mut Effects::new());
    host.node.lead(Time::ZERO, In::TurnEnd, &mut Effects::new());
    host
}

fn mod_smart(model: FaultModel) -> OrderConfig {
    OrderConfig { faults: Faults::of(model), ..OrderConfig::new(Protocol::MOD_SMART, r(4), vec![r(4)], 6) }
}

#[test]
fn a_leader_that_is_blind_hands_over_with_raft() {
    let raft = told(OrderConfig::new(Protocol::RAFT, r(4), vec![r(4)], 6));
    assert!(gathers_at(&raft).is_some(), "it is blind");
    let smart = told(mod_smart(FaultModel::Crash));
    assert_eq!(gathers_at(&smart), None);
    assert!(smart.node.leading.sights.blind_since.is_some(), "it knows that it is blind");
}

#[test]
fn what_a_liar_says_it_hears_deposes_nobody() {
    let lied = told(mod_smart(FaultModel::Byzantine));
    assert_eq!(gathers_at(&lied), None);
    assert!(lied.node.leading.sights.others.is_empty(), "it keeps nothing of that");
    assert!(
        lied.node.leading.sights.hears_all(r(2), &seen_together(&look!(lied.node, leading))),
        "and judges nobody by it"
    );
}

/// Three of four must have room. That a member's disk is full it says itself.
#[test]
fn a_leader_takes_writes_while_enough_members_have_room() {
    let restoring = Restoring::new(joins(), Recovered::default()).expect("nothing was there");
    let mut host = Host::restart(restoring, joins());
    let takes = |host: &Host| {
        let seen =
            (host.node.leading.takes_writes(&look!(host.node, leading)), host.node.status().log.takes_writes);
        assert_eq!(seen.0, seen.1, "the status says the same");
        seen.0
    };
    assert!(takes(&host), "whoever says nothing has room");
    for (member, room, expected) in [
        (r(1), Room::Full, true),
        (r(2), Room::Frees, false),
        (r(2), Room::Data, true),
        (r(3), Room::Full, false),
    ] {
        host.node.lead(Time::ZERO, In::Room(member, room), &mut Effects::new());
        assert_eq!(takes(&host), expected, "{member} has {room:?}");
    }
}
