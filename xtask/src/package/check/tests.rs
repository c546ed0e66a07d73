use super::*;
use crate::package::elf::{Elf, Glibc, Machine};
use std::collections::BTreeMap;

/// A stand-in for the program: small, so that packing takes no time.
fn program(version: &str) -> Program {
    let machine = Machine { linux: "x86_64", debian: "amd64" };
    let libraries = vec!["libc.so.6".to_owned(), "libgcc_s.so.1".to_owned()];
    let completions = ["bash", "zsh", "fish"].map(|shell| (shell, format!("# {shell}\n")));
    let pages = ["quorate.1", "quorate-kv-put.1"].map(|page| (page.to_owned(), b".TH quorate 1\n".to_vec()));
    Program {
        bytes: b"a program".to_vec(),
        elf: Elf { machine, libraries, glibc: Glibc(2, 34) },
        version: version.to_owned(),
        completions: BTreeMap::from(completions),
        pages: BTreeMap::from(pages),
    }
}

/// All packages are written and read back, and each kind of damage is noticed.
#[test]
fn packages_agree_and_damage_is_noticed() {
    let root = crate::root();
    let facts = Facts::read(&root).unwrap();
    let program = program(&facts.version);
    let pack = || crate::package::pack(&root, &facts, &program, true).unwrap();
    let good = pack();
    super::packed(&good, &facts, &program).unwrap();
    assert_eq!(good.files, pack().files, "two runs write the same");

    let refused = |packed: &Packed, program: &Program| super::packed(packed, &facts, program).unwrap_err();
    let other = Program { version: "9.9.9".into(), ..self::program("") };
    assert!(refused(&good, &other).contains("says that it is 9.9.9"));
    let other = Program { bytes: b"another".to_vec(), ..self::program(&facts.version) };
    let why = refused(&good, &other);
    assert!(
        why.contains("bin/quorate is not the program") && why.contains("./usr/bin/quorate is not"),
        "{why}"
    );

    let mut damaged = pack();
    damaged.files.file("container/Containerfile", 0o644, b"COPY quorate nothing /\n".to_vec());
    let why = refused(&damaged, &program);
    assert!(
        why.contains("copies nothing") && why.contains("no right line for container/Containerfile"),
        "{why}"
    );
}

/// The Debian package holds the unit, the scripts and the configuration with the right permissions.
#[test]
fn the_debian_package_is_as_dpkg_expects() {
    let root = crate::root();
    let facts = Facts::read(&root).unwrap();
    let program = program(&facts.version);
    let archives = crate::package::archive::Archives { time: 0, fast: true };
    let whole = debian::package(&root, &facts, &program, "licenses", &archives).unwrap();
    debian_package(&whole, &facts, &program).unwrap();
    let mut members = read_ar(&whole).unwrap();
    let mut control = read_tar_gz(&members[1].1).unwrap();
    control.file("./postinst", 0o644, b"#!/bin/sh\n".to_vec());
    members[1].1 = archives.tar_gz("x", &control).unwrap();
    let parts: Vec<(&str, &[u8])> = members.iter().map(|(name, data)| (name.as_str(), &data[..])).collect();
    assert!(debian_package(&archives.ar(&parts), &facts, &program).is_err());
    let newer = Program { elf: Elf { glibc: Glibc(2, 40), ..self::program("").elf }, ..self::program("") };
    assert!(debian_package(&whole, &facts, &newer).unwrap_err().contains("libc6 (>= 2.40)"));
}

/// What dpkg and the shell would run at an installation is at least a script without mistakes of form.
#[test]
fn the_scripts_of_the_debian_package_are_scripts() {
    for script in debian::SCRIPTS {
        let file = crate::root().join("packaging/debian").join(script);
        let output = Command::new("sh").arg("-n").arg(&file).output().unwrap();
        assert!(output.status.success(), "{script}: {}", String::from_utf8_lossy(&output.stderr));
    }
}
