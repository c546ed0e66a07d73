//! How a turn divides its time between callers and sockets.

use super::super::completions::CompletionQueue;
use super::*;
use quorate_types::ClientId;

/// A client of a member that nobody is, which no thread drives, and what its callers hold.
fn driver(queue_bytes_max: usize) -> (Driver, Arc<Handle>, mio::Poll) {
    let poll = mio::Poll::new().expect("a poll");
    let wake = Arc::new(Wake::new(&poll).expect("a waker"));
    let config = Config { queue_bytes_max, ..Config::new(ClientId::new(1), 1) };
    let members = vec![(ReplicaId::new(1), "127.0.0.1:1".to_owned())];
    let registry = poll.registry().try_clone().expect("a registry");
    let (driver, handle) = Driver::new(config, members, None, (registry, 0, wake), Outlets::default());
    (driver, handle, poll)
}

/// Asks a member that does not exist, so that it ends as soon as it is taken.
fn ask(handle: &Handle, queue: &CompletionQueue, tag: u64) {
    let (consistency, after, replica) = (ReadConsistency::Weak, Seq::ZERO, Some(ReplicaId::new(9)));
    let (query, deadline) = (Bytes::new(), Time::from_nanos(u64::MAX));
    let ask = Ask::Read { consistency, after, replica, query, deadline };
    handle.shared.ask(ask, Waiter::Queue { queue: Arc::clone(&queue.shared), tag });
}

fn taken(queue: &CompletionQueue) -> Vec<Completed> {
    let mut batch = Vec::new();
    queue.recv_batch(&mut batch, Duration::ZERO);
    batch
}

/// Otherwise callers that ask faster than the thread can take would keep it from reading answers, and nothing would be answered.
#[test]
fn a_turn_takes_a_part_of_many_calls_and_goes_on_without_sleeping() {
    let (mut driver, handle, _poll) = driver(64 << 20);
    let queue = CompletionQueue::new();
    let count = ASKS_PER_TURN as u64 * 2 + 5;
    (0..count).for_each(|tag| ask(&handle, &queue, tag));
    let mut tags = Vec::new();
    for part in [ASKS_PER_TURN, ASKS_PER_TURN, 5] {
        assert!(driver.is_busy(), "there is work: the thread does not sleep");
        driver.end_turn(Time::from_nanos(1));
        let batch = taken(&queue);
        assert_eq!(batch.len(), part);
        tags.extend(batch.iter().map(|completed| completed.tag));
    }
    assert!(!driver.is_busy());
    assert!(tags.into_iter().eq(0..count), "in the order in which they came");
}

/// What the thread has begun to take and not yet taken still counts, or the queue could be twice as long as it may be.
#[test]
fn what_was_not_taken_yet_counts_against_the_limit() {
    let fits = ASKS_PER_TURN as u64 * 2;
    let (mut driver, handle, _poll) = driver(fits as usize * ASK_COST);
    let queue = CompletionQueue::new();
    (0..fits).for_each(|tag| ask(&handle, &queue, tag));
    let refused = |queue: &CompletionQueue| {
        taken(queue)
            .iter()
            .filter(|completed| matches!(completed.result, Err(Error::Overloaded { .. })))
            .count()
    };
    ask(&handle, &queue, fits);
    assert_eq!(refused(&queue), 1);
    driver.end_turn(Time::from_nanos(1));
    assert_eq!(refused(&queue), 0);
    (0..fits).for_each(|tag| ask(&handle, &queue, tag));
    assert_eq!(refused(&queue), ASKS_PER_TURN, "as many fit as were taken");
}

#[test]
fn callers_that_wait_when_the_thread_ends_are_told() {
    let (mut driver, handle, _poll) = driver(64 << 20);
    let queue = CompletionQueue::new();
    (0..ASKS_PER_TURN as u64 + 3).for_each(|tag| ask(&handle, &queue, tag));
    driver.end_turn(Time::from_nanos(1));
    ask(&handle, &queue, 9999);
    drop(taken(&queue));
    drop(driver);
    let left = taken(&queue);
    let stopped = left.iter().filter(|completed| matches!(completed.result, Err(Error::Stopped { .. })));
    assert_eq!((left.len(), stopped.count()), (4, 4));
}
