//! A bank in its first release. `bank_next` is the second one; docs/evolution.md tells how a cluster comes from here to there.
//!
//! `bank FILE` runs a replica, where FILE is its configuration: `quorate init --service bank` makes one for each.

use quorate::{Context, Typed, TypedService};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::process::ExitCode;

#[derive(Default, Serialize, Deserialize)]
pub(crate) struct Bank {
    accounts: BTreeMap<String, i64>,
}

#[derive(Serialize, Deserialize)]
pub(crate) enum Command {
    Pay { to: String, amount: i64 },
}

impl TypedService for Bank {
    type Command = Command;
    type Reply = i64; // the balance
    type Query = String;
    type Answer = i64;
    const NAME: &'static str = "bank";

    fn execute(&mut self, Command::Pay { to, amount }: Command, _: &Context) -> i64 {
        let balance = self.accounts.entry(to).or_default();
        *balance += amount;
        *balance
    }
    fn query(&self, name: String, _: &Context) -> i64 {
        self.accounts.get(&name).copied().unwrap_or_default()
    }
}

pub(crate) fn main() -> ExitCode {
    quorate::run(Typed(Bank::default()))
}
