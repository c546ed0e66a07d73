//! etcdctl and client libraries, as their projects make them, against replicas: skipped where there are none.
//!
//! `front/cli/tests/all/etcd/build.sh` builds them to where these tests look; `ETCDCTL` names another etcdctl.

mod auth;
mod commands;
mod libraries;
mod moving;

use crate::harness::Cluster;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// No command takes longer on a machine that does anything at all.
const PATIENCE: Duration = Duration::from_secs(60);

/// Where etcdctl is, if it is anywhere.
pub(crate) fn etcdctl() -> Option<PathBuf> {
    let named = std::env::var_os("ETCDCTL").map(PathBuf::from);
    let built = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/etcd-clients/etcdctl");
    let on_path = std::env::var_os("PATH").and_then(|path| {
        std::env::split_paths(&path).map(|directory| directory.join("etcdctl")).find(|file| file.is_file())
    });
    named.into_iter().chain([built]).chain(on_path).find(|file| file.is_file())
}

/// A cluster, and the program that asks it.
struct World {
    cluster: Cluster,
    program: PathBuf,
    endpoints: String,
}

impl World {
    /// None where there is no etcdctl.
    fn start() -> Option<Self> {
        Self::start_with(&[])
    }

    /// With these arguments for `dev`; `--plain` is one without certificates.
    fn start_with(arguments: &[&str]) -> Option<Self> {
        let Some(program) = etcdctl() else {
            quorate_skipped::skipped(
                "there is no etcdctl; front/cli/tests/all/etcd/build.sh builds one where Go is",
            );
            return None;
        };
        let cluster = Cluster::start(&[&["--service", "etcd"], arguments].concat());
        let scheme = if arguments.contains(&"--plain") { "http" } else { "https" };
        let addresses = cluster.ready["etcd"].as_array().expect("addresses");
        let endpoints: Vec<String> = addresses
            .iter()
            .map(|address| format!("{scheme}://{}", address.as_str().expect("an address")))
            .collect();
        assert_eq!(endpoints.len(), 3);
        Some(Self { endpoints: endpoints.join(","), cluster, program })
    }

    /// Whether connections are encrypted.
    fn is_safe(&self) -> bool {
        self.endpoints.starts_with("https:")
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command.args(arguments).env("ETCDCTL_ENDPOINTS", &self.endpoints).stdin(Stdio::null());
        if self.is_safe() {
            let clients = self.cluster.directory().join("clients");
            command
                .env("ETCDCTL_CACERT", clients.join("ca.pem"))
                .env("ETCDCTL_CERT", clients.join("default.pem"))
                .env("ETCDCTL_KEY", clients.join("default.key"));
        }
        command
    }

    /// The same, with an operator's certificate.
    fn operator(&self, arguments: &[&str]) -> Command {
        let clients = self.cluster.directory().join("clients");
        let mut command = self.command(arguments);
        command.env("ETCDCTL_CERT", clients.join("admin.pem")).env("ETCDCTL_KEY", clients.join("admin.key"));
        command
    }

    /// What a command prints; it must succeed.
    #[track_caller]
    fn run(&self, arguments: &[&str]) -> String {
        printed(self.command(arguments))
    }

    /// The same, with an operator's certificate.
    #[track_caller]
    fn operate(&self, arguments: &[&str]) -> String {
        printed(self.operator(arguments))
    }

    /// What a command that must fail says.
    fn fail(&self, arguments: &[&str]) -> String {
        let output = self.command(arguments).output().expect("etcdctl runs");
        assert!(!output.status.success(), "{arguments:?} succeeds");
        String::from_utf8_lossy(&output.stderr).into_owned()
    }

    /// What a transaction prints.
    fn txn(&self, text: &str) -> String {
        use std::io::Write as _;
        let mut child = self
            .command(&["txn"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("etcdctl runs");
        child.stdin.take().expect("a pipe").write_all(text.as_bytes()).expect("it reads");
        let output = child.wait_with_output().expect("it ends");
        assert!(output.status.success());
        String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
    }

    /// A command that goes on until it is killed.
    fn begin(&self, arguments: &[&str]) -> Ongoing {
        let mut child = self.command(arguments).stdout(Stdio::piped()).spawn().expect("etcdctl runs");
        let mut pipe = child.stdout.take().expect("a pipe");
        let (sender, lines) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(len) = pipe.read(&mut buffer) {
                if len == 0 || sender.send(String::from_utf8_lossy(&buffer[..len]).into_owned()).is_err() {
                    return;
                }
            }
        });
        Ongoing { child, lines, text: String::new() }
    }
}

/// What a command prints; it must succeed.
#[track_caller]
fn printed(mut command: Command) -> String {
    let output = command.output().expect("etcdctl runs");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {error}");
    String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
}

struct Ongoing {
    child: Child,
    lines: std::sync::mpsc::Receiver<String>,
    text: String,
}

impl Ongoing {
    /// Waits until it printed this.
    fn wait_for(&mut self, wanted: &str) {
        let end = Instant::now() + PATIENCE;
        while !self.text.contains(wanted) {
            let left = end.saturating_duration_since(Instant::now());
            match self.lines.recv_timeout(left) {
                Ok(more) => self.text.push_str(&more),
                Err(_) => panic!("no {wanted:?} in {:?}", self.text),
            }
        }
    }
}

