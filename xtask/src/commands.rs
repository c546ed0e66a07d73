//! The commands that call cargo.

use std::path::{Path, PathBuf};
use std::process::Command;

pub(crate) type Done = Result<(), String>;

pub(crate) fn lint(root: &Path) -> Done {
    cargo(root, &["fmt", "--all", "--check"])?;
    cargo(root, &["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"])
}

pub(crate) fn docs(root: &Path) -> Done {
    let mut command = cargo_command(root, &["doc", "--workspace", "--no-deps"]);
    command.env("RUSTDOCFLAGS", "-D warnings");
    run(command)
}

/// Builds the book of `docs/`, if mdBook is installed.
pub(crate) fn book(root: &Path) -> Done {
    let mut command = Command::new("mdbook");
    command.arg("build").current_dir(root);
    if Command::new("mdbook").arg("--version").output().is_err() {
        return Err("book: mdBook is missing, install it with `cargo install mdbook`".into());
    }
    run(command)?;
    println!("open target/book/index.html");
    Ok(())
}

pub(crate) fn test(root: &Path, more: &[String]) -> Done {
    let args: Vec<&str> =
        ["test", "--workspace"].into_iter().chain(more.iter().map(String::as_str)).collect();
    let file = target_directory(root)?.join("skipped-tests.txt");
    let _ = std::fs::remove_file(&file);
    let mut command = cargo_command(root, &args);
    command.env("QUORATE_SKIPPED", &file);
    let done = run(command);
    eprintln!("{}", skipped(&std::fs::read_to_string(&file).unwrap_or_default(), &file));
    done
}

/// How many tests were skipped, by reason.
fn skipped(lines: &str, file: &Path) -> String {
    let mut reasons = std::collections::BTreeMap::new();
    for why in lines.lines().filter_map(|line| line.splitn(3, ": ").nth(2)) {
        *reasons.entry(why).or_insert(0) += 1;
    }
    let total: u32 = reasons.values().sum();
    if total == 0 {
        return "no test was skipped".into();
    }
    let reasons: Vec<String> =
        reasons.into_iter().map(|(why, count)| format!("\n  {count}: {why}")).collect();
    format!("{total} tests were skipped, see {}:{}", file.display(), reasons.concat())
}

pub(crate) fn bench(root: &Path) -> Done {
    cargo(root, &["build", "--release", "--package", "quorate-cli"])?;
    let program = target_directory(root)?.join("release/quorate");
    // the floor last, so that each figure stands beside it in the output of one run
    for bench in ["append", "kv", "floor"] {
        let mut command = Command::new(&program);
        command.args(["bench", bench]).current_dir(root);
        run(command)?;
    }
    Ok(())
}

/// The file of the last counts of the tests' build by one compiler; its name has the compiler's version.
fn counted(root: &Path, compiler: &str) -> PathBuf {
    let version = compiler.split_whitespace().nth(1).unwrap_or("unknown");
    root.join(format!("check/sim/recorded/instructions-{version}-{}.jsonl", std::env::consts::ARCH))
}

/// Counts the instructions of nine kinds of operations in the tests' build, and compares them with the recorded ones; or records them.
pub(crate) fn instructions(root: &Path, record: bool) -> Done {
    let output = |program: &str| {
        let found = Command::new(program).arg("--version").output().ok()?;
        Some(String::from_utf8_lossy(&found.stdout).into_owned()).filter(|_| found.status.success())
    };
    if output("valgrind").is_none() {
        println!("skipped: valgrind is not installed, which counts the instructions");
        return if record { Err("instructions: install valgrind".into()) } else { Ok(()) };
    }
    let compiler = output("rustc").ok_or("instructions: there is no rustc")?;
    let file = counted(root, &compiler);
    if record {
        let _ = std::fs::remove_file(&file);
    } else if !file.exists() {
        println!("skipped: nothing was recorded with this compiler, see {}", file.display());
        return Ok(());
    }
    let (what, file) = (if record { "--record" } else { "--compare" }, file.to_string_lossy());
    let mut build = cargo_command(root, &["test", "--quiet", "--workspace", "--no-run"]);
    // As the gate builds: what is built in steps is cut into other pieces, and the compiler inlines otherwise.
    build.env("CARGO_INCREMENTAL", "0");
    run(build)?;
    let mut command = Command::new(built(root)?);
    command.args(["bench", "gate", what, &file]).current_dir(root);
    run(command)
}

/// Where the tests' build puts the program. `cargo run` would build most packages once more: alone, their dependencies have other features.
pub(crate) fn built(root: &Path) -> Result<PathBuf, String> {
    Ok(target_directory(root)?.join("debug/quorate"))
}

