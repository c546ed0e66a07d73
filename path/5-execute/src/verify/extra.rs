//! Extra protection: while all executors tell the same in time, all of them have to. Only where members do not lie.
//!
//! A quorum may be wrong if the same fault of threads hits as many executors as it has. While all are there, their tokens are compared as well:
//! one that differs is enough to let commands run again, one after the other. If they differ even so, or one is silent, something else than
//! threads is at fault, and a quorum is enough again, so that the service goes on. Source: Kapritsos (Eve), section 3.4.3. Tests: verify/tests.rs.

use quorate_types::{Span, Time};

/// When all have to tell the same. Each replica notes it by what it hears; the leader goes by what it noted.
#[derive(Debug)]
pub(super) struct Extra {
    /// It begins after so many rulings in a row about which all told the same. Never if 0.
    after: u32,
    /// How long all are waited for, once one told something.
    pub(super) patience: Span,
    alike: u32,
    is_on: bool,
    again: Again,
}

/// Whether all told the same of what ran again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Again {
    /// They did, or nothing ran again.
    Agreed,
    /// Nobody has told anything of it.
    Ran,
    /// The first one told it then.
    Told(Time),
}

impl Extra {
    pub(super) fn new(after: u32, patience: Span) -> Self {
        Self { after, patience, alike: 0, is_on: false, again: Again::Agreed }
    }

    /// Whether all have to tell the same.
    pub(super) fn is_on(&self) -> bool {
        self.is_on
    }

    /// By when all have to tell the same of what ran again.
    pub(super) fn until(&self) -> Option<Time> {
        match self.again {
            Again::Told(since) => Some(since.plus(self.patience)),
            Again::Agreed | Again::Ran => None,
        }
    }

    /// A result was ruled. `alike`: all had told it by then.
    pub(super) fn is_final(&mut self, alike: bool) {
        self.alike = if alike { self.alike.saturating_add(1) } else { 0 };
        self.is_on |= self.after > 0 && self.alike >= self.after;
    }

    /// Everything runs again.
    pub(super) fn is_redone(&mut self) {
        (self.alike, self.again) = (0, if self.is_on { Again::Ran } else { Again::Agreed });
    }

    /// Whether it matters what is told of what ran again.
    pub(super) fn asks(&self) -> bool {
        self.again != Again::Agreed
    }

    /// How many told something of what ran again, and whether all told the same; `None` as long as some told nothing.
    pub(super) fn look(&mut self, now: Time, (told, alike): (usize, Option<bool>)) {
        match (alike, self.again) {
            (Some(true), _) => self.again = Again::Agreed,
            (Some(false), _) => self.leave(),
            (None, Again::Ran) if told > 0 => self.again = Again::Told(now),
            (None, _) if self.until().is_some_and(|until| now >= until) => self.leave(),
            (None, _) => {}
        }
    }

    /// A quorum is enough again.
    pub(super) fn leave(&mut self) {
        (self.alike, self.is_on, self.again) = (0, false, Again::Agreed);
    }
}
