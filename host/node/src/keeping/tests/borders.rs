//! From a border to a trimmed log.

use super::{Alone, In, Report, Seq, computed, digest, holds, written};

#[test]
fn a_border_is_captured_agreed_on_and_written_and_the_log_goes_up_to_the_one_before() {
    let mut alone = Alone::new();
    assert_eq!(alone.border(10), ["capture 1 at q10", "Border(q10, Some(Full))"]);
    assert_eq!(alone.keeping.status(alone.now).last_digest, None, "the keeper computes it");
    let has = computed(10, 1, digest(10));
    assert_eq!(alone.step(has), ["to all: has q10"]);
    assert_eq!(alone.step(holds(2, 10, digest(10))), ["release"], "two of three agree");
    assert_eq!(alone.step(written(10, digest(10))), ["to all: holds q10"], "and nothing is trimmed");
    assert_eq!(alone.keeping.status(alone.now).durable_seq, 10);

    alone.border(20);
    let said = alone.step(written(20, digest(20)));
    assert_eq!(said, ["to all: has q20", "Forget(q10)", "to all: holds q10", "trim q10"]);
    assert_eq!(alone.step(holds(3, 10, digest(10))), ["trim q10"], "the log had no room to be trimmed");
    alone.keeping.trimmed(Seq::new(10));
    assert!(alone.step(holds(3, 10, digest(10))).is_empty());
    assert_eq!(alone.keeping.status(alone.now).trimmed, 10);
}

/// A replica that takes no part yet, or has not executed as far, keeps its log.
#[test]
fn only_what_was_executed_here_is_trimmed() {
    for begun in [true, false] {
        let mut alone = Alone::new();
        alone.agreed_border(10);
        alone.border(20);
        alone.facts.begun = begun;
        let said = alone.step(written(20, digest(20)));
        assert_eq!(said.contains(&"trim q10".into()), begun, "{said:?}");
    }
}

#[test]
fn a_disk_that_is_full_is_told_of_until_a_checkpoint_is_written() {
    let mut alone = Alone::new();
    alone.border(10);
    assert_eq!(alone.step(In::Kept(Report::NoRoom { seq: Seq::new(10) })), ["alarm"]);
    let problems = |alone: &Alone| {
        let mut problems = Vec::new();
        alone.keeping.problems(&mut problems);
        problems.len()
    };
    assert_eq!(problems(&alone), 1);
    alone.agreed_border(20);
    assert_eq!(problems(&alone), 0);
}

/// The leader puts the border into the log; a replica that leads does so itself.
#[test]
fn a_border_that_somebody_needs_is_asked_for_from_the_leader() {
    use super::{StateMessage, r};
    let wants = || {
        let message = StateMessage::WantBorder { seq: Seq::ZERO, digest: digest(0) };
        In::Heard { from: r(3), message }
    };
    let mut alone = Alone::new();
    assert_eq!(alone.step(wants()), ["to r2: border?"]);
    assert!(alone.step(wants()).is_empty(), "it is under way");
    alone.facts.leader = Some(r(1));
    alone.passes(2);
    assert!(alone.step(wants()).is_empty() && alone.keeping.wants_border());
    alone.keeping.border_ordered();
    assert!(!alone.keeping.wants_border());
}

/// What deletes free on a full disk is free once two borders have passed: so many are asked for, and no more while nothing is executed.
#[test]
fn a_full_disk_asks_for_borders() {
    let mut alone = Alone::new();
    assert!(alone.step(In::Deadline).is_empty());
    alone.facts.disk_full = true;
    assert_eq!(alone.step(In::Deadline), ["to r2: border?"], "the log before the last checkpoint can go");
    assert!(alone.step(In::Deadline).is_empty(), "it is under way");
    let border = |alone: &mut Alone, seq| alone.border(seq)[1].clone();
    assert_eq!(border(&mut alone, 10), "Border(q10, Some(Full))");
    assert_eq!(alone.passes(2), ["to r2: border?"]);
    border(&mut alone, 20);
    assert!(alone.passes(2).is_empty(), "more borders would free nothing");
    assert_eq!(alone.keeping.deadline(), None);

    let deletes = In::Delivered { seq: Seq::new(21), bytes: 1, asks: false, settled: true, ends: false };
    alone.step(deletes);
    assert!(alone.keeping.deadline().is_some_and(|at| at <= alone.now));
    assert_eq!(alone.step(In::Deadline), ["to r2: border?"]);
    alone.facts.disk_full = false;
    assert!(alone.passes(2).is_empty(), "there is room again");
}

/// The checkpoint that did not fit on a full disk is made when there is room, so that nobody is told of a full disk for ever.
#[test]
fn a_checkpoint_that_did_not_fit_is_made_when_there_is_room() {
    let mut alone = Alone::new();
    alone.facts.disk_full = true;
    alone.step(In::Deadline);
    for seq in [10, 20] {
        alone.border(seq);
        assert_eq!(alone.step(In::Kept(Report::NoRoom { seq: Seq::new(seq) })), ["alarm"]);
    }
    // It asks less and less often, and gives up when nothing comes of it.
    let asked: usize = (0..60).map(|_| alone.passes(10).len()).sum();
    assert!((2..10).contains(&asked), "{asked}");
    assert!(alone.passes(600).is_empty());
    // Deletes were executed.
    alone.step(In::Delivered { seq: Seq::new(25), bytes: 1, asks: false, settled: true, ends: false });
    assert_eq!(alone.passes(64), ["to r2: border?"]);
    alone.border(26);
    alone.step(In::Kept(Report::NoRoom { seq: Seq::new(26) }));
    alone.facts.disk_full = false;
    assert_eq!(alone.passes(2), ["to r2: border?"]);
    alone.agreed_border(30);
    assert!(alone.passes(5).is_empty());
    let mut problems = Vec::new();
    alone.keeping.problems(&mut problems);
    assert_eq!(problems.len(), 0);
}
