//! Runs every script in scripts/visigoth, and checks that together they are complete and listed.

use crate::golden::Folder;
use quorate_script::raft::Cluster;

const SCRIPTS: Folder = Folder("visigoth");

#[test]
fn every_script_prints_what_it_says() {
    SCRIPTS.runs::<Cluster>();
}

/// A message that no script shows is one that no reader meets.
#[test]
fn every_message_occurs() {
    SCRIPTS.shows(" > ", &["  GRANTED v", "  ASK v", "  PROBE v", "  PROBED v", "  MISSES v"]);
}

/// Whatever the oracle is asked, and says.
#[test]
fn every_question_occurs() {
    let forms = [
        "  asks the oracle",
        "asks the oracle, if it is still at version",
        "asks the oracle: ",
        "is told by the oracle: version",
        "is granted nothing: ",
    ];
    SCRIPTS.shows("", &forms);
}

#[test]
fn the_reading_order_is_complete() {
    SCRIPTS.is_listed(13);
}
