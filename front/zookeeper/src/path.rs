//! Which paths are allowed, and their parts.
//!
//! Source: `PathUtils.validatePath` of Apache ZooKeeper 3.9.4. It looks at the units of UTF-16, so that characters outside of the basic
//! plane, which are two surrogates there, are not allowed. Tests: tests/all/path.rs.

use std::fmt;

/// Why a path is not allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathError {
    /// It is empty, or missing.
    Empty,
    /// It does not begin with `/`.
    Relative,
    /// It ends with `/`.
    EndsWithSlash,
    /// A name is empty.
    EmptyName,
    /// A name is `.` or `..`.
    Dots,
    /// A character is not allowed, or the path is no UTF-8.
    Character,
}

impl fmt::Display for PathError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Empty => "a path has at least one character",
            Self::Relative => "a path begins with /",
            Self::EndsWithSlash => "a path does not end with /",
            Self::EmptyName => "no name in a path is empty",
            Self::Dots => "no name in a path is . or ..",
            Self::Character => "the path has a character that is not allowed, or is no UTF-8",
        })
    }
}

impl std::error::Error for PathError {}

/// A path that is allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ZkPath<'a>(&'a str);

impl<'a> ZkPath<'a> {
    /// The root.
    pub const ROOT: Self = Self("/");

    /// Checks a path.
    ///
    /// # Errors
    /// When it is not allowed.
    pub fn new(path: &'a [u8]) -> Result<Self, PathError> {
        let path = str::from_utf8(path).map_err(|_| PathError::Character)?;
        check(path)?;
        Ok(Self(path))
    }

    /// Checks the path of a node that gets a number of ten digits behind its name. So it may end with `/`, and its last name may be `.` or
    /// `..`.
    ///
    /// # Errors
    /// When it is not allowed.
    pub fn before_number(path: &[u8]) -> Result<&str, PathError> {
        let path = str::from_utf8(path).map_err(|_| PathError::Character)?;
        check(&format!("{path}1"))?;
        Ok(path)
    }

    /// Its characters.
    pub const fn text(self) -> &'a str {
        self.0
    }

    /// Whether it is the root.
    pub fn is_root(self) -> bool {
        self.0.len() == 1
    }

    /// How many names it has.
    pub fn depth(self) -> usize {
        if self.is_root() { 0 } else { self.0.bytes().filter(|byte| *byte == b'/').count() }
    }

    /// The node above it; none of the root.
    pub fn parent(self) -> Option<Self> {
        if self.is_root() {
            return None;
        }
        let at = self.0.rfind('/').unwrap_or(0);
        Some(Self(&self.0[..at.max(1)]))
    }

    /// Its last name; empty for the root.
    pub fn name(self) -> &'a str {
        self.0.rsplit('/').next().unwrap_or_default()
    }

    /// The path of a child.
    pub fn child(self, name: &str) -> String {
        let above = if self.is_root() { "" } else { self.0 };
        format!("{above}/{name}")
    }

    /// Whether it is this node, or lies below it.
    pub fn is_in(self, above: Self) -> bool {
        above.is_root()
            || self.0.strip_prefix(above.0).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }
}

impl fmt::Display for ZkPath<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

fn check(path: &str) -> Result<(), PathError> {
    if path.is_empty() {
        return Err(PathError::Empty);
    }
    let Some(names) = path.strip_prefix('/') else { return Err(PathError::Relative) };
    if names.is_empty() {
        return Ok(());
    }
    if names.ends_with('/') {
        return Err(PathError::EndsWithSlash);
    }
    for name in names.split('/') {
        match name {
            "" => return Err(PathError::EmptyName),
            "." | ".." => return Err(PathError::Dots),
            _ if name.chars().any(is_refused) => return Err(PathError::Character),
            _ => {}
        }
    }
    Ok(())
}

/// Control characters, characters for private use and what lies behind them, and whatever takes two units of UTF-16.
const fn is_refused(character: char) -> bool {
    matches!(character, '\0'..='\u{1f}' | '\u{7f}'..='\u{9f}' | '\u{e000}'..='\u{f8ff}' | '\u{fff0}'..)
}
