//! The Debian package: an ar archive of two tar archives, one that says what the package is and one with its files.
//!
//! The unit and the user are those that `quorate dev export --systemd` writes; only the place of the program differs.

use super::archive::Archives;
use super::facts::Facts;
use super::program::Program;
use super::tree::Tree;
use super::{md5_of, read, read_text};
use std::path::Path;

/// Where the unit and the user are written that `dev export` writes, too.
const EXPORTED: &str = "front/cli/src/dev/export/templates";
const TEMPLATES: &str = "packaging/debian";
/// The name of the unit.
pub(crate) const UNIT: &str = "usr/lib/systemd/system/quorate@.service";
/// The file that operators change, and which an upgrade leaves alone.
pub(crate) const CONFIGURATION: &str = "etc/default/quorate";
/// Scripts that dpkg runs.
pub(crate) const SCRIPTS: [&str; 3] = ["postinst", "prerm", "postrm"];

/// The package.
///
/// # Errors
/// When a template is missing or not as expected.
pub(crate) fn package(
    root: &Path,
    facts: &Facts,
    program: &Program,
    legal: &str,
    archives: &Archives,
) -> Result<Vec<u8>, String> {
    let data = data(root, facts, program, legal, archives)?;
    let mut control = Tree::default();
    control.file("control", 0o644, control_file(facts, program, &data).into_bytes());
    control.file("conffiles", 0o644, format!("/{CONFIGURATION}\n").into_bytes());
    let sums = data.items().filter(|(path, _)| *path != CONFIGURATION);
    let sums: String = sums.map(|(path, item)| format!("{}  {path}\n", md5_of(&item.data))).collect();
    control.file("md5sums", 0o644, sums.into_bytes());
    for script in SCRIPTS {
        control.file(script, 0o755, read(root, &format!("{TEMPLATES}/{script}"))?);
    }
    let (control, data) = (archives.tar_gz(".", &control)?, archives.tar_gz(".", &data)?);
    Ok(archives.ar(&[("debian-binary", b"2.0\n"), ("control.tar.gz", &control), ("data.tar.gz", &data)]))
}

/// The files that the package installs.
fn data(
    root: &Path,
    facts: &Facts,
    program: &Program,
    legal: &str,
    archives: &Archives,
) -> Result<Tree, String> {
    let mut data = Tree::default();
    data.file("usr/bin/quorate", 0o755, program.bytes.clone());
    let exported = |name: &str| read_text(root, &format!("{EXPORTED}/{name}"));
    data.file(UNIT, 0o644, unit(&exported("quorate@.service")?)?.into_bytes());
    data.file("usr/lib/sysusers.d/quorate.conf", 0o644, packaged(&exported("sysusers.conf")?).into_bytes());
    data.file(CONFIGURATION, 0o644, read(root, &format!("{TEMPLATES}/default"))?);
    data.directory("etc/quorate", 0o755);
    for (place, text) in program.completions_at("zsh/vendor-completions") {
        data.file(&format!("usr/share/{place}"), 0o644, text.into_bytes());
    }
    for (page, text) in &program.pages {
        data.file(&format!("usr/share/man/man1/{page}.gz"), 0o644, archives.gzip(text)?);
    }
    let mut doc =
        |name: &str, bytes: Vec<u8>| data.file(&format!("usr/share/doc/quorate/{name}"), 0o644, bytes);
    doc("README.Debian", read(root, &format!("{TEMPLATES}/README.Debian"))?);
    doc("README.md.gz", archives.gzip(&read(root, "README.md")?)?);
    doc("changelog.gz", archives.gzip(&read(root, "CHANGELOG.md")?)?);
    doc("THIRD-PARTY.txt.gz", archives.gzip(legal.as_bytes())?);
    doc("copyright", copyright(facts).into_bytes());
    Ok(data)
}

/// The unit of the package, from that of `dev export`.
///
/// # Errors
/// When the unit does not say where the program is, or has a blank to be filled.
pub(crate) fn unit(exported: &str) -> Result<String, String> {
    const START: &str = "ExecStart=/usr/local/bin/quorate ";
    let wrong = |what: &str| format!("package: {EXPORTED}/quorate@.service {what}");
    if exported.matches(START).count() != 1 {
        return Err(wrong(&format!("should have one line that begins with {START}")));
    }
    let environment = format!("EnvironmentFile=-/{CONFIGURATION}\nExecStart=/usr/bin/quorate ");
    let text =
        packaged(exported).replace(START, &environment).replace("/usr/local/bin/quorate", "/usr/bin/quorate");
    if text.contains("{{") {
        return Err(wrong("has a blank, which the package would not fill"));
    }
    Ok(text)
}

/// A file of `dev export` with the first line of the package.
fn packaged(exported: &str) -> String {
    let rest = exported.lines().skip_while(|line| line.starts_with('#'));
    let rest: String = rest.map(|line| format!("{line}\n")).collect();
    format!("# From the package quorate; see /usr/share/doc/quorate/README.Debian.\n{rest}")
}

fn control_file(facts: &Facts, program: &Program, data: &Tree) -> String {
    let bytes: usize = data.items().map(|(_, item)| item.data.len()).sum();
    // Each library's package has its name on Debian since long; that of glibc says from which version on.
    let unwinds = program.elf.libraries.iter().any(|library| library == "libgcc_s.so.1");
    format!(
        "Package: quorate\n\
         Version: {}\n\
         Architecture: {}\n\
         Maintainer: {}\n\
         Installed-Size: {}\n\
         Depends: libc6 (>= {}){}\n\
         Section: database\n\
         Priority: optional\n\
         Description: replicates any deterministic service\n \
         {}.\n \
         .\n \
         It comes with a key-value store, and serves clients of etcd and of ZooKeeper.\n",
        facts.debian_version(),
        program.elf.machine.debian,
        facts.maintainer,
        bytes.div_ceil(1024),
        program.elf.glibc,
        if unwinds { ", libgcc-s1" } else { "" },
        facts.description,
    )
}

fn copyright(facts: &Facts) -> String {
    format!(
        "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\n\
         Upstream-Name: quorate\n\
         \n\
         Files: *\n\
         Copyright: {}\n\
         License: {}\n \
         On Debian systems the license is in /usr/share/common-licenses/Apache-2.0. The packages that the\n \
         program is linked from, and their licenses, are in THIRD-PARTY.txt.gz beside this file.\n",
        facts.maintainer, facts.license
    )
}

#[cfg(test)]
mod tests;
