//! Where a benchmark's result goes: to standard output as text or JSON, and into a page if `--plot` names one.

use super::draw::{Made, Page, PageFile};
use quorate_command::failure::Outcome;
use quorate_command::print;
use serde::Serialize;
use std::path::Path;

/// How the result is wanted.
#[derive(Clone, Debug)]
pub(super) struct Output {
    json: bool,
    plot: Option<PageFile>,
}

impl Output {
    /// Checks before anything is measured that the page can be written.
    ///
    /// # Errors
    /// When it can not.
    pub(super) fn new(json: bool, plot: Option<&Path>) -> Outcome<Self> {
        Ok(Self { json, plot: plot.map(PageFile::check).transpose()? })
    }

    /// Whether programs read the output.
    pub(super) const fn is_json(&self) -> bool {
        self.json
    }

    /// Whether a page is wanted.
    pub(super) const fn draws(&self) -> bool {
        self.plot.is_some()
    }

    /// Prints the result, and draws it.
    pub(super) fn show(
        &self,
        document: &impl Serialize,
        text: impl FnOnce() -> String,
        page: impl FnOnce() -> Page,
    ) -> Outcome<()> {
        print::line(if self.json { print::json(document)? } else { text() })?;
        self.draw(|| page().html(&Made::now()))
    }

    /// Writes the page, if one is wanted.
    pub(super) fn draw(&self, html: impl FnOnce() -> String) -> Outcome<()> {
        let Some(file) = &self.plot else { return Ok(()) };
        file.write(&html())?;
        if !self.json {
            print::line(format!("drawn: {}", file.path().display()))?;
        }
        Ok(())
    }
}
