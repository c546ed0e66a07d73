//! Packages are read back: what is in them, with which permissions, and whether all of them are of one version.

use super::archive::{gunzip, read_ar, read_tar_gz};
use super::facts::Facts;
use super::program::Program;
use super::tree::Tree;
use super::{Packed, chart, container, debian, md5_of, sha256};
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

/// Compares what was packed with what it was made from. Gives notes for people.
///
/// # Errors
/// All that is wrong.
pub(crate) fn packed(packed: &Packed, facts: &Facts, program: &Program) -> Result<Vec<String>, String> {
    let mut wrong = Vec::new();
    if program.version != facts.version {
        wrong.push(format!(
            "the program says that it is {}, Cargo.toml says {}",
            program.version, facts.version
        ));
    }
    let mut part = |name: &str, done: Result<(), String>| {
        if let Err(why) = done {
            wrong.push(format!("{name}: {why}"));
        }
    };
    let bytes = |name: &str| packed.files.get(name).map(|item| &item.data[..]).unwrap_or_default();
    part(&packed.archive, archive(bytes(&packed.archive), &packed.archive, program));
    part(&packed.debian, debian_package(bytes(&packed.debian), facts, program));
    part(&packed.chart, chart_package(bytes(&packed.chart), facts));
    part("container", image(&packed.files));
    part("SBOM", sbom(bytes(&format!("quorate-{}.cdx.json", facts.version)), facts));
    part("sha256sums", sums(&packed.files));
    if wrong.is_empty() {
        let count = packed.files.items().count();
        return Ok(vec![format!("package: {count} files were read back")]);
    }
    Err(format!("package: {}", wrong.join("\npackage: ")))
}

fn archive(bytes: &[u8], name: &str, program: &Program) -> Result<(), String> {
    let tree = read_tar_gz(bytes)?;
    let top = name.trim_end_matches(".tar.gz");
    let wanted = ["LICENSE", "README.md", "THIRD-PARTY.txt", "share/man/man1/quorate.1"];
    let completions = program.completions_at("zsh/site-functions").into_iter();
    let completions = completions.map(|(place, _)| (format!("share/{place}"), 0o644));
    let wanted = wanted.map(|name| (name.to_owned(), 0o644)).into_iter().chain(completions);
    for (path, mode) in wanted.chain([("bin/quorate".to_owned(), 0o755)]) {
        has(&tree, &format!("{top}/{path}"), mode)?;
    }
    same_program(&tree, &format!("{top}/bin/quorate"), program)
}

fn debian_package(bytes: &[u8], facts: &Facts, program: &Program) -> Result<(), String> {
    let members = read_ar(bytes)?;
    let names: Vec<&str> = members.iter().map(|(name, _)| name.as_str()).collect();
    if names != ["debian-binary", "control.tar.gz", "data.tar.gz"] || members[0].1 != b"2.0\n" {
        return Err(format!("dpkg expects other members than {names:?}"));
    }
    let (control, data) = (read_tar_gz(&members[1].1)?, read_tar_gz(&members[2].1)?);
    let fields = control.text("./control").unwrap_or_default();
    let field = |name: &str| fields.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
    let wanted = [
        ("Package", "quorate".to_owned()),
        ("Version", facts.debian_version()),
        ("Architecture", program.elf.machine.debian.to_owned()),
        ("Maintainer", facts.maintainer.clone()),
    ];
    for (name, value) in wanted {
        if field(name) != Some(&value) {
            return Err(format!("the field {name} should be {value}, and is {:?}", field(name)));
        }
    }
    let needs = format!("libc6 (>= {})", program.elf.glibc);
    if !field("Depends").is_some_and(|depends| depends.contains(&needs)) {
        return Err(format!("it should depend on {needs}"));
    }
    for script in debian::SCRIPTS {
        has(&control, &format!("./{script}"), 0o755)?;
    }
    for configuration in control.text("./conffiles").unwrap_or_default().lines() {
        has(&data, &format!(".{configuration}"), 0o644)?;
    }
    for line in control.text("./md5sums").unwrap_or_default().lines() {
        let (sum, path) = line.split_once("  ").ok_or("a line of md5sums has no path")?;
        if data.get(&format!("./{path}")).is_none_or(|item| md5_of(&item.data) != sum) {
            return Err(format!("md5sums is wrong about {path}"));
        }
    }
    let count = data.items().filter(|(path, _)| !path.starts_with("./etc/")).count();
    if control.text("./md5sums").unwrap_or_default().lines().count() != count {
        return Err("md5sums does not list each file".into());
    }
    installed(&data, program)
}

/// What the Debian package installs.
fn installed(data: &Tree, program: &Program) -> Result<(), String> {
    let mut wanted = vec![
        ("usr/bin/quorate".to_owned(), 0o755),
        (debian::UNIT.to_owned(), 0o644),
        ("usr/lib/sysusers.d/quorate.conf".to_owned(), 0o644),
        (debian::CONFIGURATION.to_owned(), 0o644),
    ];
    let completions = program.completions_at("zsh/vendor-completions").into_iter();
    wanted.extend(completions.map(|(place, _)| (format!("usr/share/{place}"), 0o644)));
    wanted.extend(program.pages.keys().map(|page| (format!("usr/share/man/man1/{page}.gz"), 0o644)));
    for (path, mode) in wanted {
        has(data, &format!("./{path}"), mode)?;
    }
    for (path, item) in data.items().filter(|(path, _)| path.ends_with(".gz")) {
        gunzip(&item.data).map_err(|why| format!("{path}: {why}"))?;
    }
    let unit = data.text(&format!("./{}", debian::UNIT)).unwrap_or_default();
    for line in ["User=quorate", "ProtectSystem=strict", "NoNewPrivileges=yes"] {
        if !unit.lines().any(|found| found == line) {
            return Err(format!("the unit has no line {line}"));
        }
    }
    if unit.contains("/usr/local") || !unit.contains("ExecStart=/usr/bin/quorate serve ") {
        return Err("the unit does not start /usr/bin/quorate".into());
    }
    same_program(data, "./usr/bin/quorate", program)
}

