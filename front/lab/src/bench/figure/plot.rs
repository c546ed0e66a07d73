//! Line charts as SVG: several curves over time, a legend, an axis with units, linear or logarithmic, and bars below the curves that mark
//! times.

use std::fmt::Write as _;

/// Colours that people with colour blindness can tell apart; dark enough for thin lines on white.
const COLOURS: [&str; 7] = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#b58900", "#56b4e9", "#444444"];

/// The colour of a curve by its number, also in legends and tables.
pub(super) fn colour(number: usize) -> &'static str {
    COLOURS[number % COLOURS.len()]
}

/// A curve. It has a gap where there is no value.
pub(super) struct Line {
    pub(super) name: String,
    pub(super) colour: &'static str,
    pub(super) points: Vec<(f64, Option<f64>)>,
    /// Spans of time that are marked by bars in the curve's colour.
    pub(super) bars: Vec<(f64, f64)>,
    /// Where along the x axis, the lowest and the highest value that was measured there.
    pub(super) ranges: Vec<(f64, f64, f64)>,
}

/// A chart.
pub(super) struct Chart {
    pub(super) title: String,
    pub(super) x_label: String,
    pub(super) y_label: String,
    pub(super) logarithmic: bool,
    /// The end of the time axis.
    pub(super) x_most: f64,
    pub(super) lines: Vec<Line>,
    /// The meaning of the bars; `None`: there are none.
    pub(super) bars_label: Option<String>,
}

const WIDTH: f64 = 920.0;
const LEFT: f64 = 78.0;
const RIGHT: f64 = 14.0;
const TOP: f64 = 54.0;
const PLOT: f64 = 260.0;
const BAR: f64 = 9.0;

/// Maps values to positions.
struct Scale {
    from: f64,
    to: f64,
    logarithmic: bool,
    at: f64,
    length: f64,
}

impl Scale {
    fn place(&self, value: f64) -> f64 {
        let share = if self.logarithmic {
            (value.max(self.from) / self.from).ln() / (self.to / self.from).ln()
        } else {
            (value - self.from) / (self.to - self.from)
        };
        self.at + self.length * share.clamp(0.0, 1.0)
    }
}

impl Chart {
    /// The chart as an element of a page.
    pub(super) fn svg(&self) -> String {
        let (x, x_ticks) = self.x();
        let (y, y_ticks) = self.y();
        let rows = if self.bars_label.is_some() { self.lines.len() as f64 } else { 0.0 };
        let bars_top = TOP + PLOT + 8.0;
        let axis = bars_top + rows * BAR + if rows > 0.0 { 6.0 } else { 0.0 };
        let height = axis + 46.0;
        let mut svg = format!(
            "<svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"{}\" font-family=\"sans-serif\" font-size=\"12\" \
             fill=\"#333\">\n<text x=\"{LEFT}\" y=\"16\" font-size=\"15\" font-weight=\"bold\">{}</text>\n",
            escape(&self.title),
            escape(&self.title)
        );
        self.legend(&mut svg);
        self.grid(&mut svg, (&x, &x_ticks), (&y, &y_ticks), axis);
        if let Some(label) = &self.bars_label {
            self.bars(&mut svg, &x, bars_top, label);
        }
        for line in &self.lines {
            ranges(&mut svg, line, &x, &y);
            curve(&mut svg, line, &x, &y);
        }
        svg.push_str("</svg>\n");
        svg
    }

    fn values(&self) -> impl Iterator<Item = f64> {
        let points = self.lines.iter().flat_map(|line| line.points.iter().filter_map(|(_, value)| *value));
        let ranges =
            self.lines.iter().flat_map(|line| line.ranges.iter().flat_map(|(_, low, high)| [*low, *high]));
        points.chain(ranges).filter(|value| value.is_finite())
    }

    fn x(&self) -> (Scale, Vec<f64>) {
        let most = self.x_most.max(1e-3);
        let ticks = linear_ticks(most).into_iter().filter(|tick| *tick <= most * 1.0001).collect();
        (Scale { from: 0.0, to: most, logarithmic: false, at: LEFT, length: WIDTH - LEFT - RIGHT }, ticks)
    }

    fn y(&self) -> (Scale, Vec<f64>) {
        // From the bottom up, in places that grow downwards.
        let scale =
            |from, to| Scale { from, to, logarithmic: self.logarithmic, at: TOP + PLOT, length: -PLOT };
        let most = self.values().fold(0.0_f64, f64::max);
        if self.logarithmic {
            let least = self.values().filter(|value| *value > 0.0).fold(f64::INFINITY, f64::min);
            let ticks = logarithmic_ticks(least, most);
            let (Some(from), Some(to)) = (ticks.first(), ticks.last()) else {
                return (scale(1.0, 10.0), vec![]);
            };
            return (scale(*from, *to), ticks);
        }
        let ticks = linear_ticks(most.max(1e-3));
        (scale(0.0, ticks.last().copied().unwrap_or(1.0)), ticks)
    }

    fn legend(&self, svg: &mut String) {
        let mut at = LEFT;
        for line in &self.lines {
            let _ = writeln!(
                svg,
                "<rect x=\"{at}\" y=\"27\" width=\"14\" height=\"4\" fill=\"{}\"/><text x=\"{}\" y=\"33\">{}</text>",
                line.colour,
                at + 19.0,
                escape(&line.name)
            );
            at += 19.0 + 7.2 * line.name.chars().count() as f64 + 18.0;
        }
    }

