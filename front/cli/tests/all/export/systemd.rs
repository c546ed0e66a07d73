//! What systemd reads, and a deployment that goes on at other addresses.

use super::{IDS, exported, holds_for};
use crate::etcd::etcdctl;
use crate::harness::{Cluster, Ran, Server, copy, free_ports, quorate, wait_until};
use quorate_runtime::Config;
use std::fs;
use std::path::Path;
use std::process::Command;

#[test]
fn systemd_takes_the_unit() {
    let members = "1=10.0.0.1:7000,2=10.0.0.2:7000,3=10.0.0.3:7000";
    let (directory, out) =
        exported("systemd", &["--members", members, "--hosts", "db.example.org", "--memory", "3Gi"]);
    let config = Config::read(&out.join("replica-3/replica.toml")).expect("it can be read");
    assert_eq!(config.members[0].address, "10.0.0.1:7000");
    assert_eq!(config.front_addresses()["etcd"], "10.0.0.3:2379");
    assert_eq!(config.health.as_deref(), Some("127.0.0.1:7980"));
    holds_for(&out, 3, &["10.0.0.3", "db.example.org"]);
    let unit = fs::read_to_string(out.join("quorate@.service")).expect("text");
    for line in [
        "NoNewPrivileges=yes",
        "ProtectSystem=strict",
        "ReadWritePaths=/var/lib/quorate/replica-%i",
        "LimitNOFILE=65536",
        "Restart=on-failure",
        "StartLimitBurst=10",
        "TimeoutStopSec=30",
        "User=quorate",
        "CapabilityBoundingSet=",
    ] {
        assert!(unit.lines().any(|other| other == line), "`{line}` is missing");
    }
    let memory = fs::read_to_string(out.join("quorate@.service.d/memory.conf")).expect("text");
    assert!(memory.contains("[Service]\nMemoryMax=3072M\n"), "{memory}");
    // The program is installed elsewhere here.
    let unit = unit.replace("/usr/local/bin/quorate", env!("CARGO_BIN_EXE_quorate"));
    let instance = directory.path().join("quorate@1.service");
    fs::write(&instance, unit).expect("a file can be written");
    copy(&out.join("quorate@.service.d"), &directory.path().join("quorate@1.service.d"));
    let analyze =
        |arguments: &[&str]| Command::new("systemd-analyze").args(arguments).arg(&instance).output();
    match analyze(&["verify"]) {
        Ok(output) => {
            let ran = Ran::from(output);
            let about = |line: &&str| line.contains("quorate@") || line.contains("memory.conf");
            let complaints: Vec<&str> = ran.err.lines().filter(about).collect();
            assert!(ran.code == Some(0) && complaints.is_empty(), "{ran:?}");
        }
        Err(why) => return eprintln!("not verified, since systemd-analyze does not run here: {why}"),
    }
    // 10 is a unit without any hardening; the network, which it needs, is most of what is left.
    let ran = Ran::from(
        analyze(&["security", "--no-pager", "--offline=yes", "--threshold=20"]).expect("it ran before"),
    );
    if ran.err.contains("offline") {
        return eprintln!("its hardening is not judged: {}", ran.err);
    }
    ran.ok();
}

/// The address of a replica at the new place: another one of this machine.
fn host(id: u16) -> String {
    format!("127.0.0.{}", 50 + id)
}

/// What etcdctl says to these arguments, with the certificates of the new place.
fn ask(program: &Path, out: &Path, endpoint: &str, arguments: &[&str]) -> Ran {
    let clients = out.join("clients");
    let mut command = Command::new(program);
    command.args(arguments).env("ETCDCTL_ENDPOINTS", endpoint);
    command.env("ETCDCTL_CACERT", clients.join("ca.pem"));
    command.env("ETCDCTL_CERT", clients.join("default.pem")).env("ETCDCTL_KEY", clients.join("default.key"));
    command.output().expect("etcdctl runs").into()
}

#[test]
fn the_deployment_goes_on_with_the_data_at_other_addresses() {
    let mut cluster = Cluster::start_as_it_is(&[]);
    cluster.ok(&["kv", "put", "greeting", "hello"]);
    let dir = cluster.directory().display().to_string();
    let temporary = tempfile::tempdir().expect("a temporary directory");
    let out = temporary.path().join("deployment");
    let ports = free_ports(2);
    let members = IDS.map(|id| format!("{id}={}:{}", host(id), ports[0])).join(",");
    // While it runs.
    let (shown, front) = (out.display().to_string(), ports[1].to_string());
    let export = ["dev", "export", "--systemd", "--dir", &dir, "--out", &shown, "--members", &members];
    quorate(&[&export[..], &["--front-port", &front, "--health-port", "0", "--hosts", "localhost"]].concat())
        .ok();
    assert_eq!(cluster.ctrl_c(), Some(0));

    let mut servers = Vec::new();
    for id in IDS {
        let data = temporary.path().join(format!("data-{id}"));
        copy(&cluster.replica_directory(id).join("data"), &data);
        let tls = out.join(format!("replica-{id}/tls"));
        let config = out.join(format!("replica-{id}/replica.toml"));
        let text = fs::read_to_string(&config).expect("text");
        let text = text.replace(&format!("/var/lib/quorate/replica-{id}/data"), &data.display().to_string());
        let text = text.replace(&format!("/etc/quorate/replica-{id}/tls"), &tls.display().to_string());
        assert!(!text.contains("/var/lib") && !text.contains("/etc"), "{text}");
        fs::write(&config, text).expect("a file can be written");
        holds_for(&out, id, &[&host(id), "localhost"]);
        servers.push(Server::start(&config));
    }
    let client_toml = out.join("client.toml").display().to_string();
    wait_until("it is well", || quorate(&["status", "--config", &client_toml]).code == Some(0));
    assert_eq!(quorate(&["kv", "get", "greeting", "--config", &client_toml]).ok(), "hello");
    if let Some(program) = etcdctl() {
        for id in IDS {
            let endpoint = format!("https://{}:{front}", host(id));
            let got = ask(&program, &out, &endpoint, &["get", "greeting", "--print-value-only"]).ok();
            assert_eq!(got, "hello", "by the certificate of the new place");
            // Each member says where it is now.
            wait_until("clients are told of the new addresses", || {
                let ran = ask(&program, &out, &endpoint, &["endpoint", "health", "--cluster"]);
                let all = IDS
                    .iter()
                    .all(|id| ran.out.contains(&format!("https://{}:{front} is healthy", host(*id))));
                ran.code == Some(0) && all
            });
        }
    } else {
        quorate_skipped::skipped("there is no etcdctl that would connect to the deployment");
    }
    assert_eq!(quorate(&["drain", "1", "--config", &client_toml]).code, Some(0));
    for server in servers {
        assert_eq!(server.stop().code, Some(0));
    }
}
