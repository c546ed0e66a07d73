use super::*;
use serde_json::json;

/// A package as cargo lists it, in the folder `x/NAME`.
fn row(name: &str, publish: Value, dependencies: Value) -> Value {
    json!({
        "name": name, "version": "1.2.3", "manifest_path": format!("/r/x/{name}/Cargo.toml"), "publish": publish,
        "description": "a", "license": "MIT", "dependencies": dependencies,
    })
}

fn found(rows: &[Value], files: &[(&str, &str)]) -> Vec<String> {
    let mut findings = Findings::default();
    check(Path::new("/r"), &json!({ "packages": rows }), &Repo::of(files), &mut findings);
    findings.problems
}

/// What is said about `a`, which is published and depends on `b`, which is published or not.
fn depends(kind: Value, requirement: &str, publish: Value) -> Vec<String> {
    let on = json!([{ "name": "b", "kind": kind, "req": requirement }]);
    found(&[row("a", Value::Null, on), row("b", publish, json!([]))], &[])
}

#[track_caller]
fn one(found: &[String], what: &str) {
    assert!(found.len() == 1 && found[0].contains(what), "wanted one problem with {what:?}: {found:#?}");
}

#[test]
fn published_packages_need_published_ones_of_the_same_version() {
    assert_eq!(depends(Value::Null, "=1.2.3", Value::Null), [""; 0]);
    one(&depends(Value::Null, "^1.2.3", Value::Null), "=1.2.3");
    one(&depends(json!("build"), "*", Value::Null), "=1.2.3");
    one(&depends(Value::Null, "*", json!([])), "which is not");
    assert_eq!(depends(json!("dev"), "*", json!([])), [""; 0]);
    one(&depends(json!("dev"), "=1.2.3", json!([])), "leave it out");
}

#[test]
fn published_packages_say_what_they_are() {
    let mut silent = row("a", Value::Null, json!([]));
    silent["description"] = Value::Null;
    one(&found(&[silent.clone()], &[]), "description");
    silent["publish"] = json!([]);
    assert_eq!(found(&[silent], &[]), [""; 0], "one that stays here needs to say nothing");
}

#[test]
fn files_outside_of_the_package_are_found() {
    let reads = |path: &str, text: &str| found(&[row("a", Value::Null, json!([]))], &[(path, text)]);
    let inside = "const A: &str = include_str!(\"../page.html\");\n";
    assert_eq!(reads("x/a/src/lib.rs", inside), [""; 0]);
    let outside = "const A: &str = include_str!(\"../../README.md\");\n";
    one(&reads("x/a/src/lib.rs", outside), "outside of its package");
    one(&reads("x/a/build.rs", "include!(\"../b/src/c.rs\");\n"), "outside");
    one(&reads("x/a/src/lib.rs", "concat!(env!(\"CARGO_MANIFEST_DIR\"), \"/../b\")\n"), "outside");
    for path in ["x/a/tests/all/main.rs", "x/a/src/b/tests.rs", "x/a/src/b/tests/c.rs", "x/other/src/lib.rs"]
    {
        assert_eq!(reads(path, outside), [""; 0], "{path}");
    }
    assert_eq!(reads("x/a/src/lib.rs", &format!("// {outside}")), [""; 0], "a comment");
    let tested = "#[cfg(doctest)]\n#[doc = include_str!(\"../../README.md\")]\nstruct Readme;\n";
    assert_eq!(reads("x/a/src/lib.rs", tested), [""; 0], "only tests of documentation read it");
}
