//! What all drawings share: colours, the two sizes, axes with round numbers, and text that is safe in a page.

use std::fmt::Write as _;

/// The colours of curves, by their names in the page's style, which has lighter ones for dark pages. People with colour blindness can tell
/// them apart.
const COLOURS: [&str; 7] =
    ["var(--c0)", "var(--c1)", "var(--c2)", "var(--c3)", "var(--c4)", "var(--c5)", "var(--c6)"];

/// The colour of a curve by its number, also in legends and tables.
pub(in crate::bench) fn colour(number: usize) -> &'static str {
    COLOURS[number % COLOURS.len()]
}

/// The size of a drawing. Each drawing is made in two sizes, and the page shows the one that fits: text scaled down to a phone's width could
/// not be read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Size {
    /// The class in the page's style.
    pub(super) class: &'static str,
    pub(super) width: f64,
    /// Room on the left for the numbers of an axis that goes up.
    pub(super) left: f64,
    /// The most round numbers along the axis that goes to the right.
    pub(super) ticks: usize,
}

pub(super) const SIZES: [Size; 2] = [
    Size { class: "wide", width: 920.0, left: 78.0, ticks: 9 },
    Size { class: "narrow", width: 380.0, left: 56.0, ticks: 5 },
];
/// Room on the right.
pub(super) const RIGHT: f64 = 14.0;
/// The height of a line of text.
pub(super) const LINE: f64 = 17.0;
/// About the width of a character.
const CHARACTER: f64 = 7.2;

/// Maps values to positions.
pub(super) struct Scale {
    pub(super) from: f64,
    pub(super) to: f64,
    pub(super) logarithmic: bool,
    pub(super) at: f64,
    pub(super) length: f64,
}

impl Scale {
    /// The position of a finite value; what lies beyond an end is placed there.
    pub(super) fn place(&self, value: f64) -> f64 {
        let share = if self.logarithmic {
            (value.max(self.from) / self.from).ln() / (self.to / self.from).ln()
        } else {
            (value - self.from) / (self.to - self.from)
        };
        self.at + self.length * share.clamp(0.0, 1.0)
    }
}

/// The ends of an axis and its round numbers for these values, of which only finite ones count; `None` without any.
///
/// A linear axis has 0. A logarithmic one becomes linear where not all values are above 0.
pub(super) fn axis(values: impl Iterator<Item = f64> + Clone, logarithmic: bool) -> Option<Axis> {
    let finite = values.filter(|value| value.is_finite()).map(bounded);
    let least = finite.clone().reduce(f64::min)?;
    let most = finite.reduce(f64::max)?;
    let logarithmic = logarithmic && least > 0.0;
    let ticks = if logarithmic { logarithmic_ticks(least, most) } else { linear_ticks(least, most) };
    let (from, to) = (*ticks.first()?, *ticks.last()?);
    (from < to).then_some(Axis { from, to, ticks, logarithmic })
}

/// A value for which round numbers can be computed: none is so small or so large in earnest.
fn bounded(value: f64) -> f64 {
    if value.abs() < 1e-300 { 0.0 } else { value.clamp(-1e300, 1e300) }
}

/// An axis.
#[derive(Debug, PartialEq)]
pub(super) struct Axis {
    pub(super) from: f64,
    pub(super) to: f64,
    pub(super) ticks: Vec<f64>,
    pub(super) logarithmic: bool,
}

impl Axis {
    pub(super) fn scale(&self, at: f64, length: f64) -> Scale {
        Scale { from: self.from, to: self.to, logarithmic: self.logarithmic, at, length }
    }

    /// At most so many of the round numbers.
    pub(super) fn thinned(&self, most: usize) -> impl Iterator<Item = f64> + '_ {
        let step = self.ticks.len().div_ceil(most.max(1)).max(1);
        self.ticks.iter().copied().step_by(step)
    }
}

/// Some round numbers that enclose 0 and both values, which are finite: four to nine.
pub(super) fn linear_ticks(least: f64, most: f64) -> Vec<f64> {
    let (least, most) = (least.min(0.0), most.max(0.0));
    // Nothing but zeros has an axis, too.
    let most = if least == 0.0 && most == 0.0 { 1.0 } else { most };
    let rough = (most - least) / 6.0;
    let decade = 10_f64.powf(rough.log10().floor());
    let step =
        [1.0, 2.0, 2.5, 5.0, 10.0].map(|factor| factor * decade).into_iter().find(|step| *step >= rough);
    let step = step.unwrap_or(decade * 10.0);
    let first = (least / step + 1e-9).floor() as i64;
    let last = ((most / step - 1e-9).ceil() as i64).max(first + 1);
    (first..=last).map(|number| number as f64 * step).collect()
}

/// The ticks 1, 2 and 5 of each power of ten around the values; only the powers if there are many.
pub(super) fn logarithmic_ticks(least: f64, most: f64) -> Vec<f64> {
    if !(least.is_finite() && most.is_finite() && 0.0 < least && least <= most) {
        return Vec::new();
    }
    let (first, last) = (least.log10().floor() as i32, most.log10().floor() as i32);
    let factors: &[f64] = if last - first > 3 { &[1.0] } else { &[1.0, 2.0, 5.0] };
    let all: Vec<f64> = (first..=last + 1)
        .flat_map(|power| factors.iter().map(move |factor| factor * 10_f64.powi(power)))
        .collect();
    let from = all.iter().rposition(|tick| *tick <= least).unwrap_or(0);
    let to = all.iter().position(|tick| *tick >= most && *tick > least).unwrap_or(all.len() - 1);
    all[from..=to.max(from + 1).min(all.len() - 1)].to_vec()
}

/// A number as text for an axis.
pub(super) fn label(value: f64) -> String {
    let (scaled, letter) = match value.abs() {
        v if v >= 1e9 => (value / 1e9, " G"),
        v if v >= 1e6 => (value / 1e6, " M"),
        v if v >= 1e4 => (value / 1e3, " k"),
        _ => (value, ""),
    };
    format!("{}{letter}", number(scaled))
}

/// A number with four digits, or with all that stand before the point: for tables, from which it can be read again.
pub(in crate::bench) fn number(value: f64) -> String {
    if !value.is_finite() {
        return "-".to_owned();
    }
    if value == 0.0 {
        return "0".to_owned();
    }
    let digits = (3.0 - value.abs().log10().floor()).clamp(0.0, 12.0) as usize;
    let text = format!("{value:.digits$}");
    if digits == 0 {
        return text;
    }
    // Binary fractions have no business in a table.
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if matches!(text, "" | "-" | "-0") { "0".to_owned() } else { text.to_owned() }
}

/// Text in lines that are about as wide as that, by words.
pub(super) fn wrapped(text: &str, width: f64) -> Vec<String> {
    let most = ((width / CHARACTER) as usize).max(8);
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= most => {
                let _ = write!(line, " {word}");
            }
            _ => lines.push(shortened(word, most)),
        }
    }
    lines
}

/// The beginning of a text that has no room.
pub(super) fn shortened(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    text.chars().take(most.saturating_sub(1)).chain(['…']).collect()
}

/// How many characters fit.
pub(super) fn characters(width: f64) -> usize {
    ((width / CHARACTER) as usize).max(8)
}

/// Text that is safe inside a page, also in quotes. Characters that would change the direction of what follows, or are for machines, become
/// signs of replacement.
pub(in crate::bench) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\n' | '\t' => out.push(' '),
            '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => out.push('\u{fffd}'),
            c if c.is_control() => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}
