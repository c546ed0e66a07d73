//! What is kept of what clients say, and what is vouched for.

use super::*;
use quorate_types::ItemsBuilder;
use quorate_wire::{RequestProof, Requests, write_request};

const SESSION: SessionId = SessionId { index: 3, generation: 1 };
const ALICE: ClientId = ClientId::new(7);
const MALLORY: ClientId = ClientId::new(8);
const LIMITS: HeardLimits = HeardLimits { bytes_max: 4096, client_bytes_max: 2048, window: 4 };

fn request(number: u64, text: &str) -> Bytes {
    request_of(SESSION, number, text)
}

fn request_of(session: SessionId, number: u64, text: &str) -> Bytes {
    let mut commands = ItemsBuilder::new();
    commands.push(text.as_bytes());
    let mut out = Vec::new();
    write_request(&mut out, session, RequestNumber::new(number), RequestNumber::FIRST, &commands);
    Bytes::from(out)
}

fn opening(client: ClientId, nonce: u64) -> Bytes {
    let header = RequestHeader {
        session: SessionId::NONE,
        number: RequestNumber::new(nonce),
        lowest_unanswered: RequestNumber::ZERO,
        kind: RequestKind::OpenSession,
        len: 8,
        proof: RequestProof::None,
    };
    let mut bytes = Vec::new();
    header.write_to(&mut bytes);
    bytes.extend_from_slice(&client.number().to_le_bytes());
    Bytes::from(bytes)
}

fn hear(heard: &mut Heard, owner: Owner, bytes: &Bytes) -> bool {
    let (header, ..) = Requests::new(bytes).next().unwrap().unwrap();
    let kept = heard.hear(Time::ZERO, owner, &header, bytes.clone());
    heard.invariants();
    kept
}

fn knows(heard: &Heard, bytes: &Bytes) -> bool {
    let (header, body, whole) = Requests::new(bytes).next().unwrap().unwrap();
    heard.knows(&header, body, whole, 2)
}

fn number(n: u64) -> RequestNumber {
    RequestNumber::new(n)
}

#[test]
fn what_a_client_said_is_known_byte_for_byte() {
    let mut heard = Heard::new(LIMITS);
    assert!(hear(&mut heard, Owner::Open(ALICE), &request(1, "pay bob 5")));
    assert!(knows(&heard, &request(1, "pay bob 5")));
    assert!(!knows(&heard, &request(1, "pay eve 5")), "altered");
    assert!(!knows(&heard, &request(2, "pay bob 5")), "never said");
    // The first with a number counts.
    assert!(hear(&mut heard, Owner::Open(ALICE), &request(1, "pay eve 5")));
    assert!(!knows(&heard, &request(1, "pay eve 5")));
}

/// What waits for an earlier number never keeps that number out: it would wait for ever.
#[test]
fn what_comes_first_has_room_before_what_waits_for_it() {
    let long = "x".repeat(900);
    let mut heard = Heard::new(LIMITS);
    for n in [2, 3] {
        assert!(hear(&mut heard, Owner::Open(ALICE), &request(n, &long)));
    }
    assert!(!hear(&mut heard, Owner::Open(ALICE), &request(4, &long)), "no room for what comes last");
    assert!(hear(&mut heard, Owner::Open(ALICE), &request(2, &long)), "it is known");
    assert!(hear(&mut heard, Owner::Open(ALICE), &request(1, &long)));
    let all: Vec<_> = heard.of_session(SESSION).cloned().collect();
    assert_eq!(all, [request(1, &long), request(2, &long)]);
    // The window is no reason, either; nor who is not known yet to have opened the session.
    for owner in [Owner::Open(ALICE), Owner::Claims(ALICE)] {
        let mut heard = Heard::new(LIMITS);
        for n in [5, 4, 3, 2] {
            assert!(hear(&mut heard, owner, &request(n, "x")));
        }
        assert!(!hear(&mut heard, owner, &request(6, "x")));
        assert!(hear(&mut heard, owner, &request(1, "x")));
        heard.opened(ALICE, number(9), SESSION);
        assert_eq!(heard.of_session(SESSION).next(), Some(&request(1, "x")));
        assert_eq!(heard.of_session(SESSION).count(), 4);
    }
}

