//! What enters the open batch, and what is answered instead.

use super::*;
use quorate_types::{AgreedTime, ItemsBuilder};
use quorate_wire::{RequestProof, write_request};

const SESSION: SessionId = SessionId { index: 3, generation: 1 };

fn request(session: SessionId, number: u64) -> Vec<u8> {
    let mut commands = ItemsBuilder::new();
    commands.push(format!("command {number}").as_bytes());
    let mut out = Vec::new();
    write_request(&mut out, session, RequestNumber::new(number), RequestNumber::FIRST, &commands);
    out
}

fn requests(numbers: &[u64]) -> Vec<u8> {
    numbers.iter().flat_map(|n| request(SESSION, *n)).collect()
}

/// Client 9 opens a session.
fn opening(nonce: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    let header = RequestHeader {
        session: SessionId::NONE,
        number: RequestNumber::new(nonce),
        lowest_unanswered: RequestNumber::ZERO,
        kind: RequestKind::OpenSession,
        len: 8,
        proof: RequestProof::None,
    };
    header.write_to(&mut bytes);
    bytes.extend_from_slice(&9u64.to_le_bytes());
    bytes
}

/// Admits against a state in which `last` was executed, and gives the statuses answered.
fn admit(admission: &mut Admission, bytes: &[u8], last: u64) -> Vec<(u64, ReplyStatus)> {
    admit_with(admission, bytes, 0, Room::Data, true, |_, number| {
        if number.number() <= last {
            Executed::Done(ReplyStatus::Done, b"kept")
        } else {
            Executed::Not(RequestNumber::new(last))
        }
    })
}

fn admit_with<'a>(
    admission: &mut Admission,
    bytes: &[u8],
    in_flight: usize,
    room: Room,
    settled: bool,
    executed: impl Fn(SessionId, RequestNumber) -> Executed<'a>,
) -> Vec<(u64, ReplyStatus)> {
    let mut answer = Vec::new();
    let terms =
        Terms { in_flight, room, room_soon: false, settled, forbids: settled, answer_bytes_max: usize::MAX };
    let frees = |_, body: &[u8]| body.ends_with(b"2");
    admission.permitted_requests(bytes, terms, executed, |_| true, frees, &mut answer);
    Reply::walk(&answer).map(|reply| reply.map(|r| (r.number.number(), r.status)).unwrap()).collect()
}

fn header() -> BatchHeader {
    BatchHeader { time: AgreedTime::from_nanos(5), seed: 6, ..BatchHeader::default() }
}

fn sealed(admission: &mut Admission) -> Vec<u64> {
    let Some(batch) = admission.seal(header()) else { return vec![] };
    assert_eq!(Batch::decode(batch.bytes().clone()).as_ref(), Ok(&batch), "a sealed batch decodes");
    batch.requests().map(|request| request.unwrap().0.number.number()).collect()
}

#[test]
fn requests_enter_the_batch_as_the_bytes_they_came_in() {
    let mut admission = Admission::new(AdmissionLimits::default());
    let bytes = requests(&[1, 2, 3]);
    assert_eq!(admit(&mut admission, &bytes, 0), []);
    let batch = admission.seal(header()).unwrap();
    assert_eq!(&batch.bytes()[Batch::HEADER..], &bytes[..]);
    assert_eq!(batch.header(), BatchHeader { count: 3, ..header() });
    assert_eq!(admission.seal(header()), None);
}

#[test]
fn what_is_in_flight_is_dropped_and_what_was_executed_is_answered() {
    let mut admission = Admission::new(AdmissionLimits::default());
    admit(&mut admission, &requests(&[5, 6]), 4);
    let answered = admit(&mut admission, &requests(&[3, 4, 5, 6, 7]), 4);
    assert_eq!(answered, [(3, ReplyStatus::Done), (4, ReplyStatus::Done)]);
    assert_eq!(sealed(&mut admission), [5, 6, 7]);
}

#[test]
fn a_gap_is_refused_with_the_number_expected() {
    let mut admission = Admission::new(AdmissionLimits::default());
    let mut answer = Vec::new();
    admission.requests(
        &requests(&[1, 3]),
        Terms {
            in_flight: 0,
            room: Room::Data,
            room_soon: false,
            settled: true,
            forbids: true,
            answer_bytes_max: usize::MAX,
        },
        |_, _| Executed::Not(RequestNumber::ZERO),
        &mut answer,
    );
    let reply = Reply::walk(&answer).next().unwrap().unwrap();
    assert_eq!((reply.number.number(), reply.status), (3, ReplyStatus::ExpectedNumber));
    assert_eq!(reply.body, 2u64.to_le_bytes());
    assert_eq!(sealed(&mut admission), [1]);
}

