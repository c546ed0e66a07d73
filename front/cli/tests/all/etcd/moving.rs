//! From a real etcd to replicas of ours, and back to a real etcd: everything is as it was.

use super::{PATIENCE, etcdctl, printed};
use crate::harness::{Cluster, free_ports, quorate};
use serde_json::Value;
use std::ffi::OsStr;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

/// A program beside the one that the tests here use; none where it is not built.
fn program(name: &str) -> Option<PathBuf> {
    let named = std::env::var_os(name.to_uppercase()).map(PathBuf::from);
    let built = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/etcd-clients").join(name);
    let found = named.into_iter().chain([built]).find(|file| file.is_file());
    if found.is_none() {
        quorate_skipped::skipped(format!(
            "there is no {name}; front/cli/tests/all/etcd/build.sh builds one where Go is"
        ));
    }
    found
}

/// A real etcd of one member.
struct Etcd {
    child: Child,
    endpoint: String,
}

/// Where a member listens for others.
struct Peer(String);

impl Peer {
    fn new() -> Self {
        Self(format!("http://127.0.0.1:{}", free_ports(1)[0]))
    }

    fn arguments(&self) -> [String; 4] {
        let Self(url) = self;
        ["--initial-advertise-peer-urls", url, "--initial-cluster", &format!("default={url}")]
            .map(str::to_owned)
    }
}

impl Etcd {
    fn start(program: &Path, directory: &Path, peer: &Peer) -> Self {
        let endpoint = format!("http://127.0.0.1:{}", free_ports(1)[0]);
        let child = Command::new(program)
            .arg("--data-dir")
            .arg(directory)
            .args(["--unsafe-no-fsync", "--bcrypt-cost", "5", "--listen-peer-urls", &peer.0])
            .args(["--listen-client-urls", &endpoint, "--advertise-client-urls", &endpoint])
            .args(peer.arguments())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("etcd runs");
        let etcd = Self { child, endpoint };
        let until = Instant::now() + PATIENCE;
        loop {
            let output = etcd.ctl().command(["get", "none"]).output().expect("etcdctl runs");
            // With users it answers, too.
            if output.status.success()
                || String::from_utf8_lossy(&output.stderr).contains("user name is empty")
            {
                return etcd;
            }
            assert!(Instant::now() < until, "etcd does not answer");
        }
    }

    fn ctl(&self) -> Ctl<'_> {
        Ctl { endpoints: self.endpoint.clone(), cluster: None, user: None }
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// etcdctl, for a server of either kind.
struct Ctl<'a> {
    endpoints: String,
    /// The cluster of ours, whose certificates are shown.
    cluster: Option<&'a Cluster>,
    user: Option<&'a str>,
}

impl<'a> Ctl<'a> {
    fn ours(cluster: &'a Cluster) -> Self {
        let address = cluster.ready["etcd"][0].as_str().expect("an address");
        Self { endpoints: format!("https://{address}"), cluster: Some(cluster), user: None }
    }

    fn by(self, user: &'a str) -> Self {
        Self { user: Some(user), ..self }
    }

