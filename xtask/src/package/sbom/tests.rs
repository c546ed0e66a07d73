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
