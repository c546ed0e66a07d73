//! Commands ask, halt, and go on; which numbers nested requests have; what becomes of answers that are late, doubled, wrong or missing.

use super::service::Step::{Add, Answer, Ask, Get, Put};
use super::service::{Step, command};
use super::world::{Replica, answer, place, reply, with_sessions};
use crate::support::{commands, items};
use quorate_execute::{Answered, Arrival, Chain, NestedRequest, NestedRules, Schedule, ServiceId};
use quorate_types::{Items, RequestNumber, SessionId, Span};
use quorate_wire::ReplyStatus;

pub(crate) const BANK: u8 = 2;
pub(crate) const POST: u8 = 3;

pub(crate) fn rules() -> NestedRules {
    NestedRules::of(ServiceId(1), Schedule::Answered)
}

pub(crate) fn ask(session: SessionId, number: u64, steps: &[Step]) -> crate::support::Ask {
    commands(session, number, 1, &[&command(steps)])
}

fn count(request: &NestedRequest) -> usize {
    Items::parse(&request.commands).expect("a list").len()
}

fn numbers(requests: &[NestedRequest]) -> Vec<(u32, u64, u64)> {
    let number = |request: &NestedRequest| {
        (request.backend.0, request.number.number(), request.lowest_unanswered.number())
    };
    requests.iter().map(number).collect()
}

#[test]
fn a_command_goes_on_when_its_answer_is_there() {
    let (mut replica, sessions) = with_sessions(&rules(), 2);
    let first = replica.run(&place(2, &[ask(sessions[0], 1, &[Add(7), Ask(BANK), Answer, Add(7)])], vec![]));
    assert!(first.ended.is_empty(), "it is under way");
    assert_eq!(numbers(&first.left), [(2, 1, 1)]);
    assert_eq!(replica.executor().under_way(), 1);
    assert_eq!(replica.executor().unanswered().collect::<Vec<_>>(), first.left);
    // Others run meanwhile, and see what it did before it halted.
    let meanwhile = replica.run(&place(3, &[ask(sessions[1], 1, &[Get(7)])], vec![]));
    assert_eq!(reply(&meanwhile.ended[0]).as_bytes().last(), Some(&1));
    let last = replica.run(&place(4, &[], vec![answer(&first.left[0])]));
    assert_eq!((last.ended[0].session, last.ended[0].number), (sessions[0], 1));
    assert!(reply(&last.ended[0]).contains('='));
    assert_eq!((replica.executor().under_way(), replica.executor().unanswered().count()), (0, 0));
}

/// A command that asks twice and needs the answers later halts only where one is missing (ADA-13).
#[test]
fn a_command_halts_only_where_an_answer_is_missing() {
    let (mut replica, sessions) = with_sessions(&rules(), 1);
    let steps = [Ask(BANK), Ask(POST), Answer, Answer];
    let first = replica.run(&place(2, &[ask(sessions[0], 1, &steps)], vec![]));
    assert_eq!(numbers(&first.left), [(2, 1, 1), (3, 1, 1)]);
    let legs = replica.executor().nested_counts().expect("it asks").legs;
    assert!(replica.run(&place(3, &[], vec![answer(&first.left[1])])).ended.is_empty());
    assert_eq!(
        replica.executor().nested_counts().expect("it asks").legs,
        legs,
        "the second answer is not needed yet"
    );
    assert_eq!(replica.run(&place(4, &[], vec![answer(&first.left[0])])).ended.len(), 1);
    assert_eq!(replica.executor().nested_counts().expect("it asks").legs, legs + 1);
}

/// What leaves together for one service is one request (ADA-20).
#[test]
fn everything_for_one_service_leaves_together() {
    let (mut replica, sessions) = with_sessions(&rules(), 100);
    let asks: Vec<_> =
        sessions.iter().map(|session| ask(*session, 1, &[Ask(BANK), Ask(POST), Answer])).collect();
    let did = replica.run(&place(2, &asks, vec![]));
    assert_eq!(numbers(&did.left), [(2, 1, 1), (3, 1, 1)]);
    assert_eq!(did.left.iter().map(count).collect::<Vec<_>>(), [100, 100]);
    assert_eq!(replica.run(&place(3, &[], vec![answer(&did.left[0])])).ended.len(), 100);
}

/// Over the limit of bytes it leaves in several requests, and each is answered for itself.
#[test]
fn a_large_request_is_divided() {
    let rules = NestedRules { request_bytes_max: 60, ..rules() };
    let (mut replica, sessions) = with_sessions(&rules, 40);
    let asks: Vec<_> = sessions.iter().map(|session| ask(*session, 1, &[Ask(BANK), Answer])).collect();
    let did = replica.run(&place(2, &asks, vec![]));
    assert_eq!(did.left.iter().map(count).collect::<Vec<_>>(), [20, 20]);
    assert_eq!(numbers(&did.left), [(2, 1, 1), (2, 2, 1)]);
    assert_eq!(replica.run(&place(3, &[], vec![answer(&did.left[1])])).ended.len(), 20);
}

