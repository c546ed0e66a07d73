//! What a caller is told when members answer and never enough of them alike.

mod many;

use many::hand::Hand;
use quorate_client::Error;
use quorate_types::Span;

/// The text for a call that these members of four answered.
fn told(answers: &[(usize, &[u8])]) -> String {
    let (mut hand, handle) = Hand::with_session();
    let soon = hand.now.plus(Span::from_millis(50));
    hand.call_until(1, handle, b"x", Some(soon));
    for (member, answer) in answers {
        hand.done(*member, 1, answer);
    }
    hand.advance(Span::from_millis(100));
    let error = hand.ended(1).expect("late").expect_err("late");
    assert!(matches!(error, Error::DeadlineExceeded { outcome_unknown: true, .. }), "{error}");
    error.to_string()
}

#[test]
fn more_answers_than_liars_explain_mean_that_the_service_is_not_deterministic() {
    let all = [(0, &b"1"[..]), (1, b"2"), (2, b"3"), (3, b"4")];
    let text = told(&all);
    assert!(
        text.contains("4 replicas answered in 4 different ways: the service is not deterministic"),
        "{text}"
    );
}

#[test]
fn one_liar_and_silence_are_no_proof() {
    let text = told(&[(0, b"yes"), (3, b"lie")]);
    assert!(text.contains("2 replicas answered in 2 different ways (the commands may have run)"), "{text}");
    let text = told(&[(0, b"yes")]);
    assert!(!text.contains("answered in"), "{text}");
}
