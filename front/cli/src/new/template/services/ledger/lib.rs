//! A ledger: accounts, and money that moves between them. None is made or lost on the way.

use quorate::{Context, TypedService};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

#[derive(Default, Serialize, Deserialize)]
pub struct Ledger {
    accounts: BTreeMap<String, u64>,
    /// All money that ever came in.
    deposited: u64,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Entry {
    Deposit { to: String, amount: u64 },
    Transfer { from: String, to: String, amount: u64 },
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Refused {
    /// There is so much.
    TooLittle(u64),
    /// No account can hold more than 2^64-1.
    TooMuch,
}

#[derive(Serialize, Deserialize)]
pub enum Question {
    Balance(String),
    /// What all accounts hold together, less what ever came in: always 0.
    Difference,
}

impl Ledger {
    fn balance(&self, of: &str) -> u64 {
        self.accounts.get(of).copied().unwrap_or_default()
    }
}

impl TypedService for Ledger {
    type Command = Entry;
    /// The new balance of the account that got the money.
    type Reply = Result<u64, Refused>;
    type Query = Question;
    type Answer = i128;
    const NAME: &'static str = "my-service";

    fn execute(&mut self, entry: Entry, _: &Context) -> Result<u64, Refused> {
        let (from, to, amount) = match entry {
            Entry::Deposit { to, amount } => (None, to, amount),
            Entry::Transfer { from, to, amount } => (Some(from), to, amount),
        };
        // Everything is checked before anything changes.
        let rest = match &from {
            Some(from) => {
                self.balance(from).checked_sub(amount).ok_or(Refused::TooLittle(self.balance(from)))?
            }
            None => 0,
        };
        if from.as_ref() == Some(&to) {
            return Ok(self.balance(&to));
        }
        let sum = self.balance(&to).checked_add(amount).ok_or(Refused::TooMuch)?;
        match from {
            Some(from) => drop(self.accounts.insert(from, rest)),
            None => self.deposited = self.deposited.checked_add(amount).ok_or(Refused::TooMuch)?,
        }
        self.accounts.insert(to, sum);
        Ok(sum)
    }

    fn query(&self, question: Question, _: &Context) -> i128 {
        match question {
            Question::Balance(of) => self.balance(&of).into(),
            Question::Difference => {
                self.accounts.values().map(|balance| i128::from(*balance)).sum::<i128>()
                    - i128::from(self.deposited)
            }
        }
    }
}
