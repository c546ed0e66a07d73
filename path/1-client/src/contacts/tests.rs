//! Connections alone: dialed, greeted, lost, and places of members that come and go.

use super::{Contacts, MEMBERS_MAX};
use crate::effects::Effect;
use crate::step::tests::Desk;
use quorate_types::{ClusterId, ConnId, Incarnation, ReplicaId, View};
use quorate_wire::{FrameKind, OutFrame, Welcome};

fn contacts(members: u16) -> Contacts {
    let ids: Vec<ReplicaId> = (1..=members).map(ReplicaId::new).collect();
    Contacts::new(&ids, Some(ClusterId::new(9)))
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
        era: 1,
        service: quorate_types::ServiceVersion::UNNAMED,
    };
    crate::step::tests::arrives(&welcome.frame()).payload
}

#[test]
fn a_member_is_dialed_and_greeted_and_dialed_again_when_it_is_lost() {
    let (mut desk, mut contacts) = (Desk::new(), contacts(2));
    let first = desk.connect(&mut contacts, 0);
    let effects = desk.effects();
    assert!(matches!(&effects[0], Effect::Dial { conn, .. } if *conn == first));
    assert!(matches!(&effects[1], Effect::Send { frame, .. } if frame.kind() == FrameKind::Hello));
    assert_eq!((contacts.up(0), contacts.up(1), contacts.up_bits()), (Some(first), None, 1));

    assert!(contacts.lost(&mut desk.step(), 0, "cut".into()), "it was connected");
    assert!(!contacts.lost(&mut desk.step(), 0, "cut".into()), "and is not any more");
    assert_eq!(contacts.due(&mut desk.step(), 0), None);
    assert_eq!(contacts.at(0).conn(), None, "not at once");
    desk.later(2000);
    let second = desk.connect(&mut contacts, 0);
    assert!(second > first, "INV-CLIENT-7: no number is used twice");
    contacts.check();
}

#[test]
fn who_says_nothing_is_given_up() {
    let (mut desk, mut contacts) = (Desk::new(), contacts(1));
    assert_eq!(contacts.due(&mut desk.step(), 0), None);
    desk.later(2000);
    assert_eq!(contacts.due(&mut desk.step(), 0), Some("no connection in time"));
    contacts.connected(&mut desk.step(), ConnId::FIRST);
    desk.later(2000);
    assert_eq!(contacts.due(&mut desk.step(), 0), Some("no welcome in time"));
}

#[test]
fn only_the_member_that_is_meant_is_taken() {
    let contacts = contacts(1);
    assert!(contacts.check_welcome(0, welcome(1, 9)).is_ok());
    assert!(
        contacts.check_welcome(0, welcome(2, 9)).is_err_and(|why| why.contains("answers at this address"))
    );
    assert!(contacts.check_welcome(0, welcome(1, 8)).is_err_and(|why| why.contains("belongs to cluster")));
    assert!(contacts.check_welcome(0, bytes::Bytes::from_static(b"?")).is_err());
}

#[test]
fn what_is_handed_over_counts_until_it_left() {
    let (mut desk, mut contacts) = (Desk::new(), contacts(1));
    let conn = desk.connect(&mut contacts, 0);
    let frame = OutFrame::new(FrameKind::Requests, &[], vec![bytes::Bytes::from_static(&[0; 100])]);
    let len = frame.len();
    contacts.send(&mut desk.step(), 0, frame);
    assert!(contacts.at(0).has_room(9, len + 10) && !contacts.at(0).has_room(10, len + 10));
    contacts.written(conn, len);
    assert!(contacts.at(0).has_room(1 << 30, 1), "what is larger than all goes alone");
}

#[test]
fn who_joins_takes_a_free_place() {
    let (mut desk, mut contacts) = (Desk::new(), contacts(MEMBERS_MAX as u16));
    assert_eq!(contacts.join(ReplicaId::new(3)), None, "it has one");
    assert_eq!(contacts.join(ReplicaId::new(100)), None, "there is none");
    contacts.leave(4);
    assert_eq!((contacts.of(ReplicaId::new(5)), contacts.may_come()), (None, MEMBERS_MAX - 1));
    assert_eq!(contacts.due(&mut desk.step(), 4), None);
    assert_eq!(contacts.at(4).conn(), None, "who left is not dialed");
    assert_eq!(contacts.join(ReplicaId::new(100)), Some(4));
    assert_eq!(contacts.of(ReplicaId::new(100)), Some(4));
}
