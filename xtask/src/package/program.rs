//! The program that is packed: how it is built, and what it says about itself.

use super::elf::Elf;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The shells that get completions: the shell, where the file goes below `share`, and its name.
const SHELLS: [(&str, &str, &str); 3] = [
    ("bash", "bash-completion/completions", "quorate"),
    ("zsh", "", "_quorate"),
    ("fish", "fish/vendor_completions.d", "quorate.fish"),
];

/// The program with all that belongs to it.
pub(crate) struct Program {
    pub(crate) bytes: Vec<u8>,
    pub(crate) elf: Elf,
    /// What `quorate --version` says behind the name.
    pub(crate) version: String,
    /// The completions, by shell.
    pub(crate) completions: BTreeMap<&'static str, String>,
    /// The manual pages, by file name.
    pub(crate) pages: BTreeMap<String, Vec<u8>>,
}

/// Builds the program as it is packed, and gives its path.
///
/// # Errors
/// When the build fails.
pub(crate) fn build(root: &Path, target: &Path) -> Result<PathBuf, String> {
    crate::commands::cargo(root, &["build", "--locked", "--profile", "dist", "--package", "quorate-cli"])?;
    Ok(target.join("dist/quorate"))
}

impl Program {
    /// Reads a program, and runs it for completions and manual pages, which it writes into `scratch`.
    ///
    /// # Errors
    /// When it is missing, is no program for this machine, or says nothing.
    pub(crate) fn read(file: &Path, scratch: &Path) -> Result<Self, String> {
        let shown = file.display();
        let bytes = std::fs::read(file).map_err(|e| {
            format!(
                "package: {shown}: {e}\nBuild it first, with `cargo build`, or name a program with --program"
            )
        })?;
        let elf = Elf::read(&bytes).map_err(|why| format!("package: {shown}: {why}"))?;
        let version = said(file, &["--version"])?;
        let version =
            version.trim().strip_prefix("quorate ").ok_or(format!("package: {shown} is not quorate"))?;
        let mut completions = BTreeMap::new();
        for (shell, _, _) in SHELLS {
            completions.insert(shell, said(file, &["completions", shell])?);
        }
        let _ = std::fs::remove_dir_all(scratch);
        said(file, &["man", "--dir", &scratch.to_string_lossy()])?;
        let pages = pages(scratch).map_err(|e| format!("package: {}: {e}", scratch.display()))?;
        let _ = std::fs::remove_dir_all(scratch);
        Ok(Self { bytes, elf, version: version.to_owned(), completions, pages })
    }

    /// The completions with their places below `share`; zsh's place is not the same everywhere.
    pub(crate) fn completions_at(&self, zsh: &str) -> Vec<(String, String)> {
        let place = |(shell, place, name): (&str, &str, &str)| {
            let place = if shell == "zsh" { zsh } else { place };
            Some((format!("{place}/{name}"), self.completions.get(shell)?.clone()))
        };
        SHELLS.into_iter().filter_map(place).collect()
    }

    /// A line for people.
    pub(crate) fn described(&self) -> String {
        format!(
            "quorate {} for {}: {:.1} MB, needs glibc {} or newer and {}; {} manual pages",
            self.version,
            self.elf.machine.linux,
            self.bytes.len() as f64 / 1e6,
            self.elf.glibc,
            self.elf.libraries.join(", "),
            self.pages.len()
        )
    }
}

/// What the program prints.
fn said(file: &Path, args: &[&str]) -> Result<String, String> {
    let what = || format!("package: {} {}", file.display(), args.join(" "));
    let output = Command::new(file).args(args).output().map_err(|e| format!("{}: {e}", what()))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if !output.status.success() || text.is_empty() {
        return Err(format!("{}: {}", what(), String::from_utf8_lossy(&output.stderr)));
    }
    Ok(text)
}

fn pages(directory: &Path) -> std::io::Result<BTreeMap<String, Vec<u8>>> {
    let read = |entry: std::io::Result<std::fs::DirEntry>| {
        let entry = entry?;
        Ok((entry.file_name().to_string_lossy().into_owned(), std::fs::read(entry.path())?))
    };
    std::fs::read_dir(directory)?.map(read).collect()
}
