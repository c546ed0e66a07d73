//! The service: counters with names. Replace it by your own.

use quorate::{Context, TypedService};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

#[derive(Default, Serialize, Deserialize)]
pub struct Counters(BTreeMap<String, i64>);

#[derive(Serialize, Deserialize)]
pub enum Command {
    Add { name: String, amount: i64 },
}

impl TypedService for Counters {
    type Command = Command; // what is agreed on, and changes the state
    type Reply = i64;
    type Query = String; // what is only read
    type Answer = i64;
    const NAME: &'static str = "my-service";

    fn execute(&mut self, command: Command, _: &Context) -> i64 {
        let Command::Add { name, amount } = command;
        let counter = self.0.entry(name).or_default();
        *counter += amount;
        *counter
    }
    fn query(&self, name: String, _: &Context) -> i64 {
        self.0.get(&name).copied().unwrap_or_default()
    }
}
