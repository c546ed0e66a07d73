use super::*;

/// Braces in strings, comments, characters and lifetimes must not be counted, and lines must stay in place.
#[test]
fn only_code_is_left() {
    let text = "let a = \"{ \\\" {\"; // {\nlet b = '{'; /* { /* { */ { */ let c = r#\"{\"#;\nfn f<'a>(x: &'a str) {}\n";
    let code = code(text);
    assert_eq!(code.matches('{').count(), 1);
    assert_eq!(code.lines().count(), text.lines().count());
    assert!(code.contains("fn f<'a>(x: &'a str) {}"));
    assert!(code.contains("let c = "));
}

#[test]
fn escapes_and_byte_literals_are_literals() {
    for text in ["'\\''", "'\\\\'", "'\\u{1F600}'", "b'{'", "b\"{\"", "br##\"{\"#\"##", "c\"{\"", "'é'"] {
        assert!(!code(text).contains('{'), "{text}: {:?}", code(text));
        let followed = format!("{text};x{{}}");
        assert!(code(&followed).ends_with(";x{}"), "{text}: {:?}", code(&followed));
    }
    assert!(code("for\"{\"").starts_with("for"));
    assert_eq!(code("'a: loop { break 'a; }"), "'a: loop { break 'a; }");
}

#[test]
fn strings_stay_where_only_comments_go() {
    let text = without_comments("x(\"// no comment\"); // comment");
    assert!(text.contains("// no comment"));
    assert!(!text.ends_with("comment"));
}

#[test]
fn functions_have_their_lines() {
    let text = "struct S;\nimpl S {\n    fn one(&self, a: [u8; 4]) -> [u8; 2]\n    where\n        Self: Sized,\n    {\n        let s = \"}\";\n        [0; 2]\n    }\n}\ntrait T { fn none(&self); }\ntype F = fn (u8);\nfn two() {}\n";
    let found = functions(&code(text));
    assert_eq!(
        found,
        [
            Function { name: "one".into(), line: 3, lines: 7 },
            Function { name: "two".into(), line: 13, lines: 1 },
        ]
    );
}

#[test]
fn words_are_whole() {
    assert!(has_word("a Vote, b", "Vote"));
    assert!(!has_word("a PreVote, Votes, Vote_x", "Vote"));
    assert!(has_function("pub fn step(", "step"));
    assert!(has_function("fn step<T>(", "step"));
    assert!(!has_function("fn step_back(", "step"));
}
