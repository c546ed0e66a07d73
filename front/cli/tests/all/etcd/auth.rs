//! Users, roles and permissions with etcdctl: the same commands to a real etcd and to ours print the same.

use super::{PATIENCE, World};
use crate::harness::quorate;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
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
    /// With these arguments besides; none where there is no etcd.
    fn start(world: &World, arguments: &[&str]) -> Option<Self> {
        let named = std::env::var_os("ETCD").map(std::path::PathBuf::from);
        let built = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/etcd-clients/etcd");
        let program = named.into_iter().chain([built]).find(|file| file.is_file());
        let Some(program) = program else {
            quorate_skipped::skipped(
                "there is no etcd; front/cli/tests/all/etcd/build.sh builds one where Go is",
            );
            return None;
        };
        let directory = tempfile::tempdir().expect("a directory");
        let ports = crate::harness::free_ports(2);
        let (client, peer) =
            (format!("https://127.0.0.1:{}", ports[0]), format!("http://127.0.0.1:{}", ports[1]));
        let tls = world.cluster.directory().join("replica-1/tls");
        let child = Command::new(program)
            .arg("--data-dir")
            .arg(directory.path())
            .args(["--unsafe-no-fsync", "--bcrypt-cost", "4"])
            .args(arguments)
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
    let Some(peer) = Peer::start(&world, &[]) else { return };
    both_say_the_same(&world, &peer);
}

/// Starts the replicas again, with tokens that members sign.
fn sign_tokens(world: &mut World, method: &str, key: &Path) {
    world.cluster.ctrl_c();
    let section = format!("\n[front.etcd.tokens]\nsign_method = \"{method}\"\nkey = \"{}\"\n", key.display());
    for id in world.cluster.ids() {
        let file = world.cluster.replica_directory(id).join("replica.toml");
        let text = fs::read_to_string(&file).expect("it is there");
        fs::write(&file, text + &section).expect("written");
    }
    world.cluster.start_dev(&[]);
}

#[test]
fn users_roles_and_permissions_with_tokens_that_members_sign() {
    let Some(mut world) = World::start() else { return };
    let clients = world.cluster.directory().join("clients");
    let (key, certificate) = (clients.join("default.key"), clients.join("default.pem"));
    let files = format!("priv-key={},pub-key={}", key.display(), certificate.display());
    let Some(peer) = Peer::start(&world, &[&format!("--auth-token=jwt,sign-method=ES256,{files}")]) else {
        return;
    };
    sign_tokens(&mut world, "ES256", &key);
    both_say_the_same(&world, &peer);
}

/// What a member answers to a request over its gateway.
fn post(address: &str, path: &str, token: Option<&str>, body: &str) -> String {
    let token = token.map(|token| format!("Authorization: {token}\r\n")).unwrap_or_default();
    let len = body.len();
    let head =
        format!("POST {path} HTTP/1.1\r\nHost: it\r\nConnection: close\r\nContent-Length: {len}\r\n{token}");
    let mut stream = TcpStream::connect(address).expect("a connection");
    write!(stream, "{head}\r\n{body}").expect("it reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it answers");
    answer
}

#[test]
fn a_token_that_one_member_signed_is_good_at_another() {
    let Some(mut world) = World::start_with(&["--plain"]) else { return };
    let secret = world.cluster.directory().join("secret");
    fs::write(&secret, [7; 32]).expect("written");
    sign_tokens(&mut world, "HS256", &secret);
    for line in ["user add root:top", "user grant-role root root", "auth enable"] {
        world.run(&line.split(' ').collect::<Vec<_>>());
    }
    let addresses: Vec<String> = world.endpoints.split(',').map(|url| url.replace("http://", "")).collect();
    let answer = post(&addresses[0], "/v3/auth/authenticate", None, r#"{"name":"root","password":"top"}"#);
    let (_, rest) = answer.split_once("\"token\":\"").unwrap_or_else(|| panic!("no token in {answer}"));
    let token = rest.split('"').next().expect("its end");
    assert_eq!(token.split('.').count(), 3, "{token} is signed");
    let put = r#"{"key":"YQ==","value":"MQ=="}"#;
    assert!(post(&addresses[1], "/v3/kv/put", Some(token), put).starts_with("HTTP/1.1 200"));
    assert_eq!(world.run(&["--user", "root:top", "get", "a"]), "a\n1");
    let forged = format!("{token}x");
    for nobody in [None, Some(forged.as_str())] {
        assert!(!post(&addresses[1], "/v3/kv/put", nobody, put).starts_with("HTTP/1.1 200"));
        let refused = post(&addresses[1], "/v3/maintenance/snapshot", nobody, "");
        assert!(
            refused.starts_with("HTTP/1.1 4") && refused.contains("\n{\"error\":{\"code\":"),
            "{refused}"
        );
    }
    // The file that etcdctl would save, in pieces.
    let answer = post(&addresses[1], "/v3/maintenance/snapshot", Some(token), "");
    let pieces = answer.split("\"blob\":\"").skip(1).map(|rest| rest.split('"').next().expect("its end"));
    let file: Vec<u8> = pieces.flat_map(|piece| BASE64_STANDARD.decode(piece).expect("base64")).collect();
    let saved = world.cluster.directory().join("saved");
    fs::write(&saved, file).expect("written");
    quorate(&["backup", "verify", saved.to_str().expect("UTF-8")]).ok();
}

fn both_say_the_same(world: &World, peer: &Peer) {
    let end = Instant::now() + PATIENCE;
    while !told(world, &peer.endpoint, &["endpoint", "health"]).0 {
        assert!(Instant::now() < end, "etcd does not begin");
    }
    // Whoever shows no password is whom the certificate names.
    let name = common_name(world);
    for line in COMMANDS.lines() {
        let line = line.replace("NAME", &name);
        let arguments: Vec<&str> = line.split(' ').collect();
        let etcd = told(world, &peer.endpoint, &arguments);
        let ours = told(world, &world.endpoints, &arguments);
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
