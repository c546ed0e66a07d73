//! How a command ends without success: one text for people, one exit code for programs. Commands never panic.

use std::fmt;
use std::process::ExitCode;

/// What a command returns.
pub type Outcome<T = ExitCode> = Result<T, Failure>;

/// Why a command did not succeed: what happened, why, and what to do.
#[derive(Debug)]
pub struct Failure {
    text: String,
    code: u8,
}

impl Failure {
    /// Something went wrong: exit code 1.
    pub fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), code: 1 }
    }
    /// The command line or a configuration is wrong: exit code 2.
    pub fn usage(text: impl Into<String>) -> Self {
        Self { text: text.into(), code: 2 }
    }
    /// The exit code.
    pub fn code(&self) -> ExitCode {
        self.code.into()
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Adds to an error of the system what was being done.
pub trait Doing<T> {
    /// `what` completes the sentence "can not {what}: permission denied".
    fn doing(self, what: impl fmt::Display) -> Outcome<T>;
}

impl<T, E: fmt::Display> Doing<T> for Result<T, E> {
    fn doing(self, what: impl fmt::Display) -> Outcome<T> {
        self.map_err(|why| Failure::new(format!("can not {what}: {why}")))
    }
}
