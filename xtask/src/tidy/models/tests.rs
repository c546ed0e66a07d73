use super::super::tests::{one, problems};
use super::*;

#[test]
fn a_model_is_compared_where_something_is_configured() {
    let compares = "fn f() -> bool {\n    model == FaultModel::Byzantine\n}\n";
    one(&problems(check, &[("path/3-order/src/a.rs", compares)]), "compares a fault model");
    for path in ["host/runtime/src/config/a.rs", "path/3-order/src/a/tests.rs", "base/types/src/trust.rs"] {
        assert!(problems(check, &[(path, compares)]).is_empty(), "{path}");
    }
}

#[test]
fn an_arm_of_a_match_compares_as_well() {
    let arm = "fn f() {\n    match model {\n        FaultModel::Crash => {}\n        _ => {}\n    }\n}\n";
    one(&problems(check, &[("host/node/src/a.rs", arm)]), ":3:");
}

#[test]
fn to_name_one_is_no_comparison() {
    let names =
        "fn f() -> Faults {\n    // model == FaultModel::Crash\n    Faults::of(FaultModel::Crash)\n}\n";
    assert!(problems(check, &[("host/node/src/a.rs", names)]).is_empty());
}
