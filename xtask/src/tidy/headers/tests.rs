use super::super::tests::{one, problems};
use super::check;

#[test]
fn a_markdown_file_begins_with_its_title() {
    assert_eq!(problems(check, &[("a.md", "\n# Title\n")]), [""; 0]);
    for text in ["", "Title\n=====\n", "## Title\n", "#Title\n"] {
        one(&problems(check, &[("docs/a.md", text)]), "docs/a.md:1: a Markdown file");
    }
}

#[test]
fn a_source_file_of_the_core_begins_with_a_header() {
    assert_eq!(problems(check, &[("base/a/src/x.rs", "//! Does it.\n")]), [""; 0]);
    for path in ["base/a/src/x.rs", "path/3-order/src/raft/y.rs", "host/node/src/lib.rs", "side/s/src/z.rs"] {
        one(&problems(check, &[(path, "use x;\n//! late\n")]), "begin the file");
    }
    for path in ["base/a/src/x/tests.rs", "base/a/tests/y.rs", "front/cli/src/main.rs", "base/a/build.rs"] {
        assert_eq!(problems(check, &[(path, "use x;\n")]), [""; 0], "{path}");
    }
}
