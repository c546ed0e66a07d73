use super::super::tests::{one, problems};
use super::check;

#[test]
fn each_page_is_in_the_book_once() {
    let page = ("docs/operations/disk.md", "# Disks\n");
    let summary = "# Book\n\n- [Disks](operations/disk.md)\n";
    assert_eq!(problems(check, &[page, ("docs/SUMMARY.md", summary), ("README.md", "# R\n")]), [""; 0]);
    one(&problems(check, &[page, ("docs/SUMMARY.md", "# Book\n")]), "docs/operations/disk.md: add this page");
    let twice = format!("{summary}- [Again](operations/disk.md)\n");
    one(&problems(check, &[page, ("docs/SUMMARY.md", &twice)]), "name this page once");
}

#[test]
fn fences_stand_alone() {
    for good in ["```\nx\n```\n", "```sh\nx\n```\n", "```rust,no_run\nx\n```\n", "- a\n\n  ```\n  x\n  ```\n"]
    {
        assert_eq!(problems(check, &[("a.md", good)]), [""; 0], "{good}");
    }
    one(&problems(check, &[("a.md", "```\nx\n``` Then this.\n")]), "a.md:3: a fence stands");
}

#[test]
fn links_stay_in_the_book() {
    let summary = ("docs/SUMMARY.md", "# Book\n\n- [A](a.md)\n- [B](b/b.md)\n");
    let page = |path: &'static str, link: &str| (path, format!("# P\n\n[x]({link})\n"));
    let found = |link: &str, deeper: &str| {
        let (one, other) = (page("docs/a.md", link), page("docs/b/b.md", deeper));
        problems(check, &[summary, (one.0, &one.1), (other.0, &other.1)])
    };
    assert_eq!(found("b/b.md", "../a.md#p"), [""; 0]);
    one(&found("../README.md", "../a.md"), "docs/a.md:3: ../README.md is not in the book");
    one(&found("b/b.md", "../../side/x.rs"), "docs/b/b.md:3: ../../side/x.rs is not in the book");
}
