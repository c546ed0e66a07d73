//! Bugs put back: the tests beside this one find each of them. Only in a build with `--cfg planted`, and alone, since a
//! bug is in force in the whole process:
//! `RUSTFLAGS="--cfg planted" cargo test -p quorate-merge --test merge planted -- --ignored`.

use crate::{cluster, model, reads};
use quorate_types::plant;
use std::panic::{AssertUnwindSafe, catch_unwind};

fn found(bug: &str, look: impl FnOnce()) {
    plant(Some(bug));
    let found = catch_unwind(AssertUnwindSafe(look));
    plant(None);
    let why = found.expect_err("a test notices it");
    let text = why.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| why.downcast_ref::<&str>().copied()).unwrap_or_default();
    println!("{bug}: {}", text.lines().next().unwrap_or_default());
}

#[test]
#[ignore = "a bug is in force in the whole process: run it alone"]
fn each_bug_is_found() {
    found("merge-read-off-by-one", || assert!(reads::exhaustive() > 0));
    found("merge-read-off-by-one", || assert!(cluster::run(0..200) > 0));
    found("merge-noop-counted-twice", || model::order(0..200));
    found("merge-noop-counted-twice", || assert!(cluster::run(0..200) > 0));
    found("merge-jump-resets-one", || model::jumps(0..200));
    found("merge-border-off-by-one", || model::restarts(0..200));
    found("merge-order-after-restart", || model::restarts(0..200));
}
