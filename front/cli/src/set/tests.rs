//! Where a line goes, and which ones are none.

use super::{SetArgs, Setting};
use quorate_command::layout::{REPLICA_FILE, replica_directory};

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

#[test]
fn what_holds_from_the_first_start_on_is_not_set_later() {
    let set = |line: &str| SetArgs { list: vec![line.parse().expect("a setting")] };
    for line in ["service.tick_ms=1", "sessions.max=1", "instances=2"] {
        set(line).refuse_first().expect_err(line);
    }
    set("front.zookeeper.plain=true").refuse_first().expect("it may change");
}

#[test]
fn a_line_with_which_no_replica_starts_is_put_nowhere() {
    let place = tempfile::tempdir().expect("a directory");
    let replica = replica_directory(place.path(), 1);
    std::fs::create_dir_all(&replica).expect("made");
    let file = replica.join(REPLICA_FILE);
    let text = "cluster = \"00000000000000000000000000000001\"\nreplica = 1\ndata = \"data\"\nplain = true\n\n[service]\nname = \
                \"zookeeper\"\n\n[[members]]\nreplica = 1\naddress = \"127.0.0.1:7000\"\nincarnation = \"0000000000000001\"\n";
    std::fs::write(&file, text).expect("written");
    let set =
        |line: &str| SetArgs { list: vec![line.parse().expect("a setting")] }.apply(place.path(), 1..=2);
    let why = set("service.tock_ms=200").expect_err("it is no key").to_string();
    assert!(why.contains("tock_ms"), "{why}");
    assert_eq!(std::fs::read_to_string(&file).expect("there"), text);
    set("service.tick_ms=200").expect("it is one");
    assert!(std::fs::read_to_string(&file).expect("there").contains("tick_ms = 200"));
    assert_eq!(std::fs::read_dir(&replica).expect("there").count(), 1, "nothing else is left");
}