/// Where there was no room for a request, its client may name a newer lowest number in the next copy. Both are known then, and no other.
#[test]
fn a_copy_that_has_more_answers_is_known_beside_the_first() {
    let copy = |number: u64, lowest: u64, text: &str| {
        let mut commands = ItemsBuilder::new();
        commands.push(text.as_bytes());
        let mut out = Vec::new();
        write_request(&mut out, SESSION, RequestNumber::new(number), RequestNumber::new(lowest), &commands);
        Bytes::from(out)
    };
    let mut heard = Heard::new(LIMITS);
    for bytes in
        [copy(5, 2, "pay bob 5"), copy(5, 4, "pay bob 5"), copy(5, 5, "pay eve 5"), copy(5, 3, "pay bob 5")]
    {
        assert!(hear(&mut heard, Owner::Open(ALICE), &bytes));
    }
    assert!(knows(&heard, &copy(5, 2, "pay bob 5")) && knows(&heard, &copy(5, 4, "pay bob 5")));
    for other in
        [copy(5, 3, "pay bob 5"), copy(5, 5, "pay eve 5"), copy(5, 2, "pay eve 5"), copy(6, 2, "pay bob 5")]
    {
        assert!(!knows(&heard, &other));
    }
    assert_eq!(heard.of_session(SESSION).collect::<Vec<_>>(), [&copy(5, 4, "pay bob 5")]);
}

#[test]
fn numbers_come_in_any_order_and_leave_in_order() {
    let mut heard = Heard::new(LIMITS);
    for n in [4, 2, 3, 7] {
        assert!(hear(&mut heard, Owner::Open(ALICE), &request(n, "x")));
    }
    assert!(!hear(&mut heard, Owner::Open(ALICE), &request(8, "x")), "the window is full");
    let all = |heard: &Heard| heard.of_session(SESSION).cloned().collect::<Vec<_>>();
    assert_eq!(all(&heard), [request(2, "x"), request(3, "x"), request(4, "x"), request(7, "x")]);
    heard.executed(SESSION, number(3));
    heard.invariants();
    assert_eq!(all(&heard), [request(4, "x"), request(7, "x")]);
    heard.executed(SESSION, number(9));
    assert_eq!(heard.byte_len(), 0);
}

#[test]
fn a_session_in_the_place_of_another_begins_with_nothing() {
    let mut heard = Heard::new(LIMITS);
    hear(&mut heard, Owner::Open(ALICE), &request(1, "x"));
    let later = SessionId { generation: 2, ..SESSION };
    let mut bytes = Vec::new();
    let mut commands = ItemsBuilder::new();
    commands.push(b"y");
    write_request(&mut bytes, later, number(1), RequestNumber::FIRST, &commands);
    hear(&mut heard, Owner::Open(MALLORY), &Bytes::from(bytes));
    assert!(!knows(&heard, &request(1, "x")));
    assert_eq!(heard.of_session(later).count(), 1);
}

#[test]
fn who_claims_a_session_before_it_is_known_here_is_heard_only_if_it_is_theirs() {
    let mut heard = Heard::new(LIMITS);
    hear(&mut heard, Owner::Open(ALICE), &opening(ALICE, 11));
    assert!(knows(&heard, &opening(ALICE, 11)));
    assert!(!knows(&heard, &opening(MALLORY, 11)));
    hear(&mut heard, Owner::Claims(MALLORY), &request(1, "forged"));
    hear(&mut heard, Owner::Claims(ALICE), &request(1, "real"));
    assert!(!knows(&heard, &request(1, "real")), "nobody knows yet whose it is");
    assert!(
        !heard.holds(&request(1, "real")) && !heard.holds(&request(1, "forged")),
        "nor says that it heard it"
    );
    assert!(heard.opened(ALICE, number(11), SESSION), "something waits");
    heard.invariants();
    assert!(knows(&heard, &request(1, "real")));
    assert!(!knows(&heard, &request(1, "forged")));
    assert!(!knows(&heard, &opening(ALICE, 11)), "it is over");
}