/// Numbers follow the requests and commands that ask, not the order in which legs ran (ADA-20).
pub(crate) fn numbers_follow_who_asks() {
    let (mut replica, sessions) = with_sessions(&rules(), 2);
    let first =
        replica.run(&place(2, &[ask(sessions[0], 1, &[Ask(BANK), Answer, Ask(BANK), Answer])], vec![]));
    // The younger request runs before the older one goes on.
    let second = [ask(sessions[1], 1, &[Add(1), Get(1), Ask(BANK), Answer])];
    let did = replica.run(&place(3, &second, vec![answer(&first.left[0])]));
    assert_eq!(numbers(&did.left), [(2, 2, 2)]);
    let bodies: Vec<&[u8]> = Items::parse(&did.left[0].commands).expect("a list").iter().collect();
    assert!(
        bodies[0].contains(&b'='),
        "first what the older request asks, which has seen an answer: {bodies:?}"
    );
}

#[test]
fn numbers_follow_who_asks_and_not_who_ran_first() {
    numbers_follow_who_asks();
}

/// The lowest unanswered number follows from answers that are executed, whichever comes first.
pub(crate) fn the_lowest_number_has_no_answer() {
    let (mut replica, sessions) = with_sessions(&rules(), 5);
    let steps = [Ask(BANK), Answer];
    let left: Vec<NestedRequest> =
        (0..3).flat_map(|at| replica.run(&place(2, &[ask(sessions[at], 1, &steps)], vec![])).left).collect();
    assert_eq!(numbers(&left), [(2, 1, 1), (2, 2, 1), (2, 3, 1)]);
    let fourth = replica.run(&place(3, &[ask(sessions[3], 1, &steps)], vec![answer(&left[1])]));
    assert_eq!(numbers(&fourth.left), [(2, 4, 1)], "the first one has no answer yet");
    let fifth = replica.run(&place(4, &[ask(sessions[4], 1, &steps)], vec![answer(&left[0])]));
    assert_eq!(numbers(&fifth.left), [(2, 5, 3)]);
    // What is sent again after a restart is what left.
    let again: Vec<_> = replica.restarted().executor().unanswered().collect();
    assert_eq!(numbers(&again), [(2, 3, 1), (2, 4, 1), (2, 5, 3)]);
}

#[test]
fn the_lowest_number_is_that_of_executed_answers() {
    the_lowest_number_has_no_answer();
}

/// An answer that comes again, or that nobody asked for, changes nothing.
pub(crate) fn an_answer_counts_once() {
    let (mut replica, sessions) = with_sessions(&rules(), 1);
    let steps = [Ask(BANK), Answer, Add(1), Ask(BANK), Answer, Add(1)];
    let first = replica.run(&place(2, &[ask(sessions[0], 1, &steps)], vec![]));
    let second = replica.run(&place(3, &[], vec![answer(&first.left[0])]));
    let before = replica.digest();
    let mut stranger = second.left[0].clone();
    stranger.backend = ServiceId(9);
    let mut skipped = second.left[0].clone();
    skipped.number = RequestNumber::new(7);
    let none = [answer(&first.left[0]), answer(&stranger), answer(&skipped)];
    for arrival in none {
        let mut other = replica.restarted();
        let did = other.run(&place(4, &[], vec![arrival]));
        assert!(did.ended.is_empty() && did.left.is_empty());
        let mut silent = replica.restarted();
        silent.run(&place(4, &[], vec![]));
        assert_eq!(other.digest(), silent.digest());
        assert_eq!(other.executor().nested_counts().expect("it asks").unasked, 1);
    }
    assert_eq!(replica.digest(), before);
    assert_eq!(replica.run(&place(4, &[], vec![answer(&second.left[0])])).ended.len(), 1);
}

#[test]
fn an_answer_counts_once_and_only_if_it_was_asked_for() {
    an_answer_counts_once();
}

/// An answer counts where it stands in the order, and not where it was delivered.
pub(crate) fn an_answer_counts_at_its_place() {
    let (mut replica, sessions) = with_sessions(&rules(), 2);
    let first = place(2, &[ask(sessions[0], 1, &[Ask(BANK), Answer, Put(1)])], vec![]);
    let left = replica.run(&first).left;
    let places = [
        place(3, &[ask(sessions[1], 1, &[Get(1), Put(1)])], vec![]),
        place(4, &[ask(sessions[1], 2, &[Get(1)])], vec![answer(&left[0])]),
    ];
    let mut late = replica.restarted();
    places.iter().for_each(|place| late.deliver(place));
    for place in &places {
        assert_eq!(late.next(), replica.run(place));
        assert_eq!(late.digest(), replica.digest());
    }
}

