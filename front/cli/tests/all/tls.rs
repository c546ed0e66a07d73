//! Certificates in real processes: what `init` makes works at once; whoever has the wrong ones, or none, is refused in words on both
//! sides; new ones take effect while clients work; what operators do is recorded.

use crate::harness::{Ends, Made, Ran, Server, edit, free_ports, program, quorate, wait_until};
use quorate::client::{BlockingClient, ClientBuilder};
use quorate_kv::{KvCommand, Operation};
use quorate_tls::{Authority, Issued, Validity, write_private, write_public};
use quorate_types::{Holder, ReplicaId};
use rustix::process::Signal;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

/// A cluster whose replicas run.
struct Running {
    made: Made,
    servers: Vec<Server>,
}

impl Running {
    fn start() -> Self {
        Self::of(Made::three())
    }

    fn of(made: Made) -> Self {
        let servers: Vec<Server> = (1..=3).map(|id| Server::start(&made.config(id))).collect();
        let running = Self { made, servers };
        wait_until("somebody leads", || running.run(&["status"]).code == Some(0));
        running
    }

    fn client_file(&self) -> PathBuf {
        self.made.path().join("client.toml")
    }

    fn run(&self, arguments: &[&str]) -> Ran {
        run_with(&self.client_file(), arguments)
    }

    fn client(&self) -> BlockingClient {
        let builder = ClientBuilder::from_file(self.client_file()).expect("a usable file");
        builder.timeout(Duration::from_secs(20)).build_blocking().expect("a client")
    }

    fn authority(&self) -> Authority {
        let read =
            |name: &str| fs::read_to_string(self.made.path().join("ca").join(name)).expect("it is there");
        Authority::read(&Issued { certificate: read("ca.pem"), key: read("ca.key") }).expect("an authority")
    }

    /// Gives a replica a certificate of another time or for somebody else.
    fn put(&self, id: u16, authority: &Authority, holder: &Holder, validity: Validity) {
        put(&self.made.path().join(format!("replica-{id}/tls")), "replica", authority, holder, validity);
    }

    fn all_ca_files(&self) -> Vec<String> {
        let path = self.made.path();
        let mut files: Vec<PathBuf> =
            (1..=3).map(|id| path.join(format!("replica-{id}/tls/ca.pem"))).collect();
        files.push(path.join("clients/ca.pem"));
        files.iter().map(|file| text(file)).collect()
    }

    fn all_certificates(&self) -> Vec<String> {
        let path = self.made.path();
        let mut files: Vec<PathBuf> =
            (1..=3).map(|id| path.join(format!("replica-{id}/tls/replica.pem"))).collect();
        files.extend(["default", "admin"].map(|name| path.join(format!("clients/{name}.pem"))));
        files.iter().map(|file| text(file)).collect()
    }

    /// The serial number of the certificate that a replica uses for new connections.
    fn serial(&self, id: u16) -> Option<String> {
        let status: Value = serde_json::from_str(&self.run(&["status", "--json"]).out).ok()?;
        let replica = status["replicas"].as_array()?.iter().find(|replica| replica["replica"] == id)?.clone();
        replica["status"]["tls"]["serial"].as_str().map(str::to_owned)
    }

    fn ca(&self) -> String {
        text(&self.made.path().join("ca"))
    }
}

fn text(path: &Path) -> String {
    path.to_str().expect("UTF-8").to_owned()
}

fn run_with(config: &Path, arguments: &[&str]) -> Ran {
    program().args(arguments).env("QUORATE_CONFIG", config).output().expect("the program runs").into()
}

fn put(directory: &Path, name: &str, authority: &Authority, holder: &Holder, validity: Validity) {
    let issued = authority.issue(holder, &[], validity).expect("issued");
    write_public(&directory.join(format!("{name}.pem")), &issued.certificate).expect("written");
    write_private(&directory.join(format!("{name}.key")), &issued.key).expect("written");
}

fn replica(id: u16) -> Holder {
    Holder::Replica(ReplicaId::new(id))
}

