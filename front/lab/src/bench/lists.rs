//! Clients of the map of lists: each has a key of its own, so it knows what every answer has to be. Tests: `lists/tests.rs`.

use super::load::{Call, Work};
use super::report::Check;
use super::target::Target;
use quorate::client::{Answer, Encoded, ReadOptions};
use quorate_command::failure::{Failure, Outcome};
use quorate_kv::lists::{ListAsk, ListReply};
use std::time::{Duration, Instant};

/// Appends before the list is removed, so that lists do not grow for ever.
const APPENDS: u64 = 40;
/// After so many appends a client asks how long its list is.
const ASKS_AFTER: u64 = 8;

/// What a client did last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Did {
    Put,
    Append,
    Ask,
    Remove,
}

/// One client: its list, by what was answered.
#[derive(Clone, Copy, Debug)]
struct Owner {
    did: Did,
    /// Strings in its list; `None`: it has none.
    length: Option<u64>,
    /// Whether the last append was followed by a question.
    asked: bool,
}

/// Clients that put, append, ask and remove in turns.
pub(super) struct Owners {
    owners: Vec<Owner>,
    string: Vec<u8>,
}

impl Owners {
    /// Strings of this size.
    pub(super) fn new(clients: usize, string_bytes: usize) -> Self {
        let owner = Owner { did: Did::Remove, length: None, asked: false };
        Self { owners: vec![owner; clients], string: vec![b's'; string_bytes] }
    }

    fn key(slot: usize) -> [u8; 4] {
        u32::try_from(slot).unwrap_or(u32::MAX).to_be_bytes()
    }

    /// Keys and strings that there are, by what was answered.
    fn totals(&self) -> ListReply {
        let lengths = self.owners.iter().filter_map(|owner| owner.length);
        ListReply::Totals { keys: lengths.clone().count() as u64, strings: lengths.sum() }
    }

    /// Every replica that is here has all that was acknowledged, and nothing else. Those that lag get this much time.
    pub(super) fn verify(&self, target: &Target, time: Duration) -> Check {
        let (totals, until) = (self.totals(), Instant::now() + time);
        let (mut agree, mut lack) = (Vec::new(), Vec::new());
        for replica in target.here() {
            let timeout = Some(Duration::from_secs(2));
            let options = ReadOptions { replica: Some(replica), timeout, ..ReadOptions::WEAK };
            loop {
                let answer = target.client.read(ListAsk::Totals.encode(), options);
                let found = answer.as_ref().ok().and_then(|answer| ListReply::decode(&answer.body));
                if found == Some(totals) {
                    agree.push(replica.to_string());
                    break;
                }
                if Instant::now() >= until {
                    lack.push(format!("{replica} has {found:?}, and {totals:?} was acknowledged"));
                    break;
                }
                std::thread::sleep(Duration::from_millis(20));
            }
        }
        if !lack.is_empty() {
            return Check::failed(lack.join("; "));
        }
        Check::passed(format!(
            "every answer was right, and {} have all that was acknowledged and nothing else",
            agree.join(", ")
        ))
    }
}

impl Work for Owners {
    fn next(&mut self, slot: usize) -> Call {
        let (key, owner) = (Self::key(slot), &mut self.owners[slot]);
        owner.did = match owner.length {
            None => Did::Put,
            Some(length) if length > 0 && length % ASKS_AFTER == 0 && !owner.asked => Did::Ask,
            Some(APPENDS..) => Did::Remove,
            Some(_) => Did::Append,
        };
        let command = match owner.did {
            Did::Put => ListAsk::Put(&key),
            Did::Append => ListAsk::Append(&key, &self.string),
            Did::Remove => ListAsk::Remove(&key),
            Did::Ask => return Call::Read(ListAsk::Length(&key).encode(), ReadOptions::STRONG),
        };
        Call::Commands(Encoded::one(&command.encode()))
    }

    fn answered(&mut self, slot: usize, answer: &Answer) -> Outcome<()> {
        self.heard(slot, answer.first().and_then(ListReply::decode))
    }
}

impl Owners {
    fn heard(&mut self, slot: usize, said: Option<ListReply>) -> Outcome<()> {
        let owner = &mut self.owners[slot];
        if said != Some(ListReply::Length(owner.length)) {
            return Err(Failure::new(format!(
                "client {slot} was told {said:?} when it did {:?}, and its list had {:?} strings: something that was acknowledged is lost, or was \
                 done twice",
                owner.did, owner.length
            )));
        }
        owner.asked = owner.did == Did::Ask;
        owner.length = match owner.did {
            Did::Put => Some(0),
            Did::Append => owner.length.map(|length| length + 1),
            Did::Ask => owner.length,
            Did::Remove => None,
        };
        Ok(())
    }
}

#[cfg(test)]
mod tests;
