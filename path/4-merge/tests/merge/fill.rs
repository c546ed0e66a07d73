//! Who is filled up to where, and how far leaders may go, one point each.

use crate::common::{Rec, instance};
use crate::deliver::{give, merge, pull};
use quorate_merge::{Bounds, Leader, Merge, Place, Proposer};
use quorate_types::Slot;

/// A replica that leads all its instances.
fn leads_all(instances: u16, window: u64) -> Merge<Rec> {
    let mut merge = merge(instances, window);
    for at in 0..usize::from(instances) {
        merge.leader(instance(at), Leader::Here);
        merge.settled(instance(at));
    }
    merge
}

fn fills(merge: &mut Merge<Rec>) -> Vec<u64> {
    let count = usize::from(merge.generation().instances);
    (0..count).map(|at| merge.fill(instance(at)).map_or(0, Slot::number)).collect()
}

fn asks(merge: &mut Merge<Rec>) -> Vec<(u16, Place)> {
    let mut all = vec![];
    merge.asks(|whom, place| all.push((whom.number(), place)));
    all
}

/// Work at slot t of instance r: those before r up to t, those behind up to t - 1.
#[test]
fn work_asks_for_what_lies_before_it() {
    let mut merge = leads_all(4, 9);
    assert_eq!(fills(&mut merge), [0; 4], "nothing is there");
    give(&mut merge, 2, Rec::Work(1));
    assert_eq!(fills(&mut merge), [1, 1, 0, 0]);
    assert_eq!(fills(&mut merge), [0; 4], "one at a time");
    give(&mut merge, 2, Rec::Work(2));
    assert_eq!(fills(&mut merge), [0, 0, 0, 1], "the first two have one under way");
    give(&mut merge, 0, Rec::Noop(1));
    assert_eq!(fills(&mut merge), [2, 0, 0, 0]);
}

/// All that an instance has within its window are no-ops, for work of another one that was lost: nothing wants the others, until new work
/// can not be proposed.
#[test]
fn work_without_room_asks_for_what_the_window_waits_for() {
    let mut merge = leads_all(3, 2);
    give(&mut merge, 0, Rec::Noop(2));
    pull(&mut merge);
    assert_eq!((merge.room(instance(0)), fills(&mut merge)), (0, vec![0; 3]));
    merge.waits_for_room(instance(1));
    assert_eq!(fills(&mut merge), [0; 3], "that one has room");
    merge.waits_for_room(instance(0));
    assert_eq!(fills(&mut merge), [0, 1, 1]);
    give(&mut merge, 1, Rec::Noop(1));
    give(&mut merge, 2, Rec::Noop(1));
    pull(&mut merge);
    assert_eq!(merge.room(instance(0)), 1);
    // Elsewhere it is asked for.
    merge.leader(instance(2), Leader::Elsewhere);
    give(&mut merge, 0, Rec::Noop(3));
    merge.waits_for_room(instance(0));
    assert_eq!(asks(&mut merge), [(3, Place { slot: Slot::new(2), instance: instance(2) })]);
}

/// A leader that proposes asks at once, so that no-ops are decided beside its batch.
#[test]
fn a_proposal_asks_before_it_is_decided() {
    let mut merge = leads_all(3, 9);
    assert_eq!(merge.proposed(instance(1)), Some(Slot::new(1)));
    assert_eq!(fills(&mut merge), [1, 0, 0]);
    assert_eq!(merge.proposed(instance(0)), Some(Slot::new(2)), "behind the no-op");
    assert_eq!(merge.proposed(instance(2)), Some(Slot::new(1)));
}

/// A leader with work of its own under way puts a no-op off until that is decided: more of it may come, and makes no-ops needless.
#[test]
fn work_under_way_puts_a_no_op_off() {
    let mut merge = leads_all(2, 20);
    merge.proposed(instance(0));
    for number in 1..=2 {
        give(&mut merge, 1, Rec::Work(number));
    }
    assert_eq!(merge.fill(instance(0)), None, "slot 1 is under way, and slot 2 is wanted");
    merge.proposed(instance(0));
    for number in 3..=4 {
        give(&mut merge, 1, Rec::Work(number));
    }
    give(&mut merge, 0, Rec::Work(11));
    assert_eq!(merge.fill(instance(0)), None, "its own work came as far as was wanted then; now slot 4 is");
    merge.proposed(instance(0));
    give(&mut merge, 0, Rec::Work(12));
    assert_eq!(merge.fill(instance(0)), Some(Slot::new(4)), "its own work came to slot 3 only");
    give(&mut merge, 1, Rec::Work(5));
    give(&mut merge, 0, Rec::Work(13));
    assert_eq!(merge.fill(instance(0)), None, "a no-op is under way");
    give(&mut merge, 0, Rec::Noop(4));
    assert_eq!(merge.fill(instance(0)), Some(Slot::new(5)), "and nothing any more");
}

