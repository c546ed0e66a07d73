//! How long care lasts, and who helps those who take it. Whole clusters are in check/sim.

use super::*;

const ONE: InstanceId = InstanceId::new(1);

fn at(seconds: u64) -> Time {
    Time::ZERO.plus(Span::from_secs(seconds))
}

/// Care lasts twice as long with each view that follows soon, also with those that this replica did not see.
#[test]
fn care_grows_with_views_that_fail() {
    let spans = |views: &[(u64, u64)]| {
        let mut care = Care::default();
        let begin = |&(seconds, view): &(u64, u64)| {
            care.begin(at(seconds), View::new(view));
            care.span.nanos() / 1_000_000_000
        };
        views.iter().map(begin).collect::<Vec<_>>()
    };
    assert_eq!(spans(&[(10, 2), (11, 3), (13, 4), (18, 5), (99, 6)]), [1, 2, 4, 8, 1]);
    assert_eq!(spans(&[(10, 2), (11, 5), (90, 40)]), [1, 8, 60], "what was not seen failed as well");
}

/// A replica that started lately helps those that take care. One that knows how long they do goes by that, or all would keep each other
/// at it.
#[test]
fn who_started_lately_helps_while_enough_say_what_they_heard() {
    let mut caring = Caring::new(1);
    assert!(caring.begin(at(1), ONE, View::new(2), (false, false)));
    let helps = |caring: &mut Caring, seconds, from| {
        caring.is_told(at(seconds), ReplicaId::new(from), 2);
        caring.helps(at(seconds), ONE)
    };
    assert!(!helps(&mut caring, 10, 2), "one may lie");
    assert!(helps(&mut caring, 10, 3));
    assert!(!caring.helps(at(12), ONE), "for a moment");
    assert!(!helps(&mut caring, 90, 2) && !helps(&mut caring, 90, 3), "it has seen for itself");
}

/// Leaders that rotate, or give up their office, are no leaders that failed; with one that failed among them care is for that one only.
#[test]
fn a_view_that_ended_as_planned_needs_no_care() {
    let mut caring = Caring::new(1);
    assert!(!caring.begin(at(1), ONE, View::FIRST, (false, true)), "the first one follows no other");
    assert!(!caring.begin(at(2), ONE, View::new(2), (true, true)));
    assert!(!caring.is_careful(at(2), ONE));
    assert!(caring.begin(at(3), ONE, View::new(9), (false, true)));
    assert!(
        caring.is_careful(at(3), ONE) && !caring.is_careful(at(4), ONE),
        "for a second, whatever was not seen"
    );
    assert!(!caring.begin(at(3), ONE, View::new(9), (false, true)), "once for each view");
    let mut caring = Caring::new(1);
    assert!(!caring.begin(at(1), ONE, View::new(4), (true, false)), "a leader handed over where none rotate");
    assert!(!caring.is_careful(at(1), ONE));
    assert!(caring.begin(at(2), ONE, View::new(5), (false, false)));
}
