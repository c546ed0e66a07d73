//! `quorate dev export`: the files are as expected, and what reads them would take them.
//!
//! The golden files are in tests/export. QUORATE_UPDATE=1 writes them anew; look at the difference before it is committed.

use crate::harness::{Cluster, Ran, Server, copy, edit, free_ports, quorate, wait_until};
use quorate_runtime::Config;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const KINDS: [&str; 3] = ["systemd", "compose", "kubernetes"];
/// What stands in for a key: it must be nowhere else afterwards.
const SECRET: &str = "only-the-owner-knows-this";
const IDS: [u16; 3] = [1, 2, 3];

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/all/export")
}

/// A `dev` directory that does not run, with keys.
fn cluster() -> tempfile::TempDir {
    let directory = tempfile::tempdir().expect("a temporary directory");
    copy(&fixtures().join("cluster"), &directory.path().join("cluster"));
    for id in IDS {
        let tls = directory.path().join(format!("cluster/replica-{id}/tls"));
        fs::create_dir_all(&tls).expect("a directory can be made");
        fs::write(tls.join("replica.key"), SECRET).expect("a file can be written");
    }
    directory
}

/// Exports as `kind`; where to, and how it ended.
fn export(directory: &Path, kind: &str, more: &[&str]) -> (PathBuf, Ran) {
    let (dir, out) = (directory.join("cluster"), directory.join(kind));
    let (dir, shown) = (dir.display().to_string(), out.display().to_string());
    let kind = format!("--{kind}");
    let ran = quorate(&[&["dev", "export", &kind, "--dir", &dir, "--out", &shown], more].concat());
    (out, ran)
}

/// All files below a directory, by their names.
fn files(directory: &Path) -> BTreeMap<String, String> {
    let mut files = BTreeMap::new();
    for entry in fs::read_dir(directory).expect("a directory can be read") {
        let path = entry.expect("a directory can be read").path();
        let name = path.file_name().and_then(|name| name.to_str()).expect("a name").to_owned();
        if path.is_dir() {
            files.extend(
                self::files(&path).into_iter().map(|(below, text)| (format!("{name}/{below}"), text)),
            );
        } else {
            files.insert(name, fs::read_to_string(&path).expect("text"));
        }
    }
    files
}

fn exported(kind: &str, more: &[&str]) -> (tempfile::TempDir, PathBuf) {
    let directory = cluster();
    let (out, ran) = export(directory.path(), kind, more);
    let said = ran.ok();
    assert!(said.contains("README.md") && !said.contains(SECRET), "{said}");
    (directory, out)
}

fn documents(text: &str) -> Vec<Value> {
    serde_saphyr::from_multiple(text).unwrap_or_else(|why| panic!("{why}\n{text}"))
}

#[test]
fn the_files_are_the_golden_ones_and_hold_no_secret() {
    for kind in KINDS {
        let (_directory, out) = exported(kind, &[]);
        let golden = fixtures().join(kind);
        if std::env::var_os("QUORATE_UPDATE").is_some_and(|value| value == "1") {
            let _ = fs::remove_dir_all(&golden);
            copy(&out, &golden);
        }
        let (files, golden) = (files(&out), files(&golden));
        assert_eq!(files.keys().collect::<Vec<_>>(), golden.keys().collect::<Vec<_>>(), "{kind}");
        for (name, text) in &files {
            assert_eq!(*text, golden[name], "{kind}/{name}");
            assert!(!text.contains(SECRET) && !text.contains("{{"), "{kind}/{name}");
            assert!(!name.ends_with(".key") && !name.ends_with(".pem"), "{kind}/{name}");
        }
    }
}

#[test]
fn replicas_take_their_configurations() {
    for kind in ["systemd", "compose"] {
        let (_directory, out) = exported(kind, &[]);
        for id in IDS {
            check_config(&out.join(format!("replica-{id}/replica.toml")), id);
        }
        quorate::client::ClientFile::read(&out.join("client.toml")).expect("clients can read it");
    }
    let (directory, out) = exported("kubernetes", &[]);
    let manifest = documents(&fs::read_to_string(out.join("quorate.yaml")).expect("text"));
    for id in IDS {
        let text = manifest[0]["data"][format!("quorate-{id}.toml")].as_str().expect("a configuration");
        let file = directory.path().join("replica.toml");
        fs::write(&file, text).expect("a file can be written");
        check_config(&file, id);
    }
}

/// It is complete, is this replica's, and names the same cluster with the same settings.
fn check_config(file: &Path, id: u16) {
    let config = Config::read(file).unwrap_or_else(|why| panic!("{why}"));
    assert_eq!((config.replica, config.cluster.as_str()), (id, "0123456789abcdef0123456789abcdef"));
    assert_eq!(config.checkpoints.interval_bytes, 64 << 20);
    assert_eq!(config.members[1].incarnation, "2222222222222222");
    assert!(config.data.is_absolute());
    assert!(config.tls.is_some_and(|tls| tls.key.starts_with("/etc/quorate")));
}

