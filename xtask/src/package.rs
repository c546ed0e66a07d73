//! `cargo xtask package`: all that people install, by one command.
//!
//! It builds the program with the profile `dist`, asks it for completions and manual pages, and writes an archive, a Debian package, the
//! files of an image, a Helm chart, the list of what the program is made of, and checksums. Two runs on the same commit with the same
//! program write the same bytes. With `--check` it takes a program that is there, writes everything beside, reads it back and compares.
//!
//! Before: `facts` (versions, from the manifests), `program` (what the program says about itself, `elf` what its file says).
//! After: `archive`, `debian`, `container`, `chart`, `sbom`. `check` reads back. Templates are in `packaging`.

mod archive;
mod chart;
mod check;
mod container;
mod debian;
mod elf;
mod facts;
mod legal;
mod program;
mod sbom;
mod tree;

use crate::commands::Done;
use facts::Facts;
use md5::{Digest as _, Md5};
use program::Program;
use sha2::Sha256;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use tree::Tree;

const HELP: &str = "cargo xtask package [--check] [--program FILE] [--out DIR]

  without options  build the program with the profile `dist` and write all packages into target/packages
  --program FILE   take this program instead of building one
  --out DIR        write there instead
  --check          take target/debug/quorate (or FILE), write into target/packages-check, read everything back, and compare";

/// The most bytes of the program.
const PROGRAM_BYTES_MAX: usize = 25_000_000;

/// What to do.
#[derive(Debug, PartialEq, Eq)]
struct Asked {
    check: bool,
    program: Option<PathBuf>,
    out: Option<PathBuf>,
}

/// What is packed.
pub(crate) struct Packed {
    /// The files of the output directory, by their paths in it.
    files: Tree,
    /// The Debian package's name.
    debian: String,
    /// The archive's name.
    archive: String,
    /// The chart's name.
    chart: String,
}

pub(crate) fn package(root: &Path, args: &[String]) -> Done {
    let Some(asked) = asked(args)? else {
        println!("{HELP}");
        return Ok(());
    };
    let facts = Facts::read(root)?;
    let file = match (&asked.program, asked.check) {
        (Some(file), _) => file.clone(),
        (None, true) => facts.target.join("debug/quorate"),
        (None, false) => program::build(root, &facts.target)?,
    };
    let program = Program::read(&file, &facts.target.join("packages-scratch"))?;
    println!("{}", program.described());
    if !asked.check && program.bytes.len() > PROGRAM_BYTES_MAX {
        return Err(format!(
            "package: the program has {} bytes, {PROGRAM_BYTES_MAX} are allowed: look for what made it grow, for example with cargo-bloat",
            program.bytes.len()
        ));
    }
    program.elf.refuse_libraries()?;
    let packed = pack(root, &facts, &program, asked.check)?;
    let usual = if asked.check { "packages-check" } else { "packages" };
    let out = asked.out.unwrap_or_else(|| facts.target.join(usual));
    write(&out, &packed.files)?;
    if asked.check {
        let notes = check::packed(&packed, &facts, &program)?;
        let notes = notes.into_iter().chain(check::tools(&out, &packed)?);
        notes.for_each(|note| println!("{note}"));
        std::fs::remove_dir_all(&out).map_err(|e| format!("package: {}: {e}", out.display()))?;
        println!("package: the packages are complete and agree");
        return Ok(());
    }
    for (name, item) in packed.files.items().filter(|(name, _)| !name.contains('/')) {
        println!("{:>10}  {}", item.data.len(), out.join(name).display());
    }
    println!("            {}/", out.join("container").display());
    Ok(())
}

fn asked(args: &[String]) -> Result<Option<Asked>, String> {
    let mut asked = Asked { check: false, program: None, out: None };
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        let mut path = || {
            let next = args.next().ok_or(format!("package: {arg} needs a path\n\n{HELP}"))?;
            Ok::<_, String>(Some(PathBuf::from(next)))
        };
        match arg.as_str() {
            "--check" => asked.check = true,
            "--program" => asked.program = path()?,
            "--out" => asked.out = path()?,
            "--help" | "-h" | "help" => return Ok(None),
            other => return Err(format!("package: there is no {other}\n\n{HELP}")),
        }
    }
    Ok(Some(asked))
}

