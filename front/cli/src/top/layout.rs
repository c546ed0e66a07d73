//! The screen: a pure function from two looks and a size to lines. Whatever there is no room for is left out, the least important first.

use super::line::{Line, Style, ranges, width, wrapped};
use super::look::{Found, Known, Look};
use super::rates::{Called, Led, Rates};
use super::table::{self, Sort, UNKNOWN, rate};
use crate::problems::Problem;
use std::collections::BTreeMap;
use std::time::Duration;

/// The room that there is, in columns and lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Size {
    pub(super) columns: usize,
    pub(super) lines: usize,
}

impl Size {
    /// For output that nobody scrolls: everything is printed.
    pub(super) const WITHOUT_END: Self = Self { columns: 1000, lines: usize::MAX };
}

/// What the reader chose.
#[derive(Clone, Debug, Default)]
pub(super) struct View {
    pub(super) sort: Sort,
    /// How many rows of the table are above the screen.
    pub(super) above: usize,
    pub(super) paused: bool,
    pub(super) help: bool,
    /// Whether keys do something.
    pub(super) keys: bool,
    /// How old the look is, if it is older than it should be.
    pub(super) age: Option<Duration>,
}

/// The screen as it is after `now`.
pub(super) fn screen(before: Option<&Look>, now: &Look, view: &View, size: Size) -> Vec<Line> {
    let rates = Rates::between(before, now);
    let mut lines = head(now, &rates, view, size.columns);
    // On a screen with few lines the rest is worth more.
    lines.truncate((size.lines / 3).max(2));
    match &now.found {
        _ if view.help => lines.extend(help(size.columns)),
        Err(why) => {
            lines.push(Line::default());
            let text = why.lines().flat_map(|line| wrapped(line, size.columns));
            lines.extend(text.map(|line| Line::of(Style::Bad, &line)));
        }
        Ok(found) => {
            let left = size.lines.saturating_sub(lines.len());
            lines.extend(body(found, &rates, view, Size { lines: left, ..size }));
        }
    }
    lines.truncate(size.lines);
    lines.into_iter().map(|line| line.fit(size.columns)).collect()
}

/// What stands between two facts of the head.
const BETWEEN: &str = "  ";

/// Facts in as many lines as they need; none is cut in two.
fn facts(facts: &[(Style, String)], columns: usize) -> Vec<Line> {
    let mut lines = vec![Line::default()];
    for (style, text) in facts.iter().filter(|(_, text)| !text.is_empty()) {
        let taken = lines.last().map_or(0, Line::width);
        if taken > 0 && taken + BETWEEN.len() + width(text) > columns {
            lines.push(Line::default());
        }
        let Some(line) = lines.last_mut() else { continue };
        if line.width() > 0 {
            line.push(Style::Plain, BETWEEN);
        }
        line.push(*style, text);
    }
    lines
}

fn head(now: &Look, rates: &Rates<'_>, view: &View, columns: usize) -> Vec<Line> {
    let mut first = Vec::new();
    if let Ok(found) = &now.found {
        let short: String = found.cluster.chars().take(8).collect();
        let (all, there) = (found.replicas.len(), rates.answered());
        let style = if there < all { Style::Bad } else { Style::Plain };
        first.push((Style::Bold, format!("cluster {short}")));
        first.push((Style::Plain, format!("{} faults", found.model)));
        first.push((style, format!("{there} of {all} replicas answer")));
    } else {
        first.push((Style::Bold, "no cluster".to_owned()));
    }
    first.push((Style::Dim, clock(now.time_ms)));
    if view.keys && !view.help {
        first.push((Style::Dim, "h: help".to_owned()));
    }
    let mut lines = facts(&first, columns);
    if let Ok(found) = &now.found {
        let (load, times) = (load(rates), times(found, rates));
        // The lines below stay where they are while these texts change.
        match columns < ONE_LINE {
            true => lines.extend([load, times].iter().flat_map(|part| facts(part, columns))),
            false => lines.extend(facts(&[load, times].concat(), columns)),
        }
    }
    let mut notes = Vec::new();
    if view.paused {
        notes.push((Style::Warn, "PAUSED: p goes on".to_owned()));
    }
    if let Some(age) = view.age {
        notes.push((Style::Warn, format!("the last look is {} s old", age.as_secs())));
    }
    if view.sort != Sort::Id {
        notes.push((Style::Dim, format!("sorted by {}", view.sort.column())));
    }
    if !notes.is_empty() {
        lines.extend(facts(&notes, columns));
    }
    lines
}

/// A screen that is so wide has the whole state of the cluster in one line.
const ONE_LINE: usize = 125;

/// Who leads, and how much the cluster does.
fn load(rates: &Rates<'_>) -> Vec<(Style, String)> {
    vec![
        who_leads(&rates.instances),
        (Style::Plain, format!("{} requests/s", rate(rates.requests))),
        (Style::Plain, format!("{} reads/s", rate(rates.reads))),
    ]
}