#[test]
fn compose_services_have_few_rights_and_are_probed() {
    let (_directory, out) = exported("compose", &["--image", "registry.example.org/quorate:7"]);
    let document = documents(&fs::read_to_string(out.join("compose.yaml")).expect("text")).remove(0);
    let services = document["services"].as_object().expect("services");
    assert_eq!(services.keys().collect::<Vec<_>>(), ["quorate-1", "quorate-2", "quorate-3"]);
    for (name, service) in services {
        assert_eq!(service["image"], "registry.example.org/quorate:7");
        assert_eq!(service["user"], "10001:10001", "{name}");
        assert_eq!(service["read_only"], true, "{name}");
        assert_eq!(service["cap_drop"][0], "ALL", "{name}");
        assert_eq!(service["security_opt"][0], "no-new-privileges:true", "{name}");
        assert_eq!(service["restart"], "unless-stopped", "{name}");
        assert_eq!(service["healthcheck"]["test"][2], "health", "{name}");
        let volumes = service["volumes"].as_array().expect("volumes");
        let all: Vec<&str> = volumes.iter().filter_map(Value::as_str).collect();
        let id = name.rsplit('-').next().expect("a number");
        assert!(all.contains(&format!("./replica-{id}/data:/var/lib/quorate/data").as_str()), "{all:?}");
        assert!(all.contains(&format!("./replica-{id}/tls:/etc/quorate/tls:ro").as_str()), "{all:?}");
        assert!(all.iter().all(|volume| volume.starts_with(&format!("./replica-{id}/"))), "{all:?}");
        let port = service["ports"][0].as_str().expect("a port");
        assert!(port.starts_with("127.0.0.1:2100"), "{port}");
    }
}

#[test]
fn kubernetes_has_everything_that_keeps_a_majority_running() {
    let (_directory, out) = exported("kubernetes", &["--storage", "50Gi"]);
    let documents = documents(&fs::read_to_string(out.join("quorate.yaml")).expect("text"));
    let kind = |kind: &str| {
        let mut found = documents.iter().filter(|document| document["kind"] == kind);
        found.next().unwrap_or_else(|| panic!("there is no {kind}"))
    };
    for document in &documents {
        assert!(document["apiVersion"].is_string() && document["metadata"]["name"].is_string(), "{document}");
    }
    let labels = &kind("StatefulSet")["spec"]["template"]["metadata"]["labels"];
    let service = &kind("Service")["spec"];
    assert_eq!(service["clusterIP"], "None");
    assert_eq!(service["publishNotReadyAddresses"], true);
    assert_eq!(service["selector"], *labels);
    let budget = &kind("PodDisruptionBudget")["spec"];
    assert_eq!((&budget["maxUnavailable"], &budget["selector"]["matchLabels"]), (&Value::from(1), labels));
    let set = &kind("StatefulSet")["spec"];
    assert_eq!(set["replicas"], 3);
    assert_eq!(set["ordinals"]["start"], 1);
    assert_eq!(set["serviceName"], kind("Service")["metadata"]["name"]);
    assert_eq!(set["selector"]["matchLabels"], *labels);
    assert_eq!(set["podManagementPolicy"], "Parallel");
    let claim = &set["volumeClaimTemplates"][0];
    assert_eq!(claim["spec"]["resources"]["requests"]["storage"], "50Gi");
    check_pod(&set["template"]["spec"], claim);
}