/// What came before its session was known here, and what came since, but before this replica looked, are kept together.
#[test]
fn early_requests_stand_with_later_ones() {
    let mut heard = Heard::new(LIMITS);
    for early in 2..=4 {
        hear(&mut heard, Owner::Claims(ALICE), &request(early, "early"));
    }
    for late in [1, 3, 5] {
        hear(&mut heard, Owner::Open(ALICE), &request(late, "late"));
    }
    heard.opened(ALICE, number(99), SESSION);
    heard.invariants();
    let kept: Vec<Bytes> = heard.of_session(SESSION).cloned().collect();
    let expected = [request(1, "late"), request(2, "early"), request(3, "early"), request(4, "early")];
    assert_eq!(kept, expected, "in order, each once, and no more than a window");
    heard.executed(SESSION, number(9));
    assert_eq!(heard.byte_len(), 0);
}

/// A replica that goes on from a checkpoint executed none of what led there. Nothing of that takes room here, and what came before its
/// session was known is its owner's now.
#[test]
fn what_a_state_of_others_shows_waits_no_more() {
    let known = SessionId { index: 4, generation: 1 };
    let lasts = [1, 1, 0, 1, 2];
    let of = |session: SessionId| lasts.get(session.index as usize).map(|last| (ALICE, number(*last)));
    let mut heard = Heard::new(LIMITS);
    for nonce in [6, 7, 8] {
        assert!(hear(&mut heard, Owner::Open(ALICE), &opening(ALICE, nonce)));
    }
    for n in 1..=3 {
        assert!(hear(&mut heard, Owner::Open(ALICE), &request_of(known, n, "x")));
        assert!(hear(&mut heard, Owner::Claims(ALICE), &request(n, "real")));
        assert!(hear(&mut heard, Owner::Claims(MALLORY), &request(n, "forged")));
    }
    let over = SessionId { index: 9, generation: 1 };
    let later = SessionId { index: 10, generation: 1 };
    assert!(hear(&mut heard, Owner::Open(ALICE), &request_of(over, 1, "x")));
    assert!(hear(&mut heard, Owner::Claims(ALICE), &request_of(later, 1, "x")));
    let opened = SessionId { index: 2, generation: 1 };
    assert!(hear(&mut heard, Owner::Claims(ALICE), &request_of(opened, 2, "x")));
    let by = |client, nonce: RequestNumber| match (client, nonce.number()) {
        (ALICE, 6) => Some(known),
        (ALICE, 7) => Some(opened),
        _ => None,
    };
    let woken = heard.caught_up(of, by);
    heard.invariants();
    assert_eq!(woken, [opened, SESSION], "something waits of these that came before");
    let all: Vec<Bytes> = heard.all().cloned().collect();
    let expected = [
        opening(ALICE, 8),
        request_of(opened, 2, "x"),
        request(2, "real"),
        request(3, "real"),
        request_of(known, 3, "x"),
    ];
    assert_eq!(all, expected, "what was not executed, and of nobody but its owner");
    assert_eq!(heard.early.keys().collect::<Vec<_>>(), [&(later, ALICE)], "nobody opened it yet");
    assert_eq!(heard.opened_by(ALICE, number(7)), Some(opened));
    assert_eq!(heard.opened_by(ALICE, number(6)), None, "it was used: this would open another one");
}

#[test]
fn one_member_that_sends_something_on_proves_nothing_and_two_do() {
    let mut heard = Heard::new(LIMITS);
    let (a, b) = (ReplicaId::new(1), ReplicaId::new(2));
    assert_eq!(heard.told(Time::ZERO, a, &request(1, "x")), 1);
    assert_eq!(heard.told(Time::ZERO, a, &request(1, "x")), 1, "twice the same one");
    assert_eq!(heard.told(Time::ZERO, b, &request(1, "y")), 1, "another request");
    assert!(!knows(&heard, &request(1, "x")));
    assert_eq!(heard.told(Time::ZERO, b, &request(1, "x")), 2);
    assert!(knows(&heard, &request(1, "x")));
    // A liar pushes out what it said itself, nothing else.
    for n in 0..2000 {
        heard.told(Time::ZERO, b, &request(n, "z"));
    }
    assert_eq!(heard.told(Time::ZERO, a, &request(1, "x")), 1);
    let (count, bytes) = heard.told.share(b);
    assert!(bytes <= told::TOLD_BYTES && count > 1);
    // Nobody waits for what was told long ago.
    heard.tidy(Time::ZERO.plus(Span::from_secs(31)), |_| false, Span::from_secs(30));
    assert_eq!((heard.told.share(a), heard.told.share(b)), ((0, 0), (0, 0)));
    assert_eq!(heard.told_by(&request(1, "x")), 0);
}

