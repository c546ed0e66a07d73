//! Runs every script in scripts/merge, and checks that together they are complete and listed.

use crate::golden::Folder;
use quorate_script::merge::Replicas;

const SCRIPTS: Folder = Folder("merge");

#[test]
fn every_script_prints_what_it_says() {
    SCRIPTS.runs::<Replicas>();
}

#[test]
fn the_reading_order_is_complete() {
    SCRIPTS.is_listed(18);
}
