//! Rows with points: for each thing that was measured one point for each side, on an axis that all share, with the line from the lowest to
//! the highest of its rounds.

use super::scale::{
    LINE, RIGHT, SIZES, Scale, Size, axis, characters, colour, escape, label, number, shortened, wrapped,
};
use super::{Numbers, begin, nothing};
use crate::bench::median::Median;
use quorate_command::print::amount;
use std::fmt::Write as _;

/// A value, and the ends of its range if there are several.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::bench) struct Mark {
    pub(in crate::bench) value: f64,
    pub(in crate::bench) range: Option<(f64, f64)>,
}

impl Mark {
    /// A value that was measured once.
    pub(in crate::bench) fn one(value: f64) -> Option<Self> {
        value.is_finite().then_some(Self { value, range: None })
    }

    /// The median of rounds, from the lowest to the highest of them; `None` without any.
    pub(in crate::bench) fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut values: Vec<f64> = values.into_iter().filter(|value| value.is_finite()).collect();
        values.sort_by(f64::total_cmp);
        let (low, high) = (*values.first()?, *values.last()?);
        let range = (values.len() > 1).then_some((low, high));
        Median::of(values).map(|median| Self { value: median.median, range })
    }

    /// A median with its bounds.
    pub(in crate::bench) fn bounded(median: &Median) -> Option<Self> {
        let Median { median: value, low, high, of, .. } = *median;
        let all = [value, low, high].iter().all(|value| value.is_finite());
        all.then_some(Self { value, range: (of > 1).then_some((low, high)) })
    }

    /// The value, and its range in brackets.
    pub(in crate::bench) fn text(self, show: impl Fn(f64) -> String) -> String {
        match self.range {
            None => show(self.value),
            Some((low, high)) => format!("{} [{}, {}]", show(self.value), show(low), show(high)),
        }
    }
}

/// One thing that was measured, with a point for each side; `None`: it was not measured there.
#[derive(Clone, Debug)]
pub(in crate::bench) struct Row {
    pub(in crate::bench) name: String,
    pub(in crate::bench) marks: Vec<Option<Mark>>,
}

impl Row {
    /// Its name, and a lane for each side that was measured; one without any has an empty one.
    fn height(&self) -> f64 {
        LINE + LANE * self.marks.iter().flatten().count().max(1) as f64 + GAP
    }
}

/// All rows.
#[derive(Clone, Debug)]
pub(in crate::bench) struct Rows {
    pub(in crate::bench) title: String,
    /// What the axis means, with its unit.
    pub(in crate::bench) unit: String,
    pub(in crate::bench) logarithmic: bool,
    /// The names of the sides.
    pub(in crate::bench) sides: Vec<String>,
    pub(in crate::bench) rows: Vec<Row>,
    /// A value that is marked on the axis, such as 1 for ratios.
    pub(in crate::bench) line_at: Option<f64>,
}

const LEFT: f64 = 10.0;
/// The height of one side's point.
const LANE: f64 = 20.0;
/// Between rows.
const GAP: f64 = 10.0;

impl Rows {
    /// Rows with these sides.
    pub(in crate::bench) fn new(title: &str, unit: &str, sides: &[&str], rows: Vec<Row>) -> Self {
        let sides = sides.iter().map(|side| (*side).to_owned()).collect();
        Self { title: title.into(), unit: unit.into(), logarithmic: false, sides, rows, line_at: None }
    }

    /// What is drawn of ours beside another system, which is named: ratios of rates, turn by turn, if there are some; then rates, rates by
    /// processor time, medians and 99th percentiles of latency, each of both sides. `unit` is what is counted.
    pub(in crate::bench) fn beside_a_peer(
        peer: &str,
        unit: &str,
        ratios: Vec<Row>,
        [rates, by_cpu, medians, percentiles]: [Vec<Row>; 4],
    ) -> Vec<Self> {
        let of_both =
            |title: &str, unit: &str, rows| Self::new(title, unit, &["ours", peer], rows).logarithmic();
        let title = format!("Rate beside {peer}, turn by turn");
        let sides = format!("ours over {peer}");
        let ratios = (!ratios.is_empty())
            .then(|| Self::new(&title, &format!("times {peer}'s"), &[sides.as_str()], ratios).beside_one());
        let measured = [
            of_both("Rate", &format!("{unit} per second"), rates),
            of_both("Rate by processor time of all servers", &format!("{unit} per CPU second"), by_cpu),
            of_both("Median latency", "microseconds", medians),
            of_both("99th percentile of latency", "microseconds", percentiles),
        ];
        ratios.into_iter().chain(measured).collect()
    }

    /// On a logarithmic axis: values that differ by orders of magnitude are seen beside each other.
    pub(in crate::bench) fn logarithmic(mut self) -> Self {
        self.logarithmic = true;
        self
    }

    /// Ratios: where both sides would be equal there is a line.
    pub(in crate::bench) fn beside_one(mut self) -> Self {
        self.line_at = Some(1.0);
        self
    }

    /// The drawing in both sizes; `id` tells it from others on the page.
    pub(super) fn svgs(&self, id: usize) -> String {
        SIZES.iter().map(|size| self.svg(*size, id)).collect()
    }

    /// Its names and colours; without a second side there is nothing to tell apart.
    pub(super) fn legend(&self) -> Vec<(&str, &'static str)> {
        let sides = self.sides.iter().enumerate().map(|(at, name)| (name.as_str(), colour(at)));
        if self.sides.len() < 2 { Vec::new() } else { sides.collect() }
    }

