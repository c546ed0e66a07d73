use super::super::tests::{one, problems};
use super::{FORBIDDEN, check};

#[test]
fn each_reference_is_found_in_any_file() {
    for (needle, _) in FORBIDDEN {
        for path in ["a.rs", "docs/b.md", ".ci/run", "c.toml"] {
            let text = format!("fine\nsee {}x\n", needle.to_uppercase());
            one(&problems(check, &[(path, &text)]), &format!("{path}:2"));
        }
    }
}

#[test]
fn lock_files_and_other_words_are_fine() {
    let lock = format!("source = \"{}\"", FORBIDDEN[5].0);
    assert_eq!(problems(check, &[("Cargo.lock", &lock)]), [""; 0]);
    assert_eq!(problems(check, &[("a.md", "issues, teamwork/x, as an aid, shared/x")]), [""; 0]);
}
