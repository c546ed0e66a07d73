use super::super::tests::{findings, one, problems};
use super::{check, variants};

const MESSAGES: &str = "/// All.\npub enum RaftMessage {\n    /// Asks, for { votes.\n    #[allow(x, y)]\n    Vote(Vote, u8),\n    Append { slot: Slot, n: [u8; 2] },\n    Timeout,\n    Last\n}\nenum Other { No }\n";

fn with(script: &str) -> Vec<String> {
    problems(
        check,
        &[("path/3-order/src/raft/message.rs", MESSAGES), ("check/script/scripts/raft/a.txt", script)],
    )
}

#[test]
fn variants_are_found() {
    let code = super::rust::code(MESSAGES);
    assert_eq!(variants(&code, "RaftMessage"), ["Vote", "Append", "Timeout", "Last"]);
    assert!(variants(&code, "Raft").is_empty());
}

#[test]
fn every_kind_is_shown() {
    assert_eq!(with("r1 > r2 Vote v1\nr1 > r2 Append\nTimeout Last"), [""; 0]);
    one(&with("Vote Append Last # Timeout"), "no script shows the message Timeout");
    one(&with("PreVote VoteReply Append Last Timeout"), "message Vote");
}

#[test]
fn without_scripts_there_is_a_note_and_without_messages_a_problem() {
    let none = findings(check, &[("path/3-order/src/raft/message.rs", MESSAGES)]);
    assert!(none.problems.is_empty() && none.notes.len() == 1);
    one(&problems(check, &[("check/script/scripts/raft/a.txt", "")]), "raft/message.rs: is missing");
    let renamed =
        [("check/script/scripts/raft/a.txt", ""), ("path/3-order/src/raft/message.rs", "enum X {}")];
    one(&problems(check, &renamed), "no enum RaftMessage");
}
