use super::{complete, read_config};
use crate::etcd;
use quorate_runtime::{Config, MemberConfig, ServiceConfig};
use quorate_types::ClusterId;
use std::path::Path;

fn service(name: &str, settings: &str) -> Result<ServiceConfig, String> {
    let mut service = ServiceConfig { name: name.into(), settings: settings.parse().expect("a table") };
    complete(&mut service).map(|()| service).map_err(|why| why.to_string())
}

#[test]
fn what_is_left_out_is_what_it_would_be() {
    let whole = service("kv", "key_bytes = 4096\nvalue_bytes = 1048576");
    assert_eq!(service("kv", "").expect("defaults"), whole.expect("the same"));
    assert_eq!(service("tally", ""), Ok(ServiceConfig::named("tally")));
}

#[test]
fn services_and_settings_that_can_not_work_are_refused_by_name() {
    for (name, settings, says) in [
        ("", "", "service: name: say which runs"),
        ("kv", "keybytes = 1", "service: unknown field `keybytes`"),
        ("echo", "key_bytes = 1", "service: unknown field `key_bytes`"),
        ("zookeeper", "tick_ms = 5", "service: tick_ms is 20 to 600000, which is ten minutes, not 5"),
        ("kv", "key_bytes = 0", "service: key_bytes is 1 to 65536, not 0"),
        ("kv", "value_bytes = 2097153", "service: value_bytes is 1 to 2097152 (2 MiB), not 2097153"),
    ] {
        let why = service(name, settings).expect_err(says);
        assert!(why.contains(says), "{why}");
    }
}

#[test]
fn a_service_of_ones_own_has_a_configuration_and_is_not_run_here() {
    let own = service("bank", "limit = 5").expect("its program knows its settings");
    let refused = super::service(&own, &super::Ways::default()).err().expect("it is not here").to_string();
    assert!(
        refused.contains("service: name: there is no \"bank\"; this program has \"kv\", \"etcd\""),
        "{refused}"
    );
    assert!(refused.contains("in a program of your own"), "{refused}");
}

#[test]
fn fronts_are_checked_when_a_configuration_is_read() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("replica.toml");
    let member = MemberConfig {
        replica: 1,
        address: "127.0.0.1:1".into(),
        links: Vec::new(),
        incarnation: "1".repeat(16),
        key: None,
    };
    let mut config = Config::new(ClusterId::new(7), 1, "data".into(), vec![member]);
    config.plain = true;
    let mut read = |service: &str, front: &str| {
        config.service = ServiceConfig::named(service);
        std::fs::write(&file, format!("{}\n{front}", config.to_toml())).expect("written");
        read_config(&file).map_err(|why| why.to_string())
    };
    let good = read("etcd", "[front.etcd]\nlisten = \"127.0.0.1:2379\"").expect("a configuration");
    assert_eq!(good.front_addresses()["etcd"], "127.0.0.1:2379");
    for (service, front, says) in [
        ("etcd", "[front.etcd]\nlisten = \"127.0.0.1\"", "front.etcd: listen: an address is host:port"),
        ("etcd", "[front.etcd]\nport = 1", "front.etcd: unknown field `port`, expected one of `listen`"),
        (
            "etcd",
            "[front.consul]",
            "front: there is no \"consul\"; this program has \"etcd\" and \"zookeeper\"",
        ),
        ("etcd", "[front.zookeeper]", "write name = \"zookeeper\" in [service], too: the service \"etcd\""),
        (
            "kv",
            "[front.etcd]\nlisten = \"a:1\"",
            "write name = \"etcd\" in [service], too: the service \"kv\"",
        ),
    ] {
        let why = read(service, front).expect_err(says);
        assert!(why.contains(says) && why.contains("replica.toml"), "{why}");
    }
}

/// A replica that joins gets the settings of another one, in a directory of its own.
#[test]
fn the_key_of_tokens_is_found_from_another_directory() {
    let taken = |text: &str| {
        let mut table: toml::Table = text.parse().expect("a table");
        etcd::take_along(&mut table, Path::new("/prod/replica-1"));
        table.to_string()
    };
    assert!(taken("tokens = { key = \"token.pem\" }").contains("\"/prod/replica-1/token.pem\""));
    assert!(taken("tokens = { key = \"/etc/token.pem\" }").contains("\"/etc/token.pem\""));
    assert_eq!(taken("listen = \"a:1\""), "listen = \"a:1\"\n");
}