#[test]
fn an_answer_counts_at_its_place_in_the_order() {
    an_answer_counts_at_its_place();
}

/// Without an answer in agreed time the outcome is unknown, on all replicas at the same place, whenever they started.
pub(crate) fn a_time_out_is_agreed() {
    let rules = NestedRules { patience: Span::from_nanos(100), ..rules() };
    let (mut replica, sessions) = with_sessions(&rules, 1);
    let left = replica.run(&place(10, &[ask(sessions[0], 1, &[Ask(BANK), Answer, Add(1)])], vec![])).left;
    replica.run(&place(60, &[], vec![]));
    let mut other = replica.restarted();
    assert_eq!(other.executor().next_deadline(), replica.executor().next_deadline());
    assert_eq!(replica.executor().next_deadline().map(|time| time.nanos()), Some(110));
    assert!(replica.run(&place(109, &[], vec![])).ended.is_empty());
    assert!(other.run(&place(109, &[], vec![])).ended.is_empty());
    // The answer comes in the batch in which time is up: too late.
    let late = place(110, &[], vec![answer(&left[0])]);
    let did = replica.run(&late);
    assert!(reply(&did.ended[0]).ends_with("Unknown"), "{did:?}");
    assert_eq!(other.run(&late), did);
    assert_eq!(other.digest(), replica.digest());
    let counts = replica.executor().nested_counts().expect("it asks");
    assert_eq!((counts.timed_out, counts.late, counts.unasked), (1, 1, 0));
    assert_eq!(replica.executor().next_deadline(), None);
}

#[test]
fn a_time_out_is_agreed_and_ordered() {
    a_time_out_is_agreed();
}

/// What was given up is sent until it is answered, since the backend takes numbers without gaps; its answer counts for nobody.
#[test]
fn what_was_given_up_is_still_sent() {
    let rules = NestedRules { patience: Span::from_nanos(100), ..rules() };
    let (mut replica, sessions) = with_sessions(&rules, 2);
    let first = replica.run(&place(10, &[ask(sessions[0], 1, &[Ask(BANK), Answer])], vec![])).left;
    assert_eq!(replica.run(&place(110, &[], vec![])).ended.len(), 1, "the outcome is unknown");
    let mut replica = replica.restarted();
    assert_eq!(replica.executor().unanswered().collect::<Vec<_>>(), first);
    let second = replica.run(&place(111, &[ask(sessions[1], 1, &[Ask(BANK), Answer])], vec![])).left;
    assert_eq!(numbers(&second), [(2, 2, 1)]);
    assert_eq!(replica.executor().next_deadline().map(|time| time.nanos()), Some(211));
    let late = replica.run(&place(112, &[], vec![answer(&first[0])]));
    assert!(late.ended.is_empty());
    assert_eq!(replica.executor().unanswered().collect::<Vec<_>>(), second);
    assert_eq!(replica.run(&place(113, &[], vec![answer(&second[0])])).ended.len(), 1);
    let counts = replica.executor().nested_counts().expect("it asks");
    assert_eq!((counts.late, counts.unasked), (1, 0));
}

/// An answer that can not be read says that nobody knows what happened; another status is handed on.
#[test]
fn wrong_answers_are_named() {
    let (mut replica, sessions) = with_sessions(&NestedRules { message_bytes_max: 100, ..rules() }, 1);
    let wrong = [
        (ReplyStatus::Done, items(&[b"1", b"2"]), "Unknown"),
        (ReplyStatus::Done, vec![1, 2, 3], "Unknown"),
        (ReplyStatus::Done, items(&[&[0; 101]]), "Status(TooLarge)"),
        (ReplyStatus::SessionExpired, vec![], "Status(SessionExpired)"),
    ];
    for (number, (status, body, says)) in (1..).zip(wrong) {
        let left = replica.run(&place(2, &[ask(sessions[0], number, &[Ask(BANK), Answer])], vec![])).left;
        let (backend, number) = (left[0].backend, left[0].number);
        // The backend would take it again, so that is no answer.
        let again = Answered { backend, number, status: ReplyStatus::Overloaded, body: Default::default() };
        let arrival = Answered { status, body: body.into(), ..again.clone() };
        let arrivals = vec![Arrival::Answer(again), Arrival::Answer(arrival)];
        let did = replica.run(&place(3, &[], arrivals));
        assert!(reply(&did.ended[0]).ends_with(says), "{did:?}");
    }
}

