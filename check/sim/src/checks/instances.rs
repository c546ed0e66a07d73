//! INV-SIM-INSTANCES: all replicas that know of a generation border know the same one; in the end none is open.

use super::Failure;
use quorate_node::{Generation, Node};
use std::collections::BTreeMap;

/// What was seen of generations, by their first slots.
#[derive(Debug, Default)]
pub struct Instances {
    seen: BTreeMap<u64, (Generation, String)>,
}

impl Instances {
    /// Compares what a replica knows now.
    ///
    /// # Errors
    /// When another replica knew another generation that begins with the same slot, or one that begins inside it.
    pub fn look(&mut self, name: &str, node: &Node) -> Result<(), Failure> {
        let (now, next) = node.generations();
        for generation in [Some(now), next].into_iter().flatten() {
            let first = generation.first.number();
            let (known, by) = self.seen.entry(first).or_insert_with(|| (generation, name.to_owned()));
            if *known != generation {
                let text = format!("{name} knows {generation:?}, {by} knew {known:?}");
                return Err(Failure::new("instances", text));
            }
        }
        match next {
            Some(next) => self.nothing_between(name, now, next),
            None => Ok(()),
        }
    }

    fn nothing_between(&self, name: &str, now: Generation, next: Generation) -> Result<(), Failure> {
        let mut between = self.seen.range(now.first.number() + 1..next.first.number());
        between.next().map_or(Ok(()), |(_, (other, by))| {
            let text = format!("{name} goes from {now:?} to {next:?}, and {by} knew {other:?}");
            Err(Failure::new("instances", text))
        })
    }

    /// Checks a member in the end.
    ///
    /// # Errors
    /// When a change is open.
    pub fn ended(&self, name: &str, node: &Node) -> Result<(), Failure> {
        match node.generations().1 {
            Some(next) => Err(Failure::new("instances", format!("{name} has not reached {next:?}"))),
            None => Ok(()),
        }
    }
}