#[test]
fn a_client_has_its_share() {
    let mut heard = Heard::new(HeardLimits { window: 1000, ..LIMITS });
    let mut taken = 0;
    while hear(&mut heard, Owner::Open(MALLORY), &opening(MALLORY, taken)) {
        taken += 1;
    }
    assert!(heard.byte_len() >= LIMITS.client_bytes_max && heard.byte_len() < LIMITS.client_bytes_max + 256);
    for other in 100..120 {
        hear(&mut heard, Owner::Open(ClientId::new(other)), &opening(ClientId::new(other), 1));
    }
    // All is full by now, and who has less than others is still heard.
    assert!(hear(&mut heard, Owner::Open(ALICE), &opening(ALICE, 1)));
}

#[test]
fn only_the_next_of_a_session_can_be_late() {
    let mut heard = Heard::new(LIMITS);
    let (now, after) = (Time::ZERO.plus(Span::from_secs(2)), Span::from_secs(1));
    hear(&mut heard, Owner::Open(ALICE), &request(2, "x"));
    hear(&mut heard, Owner::Open(ALICE), &request(3, "x"));
    let late = |heard: &Heard, next: u64| heard.late(now, after, |_| Some(number(next))).collect::<Vec<_>>();
    assert!(late(&heard, 1).is_empty(), "its client has to send the one before first");
    let found = late(&heard, 2);
    assert_eq!(found.len(), 1);
    assert_eq!((found[0].number, &found[0].bytes), (number(2), &request(2, "x")));
    assert!(heard.waits(&found[0]));
    assert!(heard.late(Time::ZERO, after, |_| Some(number(2))).next().is_none(), "not late");
    heard.executed(SESSION, number(2));
    assert!(!heard.waits(&found[0]));
}

#[test]
fn what_is_over_is_forgotten_and_frames_are_let_go() {
    let mut heard = Heard::new(LIMITS);
    let mut frame = vec![0; 1 << 20];
    let request = request(1, "x");
    frame.extend_from_slice(&request);
    let frame = Bytes::from(frame);
    hear(&mut heard, Owner::Open(ALICE), &frame.slice(1 << 20..));
    hear(&mut heard, Owner::Claims(ALICE), &request);
    let later = Time::ZERO.plus(Span::from_secs(2));
    heard.tidy(later, |_| false, Span::from_secs(60));
    heard.invariants();
    assert!(frame.is_unique(), "the frame is not held any more");
    assert!(knows(&heard, &request));
    heard.tidy(later, |_| true, Span::from_secs(1));
    heard.invariants();
    assert_eq!((heard.byte_len(), heard.early.len()), (0, 0));
}

/// A client's copy may come after a batch with it was executed: it is not waited for any more, and its client is told again.
#[test]
fn an_opening_that_comes_late_waits_for_nothing() {
    let mut heard = Heard::new(HeardLimits { bytes_max: 1 << 30, client_bytes_max: 1 << 30, ..LIMITS });
    heard.opened(ALICE, number(5), SESSION);
    assert_eq!(heard.opened_by(ALICE, number(5)), Some(SESSION));
    assert_eq!(heard.opened_by(MALLORY, number(5)), None);
    heard.opened(ALICE, number(6), SessionId::NONE);
    assert_eq!(heard.opened_by(ALICE, number(6)), None, "it was refused, and may be tried again");
    for nonce in 0..2 * OPENED_MAX as u64 {
        heard.opened(MALLORY, number(nonce), SESSION);
    }
    heard.forget_opened(MALLORY, number(2 * OPENED_MAX as u64 - 1));
    assert_eq!(heard.opened_by(MALLORY, number(2 * OPENED_MAX as u64 - 1)), None, "its session is over");
    heard.opened(MALLORY, number(2 * OPENED_MAX as u64 - 1), SESSION);
    assert_eq!((heard.opened.len(), heard.opened_last.len()), (OPENED_MAX, OPENED_MAX));
    // What nobody executes is forgotten, and heard again when it is sent again.
    hear(&mut heard, Owner::Open(ALICE), &opening(ALICE, 9));
    heard.tidy(Time::ZERO.plus(Span::from_secs(40)), |_| false, Span::from_secs(30));
    heard.invariants();
    assert_eq!(heard.openings.len(), 0);
}