fn hours(from: i64, until: i64) -> Validity {
    let at = |hours: i64| {
        let span = Duration::from_secs(3600 * hours.unsigned_abs());
        if hours < 0 { SystemTime::now() - span } else { SystemTime::now() + span }
    };
    Validity { from: at(from), until: at(until) }
}

fn put_command(key: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    KvCommand::One(Operation::Put { key: key.as_bytes(), value: b"value" }).encode(&mut bytes);
    bytes
}

#[test]
fn what_init_makes_is_safe_and_works_at_once() {
    use std::os::unix::fs::PermissionsExt as _;
    let running = Running::start();
    assert_eq!(running.run(&["kv", "put", "key", "value"]).ok(), "ok");
    assert_eq!(running.run(&["kv", "get", "key"]).ok(), "value");
    for key in ["ca/ca.key", "replica-1/tls/replica.key", "clients/default.key", "clients/admin.key"] {
        let mode = fs::metadata(running.made.path().join(key)).expect("it is there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{key}");
    }
    let status: Value = serde_json::from_str(&running.run(&["status", "--json"]).ok()).expect("JSON");
    let tls = &status["replicas"][0]["status"]["tls"];
    assert!((363..=365).contains(&tls["expires_in_days"].as_i64().expect("a number")), "{tls}");
    assert!(tls["identity"].as_str().expect("a text").ends_with("/replica/1"), "{tls}");
    assert_eq!(status["problems"].as_array().map(Vec::len), Some(0), "{status}");
    let shown = run_with(&running.client_file(), &["cert", "show", &text(&running.client_file())]).ok();
    assert!(shown.contains("holder  client default of cluster") && shown.contains("days left"), "{shown}");
}

#[test]
fn a_replica_without_certificates_says_what_to_do() {
    let made = Made::three();
    let config = fs::read_to_string(made.config(1)).expect("it is there");
    let begin = config.find("\n[tls]").expect("a section");
    let end = config.find("\n[[members]]").expect("a section");
    fs::write(made.config(1), format!("{}{}", &config[..begin], &config[end..])).expect("written");
    let serve = || quorate(&["serve", "--config", &text(&made.config(1))]);
    serve().fails(2, &["no certificates", "[tls]", "quorate cert issue", "plain = true"]);
    fs::write(made.config(1), config.replace("data =", "plain = true\ndata =")).expect("written");
    serve().fails(2, &["plain", "remove one of the two"]);
    fs::write(made.config(1), &config).expect("written");
    fs::remove_file(made.path().join("replica-1/tls/replica.key")).expect("it is there");
    serve().fails(1, &["can not read", "replica.key", "quorate cert issue"]);
}

#[test]
fn certificates_that_are_not_its_own_keep_a_replica_from_starting() {
    let (made, other) = (Made::three(), Made::three());
    let tls = |made: &Made, id: u16| made.path().join(format!("replica-{id}/tls"));
    let serve = || quorate(&["serve", "--config", &text(&made.config(1))]);
    let take = |from: &Path| {
        for name in ["replica.pem", "replica.key"] {
            fs::copy(from.join(name), tls(&made, 1).join(name)).expect("copied");
        }
    };
    take(&tls(&made, 2));
    serve().fails(2, &["the certificate is for replica 2", "replica 1"]);
    take(&tls(&other, 1));
    serve().fails(1, &["is of another cluster", "quorate cert issue --ca DIR/ca --replica 1"]);
    let read = |name: &str| fs::read_to_string(made.path().join("ca").join(name)).expect("it is there");
    let authority =
        Authority::read(&Issued { certificate: read("ca.pem"), key: read("ca.key") }).expect("one");
    for (validity, says) in [(hours(-50, -1), "has expired"), (hours(1, 50), "not valid yet")] {
        put(&tls(&made, 1), "replica", &authority, &replica(1), validity);
        serve().fails(1, &[says]);
    }
}

/// `quorate cert show` of a configuration whose certificates do not go together says all of this.
#[track_caller]
fn not_shown_as_good(config: &str, says: &[&str]) {
    let shown = quorate(&["cert", "show", config]);
    assert_eq!(shown.code, Some(1), "{shown:?}");
    assert!(says.iter().all(|says| shown.out.contains(says)), "{shown:?}");
}

