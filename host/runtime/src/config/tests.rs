use super::{
    AdministrationConfig, CheckpointMode, Config, MemberConfig, NewKeys, OracleConfig, ServiceConfig,
    SigningConfig, SigningKey,
};
use quorate_log::SyncMode;
use quorate_order::Protocol;
use quorate_types::{ClusterId, FaultModel, ReplicaId, Visigoth};
use std::collections::BTreeSet;

fn config() -> Config {
    let member = MemberConfig {
        replica: 1,
        address: "127.0.0.1:1".into(),
        links: Vec::new(),
        incarnation: "1".repeat(16),
        key: None,
    };
    Config::new(ClusterId::new(7), 1, "data".into(), vec![member])
}

fn changed(change: impl FnOnce(&mut Config)) -> Config {
    let mut config = config();
    change(&mut config);
    config
}

/// Replicas refuse a member with another digest of parameters.
#[test]
fn what_is_agreed_about_checkpoints_is_in_the_digest() {
    let agreed = [
        config(),
        changed(|c| c.checkpoints.mode = CheckpointMode::Full),
        changed(|c| c.checkpoints.mode = CheckpointMode::Staggered),
        changed(|c| c.checkpoints.interval_bytes += 1),
        changed(|c| c.checkpoints.interval_state_percent += 1),
        changed(|c| c.checkpoints.interval_bytes_max += 1),
        changed(|c| c.checkpoints.ahead_percent += 1),
        changed(|c| c.checkpoints.full_every += 1),
    ];
    let digests: BTreeSet<u64> = agreed.iter().map(|config| config.parameters(1)).collect();
    assert_eq!(digests.len(), agreed.len(), "each differs from every other");
}

/// Whoever promises, and for how long, and who counts on it: all alike. Without leases the times are each replica's own.
#[test]
fn leases_are_in_the_digest() {
    let agreed = [
        config(),
        changed(|c| c.reads.lease = true),
        changed(|c| (c.reads.lease, c.reads.clock_drift_percent) = (true, 20)),
        changed(|c| (c.reads.lease, c.timing.election_min_ms) = (true, 400)),
    ];
    let digests: BTreeSet<u64> = agreed.iter().map(|config| config.parameters(1)).collect();
    assert_eq!(digests.len(), agreed.len(), "each differs from every other");
    let own = changed(|c| (c.timing.election_min_ms, c.reads.clock_drift_percent) = (400, 20));
    assert_eq!(own.parameters(1), config().parameters(1));
    assert_eq!(changed(|c| c.reads.lease = true).execution(1), config().execution(1));
}

/// Replicas that agree in different ways must not meet, nor may one go on with the log of another way.
/// Four replicas that survive one that lies; this is the first.
fn byzantine(directory: &std::path::Path) -> Config {
    let keys: Vec<SigningKey> = (1..=4).map(|n| SigningKey::new([n; 32])).collect();
    let members = keys.iter().zip(1..).map(|(key, replica)| MemberConfig {
        replica,
        address: format!("127.0.0.1:700{replica}"),
        links: Vec::new(),
        incarnation: "1".repeat(16),
        key: Some(key.public()),
    });
    let file = directory.join("signing.key");
    std::fs::write(&file, keys[0].to_text()).unwrap();
    let mut config = changed(|c| (c.fault_model, c.protocol) = (FaultModel::Byzantine, Protocol::MOD_SMART));
    config.members = members.collect();
    config.signing = Some(SigningConfig { key: file });
    config
}

