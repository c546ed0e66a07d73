use super::parse_own_service;

#[test]
fn an_own_service_has_a_name_that_needs_no_quoting() {
    for name in ["bank", "my-bank_2", &"x".repeat(64)] {
        assert_eq!(parse_own_service(name), Ok(name.to_owned()));
    }
    for wrong in ["", "my bank", "a\"b", "a.b", &"x".repeat(65)] {
        assert!(parse_own_service(wrong).expect_err(wrong).contains("letters, digits"));
    }
}

/// Replicas with such a name and another program would come to another state.
#[test]
fn an_own_service_is_none_of_this_programs() {
    assert!(parse_own_service("etcd").expect_err("ours").contains("--service etcd"));
}
