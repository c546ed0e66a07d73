//! Locks: who gets them, what a failed one does, and deadlocks.

use super::asking::{BANK, POST, ask, rules};
use super::service::Step::{Add, Answer, Ask, Get, Lock, Put, Unlock};
use super::world::{answer, place, reply, with_sessions};
use quorate_execute::{NestedRules, Schedule};

/// Figure 4.2 of the paper: the first request takes a lock and halts, and the second one wants the lock. It neither blocks the schedule nor runs
/// into the first one's part.
#[test]
fn a_failed_lock_yields() {
    for schedule in [Schedule::Answered, Schedule::Ring(2)] {
        let (mut replica, sessions) = with_sessions(&NestedRules { schedule, ..rules() }, 3);
        let steps = [Add(8), Lock(1), Get(1), Ask(BANK), Answer, Add(1), Unlock(1)];
        let asks: Vec<_> = sessions[..2].iter().map(|session| ask(*session, 1, &steps)).collect();
        let first = replica.run(&place(2, &asks, vec![]));
        assert_eq!(first.left.len(), 1, "the second one has asked nothing: {schedule:?}");
        assert!(first.ended.is_empty());
        let counts = replica.executor().nested_counts().expect("it asks");
        assert_eq!((counts.taken_back, counts.deadlocks), (1, 0));
        // What the second one did in its leg is taken back.
        let peek = replica.restarted().run(&place(3, &[ask(sessions[2], 1, &[Get(8)])], vec![]));
        if schedule == Schedule::Answered {
            assert_eq!(reply(&peek.ended[0]).as_bytes().last(), Some(&1));
        }
        let second = replica.run(&place(3, &[], vec![answer(&first.left[0])]));
        assert_eq!((second.ended.len(), second.left.len()), (1, 1), "one ends, the other has the lock");
        let third =
            replica.run(&place(4, &[ask(sessions[2], 1, &[Get(8), Get(1)])], vec![answer(&second.left[0])]));
        assert_eq!(third.ended.len(), 2, "{schedule:?}");
        let last = third.ended.iter().find(|seen| seen.session == sessions[2]).expect("it ended");
        let seen = reply(last).into_bytes();
        assert_eq!(seen.get(3), Some(&2), "each of the two counted once");
    }
}

/// Each of two commands holds a lock that the other one wants, from before its last halt: the one that closes the circle is told (ADA-15).
pub(crate) fn a_deadlock_is_seen() {
    for schedule in [Schedule::Answered, Schedule::Ring(2)] {
        let (mut replica, sessions) = with_sessions(&NestedRules { schedule, ..rules() }, 2);
        let steps = |first, second| {
            [Lock(first), Ask(BANK), Answer, Lock(second), Add(first), Unlock(first), Unlock(second)]
        };
        let asks = [ask(sessions[0], 1, &steps(1, 2)), ask(sessions[1], 1, &steps(2, 1))];
        let first = replica.run(&place(2, &asks, vec![]));
        assert_eq!(first.left.len(), 1);
        let second = replica.run(&place(3, &[], vec![answer(&first.left[0])]));
        assert_eq!(second.ended.len(), 2, "both end at once: {schedule:?}");
        let (told, other) = (reply(&second.ended[0]), reply(&second.ended[1]));
        assert_eq!((told.matches("no").count(), other.matches("no").count()), (1, 0));
        assert_eq!(replica.executor().nested_counts().expect("it asks").deadlocks, 1);
        assert_eq!(replica.executor().under_way(), 0);
    }
}

#[test]
fn a_deadlock_is_seen_at_once() {
    a_deadlock_is_seen();
}

/// A circle may go through a lock that was taken in the leg that closes it, if that leg gave another one back and so counts where it halts.
#[test]
fn a_deadlock_through_a_new_lock_is_seen() {
    let (mut replica, sessions) = with_sessions(&NestedRules { schedule: Schedule::Ring(3), ..rules() }, 3);
    let (old, new, other) = (1, 2, 3);
    let asks = [
        ask(
            sessions[0],
            1,
            &[Lock(old), Ask(2), Answer, Ask(2), Answer, Unlock(old), Lock(new), Lock(other), Add(9)],
        ),
        ask(sessions[1], 1, &[Lock(other), Ask(3), Answer, Lock(new), Add(9)]),
        ask(sessions[2], 1, &[Lock(new), Ask(4), Answer, Unlock(new), Ask(4), Answer]),
    ];
    let mut left = replica.run(&place(2, &asks, vec![])).left;
    let mut ended = Vec::new();
    for time in 3..10 {
        let did = replica.run(&place(time, &[], left.iter().map(answer).collect()));
        ended.extend(did.ended.iter().map(reply));
        left = did.left;
    }
    assert_eq!(ended.len(), 3, "all of them end");
    let told: Vec<usize> = ended.iter().map(|said| said.matches("no").count()).collect();
    assert_eq!(told.iter().sum::<usize>(), 1, "{ended:?}");
    assert_eq!(replica.executor().nested_counts().expect("it asks").deadlocks, 1);
}

