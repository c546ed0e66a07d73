use super::{ServiceArg, ServiceChoice, parse_own_service, parse_service};

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

#[test]
fn a_service_is_one_of_this_program_or_any_other() {
    assert_eq!(parse_service("etcd"), Ok(ServiceArg::Ours(ServiceChoice::Etcd)));
    assert_eq!(parse_service("bank"), Ok(ServiceArg::Own("bank".into())));
    for (wrong, right) in [("etdc", "etcd"), ("etcd3", "etcd"), ("zookeper", "zookeeper"), ("taly", "tally")]
    {
        let why = parse_service(wrong).expect_err("a slip");
        assert!(why.contains(&format!("did you mean {right}?")), "{wrong}: {why}");
    }
    for own in ["kvs", "etc", "work2go", "echoes", "keeper"] {
        let is_own = matches!(parse_service(own), Ok(ServiceArg::Own(_)));
        assert_eq!(is_own, own != "etc", "{own}");
    }
    assert!(parse_service("a b").expect_err("a space").contains("letters, digits"));
}