/// Heavy votes need spare members, and just as many heavy ones as the faults ask for.
#[test]
fn heavy_members_are_just_as_many_as_are_needed() {
    let crash = |members: usize, change: fn(&mut Config)| {
        let mut config =
            changed(|c| (c.protocol, c.faults, c.heavy) = (Protocol::MOD_SMART, Some(1), vec![1]));
        let first = config.members[0].clone();
        config.members =
            (1..=members as u16).map(|replica| MemberConfig { replica, ..first.clone() }).collect();
        change(&mut config);
        config
    };
    let good = crash(5, |_| {});
    good.check_protocol().unwrap();
    assert_eq!(good.survives().among(5).heavy(), 1);
    assert!(good.agreed_protocol().ends_with(" faults 1 heavy [1]"), "{}", good.agreed_protocol());
    let refused = [
        (crash(3, |_| {}), "3 members are no more than are needed"),
        (crash(5, |c| c.faults = None), "5 members are no more than are needed"),
        (crash(5, |c| c.heavy = vec![1, 2]), "name exactly 1 of the members"),
        (crash(5, |c| c.heavy = vec![9]), "name exactly 1 of the members"),
        (crash(5, |c| c.heavy = vec![1, 1]), "name exactly 1 of the members"),
        (crash(5, |c| c.protocol = Protocol::RAFT), "all votes count alike: leave it out, or write protocol"),
    ];
    for (config, what) in refused {
        let why = config.check_protocol().expect_err(what).to_string();
        assert!(why.contains("heavy: ") && why.contains(what), "{why}");
    }
    // Who joins has another list of members.
    crash(3, |c| c.membership = 2).check_protocol().unwrap();
}

/// A later key lies beside the first one, which need not be there any more; a replica that runs finds it.
#[test]
fn later_keys_lie_beside_the_first_one() {
    let directory = tempfile::tempdir().unwrap();
    let config = byzantine(directory.path());
    let first = directory.path().join("signing.key");
    let (one, later) = (SigningKey::new([1; 32]), SigningKey::new([9; 32]));
    let public = |key: &SigningKey| *key.secret().public().bytes();
    let mut new = NewKeys::beside(&first);
    assert!(new.look().is_empty());
    let file = later.beside(&first);
    let name = format!("signing.key.{}", &later.public()[..16]);
    assert_eq!(file.file_name().unwrap().to_str(), Some(&name[..]));
    std::fs::write(&file, later.to_text()).unwrap();
    std::fs::write(directory.path().join("signing.key.unfinished"), "1").unwrap();
    assert_eq!(new.look().into_iter().collect::<Result<Vec<_>, _>>().unwrap(), std::slice::from_ref(&later));
    assert!(new.look().is_empty(), "it is read once");
    let keys = config.signing_keys().unwrap();
    assert!(keys.holds(&public(&one)) && keys.holds(&public(&later)));
    std::fs::remove_file(&first).unwrap();
    let keys = config.signing_keys().unwrap();
    assert!(!keys.holds(&public(&one)) && keys.holds(&public(&later)));
    std::fs::write(&file, "12").unwrap();
    assert!(config.signing_keys().unwrap_err().to_string().contains("64 hexadecimal digits"));
    std::fs::remove_file(&file).unwrap();
    assert!(config.signing_keys().unwrap_err().to_string().contains("nobody else has it"));
}

