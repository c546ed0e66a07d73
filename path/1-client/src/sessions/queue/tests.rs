//! The queue beside a plain list of numbers.

use super::Queue;
use crate::effects::CallId;
use crate::sessions::entry::Entry;
use crate::step::NEVER;
use crate::votes::KeptAnswers;
use bytes::Bytes;
use proptest::prelude::*;
use quorate_types::Time;
use quorate_wire::RequestKind;

const WINDOW: u32 = 4;

fn entry(call: u64, kind: RequestKind, deadline: Time) -> Entry {
    Entry::new(Some(CallId(call)), kind, Bytes::from(call.to_le_bytes().to_vec()), deadline)
}

fn send(queue: &mut Queue) -> Option<(u64, RequestKind)> {
    let sent = queue.next_to_send(WINDOW).map(|(number, entry)| (number, entry.kind))?;
    queue.mark_sent();
    Some(sent)
}

#[test]
fn what_was_never_sent_goes_and_what_was_sent_keeps_its_number() {
    let (mut queue, mut held) = (Queue::new(), KeptAnswers::new(1, 0));
    let soon = Time::from_nanos(5);
    for (call, deadline) in [(1, soon), (2, NEVER), (3, soon), (4, NEVER)] {
        queue.push(entry(call, RequestKind::Commands, deadline));
    }
    assert_eq!(send(&mut queue), Some((1, RequestKind::Commands)));
    let mut late = Vec::new();
    let (_, earliest) = queue.give_up_late(soon, &mut |call, _| late.push(call.0));
    assert_eq!((late, earliest, queue.end()), (vec![1, 3], NEVER, 4));
    assert_eq!(queue.finish(1, &mut held).map(|(call, _)| call), Some(None), "nobody waits for it");
    assert_eq!((send(&mut queue), send(&mut queue), send(&mut queue)).2, None);
    assert_eq!(queue.finish(3, &mut held).map(|(call, _)| call), Some(Some(CallId(4))), "it moved up");
    queue.check(WINDOW);
}

#[test]
fn what_was_refused_in_all_its_copies_is_replaced_when_nobody_waits() {
    let mut queue = Queue::new();
    queue.push(entry(1, RequestKind::Commands, Time::from_nanos(5)));
    send(&mut queue);
    queue.sent_entry(1).expect("sent").open_sends = 0;
    queue.rewind(1);
    queue.give_up_late(Time::from_nanos(5), &mut |_, _| {});
    assert_eq!(send(&mut queue), Some((1, RequestKind::Empty)));
}

#[test]
fn a_close_waits_for_all_before_it() {
    let (mut queue, mut held) = (Queue::new(), KeptAnswers::new(1, 0));
    queue.push(entry(1, RequestKind::Commands, NEVER));
    queue.push(entry(2, RequestKind::CloseSession, NEVER));
    assert_eq!((send(&mut queue), send(&mut queue)), (Some((1, RequestKind::Commands)), None));
    queue.finish(1, &mut held);
    assert_eq!(send(&mut queue), Some((2, RequestKind::CloseSession)));
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Requests are pushed, sent, sent again and answered in any order: each call gets the answer to its own number, once.
    #[test]
    fn numbers_stay_with_their_calls(steps in proptest::collection::vec((0..4u8, 1..20u64), 1..200)) {
        let (mut queue, mut held, mut next) = (Queue::new(), KeptAnswers::new(1, 0), 1);
        let mut answered = std::collections::BTreeSet::new();
        for (what, number) in steps {
            match what {
                0 => {
                    queue.push(entry(next, RequestKind::Commands, NEVER));
                    next += 1;
                }
                1 => {
                    if let Some((number, _)) = send(&mut queue) {
                        prop_assert!(!answered.contains(&number) && number < queue.base() + u64::from(WINDOW));
                    }
                }
                2 => queue.rewind(number),
                _ => {
                    let sent = number < queue.high();
                    if let Some((call, _)) = queue.finish(number, &mut held) {
                        prop_assert!(sent && answered.insert(number), "INV-CLIENT-2");
                        prop_assert_eq!(call, Some(CallId(number)));
                    } else {
                        prop_assert!(!sent || answered.contains(&number));
                    }
                }
            }
            queue.check(WINDOW);
        }
    }
}
