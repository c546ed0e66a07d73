//! The bound that checking signatures sets.

use super::*;

#[test]
fn the_bound_is_that_of_all_cores() {
    let some = Signatures::with(50_000.0, 4, 2.0, 25_000.0);
    assert_eq!((some.bound_per_s, some.share), (Some(100_000.0), Some(0.25)));
    assert!(some.to_string().contains("25.0 % were reached"), "{some}");
    let none = Signatures::with(50_000.0, 4, 0.0, 25_000.0);
    assert_eq!((none.bound_per_s, none.share), (None, None));
    assert!(rate() > 1.0, "signatures are right, or nothing is counted");
}