/// Makes all files in memory. `fast`: compressed little, since nobody keeps them.
fn pack(root: &Path, facts: &Facts, program: &Program, fast: bool) -> Result<Packed, String> {
    let archives = archive::Archives { time: facts.time, fast };
    let legal = legal::third_parties(facts)?;
    let license = read(root, "LICENSE")?;
    let version = &facts.version;
    let mut files = Tree::default();

    let name = format!("quorate-{version}-{}-linux-gnu", program.elf.machine.linux);
    let archive = format!("{name}.tar.gz");
    let tree = unpacked(root, program, &legal, &license)?;
    files.file(&archive, 0o644, archives.tar_gz(&name, &tree)?);

    let debian = format!("quorate_{}_{}.deb", facts.debian_version(), program.elf.machine.debian);
    files.file(&debian, 0o644, debian::package(root, facts, program, &legal, &archives)?);

    let chart = format!("quorate-{version}.tgz");
    files.file(&chart, 0o644, archives.tar_gz("quorate", &chart::files(root, facts)?)?);

    files.below("container", container::files(root, facts, program, &legal, &license)?);
    files.file(&format!("quorate-{version}.cdx.json"), 0o644, sbom::document(facts)?.into_bytes());
    files.file("sha256sums", 0o644, checksums(&files).into_bytes());
    Ok(Packed { files, debian, archive, chart })
}

/// The files of the archive: `bin` and `share`, as below /usr/local.
fn unpacked(root: &Path, program: &Program, legal: &str, license: &[u8]) -> Result<Tree, String> {
    let mut tree = Tree::default();
    tree.file("bin/quorate", 0o755, program.bytes.clone());
    for (place, text) in program.completions_at("zsh/site-functions") {
        tree.file(&format!("share/{place}"), 0o644, text.into_bytes());
    }
    for (page, text) in &program.pages {
        tree.file(&format!("share/man/man1/{page}"), 0o644, text.clone());
    }
    tree.file("LICENSE", 0o644, license.to_vec());
    tree.file("README.md", 0o644, read(root, "README.md")?);
    tree.file("THIRD-PARTY.txt", 0o644, legal.as_bytes().to_vec());
    Ok(tree)
}

/// What `sha256sum --check` reads: a line for each file.
fn checksums(files: &Tree) -> String {
    files.items().map(|(name, item)| format!("{}  {name}\n", sha256(&item.data))).collect()
}

fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// What dpkg compares files with, to find damaged ones.
fn md5_of(bytes: &[u8]) -> String {
    Md5::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Replaces the output directory by these files.
fn write(out: &Path, files: &Tree) -> Done {
    let failed = |e: std::io::Error| format!("package: {}: {e}", out.display());
    if out.exists() {
        let is_ours = out.join("sha256sums").exists() || out.read_dir().map_err(failed)?.next().is_none();
        if !is_ours {
            return Err(format!("package: {} has files of others: name another directory", out.display()));
        }
        std::fs::remove_dir_all(out).map_err(failed)?;
    }
    files.write(out).map_err(failed)
}

/// A file of the repository.
fn read(root: &Path, name: &str) -> Result<Vec<u8>, String> {
    let file = root.join(name);
    std::fs::read(&file).map_err(|e| format!("package: {}: {e}", file.display()))
}

/// A text file of the repository.
fn read_text(root: &Path, name: &str) -> Result<String, String> {
    String::from_utf8(read(root, name)?).map_err(|_| format!("package: {name} is no text"))
}

/// Replaces `@NAME@` in a template, and refuses names that nobody knows and values that nobody uses.
fn fill(template: &str, values: &BTreeMap<&str, String>) -> Result<String, String> {
    let mut text = template.to_owned();
    for (name, value) in values {
        let mark = format!("@{name}@");
        if !text.contains(&mark) {
            return Err(format!("package: a template does not use {mark}"));
        }
        text = text.replace(&mark, value);
    }
    let left = text
        .split('@')
        .skip(1)
        .find(|word| !word.is_empty() && word.chars().all(|c| c.is_ascii_uppercase() || c == '_'));
    match left {
        Some(name) => Err(format!("package: a template has @{name}@, which has no value")),
        None => Ok(text),
    }
}

#[cfg(test)]
mod tests;