/// How long ordering takes, and how many problems there are.
fn times(found: &Found, rates: &Rates<'_>) -> Vec<(Style, String)> {
    let percentile = |of| rates.ordered.percentile(of).map_or(UNKNOWN.to_owned(), |bound| bound.shown());
    let problems = match found.problems.len() {
        0 => (Style::Plain, "no problems".to_owned()),
        1 => (Style::Warn, "1 problem".to_owned()),
        many => (Style::Warn, format!("{many} problems")),
    };
    vec![(Style::Plain, format!("ordering p50 {}, p99 {}", percentile(50), percentile(99))), problems]
}

fn who_leads(instances: &[Led]) -> (Style, String) {
    let mut leaders: Vec<u16> =
        instances.iter().filter(|led| led.is_there).filter_map(|led| led.leader).collect();
    leaders.sort_unstable();
    leaders.dedup();
    let (least, most) =
        instances.iter().fold((u64::MAX, 0), |(least, most), led| (led.view.min(least), led.view.max(most)));
    let views = match least {
        u64::MAX => String::new(),
        _ if least == most => format!(", view {most}"),
        _ => format!(", views {least} to {most}"),
    };
    match leaders.as_slice() {
        [] => (Style::Bad, format!("nobody leads{views}")),
        [one] => (Style::Plain, format!("leader {one}{views}")),
        many => (Style::Plain, format!("leaders {}{views}", ranges(many))),
    }
}

/// The time of day, in UTC: what a replica logs can be found by it.
fn clock(time_ms: u64) -> String {
    let seconds = time_ms / 1000 % 86_400;
    format!("{:02}:{:02}:{:02} UTC", seconds / 3600, seconds / 60 % 60, seconds % 60)
}

/// A part of the screen below the head. It begins with an empty line.
struct Part {
    lines: Vec<Line>,
    /// Fewer lines than these say nothing.
    least: usize,
    /// What is said instead of the lines that there is no room for.
    more: fn(usize) -> String,
}

fn body(found: &Found, rates: &Rates<'_>, view: &View, size: Size) -> Vec<Line> {
    let (head, rows) = table::lines(rates, view.sort, size.columns);
    let above = view.above.min(rows.len().saturating_sub(1));
    let mut table = vec![head];
    table.extend(rows.into_iter().skip(above));
    let more_rows = match view.keys {
        true => |rest| format!("... and {rest} more replicas (Down shows them)"),
        false => |rest| format!("... and {rest} more replicas"),
    };
    let more = |rest| format!("... and {rest} more lines");
    let parts = [
        Part { lines: table, least: 3, more: more_rows },
        Part { lines: problems(&found.problems, size.columns), least: 3, more },
        Part { lines: instances(&rates.instances, size.columns), least: 3, more },
        Part { lines: calls(&rates.calls, size.columns), least: 3, more },
    ];
    let [table, problems, instances, calls] = rooms(&parts, size.lines);
    let [first, last, second, third] = parts;
    [(first, table), (second, instances), (third, calls), (last, problems)]
        .into_iter()
        .flat_map(|(part, room)| part.within(room))
        .collect()
}

/// How many lines each part gets: first what it needs at least, in this order, then as much as there is.
fn rooms(parts: &[Part; 4], lines: usize) -> [usize; 4] {
    let whole = |part: &Part| if part.lines.is_empty() { 0 } else { part.lines.len() + 1 };
    let mut left = lines;
    let mut rooms = [0; 4];
    for (room, part) in rooms.iter_mut().zip(parts) {
        *room = whole(part).min(part.least + 1).min(left);
        // An empty line alone is nothing.
        *room = if *room < 2 { 0 } else { *room };
        left -= *room;
    }
    for (room, part) in rooms.iter_mut().zip(parts) {
        let more = if *room == 0 && left < 2 { 0 } else { (whole(part) - *room).min(left) };
        *room += more;
        left -= more;
    }
    rooms
}

impl Part {
    fn within(mut self, room: usize) -> Vec<Line> {
        let Some(room) = room.checked_sub(1).filter(|room| *room > 0) else { return Vec::new() };
        if self.lines.len() > room {
            let rest = self.lines.len() - room + 1;
            self.lines.truncate(room - 1);
            self.lines.push(Line::of(Style::Dim, &(self.more)(rest)));
        }
        self.lines.insert(0, Line::default());
        self.lines
    }
}

/// Which replica leads which instances, where there are several.
fn instances(instances: &[Led], columns: usize) -> Vec<Line> {
    if instances.len() < 2 {
        return Vec::new();
    }
    let mut led: BTreeMap<Option<u16>, Vec<u16>> = BTreeMap::new();
    for one in instances {
        led.entry(one.leader.filter(|_| one.is_there)).or_default().push(one.instance);
    }
    let mut shown = vec![(Style::Dim, format!("{} instances:", instances.len()))];
    // Those that nobody leads come first.
    shown.extend(led.iter().map(|(leader, instances)| match leader {
        None => (Style::Bad, format!("nobody leads {}", ranges(instances))),
        Some(leader) => (Style::Plain, format!("r{leader} leads {}", ranges(instances))),
    }));
    facts(&shown, columns)
}

