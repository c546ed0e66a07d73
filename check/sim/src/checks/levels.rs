//! INV-SIM-LEVELS: the feature level follows from the seq, the same on all replicas; checkpoints are written by it; it is raised only when
//! every member's program supports it.

use super::Failure;
use std::collections::BTreeMap;

/// What was seen of one level.
#[derive(Debug)]
struct Seen {
    /// The lowest seq at which a replica worked at it, and which replica.
    at: Option<(u64, String)>,
    /// The highest seq at which a replica worked below it, and which replica.
    below: Option<(u64, String)>,
}

/// What was seen of levels.
#[derive(Debug, Default)]
pub struct Levels {
    seen: BTreeMap<u32, Seen>,
    /// The highest level that a leader proposed.
    pub begun: u32,
}

impl Levels {
    /// A replica works at this level at this seq, or wrote something there in the form of this level.
    ///
    /// # Errors
    /// When another replica did not, at the same seq or on the other side of it.
    pub fn look(&mut self, name: &str, seq: u64, level: u32) -> Result<(), Failure> {
        for other in 2..=level.max(quorate_wire::FEATURE_LEVEL) {
            self.seen.entry(other).or_insert(Seen { at: None, below: None });
        }
        for (other, seen) in &mut self.seen {
            let here = || Some((seq, name.to_owned()));
            if level >= *other && seen.at.as_ref().is_none_or(|(at, _)| seq < *at) {
                seen.at = here();
            }
            if level < *other && seen.below.as_ref().is_none_or(|(below, _)| seq > *below) {
                seen.below = here();
            }
            if let (Some((at, first)), Some((below, last))) = (&seen.at, &seen.below)
                && below >= at
            {
                let text = format!(
                    "{first} works at level {other} at seq {at}, and {last} works below it at seq {below}"
                );
                return Err(Failure::new("levels", text));
            }
        }
        Ok(())
    }

    /// A leader proposes a level. `able`: for each member, the highest level that its program ever supported.
    ///
    /// # Errors
    /// When a member never supported it.
    pub fn raised(&mut self, level: u32, able: &[(String, u32)]) -> Result<(), Failure> {
        self.begun = self.begun.max(level);
        match able.iter().find(|(_, able)| *able < level) {
            Some((name, able)) => {
                let text =
                    format!("level {level} is proposed, and {name} never could work at more than {able}");
                Err(Failure::new("levels", text))
            }
            None => Ok(()),
        }
    }
}
