use super::super::tests::{one, problems};
use super::check;

const TABLE: &str = "# Map\n## Life of a request\n\n| stage | file | function |\n| --- | --- | --- |\n| order | `path/3-order/src/lib.rs` | `Raft::step()` |\n";
const CODE: (&str, &str) = ("path/3-order/src/lib.rs", "impl Raft { pub fn step(&mut self) {} }");

fn with(more: &[(&str, &str)]) -> Vec<String> {
    let mut files = vec![("ARCHITECTURE.md", TABLE), ("README.md", "# R\n"), ("GLOSSARY.md", "# G\n"), CODE];
    for (path, text) in more {
        files.retain(|(p, _)| p != path);
        files.push((path, text));
    }
    problems(check, &files)
}

#[test]
fn what_exists_is_fine() {
    let page = "# D\n`path/3-order`, `path/3-order/src/`, `path/3-order/src/lib.rs:12`, `path/*/src/*.rs`, \
                `path/3-order/{src,src/lib.rs}`, `any/other.rs`, `a/b c` [map](../ARCHITECTURE.md#life-of-a-request) [web](https://x/y) [here](#d)\n";
    assert!(with(&[("docs/page.md", page)]).is_empty(), "{:?}", with(&[("docs/page.md", page)]));
}

#[test]
fn a_path_that_is_gone_is_found() {
    one(&with(&[("docs/page.md", "# D\n\nsee `base/gone.rs`\n")]), "docs/page.md:3: `base/gone.rs`");
    one(&with(&[("README.md", "# R\n`path/*/gone.rs`\n")]), "does not exist");
    one(&with(&[("README.md", "# R\n`path/3-order/{src,gone}`\n")]), "does not exist");
}

#[test]
fn a_link_that_leads_nowhere_is_found() {
    one(&with(&[("docs/page.md", "# D\n[x](gone.md)\n")]), "gone.md");
    one(&with(&[("README.md", "# R\n[x](ARCHITECTURE.md#gone)\n")]), "no such heading");
    one(&with(&[("README.md", "# R\n[x](../outside.md)\n")]), "leaves the repository");
}

#[test]
fn a_function_that_is_gone_is_found() {
    one(&with(&[(CODE.0, "fn stepping() {} // fn step()")]), "there is no `fn step`");
    one(&with(&[("path/3-order/src/lib.rs", "")]), "there is no `fn step`");
}

#[test]
fn the_table_must_be_there_and_whole() {
    one(&with(&[("ARCHITECTURE.md", "# Map\n")]), "no heading");
    one(&with(&[("ARCHITECTURE.md", "# Map\n## Life of a request\n")]), "no rows");
    one(&with(&[("ARCHITECTURE.md", &TABLE.replace("`Raft::step()`", "step"))]), "names a function");
    let gone = problems(check, &[("README.md", "# R\n"), ("GLOSSARY.md", "# G\n")]);
    one(&gone, "ARCHITECTURE.md: is missing");
}
