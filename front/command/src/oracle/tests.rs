use super::*;
use quorate_types::Visigoth;

const FEW: FaultModel = FaultModel::Visigoth(Visigoth { u: 2, s: 1, o: 0, t_ms: 50 });

fn args(word: &str) -> OracleArgs {
    OracleArgs { oracle: Some(word.parse().expect("an oracle")) }
}

#[test]
fn addresses_are_taken_as_they_are() {
    let etcd = args("etcd:10.0.0.1:2379,10.0.0.2:2379").of(FEW).expect("it fits");
    let endpoints = vec!["10.0.0.1:2379".to_owned(), "10.0.0.2:2379".to_owned()];
    assert_eq!(etcd, Some(OracleConfig::Etcd { endpoints, tls: None }));
    let servers = vec!["zoo:2181".to_owned()];
    assert_eq!(
        args("zookeeper:zoo:2181").of(FEW).expect("it fits"),
        Some(OracleConfig::Zookeeper { servers })
    );
    let because = "one switch: all or none".to_owned();
    assert_eq!(
        args("none:one switch: all or none").of(FEW).expect("it fits"),
        Some(OracleConfig::None { because })
    );
}

#[test]
fn what_can_not_be_is_refused_with_what_to_write() {
    for word in ["etcd", "etcd:", "consul:10.0.0.1:8500", "none", "none:", ""] {
        let why = word.parse::<OracleWord>().expect_err(word);
        assert!(why.contains("etcd:HOST:PORT"), "{why}");
    }
    let refused =
        |args: OracleArgs, model: FaultModel| args.of(model).expect_err("it does not fit").to_string();
    assert!(refused(OracleArgs::default(), FEW).contains("--oracle"));
    assert!(refused(args("etcd:10.0.0.1:2379"), FaultModel::Crash).contains("leave --oracle out"));
    let lies = FaultModel::Visigoth(Visigoth { u: 2, s: 1, o: 1, t_ms: 50 });
    assert!(refused(args("none:why not"), lies).contains("there must be an oracle"));
    assert!(refused(args("quorate:/nowhere/client.toml"), FEW).contains("/nowhere/client.toml"));
}