/// Each refusal names the key and what to write instead.
#[test]
fn replicas_that_sign_need_their_keys() {
    let directory = tempfile::tempdir().unwrap();
    let good = byzantine(directory.path());
    good.check_signing().unwrap();
    assert!(matches!(good.signing_keys().unwrap(), quorate_auth::Keys::Ed25519(_)));
    let with = |change: fn(&mut Config)| {
        let mut config = good.clone();
        change(&mut config);
        config
    };
    let refused = [
        (with(|c| c.members.truncate(3)), "needs 4"),
        (with(|c| c.signing = None), "[signing]"),
        (with(|c| c.members[2].key = None), "replica 3 needs its public key"),
        (with(|c| c.members[2].key = Some("00".repeat(32))), "replica 3 needs its public key"),
        (
            with(|c| (c.fault_model, c.signing, c.sessions.require_signed) = (FaultModel::Crash, None, true)),
            "nobody checks signatures",
        ),
    ];
    for (config, what) in refused {
        let why = config.check_signing().expect_err(what).to_string();
        assert!(why.contains(what), "{why}");
    }
    with(|c| c.fault_model = FaultModel::Crash)
        .check_signing()
        .expect("keys for an era in which some may lie");
    let other = with(|c| c.replica = 2);
    assert!(
        other
            .signing_keys()
            .unwrap_err()
            .to_string()
            .contains("not the key that the members know replica 2 by")
    );
    std::fs::write(directory.path().join("signing.key"), "12").unwrap();
    assert!(good.signing_keys().unwrap_err().to_string().contains("64 hexadecimal digits"));
    // Who joins later knows other members, but the same administrators.
    let other = with(|c| c.members[2].key = c.members[1].key.clone());
    assert_eq!(good.parameters(1), other.parameters(1));
    let keys = vec![good.members[0].key.clone().unwrap()];
    let administered =
        Config { administration: Some(AdministrationConfig { keys, threshold: 1 }), ..good.clone() };
    assert_eq!(administered.administrators().unwrap().unwrap().keys().len(), 1);
    assert_ne!(good.parameters(1), administered.parameters(1));
    for (threshold, key) in [(2, good.members[0].key.clone().unwrap()), (1, "12".to_owned())] {
        let wrong = AdministrationConfig { keys: vec![key], threshold };
        assert!(Config { administration: Some(wrong), ..good.clone() }.administrators().is_err());
    }
}

/// Fewer faults than the members allow can be chosen, not more; and all replicas have to choose the same.
#[test]
fn how_many_faults_are_survived_can_be_chosen() {
    let directory = tempfile::tempdir().unwrap();
    let mut config = byzantine(directory.path());
    config.members = (0..2).flat_map(|_| config.members.clone()).collect();
    let parameters = config.parameters(1);
    assert_eq!(config.survives().among(8).faults(), 2);
    config.faults = Some(1);
    config.check_protocol().unwrap();
    assert_eq!((config.survives().among(8).faults(), config.survives().may_lie()), (1, true));
    assert_ne!(config.parameters(1), parameters);
    for wrong in [0, 3] {
        config.faults = Some(wrong);
        let why = config.check_protocol().expect_err("too few, or too many").to_string();
        assert!(why.contains("8 members survive 2 \"byzantine\" faults at most"), "{why}");
    }
}

/// The numbers of the Visigoth model must fit the members, and all replicas have to write the same.
#[test]
fn the_numbers_of_the_faults_can_be_chosen_one_by_one() {
    let directory = tempfile::tempdir().unwrap();
    let mut config = byzantine(directory.path());
    config.members = (0..2).flat_map(|_| config.members.clone()).take(6).collect();
    let of = |u, s, o, t_ms| FaultModel::Visigoth(Visigoth { u, s, o, t_ms });
    config.fault_model = of(2, 2, 1, 0);
    config.check_protocol().unwrap();
    let trust = config.survives().among(6);
    assert_eq!((trust.faults(), trust.agreement(), trust.truth()), (2, 4, 2));
    let parameters = config.parameters(1);
    for (model, word) in [
        (of(2, 2, 2, 0), "6 replicas are too few: n >= u + min(u,s) + o + 1 = 2 + 2 + 2 + 1 = 7"),
        (of(3, 1, 2, 50), "write o = 1 or less, or s = 2"),
        (of(1, 1, 2, 0), "o = 2"),
    ] {
        config.fault_model = model;
        let why = config.check_protocol().expect_err(word).to_string();
        assert!(why.contains(word), "{why}");
        assert_ne!(config.parameters(1), parameters);
    }
    (config.fault_model, config.faults) = (of(2, 2, 1, 0), Some(1));
    assert!(config.check_protocol().expect_err("u says it").to_string().contains("leave it out"));
}