fn from_service(session: SessionId, number: u64, chain: &[u32], steps: &[Step]) -> Arrival {
    let number = RequestNumber::new(number);
    let request = NestedRequest {
        backend: ServiceId(1),
        number,
        lowest_unanswered: number,
        chain: Chain::of(chain.iter().copied().map(ServiceId).collect()),
        commands: items(&[&command(steps)]).into(),
    };
    Arrival::Request(session, request)
}

/// A chain of services goes on with what they ask, is so long at most, and enters none of them again.
#[test]
fn a_chain_of_services_ends() {
    let (mut replica, sessions) = with_sessions(&NestedRules { chain_max: 3, ..rules() }, 2);
    let client = replica.run(&place(2, &[ask(sessions[0], 1, &[Ask(BANK), Answer])], vec![]));
    assert_eq!(client.left[0].chain, Chain::of(vec![ServiceId(1)]));
    // Service 7 asks; this one asks on. What has another chain leaves in another request.
    let both =
        place(3, &[ask(sessions[0], 2, &[])], vec![from_service(sessions[1], 1, &[7], &[Ask(BANK), Answer])]);
    let did = replica.run(&both);
    assert_eq!(did.left[0].chain, Chain::of(vec![ServiceId(7), ServiceId(1)]));
    assert_eq!(did.left[0].number.number(), 2);
    replica.run(&place(4, &[], vec![answer(&client.left[0]), answer(&did.left[0])]));
    // It would come back to service 7, or to this one, or be too long: it does not leave.
    let asked_back = replica.run(&place(5, &[], vec![from_service(sessions[1], 2, &[7], &[Ask(7), Answer])]));
    assert!(reply(&asked_back.ended[0]).ends_with("Refused(ComesBack)"), "{asked_back:?}");
    let itself = replica.run(&place(6, &[ask(sessions[0], 3, &[Ask(1), Answer])], vec![]));
    assert!(reply(&itself.ended[0]).ends_with("Refused(ComesBack)") && itself.left.is_empty());
    let deep =
        replica.run(&place(7, &[], vec![from_service(sessions[1], 3, &[7, 8, 9], &[Ask(BANK), Answer])]));
    assert!(reply(&deep.ended[0]).ends_with("Refused(TooDeep)"), "{deep:?}");
    // One that comes in although it should not: a caller that lies, or has another limit.
    for (number, chain, says) in [(4, &[7, 1, 8][..], "comes back"), (5, &[7, 8, 9, 10], "too many")] {
        let refused = replica.run(&place(8, &[], vec![from_service(sessions[1], number, chain, &[Add(1)])]));
        assert!(reply(&refused.ended[0]).contains(says), "{refused:?}");
    }
}

/// After a restart a command sees again what it saw, though others have changed it since.
pub(crate) fn reads_come_from_the_journal() {
    let (mut replica, sessions) = with_sessions(&rules(), 2);
    replica.run(&place(2, &[ask(sessions[0], 1, &[Add(1), Add(2)])], vec![]));
    let left =
        replica.run(&place(3, &[ask(sessions[0], 2, &[Get(1), Ask(BANK), Answer, Put(3)])], vec![])).left;
    replica.run(&place(4, &[ask(sessions[1], 1, &[Add(1), Put(9)])], vec![]));
    compare_with_restarted(&mut replica, &left);
}

#[test]
fn reads_come_again_from_the_journal() {
    reads_come_from_the_journal();
}

/// After a restart nothing is written again over what others wrote since.
pub(crate) fn writes_are_not_repeated() {
    let (mut replica, sessions) = with_sessions(&rules(), 2);
    let left =
        replica.run(&place(3, &[ask(sessions[0], 1, &[Put(1), Ask(BANK), Answer, Put(3)])], vec![])).left;
    replica.run(&place(4, &[ask(sessions[1], 1, &[Add(5), Get(5), Put(1)])], vec![]));
    compare_with_restarted(&mut replica, &left);
}

#[test]
fn writes_are_not_repeated_by_a_restart() {
    writes_are_not_repeated();
}

fn compare_with_restarted(replica: &mut Replica, left: &[NestedRequest]) {
    let mut other = replica.restarted();
    let last = place(5, &[], vec![answer(&left[0])]);
    assert_eq!(other.run(&last), replica.run(&last));
    assert_eq!(other.digest(), replica.digest());
    assert_eq!(other.executor().nested_counts().expect("it asks").replays, 1, "it ran again");
    assert_eq!(replica.executor().nested_counts().expect("it asks").replays, 0, "it was still running");
}
