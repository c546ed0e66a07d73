//! A cluster whose faults were chosen by numbers keeps so many voters as those take: no change leads to fewer, neither one that is asked for
//! nor one that was ordered.

use crate::config::NodeConfig;
use crate::effects::Input;
use crate::gate::Wish;
use crate::node::tests::{CLUSTER, Host, joins, life_of, r};
use crate::reconfigure::Out;
use crate::recovered::Recovered;
use crate::restoring::Restoring;
use quorate_admit::{KnownMember, Members};
use quorate_order::{OrderConfig, Protocol};
use quorate_types::{FaultModel, Faults, MembershipId, Visigoth};
use quorate_wire::{Member, MemberRequest, Membership, Memberships, SystemCommand};

/// A cluster of r4 alone, which leads.
fn alone(model: FaultModel) -> Host {
    let known = KnownMember { replica: r(4), address: "r4".to_owned(), incarnation: life_of(r(4)) };
    let order = OrderConfig::new(Protocol::RAFT, r(4), vec![r(4)], 6);
    let config = NodeConfig {
        members: Members::new(CLUSTER, r(4), vec![known]),
        order: OrderConfig { faults: Faults::of(model), ..order },
        ..joins()
    };
    let restoring = Restoring::new(config.clone(), Recovered::default()).expect("nothing was there");
    let mut host = Host::restart(restoring, config);
    host.step(Input::Deadline);
    host
}

/// Survives one stopped replica, and says so by numbers: takes three voters.
fn three() -> FaultModel {
    FaultModel::Visigoth(Visigoth { u: 1, s: 1, o: 0, t_ms: 0 })
}

#[test]
fn a_change_to_too_few_voters_is_refused_when_it_is_asked_for() {
    let asked = |model| {
        let mut host = alone(model);
        let node = &mut host.node;
        let request = MemberRequest::Move { replica: r(4), address: "elsewhere:1".to_owned() };
        let mut out = Vec::new();
        let (look, wish) = (look!(node, reconfigure), Wish::Members(request));
        let (_, answer) = node.reconfigure.asked(&look, wish, &mut out);
        (answer, out.iter().any(|out| matches!(out, Out::Propose(_))))
    };
    assert_eq!(asked(FaultModel::Crash), ("begun m2".to_owned(), true));
    let (answer, proposed) = asked(three());
    assert!(answer.starts_with("error: so few voters (1) do not survive"), "{answer}");
    assert!(!proposed);
}

#[test]
fn a_change_to_too_few_voters_is_refused_when_it_was_ordered() {
    let begins = |model| {
        let mut host = alone(model);
        let node = &mut host.node;
        let voters = || vec![Member { address: "r4".to_owned(), ..Member::voter(r(4)) }];
        let membership = |number| Membership::new(MembershipId::new(number), voters()).expect("one voter");
        let change = Memberships::change(membership(1), membership(2)).expect("the next one");
        let mut out = Vec::new();
        node.reconfigure.executed(&look!(node, reconfigure), SystemCommand::Change(change), &mut out);
        out.iter().any(|out| matches!(out, Out::BeginChange(_)))
    };
    assert!(begins(FaultModel::Crash));
    assert!(!begins(three()));
}
