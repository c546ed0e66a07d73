use super::{Clock, Rule};
use quorate_types::{AgreedTime, Span, Time};

const CRASH: Rule =
    Rule { liars: false, many: false, patience: Span::from_millis(400), off: Span::from_secs(10) };
const LIARS: Rule = Rule { liars: true, ..CRASH };

fn at(millis: u64) -> Time {
    Time::from_nanos(millis * 1_000_000)
}

fn agreed(millis: u64) -> AgreedTime {
    AgreedTime::from_nanos(millis * 1_000_000)
}

/// A clock that executed the agreed time 0 at the time 0, and follows a leader.
fn follower() -> Clock {
    Clock { agreed: agreed(0), at: at(0), stands: at(0), gap: None, proposes: false }
}

/// The others were away, and one of them leads now. It saw less time pass, and this replica does not go on from its own time.
#[test]
fn the_lag_behind_real_time_never_shrinks() {
    let mut clock = follower();
    clock.executed(at(16_000), agreed(100), CRASH);
    assert_eq!(clock.read(at(16_000)), agreed(100), "it would have said 16 s");
    clock.led(at(17_000), true, CRASH);
    clock.propose();
    assert_eq!(clock.read(at(17_500)), agreed(1_600));
}

/// A leader does not lose the time that a batch takes until it is executed.
#[test]
fn a_leader_goes_on_from_its_own_proposals() {
    let mut clock = follower();
    clock.propose();
    for round in 1..100 {
        clock.executed(at(round * 100), agreed(round * 100 - 90), CRASH);
        assert_eq!(clock.read(at(round * 100)), agreed(round * 100));
    }
    clock.led(at(10_000), false, CRASH);
    clock.led(at(10_001), true, CRASH);
    clock.executed(at(10_100), agreed(9_990), CRASH);
    assert_eq!(clock.read(at(10_100)), agreed(9_990), "it leads no more");
}

/// What it proposed while it heard nobody is decided later, with the time that it read then. So it goes on from that time.
#[test]
fn a_leader_does_not_count_a_time_in_which_it_is_alone() {
    let mut clock = follower();
    clock.propose();
    clock.alone(at(1_000), true, CRASH);
    let proposed = clock.read(at(1_300));
    assert_eq!(proposed, agreed(600), "it was alone before it noticed");
    clock.alone(at(1_350), false, CRASH);
    clock.propose();
    assert_eq!(clock.read(at(1_350)), proposed, "a client that was heard since would lose the difference");
    assert_eq!(clock.read(at(1_450)), agreed(700), "time goes on at once");
    clock.executed(at(1_500), proposed, CRASH);
    assert_eq!(clock.read(at(1_500)), agreed(750));
    clock.alone(at(2_000), true, CRASH);
    clock.alone(at(9_000), false, CRASH);
    assert_eq!(clock.read(at(9_800)), agreed(850), "a long one is followed by a standstill");
    assert_eq!(clock.read(at(9_900)), agreed(950));
}

#[test]
fn a_long_time_without_a_leader_does_not_count() {
    let mut clock = follower();
    clock.led(at(1_000), false, CRASH);
    clock.led(at(1_500), true, CRASH);
    assert_eq!(clock.read(at(1_500)), agreed(1_500), "a short one does");
    clock.led(at(2_000), false, CRASH);
    clock.led(at(2_100), false, CRASH);
    clock.led(at(17_000), true, CRASH);
    assert_eq!(clock.read(at(17_000)), agreed(1_600));
    assert_eq!(clock.read(at(17_800)), agreed(1_600), "the last leader may have proposed alone");
    assert_eq!(clock.read(at(18_100)), agreed(1_900));
    assert_eq!(clock.reaches(agreed(1_900)), at(18_100));
}

/// The last leader before a long outage proposed until it noticed that it was alone, and the next leader has those proposals agreed on.
#[test]
fn what_was_proposed_alone_costs_so_much_afterwards() {
    let mut clock = follower();
    clock.led(at(1_000), false, CRASH);
    clock.led(at(17_000), true, CRASH);
    clock.executed(at(17_010), agreed(1_200), CRASH);
    assert_eq!(clock.read(at(17_800)), agreed(1_200), "instead of 600");
    assert_eq!(clock.read(at(18_000)), agreed(1_400), "600 and what passed since");
    clock.executed(at(18_000), agreed(1_350), CRASH);
    assert_eq!(clock.read(at(18_100)), agreed(1_450));
}

