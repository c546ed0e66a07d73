//! Line charts: several curves over time or another quantity, an axis with units, linear or logarithmic, ranges of what was measured, and
//! bars below the curves that mark times.

use super::scale::{Axis, LINE, RIGHT, SIZES, Scale, Size, axis, escape, label, number, wrapped};
use super::{Numbers, begin, nothing};
use std::fmt::Write as _;

/// A curve. It has a gap where there is no value.
#[derive(Clone, Debug)]
pub(in crate::bench) struct Line {
    pub(in crate::bench) name: String,
    pub(in crate::bench) colour: &'static str,
    pub(in crate::bench) points: Vec<(f64, Option<f64>)>,
    /// Spans of time that are marked by bars in the curve's colour.
    pub(in crate::bench) bars: Vec<(f64, f64)>,
    /// Where along the x axis, the lowest and the highest value that was measured there.
    pub(in crate::bench) ranges: Vec<(f64, f64, f64)>,
}

impl Line {
    /// A curve without bars and ranges.
    pub(in crate::bench) fn plain(
        name: impl Into<String>,
        colour: &'static str,
        points: Vec<(f64, Option<f64>)>,
    ) -> Self {
        Self { name: name.into(), colour, points, bars: Vec::new(), ranges: Vec::new() }
    }

    /// The points that can be drawn, and gaps.
    fn drawn(&self) -> impl Iterator<Item = (f64, Option<f64>)> + Clone + '_ {
        let finite = |value: &f64| value.is_finite();
        self.points
            .iter()
            .filter(|(at, _)| at.is_finite())
            .map(move |(at, value)| (*at, value.filter(finite)))
    }

    fn values(&self) -> impl Iterator<Item = f64> + Clone + '_ {
        let ranges = self.ranges.iter().flat_map(|(_, low, high)| [*low, *high]);
        self.drawn().filter_map(|(_, value)| value).chain(ranges)
    }
}

/// A chart.
#[derive(Clone, Debug)]
pub(in crate::bench) struct Chart {
    pub(in crate::bench) title: String,
    pub(in crate::bench) x_label: String,
    pub(in crate::bench) y_label: String,
    pub(in crate::bench) logarithmic: bool,
    /// The end of the time axis; it ends further right if there is a point.
    pub(in crate::bench) x_most: f64,
    pub(in crate::bench) lines: Vec<Line>,
    /// The meaning of the bars; `None`: there are none.
    pub(in crate::bench) bars_label: Option<String>,
}

const PLOT: f64 = 260.0;
const BAR: f64 = 9.0;

/// Where the parts of one drawing are.
struct Place {
    size: Size,
    /// The upper end of the curves.
    top: f64,
    bars_top: f64,
    /// Below curves and bars.
    axis: f64,
}

impl Chart {
    /// The chart in both sizes; `id` tells it from others on the page.
    pub(super) fn svgs(&self, id: usize) -> String {
        SIZES.iter().map(|size| self.svg(*size, id)).collect()
    }

    /// Its names and colours.
    pub(super) fn legend(&self) -> Vec<(&str, &'static str)> {
        self.lines.iter().map(|line| (line.name.as_str(), line.colour)).collect()
    }

    /// Its numbers: a row for each place along the x axis, a column for each curve.
    pub(super) fn numbers(&self) -> Numbers {
        let mut places: Vec<f64> = self.lines.iter().flat_map(Line::drawn).map(|(at, _)| at).collect();
        places.sort_by(f64::total_cmp);
        places.dedup();
        let cell = |line: &Line, at: f64| {
            // A curve may have several points at one place.
            let here = line.drawn().filter(|point| point.0 == at).filter_map(|point| point.1).map(number);
            let range = line.ranges.iter().find(|range| range.0 == at);
            let range = range.map(|(_, low, high)| format!(" [{}, {}]", number(*low), number(*high)));
            let text = here.collect::<Vec<_>>().join("; ") + &range.unwrap_or_default();
            if text.is_empty() { "-".to_owned() } else { text }
        };
        let row =
            |at: f64| [number(at)].into_iter().chain(self.lines.iter().map(|line| cell(line, at))).collect();
        let names = self.lines.iter().map(|line| line.name.clone());
        Numbers {
            head: [self.x_label.clone()].into_iter().chain(names).collect(),
            rows: places.into_iter().map(row).collect(),
        }
    }

