//! Runs every script in scripts/raft, and checks that together they are complete and listed.

use crate::golden::Folder;
use quorate_script::raft::Cluster;

const SCRIPTS: Folder = Folder("raft");

#[test]
fn every_script_prints_what_it_says() {
    SCRIPTS.runs::<Cluster>();
}

/// A message that no script shows is one that no reader meets.
#[test]
fn every_message_occurs() {
    let forms = [
        "  RequestVote v",
        " pre",
        " transfer",
        "  RequestVoteReply v",
        "granted",
        "refused",
        "  AppendEntries v",
        "  AppendEntriesReply v",
        "matched=",
        "rejected asked=",
        "  NeedsCheckpoint v",
        "  TimeoutNow v",
        "  ReadIndex v",
        "  ReadIndexReply v",
        "not leading",
    ];
    SCRIPTS.shows(" > ", &forms);
}

#[test]
fn the_reading_order_is_complete() {
    SCRIPTS.is_listed(114);
}