#[test]
fn a_replica_with_files_of_another_cluster_is_told_the_command_that_mends_it() {
    let (made, other) = (Made::three(), Made::three());
    let own = |at: &Made, id: u16| at.path().join(format!("replica-{id}/tls"));
    for name in ["replica.pem", "replica.key"] {
        fs::copy(own(&other, 3).join(name), own(&made, 3).join(name)).expect("copied");
    }
    let (config, out) = (text(&made.config(3)), text(&own(&made, 3)));
    let certificate = text(&own(&made, 3).join("replica.pem"));
    let ca = text(&made.path().join("ca"));
    not_shown_as_good(
        &config,
        &["replica 3 of cluster", "is of another cluster", "quorate cert issue", "--replica 3"],
    );
    let json: Value = serde_json::from_str(&quorate(&["cert", "show", "--json", &config]).out).expect("JSON");
    assert!(json[0]["problem"].as_str().expect("a text").contains("of another cluster"), "{json}");
    assert!(json[1]["problem"].is_null(), "{json}");
    let says = format!("quorate cert issue --ca {ca} --replica 3 --out {out}");
    quorate(&["cert", "renew", "--ca", &ca, &certificate]).fails(2, &["name the right authority", &says]);

    // Where another replica has its own, nothing is written.
    let place = text(&own(&made, 2));
    quorate(&["cert", "issue", "--ca", &ca, "--replica", "3", "--out", &place])
        .fails(2, &["the certificate of replica 2", "--out"]);
    assert_eq!(quorate(&["cert", "show", &text(&made.config(2))]).code, Some(0));

    // The hosts stay: clients of other programs go by them.
    let said = quorate(&["cert", "issue", "--ca", &ca, "--replica", "3", "--out", &out]).ok();
    assert!(said.contains("in place of") && said.contains("127.0.0.1, localhost"), "{said}");
    let shown = quorate(&["cert", "show", &config]).ok();
    assert!(
        shown.contains("hosts   127.0.0.1, localhost") || shown.contains("hosts   localhost, 127.0.0.1"),
        "{shown}"
    );
    Running::of(made);
}

#[test]
fn a_certificate_of_an_authority_that_was_replaced_is_told_from_one_of_another_cluster() {
    let made = Made::three();
    let (ca, config) = (text(&made.path().join("ca")), text(&made.config(1)));
    quorate(&["cert", "new-authority", "--ca", &ca]).ok();
    quorate(&["cert", "renew", "--ca", &ca, &text(&made.path().join("replica-1/tls/replica.pem"))]).ok();
    not_shown_as_good(&config, &["was replaced", "cert issue --ca DIR/ca --replica 1"]);
    let out = text(&made.path().join("replica-1/tls"));
    quorate(&["cert", "issue", "--ca", &ca, "--replica", "1", "--out", &out]).ok();
    quorate(&["cert", "show", &config]).ok();
}