    /// What is drawn, in words.
    fn words(&self) -> String {
        let curve = |line: &Line| {
            let values = line.values().filter(|value| value.is_finite());
            let ends = values.clone().reduce(f64::min).zip(values.reduce(f64::max));
            let count = line.drawn().filter(|(_, value)| value.is_some()).count();
            match ends {
                Some((low, high)) => {
                    format!("{}: {count} points from {} to {}", line.name, number(low), number(high))
                }
                None => format!("{}: no value", line.name),
            }
        };
        let curves: Vec<String> = self.lines.iter().map(curve).collect();
        format!(
            "To the right: {}. Upwards: {}. {}. The numbers are in the table below.",
            self.x_label,
            self.y_label,
            curves.join("; ")
        )
    }

    fn svg(&self, size: Size, id: usize) -> String {
        let values = self.lines.iter().flat_map(Line::values);
        let Some(y) = axis(values, self.logarithmic) else {
            return nothing(size, id, &self.title);
        };
        let x = self.x();
        let up = wrapped(&self.y_label, size.width);
        let along = wrapped(&self.x_label, size.width - RIGHT - size.left);
        let rows = if self.bars_label.is_some() { self.lines.len() as f64 } else { 0.0 };
        let top = LINE * up.len() as f64 + 8.0;
        // With their meaning above them.
        let bars_top = top + PLOT + if rows > 0.0 { LINE + 4.0 } else { 8.0 };
        let below = bars_top + rows * BAR + if rows > 0.0 { 6.0 } else { 0.0 };
        let place = Place { size, top, bars_top, axis: below };
        let height = below + LINE * (along.len() as f64 + 1.0) + 4.0;
        let mut svg = begin(size, height, id, &self.title, &self.words());
        for (at, line) in up.iter().enumerate() {
            let y = LINE * (at as f64 + 1.0) - 4.0;
            let _ = writeln!(svg, "<text x=\"0\" y=\"{y:.0}\">{}</text>", escape(line));
        }
        let x_scale = x.scale(size.left, size.width - size.left - RIGHT);
        // From the bottom up, in places that grow downwards.
        let y_scale = y.scale(top + PLOT, -PLOT);
        grid(&mut svg, &place, (&x, &x_scale), (&y, &y_scale));
        for (at, line) in along.iter().enumerate() {
            let y = below + LINE * (at as f64 + 2.0) - 2.0;
            let middle = f64::midpoint(size.left, size.width - RIGHT);
            let _ = writeln!(
                svg,
                "<text x=\"{middle:.0}\" y=\"{y:.0}\" text-anchor=\"middle\">{}</text>",
                escape(line)
            );
        }
        if let Some(label) = &self.bars_label {
            self.bars(&mut svg, &place, &x_scale, label);
        }
        for line in &self.lines {
            ranges(&mut svg, line, &x_scale, &y_scale);
            curve(&mut svg, line, &x_scale, &y_scale);
        }
        svg.push_str("</svg>\n");
        svg
    }

    fn x(&self) -> Axis {
        let places = self.lines.iter().flat_map(Line::drawn).map(|(at, _)| at);
        let all = axis(places.chain([self.x_most]), false);
        let mut x = all.unwrap_or(Axis { from: 0.0, to: 1.0, ticks: vec![0.0, 1.0], logarithmic: false });
        // It ends where the measurement ended, not at the next round number.
        let places = self.lines.iter().flat_map(Line::drawn).map(|(at, _)| at).chain([self.x_most]);
        let most = places.filter(|at| at.is_finite()).fold(f64::MIN, f64::max);
        if most > x.from {
            x.to = most;
            x.ticks.retain(|tick| *tick <= most * 1.0001);
        }
        // Things that are counted have no halves.
        if self.lines.iter().flat_map(Line::drawn).all(|(at, _)| at.fract() == 0.0) {
            x.ticks.retain(|tick| tick.fract() == 0.0);
        }
        x
    }