#[test]
fn no_ops_ask_for_nothing() {
    let mut merge = leads_all(3, 9);
    give(&mut merge, 1, Rec::Noop(5));
    assert_eq!(fills(&mut merge), [0; 3]);
    assert!(asks(&mut merge).is_empty());
    assert!(!merge.is_needed(instance(0), Slot::new(1)), "nor does anybody need one");
    give(&mut merge, 1, Rec::Work(6));
    assert!(merge.is_needed(instance(0), Slot::new(6)) && !merge.is_needed(instance(0), Slot::new(7)));
    assert!(merge.is_needed(instance(2), Slot::new(5)) && !merge.is_needed(instance(2), Slot::new(6)));
}

/// Nobody runs more than a window ahead of the slowest; what is wanted beyond comes when the window moves.
#[test]
fn no_one_leaves_the_window() {
    let mut merge = leads_all(2, 3);
    assert_eq!(merge.room(instance(0)), 3);
    for slot in 1..=3 {
        assert_eq!(merge.proposed(instance(0)), Some(Slot::new(slot)));
    }
    assert_eq!((merge.room(instance(0)), merge.room(instance(1))), (0, 3));
    for number in 1..=3 {
        give(&mut merge, 0, Rec::Work(number));
    }
    assert_eq!(pull(&mut merge).len(), 1);
    assert_eq!(merge.room(instance(0)), 0, "slot 1 of the other is not delivered");
    assert!(merge.is_within_window(Slot::new(3)) && !merge.is_within_window(Slot::new(4)));
    assert_eq!(fills(&mut merge), [0, 2]);
    merge.asked(Place::new(4, 2));
    give(&mut merge, 1, Rec::Noop(2));
    assert_eq!(pull(&mut merge).len(), 4);
    assert_eq!((merge.room(instance(0)), merge.fill(instance(0))), (2, Some(Slot::new(4))));
    assert_eq!(merge.fill(instance(1)), Some(Slot::new(4)));
}

#[test]
#[should_panic(expected = "INV-MERGE-5")]
fn a_leader_that_leaves_the_window_is_a_bug() {
    let mut merge = leads_all(2, 2);
    for _ in 0..3 {
        merge.proposed(instance(0));
    }
}

/// Who does not lead, or does not know what was decided before it led, proposes nothing.
#[test]
fn only_settled_leaders_propose() {
    let mut merge = merge(2, 9);
    give(&mut merge, 1, Rec::Work(1));
    merge.settled(instance(0));
    assert_eq!(
        (merge.room(instance(0)), merge.fill(instance(0)), merge.proposed(instance(0))),
        (0, None, None)
    );
    merge.leader(instance(0), Leader::Here);
    assert_eq!((merge.room(instance(0)), merge.fill(instance(0))), (0, None));
    merge.settled(instance(0));
    assert_eq!((merge.room(instance(0)), merge.fill(instance(0))), (9, Some(Slot::new(1))));
    merge.leader(instance(0), Leader::Nobody);
    assert_eq!((merge.room(instance(0)), merge.fill(instance(0))), (0, None));
}

/// What a leader proposed may be lost with its office: the next one proposes it again.
#[test]
fn the_next_leader_fills_again() {
    let mut merge = leads_all(2, 9);
    give(&mut merge, 1, Rec::Work(1));
    assert_eq!(merge.fill(instance(0)), Some(Slot::new(1)));
    merge.leader(instance(0), Leader::Here);
    assert_eq!(merge.fill(instance(0)), None);
    merge.settled(instance(0));
    assert_eq!(merge.fill(instance(0)), Some(Slot::new(1)));
}

/// The replica that leads the instance with the work asks the leaders of the others; whoever only follows does not.
#[test]
fn others_are_asked_by_the_one_who_knows_first() {
    let mut follower = merge(3, 9);
    give(&mut follower, 2, Rec::Work(1));
    assert!(asks(&mut follower).is_empty());
    let mut leader = merge(3, 9);
    leader.leader(instance(2), Leader::Here);
    leader.settled(instance(2));
    leader.proposed(instance(2));
    let place = Place::new(1, 3);
    assert_eq!(asks(&mut leader), [(1, place), (2, place)]);
    assert!(asks(&mut leader).is_empty(), "one question at a time");
    leader.ask_again(instance(1));
    assert_eq!(asks(&mut leader), [(2, place)], "its connection broke");
    leader.leader(instance(0), Leader::Elsewhere);
    assert_eq!(asks(&mut leader), [(1, place)], "a new leader was not asked");
    leader.proposed(instance(2));
    assert!(asks(&mut leader).is_empty(), "what comes meanwhile is in the next question");
    give(&mut leader, 0, Rec::Noop(1));
    give(&mut leader, 1, Rec::Noop(1));
    let place = Place::new(2, 3);
    assert_eq!(asks(&mut leader), [(1, place), (2, place)]);
    assert_eq!(leader.counts().asks, 6);
}

