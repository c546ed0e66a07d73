use super::*;

#[test]
fn times_are_those_of_the_calendar() {
    assert_eq!(timestamp(0), "1970-01-01T00:00:00Z");
    assert_eq!(timestamp(951_782_399), "2000-02-28T23:59:59Z");
    assert_eq!(timestamp(951_782_400), "2000-02-29T00:00:00Z");
    assert_eq!(timestamp(1_735_689_599), "2024-12-31T23:59:59Z");
}

#[test]
fn a_package_has_the_name_that_others_understand() {
    assert_eq!(purl(&json!({"name": "a", "version": "1.0.0+b"})), "pkg:cargo/a@1.0.0%2Bb");
}

/// What only tests, benchmarks or builds need is no part of the program, and neither is what a feature would bring that is off.
#[test]
fn the_list_has_what_is_linked_and_nothing_else() {
    let facts = Facts::read(&crate::root()).unwrap();
    let document: Value = serde_json::from_str(&document(&facts).unwrap()).unwrap();
    let components = document["components"].as_array().unwrap();
    let names: BTreeSet<&str> =
        components.iter().filter_map(|component| component["name"].as_str()).collect();
    for linked in ["aws-lc-sys", "libmimalloc-sys", "rustls", "quorate", "quorate-sim"] {
        assert!(names.contains(linked), "{linked} is missing");
    }
    for other in
        ["proptest", "imbl", "protox", "ring", "serde_derive", "quorate-skipped", "xtask", "quorate-cli"]
    {
        assert!(!names.contains(other), "{other} is there");
    }
    let borrowed =
        components.iter().filter(|c| !c["name"].as_str().unwrap_or_default().starts_with("quorate"));
    for component in borrowed {
        let has = |key: &str| component[key][0].is_object();
        assert!(has("licenses") && has("hashes"), "{component}");
    }
}
