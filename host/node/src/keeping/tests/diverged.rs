//! A replica whose state is not the agreed one.

use super::super::divergence::difference;
use super::{
    Alone, Digests, In, Left, Report, Seq, Why, computed, digest, has, nothing_left, of_others, r, written,
};
use quorate_state::transfer::Differing;

/// This replica has another state at 20 than the others.
fn diverged() -> (Alone, Vec<String>) {
    let mut alone = Alone::new();
    alone.agreed_border(10);
    alone.step(has(2, 20, digest(20)));
    alone.step(has(3, 20, digest(20)));
    alone.border(20);
    let said = alone.step(computed(20, 2, digest(99)));
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
    let border = In::Delivered { seq: Seq::new(30), bytes: 1, asks: true, settled: true, ends: false };
    assert!(alone.step(border).is_empty(), "nobody needs a checkpoint of it");
    alone.fetch();
    alone.receive();
    assert_eq!(alone.fits(), ["alarm", "release", "Install(q1000)"], "the keys that differed are told");
    assert!(!alone.keeping.sound());
    // The keeper did what it was told.
    for above in [19, 1000] {
        alone.step(In::Kept(Report::GaveUp { above: Seq::new(above) }));
    }
    alone.step(written(1000, of_others().1.digest()));
    assert_eq!(alone.goes_on(), ["Forget(q1000)", "notice"], "what was written before is for nobody");
    assert!(alone.keeping.sound());
}

/// The state of this replica differs from that of the others, however far it came.
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

/// It started from a checkpoint that turns out to be wrong, and its log has grown too long. It trims for that checkpoint, but tells nobody.
#[test]
fn nobody_is_told_to_fetch_a_state_that_is_wrong() {
    let thirty = Seq::new(30);
    let durable = vec![(thirty, digest(99))];
    let needed = (thirty, None);
    let mut alone =
        Alone::with(Left { durable, needed, gone: thirty, rotten_segment: Some(0), ..nothing_left() });
    assert!(alone.step(In::Connected(r(2))).contains(&"to r2: holds q30".into()), "nobody knows better yet");
    alone.step(has(2, 30, digest(30)));
    alone.step(has(3, 30, digest(30)));
    assert!(alone.keeping.has_diverged());
    (alone.facts.delivered, alone.facts.merged) = (thirty, thirty);
    alone.facts.log = (0, 1 << 40);
    let voters = vec![r(1), r(2), r(3)];
    let said = alone.step(In::Members { voters, others: Vec::new() });
    assert_eq!(said, ["Forget(q30)", "trim q30"]);
    assert_eq!(alone.step(In::Connected(r(2))), Vec::<String>::new());
}

/// The keeper had computed a digest before it was told that the state is wrong.
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
    alone.step(computed(10, 1, digest(1)));
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

/// This replica has the others' state at seq 1000, but they agree on another image there.
#[test]
fn that_only_the_order_differs_is_told() {
    let nothing = Differing::default();
    let told = |same| difference(Seq::new(1000), same, &nothing);
    assert!(told(Some(true)).contains("was the agreed one: what differed is where the instances stand"));
    assert!(told(Some(false)).contains("in no key, but in sessions"));
    assert!(told(None).contains("in 0 keys"), "where that is not known");
    for state in [of_others().1.digests().state, digest(99)] {
        let mut alone = Alone::new();
        alone.border(1000);
        let digests = Digests { image: digest(99), state };
        alone.step(In::Kept(Report::Digest { seq: Seq::new(1000), border: 1, digests }));
        alone.step(has(2, 1000, digest(20)));
        alone.step(has(3, 1000, digest(20)));
        let own = alone.need.and_then(|need| need.own).expect("what it had there");
        assert_eq!((own.seq, own.state), (Seq::new(1000), Some(state)));
    }
}
