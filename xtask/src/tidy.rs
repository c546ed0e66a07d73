//! Checks of the source itself. Each check is a file under `tidy/`, a function from the repository's text to
//! problems; its tests are small made-up repositories.

mod book;
mod citations;
mod deps;
mod headers;
mod invariants;
mod lengths;
mod markdown;
mod models;
mod parts;
mod paths;
mod published;
mod references;
mod repo;
mod rooms;
mod rust;
mod scripts;
mod subjects;
mod words;

use repo::Repo;
use std::path::Path;

/// What the checks found.
#[derive(Default)]
pub(crate) struct Findings {
    problems: Vec<String>,
    /// Checks that had nothing to check yet.
    notes: Vec<String>,
}

impl Findings {
    /// Adds a problem in line `line` (from 1) of the file `path`.
    fn at(&mut self, path: &str, line: usize, what: impl AsRef<str>) {
        self.problems.push(format!("{path}:{line}: {}", what.as_ref()));
    }

    /// Adds a problem of a whole file, or of a missing file.
    fn file(&mut self, path: &str, what: impl AsRef<str>) {
        self.problems.push(format!("{path}: {}", what.as_ref()));
    }

    fn note(&mut self, what: impl Into<String>) {
        self.notes.push(what.into());
    }
}

type Check = fn(&Repo, &mut Findings);

/// Checks of text. The checks `deps` and `published` ask cargo, too, and `subjects` git.
const CHECKS: [(&str, Check); 13] = [
    ("paths", paths::check),
    ("lengths", lengths::check),
    ("words", words::check),
    ("invariants", invariants::check),
    ("citations", citations::check),
    ("references", references::check),
    ("headers", headers::check),
    ("scripts", scripts::check),
    ("protocols", deps::check_protocols),
    ("models", models::check),
    ("parts", parts::check),
    ("rooms", rooms::check),
    ("book", book::check),
];

pub(crate) fn run(root: &Path) -> Result<(), String> {
    let repo = Repo::read(root).map_err(|e| format!("tidy: {}: {e}", root.display()))?;
    let metadata = crate::commands::metadata(root)?;
    let packages = deps::packages(root, &metadata)?;
    let mut failed = 0;
    let mut report = |name: &str, findings: Findings| {
        for note in &findings.notes {
            println!("tidy {name}: note: {note}");
        }
        for problem in &findings.problems {
            println!("tidy {name}: {problem}");
        }
        failed += findings.problems.len();
    };
    for (name, check) in CHECKS {
        let mut findings = Findings::default();
        check(&repo, &mut findings);
        report(name, findings);
    }
    let mut findings = Findings::default();
    deps::check(&packages, &mut findings);
    report("deps", findings);
    let mut findings = Findings::default();
    published::check(root, &metadata, &repo, &mut findings);
    report("published", findings);
    let mut findings = Findings::default();
    subjects::check(root, &mut findings);
    report("subjects", findings);
    if failed == 0 {
        println!("tidy: {} checks, no problem", CHECKS.len() + 3);
        Ok(())
    } else {
        Err(format!("tidy: {failed} problems"))
    }
}

#[cfg(test)]
mod tests;
