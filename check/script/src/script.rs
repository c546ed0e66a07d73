//! The text of a script: comments, and blocks of commands with the output that they must give.

use crate::Command;
use std::fmt;

/// A script as its parts, which written one after the other give its text again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Script {
    /// Comments, blank lines and blocks in order.
    pub parts: Vec<Part>,
}

/// A part of a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// A line of comment outside of blocks, or a blank line.
    Text(String),
    /// Commands and their output.
    Block(Block),
}

/// Commands, and the output that they give together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// Number of the block's first line, from 1.
    pub line: usize,
    /// Command lines as they were written, comments among them.
    pub input: Vec<String>,
    /// The commands with their line numbers.
    pub commands: Vec<(usize, Command)>,
    /// What they must print; `None` when the author leaves it to the first update.
    pub expected: Option<Vec<String>>,
}

/// Why a text is no script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptError {
    /// The line, from 1.
    pub line: usize,
    /// What is wrong.
    pub why: String,
}

impl fmt::Display for ScriptError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.why)
    }
}

/// The line between commands and output.
pub(crate) const SEPARATOR: &str = "---";

impl Script {
    /// Reads a script.
    ///
    /// # Errors
    /// When the text does not begin with a comment, a block has no commands, or a command can not be read.
    pub fn parse(text: &str) -> Result<Self, ScriptError> {
        let mut parts = Vec::new();
        let mut lines = (1..).zip(text.lines().map(str::trim_end)).peekable();
        if !text.starts_with("# ") {
            return Err(ScriptError {
                line: 1,
                why: "a script begins with a comment that tells its story".into(),
            });
        }
        while let Some(&(number, line)) = lines.peek() {
            if line.is_empty() || line.starts_with('#') {
                parts.push(Part::Text(line.to_string()));
                lines.next();
                continue;
            }
            let mut block = Block { line: number, input: vec![], commands: vec![], expected: None };
            while let Some((number, line)) = lines.next_if(|(_, line)| !line.is_empty()) {
                match &mut block.expected {
                    Some(expected) => expected.push(line.to_string()),
                    None if line == SEPARATOR => block.expected = Some(vec![]),
                    None => {
                        block.input.push(line.to_string());
                        if !line.starts_with('#') {
                            let commands = Command::parse_line(line);
                            let commands = commands.map_err(|why| ScriptError { line: number, why })?;
                            block.commands.extend(commands.into_iter().map(|command| (number, command)));
                        }
                    }
                }
            }
            if block.commands.is_empty() {
                return Err(ScriptError { line: number, why: "a block without commands".into() });
            }
            parts.push(Part::Block(block));
        }
        Ok(Self { parts })
    }
}

impl fmt::Display for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for part in &self.parts {
            match part {
                Part::Text(line) => writeln!(f, "{line}")?,
                Part::Block(block) => {
                    block.input.iter().try_for_each(|line| writeln!(f, "{line}"))?;
                    if let Some(expected) = &block.expected {
                        writeln!(f, "{SEPARATOR}")?;
                        expected.iter().try_for_each(|line| writeln!(f, "{line}"))?;
                    }
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
