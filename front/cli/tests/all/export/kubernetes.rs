//! What Kubernetes reads: each document against what the server wants of it, and against the others.

use super::{IDS, cluster, documents, export, exported, holds_for};
use crate::harness::edit;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Command;

/// All documents of a deployment.
struct Manifests(Vec<Value>);

impl Manifests {
    fn read(out: &Path) -> Self {
        let names = ["quorate.yaml", "secrets.yaml", "begin/begin.yaml"];
        let texts = names.into_iter().filter_map(|name| fs::read_to_string(out.join(name)).ok());
        Self(texts.flat_map(|text| documents(&text)).collect())
    }

    fn all(&self, kind: &str) -> Vec<&Value> {
        self.0.iter().filter(|document| document["kind"] == kind).collect()
    }

    #[track_caller]
    fn named(&self, kind: &str, name: &str) -> &Value {
        let found = self.all(kind).into_iter().find(|document| document["metadata"]["name"] == name);
        found.unwrap_or_else(|| panic!("there is no {kind} {name}"))
    }

    fn pod(&self) -> &Value {
        &self.named("StatefulSet", "quorate")["spec"]["template"]["spec"]
    }
}

/// The versions of the kinds that are used.
const VERSIONS: [(&str, &str); 7] = [
    ("ConfigMap", "v1"),
    ("Secret", "v1"),
    ("Service", "v1"),
    ("PersistentVolumeClaim", "v1"),
    ("PodDisruptionBudget", "policy/v1"),
    ("StatefulSet", "apps/v1"),
    ("Job", "batch/v1"),
];

/// What the server checks of every document.
fn check(manifests: &Manifests, namespace: &str) {
    let mut names = BTreeSet::new();
    for document in &manifests.0 {
        let kind = document["kind"].as_str().expect("a kind");
        let version = VERSIONS.iter().find(|(known, _)| *known == kind).unwrap_or_else(|| panic!("{kind}")).1;
        assert_eq!(document["apiVersion"], version, "{kind}");
        let metadata = &document["metadata"];
        let name = metadata["name"].as_str().expect("a name");
        assert!(is_label(name) && names.insert((kind, name)), "{kind} {name}");
        assert_eq!(
            metadata["namespace"], namespace,
            "{kind} {name}: a text, also where it looks like a number"
        );
        texts_only(&metadata["labels"]);
        if ["ConfigMap", "Secret"].contains(&kind) {
            texts_only(&document["data"]);
            let plain = |key: &String| key.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c));
            assert!(document["data"].as_object().expect("data").keys().all(plain));
        }
    }
    for service in manifests.all("Service") {
        check_service(manifests, service);
    }
    for (owner, pod) in pods(manifests) {
        check_pod(manifests, &owner, pod);
    }
}

/// A label of a host's name.
fn is_label(name: &str) -> bool {
    (1..=63).contains(&name.len())
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
}

/// Labels and data are texts; a number or `true` without quotes is refused.
#[track_caller]
fn texts_only(table: &Value) {
    let table = table.as_object().expect("a table");
    assert!(!table.is_empty() && table.values().all(Value::is_string), "{table:?}");
}

/// The templates of pods, and who has them.
fn pods(manifests: &Manifests) -> Vec<(String, &Value)> {
    let kinds = ["StatefulSet", "Job"];
    let all = kinds.iter().flat_map(|kind| manifests.all(kind));
    all.map(|owner| {
        let template = &owner["spec"]["template"];
        texts_only(&template["metadata"]["labels"]);
        (format!("{}/{}", owner["kind"], owner["metadata"]["name"]), &template["spec"])
    })
    .collect()
}

