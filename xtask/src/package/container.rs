//! The files of an image: a Containerfile, and beside it what that copies.

use super::elf::Glibc;
use super::facts::Facts;
use super::program::Program;
use super::tree::Tree;
use super::{fill, read_text};
use std::collections::BTreeMap;
use std::path::Path;

/// The images that ours can stand on, the oldest first, with their glibc. They have the libraries that the program needs, and no shell.
const BASES: [(&str, Glibc); 2] =
    [("gcr.io/distroless/cc-debian12", Glibc(2, 36)), ("gcr.io/distroless/cc-debian13", Glibc(2, 41))];

/// The files.
///
/// # Errors
/// When no base has a glibc that is new enough, or the template is not as expected.
pub(crate) fn files(
    root: &Path,
    facts: &Facts,
    program: &Program,
    legal: &str,
    license: &[u8],
) -> Result<Tree, String> {
    let (base, has) = base(program.elf.glibc)?;
    let values = [
        ("VERSION", facts.version.clone()),
        ("LICENSE", facts.license.clone()),
        ("GLIBC", program.elf.glibc.to_string()),
        ("BASE", base.to_owned()),
        ("BASE_GLIBC", has.to_string()),
    ];
    let template = read_text(root, "packaging/container/Containerfile")?;
    let text = fill(&template, &BTreeMap::from(values))?;
    let mut files = Tree::default();
    files.file("Containerfile", 0o644, text.into_bytes());
    files.file("quorate", 0o755, program.bytes.clone());
    files.file("LICENSE", 0o644, license.to_vec());
    files.file("THIRD-PARTY.txt", 0o644, legal.as_bytes().to_vec());
    files.directory("empty", 0o755);
    Ok(files)
}

/// The oldest base that has this glibc or a newer one.
fn base(needed: Glibc) -> Result<(&'static str, Glibc), String> {
    BASES.into_iter().find(|(_, has)| *has >= needed).ok_or(format!(
        "package: the program needs glibc {needed}, which no base in xtask/src/package/container.rs has: build it on an older system, or \
         add a newer base"
    ))
}

/// What a Containerfile copies from beside it.
pub(crate) fn copied(text: &str) -> Vec<&str> {
    let lines = text.lines().filter_map(|line| line.strip_prefix("COPY "));
    let names = lines.flat_map(|line| {
        let words: Vec<&str> = line.split_whitespace().filter(|word| !word.starts_with("--")).collect();
        let sources = words.len().saturating_sub(1);
        words.into_iter().take(sources)
    });
    names.collect()
}

#[cfg(test)]
mod tests;