fn check_pod(pod: &Value, claim: &Value) {
    assert_eq!(pod["securityContext"]["runAsNonRoot"], true);
    let apart = &pod["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][0];
    assert_eq!(apart["topologyKey"], "kubernetes.io/hostname");
    let container = &pod["containers"][0];
    assert_eq!(container["livenessProbe"]["httpGet"]["path"], "/livez");
    assert_eq!(container["readinessProbe"]["httpGet"]["path"], "/readyz");
    for container in [container, &pod["initContainers"][0]] {
        let rights = &container["securityContext"];
        assert_eq!(rights["readOnlyRootFilesystem"], true);
        assert_eq!(rights["allowPrivilegeEscalation"], false);
        assert_eq!(rights["capabilities"]["drop"][0], "ALL");
    }
    // Whatever is mounted is there.
    let mut there: Vec<&Value> =
        pod["volumes"].as_array().expect("volumes").iter().map(|v| &v["name"]).collect();
    there.push(&claim["metadata"]["name"]);
    for mount in container["volumeMounts"].as_array().expect("mounts") {
        assert!(there.contains(&&mount["name"]), "{mount}");
    }
    let secret = &pod["volumes"][1]["secret"];
    assert_eq!(secret["secretName"], "quorate-tls");
    assert_eq!(secret["items"].as_array().map(Vec::len), Some(9), "three files for each of three replicas");
}

#[test]
fn systemd_takes_the_unit() {
    let members = "1=10.0.0.1:7000,2=10.0.0.2:7000,3=10.0.0.3:7000";
    let (directory, out) = exported("systemd", &["--members", members]);
    let config = Config::read(&out.join("replica-3/replica.toml")).expect("it can be read");
    assert_eq!(config.members[0].address, "10.0.0.1:7000");
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
    // The program is installed elsewhere here.
    let unit = unit.replace("/usr/local/bin/quorate", env!("CARGO_BIN_EXE_quorate"));
    let instance = directory.path().join("quorate@1.service");
    fs::write(&instance, unit).expect("a file can be written");
    match Command::new("systemd-analyze").arg("verify").arg(&instance).output() {
        Ok(output) => {
            let ran = Ran::from(output);
            let about = |line: &&str| line.contains("quorate@");
            let complaints: Vec<&str> = ran.err.lines().filter(about).collect();
            assert!(ran.code == Some(0) && complaints.is_empty(), "{ran:?}");
        }
        Err(why) => eprintln!("not verified, since systemd-analyze does not run here: {why}"),
    }
}

#[test]
fn what_can_not_be_deployed_is_refused() {
    let directory = cluster();
    let (out, ran) = export(directory.path(), "systemd", &["--members", "1=10.0.0.1:7000"]);
    ran.fails(2, &["the address of replica 2 is missing"]);
    assert!(!out.exists());
    let members = "1=a:1,2=b:1,3=c:1,4=d:1";
    export(directory.path(), "systemd", &["--members", members]).1.fails(2, &["there is no replica 4"]);
    let (out, _) = export(directory.path(), "compose", &[]);
    assert!(out.exists());
    export(directory.path(), "compose", &[]).1.fails(2, &["is not empty"]);
    export(directory.path(), "kubernetes", &["--image", "a\"b"]).1.fails(2, &["may stand here"]);
    let dir = directory.path().join("cluster").display().to_string();
    quorate(&["dev", "export", "--dir", &dir]).fails(2, &["--systemd"]);
    quorate(&["dev", "export", "--compose", "--kubernetes", "--dir", &dir])
        .fails(2, &["cannot be used with"]);
    quorate(&["dev", "export", "--compose", "--dir", "/nowhere"]).fails(2, &["/nowhere/client.toml"]);

    edit(&directory.path().join("cluster/client.toml"), "replica = 3", "replica = 5");
    let five = directory.path().join("cluster/replica-5");
    copy(&directory.path().join("cluster/replica-3"), &five);
    export(directory.path(), "kubernetes", &[]).1.fails(2, &["replica 2 is followed by replica 5"]);
    edit(&five.join("replica.toml"), "mode = \"group\"", "mode = \"memory\"");
    export(directory.path(), "systemd", &[]).1.fails(2, &["nothing to deploy"]);
}

#[test]
fn the_deployment_goes_on_with_the_data_at_other_addresses() {
    let mut cluster = Cluster::start_as_it_is(&[]);
    cluster.ok(&["kv", "put", "greeting", "hello"]);
    let dir = cluster.directory().display().to_string();
    let temporary = tempfile::tempdir().expect("a temporary directory");
    let out = temporary.path().join("deployment");
    let members = IDS.iter().zip(free_ports(3)).map(|(id, port)| format!("{id}=127.0.0.1:{port}"));
    let members = members.collect::<Vec<_>>().join(",");
    // While it runs.
    let shown = out.display().to_string();
    quorate(&["dev", "export", "--systemd", "--dir", &dir, "--out", &shown, "--members", &members]).ok();
    assert_eq!(cluster.ctrl_c(), Some(0));

    let mut servers = Vec::new();
    for id in IDS {
        let from = cluster.replica_directory(id);
        let (data, tls) =
            (temporary.path().join(format!("data-{id}")), temporary.path().join(format!("tls-{id}")));
        copy(&from.join("data"), &data);
        copy(&from.join("tls"), &tls);
        let config = out.join(format!("replica-{id}/replica.toml"));
        let text = fs::read_to_string(&config).expect("text");
        let text = text.replace(&format!("/var/lib/quorate/replica-{id}/data"), &data.display().to_string());
        let text = text.replace(&format!("/etc/quorate/replica-{id}/tls"), &tls.display().to_string());
        assert!(!text.contains("/var/lib") && !text.contains("/etc"), "{text}");
        fs::write(&config, text).expect("a file can be written");
        servers.push(Server::start(&config));
    }
    copy(&cluster.directory().join("clients"), &out.join("clients"));
    let client_toml = out.join("client.toml").display().to_string();
    wait_until("it is well", || quorate(&["status", "--config", &client_toml]).code == Some(0));
    assert_eq!(quorate(&["kv", "get", "greeting", "--config", &client_toml]).ok(), "hello");
    assert_eq!(quorate(&["drain", "1", "--config", &client_toml]).code, Some(0));
    for server in servers {
        assert_eq!(server.stop().code, Some(0));
    }
}
