//! The result as Markdown, and its place in a file.

use super::peers::PeerRow;
use super::result::{Document, Earlier, Row};
use crate::bench::median::Median;
use quorate_command::print::amount;

/// The lines in a file between which the table stands.
const BEGIN: &str = "<!-- begin: quorate bench table -->";
const END: &str = "<!-- end -->";

/// The whole text: what was measured where, the table, and the one of other programs.
pub(super) fn table(document: &Document, earlier: Option<&Earlier>) -> String {
    let mut lines = vec![head(document), String::new()];
    lines.push("| line | ours | floor | ratio | per CPU second | p50, times the floor's |".into());
    lines.push("| --- | --- | --- | --- | --- | --- |".into());
    lines.extend(document.lines.iter().map(|row| line(row, earlier.and_then(|it| it.line(&row.line)))));
    let failed = document.lines.iter().filter_map(|row| Some((&row.line, row.failed.as_ref()?)));
    let failed: Vec<String> =
        failed.map(|(line, why)| format!("- {line} is NOT VALID: {}", safe(why))).collect();
    if !failed.is_empty() {
        lines.push(String::new());
        lines.extend(failed);
    }
    if !document.peers.is_empty() {
        lines.extend(["", "Beside other programs, in the same rounds:", ""].map(String::from));
        lines.push("| program | what | per second | per CPU second | p50 us | p99 us |".into());
        lines.push("| --- | --- | --- | --- | --- | --- |".into());
        let before = |row: &PeerRow| earlier.and_then(|it| it.peer(&row.peer, &row.name)).cloned();
        lines.extend(document.peers.iter().map(|row| peer(row, before(row).as_ref())));
    }
    lines.join("\n")
}

fn head(document: &Document) -> String {
    let Document { version, rounds, seconds, machine, .. } = document;
    let confidence = document.lines.iter().find_map(|row| row.ours).map_or(0.0, |median| median.confidence);
    format!(
        "`quorate bench table`, version {version}, on {}, {} cores, {} GiB, {}, logs on {}, load average before: {}. Medians of\n\
         {rounds} rounds of {seconds} s, in brackets bounds that hold with a confidence of {confidence:.1} %; ratios are taken within a \
         round. \"per CPU second\"\ncounts the processor time of all replicas together and not the load generator's.",
        safe(&machine.cpu),
        machine.cores,
        machine.memory_gib,
        machine.kernel,
        machine.file_system,
        machine.load_average
    )
}

/// One line of the table.
fn line(row: &Row, before: Option<&Row>) -> String {
    let of = |of: fn(&Row) -> Option<Median>| (of(row), before.and_then(of));
    let ratio = |value: f64| format!("{value:.3}");
    let percent = |value: f64| format!("{value:.2} %");
    let is_rate = row.floor.is_some();
    let unit = if is_rate { format!(" {}/s", row.unit) } else { format!(" {}", row.unit) };
    let ours = cell_of(of(|row| row.ours), &unit, amount);
    let cpu = match row.idle_leader_percent {
        Some(_) => format!(
            "leader {}, others {} of a core",
            cell(of(|row| row.idle_leader_percent), percent),
            cell(of(|row| row.idle_other_percent), percent)
        ),
        None => cell(of(|row| row.per_cpu_s), amount),
    };
    format!(
        "| `{}` | {ours} | {} | {} | {cpu} | {} |",
        row.command,
        row.floor.map_or("-".into(), |floor| format!("{}/s", amount(floor.median))),
        cell(of(|row| row.ratio), ratio),
        cell(of(|row| row.p50_ratio), |value| format!("{value:.2}"))
    )
}

/// One line of the table of other programs.
fn peer(row: &PeerRow, before: Option<&PeerRow>) -> String {
    if let Some(why) = &row.failed {
        return format!("| {} | {} | - | - | - | - |", safe(&row.peer), safe(why));
    }
    let of = |of: fn(&PeerRow) -> Option<Median>| (of(row), before.and_then(of));
    let us = |value: f64| format!("{value:.0}");
    format!(
        "| {} | {} | {} | {} | {} | {} |",
        safe(&row.peer),
        safe(&row.name),
        cell(of(|row| row.per_s), amount),
        cell(of(|row| row.per_cpu_s), amount),
        cell(of(|row| row.p50_us), us),
        cell(of(|row| row.p99_us), us)
    )
}

/// A median with its bounds, and beside it the one before and the change.
fn cell(medians: (Option<Median>, Option<Median>), show: impl Fn(f64) -> String) -> String {
    cell_of(medians, "", show)
}

/// The same with a unit.
fn cell_of(
    (now, before): (Option<Median>, Option<Median>),
    unit: &str,
    show: impl Fn(f64) -> String,
) -> String {
    match (now, before) {
        (None, _) => "-".into(),
        (Some(now), None) => format!("{}{unit}", now.text(&show)),
        (Some(now), Some(before)) if before.median > 0.0 => {
            let change = (now.median / before.median - 1.0) * 100.0;
            format!("{}{unit}, was {}, {change:+.1} %", now.text(&show), show(before.median))
        }
        (Some(now), Some(before)) => format!("{}{unit}, was {}", now.text(&show), show(before.median)),
    }
}

/// Text of others, which must not end the cell or the table.
fn safe(text: &str) -> String {
    let text: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    text.replace('|', "\\|").replace('<', "&lt;")
}

/// The text of a file with this table between the two marks.
pub(super) fn placed(text: &str, table: &str) -> Result<String, String> {
    let lacks = || format!("it needs the line {BEGIN} once, and after it {END}: the table goes between them");
    let (before, rest) = text.split_once(BEGIN).ok_or_else(lacks)?;
    let (old, after) = rest.split_once(END).ok_or_else(lacks)?;
    if old.contains(BEGIN) || after.contains(BEGIN) {
        return Err(lacks());
    }
    Ok(format!("{before}{BEGIN}\n{table}\n{END}{after}"))
}
