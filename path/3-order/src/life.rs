//! What every protocol knows of its own life: the time, whether it began, whether it gave up, and how its last step left it.

use crate::{Effect, Effects, Standing};
use quorate_types::{Halt, Time};

/// A protocol between its start and its end.
#[derive(Debug, Default)]
pub(crate) struct Life {
    /// The time of its last step; never goes back.
    pub(crate) now: Time,
    /// It was started: no more records are given back.
    pub(crate) started: bool,
    /// The log can not be trusted: it does nothing any more.
    pub(crate) halted: bool,
    /// How the last step left it.
    pub(crate) standing: Standing,
}

impl Life {
    /// It starts, once.
    pub(crate) fn start(&mut self, now: Time) {
        assert!(!self.started, "a protocol starts once");
        (self.started, self.now) = (true, now);
    }

    /// It is stepped. Whether it does anything.
    pub(crate) fn step(&mut self, now: Time) -> bool {
        assert!(self.started, "a protocol steps after its start");
        if !self.halted {
            self.now = self.now.max(now);
        }
        !self.halted
    }

    /// It gives up.
    pub(crate) fn halt(&mut self, why: Halt, out: &mut Effects) {
        self.halted = true;
        out.push(Effect::Halt(why));
    }
}