/// It selects the pods, and each of its ports is one of theirs, by a name that Kubernetes takes.
fn check_service(manifests: &Manifests, service: &Value) {
    let set = &manifests.named("StatefulSet", "quorate")["spec"];
    assert_eq!(service["spec"]["selector"], set["template"]["metadata"]["labels"]);
    let ports = service["spec"]["ports"].as_array().expect("a service has ports");
    assert!(!ports.is_empty());
    let open: BTreeMap<&str, u64> = manifests.pod()["containers"][0]["ports"]
        .as_array()
        .expect("ports")
        .iter()
        .map(|port| {
            (port["name"].as_str().expect("a name"), port["containerPort"].as_u64().expect("a number"))
        })
        .collect();
    for port in ports {
        let target = port["targetPort"].as_str().expect("a port of the pods by its name");
        assert!(target.len() <= 15 && is_label(target), "{target}");
        assert_eq!(port["port"].as_u64(), open.get(target).copied(), "{target} of {open:?}");
        assert_eq!(port["name"], target);
    }
}

/// What is mounted is there, and what is there is mounted; nobody has rights that are not needed.
fn check_pod(manifests: &Manifests, owner: &str, pod: &Value) {
    assert_eq!(pod["securityContext"]["runAsNonRoot"], true, "{owner}");
    assert_eq!(pod["securityContext"]["fsGroup"], 10001, "{owner}: volumes belong to its group");
    assert_eq!(pod["securityContext"]["seccompProfile"]["type"], "RuntimeDefault", "{owner}");
    assert_eq!(pod["automountServiceAccountToken"], false, "{owner}");
    let mut volumes: BTreeSet<&str> = BTreeSet::new();
    for volume in pod["volumes"].as_array().expect("volumes") {
        assert!(volumes.insert(volume["name"].as_str().expect("a name")), "{owner}");
        check_volume(manifests, volume);
    }
    if owner.contains("StatefulSet") {
        let claim = &manifests.named("StatefulSet", "quorate")["spec"]["volumeClaimTemplates"][0];
        volumes.insert(claim["metadata"]["name"].as_str().expect("a name"));
    }
    let mut mounted = BTreeSet::new();
    let first = pod["initContainers"].as_array().into_iter().flatten();
    for container in first.chain(pod["containers"].as_array().expect("containers")) {
        let rights = &container["securityContext"];
        assert_eq!(rights["readOnlyRootFilesystem"], true, "{owner}");
        assert_eq!(rights["allowPrivilegeEscalation"], false, "{owner}");
        assert_eq!(rights["capabilities"]["drop"][0], "ALL", "{owner}");
        let (asks, most) = (mib(&container["resources"]["requests"]), mib(&container["resources"]["limits"]));
        assert!(asks <= most, "{owner}: {asks} and {most}");
        for mount in container["volumeMounts"].as_array().expect("mounts") {
            mounted.insert(mount["name"].as_str().expect("a name"));
        }
        for probe in ["livenessProbe", "readinessProbe"] {
            let port = &container[probe]["httpGet"]["port"];
            let open = container["ports"].as_array().into_iter().flatten();
            assert!(
                port.is_null() || open.map(|port| &port["name"]).any(|name| name == port),
                "{probe}: {port}"
            );
        }
    }
    assert_eq!(mounted, volumes, "{owner}");
}

fn mib(resources: &Value) -> u64 {
    let memory = resources["memory"].as_str().expect("memory").strip_suffix("Mi");
    memory.and_then(|number| number.parse().ok()).expect("a number of MiB")
}

/// The secrets, configurations and claims that a volume names exist, with the keys that it takes.
fn check_volume(manifests: &Manifests, volume: &Value) {
    if let Some(name) = volume["configMap"]["name"].as_str() {
        manifests.named("ConfigMap", name);
    }
    if let Some(name) = volume["persistentVolumeClaim"]["claimName"].as_str() {
        manifests.named("PersistentVolumeClaim", name);
    }
    for source in volume["projected"]["sources"].as_array().into_iter().flatten() {
        let secret = manifests.named("Secret", source["secret"]["name"].as_str().expect("a name"));
        for item in source["secret"]["items"].as_array().expect("items") {
            let key = item["key"].as_str().expect("a key");
            assert!(secret["data"][key].as_str().is_some_and(|text| !text.is_empty()), "{key}");
        }
    }
}