#[test]
fn a_new_leader_takes_any_number_until_it_has_executed_what_came_before() {
    let mut admission = Admission::new(AdmissionLimits::default());
    let lagging = |_, _| Executed::Not(RequestNumber::new(4));
    assert_eq!(admit_with(&mut admission, &requests(&[7, 8]), 0, Room::Data, false, lagging), []);
    assert_eq!(sealed(&mut admission), [7, 8]);
    let none = |_, _| Executed::NoSession;
    let other = SessionId { index: 9, generation: 2 };
    assert_eq!(
        admit_with(&mut admission, &request(other, 1), 0, Room::Data, false, none),
        [(1, ReplyStatus::Overloaded)],
        "it may come to be known soon: its client asks again"
    );
    assert_eq!(sealed(&mut admission), [0; 0]);
    assert_eq!(
        admit_with(&mut admission, &request(other, 2), 0, Room::Data, true, none),
        [(2, ReplyStatus::SessionExpired)]
    );
}

#[test]
fn overload_and_a_full_disk_refuse_this_number_and_all_later_ones() {
    let limits = AdmissionLimits { queue_bytes_max: 100, ..AdmissionLimits::default() };
    let mut admission = Admission::new(limits);
    let fresh = |_, _| Executed::Not(RequestNumber::ZERO);
    let answered = admit_with(&mut admission, &requests(&[1, 2]), 100, Room::Data, true, fresh);
    assert_eq!(answered, [(1, ReplyStatus::Overloaded), (2, ReplyStatus::Overloaded)]);
    let answered = admit_with(&mut admission, &requests(&[1]), 0, Room::Full, true, fresh);
    assert_eq!(answered, [(1, ReplyStatus::DiskFull)]);
    assert_eq!(admit_with(&mut admission, &requests(&[1]), 0, Room::Data, true, fresh), []);
    assert_eq!(sealed(&mut admission), [1]);
}

#[test]
fn the_queue_never_holds_more_than_its_limit_and_one_request() {
    let one = requests(&[1]).len();
    let limits = AdmissionLimits { queue_bytes_max: 10 * one, ..AdmissionLimits::default() };
    let mut admission = Admission::new(limits);
    let numbers: Vec<u64> = (1..=50).collect();
    let fresh = |_, _| Executed::Not(RequestNumber::ZERO);
    let answered = admit_with(&mut admission, &requests(&numbers), 0, Room::Data, true, fresh);
    assert!(admission.waiting_bytes() <= 11 * one + Batch::HEADER);
    assert_eq!(answered.len() + sealed(&mut admission).len(), 50);
}

#[test]
fn an_oversized_request_is_told_so() {
    let limits = AdmissionLimits { request_bytes_max: 4, ..AdmissionLimits::default() };
    let mut admission = Admission::new(limits);
    assert_eq!(admit(&mut admission, &requests(&[1]), 0), [(1, ReplyStatus::TooLarge)]);
}

#[test]
fn the_end_of_a_leadership_forgets_what_was_in_flight() {
    let mut admission = Admission::new(AdmissionLimits::default());
    admit(&mut admission, &requests(&[1, 2]), 0);
    admission.reset();
    assert_eq!(sealed(&mut admission), [] as [u64; 0]);
    admit(&mut admission, &requests(&[1, 2]), 0);
    assert_eq!(sealed(&mut admission), [1, 2]);
}

#[test]
fn opening_a_session_twice_at_once_enters_once() {
    let mut admission = Admission::new(AdmissionLimits::default());
    let bytes = opening(77);
    admit(&mut admission, &bytes, 0);
    admit(&mut admission, &bytes, 0);
    assert_eq!(sealed(&mut admission), [77]);
    admission.opened(9, 77);
    admit(&mut admission, &bytes, 0);
    assert_eq!(sealed(&mut admission), [77]);
}

#[test]
fn what_a_checkpoint_jumped_over_may_come_again() {
    let mut admission = Admission::new(AdmissionLimits::default());
    let bytes = [opening(77), requests(&[1, 2])].concat();
    admit(&mut admission, &bytes, 0);
    assert_eq!(sealed(&mut admission), [77, 1, 2]);
    admit(&mut admission, &bytes, 0);
    assert_eq!(sealed(&mut admission), [] as [u64; 0], "it is in flight");
    admit(&mut admission, &requests(&[3]), 0);
    admission.jumped();
    admit(&mut admission, &bytes, 0);
    assert_eq!(sealed(&mut admission), [3, 77, 1, 2], "what waited goes, too");
}

#[test]
fn what_execution_refused_may_come_again() {
    let mut admission = Admission::new(AdmissionLimits::default());
    admit(&mut admission, &requests(&[1, 2, 3]), 0);
    sealed(&mut admission);
    admission.refused(SESSION, RequestNumber::new(2));
    assert_eq!(admit(&mut admission, &requests(&[2, 3]), 1), []);
    assert_eq!(sealed(&mut admission), [2, 3]);
}

#[test]
fn a_far_index_grows_no_table() {
    let mut admission = Admission::new(AdmissionLimits::default());
    let far = SessionId { index: u32::MAX, generation: 1 };
    let lagging = |_, _| Executed::NoSession;
    assert_eq!(
        admit_with(&mut admission, &request(far, 1), 0, Room::Data, false, lagging),
        [(1, ReplyStatus::Overloaded)]
    );
    assert_eq!(sealed(&mut admission), [0; 0], "whose it is nobody knows, so it is not taken");
    let fresh = |_, _| Executed::Not(RequestNumber::ZERO);
    assert_eq!(
        admit_with(&mut admission, &request(far, 1), 0, Room::Data, false, fresh),
        [(1, ReplyStatus::SessionExpired)]
    );
}

