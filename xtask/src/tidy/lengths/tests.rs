use super::super::tests::{one, problems};
use super::check;

fn function(lines: usize) -> String {
    format!("fn f() {{\n{}}}\n", "    x();\n".repeat(lines - 2))
}

fn with(code: &str, ratchet: &str) -> Vec<String> {
    problems(check, &[("base/a/src/x.rs", code), ("xtask/ratchet.toml", ratchet)])
}

fn exception(limit: usize) -> String {
    format!("[[function]]\npath = 'base/a/src/x.rs'\nfunction = 'f'\nlimit = {limit}\nreason = 'a table'\n")
}

#[test]
fn the_limits_are_69_and_799_lines() {
    assert_eq!(with(&function(69), ""), [""; 0]);
    one(&with(&function(70), ""), "x.rs:1: fn f has 70 lines");
    assert_eq!(with(&"// a\n".repeat(799), ""), [""; 0]);
    one(&with(&"// a\n".repeat(800), ""), "the file has 800 lines");
}

#[test]
fn an_exception_must_fit_exactly() {
    assert_eq!(with(&function(75), &exception(75)), [""; 0]);
    one(&with(&function(76), &exception(75)), "its exception allows 75");
    one(&with(&function(74), &exception(75)), "lower the limit from 75 to 74");
    one(&with(&function(60), &exception(75)), "not needed any more");
}

#[test]
fn a_file_may_have_an_exception() {
    let ratchet = "[[file]]\npath = 'base/a/src/x.rs'\nlimit = 801\nreason = 'r'\n";
    assert_eq!(with(&"// a\n".repeat(801), ratchet), [""; 0]);
    one(&with("// a\n", ratchet), "not needed any more");
}

#[test]
fn an_exception_has_a_reason() {
    one(&with("", &exception(75).replace("'a table'", "''")), "reason is missing");
    one(&with("", "limits = 3"), "only [[file]]");
    one(&problems(check, &[("a.rs", "")]), "ratchet.toml: is missing");
}

#[test]
fn tests_stand_in_files_of_their_own() {
    one(&with("#[cfg(test)]\nmod tests {\n}\n", ""), "x.rs:2: tests stand");
    assert_eq!(with("#[cfg(test)]\nmod tests;\n#[test]\nfn t() {}\n// mod tests {\n", ""), [""; 0]);
    let root = [("base/a/src/lib.rs", "#[test]\nfn t() {}\n"), ("xtask/ratchet.toml", "")];
    one(&problems(check, &root), "no tests in lib.rs");
}
