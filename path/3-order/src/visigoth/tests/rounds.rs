//! Two rounds: who answers late answers nothing, and whoever answered at all is in the set.

use crate::visigoth::{Gathering, Rounds};
use quorate_types::{ReplicaId, Span, Time};

const WAIT: Span = Span::from_millis(40);
const PAUSE: Span = Span::from_millis(100);

fn id(number: u16) -> ReplicaId {
    ReplicaId::new(number)
}

fn at(millis: u64) -> Time {
    Time::ZERO.plus(Span::from_millis(millis))
}

#[test]
pub(crate) fn those_that_answered_in_either_round_are_the_set() {
    let mut rounds = Rounds::new(1);
    assert_eq!(rounds.due(WAIT), None);
    let first = rounds.begin(at(0), PAUSE).expect("nothing is under way");
    assert_eq!(rounds.begin(at(99), PAUSE), None, "it is under way");
    assert_eq!(rounds.due(WAIT), Some(at(40)));
    rounds.answered(id(1), first);
    rounds.answered(id(1), first);
    rounds.answered(id(9), first + 1);
    assert_eq!(rounds.go_on(at(40), WAIT, 2), None, "one is too few, however often it answers");
    rounds.answered(id(3), first);
    assert_eq!(rounds.go_on(at(39), WAIT, 2), None, "the others have time left");
    let Some(Gathering::Ask(second)) = rounds.go_on(at(41), WAIT, 2) else { panic!("a second round") };
    assert_ne!(first, second);
    rounds.answered(id(1), second);
    rounds.answered(id(4), first);
    assert_eq!(rounds.go_on(at(200), WAIT, 2), None, "late for the first round, and none for the second");
    rounds.answered(id(2), second);
    assert_eq!(rounds.go_on(at(80), WAIT, 2), None);
    let gathered = Gathering::Gathered(vec![id(1), id(2), id(3)]);
    assert_eq!(rounds.go_on(at(81), WAIT, 2), Some(gathered));
    assert_eq!(rounds.go_on(at(300), WAIT, 2), None, "that is all");
}

#[test]
fn what_was_gathered_in_another_view_is_forgotten() {
    let mut rounds = Rounds::new(1);
    let first = rounds.begin(at(0), PAUSE).expect("nothing is under way");
    rounds.answered(id(1), first);
    rounds.end();
    assert_eq!(rounds.go_on(at(50), WAIT, 1), None);
    let again = rounds.begin(at(50), PAUSE).expect("nothing is under way");
    assert_ne!(first, again);
    rounds.answered(id(1), first);
    assert_eq!(rounds.go_on(at(100), WAIT, 1), None);
}

#[test]
fn rounds_that_last_too_long_begin_anew() {
    let mut rounds = Rounds::new(1);
    let first = rounds.begin(at(0), PAUSE).expect("nothing is under way");
    let again = rounds.begin(at(100), PAUSE).expect("a question may be lost");
    rounds.answered(id(1), first);
    assert_eq!(rounds.go_on(at(140), WAIT, 1), None);
    rounds.answered(id(1), again);
    assert!(matches!(rounds.go_on(at(140), WAIT, 1), Some(Gathering::Ask(_))));
}

/// One that is in another view has not stopped, so who is silent need not have either.
#[test]
pub(crate) fn who_is_there_elsewhere_is_not_gone() {
    let mut rounds = Rounds::new(1);
    let first = rounds.begin(at(0), PAUSE).expect("nothing is under way");
    rounds.answered(id(1), first);
    rounds.answered(id(2), first);
    rounds.answered_elsewhere(first + 1);
    let Some(Gathering::Ask(second)) = rounds.go_on(at(40), WAIT, 2) else { panic!("a second round") };
    rounds.answered(id(1), second);
    rounds.answered(id(2), second);
    rounds.answered_elsewhere(second);
    assert_eq!(rounds.go_on(at(99), WAIT, 2), None);
    let again = rounds.begin(at(100), PAUSE).expect("the last one said nothing");
    [1, 2, 3].into_iter().for_each(|member| rounds.answered(id(member), again));
    assert!(matches!(rounds.go_on(at(140), WAIT, 2), Some(Gathering::Ask(_))));
}