#[test]
fn whoever_has_the_wrong_certificate_is_told_and_so_is_the_replica() {
    let running = Running::start();
    let other = Made::three();
    let file = running.made.path().join("wrong.toml");
    let right = fs::read_to_string(running.client_file()).expect("it is there");
    let with = |arguments: &[&str], change: &dyn Fn(&str) -> String| {
        fs::write(&file, change(&right)).expect("written");
        run_with(&file, arguments)
    };
    let get = ["kv", "get", "--timeout", "5", "key"];
    // Another cluster's.
    let foreign = |text: &str| text.replace("clients/", &format!("{}/clients/", other.path().display()));
    with(&get, &foreign).fails(1, &["not among those that this side trusts"]);
    // Another cluster's, from somebody who takes our replicas for what they are.
    let both = |text: &str| {
        text.replace(
            "certificate = \"clients/",
            &format!("certificate = \"{}/clients/", other.path().display()),
        )
        .replace("key = \"clients/", &format!("key = \"{}/clients/", other.path().display()))
    };
    with(&get, &both).fails(1, &["is of another cluster"]);
    // A client's for an operator's question.
    let client_only = |text: &str| {
        text.lines().filter(|line| !line.contains("admin_")).map(|line| format!("{line}\n")).collect()
    };
    let said = with(&["status"], &client_only);
    assert!(
        said.out.contains("you come as an operator, and your certificate is for client default"),
        "{}",
        said.out
    );
    assert!(said.out.contains("admin_certificate"), "{}", said.out);
    // None at all.
    let plain = |text: &str| {
        let begin = text.find("\n[tls]").expect("a section");
        let end = text.find("\n[[members]]").expect("a section");
        format!("plain = true\n{}{}", &text[..begin], &text[end..])
    };
    with(&get, &plain).fails(1, &["speaks no TLS", "[tls]"]);
    // A replica is a client, and an operator, for those whom it serves.
    let as_replica = |text: &str| text.replace("clients/default", "replica-2/tls/replica");
    with(&get, &as_replica).fails(1, &["has no value"]);
    with(&["status"], &|text: &str| as_replica(&client_only(text))).ok();
    // The other way round, and the logs of the replicas.
    running.servers[0].wait_until_it_says("refused a connection: you come as an operator");
    running.servers[0].wait_until_it_says("whoever connected speaks no TLS");
    assert_eq!(running.run(&["kv", "put", "key", "value"]).ok(), "ok");
    // Who tried to be an operator is on record.
    let audit = running.made.data(1).join("audit.jsonl");
    wait_until("it is recorded", || {
        fs::read_to_string(&audit)
            .is_ok_and(|text| text.contains("client default") && text.contains("refused"))
    });
}

#[test]
fn a_stranger_among_the_replicas_is_refused_by_both_sides() {
    let made = Made::three();
    // Replica 3 comes from another cluster, whose authority nobody here knows.
    let stranger = Made::three();
    for name in ["ca.pem", "replica.pem", "replica.key"] {
        let file = |made: &Made| made.path().join(format!("replica-3/tls/{name}"));
        fs::copy(file(&stranger), file(&made)).expect("copied");
    }
    // It does not even start as what it is not.
    quorate(&["serve", "--config", &text(&made.config(3))])
        .fails(2, &["the certificate is for replica 3 of cluster"]);
    // One that was made for this cluster by somebody else.
    let read = |name: &str| fs::read_to_string(made.path().join("ca").join(name)).expect("it is there");
    let ours = Authority::read(&Issued { certificate: read("ca.pem"), key: read("ca.key") }).expect("one");
    let files = Authority::create(ours.cluster(), Validity::days(2)).expect("made");
    let evil = Authority::read(&files).expect("an authority");
    let tls = made.path().join("replica-3/tls");
    write_public(&tls.join("ca.pem"), &files.certificate).expect("written");
    put(&tls, "replica", &evil, &replica(3), Validity::days(1));
    let servers: Vec<Server> = (1..=3).map(|id| Server::start(&made.config(id))).collect();
    servers[0].wait_until_it_says("no safe connection to r3: a certificate that says replica 3 of cluster");
    servers[0].wait_until_it_says("not among those that this side trusts");
    servers[2].wait_until_it_says("no safe connection to r1: ");
    let status = run_with(&made.path().join("client.toml"), &["status"]);
    assert!(status.out.contains("the connection to r3 is not safe"), "{}", status.out);
}

#[test]
fn plain_and_tls_do_not_mix() {
    let made = Made::three();
    let config = fs::read_to_string(made.config(3)).expect("it is there");
    let begin = config.find("\n[tls]").expect("a section");
    let end = config.find("\n[[members]]").expect("a section");
    fs::write(made.config(3), format!("plain = true\n{}{}", &config[..begin], &config[end..]))
        .expect("written");
    let servers: Vec<Server> = (1..=3).map(|id| Server::start(&made.config(id))).collect();
    servers[0].wait_until_it_says("no safe connection to r3: what answers there speaks no TLS");
    servers[2].wait_until_it_says("whoever connected speaks TLS, and this replica runs with `plain = true`");
    servers[2].wait_until_it_says("refuses this replica: whoever connected speaks no TLS");
}