/// A signed copy that names a higher lowest number has another signature, and takes the place of the first one all the same.
#[test]
fn a_signed_copy_takes_the_place_of_the_one_before() {
    let signed = |lowest: u64, text: &[u8], signature: u8| {
        let header = RequestHeader {
            session: SESSION,
            number: RequestNumber::new(5),
            lowest_unanswered: RequestNumber::new(lowest),
            kind: RequestKind::Query,
            len: text.len() as u32,
            proof: RequestProof::Signature,
        };
        let mut bytes = header.bytes().to_vec();
        bytes.extend_from_slice(text);
        bytes.extend([signature; 64]);
        (header, bytes)
    };
    let mut heard = Heard::new(HeardLimits { bytes_max: 4096, client_bytes_max: 4096, window: 16 });
    let hear = |heard: &mut Heard, (header, bytes): &(RequestHeader, Vec<u8>)| {
        heard.hear(Time::ZERO, Owner::Open(ALICE), header, Bytes::from(bytes.clone()))
    };
    let knows = |heard: &Heard, (header, bytes): &(RequestHeader, Vec<u8>), text: &[u8]| {
        heard.knows(header, text, bytes, 2)
    };
    let (first, later, other) = (signed(1, b"read a", 1), signed(4, b"read a", 4), signed(4, b"read b", 4));
    assert!(hear(&mut heard, &first) && hear(&mut heard, &other) && !knows(&heard, &other, b"read b"));
    assert!(hear(&mut heard, &later));
    assert!(knows(&heard, &later, b"read a") && knows(&heard, &first, b"read a"));
    heard.invariants();
    heard.forget(SESSION, RequestNumber::new(6));
    assert!(knows(&heard, &later, b"read a"), "another number");
    heard.forget(SESSION, RequestNumber::new(5));
    assert!(!knows(&heard, &later, b"read a") && heard.byte_len() == 0, "as if it had never come");
    heard.invariants();
}

/// Of each client the openings with the lowest nonces come first, and who told of one is counted.
#[test]
fn openings_have_their_turn() {
    let mut heard = Heard::new(HeardLimits { bytes_max: 4096, client_bytes_max: 4096, window: 16 });
    for (client, nonce) in [(MALLORY, 5), (ALICE, 9), (ALICE, 3), (ALICE, 6)] {
        assert!(hear(&mut heard, Owner::Open(client), &opening(client, nonce)));
    }
    let before = |nonce| heard.openings_before(ALICE, RequestNumber::new(nonce), 2);
    assert_eq!([3, 4, 6, 9, 10].map(before), [0, 1, 1, 2, 2], "counted up to two");
    let first: Vec<Bytes> = heard.first_openings(2).cloned().collect();
    assert_eq!(first, [opening(ALICE, 3), opening(ALICE, 6), opening(MALLORY, 5)]);
    assert_eq!(heard.told_by(&first[0]), 0);
    for member in [2, 2, 3] {
        heard.told(Time::ZERO, ReplicaId::new(member), &first[0]);
    }
    assert_eq!((heard.told_by(&first[0]), heard.told_by(&first[1])), (2, 0));
}

