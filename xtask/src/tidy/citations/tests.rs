use super::super::tests::{findings, one, problems};
use super::{check, numbers};

const PAGE: &str = "# Raft\n```\nL1  on start\nL2    vote\n  L3 end\nLater: no label\n```\nL9 is prose\n";

fn with(page: &str, code: &str) -> Vec<String> {
    let files = [
        ("docs/protocols/raft.md", page),
        ("path/3-order/src/raft/a.rs", code),
        ("path/3-order/src/raft", ""),
    ];
    problems(check, &files)
}

#[test]
fn lists_and_ranges_are_read() {
    assert_eq!(numbers("L3, L9"), [3, 9]);
    assert_eq!(numbers("L14-L17"), [14, 15, 16, 17]);
    assert_eq!(numbers("L14-17, L20"), [14, 15, 16, 17, 20]);
    assert_eq!(numbers("- L4: why. L5 and Low-2 3"), [4, 5]);
}

#[test]
fn every_line_is_cited() {
    assert_eq!(with(PAGE, "// [raft L1]\n// [raft L2-L3]\n"), [""; 0]);
    assert_eq!(with(PAGE, "// [raft L3, L1] and [raft L2]"), [""; 0]);
    one(&with(PAGE, "// [raft L1-L2]"), "raft.md:5: L3 is cited nowhere");
}

#[test]
fn a_citation_names_a_line() {
    one(&with(PAGE, "// [raft L1-L3]\n// [raft L4]"), "a.rs:2: docs/protocols/raft.md has no L4");
    one(&with(PAGE, "// [raft L1-L3]\n// [raft L2,\n// L3]"), "a.rs:2: write a citation in one line");
}

#[test]
fn lines_may_be_exempt_as_long_as_they_need_it() {
    let page = format!("{PAGE}## Lines without a citation\n- L3: says nothing\n");
    assert_eq!(with(&page, "// [raft L1-L2]"), [""; 0]);
    one(&with(&page, "// [raft L1-L3]"), "take it off");
    one(&with(&page.replace("- L3:", "- L3, L8:"), "// [raft L1-L2]"), "there is no L8");
}

#[test]
fn labels_are_unique_and_needed() {
    one(&with(&PAGE.replace("L3", "L2"), "// [raft L1-L2]"), "too");
    one(&with("# Raft\n", ""), "no line of its code blocks");
}

#[test]
fn without_the_code_there_is_a_note_and_without_the_page_a_problem() {
    let none = findings(check, &[]);
    assert!(none.problems.is_empty() && none.notes.len() == 4, "{:?}", none.notes);
    one(&problems(check, &[("path/3-order/src/raft/a.rs", "")]), "raft.md: is missing");
    one(&problems(check, &[("path/4-merge/src/a.rs", "")]), "merge.md: is missing");
}