    fn command<T: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = T>) -> Command {
        let mut command = Command::new(etcdctl().expect("it was there"));
        command.args(arguments).env("ETCDCTL_ENDPOINTS", &self.endpoints).stdin(Stdio::null());
        if let Some(cluster) = self.cluster {
            let clients = cluster.directory().join("clients");
            command
                .env("ETCDCTL_CACERT", clients.join("ca.pem"))
                .env("ETCDCTL_CERT", clients.join("default.pem"))
                .env("ETCDCTL_KEY", clients.join("default.key"));
        }
        if let Some(user) = self.user {
            command.env("ETCDCTL_USER", user);
        }
        command
    }

    /// What a command of these words prints.
    #[track_caller]
    fn run(&self, words: &str) -> String {
        printed(self.command(words.split(' ')))
    }

    #[track_caller]
    fn json(&self, words: &str) -> Value {
        let mut command = self.command(words.split(' '));
        command.args(["-w", "json"]);
        serde_json::from_str(&printed(command)).expect("JSON")
    }

    #[track_caller]
    fn fails(&self, words: &str) -> String {
        let output = self.command(words.split(' ')).output().expect("etcdctl runs");
        assert!(!output.status.success(), "{words} succeeds");
        String::from_utf8_lossy(&output.stderr).into_owned()
    }

    #[track_caller]
    fn txn(&self, puts: &str) {
        let mut command = self.command(["txn"]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().expect("etcdctl runs");
        let text = format!("\n{puts}\n\n\n");
        child.stdin.take().expect("a pipe").write_all(text.as_bytes()).expect("it reads");
        assert!(child.wait().expect("it ends").success());
    }

    /// All keys at a revision, with all fields.
    fn keys_at(&self, revision: i64) -> Value {
        let mut command = self.command(["get", "", "--prefix", "-w", "json", "--rev"]);
        command.arg(revision.to_string());
        let answer: Value = serde_json::from_str(&printed(command)).expect("JSON");
        answer["kvs"].clone()
    }

    fn revision(&self) -> i64 {
        self.json("get none")["header"]["revision"].as_i64().expect("a number")
    }

    /// Everything that can be asked for, from this revision on.
    fn everything(&self, from: i64) -> Vec<(String, Value)> {
        let mut all: Vec<(String, Value)> =
            (from..=self.revision()).map(|at| (format!("keys at {at}"), self.keys_at(at))).collect();
        let leases = self.json("lease list")["leases"].as_array().expect("leases").clone();
        let mut ids: Vec<i64> = leases.iter().map(|lease| lease["id"].as_i64().expect("a number")).collect();
        ids.sort_unstable();
        for id in ids {
            let lease = self.json(&format!("lease timetolive {id:x} --keys"));
            let left = lease["ttl"].as_i64().expect("a number");
            assert!(left > 0, "{lease}");
            all.push((format!("lease {id:x}"), serde_json::json!([lease["granted-ttl"], lease["keys"]])));
        }
        let text = |words: &str| (words.to_owned(), Value::from(self.run(words)));
        all.extend(["user list", "role list"].map(text));
        let names = |list: &str| self.run(list).lines().map(str::to_owned).collect::<Vec<String>>();
        all.extend(names("user list").iter().map(|name| text(&format!("user get {name}"))));
        all.extend(names("role list").iter().map(|name| text(&format!("role get {name}"))));
        let auth = self.json("auth status");
        all.push(("auth".to_owned(), serde_json::json!([auth["enabled"], auth["authRevision"]])));
        all
    }
}

/// Gives an etcd something of everything. Gives the compacted revision.
fn fill(ctl: &Ctl<'_>) -> i64 {
    for command in
        ["put a 1", "put a 2", "put b 1", "del a", "put a 3", "put c x", "put c y", "del c", "put last z"]
    {
        ctl.run(command);
    }
    // Enough for a tree of several pages, with several changes in a revision.
    for part in 0..8 {
        let puts: Vec<String> =
            (0..120).map(|n| format!("put many/{part}/{n:03} value-{part}-{n}")).collect();
        ctl.txn(&puts.join("\n"));
    }
    ctl.txn("put pair/1 one\nput pair/2 two\ndel b");
    // More than a page.
    ctl.run(&format!("put big {}", "z".repeat(20_000)));
    let compacted = ctl.revision() - 6;
    ctl.run(&format!("compaction {compacted}"));
    let lease = ctl.run("lease grant 3000").split(' ').nth(1).expect("an id").to_owned();
    ctl.run("lease grant 5000");
    ctl.run(&format!("put held yes --lease {lease}"));
    ctl.run(&format!("put held no --lease {lease}"));
    ctl.run(&format!("put held-too yes --lease {lease}"));
    ctl.run("put held-too anew");
    ctl.run("del many/3/ --prefix");
    for command in [
        "role add some",
        "role grant-permission some readwrite --prefix pair/",
        "role grant-permission some read a",
        "user add root:top",
        "user add ann:secret",
        "user add ben --no-password",
        "user grant-role root root",
        "user grant-role ann some",
        "auth enable",
    ] {
        ctl.run(command);
    }
    compacted
}