/// Where few replicas are slow, they ask an oracle, which is the same for all.
#[test]
fn few_slow_replicas_need_an_oracle() {
    let etcd = |endpoint: &str| OracleConfig::Etcd { endpoints: vec![endpoint.to_owned()], tls: None };
    let of = |t_ms| FaultModel::Visigoth(Visigoth { u: 2, s: 1, o: 0, t_ms });
    let mut config = config();
    let first = config.members[0].clone();
    config.members = (1..=4).map(|replica| MemberConfig { replica, ..first.clone() }).collect();
    let refused = |config: &Config, word: &str| {
        let checked = config.check_protocol().and_then(|()| config.check_oracle_section());
        let why =
            checked.and_then(|()| config.check_oracle(config.oracle.is_some())).expect_err(word).to_string();
        assert!(why.contains(word), "{why}");
    };
    config.oracle = Some(etcd("10.0.0.1:2379"));
    refused(&config, "leave the section out");
    (config.fault_model, config.oracle) = (of(50), None);
    refused(&config, "write protocol = \"mod-smart\"");
    config.protocol = Protocol::MOD_SMART;
    refused(&config, "Name a service in the section [oracle]");
    config.oracle = Some(etcd("10.0.0.1:2379"));
    config.check_protocol().and_then(|()| config.check_oracle_section()).unwrap();
    let other = Config { oracle: Some(etcd("10.0.0.2:2379")), ..config.clone() };
    assert_ne!(config.parameters(1), other.parameters(1), "two oracles would each grant a half");
    for (oracle, word) in [
        (etcd("10.0.0.1"), "host:port"),
        (OracleConfig::Zookeeper { servers: vec![] }, "at least one address"),
        (OracleConfig::Quorate { cluster: "7".into(), client: "c".into() }, "32 hexadecimal digits"),
    ] {
        refused(&Config { oracle: Some(oracle), ..config.clone() }, word);
    }
    // Who does without one writes down why, and all agree on it.
    let without = |because: &str| OracleConfig::None { because: because.into() };
    refused(&Config { oracle: Some(without(" ")), ..config.clone() }, "write down why");
    let alone = Config { oracle: Some(without("two switches")), ..config.clone() };
    alone.check_with(true).expect_err("one in the options, and none in the file");
    let order = |config: &Config| {
        config
            .order_config(ReplicaId::new(1), vec![ReplicaId::new(1)], SyncMode::Group, 1)
            .expect("it fits")
            .oracle
    };
    assert_eq!((order(&config), order(&alone)), (true, false));
    let another = Config { oracle: Some(without("a fast network")), ..config.clone() };
    assert_eq!(alone.parameters(1), another.parameters(1));
    assert_ne!(alone.parameters(1), config.parameters(1), "some would ask, and others not");
    // The same words must mean the same on each machine.
    refused(
        &Config {
            oracle: Some(OracleConfig::Quorate { cluster: config.cluster.clone(), client: "c".into() }),
            ..config.clone()
        },
        "itself",
    );
    for wrong in ["localhost:2379", "127.0.0.1:2379", "[::1]:2379"] {
        let here = Config { oracle: Some(etcd(wrong)), ..config.clone() };
        here.check_oracle_section().expect("all replicas are on this machine");
        let mut apart = here;
        apart.members[0].address = "10.0.0.1:7000".into();
        refused(&apart, "name one that means the same everywhere");
    }
    for (t_ms, word) in [(0, "t_ms"), (150, "less than half")] {
        refused(&Config { fault_model: of(t_ms), ..config.clone() }, word);
    }
}

/// A replica that may lie speaks for clients where it serves some, and never for operators.
#[test]
fn replicas_that_may_lie_are_no_operators() {
    use quorate_node::ServedByReplicas;
    let directory = tempfile::tempdir().unwrap();
    let mut config = byzantine(directory.path());
    assert_eq!(config.served_by_replicas(), ServedByReplicas::Nobody);
    config.front.insert("some".into(), toml::Table::new());
    assert_eq!(config.served_by_replicas(), ServedByReplicas::Clients);
    config.fault_model = FaultModel::Crash;
    assert_eq!(config.served_by_replicas(), ServedByReplicas::ClientsAndOperators);
}

