use super::{BEHIND, keeps_up, reached};

#[test]
fn a_voter_that_executed_almost_as_much_as_others_follows() {
    let reached = reached(vec![1000, 1000, 1000, 990], 2);
    assert!(keeps_up(Some(990), reached));
    assert!(keeps_up(Some(1000 - BEHIND), reached));
    assert!(!keeps_up(Some(1000 - BEHIND - 1), reached), "it lags");
    assert!(!keeps_up(None, reached), "it says nothing");
}

#[test]
fn one_liar_does_not_make_the_others_lag() {
    let lied = reached(vec![1000, u64::MAX, 999, 998], 2);
    assert_eq!(lied, Some(1000));
    assert!(keeps_up(Some(999), lied));
    assert_eq!(reached(vec![7], 2), None, "too few say anything");
}
