//! Where a line goes, and which ones are none.

use super::Setting;

const TEXT: &str = "# A comment.
replica = 1

[service]
name = \"zookeeper\"

[front.zookeeper]
listen = \"127.0.0.1:2181\"
words = [\"srvr\"]

[[members]]
replica = 1
";

fn put(line: &str) -> String {
    line.parse::<Setting>().expect("a setting").put_into(TEXT)
}

#[test]
fn a_line_goes_into_its_table() {
    let text = put("service.tick_ms=200");
    assert!(text.contains("name = \"zookeeper\"\ntick_ms = 200\n\n[front"), "{text}");
    let text = put("front.zookeeper.words=[\"*\"]");
    assert!(text.contains("2181\"\nwords = [\"*\"]\n\n[[members]]"), "instead of the old one: {text}");
    let text = put("log.segment_bytes=9");
    assert!(text.contains("\n[log]\nsegment_bytes = 9\n\n[[members]]"), "a new table: {text}");
    let text = put("instances=3");
    assert!(text.contains("replica = 1\ninstances = 3\n\n[service]"), "{text}");
    let text = put("front.zookeeper.super_digest=super:D/InIHSb7yEEbrWz8b9l71RjZJU=");
    assert!(text.contains("super_digest = \"super:D/InIHSb7yEEbrWz8b9l71RjZJU=\"\n"), "{text}");
    toml::from_str::<toml::Table>(&text).expect("TOML");
}

#[test]
fn what_is_no_line_is_refused() {
    for line in ["service", "=1", "a..b=1", "a b=1", "[x]=1"] {
        line.parse::<Setting>().expect_err(line);
    }
}