fn chart_package(bytes: &[u8], facts: &Facts) -> Result<(), String> {
    let tree = read_tar_gz(bytes)?;
    for name in ["values.yaml", "README.md", "LICENSE", "templates/replicas.yaml", "templates/NOTES.txt"] {
        has(&tree, &format!("quorate/{name}"), 0o644)?;
    }
    chart::same_version(tree.text("quorate/Chart.yaml").unwrap_or_default(), &facts.version)
}

fn image(files: &Tree) -> Result<(), String> {
    let text = files.text("container/Containerfile").ok_or("there is no Containerfile")?;
    let copied = container::copied(text);
    if !copied.contains(&"quorate") {
        return Err("the Containerfile does not copy the program".into());
    }
    match copied.iter().find(|name| !files.has(&format!("container/{name}"))) {
        Some(missing) => Err(format!("the Containerfile copies {missing}, which is not beside it")),
        None => Ok(()),
    }
}

fn sbom(bytes: &[u8], facts: &Facts) -> Result<(), String> {
    let document: Value = serde_json::from_slice(bytes).map_err(|e| e.to_string())?;
    let own = &document["metadata"]["component"];
    if own["version"] != facts.version.as_str() {
        return Err(format!("the program's version should be {}, and is {}", facts.version, own["version"]));
    }
    let components = document["components"].as_array().ok_or("it has no components")?;
    let known: BTreeSet<&str> =
        components.iter().chain([own]).filter_map(|component| component["bom-ref"].as_str()).collect();
    let graph = document["dependencies"].as_array().ok_or("it has no dependencies")?;
    let on = graph.iter().flat_map(|row| row["dependsOn"].as_array().into_iter().flatten());
    let named: BTreeSet<&str> =
        graph.iter().map(|row| &row["ref"]).chain(on).filter_map(Value::as_str).collect();
    if known.len() != components.len() + 1 || known != named {
        return Err("its components and its dependencies name different packages".into());
    }
    Ok(())
}

fn sums(files: &Tree) -> Result<(), String> {
    let text = files.text("sha256sums").ok_or("it is missing")?;
    let listed: BTreeSet<(&str, &str)> = text.lines().filter_map(|line| line.split_once("  ")).collect();
    for (name, item) in files.items().filter(|(name, _)| *name != "sha256sums") {
        if !listed.contains(&(sha256(&item.data).as_str(), name)) {
            return Err(format!("it has no right line for {name}"));
        }
    }
    Ok(())
}

fn has(tree: &Tree, path: &str, mode: u32) -> Result<(), String> {
    match tree.get(path) {
        None => Err(format!("{path} is missing")),
        Some(item) if item.mode != mode => Err(format!("{path} has the mode {:o}, not {mode:o}", item.mode)),
        Some(item) if item.data.is_empty() => Err(format!("{path} is empty")),
        Some(_) => Ok(()),
    }
}

fn same_program(tree: &Tree, path: &str, program: &Program) -> Result<(), String> {
    let same = tree.get(path).is_some_and(|item| item.data == program.bytes);
    if same { Ok(()) } else { Err(format!("{path} is not the program")) }
}

/// Lets the programs judge that packages are for, as far as they are installed. Gives notes for people.
///
/// # Errors
/// What they say.
pub(crate) fn tools(out: &Path, packed: &Packed) -> Result<Vec<String>, String> {
    let path = |name: &str| out.join(name).to_string_lossy().into_owned();
    let (debian, chart) = (path(&packed.debian), path(&packed.chart));
    let asked: [(&str, &[&str]); 5] = [
        ("dpkg-deb", &["--info", &debian]),
        ("dpkg-deb", &["--contents", &debian]),
        ("helm", &["lint", &chart]),
        ("helm", &["template", "quorate", &chart, "--kube-version", "1.31.0"]),
        (
            "helm",
            &[
                "template",
                "quorate",
                &chart,
                "--kube-version",
                "1.31.0",
                "--set",
                "replicas=2,signing=true,tls=false",
            ],
        ),
    ];
    let mut notes = BTreeSet::new();
    for (program, args) in asked {
        let note = match Command::new(program).args(args).output() {
            Err(_) => format!("skipped: {program} is not installed, which would read its package"),
            Ok(output) if output.status.success() => format!("package: {program} reads its package"),
            Ok(output) => {
                let said = [output.stdout, output.stderr].concat();
                let said = String::from_utf8_lossy(&said).into_owned();
                return Err(format!("package: {program} {}: {said}", args.join(" ")));
            }
        };
        notes.insert(note);
    }
    Ok(notes.into_iter().collect())
}

#[cfg(test)]
mod tests;
