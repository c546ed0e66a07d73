//! What compose reads.

use super::{IDS, documents, exported, exported_from, files, holds_for};
use crate::harness::{copy, edit, quorate};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

/// The document, with `docker compose config` where that is installed.
fn document(out: &Path) -> Value {
    let file = out.join("compose.yaml");
    let found =
        Command::new("docker").args(["compose", "version"]).output().is_ok_and(|ran| ran.status.success());
    if found {
        let checked = Command::new("docker")
            .args(["compose", "--file"])
            .arg(&file)
            .args(["config", "--quiet"])
            .output();
        let checked = checked.expect("docker runs");
        assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
    } else {
        eprintln!("only parsed, since there is no docker compose here");
    }
    documents(&fs::read_to_string(file).expect("text")).remove(0)
}

/// The ports that a service opens: address and port of the machine, and the container's.
fn ports(service: &Value) -> Vec<(String, String)> {
    let all = service["ports"].as_array().expect("ports").iter();
    let texts = all.map(|port| port.as_str().expect("a text: YAML takes 22:22 for a number"));
    texts
        .map(|port| {
            port.rsplit_once(':').map(|(at, inside)| (at.to_owned(), inside.to_owned())).expect("a port")
        })
        .collect()
}

#[test]
fn services_have_few_rights_and_are_probed() {
    let (_directory, out) =
        exported("compose", &["--image", "registry.example.org/quorate:7", "--memory", "3Gi"]);
    let document = document(&out);
    let services = document["services"].as_object().expect("services");
    assert_eq!(services.keys().collect::<Vec<_>>(), ["quorate-1", "quorate-2", "quorate-3"]);
    let mut opened = BTreeSet::new();
    for (name, service) in services {
        assert_eq!(service["image"], "registry.example.org/quorate:7");
        assert_eq!(service["user"], "10001:10001", "{name}");
        assert_eq!(service["read_only"], true, "{name}");
        assert_eq!(service["cap_drop"][0], "ALL", "{name}");
        assert_eq!(service["security_opt"][0], "no-new-privileges:true", "{name}");
        assert_eq!(service["restart"], "unless-stopped", "{name}");
        assert_eq!(service["mem_limit"], "3072m", "{name}");
        assert_eq!(service["healthcheck"]["test"][2], "health", "{name}");
        let id = name.rsplit('-').next().expect("a number");
        let mut mounted = Vec::new();
        for volume in service["volumes"].as_array().expect("volumes") {
            // What is not there would be made, and belong to root.
            assert_eq!(
                (&volume["type"], &volume["bind"]["create_host_path"]),
                (&"bind".into(), &false.into())
            );
            let source = volume["source"].as_str().expect("a path");
            let below = source.strip_prefix(&format!("./replica-{id}/")).expect("its own directory");
            assert_eq!(volume["read_only"] == true, below != "data", "{source}");
            mounted.push(format!("{below} {}", volume["target"].as_str().expect("a path")));
        }
        let wanted =
            ["data /var/lib/quorate/data", "replica.toml /etc/quorate/replica.toml", "tls /etc/quorate/tls"];
        assert_eq!(mounted, wanted);
        // It opens what it listens on, and nothing twice.
        let config = fs::read_to_string(out.join(format!("replica-{id}/replica.toml"))).expect("text");
        let listens: BTreeSet<&str> =
            config.lines().filter_map(|line| line.split("\"0.0.0.0:").nth(1)).collect();
        let ports = ports(service);
        let inside: BTreeSet<String> = ports.iter().map(|(_, inside)| format!("{inside}\"")).collect();
        assert_eq!(listens, inside.iter().map(String::as_str).collect(), "{config}");
        assert_eq!(ports.len(), 3, "its own, that of probes, that of etcd");
        for (at, _) in ports {
            assert!(at.starts_with("127.0.0.1:"), "{at}");
            assert!(opened.insert(at.clone()), "{at} is opened twice");
        }
    }
    for port in [2379, 2380, 2381, 7980, 7982, 21001] {
        assert!(opened.contains(&format!("127.0.0.1:{port}")), "{port} in {opened:?}");
    }
}

#[test]
fn clients_find_the_services_by_their_names() {
    let (_directory, out) =
        exported("compose", &["--publish", "0.0.0.0", "--hosts", "*.example.org,db.example.org"]);
    for id in IDS {
        holds_for(
            &out,
            id,
            &["localhost", "127.0.0.1", &format!("quorate-{id}"), "*.example.org", "db.example.org"],
        );
        let config = fs::read_to_string(out.join(format!("replica-{id}/replica.toml"))).expect("text");
        let announced = format!("announce = \"db.example.org:{}\"", 2378 + id);
        assert!(config.contains(&announced), "{config}");
        assert!(
            ports(&document(&out)["services"][format!("quorate-{id}")])
                .iter()
                .all(|(at, _)| at.starts_with("0.0.0.0:"))
        );
    }
    let client = fs::read_to_string(out.join("client.toml")).expect("text");
    assert!(client.contains("address = \"db.example.org:21001\""), "{client}");
    let (_directory, out) = exported("compose", &["--publish", "::1"]);
    holds_for(&out, 1, &["::1"]);
    assert!(fs::read_to_string(out.join("compose.yaml")).expect("text").contains("\"[::1]:2379:2379\""));
}

/// A directory of `init` has the same port on each machine.
#[test]
fn replicas_of_several_machines_get_ports_of_one() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let made = directory.path().join("cluster").display().to_string();
    let members = "1=10.0.0.1:7000,2=10.0.0.2:7000,3=10.0.0.3:7000";
    quorate(&["init", "--dir", &made, "--members", members, "--service", "zookeeper"]).ok();
    let admin = "\n[front.zookeeper]\nadmin = \"10.0.0.1:8080\"";
    for id in IDS {
        let file = directory.path().join(format!("cluster/replica-{id}/replica.toml"));
        edit(&file, "\n[front.zookeeper]", &format!("{admin}\nplain = true\nwords = [\"*\"]"));
    }
    let (directory, out) = exported_from(directory, "compose", &[]);
    let config = |out: &Path| fs::read_to_string(out.join("replica-2/replica.toml")).expect("text");
    let text = config(&out);
    for line in [
        "listen = \"0.0.0.0:7001\"",
        "admin = \"0.0.0.0:8081\"",
        "listen = \"0.0.0.0:2182\"",
        "announce = \"127.0.0.1:2182\"",
    ] {
        assert!(text.contains(line), "{line} is missing in {text}");
    }
    assert!(!text.contains("plain = ") && !text.contains("words"), "it is open on this machine only: {text}");
    let plain = directory.path().join("plain");
    copy(&directory.path().join("cluster"), &plain.join("cluster"));
    let (out, ran) = super::export(&plain, "compose", &["--front-plain"]);
    ran.ok();
    assert!(config(&out).contains("plain = true") && config(&out).contains("words = [\"*\"]"));
    assert!(
        files(&out)["README.md"]
            .contains("Clients of ZooKeeper connect to `127.0.0.1:2181,127.0.0.1:2182,127.0.0.1:2183`.")
    );
}
