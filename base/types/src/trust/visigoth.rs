//! The numbers of the Visigoth model.
//!
//! Source: Visigoth Fault Tolerance, EuroSys 2015, sections 2.3 (the model) and 2.4 (how many members it takes, and the extremes).

use std::fmt;

/// What is assumed of a cluster's members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Visigoth {
    /// How many members may be faulty in all: stopped, or doing anything else.
    pub u: u32,
    /// How many correct members may be slow towards a member at a time. With u or more, nothing is known of how fast any of them is.
    pub s: u32,
    /// How many of the faulty members may lie in concert.
    pub o: u32,
    /// A message from a member that is not slow is there and handled after so many milliseconds, writing to disk included. Counts only where
    /// s < u.
    pub t_ms: u32,
}

/// Why numbers contradict each other, in words that say what to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mismatch(String);

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Mismatch {}

impl Visigoth {
    /// Two members, of which one may stop: the other one goes on alone (Kapritsos, dissertation, section 3.4.2).
    pub const PAIR: Self = Self { u: 1, s: 0, o: 0, t_ms: 50 };

    /// The largest of each number.
    pub const MOST: u32 = 64;

    /// The least number of members: u + min(u, s) + o + 1.
    pub const fn members_min(self) -> u32 {
        let slow = if self.s < self.u { self.s } else { self.u };
        self.u.saturating_add(slow).saturating_add(self.o).saturating_add(1)
    }

    /// Whether these are the numbers of a pair, whatever its time.
    pub const fn is_pair(self) -> bool {
        self.u == Self::PAIR.u && self.s == Self::PAIR.s && self.o == Self::PAIR.o
    }

    /// The formula for the least number of members, with these numbers.
    pub fn formula(self) -> String {
        let Self { u, s, o, .. } = self;
        format!("n >= u + min(u,s) + o + 1 = {u} + {} + {o} + 1 = {}", u.min(s), self.members_min())
    }

    /// Checks the numbers by themselves.
    ///
    /// # Errors
    /// When they contradict each other.
    pub fn check(self) -> Result<(), Mismatch> {
        let Self { u, s, o, t_ms } = self;
        let refuse = |why: String| Err(Mismatch(why));
        if u == 0 {
            return refuse(
                "u: a cluster that survives no fault needs no replicas: write 1 or more".to_owned(),
            );
        }
        if u > Self::MOST || s > Self::MOST {
            return refuse(format!("u = {u} and s = {s}: write no more than {} for each", Self::MOST));
        }
        if o > u {
            return refuse(format!(
                "o = {o}: who lies is faulty, and no more than u = {u} are: write {u} or less"
            ));
        }
        if s < u && o > s {
            return refuse(format!(
                "o = {o}: with more than s = {s} that lie, one that answers only some could stop the others: write o = {s} or less, or s = {o} \
                 or more"
            ));
        }
        if s < u && t_ms == 0 {
            return refuse(format!(
                "t_ms: with s = {s} slow replicas of u = {u} faults, replicas conclude from silence; write after how many milliseconds"
            ));
        }
        Ok(())
    }

    /// Checks whether so many members are enough.
    ///
    /// # Errors
    /// When they are too few.
    pub fn check_members(self, n: u32) -> Result<(), Mismatch> {
        if n >= self.members_min() {
            return Ok(());
        }
        Err(Mismatch(format!("{n} replicas are too few: {}", self.formula())))
    }
}

impl fmt::Display for Visigoth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { u, s, o, t_ms } = self;
        write!(f, "u={u},s={s},o={o}")?;
        if *t_ms > 0 { write!(f, ",t={t_ms}") } else { Ok(()) }
    }
}
