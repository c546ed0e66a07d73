//! Runs every script in scripts/mod_smart, and checks that together they are complete and listed.

use crate::golden::Folder;
use quorate_script::raft::Cluster;

const SCRIPTS: Folder = Folder("mod_smart");

#[test]
fn every_script_prints_what_it_says() {
    SCRIPTS.runs::<Cluster>();
}

/// A message that no script shows is one that no reader meets.
#[test]
fn every_message_occurs() {
    let forms = [
        "  PROPOSE v",
        "  WRITE v",
        "  ACCEPT v",
        "  STOP v",
        ": silence",
        ": joined",
        ": leaves",
        ": rate",
        "  CERTIFICATE v",
        "  STOP-DATA v",
        "  SYNC v",
        ": free",
        ": bound to",
        "  FETCH v",
        "  DECISION v",
        "  GONE v",
        "  ALIVE v",
        "  ALIVE-REPLY v",
        "  READ v",
        "  READ-REPLY v",
        "not leading",
    ];
    SCRIPTS.shows(" > ", &forms);
}

#[test]
fn the_reading_order_is_complete() {
    SCRIPTS.is_listed(22);
}
