//! The queue between the client's thread and its reader.

use super::super::oneshot::block_on;
use super::{LetterQueue, ReceivedLetter};
use quorate_types::SessionId;
use std::time::Duration;

fn letter(session: u32, number: u64, len: usize) -> ReceivedLetter {
    let session = SessionId { index: session, generation: 1 };
    ReceivedLetter { session, number, missed: 0, body: vec![7; len].into() }
}

/// The number of each letter in the queue, and how many were missed before it.
fn all(queue: &LetterQueue) -> Vec<(u32, u64, u64)> {
    let next = || queue.try_recv().map(|letter| (letter.session.index, letter.number, letter.missed));
    std::iter::from_fn(next).collect()
}

#[test]
fn letters_that_find_no_room_are_counted() {
    let queue = LetterQueue::new(300);
    (1..=6).for_each(|number| queue.put(letter(1, number, 36)));
    queue.put(letter(2, 1, 100));
    assert_eq!(all(&queue), [(1, 1, 0), (1, 2, 0), (1, 3, 0)]);
    queue.put(ReceivedLetter { missed: 2, ..letter(1, 9, 1000) });
    assert_eq!(all(&queue), [(1, 9, 5)], "one always fits, and says what the queue and the network lost");
    queue.put(letter(1, 10, 0));
    queue.put(letter(2, 2, 0));
    assert_eq!(all(&queue), [(1, 10, 0), (2, 2, 1)], "each session by itself");
}

#[test]
fn readers_wait_on_threads_and_in_futures() {
    let queue = LetterQueue::new(1 << 20);
    assert_eq!(queue.recv(Duration::from_millis(1)), None);
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| queue.recv(Duration::from_secs(60)).map(|letter| letter.number));
        queue.put(letter(1, 1, 3));
        assert_eq!(waits.join().expect("no panic"), Some(1));
        let waits = scope.spawn(|| block_on(queue.next()).number);
        std::thread::sleep(Duration::from_millis(5));
        queue.put(letter(1, 2, 3));
        assert_eq!(waits.join().expect("no panic"), 2);
    });
}