#[test]
fn the_protocol_is_in_the_digest() {
    let other = changed(|c| c.protocol = Protocol::MOD_SMART);
    assert_ne!(other.parameters(1), config().parameters(1));
    assert_ne!(other.execution(1), config().execution(1));
}

/// Each refusal names the key and what to write instead.
#[test]
fn protocols_and_fault_models_that_do_not_go_together_are_refused() {
    let refused = [
        (changed(|c| c.fault_model = FaultModel::Byzantine), "fault_model"),
        (changed(|c| (c.protocol, c.reads.lease) = (Protocol::MOD_SMART, true)), "lease = false"),
        (
            changed(|c| {
                let few = Visigoth { u: 2, s: 1, o: 1, t_ms: 20 };
                (c.protocol, c.fault_model) = (Protocol::MOD_SMART, FaultModel::Visigoth(few));
                (c.membership, c.created) = (2, Some(1));
            }),
            "backup",
        ),
    ];
    for (config, what) in refused {
        let why = config.check_protocol().expect_err(what).to_string();
        assert!(why.contains(what), "{why}");
    }
    for protocol in [Protocol::RAFT, Protocol::MOD_SMART] {
        let config = changed(|c| c.protocol = protocol);
        assert!(config.check_protocol().is_ok());
        assert_eq!(toml::from_str(&config.to_toml()), Ok(config));
        let joins = changed(|c| (c.protocol, c.membership, c.created) = (protocol, 2, Some(1)));
        assert!(joins.check_protocol().is_ok(), "members come and go");
    }
}

#[test]
fn what_each_replica_chooses_for_itself_is_not() {
    let own = changed(|c| {
        c.checkpoints.rate_bytes = 0;
        c.checkpoints.transfer_rate_bytes = 0;
        c.checkpoints.log_bytes_max += 1;
        c.durability.sync_delay_us = 1000;
    });
    assert_eq!(own.parameters(1), config().parameters(1));
    assert_eq!(own.execution(1), config().execution(1));
}

#[test]
fn a_log_is_bound_to_the_interval_and_not_to_the_mode() {
    let mode = changed(|c| (c.checkpoints.mode, c.checkpoints.full_every) = (CheckpointMode::Full, 1));
    assert_eq!(mode.execution(1), config().execution(1));
    for interval in [
        changed(|c| c.checkpoints.interval_bytes += 1),
        changed(|c| c.checkpoints.interval_state_percent += 1),
        changed(|c| c.checkpoints.interval_bytes_max += 1),
    ] {
        assert_ne!(interval.execution(1), config().execution(1));
    }
    assert_ne!(config().execution(2), config().execution(1));
}

/// Where a replica can be reached is no part of what replicas must have alike, and stays as it is when the file is written.
#[test]
fn links_are_addresses() {
    let linked = changed(|c| c.members[0].links = vec!["10.0.1.1:7".into(), "host:8".into()]);
    assert_eq!(linked.parameters(1), config().parameters(1));
    let read: Config = toml::from_str(&linked.to_toml()).expect("a configuration");
    assert_eq!(read.members, linked.members);
    let wrong = changed(|c| c.members[0].links = vec!["10.0.1.1".into()]).check().expect_err("no port");
    assert!(wrong.to_string().contains("links of replica 1: an address is host:port"), "{wrong}");
    let many = changed(|c| c.members[0].links = vec!["a:1".into(); 65]).check().expect_err("too many");
    assert!(many.to_string().contains("more links than there are lanes"), "{many}");
}