#[test]
fn the_manifests_fit_together() {
    // A name that YAML would take for a number.
    for (more, namespace) in
        [(&["--namespace", "007", "--storage", "50Gi"][..], "007"), (&["--empty"][..], "default")]
    {
        let (_directory, out) = exported("kubernetes", more);
        let manifests = Manifests::read(&out);
        check(&manifests, namespace);
        assert_eq!(manifests.all("Secret").len(), 4, "one for each replica, and the clients'");
        assert_eq!(manifests.all("Job").len(), if namespace == "007" { 0 } else { 3 });
    }
}

#[test]
fn a_majority_keeps_running_and_clients_reach_it() {
    let (_directory, out) = exported("kubernetes", &["--storage", "50Gi", "--memory", "3Gi"]);
    let manifests = Manifests::read(&out);
    let set = &manifests.named("StatefulSet", "quorate")["spec"];
    let labels = &set["template"]["metadata"]["labels"];
    let alone = &manifests.named("Service", "quorate")["spec"];
    assert_eq!((&alone["clusterIP"], &alone["publishNotReadyAddresses"]), (&"None".into(), &true.into()));
    let clients = &manifests.named("Service", "quorate-client")["spec"];
    assert_eq!(clients["type"], "ClusterIP");
    assert!(clients["publishNotReadyAddresses"].is_null(), "only those that are ready");
    assert_eq!((&clients["ports"][0]["name"], &clients["ports"][0]["port"]), (&"etcd".into(), &2379.into()));
    let budget = &manifests.named("PodDisruptionBudget", "quorate")["spec"];
    assert_eq!((&budget["maxUnavailable"], &budget["selector"]["matchLabels"]), (&Value::from(1), labels));
    assert_eq!((&set["replicas"], &set["ordinals"]["start"]), (&Value::from(3), &Value::from(1)));
    assert_eq!((&set["serviceName"], &set["podManagementPolicy"]), (&"quorate".into(), &"Parallel".into()));
    assert_eq!(set["selector"]["matchLabels"], *labels);
    assert_eq!(set["volumeClaimTemplates"][0]["spec"]["resources"]["requests"]["storage"], "50Gi");
    let pod = manifests.pod();
    let apart = &pod["affinity"]["podAntiAffinity"];
    assert!(
        apart["requiredDuringSchedulingIgnoredDuringExecution"].is_null(),
        "one node is enough to try it"
    );
    let preferred = &apart["preferredDuringSchedulingIgnoredDuringExecution"][0];
    assert_eq!(preferred["podAffinityTerm"]["topologyKey"], "kubernetes.io/hostname");
    let container = &pod["containers"][0];
    assert_eq!(container["livenessProbe"]["httpGet"]["path"], "/livez");
    assert_eq!(container["readinessProbe"]["httpGet"]["path"], "/readyz?exclude=disk");
    assert_eq!(container["resources"]["limits"]["memory"], "3072Mi");
    let mounts: Vec<&str> = container["volumeMounts"]
        .as_array()
        .expect("mounts")
        .iter()
        .filter_map(|m| m["name"].as_str())
        .collect();
    assert_eq!(mounts, ["data", "config", "keys"], "the replica does not see the keys of others");
}

#[test]
fn certificates_have_the_names_of_pods_and_services() {
    let (_directory, out) = exported(
        "kubernetes",
        &["--namespace", "db", "--hosts", "db.example.org", "--hosts", "10.1.2.3,[fd00::1]"],
    );
    for id in IDS {
        let pod = format!("quorate-{id}.quorate");
        holds_for(&out, id, &[&pod, &format!("{pod}.db.svc"), &format!("{pod}.db.svc.cluster.local")]);
        holds_for(
            &out,
            id,
            &["quorate", "quorate-client", "quorate-client.db", "quorate-client.db.svc.cluster.local"],
        );
        holds_for(&out, id, &["localhost", "127.0.0.1", "db.example.org", "10.1.2.3", "fd00::1"]);
    }
    let manifests = Manifests::read(&out);
    for id in IDS {
        let config = &manifests.named("ConfigMap", "quorate-config")["data"][format!("quorate-{id}.toml")];
        let config = config.as_str().expect("a configuration");
        assert!(config.contains(&format!("announce = \"quorate-{id}.quorate.db.svc:2379\"")), "{config}");
    }
}

