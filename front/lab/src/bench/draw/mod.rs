//! What benchmarks draw: pages with charts, tables, and the facts without which figures mean nothing. A page is one file that loads nothing
//! and runs nothing.
//!
//! Files: `scale` (axes, colours, sizes), `chart` (curves), `rows` (points beside each other), `page` (the HTML around them), `file` (where
//! a page is written). Tests: `tests.rs`.

mod chart;
mod file;
mod page;
mod rows;
mod scale;
#[cfg(test)]
mod tests;

pub(super) use chart::{Chart, Line};
pub(super) use file::PageFile;
pub(super) use page::{Made, Page, Table, about_machine};
pub(super) use rows::{Mark, Row, Rows};
pub(super) use scale::{colour, number};

use scale::{Size, escape};

/// The numbers of a drawing, for its table.
pub(super) struct Numbers {
    head: Vec<String>,
    rows: Vec<Vec<String>>,
}

/// The beginning of a drawing: its size, and what it is for those who do not see it.
fn begin(size: Size, height: f64, id: usize, title: &str, words: &str) -> String {
    let Size { class, width, .. } = size;
    format!(
        "<svg class=\"{class}\" viewBox=\"0 0 {width} {height:.0}\" role=\"img\" aria-labelledby=\"{class}-title-{id} {class}-desc-{id}\">\n\
         <title id=\"{class}-title-{id}\">{}</title>\n<desc id=\"{class}-desc-{id}\">{}</desc>\n",
        escape(title),
        escape(words)
    )
}

/// A drawing without any value: it says so.
fn nothing(size: Size, id: usize, title: &str) -> String {
    let words = "Nothing to draw: no value was measured.";
    format!("{}<text x=\"10\" y=\"22\">{words}</text>\n</svg>\n", begin(size, 34.0, id, title, words))
}
