//! Which requests a lane takes without the main lane.

use super::*;
use bytes::Bytes;
use quorate_admit::{AdmissionLimits, Executed, Terms};
use quorate_merge::RecordIndex;
use quorate_types::{ItemsBuilder, Room, View};
use quorate_wire::write_request;

const CLIENT: ConnId = ConnId::new(7);
const SESSION: SessionId = SessionId { index: 3, generation: 2 };

fn number(number: u64) -> RequestNumber {
    RequestNumber::new(number)
}

fn requests(of: &[(SessionId, u64)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (session, last) in of {
        let mut commands = ItemsBuilder::new();
        commands.push(b"command");
        write_request(&mut bytes, *session, number(*last), RequestNumber::FIRST, &commands);
    }
    bytes
}

fn passed(conn: Option<ConnId>, may_all: bool) -> Passed {
    Passed {
        conn,
        requests: Bytes::new(),
        last: BTreeMap::from([(SESSION, number(5))]),
        view: View::FIRST,
        handed: RecordIndex(0),
        settled: true,
        frees: false,
        may_all,
    }
}

fn knowing() -> (Direct, Admission) {
    let mut direct = Direct::default();
    direct.learn(&passed(Some(CLIENT), true));
    (direct, Admission::new(AdmissionLimits::default()))
}

#[test]
fn the_next_requests_of_a_known_session_are_taken() {
    let (direct, mut admission) = knowing();
    let takes = |admission: &Admission, numbers: &[u64]| {
        let of: Vec<_> = numbers.iter().map(|number| (SESSION, *number)).collect();
        direct.takes(CLIENT, &requests(&of), admission)
    };
    assert_eq!(takes(&admission, &[6, 7]), Some(BTreeMap::from([(SESSION, number(5))])));
    assert_eq!(takes(&admission, &[5]), None, "it may be executed: execution must be asked");
    assert_eq!(
        takes(&admission, &[7]),
        None,
        "number 6 may be executed: what an earlier leader took comes late"
    );
    assert_eq!(takes(&admission, &[6, 8]), None);
    assert_eq!(takes(&admission, &[]), None, "a frame without requests breaks a rule");
    let terms = Terms {
        in_flight: 0,
        room: Room::Data,
        room_soon: false,
        settled: true,
        forbids: true,
        answer_bytes_max: 0,
    };
    let executed = |_, _| Executed::Not(number(5));
    admission.requests(&requests(&[(SESSION, 6)]), terms, executed, &mut Vec::new());
    assert_eq!(takes(&admission, &[6]), None, "it is in flight, or was executed since");
    assert!(takes(&admission, &[7]).is_some());
}

#[test]
fn nothing_else_is_taken() {
    let (direct, admission) = knowing();
    let takes = |conn, bytes: &[u8]| direct.takes(conn, bytes, &admission).is_some();
    let good = requests(&[(SESSION, 6)]);
    assert!(takes(CLIENT, &good) && direct.knows(CLIENT));
    assert!(!takes(ConnId::new(8), &good), "another connection: its replies would go elsewhere");
    let (other, later) = (SessionId { index: 4, ..SESSION }, SessionId { generation: 3, ..SESSION });
    for session in [other, later, SessionId { generation: 1, ..SESSION }] {
        assert!(!takes(CLIENT, &requests(&[(session, 9)])), "{session} is not known");
    }
    assert!(!takes(CLIENT, &requests(&[(SESSION, 6), (other, 1)])), "a frame goes one way");
    assert!(!takes(CLIENT, &good[..good.len() - 1]), "what can not be read is for the main lane");
}

#[test]
fn whoever_has_limits_or_no_connection_is_not_known() {
    let good = requests(&[(SESSION, 6)]);
    for passed in [passed(None, true), passed(Some(CLIENT), false)] {
        let (mut direct, admission) = (Direct::default(), Admission::new(AdmissionLimits::default()));
        direct.learn(&passed);
        assert!(direct.takes(CLIENT, &good, &admission).is_none());
    }
}

#[test]
fn what_is_known_ends() {
    let ends: [fn(&mut Direct); 3] =
        [Direct::forget, |direct| direct.unbound(CLIENT), |direct| direct.refused(SESSION)];
    for end in ends {
        let (mut direct, admission) = knowing();
        end(&mut direct);
        assert!(direct.takes(CLIENT, &requests(&[(SESSION, 6)]), &admission).is_none());
    }
    let (mut direct, admission) = knowing();
    direct.unbound(ConnId::new(8));
    direct.refused(SessionId { index: 99, generation: 1 });
    assert!(direct.takes(CLIENT, &requests(&[(SESSION, 6)]), &admission).is_some(), "others do not matter");
}