    fn bars(&self, svg: &mut String, place: &Place, x: &Scale, what: &str) {
        let _ = writeln!(
            svg,
            "<text x=\"{}\" y=\"{}\">{}</text>",
            place.size.left,
            place.bars_top - 4.0,
            escape(what)
        );
        for (row, line) in self.lines.iter().enumerate() {
            let y = place.bars_top + row as f64 * BAR;
            for (from, to) in line.bars.iter().filter(|(from, to)| from.is_finite() && to.is_finite()) {
                let (from, to) = (x.place(*from), x.place(*to));
                // One that is too short to be seen is seen all the same.
                let width = (to - from).max(1.5);
                let _ = writeln!(
                    svg,
                    "<rect class=\"bar\" x=\"{from:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{}\" style=\"fill:{}\"/>",
                    BAR - 2.0,
                    line.colour
                );
            }
        }
    }
}

fn grid(svg: &mut String, place: &Place, x: (&Axis, &Scale), y: (&Axis, &Scale)) {
    let Place { size, top, axis, .. } = place;
    let (left, right) = (size.left, size.width - RIGHT);
    for tick in &y.0.ticks {
        let at = y.1.place(*tick);
        let _ = writeln!(
            svg,
            "<line class=\"grid\" x1=\"{left}\" x2=\"{right}\" y1=\"{at:.1}\" y2=\"{at:.1}\"/><text x=\"{}\" y=\"{:.1}\" \
             text-anchor=\"end\">{}</text>",
            left - 6.0,
            at + 4.0,
            label(*tick)
        );
    }
    for tick in x.0.thinned(size.ticks) {
        let at = x.1.place(tick);
        let _ = writeln!(
            svg,
            "<line class=\"grid\" x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{top}\" y2=\"{}\"/><text x=\"{at:.1}\" y=\"{}\" \
             text-anchor=\"middle\">{}</text>",
            top + PLOT,
            axis + LINE - 3.0,
            label(tick)
        );
    }
    let _ = writeln!(
        svg,
        "<rect class=\"frame\" x=\"{left}\" y=\"{top}\" width=\"{}\" height=\"{PLOT}\"/>",
        right - left
    );
}

/// Draws an upright line with two ends for each range.
fn ranges(svg: &mut String, line: &Line, x: &Scale, y: &Scale) {
    let there = line.ranges.iter().filter(|(at, low, high)| [at, low, high].iter().all(|it| it.is_finite()));
    for (at, low, high) in there {
        let (at, low, high) = (x.place(*at), y.place(*low), y.place(*high));
        let (left, right) = (at - 3.0, at + 3.0);
        let _ = writeln!(
            svg,
            "<path class=\"range\" d=\"M{left:.1} {low:.1}H{right:.1}M{at:.1} {low:.1}V{high:.1}M{left:.1} {high:.1}H{right:.1}\" \
             style=\"stroke:{}\"/>",
            line.colour
        );
    }
}

/// The most points of a curve at which each has a dot.
const DOTS_MAX: usize = 40;

fn curve(svg: &mut String, line: &Line, x: &Scale, y: &Scale) {
    let points: Vec<(f64, Option<f64>)> = line.drawn().collect();
    let dots = points.len() <= DOTS_MAX;
    let mut path = String::new();
    for piece in points.split(|(_, value)| value.is_none()) {
        let places = piece.iter().filter_map(|(at, value)| Some((x.place(*at), y.place((*value)?))));
        for (at, (left, top)) in places.enumerate() {
            // Between two gaps a line would have no length: often it is the very one that matters.
            if dots || piece.len() == 1 {
                let _ = writeln!(
                    svg,
                    "<circle cx=\"{left:.1}\" cy=\"{top:.1}\" r=\"3\" style=\"fill:{}\"/>",
                    line.colour
                );
            }
            let _ = write!(path, "{}{left:.1} {top:.1}", if at == 0 { 'M' } else { 'L' });
        }
    }
    let _ = writeln!(svg, "<path class=\"curve\" d=\"{path}\" style=\"stroke:{}\"/>", line.colour);
}