/// Clients of a service without a front come to the pods themselves.
#[test]
fn a_service_without_fronts_has_no_port_for_them() {
    let directory = cluster();
    for id in IDS {
        let file = directory.path().join(format!("cluster/replica-{id}/replica.toml"));
        edit(&file, &format!("\n[front.etcd]\nlisten = \"127.0.0.1:2101{id}\"\n"), "");
        edit(&file, "name = \"etcd\"", "name = \"kv\"");
    }
    let (out, ran) = export(directory.path(), "kubernetes", &[]);
    ran.ok();
    let manifests = Manifests::read(&out);
    check(&manifests, "default");
    assert_eq!(manifests.all("Service").len(), 1);
    export(directory.path(), "compose", &["--front-port", "5"]).1.fails(2, &["have no front"]);
}

/// The scripts of the pods do what they say, with other paths.
#[test]
fn volumes_are_made_once_and_a_pod_gets_its_own_keys() {
    let (directory, out) = exported("kubernetes", &["--empty"]);
    let manifests = Manifests::read(&out);
    let place = |name: &str| directory.path().join(name).display().to_string();
    for name in ["volume", "begin", "run/all-keys/quorate-2", "keys"] {
        fs::create_dir_all(place(name)).expect("a directory can be made");
    }
    let begin = manifests.named("ConfigMap", "quorate-begin");
    let identity = begin["data"]["quorate-2.toml"].as_str().expect("an identity");
    fs::write(format!("{}/quorate-2.toml", place("begin")), identity).expect("a file can be written");
    let script = |container: &Value| {
        let text = container["command"][2].as_str().expect("a script");
        let text = text
            .replace("/var/lib/quorate", &place("volume"))
            .replace("/begin/", &format!("{}/", place("begin")));
        text.replace("/run/all-keys", &place("run/all-keys")).replace("/etc/quorate/tls", &place("keys"))
    };
    let run = |text: &str| {
        let ran = Command::new("/bin/sh")
            .args(["-c", text])
            .env("POD_NAME", "quorate-2")
            .output()
            .expect("a shell");
        assert!(ran.status.success(), "{ran:?}");
        String::from_utf8_lossy(&ran.stdout).into_owned()
    };
    let job = &manifests.named("Job", "quorate-begin-2")["spec"]["template"]["spec"]["containers"][0];
    assert_eq!(run(&script(job)), "");
    let config =
        manifests.named("ConfigMap", "quorate-config")["data"]["quorate-2.toml"].as_str().expect("text");
    let data = format!("{}/data", place("volume"));
    super::empty::opens(config, Path::new(&data));
    fs::write(format!("{data}/more"), "").expect("a file can be written");
    assert!(run(&script(job)).contains("there is data already"));
    assert!(Path::new(&data).join("more").exists());
    let wait = &manifests.pod()["initContainers"][0];
    run(&script(wait));

    let file = format!("{}/replica.key", place("run/all-keys/quorate-2"));
    fs::write(&file, "a key").expect("a file can be written");
    let take = &manifests.pod()["initContainers"][1];
    run(&script(take));
    // A pod that is started again finds what it took, which not even it may write to.
    use std::os::unix::fs::PermissionsExt as _;
    let taken = format!("{}/replica.key", place("keys"));
    fs::set_permissions(&taken, fs::Permissions::from_mode(0o400)).expect("it is its owner's");
    fs::write(&file, "another key").expect("a file can be written");
    run(&script(take));
    assert_eq!(fs::read_to_string(&taken).expect("text"), "another key");
    let mode = fs::metadata(&taken).expect("a file").permissions().mode();
    assert_eq!(mode & 0o077, 0, "nobody else may read it");
}