    /// Its numbers: a row for each thing, a column for each side.
    pub(super) fn numbers(&self) -> Numbers {
        let cell = |mark: &Option<Mark>| mark.map_or_else(|| "-".to_owned(), |mark| mark.text(number));
        let row = |row: &Row| [row.name.clone()].into_iter().chain(row.marks.iter().map(cell)).collect();
        Numbers {
            head: [self.unit.clone()].into_iter().chain(self.sides.iter().cloned()).collect(),
            rows: self.rows.iter().map(row).collect(),
        }
    }

    fn words(&self) -> String {
        let mark = |(at, mark): (usize, &Option<Mark>)| {
            let side = self.sides.get(at).map_or("", String::as_str);
            mark.map(|mark| format!("{side} {}", mark.text(number)))
        };
        let row = |row: &Row| {
            let marks: Vec<String> = row.marks.iter().enumerate().filter_map(mark).collect();
            format!("{}: {}", row.name, if marks.is_empty() { "no value".into() } else { marks.join(", ") })
        };
        let rows: Vec<String> = self.rows.iter().map(row).collect();
        format!("{}. {}. The numbers are in the table below.", self.unit, rows.join("; "))
    }

    fn values(&self) -> impl Iterator<Item = f64> + Clone + '_ {
        let marks = self.rows.iter().flat_map(|row| row.marks.iter().flatten());
        marks.flat_map(|mark| {
            let (low, high) = mark.range.unwrap_or((mark.value, mark.value));
            [mark.value, low, high]
        })
    }

    fn svg(&self, size: Size, id: usize) -> String {
        // A line alone is nothing to look at.
        let line_at = self.line_at.filter(|_| self.values().any(f64::is_finite));
        let Some(axis) = axis(self.values().chain(line_at), self.logarithmic) else {
            return nothing(size, id, &self.title);
        };
        let scale = axis.scale(LEFT, size.width - LEFT - RIGHT);
        let unit = if axis.logarithmic { format!("{} (logarithmic)", self.unit) } else { self.unit.clone() };
        let along = wrapped(&unit, size.width - LEFT - RIGHT);
        let rows: f64 = self.rows.iter().map(Row::height).sum();
        let height = rows + LINE * (along.len() as f64 + 1.0) + 8.0;
        let mut svg = begin(size, height, id, &self.title, &self.words());
        for tick in axis.thinned(size.ticks) {
            let at = scale.place(tick);
            // Numbers at the ends stay inside.
            let anchor = if at < LEFT + 12.0 {
                "start"
            } else if at > size.width - RIGHT - 12.0 {
                "end"
            } else {
                "middle"
            };
            let _ = writeln!(
                svg,
                "<line class=\"grid\" x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"0\" y2=\"{rows:.0}\"/><text x=\"{at:.1}\" y=\"{:.0}\" \
                 text-anchor=\"{anchor}\">{}</text>",
                rows + LINE - 2.0,
                label(tick)
            );
        }
        if let Some(one) = line_at {
            let at = scale.place(one);
            let _ = writeln!(
                svg,
                "<line class=\"even\" x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"0\" y2=\"{rows:.0}\"/>"
            );
        }
        for (at, line) in along.iter().enumerate() {
            let y = rows + LINE * (at as f64 + 2.0);
            let middle = size.width / 2.0;
            let _ = writeln!(
                svg,
                "<text x=\"{middle:.0}\" y=\"{y:.0}\" text-anchor=\"middle\">{}</text>",
                escape(line)
            );
        }
        let mut top = 0.0;
        for row in &self.rows {
            let name = shortened(&row.name, characters(size.width - LEFT - RIGHT));
            let _ = writeln!(
                svg,
                "<text class=\"name\" x=\"{LEFT}\" y=\"{:.0}\">{}</text>",
                top + 13.0,
                escape(&name)
            );
            let there = row.marks.iter().enumerate().filter_map(|(side, mark)| Some((side, (*mark)?)));
            for (lane, (side, found)) in there.enumerate() {
                let middle = top + LINE + LANE * (lane as f64 + 0.5);
                mark(&mut svg, &scale, size, found, middle, colour(side));
            }
            top += row.height();
        }
        svg.push_str("</svg>\n");
        svg
    }
}

/// A point, its range, and its number where there is room.
fn mark(svg: &mut String, scale: &Scale, size: Size, mark: Mark, middle: f64, colour: &str) {
    let at = scale.place(mark.value);
    let (low, high) = mark.range.map_or((at, at), |(low, high)| (scale.place(low), scale.place(high)));
    if mark.range.is_some() {
        let (up, down) = (middle - 4.0, middle + 4.0);
        let _ = writeln!(
            svg,
            "<path class=\"range\" d=\"M{low:.1} {up:.1}V{down:.1}M{low:.1} {middle:.1}H{high:.1}M{high:.1} {up:.1}V{down:.1}\" \
             style=\"stroke:{colour}\"/>"
        );
    }
    let _ = writeln!(svg, "<circle cx=\"{at:.1}\" cy=\"{middle:.1}\" r=\"4.5\" style=\"fill:{colour}\"/>");
    let text = mark.text(|value| if value.abs() >= 1000.0 { amount(value) } else { number(value) });
    let room = text.chars().count() as f64 * 7.2 + 9.0;
    let (x, anchor) = if high + room < size.width {
        (high + 9.0, "start")
    } else if low - room > 0.0 {
        (low - 9.0, "end")
    } else {
        // Its range takes all the room; the table has the number.
        return;
    };
    let _ = writeln!(
        svg,
        "<text class=\"value\" x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"{anchor}\">{}</text>",
        middle + 4.5,
        escape(&text)
    );
}
