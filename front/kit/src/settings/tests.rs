use super::{SettingsError, address, range, read};

#[derive(Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Lines {
    listen: String,
    #[serde(default)]
    most: u64,
}

fn lines(text: &str) -> Result<Lines, SettingsError> {
    read("front.lines", &text.parse().expect("a table"))
}

#[test]
fn what_is_wrong_is_named_with_its_table() {
    let good = lines("listen = \"a:1\"\nmost = 3");
    assert_eq!(good, Ok(Lines { listen: "a:1".into(), most: 3 }));
    for (text, says) in [
        ("listen = \"a:1\"\nmoust = 3", "unknown field `moust`, expected `listen` or `most`"),
        ("most = 3", "missing field `listen`"),
        ("listen = 3", "invalid type: integer `3`, expected a string"),
    ] {
        let why = lines(text).expect_err(text).to_string();
        assert!(why.starts_with("front.lines: ") && why.contains(says), "{why}");
    }
}

#[test]
fn values_that_can_not_work_are_refused_with_what_would() {
    for good in ["127.0.0.1:0", "[::1]:2379", "host:65535"] {
        assert_eq!(address("front.lines", "listen", good), Ok(()));
    }
    for bad in ["", "host", "host:", ":1", "host:65536"] {
        let why = address("front.lines", "listen", bad).expect_err(bad).to_string();
        assert!(why.starts_with("front.lines: listen: an address is host:port"), "{why}");
    }
    let most = |value: u64| range("front.lines", "most", value, (1..=10, "10, which is many"));
    assert_eq!(most(10), Ok(()));
    let why = most(0).expect_err("too few").to_string();
    assert_eq!(why, "front.lines: most is 1 to 10, which is many, not 0");
}