/// Two commands take two locks in opposite orders, each within one leg: none is ever in the other one's way.
#[test]
fn locks_of_one_leg_make_no_deadlock() {
    let (mut replica, sessions) = with_sessions(&rules(), 3);
    let hold = replica.run(&place(2, &[ask(sessions[2], 1, &[Lock(2), Ask(BANK), Answer])], vec![]));
    let steps = |first, second| [Lock(first), Lock(second), Ask(BANK), Answer, Add(9)];
    let asks = [ask(sessions[0], 1, &steps(1, 2)), ask(sessions[1], 1, &steps(2, 1))];
    assert!(replica.run(&place(3, &asks, vec![])).left.is_empty(), "both wait for the third one");
    let did = replica.run(&place(4, &[], vec![answer(&hold.left[0])]));
    assert_eq!((did.ended.len(), did.left.len()), (1, 1));
    let did = replica.run(&place(5, &[], vec![answer(&did.left[0])]));
    assert_eq!((did.ended.len(), did.left.len()), (1, 1));
    assert_eq!(replica.run(&place(6, &[], vec![answer(&did.left[0])])).ended.len(), 1);
    assert_eq!(replica.executor().nested_counts().expect("it asks").deadlocks, 0);
}

/// A leg that takes an answer and then fails to get a lock takes the answer again when it runs again; what it asked in that leg it asks once.
#[test]
fn answers_outlive_a_leg_that_is_taken_back() {
    let (mut replica, sessions) = with_sessions(&rules(), 2);
    let hold = replica.run(&place(2, &[ask(sessions[1], 1, &[Lock(1), Ask(POST), Answer])], vec![]));
    // Its second answer is there before the first one, so it takes both in one leg. The question to itself is refused at once.
    let steps = [Ask(BANK), Ask(4), Answer, Answer, Ask(1), Answer, Ask(POST), Lock(1), Answer];
    let first = replica.run(&place(3, &[ask(sessions[0], 1, &steps)], vec![]));
    replica.run(&place(4, &[], vec![answer(&first.left[1])]));
    let taken_back = replica.run(&place(5, &[], vec![answer(&first.left[0])]));
    assert!(taken_back.ended.is_empty() && taken_back.left.is_empty());
    let mut replica = replica.restarted();
    let again = replica.run(&place(6, &[], vec![answer(&hold.left[0])]));
    assert_eq!(again.left.len(), 1, "it has the lock, and what it asked leaves");
    let last = replica.run(&place(7, &[], vec![answer(&again.left[0])]));
    let said = reply(&last.ended[0]);
    assert_eq!((said.matches('=').count(), said.matches("Refused").count()), (3, 1), "{said}");
    assert!(replica.executor().take_reports().is_empty());
}

/// A command that gave a lock back before it failed to get another one does not hold the first one again.
#[test]
fn what_is_given_back_stays_given_back() {
    let (mut replica, sessions) = with_sessions(&rules(), 2);
    let first = replica.run(&place(
        2,
        &[ask(sessions[0], 1, &[Lock(1), Ask(BANK), Answer, Unlock(1), Lock(2), Add(1)])],
        vec![],
    ));
    let second = replica.run(&place(
        3,
        &[ask(sessions[1], 1, &[Lock(2), Ask(BANK), Answer, Lock(1), Add(1)])],
        vec![],
    ));
    // The second one waits for lock 1, then the first one gives it back and waits for lock 2.
    assert!(replica.run(&place(4, &[], vec![answer(&second.left[0])])).ended.is_empty());
    let did = replica.run(&place(5, &[], vec![answer(&first.left[0])]));
    assert_eq!(did.ended.len(), 2, "{did:?}");
    assert_eq!(replica.executor().nested_counts().expect("it asks").deadlocks, 0);
}

/// The oldest request that waits gets the lock, also after a restart.
#[test]
fn the_oldest_waits_least() {
    let (mut replica, sessions) = with_sessions(&rules(), 4);
    let steps = [Lock(1), Get(1), Put(1), Ask(BANK), Answer, Unlock(1)];
    let mut left = replica.run(&place(2, &[ask(sessions[3], 1, &steps)], vec![])).left;
    for at in [2, 0, 1] {
        replica.run(&place(3, &[ask(sessions[at], 1, &steps)], vec![]));
    }
    let mut ended = Vec::new();
    while let Some(request) = left.pop() {
        replica = replica.restarted();
        let did = replica.run(&place(4, &[], vec![answer(&request)]));
        ended.extend(did.ended.iter().map(|seen| seen.session));
        left = did.left;
    }
    assert_eq!(ended, [sessions[3], sessions[2], sessions[0], sessions[1]]);
}

/// A command that ends, or is ended, holds nothing any more; and what is taken back holds nothing either.
pub(crate) fn a_rollback_frees_locks() {
    let (mut replica, sessions) = with_sessions(&rules(), 2);
    let before = replica.image();
    let taken = place(2, &[ask(sessions[0], 1, &[Lock(1), Ask(BANK), Answer])], vec![]);
    replica.run(&taken);
    replica.roll_back(&before);
    // Another batch takes the place of that one.
    let others = [ask(sessions[0], 1, &[Add(2)]), ask(sessions[1], 1, &[Lock(1), Add(1)])];
    let did = replica.run(&place(2, &others, vec![]));
    assert_eq!(did.ended.len(), 2, "nobody holds the lock");
}

#[test]
fn a_rollback_frees_what_it_takes_back() {
    a_rollback_frees_locks();
}

#[test]
fn a_command_that_ends_holds_nothing() {
    let (mut replica, sessions) = with_sessions(&rules(), 2);
    for (number, last) in [(1, Add(1)), (2, super::service::Step::Panic)] {
        let did =
            replica.run(&place(2, &[ask(sessions[0], number, &[Lock(1), Ask(BANK), Answer, last])], vec![]));
        let waits = replica.run(&place(3, &[ask(sessions[1], number, &[Lock(1), Add(1)])], vec![]));
        assert!(waits.ended.is_empty());
        assert_eq!(replica.run(&place(4, &[], vec![answer(&did.left[0])])).ended.len(), 2);
    }
}