/// What enough members heard as well may be proposed with care, in order, whatever comes first: their word or the request.
#[test]
fn what_enough_members_heard_is_sure_in_order() {
    let mut heard = Heard::new(LIMITS);
    let members = [1, 2].map(ReplicaId::new);
    let tell = |heard: &mut Heard, n: u64, by: usize| heard.told(Time::ZERO, members[by], &request(n, "x"));
    let sure = |heard: &mut Heard, n: u64| {
        let all = heard.sure(SESSION, number(1), number(n), 2);
        all.iter()
            .map(|bytes| {
                Requests::new(bytes).flatten().next().map(|(header, ..)| header.number.number()).unwrap()
            })
            .collect::<Vec<_>>()
    };
    assert_eq!((tell(&mut heard, 1, 0), tell(&mut heard, 1, 1)), (1, 2), "before it came");
    for n in [1, 2, 4] {
        assert!(hear(&mut heard, Owner::Open(ALICE), &request(n, "x")));
    }
    assert_eq!(heard.told_by(&request(1, "x")), 2);
    assert_eq!((tell(&mut heard, 4, 0), tell(&mut heard, 4, 1)), (1, 2));
    assert_eq!(sure(&mut heard, 4), [1], "what comes before is not sure");
    assert_eq!((tell(&mut heard, 2, 0), sure(&mut heard, 2)), (1, vec![]), "one may lie");
    heard.told(Time::ZERO, members[1], &request(2, "y"));
    assert_eq!(sure(&mut heard, 2), [] as [u64; 0], "something else");
    tell(&mut heard, 2, 1);
    assert_eq!(sure(&mut heard, 2), [2], "and not what waits behind a gap");
    assert_eq!(sure(&mut heard, 1), [1], "once more");
    assert!(hear(&mut heard, Owner::Open(ALICE), &request(3, "x")), "late");
    assert_eq!(sure(&mut heard, 3), [] as [u64; 0], "nobody else heard it");
    assert_eq!((tell(&mut heard, 3, 0), tell(&mut heard, 3, 1)), (1, 2));
    assert_eq!(sure(&mut heard, 3), [3, 4]);
    heard.begin_anew();
    assert_eq!(sure(&mut heard, 4), [1, 2, 3, 4]);
    heard.invariants();
}

/// A copy that only its leader has is not what others heard.
#[test]
fn a_copy_that_has_more_answers_is_not_sure_for_the_first() {
    let copy = |lowest: u64| {
        let header = RequestHeader {
            session: SESSION,
            number: number(5),
            lowest_unanswered: number(lowest),
            kind: RequestKind::Query,
            len: 1,
            proof: RequestProof::None,
        };
        let mut bytes = Vec::new();
        header.write_to(&mut bytes);
        bytes.push(1);
        Bytes::from(bytes)
    };
    let mut heard = Heard::new(LIMITS);
    assert!(hear(&mut heard, Owner::Open(ALICE), &copy(1)));
    for member in [1, 2] {
        heard.told(Time::ZERO, ReplicaId::new(member), &copy(1));
    }
    assert_eq!(heard.sure(SESSION, number(5), number(5), 2), [copy(1)]);
    assert!(hear(&mut heard, Owner::Open(ALICE), &copy(2)));
    assert!(heard.holds(&copy(2)) && !heard.holds(&copy(1)));
    assert_eq!(heard.sure(SESSION, number(5), number(5), 2), [] as [Bytes; 0]);
}

/// A client with much waiting does not take the room of a client with little.
#[test]
fn the_first_of_each_session_come_before_the_second_of_any() {
    let mut heard = Heard::new(HeardLimits { bytes_max: 1 << 20, client_bytes_max: 1 << 20, window: 64 });
    let of = |index: u32, n: u64| {
        let mut out = Vec::new();
        let session = SessionId { index, generation: 1 };
        write_request(&mut out, session, number(n), number(n), &ItemsBuilder::new());
        Bytes::from(out)
    };
    for (index, count) in [(0, 9), (1, 9), (2, 1)] {
        (1..=count).for_each(|n| assert!(hear(&mut heard, Owner::Open(MALLORY), &of(index, n))));
    }
    (1..=9).for_each(|nonce| assert!(hear(&mut heard, Owner::Open(ALICE), &opening(ALICE, nonce))));
    let all = heard.firsts(2, 6, |_| true);
    let openings = [opening(ALICE, 1), opening(ALICE, 2)];
    assert_eq!(all, [&openings[..], &[of(0, 1), of(1, 1), of(2, 1), of(0, 2)]].concat());
    assert_eq!(heard.firsts(8, 4, |_| true)[2..], [of(0, 1), of(1, 1)], "openings have half");
    assert_eq!(heard.firsts(8, 99, |bytes| *bytes == of(2, 1)), [of(2, 1)]);
    assert_eq!(heard.firsts(64, 99, |_| true).len(), 9 + 9 + 9 + 1);
}
