//! The order of what passes through an inbox, over two ways.

use super::*;
use bytes::Bytes;

const A: ConnId = ConnId::new(7);
const B: ConnId = ConnId::new(8);

fn frame(conn: ConnId, byte: u8) -> Input {
    Input::Frame { conn, frame: Frame { kind: FrameKind::Requests, payload: Bytes::from(vec![byte]) } }
}

fn inbox(of: impl IntoIterator<Item = Input>) -> Inbox {
    let mut inbox = Inbox::default();
    of.into_iter().for_each(|input| inbox.put(input));
    inbox
}

/// Offers what is there to a pillar that answers so. Gives what it was shown.
fn offered(inbox: &mut Inbox, answer: impl Fn(u8) -> Offered) -> Vec<u8> {
    let mut shown = Vec::new();
    inbox.offer(|_, frame| {
        shown.push(frame.payload[0]);
        answer(frame.payload[0])
    });
    shown
}

fn rest(inbox: &mut Inbox) -> Vec<u8> {
    let byte = |input| match input {
        Input::Frame { frame, .. } => frame.payload[0],
        _ => 0,
    };
    inbox.pass_on().map(byte).collect()
}

#[test]
fn what_a_pillar_takes_does_not_go_to_the_main_lane() {
    let mut inbox = inbox([frame(A, 1), Input::Closed(B), frame(A, 2)]);
    assert_eq!((inbox.bytes(), inbox.is_empty()), (2, false));
    assert_eq!(offered(&mut inbox, |_| Offered::Taken), [1, 2]);
    assert_eq!(
        (inbox.bytes(), rest(&mut inbox)),
        (0, vec![0]),
        "the end of a connection is for the main lane"
    );
}

#[test]
fn behind_a_refused_frame_its_connection_waits_and_others_do_not() {
    let refuse = |byte| if byte == 1 { Offered::Refused } else { Offered::Taken };
    let mut inbox = inbox([frame(A, 1), frame(A, 2), frame(B, 3)]);
    assert_eq!(offered(&mut inbox, refuse), [1, 3]);
    assert_eq!(rest(&mut inbox), [1, 2], "in their order");
}

/// On one link come the messages of several instances.
#[test]
fn behind_a_frame_of_another_instance_nothing_waits() {
    let other = |byte| if byte == 1 { Offered::Other } else { Offered::Taken };
    let mut inbox = inbox([frame(A, 1), frame(A, 2)]);
    assert_eq!(offered(&mut inbox, other), [1, 2]);
    assert_eq!(offered(&mut inbox, |_| Offered::Taken), [1], "the next pillar gets what is left");
}

#[test]
fn a_connection_waits_until_the_main_lane_has_heard_all_of_it() {
    let mut inbox = inbox([frame(A, 1), frame(B, 2), frame(A, 3)]);
    assert_eq!(rest(&mut inbox), [1, 2, 3]);
    let mut then = |heard, shown: &[u8], left: &[u8]| {
        inbox.heard(heard);
        inbox.put(frame(A, 4));
        inbox.put(frame(B, 5));
        assert_eq!(offered(&mut inbox, |_| Offered::Taken), shown, "{heard} were heard");
        assert_eq!(rest(&mut inbox), left, "{heard} were heard");
    };
    then(1, &[], &[4, 5]);
    // Now the last frame of A is the fourth that was passed on, and that of B the fifth.
    then(4, &[4], &[5]);
    then(6, &[4, 5], &[]);
}
