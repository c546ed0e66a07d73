use super::{LaneLimits, UNSENT_TIMES, member_part, problem};
use quorate_types::Span;

/// What may wait for one client never is too much for its lane.
#[test]
fn lanes_share_what_clients_may_hold() {
    let all = LaneLimits { unsent_bytes: 4 << 20, buffer_bytes: 256 << 20, slow_reader: Span::from_secs(1) };
    let shares = [1, 2, 4, 8].map(|lanes| all.shared_by(lanes).buffer_bytes >> 20);
    assert_eq!(shares, [256, 128, 64, 64]);
    assert!(all.shared_by(64).buffer_bytes >= all.unsent_bytes * UNSENT_TIMES);
}

#[test]
fn clients_that_hold_much_are_a_problem() {
    const MAX: usize = 256 << 20;
    assert_eq!(problem(MAX / 4 * 3, MAX), None);
    let text = problem(200 << 20, MAX).expect("a problem");
    assert!(
        text.starts_with("the connections of clients hold 200 of 256 MiB")
            && text.contains("limits.buffer_bytes")
    );
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/operations/alarms.md");
    assert!(std::fs::read_to_string(page).unwrap().contains("`the connections of clients hold X of X MiB`"));
}

#[test]
fn members_share_what_may_wait_for_them() {
    assert_eq!([0, 1, 2, 4].map(member_part), [256 << 20, 256 << 20, 128 << 20, 64 << 20]);
    assert_eq!(member_part(63), 32 << 20, "a few frames are never too much");
}
