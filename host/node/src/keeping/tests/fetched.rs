//! A replica that lacks something that is no longer in the others' logs.

use super::{Alone, In, Report, Seq, of_others, written};
use quorate_state::checkpoint::Image;

/// The others have the checkpoint of seq 1000.
fn lags() -> Alone {
    let mut alone = Alone::new();
    assert_eq!(alone.step(In::Behind(Seq::new(500))), ["fetch q500 behind"]);
    assert_eq!(alone.fetch(), ["notice"]);
    assert!(alone.step(In::Behind(Seq::new(500))).is_empty(), "it is fetched already");
    alone
}

/// The checkpoint is here, but not durable.
fn fetched() -> (Alone, Image) {
    let (mut alone, (_, image)) = (lags(), of_others());
    alone.receive();
    assert_eq!(alone.fits(), ["Install(q1000)"]);
    (alone, image)
}

#[test]
fn what_is_fetched_becomes_durable_before_execution_goes_on_from_it() {
    let (mut alone, image) = fetched();
    assert!(alone.installing.is_none() && alone.keeping.transfers());
    let said = alone.step(written(1000, image.digest()));
    assert_eq!(said[..2], ["ForgetPartial", "install q1000"]);
    assert!(said.contains(&"to all: holds q1000".into()), "{said:?}");
    assert_eq!(alone.goes_on(), ["notice"]);
    let status = alone.keeping.status(alone.now);
    assert_eq!((status.last_seq, status.durable_seq), (1000, 1000));
    assert!(alone.keeping.sound() && !alone.keeping.transfers());
    let said =
        alone.step(In::Delivered { seq: Seq::new(1001), bytes: 1, asks: true, settled: true, ends: false });
    assert_eq!(said, ["capture 4 at q1001"], "borders go on from its own");
}

#[test]
fn nothing_is_fetched_that_came_by_in_the_log() {
    let mut alone = lags();
    assert_eq!(
        alone.step(In::Delivered { seq: Seq::new(500), bytes: 1, asks: false, settled: true, ends: false }),
        ["ForgetPartial"]
    );
    assert!(!alone.keeping.transfers());
}

/// With several instances, a leader says so again and again as long as something is missing.
#[test]
fn among_many_instances_a_fetch_ends_when_no_leader_says_so_any_more() {
    let mut alone = lags();
    alone.facts.instances = 2;
    let executed = || In::Delivered { seq: Seq::new(500), bytes: 1, asks: false, settled: true, ends: false };
    assert!(alone.step(executed()).is_empty());
    alone.passes(60);
    assert_eq!(alone.step(executed()), ["ForgetPartial"]);
}

/// While no replica has a checkpoint, the leader is asked for a border.
#[test]
fn where_there_is_nothing_to_fetch_a_border_is_asked_for() {
    let mut alone = lags();
    assert_eq!(alone.step(In::Deadline), ["to r2: border?"]);
    assert!(alone.step(In::Deadline).is_empty());
    assert_eq!(alone.passes(2), ["to r2: border?"]);
}

/// The log begins after a later checkpoint of this replica. With the fetched one in its place the replica could not start again.
#[test]
fn what_was_fetched_does_not_replace_what_the_log_brought_since() {
    for (executed, said) in [(999, "Install(q1000)"), (1400, "ForgetPartial")] {
        let (mut alone, _) = fetched();
        assert_eq!(alone.step(In::Kept(Report::NoRoom { seq: Seq::new(1000) })), ["alarm"]);
        alone.facts.delivered = Seq::new(executed);
        assert!(alone.passes(1).is_empty(), "there may be room later");
        assert_eq!(alone.passes(1), [said]);
        assert_eq!(alone.keeping.transfers(), executed == 999);
        assert!(alone.passes(9).is_empty(), "nothing is tried again");
    }
}

#[test]
fn a_checkpoint_that_is_of_no_use_is_looked_for_later() {
    use super::super::Unfit;
    for (unfit, said) in [(Unfit::Unusable("it is another's"), "alarm"), (Unfit::TooEarly, "notice")] {
        let mut alone = lags();
        alone.receive();
        let found = alone.examine.take().expect("it was fetched");
        let outs = alone.step(In::Examined { found, verdict: Err(unfit) });
        assert_eq!(outs, [said, "ForgetPartial", "fetch q1001 behind"]);
    }
}
