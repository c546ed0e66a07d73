use super::super::tests::one;
use super::*;

fn found(files: &[(&str, &str)]) -> Vec<String> {
    let mut findings = Findings::default();
    check(&Repo::of(files), &mut findings);
    findings.problems
}

#[test]
fn a_part_knows_those_before_it() {
    assert!(found(&[("host/node/src/engine/mod.rs", "use crate::gate::Permissions;\n")]).is_empty());
    one(&found(&[("host/node/src/gate/mod.rs", "use crate::engine::Engine;\n")]), "gate imports engine");
    one(
        &found(&[("host/node/src/gate/mod.rs", "let all = crate::node::Node::new();\n")]),
        "gate imports node",
    );
    assert!(found(&[("host/node/src/gate/mod.rs", "// as in crate::engine\n")]).is_empty(), "a comment");
    assert!(found(&[("host/node/src/gate/tests.rs", "x"), ("host/node/src/gate/mod.rs", "y")]).is_empty());
}

#[test]
fn what_joins_parts_may_know_all_of_them() {
    let files =
        [("host/node/src/node.rs", "use crate::reconfigure::Look;\n"), ("host/node/src/gate/mod.rs", "")];
    assert!(found(&files).is_empty());
    one(&found(&[("host/node/src/node.rs", "")]), "there is no part");
}
