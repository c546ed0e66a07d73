use super::diff;

fn lines(text: &str) -> Vec<String> {
    text.split_whitespace().map(Into::into).collect()
}

#[test]
fn keeps_what_is_common() {
    assert_eq!(diff(&lines("a b c"), &lines("a x c d")), "    a\n  - b\n  + x\n    c\n  + d\n");
    assert_eq!(diff(&lines("a b"), &lines("b")), "  - a\n    b\n");
    assert_eq!(diff(&[], &lines("a")), "  + a\n");
    assert_eq!(diff(&[], &[]), "");
}