/// A leader may be heard too early: the others may not hear it yet, or it may be that of a remembered view.
#[test]
fn who_begins_a_life_waits_until_somebody_leads_for_good() {
    let mut clock = Clock::new(agreed(500), at(10_000));
    assert_eq!(clock.read(at(20_000)), agreed(500));
    clock.executed(at(20_000), agreed(600), CRASH);
    assert_eq!(clock.read(at(20_500)), agreed(600), "of before");
    clock.led(at(21_000), true, CRASH);
    clock.led(at(21_300), false, CRASH);
    clock.led(at(21_500), true, CRASH);
    assert_eq!(clock.read(at(22_000)), agreed(600), "it stood for 300 ms of 800 when that leader left");
    assert_eq!(clock.read(at(22_100)), agreed(700));
    clock.led(at(22_500), false, CRASH);
    clock.led(at(22_600), true, CRASH);
    assert_eq!(clock.read(at(22_600)), agreed(1_200), "a short time counts");
}

/// Views that follow each other, as with leaders that rotate.
#[test]
fn time_goes_on_however_often_leaders_change() {
    let mut clock = Clock::new(agreed(0), at(0));
    for turn in 0..600 {
        let now = turn * 100;
        clock.led(at(now), false, CRASH);
        clock.led(at(now + 2), true, CRASH);
        let known = clock.read(at(now + 40));
        clock.executed(at(now + 50), known, CRASH);
    }
    assert!(clock.read(at(60_000)) > agreed(50_000), "{:?}", clock.read(at(60_000)));
}

/// The process of a leader was stopped, and no other replica led meanwhile. A short stop counts, and so does the time in which it had
/// nothing to do.
#[test]
fn what_passed_while_the_process_was_stopped_does_not_count() {
    let mut clock = follower();
    clock.woke(at(900), at(1_600), CRASH);
    assert_eq!(clock.read(at(1_600)), agreed(1_600));
    clock.woke(at(2_000), at(17_000), CRASH);
    assert_eq!(clock.read(at(17_000)), agreed(2_000));
    assert_eq!(clock.read(at(17_800)), agreed(2_000), "others may have lost each other meanwhile");
    assert_eq!(clock.read(at(17_900)), agreed(2_100));
    clock.led(at(18_000), false, CRASH);
    clock.woke(at(18_100), at(30_000), CRASH);
    clock.led(at(30_100), true, CRASH);
    assert_eq!(
        clock.read(at(30_900)),
        agreed(2_000),
        "what passed since a leader was heard for the last time does not count either"
    );
}

/// The leader of another instance proposes before the first instance has a leader again.
#[test]
fn as_long_as_nobody_leads_time_stands_still() {
    let mut clock = follower();
    clock.led(at(1_000), false, CRASH);
    assert_eq!(clock.read(at(1_100)), agreed(600), "where a leader was heard for the last time");
    assert_eq!(clock.read(at(16_000)), agreed(600));
    clock.executed(at(16_000), agreed(700), CRASH);
    assert_eq!(clock.read(at(16_500)), agreed(700));
    clock.led(at(16_600), true, CRASH);
    assert_eq!(clock.read(at(17_500)), agreed(800));
}

/// With several leaders, a leader that is behind slows no other one, and none is further ahead than leaders may be apart.
#[test]
fn batches_of_several_leaders_are_a_little_apart() {
    let rule = Rule { many: true, ..CRASH };
    let mut clock = follower();
    clock.executed(at(1_000), agreed(800), rule);
    assert_eq!(clock.read(at(1_000)), agreed(1_000));
    clock.executed(at(1_000), agreed(1_100), rule);
    assert_eq!(clock.read(at(1_000)), agreed(1_100));
    clock.executed(at(16_000), agreed(2_000), rule);
    assert_eq!(clock.read(at(16_000)), agreed(3_000), "it would have said 16.1 s");
    assert_eq!(clock.read(at(16_500)), agreed(3_500));
}

/// A leader that says again and again that no time has passed slows an honest replica by at most a tenth.
#[test]
fn where_replicas_may_lie_none_holds_time_back() {
    let mut clock = follower();
    for round in 1..=500 {
        clock.executed(at(round * 10), agreed(0), LIARS);
    }
    assert!(clock.read(at(5_000)) >= agreed(4_500), "{:?}", clock.read(at(5_000)));
    // The own extension may be wrong itself.
    clock.executed(at(20_000), agreed(1), LIARS);
    assert_eq!(clock.read(at(20_000)), agreed(1));
}

mod leaders;