impl Drop for Ongoing {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn keys_transactions_and_compaction() {
    let Some(world) = World::start() else { return };
    assert_eq!(world.run(&["put", "a", "1"]), "OK");
    assert_eq!(world.run(&["put", "a", "2", "--prev-kv"]), "OK\na\n1");
    world.run(&["put", "b", "3"]);
    assert_eq!(world.run(&["get", "a"]), "a\n2");
    assert_eq!(world.run(&["get", "a", "--rev", "2", "--print-value-only"]), "1");
    assert_eq!(world.run(&["get", "", "--prefix", "--keys-only"]), "a\n\nb");
    assert_eq!(world.run(&["get", "a", "c", "--order", "DESCEND", "--limit", "1"]), "b\n3");
    assert_eq!(world.run(&["get", "a", "--consistency", "s", "--prefix"]), "a\n2");
    assert!(world.run(&["get", "a", "c", "--count-only", "-w", "fields"]).contains("\"Count\" : 2"));
    let text = "value(\"a\") = \"2\"\nver(\"none\") = \"0\"\n\nput a 5\nget b\n\nput a 6\n\n";
    assert_eq!(world.txn(text), "SUCCESS\n\nOK\n\nb\n3");
    assert_eq!(world.txn("create(\"a\") = \"0\"\n\nput a 7\n\nget a\n\n"), "FAILURE\n\na\n5");
    assert_eq!(world.run(&["del", "a", "--prev-kv"]), "1\na\n5");
    assert_eq!(world.run(&["compaction", "4"]), "compacted revision 4");
    assert!(world.fail(&["get", "a", "--rev", "3"]).contains("required revision has been compacted"));
    assert_eq!(world.run(&["get", "a", "--rev", "4"]), "a\n2");
    assert!(world.fail(&["get", "a", "--rev", "100"]).contains("required revision is a future revision"));
}

#[test]
fn watches_leases_locks_and_elections() {
    let Some(world) = World::start() else { return };
    let mut watch = world.begin(&["watch", "k", "--prefix", "--prev-kv", "--rev", "1"]);
    world.run(&["put", "key", "one"]);
    world.run(&["put", "key", "two"]);
    world.run(&["del", "key"]);
    watch.wait_for("PUT\nkey\none\nPUT\nkey\none\nkey\ntwo\nDELETE\nkey\ntwo\nkey\n");
    let granted = world.run(&["lease", "grant", "2"]);
    let id = granted.split(' ').nth(1).expect("an id").to_owned();
    world.run(&["put", "kept", "x", "--lease", &id]);
    assert!(world.run(&["lease", "timetolive", &id, "--keys"]).contains("attached keys([kept])"));
    assert!(world.run(&["lease", "keep-alive", "--once", &id]).contains("keepalived with TTL(2)"));
    assert!(world.run(&["lease", "list"]).contains(&id));
    watch.wait_for("DELETE\nkept\nx\nkept\n");
    assert!(world.run(&["lease", "timetolive", &id]).contains("already expired"));
    let granted = world.run(&["lease", "grant", "100"]);
    let id = granted.split(' ').nth(1).expect("an id").to_owned();
    assert!(world.run(&["lease", "revoke", &id]).contains("revoked"));
    assert_eq!(world.run(&["lock", "door", "echo", "inside"]), "inside");
    let mut first = world.begin(&["lock", "door"]);
    first.wait_for("door/");
    let mut second = world.begin(&["lock", "door"]);
    drop(first);
    // Its lease ends, since nobody keeps it alive.
    second.wait_for("door/");
    let mut leader = world.begin(&["elect", "chair", "me"]);
    leader.wait_for("me\n");
    let mut looks_on = world.begin(&["elect", "-l", "chair"]);
    looks_on.wait_for("me\n");
}

#[test]
fn members_health_and_the_death_of_a_leader() {
    let Some(world) = World::start() else { return };
    assert_eq!(world.run(&["member", "list"]).lines().count(), 3);
    assert_eq!(world.run(&["endpoint", "health"]).lines().count(), 3);
    assert_eq!(world.run(&["endpoint", "status"]).lines().count(), 3);
    let hashes = world.run(&["endpoint", "hashkv", "--rev", "1"]);
    let hashes: Vec<&str> = hashes.lines().filter_map(|line| line.split(", ").nth(1)).collect();
    assert!(hashes.len() == 3 && hashes.windows(2).all(|pair| pair[0] == pair[1]), "{hashes:?}");
    world.run(&["defrag"]);
    assert_eq!(world.run(&["alarm", "list"]), "");
    let status: serde_json::Value =
        serde_json::from_str(&world.cluster.ok(&["status", "--json"])).expect("JSON");
    assert_eq!(status["etcd"], world.cluster.ready["etcd"]);
    // From the beginning: a put may come before the watch does.
    let mut watch = world.begin(&["watch", "n", "--prefix", "--rev", "1"]);
    let mut number = 0;
    let mut put = || {
        number += 1;
        // What is answered with an error may be done all the same.
        let end = Instant::now() + PATIENCE;
        let value = number.to_string();
        while !world.command(&["put", "n", &value]).output().expect("etcdctl runs").status.success() {
            assert!(Instant::now() < end, "no put succeeds");
        }
    };
    put();
    watch.wait_for("PUT\nn\n1\n");
    world.cluster.ok(&["chaos", "kill", "leader"]);
    put();
    put();
    watch.wait_for("n\n3\n");
    assert_eq!(world.run(&["get", "n", "--print-value-only"]), "3");
    assert!(world.fail(&["endpoint", "health"]).contains("unhealthy"));
}

#[test]
fn whoever_has_no_certificate_gets_nothing() {
    let Some(world) = World::start() else { return };
    let output = world
        .command(&["get", "a", "--command-timeout", "3s"])
        .env_remove("ETCDCTL_CERT")
        .env_remove("ETCDCTL_KEY")
        .output()
        .expect("etcdctl runs");
    assert!(!output.status.success());
}
