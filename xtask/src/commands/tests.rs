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

#[test]
fn skipped_tests_are_counted_by_why() {
    let file = Path::new("target/skipped-tests.txt");
    assert_eq!(skipped("", file), "no test was skipped");
    let lines =
        "skipped: a: no etcd; see: build.sh\nskipped: b: no tmpfs\nskipped: c: no etcd; see: build.sh\n";
    let said = skipped(lines, file);
    assert_eq!(
        said,
        "3 tests were skipped, see target/skipped-tests.txt:\n  2: no etcd; see: build.sh\n  1: no tmpfs"
    );
}
