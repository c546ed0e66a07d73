//! A page: drawings, tables, and facts. It is one file that loads nothing and runs nothing, is light or dark as its reader's system is, and fits a
//! phone.

use super::chart::Chart;
use super::rows::Rows;
use super::scale::escape;
use super::{Numbers, file};
use quorate_command::machine::Machine;
use std::fmt::Write as _;
use std::time::{SystemTime, UNIX_EPOCH};

/// A table: its head, and rows with the colour of their curve.
#[derive(Clone, Debug, Default)]
pub(in crate::bench) struct Table {
    pub(in crate::bench) head: Vec<String>,
    pub(in crate::bench) rows: Vec<(&'static str, Vec<String>)>,
}

/// Everything that stands on a page.
#[derive(Clone, Debug, Default)]
pub(in crate::bench) struct Page {
    pub(in crate::bench) title: String,
    pub(in crate::bench) intro: String,
    pub(in crate::bench) rows: Vec<Rows>,
    pub(in crate::bench) charts: Vec<Chart>,
    pub(in crate::bench) table: Table,
    /// Durability, fault model, load, machine and other facts, each with its name.
    pub(in crate::bench) about: Vec<(&'static str, String)>,
    /// Others, as sentences.
    pub(in crate::bench) facts: Vec<String>,
}

/// Who made a page, and when.
#[derive(Clone, Debug)]
pub(in crate::bench) struct Made {
    /// The command line.
    pub(in crate::bench) command: String,
    pub(in crate::bench) version: &'static str,
    pub(in crate::bench) date: String,
}

impl Made {
    /// By this process, now.
    pub(in crate::bench) fn now() -> Self {
        let words = std::env::args_os().skip(1).map(|word| quoted(&word.to_string_lossy()));
        let command = ["quorate".to_owned()].into_iter().chain(words).collect::<Vec<_>>().join(" ");
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { command, version: env!("CARGO_PKG_VERSION"), date: date(since.as_secs()) }
    }
}

/// A word of a command line as a shell reads it.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=,:+%@".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

/// Seconds since 1970 as a date and a time.
pub(super) fn date(seconds: u64) -> String {
    let (hour, minute) = (seconds % 86_400 / 3600, seconds % 3600 / 60);
    // Days since 1 March of the year 0, so that a leap day is the last of its year.
    let days = seconds / 86_400 + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let in_month = day - (153 * month + 2) / 5 + 1;
    let (year, month) = (era * 400 + year + u64::from(month >= 10), (month + 2) % 12 + 1);
    format!("{year:04}-{month:02}-{in_month:02} {hour:02}:{minute:02} UTC")
}

/// The machine, as facts with names.
pub(in crate::bench) fn about_machine(machine: &Machine) -> Vec<(&'static str, String)> {
    let Machine { cpu, cores, memory_gib, kernel, file_system, load_average, .. } = machine;
    vec![
        ("machine", format!("{cpu}, {cores} cores, {memory_gib} GiB, {kernel}; logs on {file_system}")),
        ("load before", format!("{load_average} processes that ran or waited, on average over a minute")),
    ]
}

const STYLE: &str = "\
:root{color-scheme:light dark;--page:#fff;--text:#1f2328;--soft:#57606a;--line:#d5d9de;--c0:#0072b2;--c1:#d55e00;--c2:#00855f;--c3:#b3578c;\
--c4:#8a6a00;--c5:#6f52b5;--c6:#444}
@media(prefers-color-scheme:dark){:root{--page:#14171c;--text:#e6e8eb;--soft:#a3abb5;--line:#3a414b;--c0:#56b4e9;--c1:#ff8f4a;--c2:#3ccf9f;\
--c3:#e79fca;--c4:#e2bd4f;--c5:#b9a3f5;--c6:#c3c7cc}}
body{font:16px/1.5 system-ui,sans-serif;color:var(--text);background:var(--page);max-width:920px;margin:1.5em auto;padding:0 16px;overflow-wrap:break-word}
h1{font-size:1.5em;line-height:1.25}h2{font-size:1.15em;margin:1.6em 0 .4em}
figure{margin:1.8em 0}figcaption{font-weight:600;margin-bottom:.3em}
svg{width:100%;height:auto;display:block;font:13px system-ui,sans-serif;fill:var(--text)}svg.narrow{display:none}
.grid{stroke:var(--line)}.frame{fill:none;stroke:var(--soft)}.even{stroke:var(--soft);stroke-dasharray:4 3}.bar{opacity:.75}
.range{fill:none;stroke-width:1.5;opacity:.75}.curve{fill:none;stroke-width:1.6;stroke-linejoin:round;stroke-linecap:round}.name{font-weight:600}.name,.value{paint-order:stroke;stroke:var(--page);stroke-width:4px;stroke-linejoin:round}
.legend{list-style:none;display:flex;flex-wrap:wrap;gap:.1em 1.2em;margin:.2em 0 .6em;padding:0;font-size:14px}
.dot{display:inline-block;width:10px;height:10px;margin-right:6px}
.scroll{overflow-x:auto}table{border-collapse:collapse;font-size:14px;font-variant-numeric:tabular-nums}
th,td{padding:.25em .7em;text-align:right;border-bottom:1px solid var(--line);vertical-align:top}td{white-space:nowrap}
th:first-child,td:first-child{text-align:left;padding-left:0}
.about th{white-space:nowrap;font-weight:600}.about td{white-space:normal;text-align:left}
summary{cursor:pointer;color:var(--soft);font-size:14px}.facts{font-size:14px;color:var(--soft);padding-left:1.2em}
@media(max-width:640px){svg.wide{display:none}svg.narrow{display:block}table{font-size:13px}th,td{padding:.25em .45em}.numbers td,.about th{white-space:normal}}
@media print{svg.narrow{display:none}svg.wide{display:block}}";
/// The most numbers of a drawing that are shown before anybody asks for them.
const SHOWN_MAX: usize = 24;

impl Page {
    /// The file's text.
    pub(in crate::bench) fn html(&self, made: &Made) -> String {
        let mut html = format!(
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" \
             content=\"width=device-width, initial-scale=1\">\n{}\n<title>{1}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<main>\n\
             <h1>{1}</h1>\n<p>{2}</p>\n",
            file::MARK,
            escape(&self.title),
            escape(&self.intro)
        );
        for (id, rows) in self.rows.iter().enumerate() {
            drawing(&mut html, &rows.title, &rows.legend(), &rows.svgs(id), &rows.numbers());
        }
        for (id, chart) in (self.rows.len()..).zip(&self.charts) {
            drawing(&mut html, &chart.title, &chart.legend(), &chart.svgs(id), &chart.numbers());
        }
        self.table.write(&mut html);
        self.facts(&mut html, made);
        html.push_str("</main>\n</body>\n</html>\n");
        html
    }

    fn facts(&self, html: &mut String, made: &Made) {
        html.push_str("<h2>What was measured, and where</h2>\n<table class=\"about\">\n");
        let Made { command, version, date } = made;
        let own = [("command", command.clone()), ("version", (*version).into()), ("date", date.clone())];
        for (name, fact) in own.iter().chain(&self.about) {
            let _ =
                writeln!(html, "<tr><th scope=\"row\">{}</th><td>{}</td></tr>", escape(name), escape(fact));
        }
        html.push_str("</table>\n");
        if self.facts.is_empty() {
            return;
        }
        html.push_str("<ul class=\"facts\">\n");
        for fact in &self.facts {
            let _ = writeln!(html, "<li>{}</li>", escape(fact));
        }
        html.push_str("</ul>\n");
    }
}

/// A drawing with its title, legend, and numbers.
fn drawing(html: &mut String, title: &str, legend: &[(&str, &str)], svgs: &str, numbers: &Numbers) {
    let _ = writeln!(html, "<figure>\n<figcaption>{}</figcaption>", escape(title));
    if !legend.is_empty() {
        html.push_str("<ul class=\"legend\">");
        for (name, colour) in legend {
            let _ = write!(
                html,
                "<li><span class=\"dot\" style=\"background:{colour}\"></span>{}</li>",
                escape(name)
            );
        }
        html.push_str("</ul>\n");
    }
    html.push_str(svgs);
    let open = if numbers.rows.len() <= SHOWN_MAX { " open" } else { "" };
    let _ = write!(
        html,
        "<details{open}><summary>The numbers</summary><div class=\"scroll\"><table class=\"numbers\">\n<tr>"
    );
    for cell in &numbers.head {
        let _ = write!(html, "<th scope=\"col\">{}</th>", escape(cell));
    }
    html.push_str("</tr>\n");
    for row in &numbers.rows {
        html.push_str("<tr>");
        for cell in row {
            let _ = write!(html, "<td>{}</td>", escape(cell));
        }
        html.push_str("</tr>\n");
    }
    html.push_str("</table></div></details>\n</figure>\n");
}

impl Table {
    /// The table as HTML; nothing if it has no rows.
    fn write(&self, html: &mut String) {
        if self.rows.is_empty() {
            return;
        }
        html.push_str("<div class=\"scroll\"><table>\n<tr>");
        for cell in &self.head {
            let _ = write!(html, "<th scope=\"col\">{}</th>", escape(cell));
        }
        html.push_str("</tr>\n");
        for (colour, row) in &self.rows {
            html.push_str("<tr>");
            for (at, cell) in row.iter().enumerate() {
                let dot = if at == 0 && !colour.is_empty() {
                    format!("<span class=\"dot\" style=\"background:{colour}\"></span>")
                } else {
                    String::new()
                };
                let _ = write!(html, "<td>{dot}{}</td>", escape(cell));
            }
            html.push_str("</tr>\n");
        }
        html.push_str("</table></div>\n");
    }

    /// The table as text for the terminal.
    pub(in crate::bench) fn text(&self) -> String {
        let rows: Vec<&Vec<String>> =
            std::iter::once(&self.head).chain(self.rows.iter().map(|(_, row)| row)).collect();
        let width = |at: usize| {
            rows.iter().filter_map(|row| row.get(at)).map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let line = |row: &&Vec<String>| {
            let cells = row.iter().enumerate().map(|(at, cell)| match at {
                0 => format!("{cell:<0$}", width(at)),
                _ => format!("{cell:>0$}", width(at)),
            });
            format!("  {}", cells.collect::<Vec<_>>().join("  ").trim_end())
        };
        rows.iter().map(line).collect::<Vec<_>>().join("\n")
    }
}
