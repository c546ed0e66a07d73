use super::*;

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

#[test]
fn the_command_line_is_understood_or_refused() {
    let none = Asked { check: false, program: None, out: None };
    assert_eq!(asked(&[]), Ok(Some(none)));
    let all = Asked { check: true, program: Some("p".into()), out: Some("o".into()) };
    assert_eq!(asked(&words("--check --program p --out o")), Ok(Some(all)));
    assert_eq!(asked(&words("--help")), Ok(None));
    assert!(asked(&words("--program")).unwrap_err().contains("needs a path"));
    assert!(asked(&words("--chek")).unwrap_err().contains("there is no --chek"));
}

#[test]
fn a_template_and_its_values_name_the_same() {
    let values = BTreeMap::from([("NAME", "one".to_owned())]);
    assert_eq!(fill("a @NAME@ b@c.d @NAME@", &values).unwrap(), "a one b@c.d one");
    assert!(fill("a", &values).unwrap_err().contains("does not use @NAME@"));
    assert!(fill("@NAME@ @OTHER@", &values).unwrap_err().contains("@OTHER@"));
}

#[test]
fn checksums_are_those_of_sha256sum_and_md5sum() {
    let mut files = Tree::default();
    files.file("empty", 0o644, Vec::new());
    assert_eq!(
        checksums(&files),
        "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855  empty\n"
    );
    assert_eq!(md5_of(b""), "d41d8cd98f00b204e9800998ecf8427e");
}

/// A second run replaces what the first one wrote, and nothing that somebody else did.
#[test]
fn only_a_directory_of_its_own_is_replaced() {
    let place = tempfile::tempdir().expect("a temporary directory");
    let out = place.path().join("out");
    let mut files = Tree::default();
    files.file("sha256sums", 0o644, b"x".to_vec());
    files.directory("empty", 0o755);
    write(&out, &files).unwrap();
    std::fs::write(out.join("old"), "").unwrap();
    write(&out, &files).unwrap();
    assert!(!out.join("old").exists() && out.join("empty").is_dir());
    std::fs::remove_file(out.join("sha256sums")).unwrap();
    assert!(write(&out, &files).unwrap_err().contains("files of others"));
}
