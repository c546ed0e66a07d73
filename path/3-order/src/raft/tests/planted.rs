//! Bugs put back: the random schedules find each of them. Only in a build with `--cfg planted`, and alone, since a bug is in force in
//! the whole process: `RUSTFLAGS="--cfg planted" cargo test -p quorate-order --lib planted -- --ignored`.

use super::{chaos, replication};
use quorate_types::plant;
use std::panic::{AssertUnwindSafe, catch_unwind};

#[test]
#[ignore = "a bug is in force in the whole process: run it alone"]
fn a_gap_that_is_ignored_is_found() {
    plant(Some("gap-ignored"));
    let found = catch_unwind(AssertUnwindSafe(|| chaos::losses(400, &mut |_| ())));
    plant(None);
    let why = found.expect_err("a replica that forgets what it acknowledged is noticed");
    println!("{:?}", why.downcast_ref::<String>());
}

#[test]
#[ignore = "a bug is in force in the whole process: run it alone"]
fn a_lost_end_that_is_taken_for_late_is_found() {
    plant(Some("lost-tail-is-late"));
    let found = catch_unwind(replication::a_lost_end_is_sent_again);
    plant(None);
    found.expect_err("a follower that waits for what it lost is noticed");
}