/// Work that a leader before it proposed, and that is decided now, is told by the one who leads now.
#[test]
fn inherited_work_is_told_too() {
    let mut merge = merge(2, 9);
    merge.leader(instance(1), Leader::Here);
    give(&mut merge, 1, Rec::Work(1));
    assert_eq!(asks(&mut merge), [(1, Place::new(1, 2))]);
}

/// What a leader on another lane says may be from before something was decided here.
#[test]
fn what_a_leader_apart_says_may_be_old() {
    let mut merge = merge(1, 9);
    merge.leader(instance(0), Leader::Here);
    let mut proposer = Proposer::default();
    proposer.settle(&merge.bounds(instance(0)).expect("an instance"));
    give(&mut merge, 0, Rec::Work(1));
    merge.proposes_apart(instance(0), proposer, None);
    merge.invariants(true);
    assert_eq!(merge.room(instance(0)), 8, "the first slot is used");
}

/// A leader on another lane has numbers that are old, and slots may have passed while its instance was away.
#[test]
fn a_leader_apart_goes_by_what_it_was_told() {
    let slot = Slot::new;
    let mut bounds = Bounds { decided: slot(3), last: slot(9), border: None, wanted: slot(5) };
    let mut proposer = Proposer::default();
    assert_eq!((proposer.room(&bounds), proposer.fill(&bounds)), (0, None), "it is not settled");
    proposer.settle(&bounds);
    assert_eq!(proposer.room(&bounds), 6);
    bounds.decided = slot(7);
    assert_eq!((proposer.room(&bounds), proposer.fill(&bounds)), (2, None));
    bounds.wanted = slot(12);
    assert_eq!(proposer.fill(&bounds), Some(slot(9)));
    (bounds.decided, bounds.last, bounds.border) = (slot(9), slot(20), Some(slot(11)));
    assert_eq!((proposer.room(&bounds), proposer.propose(&bounds)), (2, slot(10)));
    bounds.decided = slot(10);
    assert_eq!(proposer.fill(&bounds), Some(slot(11)), "up to the border");
    bounds.decided = slot(11);
    assert_eq!(proposer.fill(&bounds), Some(slot(12)), "and from there");
}

/// A question that no correct replica would ask costs a window of no-ops at most.
#[test]
fn an_absurd_question_costs_little() {
    let mut merge = leads_all(2, 4);
    merge.asked(Place::new(u64::MAX, u16::MAX));
    let mut filled = 0;
    for _ in 0..100 {
        for at in 0..2 {
            if let Some(target) = merge.fill(instance(at)) {
                filled += 1;
                give(&mut merge, at, Rec::Noop(target.number()));
            }
        }
        pull(&mut merge);
    }
    assert!(merge.seq().number() <= 2 * 6 && filled <= 12, "{} {filled}", merge.seq());
}

/// The question came before the replica knew that it leads.
#[test]
fn an_early_question_is_kept() {
    let mut merge = merge(2, 4);
    merge.asked(Place::new(2, 1));
    assert_eq!(merge.fill(instance(0)), None);
    merge.leader(instance(0), Leader::Here);
    merge.settled(instance(0));
    assert_eq!(merge.fill(instance(0)), Some(Slot::new(2)));
}

/// A leader without room leads as well as anybody, while nobody else got further: all wait for the same one.
#[test]
fn a_leader_lags_when_others_want_what_it_may_not_propose() {
    let mut merge = merge(2, 2);
    merge.leader(instance(0), Leader::Here);
    merge.leader(instance(1), Leader::Elsewhere);
    merge.settled(instance(0));
    give(&mut merge, 0, Rec::Work(1));
    give(&mut merge, 0, Rec::Work(2));
    pull(&mut merge);
    merge.waits_for_room(instance(0));
    assert_eq!(merge.room(instance(0)), 0, "slot 1 of the other one is lacking");
    assert!(!merge.lags(instance(0)), "who led here instead could propose no more");
    merge.asked(Place { slot: Slot::new(4), instance: instance(1) });
    assert!(merge.lags(instance(0)), "somebody has the slot that is lacking here");
    give(&mut merge, 1, Rec::Work(4));
    pull(&mut merge);
    assert!(merge.room(instance(0)) > 0);
    assert!(!merge.lags(instance(0)), "it can go on");
}
