use super::{Reads, ZooKeeperSettings};

fn read(text: &str) -> Result<ZooKeeperSettings, String> {
    let table = format!("listen = \"127.0.0.1:2181\"\n{text}").parse().expect("a table");
    ZooKeeperSettings::read(&table).map_err(|why| why.to_string())
}

#[test]
fn time_outs_are_two_to_twenty_ticks() {
    let settings = read("").expect("all have defaults");
    assert_eq!((settings.timeouts_ms(3000), settings.reads), ((6000, 60_000), Reads::Local));
    assert!(settings.answers("srvr") && !settings.answers("ruok"));
    let settings = read("session_timeout_min_ms = 100000\nreads = \"linearizable\"").expect("good");
    assert_eq!((settings.timeouts_ms(3000), settings.reads), ((100_000, 100_000), Reads::Linearizable));
}

#[test]
fn settings_that_can_not_work_are_refused_by_name() {
    for (text, says) in [
        ("port = 1", "front.zookeeper: unknown field `port`"),
        ("reads = \"fast\"", "unknown variant `fast`, expected `local` or `linearizable`"),
        ("frame_bytes = 10", "front.zookeeper: frame_bytes is 1024 to 2097152 (2 MiB), not 10"),
        ("session_timeout_max_ms = 0", "session_timeout_max_ms is 1 to 86400000, which is a day, not 0"),
        ("words = [\"ruok\", \"all\"]", "words: \"all\" has not four letters"),
        ("super_digest = \"super\"", "super_digest is name:digest"),
    ] {
        let why = read(text).expect_err(says);
        assert!(why.contains(says), "{why}");
    }
}
