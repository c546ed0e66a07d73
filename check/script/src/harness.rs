//! The runner that all golden scripts share.

use crate::script::{Part, Script};
use crate::{Command, diff};
use std::fmt;
use std::path::Path;

/// What a script drives.
pub trait Harness {
    /// Runs one command and says what happened, one event a line.
    ///
    /// # Errors
    /// When there is no such command, or it makes no sense here: that is a mistake in the script, never an expected
    /// output.
    fn run(&mut self, command: &Command) -> Result<String, String>;
}

/// Printed in place of an empty output, so that an output that nobody wrote can be told from an empty one.
const NOTHING: &str = "(nothing)";

/// Why a script fails.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// A mistake in the script.
    Script {
        /// The line of the script, from 1.
        line: usize,
        /// What is wrong.
        why: String,
    },
    /// A block printed something else.
    Differs {
        /// The line where the block begins, from 1.
        line: usize,
        /// The difference between the expected and the printed output.
        diff: String,
    },
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Script { line, why } => write!(f, "line {line}: {why}"),
            Self::Differs { line, diff } => {
                write!(f, "the block in line {line} prints something else (- expected, + printed):\n{diff}")
            }
        }
    }
}

/// Runs a script to its end and gives it back with the output that it really printed.
///
/// When the text is no script, or a command fails.
pub fn run(text: &str, harness: &mut impl Harness) -> Result<Script, Failure> {
    let mut script = Script::parse(text).map_err(|e| Failure::Script { line: e.line, why: e.why })?;
    for part in &mut script.parts {
        let Part::Block(block) = part else { continue };
        let mut printed: Vec<String> = Vec::new();
        for (line, command) in &block.commands {
            let fail = |why| Failure::Script { line: *line, why: format!("{command}: {why}") };
            let output = harness.run(command).map_err(fail)?;
            // A blank line would end the block when the script is read again.
            printed.extend(output.lines().map(str::trim_end).filter(|l| !l.is_empty()).map(Into::into));
        }
        if printed.is_empty() {
            printed.push(NOTHING.into());
        }
        block.expected = Some(printed);
    }
    Ok(script)
}

/// Whether `QUORATE_UPDATE=1` is set: then the scripts are rewritten with the output that they print.
pub fn updates_wanted() -> bool {
    std::env::var_os("QUORATE_UPDATE").is_some_and(|value| value == "1")
}

/// Runs the script in a file. Its output must be what the file says; with `update` the file is rewritten with the output.
///
/// # Errors
/// A text for people when the script fails.
pub fn check_file(path: &Path, harness: &mut impl Harness, update: bool) -> Result<(), String> {
    let name = path.display();
    let text = std::fs::read_to_string(path).map_err(|e| format!("{name}: {e}"))?;
    let printed = run(&text, harness).map_err(|e| format!("{name}: {e}"))?;
    if printed.to_string() == text {
        return Ok(());
    }
    if update {
        return std::fs::write(path, printed.to_string()).map_err(|e| format!("{name}: {e}"));
    }
    let failures: Vec<String> = compare(&text, &printed).iter().map(ToString::to_string).collect();
    Err(format!(
        "{name}: {}\nIf this is what should happen, run again with QUORATE_UPDATE=1 and review the diff.",
        failures.join("\n")
    ))
}

/// The blocks in which a script's text differs from what it printed.
fn compare(text: &str, printed: &Script) -> Vec<Failure> {
    let Ok(script) = Script::parse(text) else { return vec![] };
    let mut failures = Vec::new();
    for pair in script.parts.iter().zip(&printed.parts) {
        let (Part::Block(want), Part::Block(got)) = pair else { continue };
        if want.expected != got.expected {
            let nothing = vec![];
            let old = want.expected.as_ref().unwrap_or(&nothing);
            let new = got.expected.as_ref().unwrap_or(&nothing);
            failures.push(Failure::Differs { line: want.line, diff: diff(old, new) });
        }
    }
    if failures.is_empty() {
        failures.push(Failure::Script { line: 1, why: "spaces at the end of a line, or of the file".into() });
    }
    failures
}

#[cfg(test)]
mod tests;
