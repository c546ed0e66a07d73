use super::*;

const PAGE: &str = "# Title\n\n## One thing\nprose `a/b.rs` and [text](x.md#two)\n```\n# no heading\nL1 code\n```\n### Below\nmore\n## Two\nend\n";

#[test]
fn a_section_ends_at_the_next_heading_of_its_level() {
    let lines: Vec<&str> = section(PAGE, "one THING").unwrap().into_iter().map(|(_, l)| l).collect();
    assert_eq!(lines, ["prose `a/b.rs` and [text](x.md#two)", "### Below", "more"]);
    assert!(section(PAGE, "three").is_none());
}

#[test]
fn fenced_lines_are_apart_from_prose() {
    assert_eq!(fenced(PAGE).collect::<Vec<_>>(), [(6, "# no heading"), (7, "L1 code")]);
    assert!(prose(PAGE).all(|(_, l)| !l.contains("L1")));
}

#[test]
fn spans_links_rows_and_anchors() {
    assert_eq!(spans("a `b/c` d `e` f `open").collect::<Vec<_>>(), ["b/c", "e"]);
    assert_eq!(links("[a](b.md) `[x](y)` [c](d#e \"t\")"), ["b.md", "d#e"]);
    assert_eq!(row("| a | `b` |"), Some(vec!["a", "`b`"]));
    assert_eq!(row("| --- | :-: |"), None);
    assert_eq!(row("no row"), None);
    assert_eq!(anchors("# A b-c: `d`!\n"), ["a-b-c-d"]);
}
