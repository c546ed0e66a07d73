//! What each kind of connection may send.

use super::*;
use quorate_order::Protocol;
use quorate_types::{Seq, Slot, Time};
use quorate_wire::{AdminCommand, FrameReader, Link, OutFrame, caught_up_frame, fill_frame, room_frame};

const MEMBER: Conn = Conn::From(ReplicaId::new(2), Link { number: 0, of: 1 });

fn read(who: Conn, sent: &OutFrame) -> Arrived {
    let mut frames = FrameReader::new(1 << 20);
    frames.push(&sent.to_vec());
    let frame = frames.frame().expect("it is a frame").expect("and whole");
    let members = (1..=3).map(ReplicaId::new).collect();
    Arrived::read(who, frame, &OrderConfig::new(Protocol::RAFT, ReplicaId::new(1), members, 6))
}

fn plain(kind: FrameKind, payload: &[u8]) -> OutFrame {
    OutFrame::new(kind, payload, vec![])
}

#[test]
fn a_member_says_what_members_say() {
    let two = ReplicaId::new(2);
    let room = read(MEMBER, &room_frame(Room::Frees));
    assert!(matches!(room, Arrived::Member(from, Says::Room(Room::Frees)) if from == two), "{room:?}");
    let caught_up = read(MEMBER, &caught_up_frame(InstanceId::new(3), &[two]));
    assert!(matches!(caught_up, Arrived::Member(_, Says::CaughtUp(_, who)) if who == [two]));
    let wrong = read(MEMBER, &plain(FrameKind::StatusRequest, &[]));
    assert!(matches!(&wrong, Arrived::Wrong(why) if why == "a member sends StatusRequest"), "{wrong:?}");
    let attest = quorate_wire::attest_request(Seq::new(5), quorate_types::Digest::new([7; 32]));
    assert!(matches!(read(MEMBER, &attest), Arrived::Wrong(_)), "only operators ask for signatures");
    let torn = read(MEMBER, &plain(FrameKind::Order, &[1, 2]));
    assert!(matches!(torn, Arrived::Wrong(_)), "{torn:?}");
}

/// The last of all instances stands for the whole slot, however many there are.
#[test]
fn a_place_that_can_not_be_is_refused() {
    let fill = |slot, instance| read(MEMBER, &fill_frame(Slot::new(slot), InstanceId::new(instance)));
    assert!(matches!(fill(7, INSTANCES_MAX), Arrived::Member(_, Says::Fill(_))));
    for (slot, instance) in [(7, 0), (7, INSTANCES_MAX + 1), (SLOT_MAX + 1, 1)] {
        assert!(matches!(fill(slot, instance), Arrived::Wrong(why) if why.starts_with("there is no place")));
    }
}

#[test]
fn who_only_listens_or_is_no_member_is_not_heard() {
    let told = read(Conn::Better(ReplicaId::new(9)), &room_frame(Room::Full));
    assert!(matches!(told, Arrived::Nothing), "what else it sends is for a member");
    let answer = read(Conn::To(ReplicaId::new(2), 0), &room_frame(Room::Full));
    assert!(matches!(answer, Arrived::Wrong(why) if why.contains("only listens")));
    let hello = read(Conn::Stranger { until: Time::ZERO }, &room_frame(Room::Full));
    assert!(matches!(hello, Arrived::Hello(_, None)), "the handshake judges it");
}

/// Requests of operators are recorded, except for those that only look. Of a backup only the beginning is recorded.
#[test]
fn operators_are_recorded() {
    let what = |frame: &OutFrame| match read(Conn::Admin, frame) {
        Arrived::Operator(asks) => asks.what(),
        other => panic!("{other:?}"),
    };
    assert_eq!(what(&plain(FrameKind::StatusRequest, &[])), None);
    assert_eq!(what(&plain(FrameKind::ScrubRequest, &[])), Some("scrub".into()));
    let to_two = plain(FrameKind::TransferRequest, &2u16.to_le_bytes());
    assert_eq!(what(&to_two), Some("hand over leadership to replica 2 (0: any)".into()));
    let begins = StateMessage::FetchManifest {
        seq: Seq::new(5),
        offset: 0,
        digest: quorate_types::Digest::new([7; 32]),
    };
    let goes_on = StateMessage::FetchManifest {
        seq: Seq::new(5),
        offset: 1,
        digest: quorate_types::Digest::new([7; 32]),
    };
    assert_eq!(what(&begins.frame()), Some("fetch the checkpoint of seq 5".into()));
    assert_eq!(what(&goes_on.frame()), None);
    let attest = quorate_wire::attest_request(Seq::new(5), quorate_types::Digest::new([7; 32]));
    assert_eq!(what(&attest), None);
    let wrong = read(Conn::Admin, &room_frame(Room::Full));
    assert!(matches!(wrong, Arrived::Wrong(why) if why == "an operator sends Room"));
    // An operator may say why; members tell each other no reasons.
    let signed = SignedCommand::new(3, AdminCommand::Raise(2));
    let because = signed.frame_because("all members can");
    assert_eq!(what(&signed.frame()), Some("command 3 of administrators".into()));
    assert_eq!(what(&because), Some("command 3 of administrators: all members can".into()));
    assert!(matches!(read(MEMBER, &signed.frame()), Arrived::Member(_, Says::Signed(_))));
    assert!(matches!(read(MEMBER, &because), Arrived::Wrong(_)));
}