/// The calls of the fronts' clients: several blocks beside each other, where there is room.
fn calls(calls: &[Called], columns: usize) -> Vec<Line> {
    if calls.is_empty() {
        return Vec::new();
    }
    let percentile =
        |call: &Called, of| call.took.percentile(of).map_or(UNKNOWN.to_owned(), |bound| bound.shown());
    let cells = |call: &Called| {
        let name = format!("{} {}", call.front, call.name);
        let rates = [rate(Some(call.per_s)), rate(call.failed_per_s)];
        let [all, failed] = rates;
        [name, all, failed, percentile(call, 50), percentile(call, 99)]
    };
    let rows: Vec<[String; 5]> = calls.iter().map(cells).collect();
    let head = ["call", "calls/s", "failed/s", "p50", "p99"].map(str::to_owned);
    let mut widths = [0; 5];
    for row in rows.iter().chain([&head]) {
        widths.iter_mut().zip(row).for_each(|(most, cell)| *most = width(cell).max(*most));
    }
    let block = |row: &[String; 5]| {
        let [name, rest @ ..] = row;
        let mut text = format!("{name}{}", " ".repeat(widths[0] - width(name)));
        for (cell, most) in rest.iter().zip(&widths[1..]) {
            text += &format!("{}{cell}", " ".repeat(2 + most - width(cell)));
        }
        text
    };
    const APART: usize = 4;
    let whole = widths.iter().sum::<usize>() + 2 * 4;
    let beside = ((columns + APART) / (whole + APART)).clamp(1, rows.len());
    let tall = rows.len().div_ceil(beside);
    let beside = rows.len().div_ceil(tall);
    let mut lines = vec![Line::default(); tall + 1];
    for column in 0..beside {
        for (at, line) in lines.iter_mut().enumerate() {
            line.pad(column * (whole + APART));
            match at {
                0 => line.push(Style::Head, &block(&head)),
                at => rows
                    .get(column * tall + at - 1)
                    .into_iter()
                    .for_each(|row| line.push(Style::Plain, &block(row))),
            }
        }
    }
    lines
}

/// How wide the ages of problems are.
const AGE: usize = 5;

/// The problems, the newest first; what several replicas say alike is said once.
fn problems(problems: &[Known], columns: usize) -> Vec<Line> {
    let mut said: Vec<(&str, Vec<u16>, &Known)> = Vec::new();
    for known in problems {
        match &known.problem {
            Problem::Said { replica, text } => {
                match said.iter_mut().find(|(other, by, _)| !by.is_empty() && other == text) {
                    Some((_, by, _)) => by.push(*replica),
                    None => said.push((text, vec![*replica], known)),
                }
            }
            Problem::Away { .. } | Problem::Whole(_) => said.push(("", Vec::new(), known)),
        }
    }
    if said.is_empty() {
        return Vec::new();
    }
    let mut lines = vec![Line::of(Style::Head, "for    problem and what to do, the newest first")];
    for (text, mut by, known) in said {
        by.sort_unstable();
        let text = match by.as_slice() {
            [] | [_] => known.problem.to_string(),
            many => format!("replicas {}: {text}", ranges(many)),
        };
        for (at, line) in wrapped(&text, columns.saturating_sub(AGE + 2)).iter().enumerate() {
            let age = if at == 0 { age(known.seconds) } else { String::new() };
            let mut shown = Line::of(Style::Dim, &format!("{age:<AGE$}  "));
            shown.push(Style::Warn, line);
            lines.push(shown);
        }
    }
    lines
}

/// A time in one word.
fn age(seconds: u64) -> String {
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7200 => format!("{} m", seconds / 60),
        7200..172_800 => format!("{} h", seconds / 3600),
        _ => format!("{} d", seconds / 86_400),
    }
}

const HELP: &[&str] = &[
    "q, Ctrl-C     ends",
    "s             sorts by the next column; the most comes first",
    "p             pauses, and goes on",
    "Down, Up      move the table, where not all replicas fit",
    "h             shows this; any key goes back",
    "",
    "Rates are of the time between two looks. `-`: not known, as after a restart.",
    "ordering: from a leader's proposal of a batch until it is decided and delivered there.",
    "write p99: 99 of 100 writes of the log took at most so long.",
    "lag: what a replica lacks of the leader's log; `checkpoint`: it needs one.",
    "checkpoint: what the replica does for one now, and the seq of it.",
    "cpu: of one core. lanes busy: the share of its time in which each lane worked.",
    "waiting: bytes of requests that are admitted and not decided.",
    "p50 and p99 are bounds: replicas count in buckets that double.",
];

fn help(columns: usize) -> Vec<Line> {
    let mut lines = vec![Line::default()];
    for text in HELP {
        // Where a line is too long for the screen, its parts stay together.
        let (short, indented) = (width(text) <= columns, text.contains("   "));
        let parts = if short || indented { vec![(*text).to_owned()] } else { wrapped(text, columns) };
        lines.extend(parts.iter().map(|part| Line::of(Style::Plain, part)));
    }
    lines
}
