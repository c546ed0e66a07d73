use super::super::tests::{one, problems};
use super::*;

fn package(folder: &str, imports: &[(&str, bool)]) -> Package {
    Package {
        name: "p".into(),
        folder: folder.into(),
        imports: imports.iter().map(|(to, dev)| ((*to).into(), *dev)).collect(),
    }
}

fn found(packages: &[Package]) -> Vec<String> {
    let mut findings = Findings::default();
    check(packages, &mut findings);
    findings.problems
}

fn import(from: &str, to: &str, dev: bool) -> Vec<String> {
    found(&[package(from, &[(to, dev)])])
}

#[test]
fn imports_downwards_are_fine() {
    for (from, to) in [
        ("base/wire", "base/types"),
        ("path/3-order", "base/wire"),
        ("path/3-order", "path/2-admit"),
        ("path/5-execute", "side/state"),
        ("host/node", "side/state"),
        ("front/cli", "host/quorate"),
        ("check/sim", "host/node"),
        ("check/sim", "front/kv"),
    ] {
        assert_eq!(import(from, to, false), [""; 0], "{from} -> {to}");
    }
}

#[test]
fn imports_upwards_are_found_in_tests_too() {
    for (from, to) in [
        ("base/types", "base/wire"),
        ("base/wire", "path/3-order"),
        ("path/3-order", "host/node"),
        ("side/state", "path/5-execute"),
        ("side/state", "host/node"),
        ("host/quorate", "front/kv"),
        ("host/node", "check/sim"),
        ("xtask", "base/types"),
        ("misc/x", "base/types"),
    ] {
        for dev in [false, true] {
            assert!(!import(from, to, dev).is_empty(), "{from} -> {to}");
        }
    }
}

#[test]
fn a_stage_imports_no_later_stage() {
    one(&import("path/2-admit", "path/3-order", false), "later");
    one(&import("path/2-admit", "path/5-execute", false), "later");
}

#[test]
fn the_laboratory_may_run_what_is_a_command_and_the_program_tests_with_the_rest() {
    assert_eq!(import("front/lab", "check/floor", false), [""; 0]);
    assert_eq!(import("front/lab", "check/sim", false), [""; 0]);
    one(&import("front/lab", "check/script", false), "nobody imports check");
    assert_eq!(import("front/cli", "check/script", true), [""; 0]);
    one(&import("front/cli", "check/sim", false), "nobody imports check");
    one(&import("front/web", "check/floor", false), "nobody imports check");
}

#[test]
fn the_laboratory_is_the_programs_alone() {
    assert_eq!(import("front/cli", "front/lab", false), [""; 0]);
    one(&import("front/etcd-grpc", "front/lab", false), "by the program alone");
    one(&import("check/sim", "front/lab", true), "by the program alone");
}

#[test]
fn what_fronts_share_imports_none_of_them() {
    assert_eq!(import("front/etcd-grpc", "front/kit", false), [""; 0]);
    one(&import("front/kit", "front/etcd-grpc", true), "imports none of them");
    one(&import("front/kit", "front/command", false), "imports none of them");
    one(&import("front/command", "front/kit", false), "imports none of them");
}

#[test]
fn packages_are_few_and_carry_no_number() {
    let many: Vec<Package> = (0..37).map(|_| package("base/x", &[])).collect();
    one(&found(&many), "37 packages");
    let mut numbered = package("path/3-order", &[]);
    numbered.name = "quorate-3-order".into();
    one(&found(&[numbered]), "carries a number");
}

#[test]
fn metadata_is_read() {
    let json = serde_json::json!({"packages": [{
    "name": "quorate-wire", "manifest_path": "/r/base/wire/Cargo.toml",
    "dependencies": [
        {"name": "bytes", "kind": null},
        {"name": "quorate-types", "kind": null, "path": "/r/base/types"},
        {"name": "quorate-script", "kind": "dev", "path": "/r/check/script"},
    ]}]});
    let packages = packages(Path::new("/r"), &json).unwrap();
    assert_eq!(packages[0].folder, "base/wire");
    assert_eq!(packages[0].imports, [("base/types".into(), false), ("check/script".into(), true)]);
}

#[test]
fn a_protocol_names_no_other() {
    let at = "path/3-order/src/raft/vote.rs";
    assert_eq!(problems(check_protocols, &[(at, "use crate::raft::log; // visigoth::x\n")]), [""; 0]);
    one(
        &problems(check_protocols, &[(at, "\nuse crate::mod_smart::lock;\n")]),
        "vote.rs:2: raft imports mod_smart",
    );
    one(&problems(check_protocols, &[(at, "use crate::{log, mod_smart::T};\n")]), "mod_smart");
    // That is no protocol: it says which sets are quorums.
    assert_eq!(problems(check_protocols, &[(at, "use crate::{log, visigoth::T};\n")]), [""; 0]);
    let shared = "path/3-order/src/choose.rs";
    assert_eq!(
        problems(check_protocols, &[(shared, "use crate::mod_smart::T; use crate::raft::U;")]),
        [""; 0]
    );
}