#[test]
fn a_plain_cluster_works_where_it_is_written_down() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("plain");
    let members = format!("1=127.0.0.1:{}", free_ports(1)[0]);
    let said = quorate(&[
        "init",
        "--service",
        "kv",
        "--plain",
        "--dir",
        &text(&path),
        "--members",
        &members,
        "--health-port",
        "0",
    ])
    .ok();
    assert!(said.contains("Connections are plain"), "{said}");
    assert!(!path.join("ca").exists() && !path.join("clients").exists());
    let config = path.join("replica-1/replica.toml");
    edit(&config, "mode = \"group\"", "mode = \"group\"\nsegment_mib = 20");
    let _server = Server::start(&config);
    let file = path.join("client.toml");
    wait_until("it leads", || run_with(&file, &["status"]).code == Some(0));
    assert_eq!(run_with(&file, &["kv", "put", "key", "value"]).ok(), "ok");
}

#[test]
fn bad_new_certificates_change_nothing_and_good_ones_take_effect() {
    let running = Running::start();
    let (authority, before) = (running.authority(), running.serial(1).expect("a serial number"));
    let server = &running.servers[0];
    running.put(1, &authority, &replica(2), Validity::days(1));
    server.wait_until_it_says("those before stay in force");
    running.put(1, &authority, &replica(1), hours(-50, -1));
    server.signal(Signal::HUP);
    server.wait_until_it_says("has expired");
    assert_eq!(running.serial(1), Some(before.clone()));
    assert_eq!(running.run(&["kv", "put", "key", "value"]).ok(), "ok");
    running.put(1, &authority, &replica(1), Validity::days(20));
    server.signal(Signal::HUP);
    wait_until("the new one is in force", || running.serial(1).is_some_and(|serial| serial != before));
    let status = running.run(&["status"]);
    assert!(status.out.contains("the certificate of this replica expires in"), "{}", status.out);
    let audit = fs::read_to_string(running.made.data(1).join("audit.jsonl")).expect("it is there");
    assert!(audit.contains("by changed files") && audit.contains("by a signal"), "{audit}");
    for line in audit.lines() {
        let line: Value = serde_json::from_str(line).expect("JSON");
        assert!(line["time"].is_string() && line["who"].is_string() && line["outcome"].is_string(), "{line}");
    }
}

/// Replaces the authority and every certificate, while clients write and connect all the time.
#[test]
fn everything_is_rotated_under_load_and_no_request_fails() {
    let running = Running::start();
    let (stop, done) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let steady = scope.spawn(|| {
            let session = running.client().open_session().expect("a session");
            while !stop.load(Ordering::Relaxed) {
                session.call_one(&put_command("steady")).expect("it is written");
                done.fetch_add(1, Ordering::Relaxed);
            }
        });
        let fresh = scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                let session = running.client().open_session().expect("a session");
                session.call_one(&put_command("fresh")).expect("it is written");
                session.close().expect("it is closed");
                done.fetch_add(1, Ordering::Relaxed);
            }
        });
        let ends = Ends(&stop);
        let cert = |arguments: &[&str], files: &[String]| {
            let mut all = vec!["cert"];
            all.extend(arguments);
            all.extend(files.iter().map(String::as_str));
            quorate(&all).ok()
        };
        let ca = running.ca();
        // Only the leader and one other need to answer, so all are asked.
        let noticed = |before: &[Option<String>]| {
            wait_until("all have noticed", || {
                (1..=3).all(|id| running.serial(id) != before[usize::from(id) - 1])
            });
        };
        let serials = || -> Vec<Option<String>> { (1..=3).map(|id| running.serial(id)).collect() };
        let rest = || {
            for server in &running.servers {
                server.signal(Signal::HUP);
            }
            std::thread::sleep(Duration::from_secs(1));
        };
        cert(&["new-authority", "--ca", &ca], &[]);
        cert(&["trust", "--ca", &ca], &running.all_ca_files());
        rest();
        let before = serials();
        cert(&["renew", "--ca", &ca], &running.all_certificates());
        noticed(&before);
        cert(&["trust", "--ca", &ca, "--current-only"], &running.all_ca_files());
        rest();
        // The replicas themselves must find each other again under the new authority.
        for id in 1..=3_u16 {
            let audit = running.made.data(id).join("audit.jsonl");
            wait_until("it was read", || {
                fs::read_to_string(&audit).is_ok_and(|text| text.lines().count() >= 3)
            });
        }
        let so_far = done.load(Ordering::Relaxed);
        wait_until("both go on", || done.load(Ordering::Relaxed) > so_far + 20);
        drop(ends);
        steady.join().expect("no request of it failed");
        fresh.join().expect("no request of it failed");
    });
    // Whoever still has a certificate of the old authority is refused.
    let old = running.made.path().join("ca/before.pem");
    assert!(old.exists());
    assert_eq!(running.run(&["kv", "get", "steady"]).ok(), "value");
}