#[track_caller]
fn equal(ours: &[(String, Value)], theirs: &[(String, Value)]) {
    for ((what, ours), (same, theirs)) in ours.iter().zip(theirs) {
        assert_eq!(what, same);
        assert!(ours == theirs, "{what}:\n{ours}\n{theirs}");
    }
    assert_eq!(ours.len(), theirs.len());
}

/// What users may do, and with which passwords.
fn users_are_as_before(ctl: &dyn Fn() -> String, cluster: Option<&Cluster>) {
    let by = |user| Ctl { endpoints: ctl(), cluster, user: Some(user) };
    assert_eq!(by("ann:secret").run("get a --print-value-only"), "3");
    assert!(by("ann:secret").fails("get b").contains("permission denied"));
    assert!(by("ann:Secret").fails("get a").contains("authentication failed"));
}

/// A real etcd that begins with a file of ours, which it takes for whole and of this revision.
fn restored(etcd: &Path, etcdutl: &Path, file: &str, directory: &str, revision: &Value) -> Etcd {
    let utl = |arguments: &[&str]| {
        let mut command = Command::new(etcdutl);
        command.args(arguments);
        printed(command)
    };
    let status: Value =
        serde_json::from_str(&utl(&["snapshot", "status", file, "-w", "json"])).expect("JSON");
    assert_eq!(status["revision"], *revision);
    let peer = Peer::new();
    let members = peer.arguments();
    let members: Vec<&str> = members.iter().map(String::as_str).collect();
    utl(&[&["snapshot", "restore", file, "--data-dir", directory], &members[..]].concat());
    Etcd::start(etcd, Path::new(directory), &peer)
}

