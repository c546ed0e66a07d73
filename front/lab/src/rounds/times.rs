//! After which time the first, second, ... reply of a round had come, counted over rounds and processes. Tests: `times/tests.rs`.

use quorate_command::failure::{Doing as _, Failure, Outcome};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

#[cfg(test)]
mod tests;

/// The largest group.
pub const MEMBERS_MAX: usize = 32;
/// The largest file with results.
const FILE_BYTES_MAX: u64 = 64 << 20;

/// After how many microseconds the k-th reply of each round had come.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Times {
    /// Rounds in which it never came, as far as was waited.
    never: u64,
    /// How many rounds there were for each time in microseconds, which is rounded up to three digits.
    counts: BTreeMap<u64, u64>,
}

impl Times {
    /// Adds a round. `None`: the reply never came.
    pub fn add(&mut self, took: Option<Duration>) {
        match took {
            Some(took) => *self.counts.entry(three_digits(took.as_micros())).or_default() += 1,
            None => self.never += 1,
        }
    }

    fn merge(&mut self, other: &Self) {
        self.never = self.never.saturating_add(other.never);
        for (us, count) in &other.counts {
            let sum = self.counts.entry(*us).or_default();
            *sum = sum.saturating_add(*count);
        }
    }

    /// All rounds.
    pub fn rounds(&self) -> u64 {
        self.counts.values().fold(self.never, |sum, count| sum.saturating_add(*count))
    }

    /// Rounds in which it never came.
    pub fn never(&self) -> u64 {
        self.never
    }

    /// Milliseconds after which it had come in this share of all rounds, which is between 0 and 1. `None`: in fewer it came at all, or there
    /// were no rounds.
    pub fn within(&self, share: f64) -> Option<f64> {
        let needed = (self.rounds() as f64 * share).ceil().max(1.0) as u64;
        let mut sum = 0_u64;
        for (us, count) in &self.counts {
            sum = sum.saturating_add(*count);
            if sum >= needed {
                return Some(*us as f64 / 1000.0);
            }
        }
        None
    }

    /// The longest time in milliseconds, of the rounds in which it came.
    pub fn longest(&self) -> Option<f64> {
        self.counts.last_key_value().map(|(us, _)| *us as f64 / 1000.0)
    }

    /// In which share of all rounds it had not come after so many milliseconds.
    pub fn later_than(&self, ms: f64) -> f64 {
        let until = (ms * 1000.0).max(0.0) as u64;
        let came: u64 = self.counts.range(..=until).map(|(_, count)| *count).sum();
        let rounds = self.rounds();
        if rounds == 0 { 1.0 } else { (rounds - came.min(rounds)) as f64 / rounds as f64 }
    }

    /// The points of its distribution: milliseconds, and the share of all rounds in which it had come by then.
    pub fn distribution(&self) -> Vec<(f64, f64)> {
        let rounds = self.rounds().max(1) as f64;
        let mut sum = 0_u64;
        let point = |(us, count): (&u64, &u64)| {
            sum = sum.saturating_add(*count);
            (*us as f64 / 1000.0, sum as f64 / rounds)
        };
        self.counts.iter().map(point).collect()
    }
}

/// A number of microseconds, rounded up to three digits.
fn three_digits(us: u128) -> u64 {
    let us = u64::try_from(us).unwrap_or(u64::MAX / 2).min(u64::MAX / 2);
    let unit = 10_u64.pow(us.checked_ilog10().unwrap_or(0).saturating_sub(2));
    us.div_ceil(unit) * unit
}

/// What a group measured, or a part of its processes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// The number of members.
    pub members: usize,
    /// How many of them measured this.
    pub processes: usize,
    /// The payload of each request.
    pub message_bytes: usize,
    /// From one round to the next, in milliseconds.
    pub every_ms: u64,
    /// Whether all members were on one machine.
    pub local: bool,
    /// Messages and connections of strangers, which were dropped.
    pub strangers: u64,
    /// The first reply, the second one, ...: one less than there are members.
    pub replies: Vec<Times>,
}

impl Measured {
    /// Rounds of all processes.
    pub fn rounds(&self) -> u64 {
        self.replies.first().map_or(0, Times::rounds)
    }

    /// Adds what other processes of the same group measured.
    ///
    /// # Errors
    /// When it was another group, or measured otherwise.
    pub fn merge(mut self, other: &Self) -> Outcome<Self> {
        let what = |one: &Self| (one.members, one.message_bytes, one.every_ms, one.local);
        if what(&self) != what(other) {
            return Err(Failure::usage(format!(
                "results of different groups can not be put together: {} and {}",
                self.title(),
                other.title()
            )));
        }
        self.processes += other.processes;
        self.strangers = self.strangers.saturating_add(other.strangers);
        for (sum, times) in self.replies.iter_mut().zip(&other.replies) {
            sum.merge(times);
        }
        Ok(self)
    }

    /// What was measured, in a few words.
    pub fn title(&self) -> String {
        let place = if self.local { " on one machine" } else { "" };
        format!("{} processes{place}, {} bytes every {} ms", self.members, self.message_bytes, self.every_ms)
    }

    /// Reads what `quorate doctor visigoth --json` or `quorate bench figure visigoth-2` wrote on several machines, and puts it together.
    ///
    /// # Errors
    /// When a file can not be read, or they are not of one group.
    pub fn read(files: &[impl AsRef<Path>]) -> Outcome<Self> {
        let mut all: Option<Self> = None;
        for file in files {
            let one = Self::read_one(file.as_ref())?;
            all = Some(match all {
                Some(all) => all.merge(&one)?,
                None => one,
            });
        }
        all.ok_or_else(|| Failure::usage("no file with results was named"))
    }

    fn read_one(file: &Path) -> Outcome<Self> {
        #[derive(Deserialize)]
        struct Document {
            measured: Measured,
        }
        let shown = file.display();
        let bytes = std::fs::metadata(file).doing(format_args!("read {shown}"))?.len();
        let wrong = |why: String| {
            Failure::usage(format!(
                "{shown} has no results: {why}. Name what `quorate doctor visigoth --json` printed"
            ))
        };
        if bytes > FILE_BYTES_MAX {
            return Err(wrong(format!("{bytes} bytes are too many")));
        }
        let text = std::fs::read_to_string(file).doing(format_args!("read {shown}"))?;
        let Document { measured } = serde_json::from_str(&text).map_err(|why| wrong(why.to_string()))?;
        measured.check().map_err(wrong)?;
        Ok(measured)
    }

    fn check(&self) -> Result<(), String> {
        if !(2..=MEMBERS_MAX).contains(&self.members) || self.replies.len() + 1 != self.members {
            return Err(format!("{} members with {} replies", self.members, self.replies.len()));
        }
        let rounds = self.rounds();
        if rounds == 0 || self.replies.iter().any(|times| times.rounds() != rounds) {
            return Err("each reply is one of the same rounds, and there is at least one".to_owned());
        }
        Ok(())
    }
}
