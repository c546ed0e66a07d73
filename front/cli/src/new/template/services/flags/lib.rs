//! Feature flags: names with values, and clients that are told when one changes.

use quorate::{Context, Letter, Letters, SessionEnd, TypedService, encode_command};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Default, Serialize, Deserialize)]
pub struct Flags {
    values: BTreeMap<String, (u64, String)>,
    /// How many changes there were; each has a number.
    changes: u64,
    /// The sessions that watch, as numbers.
    watchers: BTreeSet<u64>,
    letters: Letters,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Change {
    /// Sets a flag, if it has not changed since this change (0: if it was never set). Without a number: whatever it is.
    Set { flag: String, value: String, since: Option<u64> },
    /// The session that asks is told of all changes from now on, by letters with `(flag, number, value)`.
    Watch,
}

impl TypedService for Flags {
    type Command = Change;
    /// The number of the last change; or of the one that the flag had since.
    type Reply = Result<u64, u64>;
    /// A flag, or all.
    type Query = Option<String>;
    type Answer = BTreeMap<String, (u64, String)>;
    const NAME: &'static str = "my-service";

    fn execute(&mut self, change: Change, ctx: &Context) -> Result<u64, u64> {
        match change {
            Change::Watch => {
                self.watchers.insert(ctx.session().number());
                Ok(self.changes)
            }
            Change::Set { flag, value, since } => {
                let last = self.values.get(&flag).map_or(0, |(number, _)| *number);
                if since.is_some_and(|since| since != last) {
                    return Err(last);
                }
                self.changes += 1;
                // A letter that is too long is not sent; its reader sees by the numbers that it missed a change.
                if let Ok(news) = encode_command(&(&flag, self.changes, &value)) {
                    for watcher in &self.watchers {
                        let _ = self.letters.send(quorate::SessionId::from_number(*watcher), news.clone());
                    }
                }
                self.values.insert(flag, (self.changes, value));
                Ok(self.changes)
            }
        }
    }

    fn query(&self, flag: Option<String>, _: &Context) -> BTreeMap<String, (u64, String)> {
        let wanted = |name: &String| flag.as_ref().is_none_or(|flag| flag == name);
        self.values
            .iter()
            .filter(|(name, _)| wanted(name))
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect()
    }

    fn session_ended(&mut self, _: SessionEnd, ctx: &Context) {
        self.watchers.remove(&ctx.session().number());
        self.letters.session_ended(ctx.session());
    }

    fn take_letters(&mut self) -> Vec<Letter> {
        self.letters.take()
    }
}
