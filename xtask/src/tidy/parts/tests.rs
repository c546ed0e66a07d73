use super::super::tests::one;
use super::*;

fn found(files: &[(&str, &str)]) -> Vec<String> {
    let mut findings = Findings::default();
    judge(&Repo::of(files), &mut findings);
    findings.problems
}

fn part(fields: usize) -> String {
    let fields: String =
        (0..fields).map(|at| format!("    /// One.\n    pub(crate) field_{at}: u64,\n")).collect();
    format!("pub struct Part {{\n{fields}}}\n\nimpl Part {{\n    pub fn step(&mut self) {{}}\n}}\n")
}

#[test]
fn a_part_has_few_fields() {
    assert!(found(&[("path/9-nine/src/lib.rs", &part(15))]).is_empty());
    one(&found(&[("path/9-nine/src/lib.rs", &part(16))]), "Part is stepped and has 16 fields");
    let plain = part(16).replace("fn step", "fn look");
    assert!(found(&[("path/9-nine/src/lib.rs", &plain)]).is_empty(), "it is not stepped");
    one(&found(&[("check/sim/src/world.rs", &part(16))]), "Part is stepped and has 16 fields");
    assert!(found(&[("front/nine/src/lib.rs", &part(16))]).is_empty(), "it is no stage");
}

#[test]
fn what_a_part_does_stands_in_few_files() {
    let (whole, more) = (part(2), "impl Part {\n    fn more(&self) {}\n}\n");
    let files = [
        ("host/node/src/part.rs", whole.as_str()),
        ("host/node/src/a.rs", more),
        ("host/node/src/b.rs", more),
    ];
    assert!(found(&files).is_empty());
    let four = [&files[..], &[("host/node/src/c.rs", "impl std::fmt::Debug for Part {\n}\n")]].concat();
    one(&found(&four), "in 4 files");
    let test = [&files[..], &[("host/node/src/part/tests.rs", more)]].concat();
    assert!(found(&test).is_empty(), "tests do not count");
}

#[test]
fn the_pipeline_is_short() {
    let found = |files: &[(&str, &str)]| {
        let mut findings = Findings::default();
        pipeline(&Repo::of(files), ("host/node/src/pipeline.rs", 2), &mut findings);
        findings.problems
    };
    assert!(found(&[("host/node/src/pipeline.rs", "a\nb\n")]).is_empty());
    one(&found(&[("host/node/src/pipeline.rs", "a\nb\nc\n")]), "has 3 lines");
    one(&found(&[("host/node/src/other.rs", "a\n")]), "is not there");
}
