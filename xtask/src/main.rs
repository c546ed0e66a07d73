//! Automation of this repository: `cargo xtask <command>`. The gate (`.ci/run`) and people call the same commands.

mod campaign;
mod commands;
mod dependencies;
mod package;
mod tidy;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

const HELP: &str = "cargo xtask <command>

  tidy             check the source itself: paths in the docs, dependency direction, lengths, words, invariants ...
  lint             formatting, and clippy with warnings as errors
  docs             build the documentation with warnings as errors
  book             build the pages of docs/ as a book, with mdBook
  dependencies     licenses, versions and sources of what we borrow, by the rules in deny.toml
  test [args]      cargo test --workspace [args]
  ci               tidy, dependencies, lint, docs: what the gate runs beside the tests
  instructions     what nine kinds of operations cost, beside what was recorded; with --record: records it
  bench            release build, then `quorate bench append`, `kv` and `floor`
  fuzz [seconds]   run each fuzz target so long (default 60)
  campaign [NAME]  long runs by name: seeds, planted bugs, kills, fuzzing; without a name: which there are
  package          what people install: archive, Debian package, image, Helm chart; with --check: without a build, and read back
  sim [count]      release build, then `quorate sim` with so many seeds (default 10000)
  planted          a build with the planted bugs, then the table of how soon the simulator finds each";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let root = root();
    let rest = args.get(1..).unwrap_or_default();
    let done = match args.first().map(String::as_str) {
        Some("tidy") => tidy::run(&root),
        Some("lint") => commands::lint(&root),
        Some("docs") => commands::docs(&root),
        Some("book") => commands::book(&root),
        Some("test") => commands::test(&root, rest),
        Some("ci") => tidy::run(&root)
            .and_then(|()| dependencies::dependencies(&root))
            .and_then(|()| commands::lint(&root))
            .and_then(|()| commands::docs(&root)),
        Some("instructions") => commands::instructions(&root, rest == ["--record"]),
        Some("bench") => commands::bench(&root),
        Some("fuzz") => commands::fuzz(&root, rest.first().map(String::as_str)),
        Some("campaign") => campaign::campaign(&root, rest),
        Some("dependencies") => dependencies::dependencies(&root),
        Some("package") => package::package(&root, rest),
        Some("sim") => commands::sim(&root, rest.first().map(String::as_str)),
        Some("planted") => commands::planted(&root),
        Some("help" | "--help" | "-h") => {
            println!("{HELP}");
            Ok(())
        }
        _ => Err(HELP.into()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}

/// The root of the repository, one folder above this package.
fn root() -> PathBuf {
    let here = std::env::var_os("CARGO_MANIFEST_DIR")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    here.parent().unwrap_or(Path::new(".")).to_path_buf()
}
