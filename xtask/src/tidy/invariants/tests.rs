use super::super::tests::{one, problems};
use super::check;

const TABLE: &str =
    "# I\n| id | says |\n| --- | --- |\n| `INV-LOG-1` | a |\n| INV-LOG-12 | b, by construction |\n";
const CODE: &str = "assert!(ok, \"INV-LOG-1 at {x}\"); // INV-LOG-12: the type says so\n";

fn with(table: &str, code: &str) -> Vec<String> {
    problems(check, &[("docs/invariants.md", table), ("base/a.rs", code)])
}

#[test]
fn documented_and_enforced_is_fine() {
    assert_eq!(with(TABLE, CODE), [""; 0]);
}

#[test]
fn an_id_without_a_row_is_found() {
    one(&with(TABLE, &format!("{CODE}\n\"INV-LOG-2\"")), "base/a.rs:3: INV-LOG-2 is not in the table");
    let page = [("docs/invariants.md", TABLE), ("base/a.rs", CODE), ("README.md", "INV-READ-7")];
    one(&problems(check, &page), "README.md:1: INV-READ-7");
}

#[test]
fn an_id_in_a_comment_only_is_not_enforced() {
    one(&with(TABLE, "// INV-LOG-1 INV-LOG-12"), "no code enforces INV-LOG-1:");
    let found = with(TABLE, "assert!(true, \"INV-LOG-1\")");
    one(&found, "no code enforces INV-LOG-12:");
}

#[test]
fn an_id_has_one_row() {
    one(&with(&format!("{TABLE}| INV-LOG-1 | again |\n"), CODE), "line 4, too");
}

#[test]
fn the_table_must_be_there() {
    one(&problems(check, &[("base/a.rs", "\"INV-LOG-1\"")]), "docs/invariants.md: is missing");
}
