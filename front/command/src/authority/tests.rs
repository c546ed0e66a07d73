use super::parse_host;

#[test]
fn hosts_are_names_and_addresses() {
    for (text, read) in [
        ("db.example.org", "db.example.org"),
        ("DB-1", "db-1"),
        ("*.example.org", "*.example.org"),
        ("10.0.0.1", "10.0.0.1"),
        ("[2001:db8::1]", "2001:db8::1"),
        ("2001:DB8::1", "2001:db8::1"),
        ("7.example", "7.example"),
    ] {
        assert_eq!(parse_host(text).as_deref(), Ok(read), "{text}");
    }
}

#[test]
fn what_is_no_host_is_refused() {
    let (long, longer) = ("a".repeat(64), format!("{}a", "a.".repeat(127)));
    for (text, says) in [
        ("", "it is neither"),
        ("a..b", "it is neither"),
        ("-a", "it is neither"),
        ("bad host", "it is neither"),
        ("10.0.0.300", "it is neither"),
        ("a.*.b", "it is neither"),
        ("https://a", "it is neither"),
        ("a:2379", "no port belongs there"),
        (&long, "it is too long"),
        (&longer, "it is too long"),
    ] {
        let why = parse_host(text).expect_err("no host");
        assert!(why.starts_with(says) && why.contains("as in db.example.org"), "{text}: {why}");
    }
}
