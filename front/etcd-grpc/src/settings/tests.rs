use super::EtcdSettings;
use crate::upkeep::{AutoCompaction, UpkeepConfig};
use quorate_kit::settings::SettingsError;
use std::path::Path;

fn read(text: &str) -> Result<EtcdSettings, SettingsError> {
    EtcdSettings::read(&text.parse().expect("a table"), Path::new("/etc/quorate"))
}

#[test]
fn the_key_of_tokens_lies_beside_the_file() {
    let tokens =
        |more: &str| read(&format!("listen = \"127.0.0.1:2379\"\n[tokens]\nsign_method = \"ES256\"\n{more}"));
    let good = tokens("key = \"token.pem\"").expect("settings").tokens.expect("tokens");
    assert_eq!((good.key.as_path(), good.ttl_s), (Path::new("/etc/quorate/token.pem"), 300));
    let why = tokens("key = \"token.pem\"\nttl_s = 0").expect_err("too short").to_string();
    assert_eq!(why, "front.etcd.tokens: ttl_s is 1 to 86400, which is a day, not 0");
    let why = tokens("").expect_err("no key").to_string();
    assert!(why.contains("missing field `key`") && why.contains("tokens"), "{why}");
    assert!(good.read_key().expect_err("there is none").to_string().contains("token.pem can not be read"));
}

#[test]
fn keys_that_do_not_exist_are_named() {
    assert_eq!(read("listen = \"127.0.0.1:2379\"").expect("settings").tokens, None);
    let plain = read("listen = \"127.0.0.1:2379\"").expect("settings").upkeep();
    assert_eq!(plain, UpkeepConfig { quota_bytes: 2 << 30, compaction: AutoCompaction::Off });
    let bounds = "listen = \"a:1\"\nquota_bytes = 0\nauto_compaction = \"5m\"";
    let compaction = AutoCompaction::OlderThan(std::time::Duration::from_secs(300));
    assert_eq!(read(bounds).expect("settings").upkeep(), UpkeepConfig { quota_bytes: 0, compaction });
    for (text, says) in [
        ("", "front.etcd: missing field `listen`"),
        ("listen = \"here\"", "front.etcd: listen: an address is host:port"),
        ("listen = \"a:1\"\nannounce = \"here\"", "front.etcd: announce: an address is host:port"),
        ("listen = \"a:1\"\nquota_bytes = -1", "front.etcd: invalid value: integer `-1`"),
        (
            "listen = \"a:1\"\nauto_compaction = \"often\"",
            "auto_compaction is \"1h\", \"10000 revisions\" or \"off\", not \"often\"",
        ),
        ("listen = \"a:1\"\nlisten_too = \"b:1\"", "front.etcd: unknown field `listen_too`"),
    ] {
        let why = read(text).expect_err(text).to_string();
        assert!(why.contains(says), "{why}");
    }
}
