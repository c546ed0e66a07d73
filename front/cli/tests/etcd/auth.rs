//! Users, roles and permissions with etcdctl: the same commands to a real etcd and to ours print the same.

use super::{PATIENCE, World};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

/// A real etcd with the certificates of ours.
struct Peer {
    child: Child,
    endpoint: String,
    _directory: tempfile::TempDir,
}

impl Peer {
    fn start(world: &World) -> Option<Self> {
        let named = std::env::var_os("ETCD").map(std::path::PathBuf::from);
        let built = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/etcd-clients/etcd");
        let program = named.into_iter().chain([built]).find(|file| file.is_file())?;
        let directory = tempfile::tempdir().expect("a directory");
        let ports = super::harness::free_ports(2);
        let (client, peer) =
            (format!("https://127.0.0.1:{}", ports[0]), format!("http://127.0.0.1:{}", ports[1]));
        let tls = world.cluster.directory().join("replica-1/tls");
        let child = Command::new(program)
            .arg("--data-dir")
            .arg(directory.path())
            .args(["--unsafe-no-fsync", "--bcrypt-cost", "4"])
            .args(["--listen-client-urls", &client, "--advertise-client-urls", &client])
            .args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer])
            .args(["--initial-cluster", &format!("default={peer}"), "--client-cert-auth"])
            .arg("--cert-file")
            .arg(tls.join("replica.pem"))
            .arg("--key-file")
            .arg(tls.join("replica.key"))
            .arg("--trusted-ca-file")
            .arg(tls.join("ca.pem"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("etcd runs");
        Some(Self { child, endpoint: client, _directory: directory })
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Whether it went well, what it printed, and what it said was wrong.
fn told(world: &World, endpoints: &str, arguments: &[&str]) -> (bool, String, Vec<String>) {
    let output = world.command(arguments).env("ETCDCTL_ENDPOINTS", endpoints).output().expect("etcdctl runs");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let wrong = said.lines().filter(|line| line.starts_with("Error")).map(str::to_owned);
    (output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned(), wrong.collect())
}

/// Run in this order; an empty line begins what is said on behalf of others.
const COMMANDS: &str = "\
user add root:top
user add ann:secret
user add ann:again
user add ben --no-password
user list
role add some
role add some
role grant-permission some read a c
role grant-permission some readwrite b
role grant-permission some write --prefix q/
role grant-permission none read a
role get some
user grant-role ann some
user grant-role ann none
user get ann
user get nobody
auth status
auth enable
put a 1
get a
auth status --user root:top
--user root:wrong get a
--user nobody:x get a
--user ben:x get a
--user root:top put a 1
--user root:top put b 2
--user ann:secret get a
--user ann:secret put a 2
--user ann:secret put b 3
--user ann:secret get a c
--user ann:secret get a d
--user ann:secret get --prefix q/
--user ann:secret put q/x 1
--user ann:secret put q/x 2 --prev-kv
--user ann:secret del q/ --prefix
--user ann:secret lease list
--user ann:secret user get ann
--user ann:secret user get root
--user ann:secret user list
--user ann:secret role get some
--user ann:secret compaction 1
--user ann:secret defrag
--user root:top user passwd ann --interactive=false
--user root:top role get root
--user root:top role list
--user root:top role revoke-permission some b
--user ann:secret put b 4
--user root:top role revoke-permission some b
--user root:top role delete root
--user root:top user delete root
--user root:top user revoke-role root root
--user root:top user revoke-role ann some
--user ann:secret get a
--user root:top user delete ann
--user ann:secret get a
--user root:top user add NAME --no-password
get a
--user root:top role add rest
--user root:top role grant-permission rest --prefix readwrite --from-key a
--user root:top role grant-permission rest readwrite --from-key a
--user root:top user grant-role NAME rest
get a
put c 1
user list
--user root:top auth disable
put a 5
user list";

#[test]
fn users_roles_and_permissions() {
    let Some(world) = World::start() else { return };
    let Some(peer) = Peer::start(&world) else {
        eprintln!("skipped: there is no etcd; front/cli/tests/etcd/build.sh builds one where Go is");
        return;
    };
    let end = Instant::now() + PATIENCE;
    while !told(&world, &peer.endpoint, &["endpoint", "health"]).0 {
        assert!(Instant::now() < end, "etcd does not begin");
    }
    // Whoever shows no password is whom the certificate names.
    let name = common_name(&world);
    for line in COMMANDS.lines() {
        let line = line.replace("NAME", &name);
        let arguments: Vec<&str> = line.split(' ').collect();
        let etcd = told(&world, &peer.endpoint, &arguments);
        let ours = told(&world, &world.endpoints, &arguments);
        // Defragmentation of several members prints a line for each.
        let same_lines = |text: &str| text.lines().next().map(|line| line.replace("Finished", "")).is_some();
        if line.contains("defrag") {
            assert_eq!((etcd.0, same_lines(&etcd.1)), (ours.0, same_lines(&ours.1)), "{line}");
        } else {
            assert_eq!(etcd, ours, "etcd (left) and ours: {line}");
        }
    }
}

/// The name in the certificate of clients.
fn common_name(world: &World) -> String {
    let shown = world.cluster.ok(&[
        "cert",
        "show",
        &world.cluster.directory().join("clients/default.pem").to_string_lossy(),
    ]);
    let (_, name) = shown.split_once("CN=").unwrap_or_else(|| panic!("no name in {shown}"));
    name.chars()
        .take_while(|letter| !matches!(letter, ',' | '\n' | '"'))
        .collect::<String>()
        .trim()
        .to_owned()
}
