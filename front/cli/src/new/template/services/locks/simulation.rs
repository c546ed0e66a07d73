//! Sessions take and give back locks on simulated clusters, whatever fails.

use my_service::{Ask, Locks, Turn};
use quorate::sim::{Client, Random, Simulation};
use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;

/// Asks for two locks. Tokens never get smaller for the same lock, and a new turn has a new one.
#[derive(Default)]
struct Asks {
    last: BTreeMap<String, u64>,
    gave_back: BTreeSet<String>,
}

impl Client<Ask, Turn> for Asks {
    fn command(&mut self, random: &mut Random) -> Ask {
        let name = random.pick(&["door", "gate"]).to_owned();
        if random.chance(600) { Ask::Lock(name) } else { Ask::Unlock(name) }
    }

    fn replied(&mut self, ask: &Ask, turn: Turn) -> Result<(), String> {
        match (ask, turn) {
            (Ask::Lock(name), Turn::Held { token }) => {
                let before = self.last.insert(name.clone(), token).unwrap_or_default();
                let is_new = self.gave_back.remove(name);
                let right = if is_new { token > before } else { token >= before };
                if right { Ok(()) } else { Err(format!("token {token} after {before}")) }
            }
            (Ask::Lock(_), Turn::Waits { before }) if before > 0 => Ok(()),
            (Ask::Unlock(name), Turn::Free) => {
                self.gave_back.insert(name.clone());
                Ok(())
            }
            _ => Err(format!("{turn:?}")),
        }
    }
}

#[test]
fn a_lock_has_one_holder() -> Result<(), Box<dyn Error>> {
    let holds = |locks: BTreeMap<String, (u64, u64, Vec<u64>)>| {
        for (name, (holder, _, waiting)) in &locks {
            let sessions: BTreeSet<u64> = waiting.iter().copied().chain([*holder]).collect();
            if sessions.len() != waiting.len() + 1 {
                return Err(format!("a session is twice at {name}: {locks:?}"));
            }
        }
        let tokens: BTreeSet<u64> = locks.values().map(|(_, token, _)| *token).collect();
        if tokens.len() == locks.len() { Ok(()) } else { Err(format!("one token for two locks: {locks:?}")) }
    };
    let simulation = Simulation::typed(Locks::default, |_client| Asks::default());
    simulation.invariant::<Locks>((), holds)?.seeds(1..=30).run()?;
    Ok(())
}
