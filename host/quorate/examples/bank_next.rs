//! The bank of the example `bank` in its second release: payments may have a note, accounts can be closed, and what was `accounts` is called
//! `balances` in the program. docs/evolution.md goes through it line by line.
//!
//! `bank_next FILE` runs a replica, beside replicas that still run `bank`.

use quorate::{Context, Typed, TypedService};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::process::ExitCode;

#[derive(Default, Serialize, Deserialize)]
pub(crate) struct Bank {
    #[serde(rename = "accounts")]
    balances: BTreeMap<String, i64>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    notes: BTreeMap<String, String>,
}

#[derive(Serialize, Deserialize)]
pub(crate) enum Command {
    Pay {
        to: String,
        amount: i64,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        note: Option<String>,
    },
    Close(String),
}

impl TypedService for Bank {
    type Command = Command;
    type Reply = i64;
    type Query = String;
    type Answer = i64;
    const NAME: &'static str = "bank";
    const VERSION: u32 = 2;

    fn since(command: &Command) -> u32 {
        match command {
            Command::Pay { note: None, .. } => 1,
            Command::Pay { note: Some(_), .. } | Command::Close(_) => 2,
        }
    }

    fn migrate(&mut self, _from: u32, ctx: &Context) -> Result<(), String> {
        if let Some((name, _)) = self.balances.iter().find(|(_, balance)| **balance < 0) {
            return Err(format!("{name} is overdrawn"));
        }
        let note = format!("open since before {}", ctx.time().nanos());
        self.notes = self.balances.keys().map(|name| (name.clone(), note.clone())).collect();
        Ok(())
    }

    fn execute(&mut self, command: Command, _: &Context) -> i64 {
        match command {
            Command::Pay { to, amount, note } => {
                if let Some(note) = note {
                    self.notes.insert(to.clone(), note);
                }
                let balance = self.balances.entry(to).or_default();
                *balance += amount;
                *balance
            }
            Command::Close(name) => self.balances.remove(&name).unwrap_or_default(),
        }
    }
    fn query(&self, name: String, _: &Context) -> i64 {
        self.balances.get(&name).copied().unwrap_or_default()
    }
}

pub(crate) fn main() -> ExitCode {
    quorate::run(Typed(Bank::default()))
}