#[test]
fn what_piles_up_is_cut_into_batches_of_about_the_same_size() {
    let one = requests(&[1]).len();
    let limits = AdmissionLimits { batch_bytes: 4 * one, ..AdmissionLimits::default() };
    let mut admission = Admission::new(limits);
    let numbers: Vec<u64> = (1..=10).collect();
    admit(&mut admission, &requests(&numbers), 0);
    assert!(admission.is_full());
    let mut all = Vec::new();
    while admission.waiting_bytes() > 0 {
        let some = sealed(&mut admission);
        assert!(some.len() <= 5, "{some:?}");
        all.extend(some);
    }
    assert_eq!(all, numbers);
}

#[test]
fn with_little_room_only_what_frees_some_is_taken_and_little_of_it_at_once() {
    let mut admission = Admission::new(AdmissionLimits::default());
    let after = |last| move |_, _| Executed::Not(RequestNumber::new(last));
    // The second command is one that frees, see `admit_with`.
    let refused = admit_with(&mut admission, &requests(&[1]), 0, Room::Frees, true, after(0));
    assert_eq!(refused, [(1, ReplyStatus::DiskFull)]);
    assert_eq!(admit_with(&mut admission, &requests(&[2]), 0, Room::Frees, true, after(1)), []);
    assert_eq!(sealed(&mut admission), [2]);
    let busy = admit_with(&mut admission, &requests(&[12]), FREES_BYTES_MAX, Room::Frees, true, after(11));
    assert_eq!(busy, [(12, ReplyStatus::Overloaded)]);
    let full = admit_with(&mut admission, &requests(&[12]), 0, Room::Full, true, after(11));
    assert_eq!(full, [(12, ReplyStatus::DiskFull)]);
}

/// A kept reply is much larger than the request that asks for it again: one frame must not make us send without end.
#[test]
fn answers_to_one_frame_are_bounded() {
    let mut admission = Admission::new(AdmissionLimits::default());
    let kept = vec![7; 1000];
    let mut answer = Vec::new();
    let again = requests(&vec![1; 500]);
    let done = |_, _| Executed::Done(ReplyStatus::Done, kept.as_slice());
    let terms = Terms {
        in_flight: 0,
        room: Room::Data,
        room_soon: false,
        settled: true,
        forbids: true,
        answer_bytes_max: 5000,
    };
    admission.requests(&again, terms, done, &mut answer);
    assert!((5000..6100).contains(&answer.len()), "{} bytes", answer.len());
    assert_eq!(sealed(&mut admission), [] as [u64; 0]);
}

#[test]
fn what_a_client_may_not_do_is_refused_before_it_is_ordered() {
    let forbidden = [2, 5];
    let admit = |admission: &mut Admission, numbers: &[u64], last: u64, settled: bool| {
        let mut answer = Vec::new();
        let terms = Terms {
            in_flight: 0,
            room: Room::Data,
            room_soon: false,
            settled,
            forbids: settled,
            answer_bytes_max: usize::MAX,
        };
        let executed = |_, number: RequestNumber| {
            if number.number() <= last {
                Executed::Done(ReplyStatus::Done, &b"kept"[..])
            } else {
                Executed::Not(RequestNumber::new(last))
            }
        };
        let permits =
            |body: &[u8]| !forbidden.iter().any(|n| body.ends_with(format!("command {n}").as_bytes()));
        admission.permitted_requests(&requests(numbers), terms, executed, permits, |_, _| false, &mut answer);
        Reply::walk(&answer)
            .map(|reply| reply.map(|r| (r.number.number(), r.status)).expect("a reply"))
            .collect::<Vec<_>>()
    };
    let mut admission = Admission::new(AdmissionLimits::default());
    let answered = admit(&mut admission, &[1, 2, 3], 0, true);
    assert_eq!(answered, [(2, ReplyStatus::Forbidden), (3, ReplyStatus::ExpectedNumber)]);
    // Nothing of it is in flight: it is refused again, and what was let in is not let in again.
    assert_eq!(admit(&mut admission, &[1, 2], 0, true), [(2, ReplyStatus::Forbidden)]);
    assert_eq!(sealed(&mut admission), [1]);
    // What was executed before is answered, whatever is allowed now.
    assert_eq!(admit(&mut admission, &[2], 2, true), [(2, ReplyStatus::Done)]);

    // A new leader that does not know yet what was decided before says nothing: it may have been.
    let mut admission = Admission::new(AdmissionLimits::default());
    assert_eq!(admit(&mut admission, &[5], 4, false), []);
    assert_eq!(sealed(&mut admission), []);
    assert_eq!(admit(&mut admission, &[5], 4, true), [(5, ReplyStatus::Forbidden)]);
}
