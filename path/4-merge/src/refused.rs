//! Why something is refused. Refused input changes nothing.

use std::fmt;

/// What is wrong with an input. What was decided and is refused can not be trusted: the host halts. A checkpoint that is refused is not
/// installed; a change that is refused is refused by all replicas alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// There is no such instance.
    UnknownInstance,
    /// An instance hands on its records in order, each once.
    OutOfOrder {
        /// The record that is next.
        next: u64,
        /// The one that came.
        came: u64,
    },
    /// No slot has such a number.
    NoSuchSlot,
    /// A no-op does not end with its generation.
    AcrossBorder,
    /// What was decided does not continue the checkpoint.
    NotContinued,
    /// There is no such number of instances.
    Instances,
    /// There is no such window.
    Window,
    /// There are as many instances as that.
    NothingChanges,
    /// Another change is under way.
    ChangeUnderWay,
    /// It is no command's turn.
    NoCommand,
    /// A checkpoint's parts do not fit together.
    Checkpoint(&'static str),
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownInstance => f.write_str("there is no such instance"),
            Self::OutOfOrder { next, came } => write!(f, "record {came} came where {next} is next"),
            Self::NoSuchSlot => f.write_str("no slot has such a number"),
            Self::AcrossBorder => f.write_str("a no-op reaches across the border of a generation"),
            Self::NotContinued => f.write_str("what was decided does not continue the checkpoint"),
            Self::Instances => f.write_str("there is no such number of instances"),
            Self::Window => f.write_str("there is no such window"),
            Self::NothingChanges => f.write_str("there are as many instances as that"),
            Self::ChangeUnderWay => f.write_str("another change is under way"),
            Self::NoCommand => f.write_str("no command is being executed"),
            Self::Checkpoint(what) => write!(f, "the merge's part of a checkpoint: {what}"),
        }
    }
}

impl std::error::Error for Refused {}
