use super::ServiceName;

#[test]
fn a_name_needs_no_quoting_and_is_not_too_long() {
    for text in ["", "bank", "the-bank_2", "B", &"x".repeat(64)] {
        let name = ServiceName::new(text).expect(text);
        assert_eq!((name.as_str(), name.is_none()), (text, text.is_empty()));
    }
    for text in ["a b", "bänk", "a/b", "a\"", &"x".repeat(65)] {
        assert_eq!(ServiceName::new(text), None, "{text}");
    }
}

#[test]
fn a_side_without_a_name_differs_from_nobody() {
    let name = |text| ServiceName::new(text).expect("a name");
    assert!(name("bank").differs(&name("kv")));
    assert!(!name("bank").differs(&name("bank")));
    assert!(!name("").differs(&name("bank")) && !name("bank").differs(&name("")));
}
