//! Lines of a screen: pieces of text with a style each. All text is cleaned here, so no character of somebody else reaches a terminal as it is.

use quorate_command::print;
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

/// How a piece looks on a terminal that shows colours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Style {
    #[default]
    Plain,
    /// What explains.
    Dim,
    /// What leads, and titles.
    Bold,
    /// The names of columns.
    Head,
    /// What an operator should look at.
    Warn,
    /// What does not work.
    Bad,
}

/// A line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Line {
    pieces: Vec<(Style, String)>,
}

impl Line {
    /// A line of one piece.
    pub(super) fn of(style: Style, text: &str) -> Self {
        let mut line = Self::default();
        line.push(style, text);
        line
    }

    /// Adds a piece; what can not be printed is escaped.
    pub(super) fn push(&mut self, style: Style, text: &str) {
        self.pieces.push((style, print::clean(text)));
    }

    /// Fills the line up with spaces.
    pub(super) fn pad(&mut self, columns: usize) {
        let missing = columns.saturating_sub(self.width());
        if missing > 0 {
            self.pieces.push((Style::Plain, " ".repeat(missing)));
        }
    }

    /// How many columns of a terminal it takes.
    pub(super) fn width(&self) -> usize {
        self.pieces.iter().map(|(_, text)| text.width()).sum()
    }

    /// The line, cut to so many columns.
    pub(super) fn fit(mut self, columns: usize) -> Self {
        let mut left = columns;
        for (_, text) in &mut self.pieces {
            *text = head(text, left).to_owned();
            left -= text.width();
        }
        self.pieces.retain(|(_, text)| !text.is_empty());
        self
    }

    /// The text alone, without spaces at the end.
    pub(super) fn text(&self) -> String {
        let all: String = self.pieces.iter().map(|(_, text)| text.as_str()).collect();
        all.trim_end().to_owned()
    }

    /// For a terminal: with its codes for colours, if it shows them.
    pub(super) fn for_terminal(&self, colours: bool) -> String {
        if !colours {
            return self.text();
        }
        let mut shown = String::new();
        for (style, text) in &self.pieces {
            match style.code() {
                Some(code) => shown.extend(["\x1b[", code, "m", text, "\x1b[0m"]),
                None => shown.push_str(text),
            }
        }
        shown
    }
}

impl Style {
    const fn code(self) -> Option<&'static str> {
        match self {
            Self::Plain => None,
            Self::Dim => Some("2"),
            Self::Bold => Some("1"),
            Self::Head => Some("7"),
            Self::Warn => Some("33"),
            Self::Bad => Some("1;31"),
        }
    }
}

/// How many columns a text takes once it is cleaned.
pub(super) fn width(text: &str) -> usize {
    print::clean(text).width()
}

/// The beginning of a text that takes at most so many columns.
fn head(text: &str, columns: usize) -> &str {
    let mut taken = 0;
    for (at, char) in text.char_indices() {
        taken += char.width().unwrap_or(0);
        if taken > columns {
            return &text[..at];
        }
    }
    text
}

/// A text in lines of at most so many columns, at least one; words that are longer are cut into pieces.
pub(super) fn wrapped(text: &str, columns: usize) -> Vec<String> {
    let columns = columns.max(8);
    let text = print::clean(text);
    let mut lines = vec![String::new()];
    for mut word in text.split(' ').filter(|word| !word.is_empty()) {
        loop {
            let line = lines.last().map_or(0, |line| line.width());
            let space = usize::from(line > 0);
            let fits = line + space + word.width() <= columns;
            if line > 0 && !fits {
                lines.push(String::new());
                continue;
            }
            let piece = head(word, columns - line - space);
            if let Some(last) = lines.last_mut() {
                last.extend([if space == 1 { " " } else { "" }, piece]);
            }
            word = &word[piece.len()..];
            if word.is_empty() {
                break;
            }
            lines.push(String::new());
        }
    }
    lines
}

/// Numbers in ranges: `1-3 5`.
pub(super) fn ranges(numbers: &[u16]) -> String {
    let mut found: Vec<(u16, u16)> = Vec::new();
    for number in numbers {
        match found.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(*number) => *last = *number,
            _ => found.push((*number, *number)),
        }
    }
    let range = |(first, last): &(u16, u16)| match last - first {
        0 => first.to_string(),
        1 => format!("{first} {last}"),
        _ => format!("{first}-{last}"),
    };
    found.iter().map(range).collect::<Vec<_>>().join(" ")
}