/// The runtime knows no service and no front: it keeps what stands there, and refuses nothing of it.
#[test]
fn tables_of_services_and_fronts_are_handed_on() {
    let text = "name = \"kv\"\nkey_bytes = 7\n\n[front.lines]\nlisten = \"127.0.0.1:7\"\n\n[front.lines.limits]\nmost = 3\n";
    let whole = format!("{}\n[service]\n{text}", config().to_toml());
    let read: Config = toml::from_str(&whole).expect("a configuration");
    assert_eq!(read.service.name, "kv");
    assert_eq!(read.service.settings["key_bytes"].as_integer(), Some(7));
    assert_eq!(read.front["lines"]["limits"]["most"].as_integer(), Some(3));
    assert_eq!(read.front_addresses(), [("lines".to_owned(), "127.0.0.1:7".to_owned())].into());
    let mut reached = read.clone();
    let mut lines = |key: &str, value: &str| {
        reached.front.get_mut("lines").expect("a front").insert(key.into(), value.into());
        reached.front_addresses()["lines"].clone()
    };
    assert_eq!(lines("listen", "0.0.0.0:9"), "127.0.0.1:9", "the host of the replica's address");
    assert_eq!(lines("announce", "lines.example.org:70"), "lines.example.org:70");
    assert_eq!(toml::from_str(&read.to_toml()), Ok(read), "it is written as it was read");
    assert!(!config().to_toml().contains("[service]"), "what nobody changed is not written");
    let wrong =
        toml::from_str::<Config>(&format!("service = \"kv\"\n{}", config().to_toml())).expect_err("no table");
    assert!(wrong.to_string().contains("write the section [service]"), "{wrong}");
}

/// What the service is told is the same everywhere; what fronts are told is each replica's own.
#[test]
fn the_service_is_in_the_digest_and_fronts_are_not() {
    let with = |text: &str| {
        let settings: toml::Table = text.parse().expect("a table");
        changed(|c| c.service = ServiceConfig { name: "kv".into(), settings: settings.clone() }).execution(1)
    };
    let all = ["", "a = 1", "a = 2", "a = \"1\"", "a = [1]", "a = { b = 1 }", "b = 1", "a = 1\nb = 1"];
    let digests: std::collections::BTreeSet<u64> = all.into_iter().map(with).collect();
    assert_eq!(digests.len(), all.len(), "each differs");
    assert_eq!(with("a = 1\nb = 1"), with("b = 1\na = 1"), "in whatever order");
    assert_ne!(with(""), config().execution(1), "the name counts");
    let front = changed(|c| drop(c.front.insert("lines".into(), toml::Table::new())));
    assert_eq!((front.execution(1), front.parameters(1)), (config().execution(1), config().parameters(1)));
}

/// Who compares placements learns what does not go together.
#[test]
fn a_staged_replica_has_a_lane_for_each_step() {
    use super::{Auto, Cores, Pillars, PlacementConfig};
    let staged = |lanes, set: fn(&mut Config)| {
        changed(|config| {
            (config.placement, config.lanes, config.plain) = (PlacementConfig::Staged, lanes, true);
            set(config);
        })
    };
    for lanes in [3, 4, 64] {
        let good = staged(lanes, |_| {});
        good.check().expect("it is one");
        assert_eq!((good.lane_count(), good.link_count()), (lanes, 2), "one instance, and what is for all");
        let read: Config = toml::from_str(&good.to_toml()).expect("a configuration");
        assert_eq!(read.placement, PlacementConfig::Staged);
    }
    assert!(!config().to_toml().contains("placement"), "what nobody changed is not written");
    for (bad, why) in [
        (staged(1, |_| {}), "needs 3 lanes or more"),
        (staged(2, |_| {}), "needs 3 lanes or more"),
        (staged(3, |config| config.pillars = Pillars::Main), "remove pillars = \"main\", or placement"),
        (staged(1, |config| config.cores = Some(Cores::Auto(Auto::Auto))), "give lanes in place of cores"),
    ] {
        let said = bad.check().expect_err("it is none").to_string();
        assert!(said.contains("placement: a staged replica") && said.contains(why), "{said}");
    }
}

