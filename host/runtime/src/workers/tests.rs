use super::*;
use mio::{Events, Poll, Token, Waker};
use quorate_auth::{KeyedClient, RequestChecks, RequestClaim};
use quorate_types::{ClusterId, Digest};
use quorate_wire::{REQUEST_HEADER, RequestSigner};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

const CLUSTER: ClusterId = ClusterId::new(7);
const SOON: Duration = Duration::from_secs(20);

fn workers(count: u16) -> (Workers, Receiver<Completion>, Poll) {
    let poll = Poll::new().unwrap();
    let waker = Arc::new(Waker::new(poll.registry(), Token(0)).unwrap());
    let (mailbox, completions) = Mailbox::new(waker);
    (Workers::start("worker", count, mailbox).unwrap(), completions, poll)
}

/// A right signature, or a wrong one.
fn claim(right: bool) -> RequestClaim {
    let (client, header) = (KeyedClient::new(CLUSTER, 5, 1), [3; REQUEST_HEADER]);
    let statement = quorate_auth::request_statement(CLUSTER, &header, b"pay bob 5");
    let statement = if right { statement } else { Digest::new([0; 32]) };
    RequestClaim { key: client.key(), statement, signature: client.sign(&header, b"pay bob 5") }
}

fn work(id: u64, claims: &[bool]) -> CheckWork {
    let claims = claims.iter().map(|right| claim(*right)).collect();
    CheckWork { id, checks: RequestChecks::Keyed(5), claims }
}

fn next(completions: &Receiver<Completion>) -> (u64, Option<Vec<bool>>) {
    match completions.recv_timeout(SOON) {
        Ok(Completion::Checked { id, right }) => (id, right),
        other => panic!("{other:?}"),
    }
}

fn check(workers: &Workers, work: CheckWork) -> Check {
    Check { work: Some(work), mailbox: workers.mailbox.clone(), tally: workers.tally.clone() }
}

fn wait_for(what: impl Fn() -> bool) {
    let until = Instant::now() + SOON;
    while !what() {
        assert!(Instant::now() < until, "it never comes");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn each_piece_is_answered_once_and_the_lane_is_woken() {
    let (workers, completions, mut poll) = workers(3);
    (0..100).for_each(|id| workers.check(work(id, &[true, id % 2 == 0, true])));
    let answers: BTreeMap<u64, _> = (0..100).map(|_| next(&completions)).collect();
    assert_eq!(answers.len(), 100);
    for (id, right) in answers {
        assert_eq!(right, Some(vec![true, id % 2 == 0, true]), "{id}");
    }
    let mut events = Events::with_capacity(1);
    poll.poll(&mut events, Some(SOON)).unwrap();
    assert!(!events.is_empty());
    assert_eq!(workers.status(), WorkersStatus { count: 3, waiting: 0, checked: 300, ran: 0, panics: 0 });
    workers.stop();
    assert!(completions.try_recv().is_err());
}

#[test]
fn the_only_worker_works_in_order() {
    let (workers, completions, _poll) = workers(1);
    (0..50).for_each(|id| workers.check(work(id, &[true])));
    assert!((0..50).all(|id| next(&completions) == (id, Some(vec![true]))));
}

#[test]
fn without_workers_the_lane_hears_at_once_that_nobody_checks() {
    let (workers, completions, _poll) = workers(0);
    workers.check(work(7, &[true]));
    assert_eq!(next(&completions), (7, None));
    assert_eq!(workers.status().problem(), None);
}

/// The panic is told on the standard error and in the status.
#[test]
fn a_worker_that_panics_costs_no_answer_and_goes_on() {
    let (workers, completions, _poll) = workers(1);
    workers.check(work(0, &[true]));
    workers.jobs.send(Job::Panic(check(&workers, work(1, &[true])))).unwrap();
    (2..20).for_each(|id| workers.check(work(id, &[true])));
    assert!((0..20).all(|id| next(&completions) == (id, (id != 1).then(|| vec![true]))));
    wait_for(|| workers.status().panics == 1);
    assert!(workers.status().problem().is_some_and(|text| text.contains("panicked 1 times")));
    workers.stop();
}

/// A queue without room gives the work back at once: it never grows.
#[test]
fn what_finds_no_room_in_the_queue_is_given_back() {
    let (jobs, receiver) = bounded(2);
    let (other, completions, _poll) = workers(0);
    let full = Workers { jobs, mailbox: other.mailbox.clone(), tally: Arc::default(), threads: Vec::new() };
    (0..5).for_each(|id| full.check(work(id, &[true])));
    assert!((2..5).all(|id| next(&completions) == (id, None)));
    assert_eq!(full.status().waiting, 2);
    receiver.into_iter().take(2).for_each(Job::run);
    assert!((0..2).all(|id| next(&completions) == (id, Some(vec![true]))));
}
