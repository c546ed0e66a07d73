//! Connections alone: dialed, greeted, lost, and places of members that come and go.

use super::{Links, MEMBERS_MAX};
use crate::effects::Effect;
use crate::step::tests::Desk;
use quorate_types::{ClusterId, ConnId, Incarnation, ReplicaId, View};
use quorate_wire::{FrameKind, OutFrame, Welcome};

fn links(members: u16) -> Links {
    let ids: Vec<ReplicaId> = (1..=members).map(ReplicaId::new).collect();
    Links::new(&ids, Some(ClusterId::new(9)))
}

fn welcome(replica: u16, cluster: u128) -> bytes::Bytes {
    let welcome = Welcome {
        format: 1,
        feature_level: 1,
        cluster: ClusterId::new(cluster),
        replica: ReplicaId::new(replica),
        incarnation: Incarnation::new(1),
        view: View::new(1),
        leader: None,
    };
    crate::step::tests::arrives(&welcome.frame()).payload
}

#[test]
fn a_member_is_dialed_and_greeted_and_dialed_again_when_it_is_lost() {
    let (mut desk, mut links) = (Desk::new(), links(2));
    let first = desk.connect(&mut links, 0);
    let effects = desk.effects();
    assert!(matches!(&effects[0], Effect::Dial { conn, .. } if *conn == first));
    assert!(matches!(&effects[1], Effect::Send { frame, .. } if frame.kind() == FrameKind::Hello));
    assert_eq!((links.up(0), links.up(1), links.up_bits()), (Some(first), None, 1));

    assert!(links.lost(&mut desk.step(), 0, "cut".into()), "it was connected");
    assert!(!links.lost(&mut desk.step(), 0, "cut".into()), "and is not any more");
    assert_eq!(links.due(&mut desk.step(), 0), None);
    assert_eq!(links.at(0).conn(), None, "not at once");
    desk.later(2000);
    let second = desk.connect(&mut links, 0);
    assert!(second > first, "INV-CLIENT-7: no number is used twice");
    links.check();
}

#[test]
fn who_says_nothing_is_given_up() {
    let (mut desk, mut links) = (Desk::new(), links(1));
    assert_eq!(links.due(&mut desk.step(), 0), None);
    desk.later(2000);
    assert_eq!(links.due(&mut desk.step(), 0), Some("no connection in time"));
    links.connected(&mut desk.step(), ConnId::FIRST);
    desk.later(2000);
    assert_eq!(links.due(&mut desk.step(), 0), Some("no welcome in time"));
}

#[test]
fn only_the_member_that_is_meant_is_taken() {
    let links = links(1);
    assert!(links.check_welcome(0, welcome(1, 9)).is_ok());
    assert!(links.check_welcome(0, welcome(2, 9)).is_err_and(|why| why.contains("answers at this address")));
    assert!(links.check_welcome(0, welcome(1, 8)).is_err_and(|why| why.contains("belongs to cluster")));
    assert!(links.check_welcome(0, bytes::Bytes::from_static(b"?")).is_err());
}

#[test]
fn what_is_handed_over_counts_until_it_left() {
    let (mut desk, mut links) = (Desk::new(), links(1));
    let conn = desk.connect(&mut links, 0);
    let frame = OutFrame::new(FrameKind::Requests, &[], vec![bytes::Bytes::from_static(&[0; 100])]);
    let len = frame.len();
    links.send(&mut desk.step(), 0, frame);
    assert!(links.at(0).has_room(9, len + 10) && !links.at(0).has_room(10, len + 10));
    links.written(conn, len);
    assert!(links.at(0).has_room(1 << 30, 1), "what is larger than all goes alone");
}

#[test]
fn who_joins_takes_a_free_place() {
    let (mut desk, mut links) = (Desk::new(), links(MEMBERS_MAX as u16));
    assert_eq!(links.join(ReplicaId::new(3)), None, "it has one");
    assert_eq!(links.join(ReplicaId::new(100)), None, "there is none");
    links.leave(4);
    assert_eq!((links.of(ReplicaId::new(5)), links.may_come()), (None, MEMBERS_MAX - 1));
    assert_eq!(links.due(&mut desk.step(), 4), None);
    assert_eq!(links.at(4).conn(), None, "who left is not dialed");
    assert_eq!(links.join(ReplicaId::new(100)), Some(4));
    assert_eq!(links.of(ReplicaId::new(100)), Some(4));
}
