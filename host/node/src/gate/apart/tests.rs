//! The gate's lane, stepped alone, and what the main lane sees of it.

use super::*;
use crate::effects::Effect;
use crate::node::tests::{joins, r};
use quorate_types::View;
use quorate_wire::{FRAME_HEADER, FrameKind, Hello, Role};
use std::collections::BTreeMap;

const NOW: Time = Time::ZERO;

fn conn(id: u64) -> ConnId {
    ConnId::new(id)
}

fn apart(config: &NodeConfig) -> Gate {
    let mut gate = Gate::new(config, Lives::default());
    gate.begin(r(4), 7);
    gate.wrote_life(RecordId::new(1));
    gate.stands_apart(config, notice(None), RecordId::ZERO);
    gate
}

fn notice(leader: Option<u16>) -> LeaderNotice {
    LeaderNotice { view: View::ZERO, leader: leader.map(ReplicaId::new) }
}

fn accepted(id: u64) -> In {
    In::Accepted { conn: conn(id), from: None }
}

/// The main lane sees a connection only when it has heard of it.
#[test]
fn the_main_lane_sees_what_it_heard_of() {
    let (config, mut out) = (joins(), Effects::new());
    let mut gate = apart(&config);
    gate.lane().expect("it has one").happened(NOW, accepted(1), &mut out);
    assert!(gate.own_peers().conn(conn(1)).is_some(), "the lane has it");
    assert!(gate.peers().conn(conn(1)).is_none());
    assert!(matches!(gate.hear(), Some(Said::Changed(changes)) if changes.is_empty()));
    assert!(gate.peers().conn(conn(1)).is_some());
    assert!(gate.hear().is_none());
}

#[test]
fn the_end_of_a_connection_comes_after_everything_else() {
    let (config, mut out) = (joins(), Effects::new());
    let mut gate = apart(&config);
    let lane = gate.lane().expect("it has one");
    lane.happened(NOW, accepted(1), &mut out);
    let nonsense = Frame { kind: FrameKind::Requests, payload: bytes::Bytes::new() };
    lane.framed(NOW, conn(1), nonsense, &mut out);
    lane.happened(NOW, In::Closed(conn(1)), &mut out);
    let mut said = Vec::new();
    while let Some(next) = gate.hear() {
        said.push(next);
    }
    let met = said.iter().position(|said| matches!(said, Said::Met(of, None) if *of == conn(1)));
    let closed = said.iter().position(|said| matches!(said, Said::Closed(of) if *of == conn(1)));
    assert!(met.is_some() && met < closed, "{said:?}");
    assert!(gate.peers().conn(conn(1)).is_none());
}

/// When the main lane rejects a peer, the lane closes the connection, which it has.
#[test]
fn the_lane_does_what_the_main_lane_wants() {
    let (config, mut out) = (joins(), Effects::new());
    let mut gate = apart(&config);
    gate.lane().expect("it has one").happened(NOW, accepted(1), &mut out);
    out.drain().for_each(drop);
    gate.reject(conn(1), "nonsense".into(), &mut out);
    gate.step(NOW, (&config, RecordId::ZERO), In::Closed(conn(1)), &mut out);
    assert!(out.is_empty() && gate.own_peers().conn(conn(1)).is_some());
    let lane = gate.lane().expect("it has one");
    assert!(lane.asks() && !lane.asks(), "it is asked once");
    lane.take_turn(NOW, &mut out);
    assert!(out.drain().any(|effect| matches!(effect, Effect::Close(of) if of == conn(1))));
    assert!(gate.own_peers().conn(conn(1)).is_none());
    while gate.hear().is_some() {}
    assert_eq!(gate.rejected(), 1);
}

/// The lane goes by what it was told: it dials no member before the main lane has said that the own life is durable.
#[test]
fn it_goes_by_what_it_was_told() {
    let (config, mut out) = (joins(), Effects::new());
    let mut gate = apart(&config);
    let dials = |gate: &mut Gate, out: &mut Effects| {
        gate.step(NOW, (&config, RecordId::new(1)), In::Deadline, out);
        gate.lane().expect("it has one").take_turn(NOW, out);
        out.drain().filter(|effect| matches!(effect, Effect::Dial { .. })).count()
    };
    assert_eq!(dials(&mut gate, &mut out), 0, "the main lane knows, and did not say so");
    let lane = gate.lane().expect("it has one");
    lane.learn(&config, notice(None), RecordId::new(1));
    assert_eq!(dials(&mut gate, &mut out), 3);
    let lane = gate.lane().expect("it has one");
    lane.learn(&config, notice(None), RecordId::new(2));
    assert!(!lane.asks(), "that is no news for it");
    lane.learn(&config, notice(Some(1)), RecordId::new(2));
    assert!(lane.asks());
}

/// A membership keeps its number when a change to it ends, and has fewer members then. The lane must refuse those that left.
#[test]
fn a_member_that_left_is_refused_even_if_the_number_stays() {
    let (config, mut out) = (joins(), Effects::new());
    let mut gate = apart(&config);
    let mut fewer = config.clone();
    let stay = config.members.all().iter().filter(|member| member.replica != r(1)).cloned().collect();
    fewer.members.replace(config.members.number(), stay, BTreeMap::new(), [r(1)].into());
    gate.meet(NOW, &fewer.members, &mut out);
    let lane = gate.lane().expect("it has one");
    lane.learn(&fewer, notice(None), RecordId::ZERO);
    lane.take_turn(NOW, &mut out);
    lane.happened(NOW, accepted(1), &mut out);
    let left = config.members.get(r(1)).expect("it was a member");
    let role = Role::Peer { replica: r(1), incarnation: left.incarnation };
    let hello = Hello::new(config.members.cluster(), Some(r(4)), role)
        .of_member(config.members.parameters(), 9)
        .able(config.level.highest);
    let payload = hello.frame().to_vec().split_off(FRAME_HEADER).into();
    lane.framed(NOW, conn(1), Frame { kind: FrameKind::Hello, payload }, &mut out);
    assert!(gate.own_peers().conn(conn(1)).is_none(), "it was let in");
}
