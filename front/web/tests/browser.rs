//! The page in a real browser, without a window: what it shows of recorded clusters, and that nothing that a replica says runs in it.
//!
//! `page-tests/check.mjs` does it; `node page-tests/check.mjs FOLDER` runs all scenarios and leaves pictures. Skipped where there is no
//! Node.js or no Chromium. With `QUORATE_UPDATE=1` the picture in the docs is made anew.

use std::process::{Command, Stdio};

/// Whether a program is there.
fn is_there(program: &str) -> bool {
    let said = Command::new(program).arg("--version").stdin(Stdio::null()).output();
    said.is_ok_and(|said| said.status.success())
}

#[test]
fn the_page_shows_what_there_is_and_runs_nothing_else() {
    for program in ["node", "chromium"] {
        if !is_there(program) {
            return quorate_skipped::skipped(format!("there is no {program}"));
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/page-tests/check.mjs");
    let update = std::env::var_os("QUORATE_UPDATE").is_some();
    let scenarios: &[&str] =
        if update { &["healthy", "hostile", "killed"] } else { &["healthy", "hostile", "full"] };
    let ran = Command::new("node").arg(script).arg(folder.path()).args(scenarios).output().unwrap();
    let said = String::from_utf8_lossy(&ran.stdout).into_owned() + &String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "{said}");
    let pictures = std::fs::read_dir(folder.path()).unwrap().count();
    assert!(pictures >= 8, "two scenarios, two widths, light and dark: {pictures}\n{said}");
    if update {
        let docs = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/operations/dashboard.png");
        std::fs::copy(folder.path().join("killed-1400-light.png"), docs).unwrap();
    }
}
