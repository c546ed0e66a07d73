use super::*;

#[test]
fn fuzz_targets_are_the_binaries_of_the_fuzz_package() {
    let manifest =
        "[package]\nname = 'f'\n[[bin]]\nname = 'frame'\npath = 'a.rs'\n[[bin]]\nname = 'record'\n";
    assert_eq!(fuzz_targets(manifest).unwrap(), ["frame", "record"]);
    assert!(fuzz_targets("[package]\nname = 'f'\n").is_err());
    assert!(fuzz_targets("not toml").is_err());
}

#[test]
fn a_number_of_seeds_is_a_number() {
    assert_eq!(seeds(None), Ok(10_000));
    assert_eq!(seeds(Some("200")), Ok(200));
    assert!(seeds(Some("many")).unwrap_err().contains("many"));
}