/// Certificates in the files are in force once replicas have read them.
#[test]
fn one_sees_which_certificates_are_in_force() {
    let running = Running::start();
    let files: Vec<String> =
        (1..=3).map(|id| text(&running.made.path().join(format!("replica-{id}/tls/replica.pem")))).collect();
    let status = |more: &[&str]| {
        let files = files.iter().map(String::as_str).collect::<Vec<_>>();
        running.run(&[&["cert", "status"], more, &files[..]].concat())
    };
    wait_until("all answer", || running.run(&["cert", "status"]).code == Some(0));
    let said = status(&[]).ok();
    assert_eq!(said.matches("as in its file").count(), 3, "{said}");
    let ca = running.ca();
    let named = files.iter().map(String::as_str).collect::<Vec<_>>();
    let renew = [&["cert", "renew", "--ca", &ca], &named[..]].concat();
    quorate(&renew).ok();
    let before = status(&[]);
    assert!(before.code == Some(1) && before.out.contains("NOT the one in its file"), "{}", before.out);
    let said = status(&["--wait", "--json"]).ok();
    let said: serde_json::Value = serde_json::from_str(&said).expect("JSON");
    assert!(said.as_array().expect("a list").iter().all(|one| one["right"] == true), "{said}");

    let client = text(&running.made.path().join("clients/default.pem"));
    running.run(&["cert", "status", &client]).fails(2, &["it is no replica's certificate"]);
    running.run(&["cert", "status", &files[0], &files[0]]).fails(2, &["another file is for replica 1"]);
    running.run(&["cert", "status", "--wait"]).fails(2, &["FILE"]);
    // It blames the file that lies in the wrong place, whichever comes first.
    let misplaced = text(&running.made.path().join("replica-3/tls/replica.pem"));
    fs::copy(&files[0], &misplaced).expect("it can be copied");
    let says = [misplaced.as_str(), "the certificate of replica 1", "--replica 3"];
    running.run(&["cert", "status", &misplaced, &files[0]]).fails(2, &says);
}

#[test]
fn what_an_operator_does_is_on_record() {
    let running = Running::start();
    let client = running.client();
    wait_until("the leader is known", || client.open_session().is_ok() && client.client().leader().is_some());
    let leader = client.client().leader().expect("it is known");
    assert_eq!(client.transfer(None).expect("it answers"), "begun");
    let audit = running.made.data(leader.number()).join("audit.jsonl");
    wait_until("it is recorded", || fs::read_to_string(&audit).is_ok_and(|text| text.contains("hand over")));
    let text = fs::read_to_string(&audit).expect("it is there");
    let line: Value = serde_json::from_str(text.lines().next().expect("a line")).expect("JSON");
    assert_eq!(line["who"], "admin admin");
    assert_eq!(line["outcome"], "begun");
    assert!(line["from"].as_str().expect("an address").starts_with("127.0.0.1:"), "{line}");
}

