use super::{Reads, ZooKeeperSettings};
use quorate_zookeeper::server::SaslUsers;

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
        ("admin = \"8080\"", "front.zookeeper: admin: an address is host:port, as in"),
        ("frame_bytes = 10", "front.zookeeper: frame_bytes is 1024 to 2097152 (2 MiB), not 10"),
        ("session_timeout_max_ms = 0", "session_timeout_max_ms is 1 to 86400000, which is a day, not 0"),
        ("words = [\"ruok\", \"all\"]", "words: \"all\" has not four letters"),
        ("super_digest = \"super\"", "super_digest is name:digest"),
        ("sasl_users = \"users\"", "sasl_users is a path that begins with \"/\", not \"users\""),
    ] {
        let why = read(text).expect_err(says);
        assert!(why.contains(says), "{why}");
    }
}

/// Reads a file of users with this text: the users, or the error with `FILE` for the file's path.
fn users(text: &str) -> Result<SaslUsers, String> {
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(&file, text).expect("it is written");
    let path = file.path().to_str().expect("a text");
    let settings = read(&format!("sasl_users = \"{path}\"")).expect("good");
    settings.users().map_err(|why| why.to_string().replace(path, "FILE"))
}

#[test]
fn users_are_one_a_line() {
    assert_eq!(read("").expect("good").users(), Ok(SaslUsers::default()));
    let some = SaslUsers::from_iter([("ann", "se:cr#et "), ("\u{e9}mile", "p")]);
    let text = "# who, and how\n\n  # none:none\nann:se:cr#et \r\n\u{e9}mile:p";
    assert_eq!(users(text), Ok(some));
}

#[test]
fn a_file_of_users_that_is_wrong_is_refused_by_line() {
    let form = "a user is name:password, as in ann:secret";
    let name = "a name has 1 to 1024 bytes, without white space";
    let long = format!("{}:x", "a".repeat(1025));
    for (text, says) in [
        ("ann", format!("FILE, line 1: {form}")),
        ("ann:secret\n\nbob:\n", format!("FILE, line 3: {form}")),
        ("#\n:secret", format!("FILE, line 2: {name}")),
        (" ann:secret", format!("FILE, line 1: {name}")),
        ("ann :secret", format!("FILE, line 1: {name}")),
        (&long, format!("FILE, line 1: {name}")),
        (
            "ann:a\nbob:b\nann:c",
            "FILE, line 3: each name comes once, and this one is in line 1, too".to_owned(),
        ),
        (
            "# ann:secret\n",
            "FILE has no user: write name:password in a line, or leave sasl_users out".to_owned(),
        ),
    ] {
        assert_eq!(users(text), Err(format!("front.zookeeper: sasl_users: {says}")));
    }
    let settings = read("sasl_users = \"/nowhere/users\"").expect("only its start reads it");
    let why = settings.users().expect_err("there is no such file").to_string();
    assert!(why.starts_with("front.zookeeper: sasl_users: /nowhere/users can not be read: "), "{why}");
}

#[test]
fn the_admin_server_is_there_only_where_it_is_wanted() {
    assert_eq!(read("").expect("good").admin, None);
    assert_eq!(read("admin = \"127.0.0.1:0\"").expect("good").admin.as_deref(), Some("127.0.0.1:0"));
}
