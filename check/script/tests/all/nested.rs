//! Runs every script in scripts/nested, and checks that together they are complete and listed.

use crate::golden::Folder;
use quorate_script::nested::Shop;

const SCRIPTS: Folder = Folder("nested");

#[test]
fn every_script_prints_what_it_says() {
    SCRIPTS.runs::<Shop>();
}

#[test]
fn the_reading_order_is_complete() {
    SCRIPTS.is_listed(14);
}
