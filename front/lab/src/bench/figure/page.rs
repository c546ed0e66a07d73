//! A page with charts, a table, and the facts without which figures mean nothing. It is one file that loads nothing.

use super::plot::{Chart, escape};
use std::fmt::Write as _;

/// A table: its head, and rows with the colour of their curve.
pub(in crate::bench) struct Table {
    pub(in crate::bench) head: Vec<String>,
    pub(in crate::bench) rows: Vec<(&'static str, Vec<String>)>,
}

/// Everything that stands on a page.
pub(super) struct Page {
    pub(super) title: String,
    pub(super) intro: String,
    pub(super) charts: Vec<Chart>,
    pub(super) table: Table,
    /// Durability, fault model, load, machine and other facts.
    pub(super) facts: Vec<String>,
}

const STYLE: &str = "body{font:15px/1.5 sans-serif;color:#222;background:#fff;max-width:960px;margin:2em auto;padding:0 1em}\
svg{width:100%;height:auto;display:block;margin:1.2em 0}table{border-collapse:collapse;font-size:13px}\
th,td{padding:.25em .8em;text-align:right;border-bottom:1px solid #ddd}td{white-space:nowrap}th:first-child,td:first-child{text-align:left}\
ul{font-size:13px;color:#444}.dot{display:inline-block;width:10px;height:10px;margin-right:6px}";

impl Page {
    /// The file's text.
    pub(super) fn html(&self) -> String {
        let mut html = format!(
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" \
             content=\"width=device-width\">\n<title>{0}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<h1>{0}</h1>\n<p>{1}</p>\n",
            escape(&self.title),
            escape(&self.intro)
        );
        self.charts.iter().for_each(|chart| html.push_str(&chart.svg()));
        html.push_str("<table>\n<tr>");
        for cell in &self.table.head {
            let _ = write!(html, "<th>{}</th>", escape(cell));
        }
        html.push_str("</tr>\n");
        for (colour, row) in &self.table.rows {
            html.push_str("<tr>");
            for (at, cell) in row.iter().enumerate() {
                let dot = if at == 0 {
                    format!("<span class=\"dot\" style=\"background:{colour}\"></span>")
                } else {
                    String::new()
                };
                let _ = write!(html, "<td>{dot}{}</td>", escape(cell));
            }
            html.push_str("</tr>\n");
        }
        html.push_str("</table>\n<ul>\n");
        for fact in &self.facts {
            let _ = writeln!(html, "<li>{}</li>", escape(fact));
        }
        html.push_str("</ul>\n</body>\n</html>\n");
        html
    }
}

impl Table {
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
