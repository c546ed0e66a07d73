use super::*;

#[test]
fn fuzz_targets_are_the_binaries_of_the_fuzz_package() {
    let manifest =
        "[package]\nname = 'f'\n[[bin]]\nname = 'frame'\npath = 'a.rs'\n[[bin]]\nname = 'record'\n";
    assert_eq!(fuzz_targets(manifest).unwrap(), ["frame", "record"]);
    assert!(fuzz_targets("[package]\nname = 'f'\n").is_err());
    assert!(fuzz_targets("not toml").is_err());
}
