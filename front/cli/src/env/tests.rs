use super::quoted;
use std::process::Command;

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
