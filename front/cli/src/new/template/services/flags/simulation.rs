//! Clients change flags on simulated clusters, whatever fails.

use my_service::{Change, Flags};
use quorate::sim::{Client, Random, Simulation};
use std::collections::BTreeMap;
use std::error::Error;

/// Sets flags, mostly on what it knows of them.
#[derive(Default)]
struct Setter {
    known: BTreeMap<String, u64>,
    last: u64,
}

impl Client<Change, Result<u64, u64>> for Setter {
    fn command(&mut self, random: &mut Random) -> Change {
        if random.chance(50) {
            return Change::Watch;
        }
        let flag = random.pick(&["dark", "beta", "fast"]).to_owned();
        let since = Some(self.known.get(&flag).copied().unwrap_or_default()).filter(|_| random.chance(800));
        Change::Set { flag, value: random.below(100).to_string(), since }
    }

    fn replied(&mut self, change: &Change, reply: Result<u64, u64>) -> Result<(), String> {
        let (Ok(number) | Err(number)) = reply;
        // Replies come in the order of the changes.
        if reply.is_ok() && number < self.last {
            return Err(format!("change {number} after {}", self.last));
        }
        self.last = self.last.max(number);
        if let Change::Set { flag, since, .. } = change {
            if reply.is_err() && *since == Some(number) {
                return Err(format!("{flag} had not changed since {number}"));
            }
            self.known.insert(flag.clone(), number);
        }
        Ok(())
    }
}

#[test]
fn a_flag_changes_only_from_what_was_known() -> Result<(), Box<dyn Error>> {
    let holds = |flags: BTreeMap<String, (u64, String)>| {
        let numbers: std::collections::BTreeSet<u64> = flags.values().map(|(number, _)| *number).collect();
        if numbers.len() == flags.len() {
            Ok(())
        } else {
            Err(format!("two changes have one number: {flags:?}"))
        }
    };
    let simulation = Simulation::typed(Flags::default, |_client| Setter::default());
    simulation.invariant::<Flags>(None, holds)?.seeds(1..=30).run()?;
    Ok(())
}