#[test]
fn from_an_etcd_and_back_to_one() {
    if etcdctl().is_none() {
        return quorate_skipped::skipped("there is no etcdctl");
    }
    let (Some(etcd), Some(etcdutl)) = (program("etcd"), program("etcdutl")) else { return };
    let place = tempfile::tempdir().expect("a directory");
    let path = |name: &str| place.path().join(name).to_str().expect("UTF-8").to_owned();
    let first = Etcd::start(&etcd, Path::new(&path("first")), &Peer::new());
    let compacted = fill(&first.ctl());
    first.ctl().by("root:top").run(&format!("snapshot save {}", path("saved.db")));
    let before = first.ctl().by("root:top").everything(compacted);

    let said = quorate(&["etcd", "import", &path("saved.db"), "--out", &path("ours"), "--json"]).ok();
    let said: Value = serde_json::from_str(&said).expect("JSON");
    assert_eq!(said["revision"].as_i64(), Some(first.ctl().by("root:top").revision()), "{said}");
    assert_eq!((&said["compacted"], &said["leases"]), (&compacted.into(), &2.into()));
    assert_eq!(
        (&said["users"], &said["roles"], &said["notes"]),
        (&3.into(), &1.into(), &Value::Array(vec![]))
    );
    let cluster = Cluster::at(Path::new(&path("ours")));
    let ours = || Ctl::ours(&cluster).by("root:top");
    equal(&ours().everything(compacted), &before);
    users_are_as_before(&|| Ctl::ours(&cluster).endpoints, Some(&cluster));
    let old = ours().fails(&format!("get a --rev {}", compacted - 1));
    assert!(old.contains("has been compacted"), "{old}");

    // It goes on here: also with a user whose password etcd could not compare.
    for command in ["put a 3", "put new 1", "del pair/1", "user add cat:meow", "user grant-role cat some"] {
        ours().run(command);
    }
    let lease = ours().run("lease grant 4000").split(' ').nth(1).expect("an id").to_owned();
    ours().run(&format!("put held here --lease {lease}"));
    let before = ours().everything(compacted);
    cluster.ok(&["backup", "create", "--fresh", &path("backup")]);
    let said = quorate(&["etcd", "export", &path("backup"), "--out", &path("noted.db")]).ok();
    assert!(said.contains("which were set here: cat."), "{said}");
    fs::write(path("passwords"), "cat:purr\n").expect("written");
    let with = ["--passwords", &path("passwords"), "--json"];
    let said =
        quorate(&[&["etcd", "export", &path("backup"), "--out", &path("back.db")], &with[..]].concat()).ok();
    let said: Value = serde_json::from_str(&said).expect("JSON");
    assert_eq!((&said["users"], &said["notes"]), (&4.into(), &Value::Array(vec![])));
    quorate(&["etcd", "export", &path("backup"), "--out", &path("back.db")])
        .fails(2, &["is not overwritten"]);
    drop(cluster);

    let second = restored(&etcd, &etcdutl, &path("back.db"), &path("second"), &said["revision"]);
    equal(&second.ctl().by("root:top").everything(compacted), &before);
    users_are_as_before(&|| second.endpoint.clone(), None);
    assert_eq!(second.ctl().by("cat:purr").run("get a --print-value-only"), "3");
    let root = || second.ctl().by("root:top");
    root().run(&format!("lease keep-alive --once {lease}"));
    // The pages that were written here are taken apart and joined.
    root().run("put a 4");
    printed(root().command(["del", "", "--prefix"]));
    root().run("put only this");
    let revision = root().revision();
    root().run(&format!("compaction {revision} --physical"));
    root().run("defrag");
    assert_eq!(root().keys_at(0).as_array().map(Vec::len), Some(1));
}

#[test]
fn what_can_not_be_moved_is_refused_with_a_way_out() {
    let place = tempfile::tempdir().expect("a directory");
    let path = |name: &str| place.path().join(name).to_str().expect("UTF-8").to_owned();
    fs::write(path("text"), "hello").expect("written");
    let import = |file: &str| quorate(&["etcd", "import", file, "--out", &path("out")]);
    import(&path("none")).fails(1, &["can not be used", "can not read it"]);
    import(&path("text")).fails(1, &["can not be used", "5 bytes"]);
    import(place.path().to_str().expect("UTF-8")).fails(1, &["it is no file", "etcdctl snapshot save"]);
    assert!(!Path::new(&path("out")).exists(), "nothing is left");
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("../etcd/tests/fixtures/etcd-3.6.db");
    let mut bytes = fs::read(fixture).expect("it is there");
    bytes[5000] ^= 1;
    fs::write(path("damaged"), &bytes).expect("written");
    import(&path("damaged")).fails(1, &["SHA-256", "save another one"]);
    quorate(&["etcd", "export", &path("text"), "--out", &path("db")])
        .fails(1, &["the backup", "Use another backup"]);
    fs::write(path("passwords"), "ann").expect("written");
    let with = ["--out", &path("db"), "--passwords", &path("passwords")];
    quorate(&[&["etcd", "export", &path("text")], &with[..]].concat())
        .fails(2, &["line 1: write USER:PASSWORD"]);
    assert!(!Path::new(&path("db")).exists(), "nothing is left");
    // A backup of something else.
    let cluster = Cluster::start(&["--service", "kv"]);
    cluster.ok(&["kv", "put", "greeting", "hello"]);
    cluster.ok(&["backup", "create", "--fresh", &path("kv")]);
    let refused = ["etcd", "export", &path("kv"), "--out", &path("db")];
    quorate(&refused).fails(1, &["not the state of the service \"etcd\""]);
}
