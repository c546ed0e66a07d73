//! A replica whose state is not what the members agree on.

use super::{Alone, In, Report, Seq, Why, digest, has, of_others, written};

/// It has something else at 20 than the others.
fn diverged() -> (Alone, Vec<String>) {
    let mut alone = Alone::new();
    alone.agreed_border(10);
    alone.step(has(2, 20, digest(20)));
    alone.step(has(3, 20, digest(20)));
    alone.border(20);
    let said = alone.step(In::Kept(Report::Digest { seq: Seq::new(20), border: 2, digest: digest(99) }));
    (alone, said)
}

#[test]
fn it_gives_up_what_it_wrote_hands_over_and_fetches() {
    let (alone, said) = diverged();
    assert_eq!(
        said,
        ["to all: has q20", "alarm", "Discard(q19)", "release", "fetch q20 diverged", "hand over"]
    );
    assert!(alone.keeping.has_diverged() && !alone.keeping.sound());
    let need = alone.need.expect("what differs");
    assert!(need.why == Why::Diverged && need.own.is_some(), "what it had there is compared");
}

#[test]
fn it_is_sound_again_once_execution_goes_on_from_what_it_fetched() {
    let (mut alone, _) = diverged();
    let border = In::Delivered { seq: Seq::new(30), bytes: 1, asks: true };
    assert!(alone.step(border).is_empty(), "nobody needs a checkpoint of it");
    alone.fetch();
    alone.receive();
    assert_eq!(alone.fits(), ["alarm", "release", "Install(q1000)"], "the keys that differed are told");
    assert!(!alone.keeping.sound());
    // The keeper did what it was told to.
    for above in [19, 1000] {
        alone.step(In::Kept(Report::GaveUp { above: Seq::new(above) }));
    }
    alone.step(written(1000, of_others().1.digest()));
    assert_eq!(alone.goes_on(), ["Forget(q1000)", "notice"], "what was written before is for nobody");
    assert!(alone.keeping.sound());
}

/// What it executed is not what the others have, however far it came.
#[test]
fn a_wrong_state_goes_back() {
    let (mut alone, _) = diverged();
    alone.fetch();
    alone.receive();
    alone.fits();
    alone.step(In::Kept(Report::NoRoom { seq: Seq::new(1000) }));
    alone.facts.delivered = Seq::new(1400);
    assert_eq!(alone.passes(2), ["Install(q1000)"]);
}

/// The keeper had computed a digest when it was told that all is wrong.
#[test]
fn what_crosses_the_word_that_it_goes_counts_no_more() {
    let (mut alone, _) = diverged();
    assert!(alone.step(written(20, digest(99))).is_empty());
    assert_eq!(alone.keeping.status(alone.now).durable_seq, 10);
}

#[test]
fn where_nobody_agrees_nothing_is_repaired() {
    let mut alone = Alone::new();
    alone.border(10);
    alone.step(In::Kept(Report::Digest { seq: Seq::new(10), border: 1, digest: digest(1) }));
    alone.step(has(2, 10, digest(2)));
    assert_eq!(alone.step(has(3, 10, digest(3))), ["alarm"]);
    assert!(alone.keeping.sound() && alone.need.is_none());
    let mut problems = Vec::new();
    alone.keeping.problems(&mut problems);
    assert_eq!(problems.len(), 1);
    alone.agreed_border(20);
    problems.clear();
    alone.keeping.problems(&mut problems);
    assert!(problems.is_empty());
}
