use super::{amount, clean, json_line, quoted};
use serde_json::json;
use std::process::Command;

#[test]
fn amounts_have_three_digits_and_a_letter() {
    let shown = [0.5, 12.34, 999.96, 53_488_000.0, 2e9].map(amount);
    assert_eq!(shown, ["0.50", "12.3", "1000", "53.5 M", "2.00 G"]);
}

/// Escapes of terminals, the control characters of one byte and of two, marks that turn the direction of writing, and an accent that
/// would sit on the character before.
const HOSTILE: &str = "a\u{1b}[2Jb\r\n\tc\u{7f}\u{9b}2J\u{202e}d\u{301}\u{2028}e";

#[test]
fn what_can_not_be_printed_is_escaped() {
    assert_eq!(clean(HOSTILE), "a\\u{1b}[2Jb\\r\\n\\tc\\u{7f}\\u{9b}2J\\u{202e}d\\u{301}\\u{2028}e");
    let harmless = "it's \"done\": C:\\x größer 東 µs ✓";
    assert_eq!(clean(harmless), harmless);
}

#[test]
fn a_document_with_hostile_text_is_one_printable_line_and_keeps_it() {
    let document = json!({ "text": HOSTILE, "far": "\u{e0001}", "plain": "größer" });
    let line = json_line(&document);
    assert_eq!(clean(&line), line);
    assert_eq!(serde_json::from_str::<serde_json::Value>(&line).expect("JSON"), document);
    assert!(line.contains(r"\u001b[2J") && line.contains(r"\u009b2J") && line.contains("größer"), "{line}");
}

#[test]
fn a_shell_reads_back_what_is_quoted() {
    for text in
        ["", "/tmp/a b", "it's", "$HOME `id` \"x\"", "https://a:1,https://b:2", "a\nb", "-n", "~", "ü", "*"]
    {
        let script = format!("v={}; printf %s \"$v\"", quoted(text));
        let out = Command::new("sh").args(["-c", &script]).output().expect("a shell");
        assert_eq!(String::from_utf8_lossy(&out.stdout), text, "{script}");
    }
    assert_eq!(quoted("https://a:1,https://b:2"), "https://a:1,https://b:2", "what needs no quotes has none");
}