/// Workers check what clients sign, so there are none where replicas only crash. By default there are none at all.
#[test]
fn workers_take_the_cores_that_lanes_leave() {
    use super::{Auto, WorkerCount};
    let auto = WorkerCount::Auto(Auto::Auto);
    for ((lanes, cores), count) in
        [((1, 1), 0), ((1, 2), 1), ((2, 2), 0), ((3, 2), 0), ((1, 5), 4), ((1, 64), 4), ((5, 8), 3)]
    {
        assert_eq!(auto.beside(lanes, cores), count, "{lanes} lanes on {cores} cores");
        assert_eq!(WorkerCount::Count(2).beside(lanes, cores), 2, "whatever the machine");
    }
    let with = |workers| changed(|config| (config.workers, config.plain) = (workers, true));
    let two = with(WorkerCount::Count(2));
    assert_eq!(two.worker_count(), 0, "replicas only crash");
    let lying = changed(|config| {
        (config.workers, config.fault_model) = (WorkerCount::Count(2), FaultModel::Byzantine);
    });
    assert_eq!(lying.worker_count(), 2);
    assert_eq!(two.parameters(1), config().parameters(1), "each replica may have another number");
    assert!(!config().to_toml().contains("workers"), "what nobody changed is not written");
    let usual = changed(|config| config.fault_model = FaultModel::Byzantine);
    assert_eq!(usual.worker_count(), 0);
    for workers in [WorkerCount::Count(0), WorkerCount::Count(64)] {
        let good = with(workers);
        good.check().expect("it is one");
        assert_eq!(toml::from_str::<Config>(&good.to_toml()).map(|read| read.workers), Ok(workers));
    }
    let many = with(WorkerCount::Count(65)).check().expect_err("too many").to_string();
    assert!(many.contains("workers is 0 to 64, or \"auto\", not 65"), "{many}");
    for wrong in ["\"all\"", "-1", "1.5", "[1]"] {
        let text = format!("workers = {wrong}\n{}", config().to_toml());
        let said = toml::from_str::<Config>(&text).expect_err("none of them").to_string();
        assert!(said.contains("workers is a number from 0, or \"auto\""), "{said}");
    }
    let read = toml::from_str::<Config>(&format!("workers = \"auto\"\n{}", config().to_toml()));
    assert_eq!(read.map(|read| read.workers), Ok(auto));
}

/// Each refusal says what is missing, or what to leave out.
#[test]
fn extra_protection_needs_results_that_are_compared_and_members_that_only_crash() {
    let with =
        |verify, extra| changed(|c| (c.execution.verify, c.execution.extra_protection) = (verify, extra));
    let (protected, verified) = (with(true, 100), with(true, 0));
    protected.execution.check(false).expect("it is right");
    // Where one replica asks all, no other one may answer before the ruling.
    assert_ne!(protected.execution(1), verified.execution(1));
    assert_ne!(protected.parameters(1), verified.parameters(1));
    assert_eq!(protected.execution(1), with(true, 5).execution(1));
    // Clients wait for what followers do once they hear that it is decided, unless they do it before.
    let me = ReplicaId::new(1);
    let tells = |c: &Config| c.order_config(me, vec![me], SyncMode::Group, 1).expect("it fits").tells_at_once;
    let late = changed(|c| (c.execution.verify, c.execution.early) = (true, false));
    let many = changed(|c| (c.execution.verify, c.instances) = (true, 4));
    assert_eq!([&late, &many, &verified, &config()].map(tells), [true, true, false, false]);
    let why = with(false, 100).execution.check(false).expect_err("nothing is compared").to_string();
    assert!(why.contains("verify = true") && why.contains("extra_protection"), "{why}");
    let why = protected.execution.check(true).expect_err("one could always differ").to_string();
    assert!(why.contains("extra_protection") && why.contains("lie"), "{why}");
}
