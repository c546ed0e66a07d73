//! Why an input is refused. A refused input changes nothing.

use std::fmt;

/// What is wrong with an input. If a decided record is refused, the logs can not be trusted, and the host halts. A refused checkpoint is
/// not installed. A change is refused by all replicas alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// There is no such instance.
    UnknownInstance,
    /// An instance must hand in its records in order, each once.
    OutOfOrder {
        /// The record that should come.
        next: u64,
        /// The one that came.
        came: u64,
    },
    /// No slot has so high a number.
    NoSuchSlot,
    /// A no-op reaches across the end of its generation.
    AcrossBorder,
    /// The decided record does not continue the checkpoint.
    NotContinued,
    /// The number of instances is not allowed.
    Instances,
    /// The window is not allowed.
    Window,
    /// The number of instances is the present one.
    NothingChanges,
    /// Another change is under way.
    ChangeUnderWay,
    /// No batch was taken just now, so there is no command that could ask for it.
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