    fn grid(&self, svg: &mut String, x: (&Scale, &[f64]), y: (&Scale, &[f64]), axis: f64) {
        let right = WIDTH - RIGHT;
        for tick in y.1 {
            let place = y.0.place(*tick);
            let _ = writeln!(
                svg,
                "<line x1=\"{LEFT}\" x2=\"{right}\" y1=\"{place:.1}\" y2=\"{place:.1}\" stroke=\"#ddd\"/><text x=\"{}\" \
                 y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                LEFT - 6.0,
                place + 4.0,
                label(*tick)
            );
        }
        for tick in x.1 {
            let place = x.0.place(*tick);
            let _ = writeln!(
                svg,
                "<line x1=\"{place:.1}\" x2=\"{place:.1}\" y1=\"{TOP}\" y2=\"{}\" stroke=\"#eee\"/><text x=\"{place:.1}\" \
                 y=\"{}\" text-anchor=\"middle\">{}</text>",
                TOP + PLOT,
                axis + 14.0,
                label(*tick)
            );
        }
        let middle = (TOP + TOP + PLOT) / 2.0;
        let _ = writeln!(
            svg,
            "<rect x=\"{LEFT}\" y=\"{TOP}\" width=\"{}\" height=\"{PLOT}\" fill=\"none\" stroke=\"#999\"/>\n<text x=\"{}\" \
             y=\"{}\" text-anchor=\"middle\">{}</text>\n<text transform=\"translate(14 {middle}) rotate(-90)\" \
             text-anchor=\"middle\">{}</text>",
            right - LEFT,
            (LEFT + right) / 2.0,
            axis + 34.0,
            escape(&self.x_label),
            escape(&self.y_label)
        );
    }

    fn bars(&self, svg: &mut String, x: &Scale, top: f64, what: &str) {
        let _ = writeln!(
            svg,
            "<text x=\"{}\" y=\"{}\" text-anchor=\"end\" font-size=\"10\">{}</text>",
            LEFT - 6.0,
            top + 9.0,
            escape(what)
        );
        for (row, line) in self.lines.iter().enumerate() {
            let y = top + row as f64 * BAR;
            for (from, to) in &line.bars {
                let (from, to) = (x.place(*from), x.place(*to));
                // One that is too short to be seen is seen all the same.
                let width = (to - from).max(1.5);
                let _ = writeln!(
                    svg,
                    "<rect x=\"{from:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{}\" fill=\"{}\" opacity=\"0.75\"/>",
                    BAR - 2.0,
                    line.colour
                );
            }
        }
    }
}

/// Draws an upright line with two ends for each range.
fn ranges(svg: &mut String, line: &Line, x: &Scale, y: &Scale) {
    let there = line.ranges.iter().filter(|(_, low, high)| low.is_finite() && high.is_finite());
    for (at, low, high) in there {
        let (at, low, high) = (x.place(*at), y.place(*low), y.place(*high));
        let (left, right) = (at - 3.0, at + 3.0);
        let _ = writeln!(
            svg,
            "<path d=\"M{left:.1} {low:.1}H{right:.1}M{at:.1} {low:.1}V{high:.1}M{left:.1} {high:.1}H{right:.1}\" fill=\"none\" \
             stroke=\"{}\" opacity=\"0.6\"/>",
            line.colour
        );
    }
}

fn curve(svg: &mut String, line: &Line, x: &Scale, y: &Scale) {
    let there = |(_, value): &(f64, Option<f64>)| value.is_some_and(f64::is_finite);
    let mut path = String::new();
    for piece in line.points.split(|point| !there(point)) {
        let mut places = piece.iter().filter_map(|(at, value)| Some((x.place(*at), y.place((*value)?))));
        let Some((left, top)) = places.next() else { continue };
        if piece.len() == 1 {
            // Between two gaps, where a line would have no length: often the very one that matters.
            let _ = writeln!(
                svg,
                "<circle cx=\"{left:.1}\" cy=\"{top:.1}\" r=\"2.5\" fill=\"{}\"/>",
                line.colour
            );
            continue;
        }
        let _ = write!(path, "M{left:.1} {top:.1}");
        for (left, top) in places {
            let _ = write!(path, "L{left:.1} {top:.1}");
        }
    }
    let _ = writeln!(
        svg,
        "<path d=\"{path}\" fill=\"none\" stroke=\"{}\" stroke-width=\"1.4\" stroke-linejoin=\"round\" stroke-linecap=\"round\"/>",
        line.colour
    );
}

/// Four to eight round numbers from 0 on; the last is not below `most`.
pub(super) fn linear_ticks(most: f64) -> Vec<f64> {
    let rough = most / 6.0;
    let decade = 10_f64.powf(rough.log10().floor());
    let step =
        [1.0, 2.0, 2.5, 5.0, 10.0].map(|factor| factor * decade).into_iter().find(|step| *step >= rough);
    let step = step.unwrap_or(decade * 10.0);
    let count = (most / step - 1e-9).ceil().max(1.0) as usize;
    (0..=count).map(|number| number as f64 * step).collect()
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
    // Binary fractions have no business at an axis.
    let text = format!("{scaled:.4}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    format!("{text}{letter}")
}

/// Text that is safe inside a page.
pub(super) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            c => out.push(c),
        }
    }
    out
}
