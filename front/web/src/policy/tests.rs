//! The page is one file with one script and one style, and nothing else that the policy would refuse.

use super::*;

#[test]
fn the_policy_names_what_the_page_has() {
    let text = policy("<style>a</style><script>b</script>");
    // SHA-256 of "b" and of "a".
    assert!(text.contains("script-src 'sha256-PiPoFgA5WUoziU9lZOGxNIu9egCI1CxKy3PurtWcAJ0='"), "{text}");
    assert!(text.contains("style-src 'sha256-ypeBEsobvcr6wjGzmiPcTaeG7/gUfE5yuYB3ha/uSLs='"), "{text}");
}

#[test]
fn the_page_keeps_to_the_policy() {
    for tag in ["script", "style"] {
        assert_eq!(PAGE.matches(&format!("<{tag}")).count(), 1, "one {tag}");
        assert!(!inside(PAGE, tag).trim().is_empty(), "with something in it");
    }
    let markup = PAGE.replace(inside(PAGE, "script"), "").replace(inside(PAGE, "style"), "");
    // The name of a language is no address.
    let markup = markup.replace("http://www.w3.org/2000/svg", "");
    for refused in
        [" style=", " onclick=", " onload=", "javascript:", "http://", "https://", "<iframe", "src="]
    {
        assert!(!markup.contains(refused), "{refused}");
    }
    for (at, _) in markup.match_indices("href=\"") {
        let to = &markup[at + 6..];
        assert!(to.starts_with('#') || to.starts_with("data:"), "{}", &to[..40.min(to.len())]);
    }
    let script = inside(PAGE, "script");
    for refused in ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("] {
        assert!(!script.contains(refused), "a text of a replica could run: {refused}");
    }
}