#[test]
fn more_certificates_are_made_with_the_authority() {
    let running = Running::start();
    let place = running.made.path().join("shop");
    let issue = ["cert", "issue", "--ca", &running.ca(), "--client", "shop", "--out", &text(&place)];
    let said = quorate(&issue).ok();
    assert!(said.contains("client shop of cluster") && said.contains("[tls]"), "{said}");
    let file = running.made.path().join("shop.toml");
    let config = fs::read_to_string(running.client_file()).expect("it is there");
    fs::write(&file, config.replace("clients/default", "shop/shop")).expect("written");
    assert_eq!(run_with(&file, &["kv", "put", "mine", "1"]).ok(), "ok");
    quorate(&["cert", "issue", "--ca", &running.ca(), "--client", "a b", "--out", "x"])
        .fails(2, &["a name has"]);
    quorate(&["cert", "issue", "--ca", "/nowhere", "--client", "a", "--out", "x"])
        .fails(2, &["can not read"]);
    let other = Made::three();
    let certificate = text(&other.path().join("replica-1/tls/replica.pem"));
    quorate(&["cert", "renew", "--ca", &running.ca(), &certificate]).fails(2, &["name the right authority"]);
}

#[test]
fn clients_use_the_keys_that_are_theirs() {
    let made = Made::three();
    for id in 1..=3 {
        let mut config = fs::read_to_string(made.config(id)).expect("it is there");
        config.push_str(
            "\n[access]\nothers = \"none\"\n[[access.clients]]\nname = \"shop\"\nread = [\"shop/\", \"common/\"]\nwrite = [\"shop/\"]\n",
        );
        fs::write(made.config(id), config).expect("written");
    }
    let running = Running::of(made);
    let directory = running.made.path();
    for (kind, name) in [("--client", "shop"), ("--admin", "root")] {
        let place = text(&directory.join(name));
        quorate(&["cert", "issue", "--ca", &running.ca(), kind, name, "--out", &place]).ok();
    }
    let config = fs::read_to_string(running.client_file()).expect("it is there");
    let as_name = |name: &str| {
        let file = directory.join(format!("{name}.toml"));
        fs::write(&file, config.replace("clients/default", &format!("{name}/{name}"))).expect("written");
        file
    };
    let (shop, root) = (as_name("shop"), as_name("root"));
    let says = "this client may not do that";
    assert_eq!(run_with(&root, &["kv", "put", "common/a", "1"]).ok(), "ok");
    assert_eq!(run_with(&root, &["kv", "put", "secret", "1"]).ok(), "ok");
    assert_eq!(run_with(&shop, &["kv", "put", "shop/a", "2"]).ok(), "ok");
    assert_eq!(run_with(&shop, &["kv", "get", "common/a"]).ok(), "1");
    run_with(&shop, &["kv", "put", "common/a", "3"]).fails(1, &[says]);
    run_with(&shop, &["kv", "put", "shop", "3"]).fails(1, &[says]);
    run_with(&shop, &["kv", "get", "secret"]).fails(1, &[says]);
    run_with(&shop, &["kv", "delete", "secret"]).fails(1, &[says]);
    // Not named: nothing.
    running.run(&["kv", "get", "shop/a"]).fails(1, &[says]);
    running.run(&["kv", "put", "shop/a", "3"]).fails(1, &[says]);
    assert_eq!(run_with(&root, &["kv", "get", "shop/a"]).ok(), "2");

    // A session goes on after a refusal, and what is allowed in it is done in order.
    let client = ClientBuilder::from_file(&shop).expect("a usable file").build_blocking().expect("a client");
    let session = client.open_session().expect("a session");
    for round in 0..20 {
        let key = if round % 3 == 0 { "secret".to_owned() } else { format!("shop/{round}") };
        let done = session.call_one(&put_command(&key));
        assert_eq!(done.is_ok(), round % 3 != 0, "{round}: {done:?}");
        if let Err(why) = done {
            assert!(why.to_string().contains(says) && !why.is_outcome_unknown(), "{why}");
        }
    }
    session.close().expect("it is closed");
    assert_eq!(run_with(&root, &["kv", "get", "secret"]).ok(), "1");
    assert_eq!(run_with(&root, &["status"]).code, Some(0), "the replicas agree");
}
