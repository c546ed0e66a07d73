//! Helpers for the checks' tests.

use super::{Check, Findings, Repo};

/// The problems that `check` finds in a made-up repository.
pub(super) fn problems(check: Check, files: &[(&str, &str)]) -> Vec<String> {
    findings(check, files).problems
}

/// All that `check` finds in a made-up repository.
pub(super) fn findings(check: Check, files: &[(&str, &str)]) -> Findings {
    let mut findings = Findings::default();
    check(&Repo::of(files), &mut findings);
    findings
}

/// Exactly one problem, which mentions `what`.
#[track_caller]
pub(super) fn one(found: &[String], what: &str) {
    assert!(found.len() == 1 && found[0].contains(what), "wanted one problem with {what:?}: {found:#?}");
}