pub(crate) fn fuzz(root: &Path, seconds: Option<&str>) -> Done {
    let seconds: u32 = match seconds {
        None => 60,
        Some(s) => s.parse().map_err(|_| format!("fuzz: {s:?} is no number of seconds"))?,
    };
    let manifest = root.join("fuzz/Cargo.toml");
    let text =
        std::fs::read_to_string(&manifest).map_err(|e| format!("fuzz: {}: {e}", manifest.display()))?;
    let targets = fuzz_targets(&text)?;
    let found = Command::new("cargo").args(["+nightly", "fuzz", "--version"]).output();
    if !found.is_ok_and(|o| o.status.success()) {
        return Err("fuzz: needs a nightly toolchain and cargo-fuzz:\n  rustup toolchain install nightly\n  cargo install cargo-fuzz\n\
             The stable tests run the same targets over the stored inputs: cargo test --workspace"
            .into());
    }
    for target in targets {
        let mut command = Command::new("cargo");
        command.args(["+nightly", "fuzz", "run", &target, "--", &format!("-max_total_time={seconds}")]);
        command.current_dir(root);
        run(command)?;
    }
    Ok(())
}

pub(crate) fn sim(root: &Path, count: Option<&str>) -> Done {
    let count = seeds(count)?.to_string();
    cargo(root, &["run", "--release", "--package", "quorate-cli", "--", "sim", "--count", &count])
}

/// The number of seeds.
fn seeds(count: Option<&str>) -> Result<u64, String> {
    count.map_or(Ok(10_000), |s| s.parse().map_err(|_| format!("sim: {s:?} is no number of seeds")))
}

pub(crate) fn planted(root: &Path) -> Done {
    // a directory of its own: other builds stay as they are
    let target = target_directory(root)?.join("planted");
    let target = target.to_string_lossy();
    let mut command = cargo_command(root, &["run", "--release", "--package", "quorate-cli", "--target-dir"]);
    command.args([&*target, "--", "sim", "--planted"]);
    let flags = std::env::var("RUSTFLAGS").unwrap_or_default();
    command.env("RUSTFLAGS", format!("{flags} --cfg planted").trim());
    run(command)
}

/// The names of the fuzz targets: the binaries of the fuzz package.
fn fuzz_targets(manifest: &str) -> Result<Vec<String>, String> {
    let table: toml::Table = manifest.parse().map_err(|e| format!("fuzz/Cargo.toml: {e}"))?;
    let bins = table.get("bin").and_then(toml::Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let names: Vec<String> = bins.iter().filter_map(|b| Some(b.get("name")?.as_str()?.to_string())).collect();
    if names.is_empty() { Err("fuzz/Cargo.toml names no target ([[bin]])".into()) } else { Ok(names) }
}

/// The output of `cargo metadata` for this workspace, without the dependencies' own.
pub(crate) fn metadata(root: &Path) -> Result<serde_json::Value, String> {
    ask_metadata(root, &["--no-deps"])
}

/// The output of `cargo metadata` with all dependencies, as they are locked, for the system that this runs on.
pub(crate) fn full_metadata(root: &Path) -> Result<serde_json::Value, String> {
    let host = host(root)?;
    ask_metadata(root, &["--locked", "--filter-platform", &host])
}

/// The same for the system that most replicas run on, wherever this runs. What other systems need is not even downloaded.
pub(crate) fn linux_metadata(root: &Path) -> Result<serde_json::Value, String> {
    ask_metadata(root, &["--locked", "--filter-platform", "x86_64-unknown-linux-gnu"])
}

/// The name of the system that this runs on, as compilers say it.
pub(crate) fn host(root: &Path) -> Result<String, String> {
    let output = Command::new("rustc").args(["--version", "--verbose"]).current_dir(root).output();
    let text = output.map_err(|e| format!("rustc: {e}"))?.stdout;
    let text = String::from_utf8_lossy(&text).into_owned();
    let host = text.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned).ok_or("rustc names no host".into())
}

fn ask_metadata(root: &Path, more: &[&str]) -> Result<serde_json::Value, String> {
    let output = cargo_command(root, &[&["metadata", "--format-version", "1"], more].concat())
        .output()
        .map_err(|e| format!("cargo metadata: {e}"))?;
    if !output.status.success() {
        return Err(format!("cargo metadata: {}", String::from_utf8_lossy(&output.stderr)));
    }
    serde_json::from_slice(&output.stdout).map_err(|e| format!("cargo metadata: {e}"))
}

fn target_directory(root: &Path) -> Result<PathBuf, String> {
    let metadata = metadata(root)?;
    let directory = metadata["target_directory"].as_str();
    Ok(PathBuf::from(directory.ok_or("cargo metadata names no target directory")?))
}

pub(crate) fn cargo(root: &Path, args: &[&str]) -> Done {
    run(cargo_command(root, args))
}

pub(crate) fn cargo_command(root: &Path, args: &[&str]) -> Command {
    // the cargo that runs us, so that one toolchain does it all
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(args).current_dir(root);
    command
}

fn run(mut command: Command) -> Done {
    let args: Vec<_> = command.get_args().map(|a| a.to_string_lossy().into_owned()).collect();
    let program = Path::new(command.get_program()).file_name().unwrap_or_default().to_string_lossy();
    let line = format!("{program} {}", args.join(" "));
    eprintln!("> {line}");
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{line}: {status}")),
        Err(e) => Err(format!("{line}: {e}")),
    }
}

#[cfg(test)]
mod tests;
