//! Whom members miss: they look for themselves, sign it once for each question, and the leader finds the sets that agree.

use crate::visigoth::{Here, Reach};
use quorate_auth::Signature;
use quorate_types::{MembershipId, Reject, ReplicaId, Span, Time, Trust, View};

const WAIT: Span = Span::from_millis(40);
const PAUSE: Span = Span::from_millis(100);

fn ids(numbers: &[u16]) -> Vec<ReplicaId> {
    numbers.iter().copied().map(ReplicaId::new).collect()
}

fn at(millis: u64) -> Time {
    Time::ZERO.plus(Span::from_millis(millis))
}

fn five() -> Vec<ReplicaId> {
    ids(&[1, 2, 3, 4, 5])
}

fn says(reach: &mut Reach, from: u16, tag: u64, misses: &[u16], signed: bool) -> Result<(), Reject> {
    let said = (tag, ids(misses), Signature::NONE);
    reach.said(ReplicaId::new(from), said, &five(), |_| signed)
}

#[test]
fn a_member_says_whom_it_misses_once_the_others_had_their_time() {
    let mut reach = Reach::new(1);
    let states = |reach: &mut Reach, millis| reach.states(ReplicaId::new(2), &five(), at(millis), WAIT);
    assert!(reach.on_ask(7, at(0), WAIT));
    assert!(!reach.on_ask(7, at(1), WAIT), "the same question");
    assert!(
        !reach.on_ask(8, at(39), WAIT),
        "it looks already: a flood of questions sets no flood of probes going"
    );
    reach.on_probed(ReplicaId::new(1), 7);
    reach.on_probed(ReplicaId::new(3), 6);
    assert_eq!(reach.due(WAIT), Some(at(40)));
    assert_eq!(states(&mut reach, 39), None);
    assert_eq!(states(&mut reach, 40), Some((7, ids(&[3, 4, 5]))), "who answered another question is missed");
    assert_eq!(states(&mut reach, 99), None, "once");
    assert!(reach.on_ask(9, at(100), WAIT));
    assert_eq!(
        states(&mut reach, 140),
        Some((9, ids(&[1, 3, 4, 5]))),
        "the sign of life was for the old one"
    );
    assert!(reach.on_ask(10, at(150), WAIT));
    reach.enter();
    assert_eq!(states(&mut reach, 999), None, "another view");
}

#[test]
fn each_question_has_a_tag_of_its_own() {
    let mut tags: Vec<u64> = Vec::new();
    for seed in [1, 2] {
        let mut reach = Reach::new(seed);
        tags.extend((0..3).filter_map(|time| reach.ask(at(time * 100), PAUSE)));
        assert_eq!(reach.ask(at(299), PAUSE), None, "it asked a short time ago");
    }
    let count = tags.len();
    tags.sort_unstable();
    tags.dedup();
    assert_eq!((count, tags.len()), (6, 6), "also after a restart, which has another seed");
}

#[test]
fn statements_that_can_not_be_are_refused() {
    let mut reach = Reach::new(1);
    let tag = reach.ask(at(0), PAUSE).expect("the first one");
    for misses in [&[2][..], &[6], &[4, 3], &[4, 4]] {
        assert!(says(&mut reach, 2, tag, misses, true).is_err(), "{misses:?}");
    }
    assert!(says(&mut reach, 2, tag, &[4, 5], false).is_err(), "not signed");
    assert!(
        says(&mut reach, 2, tag ^ 1, &[2], true).is_ok(),
        "an answer to an older question is late, not wrong"
    );
    assert!(reach.near(&five(), 0).is_empty(), "nobody said anything");
}

/// u = 2, s = 1, o = 1: of five members three may go on, if none of them misses another, and each misses one of the other two.
#[test]
fn a_claim_names_members_that_are_near_each_other() {
    let voters = five();
    let here = Here {
        membership: MembershipId::FIRST,
        view: View::new(3),
        decided: View::new(2),
        voters: &voters,
        trust: Trust::new(5, 2, 1, 1).expect("five are enough"),
    };
    let mut reach = Reach::new(1);
    let tag = reach.ask(at(0), PAUSE).expect("the first one");
    let claims = |reach: &Reach, set: &[u16]| reach.claim(&ids(set), here, None).is_some();
    for (from, misses) in [(1, &[5][..]), (2, &[4, 5]), (3, &[4, 5])] {
        says(&mut reach, from, tag, misses, true).expect("it can be");
    }
    assert_eq!(reach.near(&five(), 0), [ids(&[1, 2, 3])], "the others did not say anything");
    assert!(claims(&reach, &[1, 2, 3]), "4 may be slow towards 2 and 3");
    says(&mut reach, 4, tag, &[2, 3, 5], true).expect("it can be");
    assert_eq!(reach.near(&five(), 0), [ids(&[1, 2, 3]), ids(&[1, 4])], "4 misses two of them");
    assert!(!claims(&reach, &[1, 2, 5]), "5 said nothing");

    let without = [&[1, 2, 3][..], &[1, 4], &[2, 3], &[1, 3], &[1, 2], &[4], &[1]].map(ids);
    let mut sets = reach.near(&five(), 1);
    assert_eq!(sets[0], ids(&[1, 2, 3]), "the largest first");
    sets.sort();
    assert!(without.iter().all(|set| sets.contains(set)) && sets.len() == without.len(), "{sets:?}");

    // 1 hears both of the others: it would be no surprise if they were there.
    says(&mut reach, 1, tag, &[], true).expect("it can be");
    assert!(!claims(&reach, &[1, 2, 3]));
    let tag = reach.ask(at(200), PAUSE).expect("later");
    assert!(reach.near(&five(), 0).is_empty(), "what was said before counts no more");
    says(&mut reach, 1, tag, &[4, 5], true).expect("it can be");
    assert_eq!(reach.near(&five(), 0), [ids(&[1])]);
}
