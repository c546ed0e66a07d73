//! Messages that a script makes up, in the words in which messages are printed.

use crate::Command;
use quorate_order::raft::message::{AppendOutcome, Entry, EntryBody, Index, Position, RaftMessage};
use quorate_types::View;

fn position(text: &str) -> Option<Position> {
    let (index, view) = text.split_once('@')?;
    Some(Position::new(Index::new(index.parse().ok()?), View::new(view.parse().ok()?)))
}

/// The message `name` with the options and flags of a command `forge R->S Name key=value flag`.
pub(super) fn message(name: &str, command: &Command) -> Result<RaftMessage, String> {
    let known =
        ["view", "last", "prev", "commit", "round", "matched", "asked", "hint", "read", "slot", "starts"];
    command.only_options(&known)?;
    super::flags(&command.args[2..], &["pre", "transfer", "granted"])?;
    let flag = |word: &str| command.args[2..].iter().any(|arg| arg == word);
    let number = |key: &str| command.number(key)?.ok_or(format!("{key}= is missing"));
    let at = |key: &str| {
        let text = command.options.get(key).ok_or(format!("{key}= is missing"))?;
        position(text).ok_or(format!("{text} is no position, like 3@1"))
    };
    let view = View::new(number("view")?);
    Ok(match name {
        "RequestVote" => {
            RaftMessage::RequestVote { view, last: at("last")?, pre: flag("pre"), transfer: flag("transfer") }
        }
        "RequestVoteReply" => {
            RaftMessage::RequestVoteReply { view, granted: flag("granted"), pre: flag("pre") }
        }
        "AppendEntries" => {
            let start = Entry { view, body: EntryBody::ViewStart };
            let entries = vec![start; number("starts").unwrap_or(0) as usize];
            let (previous, commit, round) = (at("prev")?, Index::new(number("commit")?), number("round")?);
            RaftMessage::AppendEntries { view, previous, commit, round, entries }
        }
        "AppendEntriesReply" => {
            let outcome = match command.number("matched")? {
                Some(index) => AppendOutcome::Matched(Index::new(index)),
                None => AppendOutcome::Rejected { asked: Index::new(number("asked")?), hint: at("hint")? },
            };
            RaftMessage::AppendEntriesReply { view, round: number("round")?, outcome }
        }
        "NeedsCheckpoint" => {
            let (previous, round, slot) = (at("prev")?, number("round")?, number("slot")?);
            RaftMessage::NeedsCheckpoint { view, previous, round, slot }
        }
        "TimeoutNow" => RaftMessage::TimeoutNow { view },
        "ReadIndex" => RaftMessage::ReadIndex { view, read: number("read")? },
        "ReadIndexReply" => {
            RaftMessage::ReadIndexReply { view, read: number("read")?, slot: command.number("slot")? }
        }
        _ => return Err(format!("{name} is no message")),
    })
}
