use super::*;

/// This test is a program, too.
#[test]
#[cfg(all(target_os = "linux", target_env = "gnu", target_pointer_width = "64"))]
fn the_needs_of_this_program_are_found() {
    let bytes = std::fs::read(std::env::current_exe().unwrap()).unwrap();
    let elf = Elf::read(&bytes).unwrap();
    assert_eq!(elf.machine.linux, std::env::consts::ARCH);
    assert!(elf.libraries.iter().any(|library| library == "libc.so.6"), "{elf:?}");
    assert!(elf.glibc >= Glibc(2, 17) && elf.glibc < Glibc(3, 0), "{elf:?}");
    elf.refuse_libraries().unwrap();
}

#[test]
fn versions_of_glibc_are_ordered_as_numbers() {
    assert_eq!(glibc("GLIBC_2.2.5"), Some(Glibc(2, 2)));
    assert_eq!(glibc("GCC_3.0"), None);
    assert_eq!(glibc("GLIBC_PRIVATE"), None);
    assert!(glibc("GLIBC_2.36") > glibc("GLIBC_2.4"));
}

#[test]
fn a_library_that_not_every_system_has_is_refused() {
    let libraries = vec!["libc.so.6".to_owned(), "libssl.so.3".to_owned()];
    let elf = Elf { machine: MACHINES[0].1, libraries, glibc: Glibc(2, 34) };
    let why = elf.refuse_libraries().unwrap_err();
    assert!(why.contains("libssl.so.3") && !why.contains("libc.so.6,"), "{why}");
}

/// Damaged files give errors: each number in the tables is made too large in turn, and the file is cut.
#[test]
fn a_damaged_file_is_refused_without_a_panic() {
    assert!(Elf::read(b"#!/bin/sh\n").is_err());
    let bytes = std::fs::read(std::env::current_exe().unwrap()).unwrap();
    for cut in (0..64).chain([bytes.len() / 2]) {
        assert!(Elf::read(&bytes[..cut]).is_err(), "cut at {cut}");
    }
    for at in 16..64 {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0xff;
        let _ = Elf::read(&damaged);
    }
}
