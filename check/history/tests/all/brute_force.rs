//! The checker against a slow one that tries all orders, on many small random histories.

use crate::common::{Rng, Shape, is_linearizable_by_force, random_history};
use quorate_history::linearizability::{self, Verdict};
use quorate_history::{Budget, Event, History, Op, Writer, exactly_once};

fn as_lines(events: &[Event]) -> String {
    let mut writer = Writer::new(Vec::new());
    events.iter().for_each(|event| writer.write(event).expect("a valid event"));
    String::from_utf8(writer.finish().expect("memory does not fail")).expect("JSON is UTF-8")
}

/// Both checkers must agree; and the rules of exactly-once must not accuse a history that is in order.
fn compare(seed: u64, rounds: u64, shape: Shape) -> (u64, u64) {
    let mut rng = Rng(seed);
    let (mut good, mut bad) = (0, 0);
    for round in 0..rounds {
        let events = random_history(&mut rng, shape);
        let expected = is_linearizable_by_force(&events);
        let history = History::from_events(events);
        let verdict = linearizability::check(&history, Budget::default()).verdict;
        let lines = || as_lines(history.events());
        match verdict {
            Verdict::Ok => assert!(expected, "round {round}: accepted, but no order exists\n{}", lines()),
            Verdict::Violation { explanation, .. } => {
                assert!(!expected, "round {round}: refused, but an order exists\n{}{explanation}", lines());
                check_prefix(&explanation, &history);
            }
            Verdict::Unknown { why } => panic!("round {round}: undecided ({why})\n{}", lines()),
        }
        if expected {
            // Without weak reads: they see through lies that a legal order need not explain.
            let strong = history.events().iter().filter(|event| event.op != Op::ReadWeak);
            let strong = History::from_events(strong.cloned().collect());
            let once = exactly_once::check(&strong, exactly_once::Options::default());
            assert_eq!(once.verdict, exactly_once::OnceVerdict::Ok, "round {round}: {once}\n{}", lines());
        }
        *(if expected { &mut good } else { &mut bad }) += 1;
    }
    (good, bad)
}

/// The culprit of an explanation is the first return (in time) after which the history has no order.
fn check_prefix(explanation: &quorate_history::Explanation, history: &History) {
    use quorate_history::{Answer, Mark, Outcome};
    let culprit = explanation.operations.iter().find(|row| row.mark == Mark::Culprit).expect("a culprit");
    let end = culprit.ret.expect("a culprit has returned");
    // A write still under way may have happened; one that will answer false changes nothing.
    let until = |is_in: &dyn Fn(u64) -> bool| -> Vec<Event> {
        let mut events: Vec<Event> = history.events().to_vec();
        events.retain(|event| event.call <= end && event.key == explanation.key);
        let is_open = |event: &Event| event.ok_return().is_some_and(|ret| !is_in(ret));
        events.retain(|event| !(is_open(event) && event.answer() == Some(&Answer::Flag(false))));
        for event in events.iter_mut().filter(|event| is_open(event)) {
            event.outcome = Outcome::Unknown { ret: None };
        }
        events
    };
    assert!(
        is_linearizable_by_force(&until(&|ret| ret < end)),
        "the prefix is not the smallest: {explanation}"
    );
    assert!(!is_linearizable_by_force(&until(&|ret| ret <= end)), "the prefix has an order: {explanation}");
}

/// Few values, so that writes repeat them and reads cannot tell them apart.
#[test]
fn agrees_on_histories_with_repeated_values() {
    let shape = Shape { events: 7, keys: 1, values: 2, times: 9, lies: 30, unique: false };
    let (good, bad) = compare(1, 8000, shape);
    assert!(good > 1000 && bad > 1000, "the mix is too thin: {good} in order, {bad} not");
}

/// Unique values, where the guide prunes most.
#[test]
fn agrees_on_histories_with_unique_values() {
    let shape = Shape { events: 8, keys: 1, values: 5, times: 12, lies: 20, unique: true };
    let (good, bad) = compare(2, 4000, shape);
    assert!(good > 800 && bad > 800, "the mix is too thin: {good} in order, {bad} not");
}

/// Several keys: the slow checker orders all keys together, ours each for itself.
#[test]
fn agrees_on_histories_with_several_keys() {
    let shape = Shape { events: 7, keys: 3, values: 2, times: 10, lies: 12, unique: false };
    let (good, bad) = compare(3, 4000, shape);
    assert!(good > 800 && bad > 800, "the mix is too thin: {good} in order, {bad} not");
}

/// Nearly everything overlaps, and most answers are made up.
#[test]
fn agrees_on_crowded_histories_with_many_lies() {
    let shape = Shape { events: 6, keys: 1, values: 3, times: 3, lies: 50, unique: false };
    let (good, bad) = compare(4, 10_000, shape);
    assert!(good > 300 && bad > 300, "the mix is too thin: {good} in order, {bad} not");
}

/// A correct store is never accused, even where the slow checker could not follow.
#[test]
fn accepts_larger_histories_without_lies() {
    for unique in [false, true] {
        let mut rng = Rng(5);
        for round in 0..300 {
            let shape = Shape { events: 60, keys: 2, values: 4, times: 200, lies: 0, unique };
            let history = History::from_events(random_history(&mut rng, shape));
            let result = linearizability::check(&history, Budget::default());
            assert!(matches!(result.verdict, Verdict::Ok), "round {round}: {result}");
            let once = exactly_once::check(&history, exactly_once::Options::default());
            assert_eq!(once.verdict, exactly_once::OnceVerdict::Ok, "round {round}: {once}");
        }
    }
}
