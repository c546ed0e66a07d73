//! What every protocol knows of its own life: the time, whether it was started, whether it halted, and its standing after the last step.

use crate::{Effect, Effects, Standing};
use quorate_types::{Halt, Time};

/// A protocol between its start and its end.
#[derive(Debug, Default)]
pub(crate) struct Life {
    /// The time of its last step; never goes back.
    pub(crate) now: Time,
    /// It was started, so no more records are given back.
    pub(crate) started: bool,
    /// The log can not be trusted, so the protocol does nothing any more.
    pub(crate) halted: bool,
    /// The standing after the last step.
    pub(crate) standing: Standing,
}

impl Life {
    /// Starts, once.
    pub(crate) fn start(&mut self, now: Time) {
        assert!(!self.started, "a protocol starts once");
        (self.started, self.now) = (true, now);
    }

    /// Begins a step. False if the protocol halted and does nothing.
    pub(crate) fn step(&mut self, now: Time) -> bool {
        assert!(self.started, "a protocol steps after its start");
        if !self.halted {
            self.now = self.now.max(now);
        }
        !self.halted
    }

    /// Halts: the log can not be trusted.
    pub(crate) fn halt(&mut self, why: Halt, out: &mut Effects) {
        self.halted = true;
        out.push(Effect::Halt(why));
    }
}
