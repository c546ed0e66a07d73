//! What happened: a running hash of all of it, and on demand one line per event.
//!
//! A line has the columns `time in seconds | who | what | details`. `docs/testing.md` lists the words of the third column.

use std::fmt::Write as _;

/// How much detail is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Only the hash.
    Hash,
    /// Faults, lives, leaders, operations.
    Events,
    /// Also messages, disk work and turns.
    All,
}

/// One line of a trace.
#[derive(Clone, Debug)]
pub struct Line {
    /// Virtual time in nanoseconds.
    pub at: u64,
    /// The process; none for the world.
    pub who: Option<usize>,
    /// A word for what happened.
    pub what: &'static str,
    /// The rest.
    pub text: String,
}

/// A message that reached the other end, for the diagram.
#[derive(Clone, Copy, Debug)]
pub struct Arrow {
    /// When it was sent, and by which process.
    pub sent: (u64, usize),
    /// When and by which process it was received.
    pub got: (u64, usize),
    /// Its size in bytes.
    pub bytes: usize,
}

/// The trace of one run.
#[derive(Clone, Debug)]
pub struct Trace {
    hash: u64,
    /// How many events so far.
    pub events: u64,
    level: Level,
    replicas: usize,
    /// The lines that were kept.
    pub lines: Vec<Line>,
    /// The messages, if everything is kept.
    pub arrows: Vec<Arrow>,
}

impl Trace {
    /// An empty trace of a run with this many replicas.
    pub fn new(level: Level, replicas: usize) -> Self {
        Self {
            hash: 0x51_7c_c1_b7_27_22_0a_95,
            events: 0,
            level,
            replicas,
            lines: Vec::new(),
            arrows: Vec::new(),
        }
    }

    /// Adds words to the hash.
    pub fn mix(&mut self, words: &[u64]) {
        for word in words {
            self.hash = (self.hash.rotate_left(23) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        }
    }

    /// The hash of everything so far.
    pub fn hash(&self) -> u64 {
        self.hash ^ (self.hash >> 29)
    }

    /// Adds a line of this level.
    pub fn line(
        &mut self,
        level: Level,
        at: u64,
        who: Option<usize>,
        what: &'static str,
        text: impl FnOnce() -> String,
    ) {
        if self.level >= level {
            self.lines.push(Line { at, who, what, text: text() });
        }
    }

    /// Notes a message that arrived.
    pub fn arrow(&mut self, arrow: Arrow) {
        if self.level == Level::All {
            self.arrows.push(arrow);
        }
    }

    /// The name of a process.
    pub fn name(&self, who: usize) -> String {
        name(who, self.replicas)
    }

    /// All lines as text.
    pub fn text(&self) -> String {
        let mut out = String::new();
        for line in &self.lines {
            let who = line.who.map_or_else(|| "-".to_owned(), |who| self.name(who));
            let _ = writeln!(out, "{:>13.6}  {who:<4} {:<9} {}", line.at as f64 / 1e9, line.what, line.text);
        }
        out
    }
}

/// The name of process `who`, with this many replicas: r1, r2, ..., then c1, c2, ...
pub fn name(who: usize, replicas: usize) -> String {
    if who < replicas { format!("r{}", who + 1) } else { format!("c{}", who - replicas + 1) }
}
