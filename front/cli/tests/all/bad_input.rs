//! What users, operators and strangers do wrong: each gets a text that says what happened, why and what to do, and a healthy
//! cluster goes on.

use crate::harness::{Cluster, Made, Server, copy, edit, free_ports, quorate, wait_until};
use quorate_types::{ClientId, ClusterId, ReplicaId};
use quorate_wire::{FRAME_HEADER, FrameKind, FrameReader, Hello, Role, Welcome};
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::time::Duration;

fn serve(config: &Path) -> crate::harness::Ran {
    Server::start(config).wait()
}

#[test]
fn a_command_line_that_makes_no_sense() {
    quorate(&["status", "--jsn"]).fails(2, &["--jsn", "--json"]);
    quorate(&["frobnicate"]).fails(2, &["frobnicate"]);
    quorate(&["serve"]).fails(2, &["--config"]);
    quorate(&["kv", "cas", "key", "value"]).fails(2, &["--if-absent"]);
    quorate(&["kv", "get", "key", "--timeout", "soon"]).fails(2, &["500ms or 2s"]);
    quorate(&["chaos", "kill", "everybody"]).fails(2, &["leader, or all"]);
    assert!(quorate(&["--version"]).ok().starts_with("quorate "));
    for shell in ["bash", "zsh", "fish"] {
        assert!(quorate(&["completions", shell]).ok().contains("quorate"));
    }
    for command in ["dev", "init", "serve", "status", "kv", "chaos", "sim", "completions", "man"] {
        assert!(quorate(&[command, "--help"]).ok().contains("Example"), "{command} shows no example");
    }
}

/// A new cluster begins only with all its replicas, so nobody waits for one that can not listen.
#[test]
fn a_new_cluster_with_a_port_that_is_taken() {
    let home = tempfile::tempdir().expect("a temporary directory");
    let dir = home.path().join("dev");
    let dir = dir.to_str().expect("UTF-8");
    // Ten ports that nobody uses, of which no other test takes any.
    let bind = |port| TcpListener::bind(("127.0.0.1", port)).ok();
    let begin = 20_000 + (std::process::id() % 400) as u16 * 20;
    let mut firsts = (begin..begin + 4000).step_by(10);
    let free = |first: &u16| (*first..first + 10).all(|port| bind(port).is_some());
    let first = firsts.find(free).expect("ten ports are free");
    let taken = bind(first + 2).expect("it was free");
    let dev = ["dev", "--dir", dir, "--port-base", &first.to_string(), "--no-web"];
    quorate(&dev).fails(
        1,
        &[
            "replica 3 does not start: can not listen on",
            "Another process uses this port",
            "a new cluster begins only with all its replicas, and replica 3 ended",
        ],
    );
    drop(taken);
}

#[test]
fn no_cluster_is_known() {
    let empty = tempfile::tempdir().expect("a temporary directory");
    let run = |arguments: &[&str], variable: &str| -> crate::harness::Ran {
        let mut command = crate::harness::program();
        command.args(arguments).current_dir(empty.path()).env("QUORATE_CONFIG", variable);
        command.output().expect("the program runs").into()
    };
    run(&["status"], "").fails(2, &["no cluster is known here", "quorate dev", "QUORATE_CONFIG"]);
    run(&["status"], "/nowhere/client.toml").fails(2, &["/nowhere/client.toml", "QUORATE_CONFIG"]);
    run(&["status", "--config", "client.toml"], "").fails(2, &["client.toml", "--config"]);
    fs::write(empty.path().join("client.toml"), "cluster = \"x\"\nmembers = []\n")
        .expect("a file can be written");
    run(&["status", "--dir", "."], "").fails(2, &["cluster", "32 hexadecimal digits"]);
    run(&["kv", "get", "key"], "").fails(2, &["no cluster is known here"]);
}

#[test]
fn init_refuses_what_makes_no_cluster() {
    let home = tempfile::tempdir().expect("a temporary directory");
    let dir = home.path().join("new");
    let dir = dir.to_str().expect("UTF-8");
    let init = |members: &str| quorate(&["init", "--dir", dir, "--members", members]);
    init("1=a:1,1=b:2").fails(2, &["replica 1 is named twice"]);
    init("1=a:1,2=a:1").fails(2, &["the same address"]);
    init("0=a:1").fails(2, &["ids begin at 1"]);
    init("1=a").fails(2, &["the port is missing"]);
    init("1=a:b").fails(2, &["the port is no number"]);
    init("1=a b:1").fails(2, &["the host is no name"]);
    init("1=a:1,2=b:2,3=c:3").ok();
    init("1=a:1,2=b:2,3=c:3").fails(2, &["exists and is not empty", "choose another directory"]);
}

/// A program of one's own runs it; `quorate serve` would run something else on its data.
#[test]
fn an_own_service_is_not_served_by_this_program() {
    let home = tempfile::tempdir().expect("a temporary directory");
    let dir = home.path().join("bank");
    let init = |own: &str| {
        quorate(&[
            "init",
            "--own-service",
            own,
            "--dir",
            dir.to_str().expect("UTF-8"),
            "--members",
            "1=a:1,2=b:2,3=c:3",
        ])
    };
    init("etcd").fails(2, &["--service etcd"]);
    let said = init("bank").ok();
    assert!(said.contains("quorate::run(service)") && !said.contains("quorate serve"), "{said}");
    let config = dir.join("replica-1/replica.toml");
    let text = fs::read_to_string(&config).expect("it is there");
    assert!(text.contains("name = \"bank\"") && !text.contains("[front."), "{text}");
    serve(&config).fails(2, &["there is no \"bank\"", "docs/services.md"]);
}

#[test]
fn a_configuration_that_is_none() {
    let made = Made::three();
    let config = made.config(1);
    let good = fs::read_to_string(&config).expect("it can be read");

    fs::write(&config, good.replace("mode = \"group\"", "mode = \"group\nx")).expect("it can be written");
    serve(&config).fails(2, &["replica.toml", "line 12", "docs/configuration.md"]);

    fs::write(&config, good.replace("segment_mib", "segment_mb")).expect("it can be written");
    serve(&config).fails(2, &["segment_mb", "line 12", "segment_mib"]);

    fs::write(&config, good.replace("\"group\"", "\"sometimes\"")).expect("it can be written");
    serve(&config).fails(2, &["sometimes", "line 11", "group"]);

    fs::write(&config, good.replace("replica = 1\ndata", "replica = 7\ndata")).expect("it can be written");
    serve(&config).fails(2, &["replica: 7 is not among the members"]);

    let with = |line: &str| good.replace("data = \"data\"", &format!("data = \"data\"\n{line}"));
    let of_service = |line: &str| good.replace("name = \"kv\"", &format!("name = \"kv\"\n{line}"));
    fs::write(&config, of_service("key_byte = 1")).expect("it can be written");
    serve(&config).fails(2, &["replica.toml", "service: unknown field `key_byte`", "docs/configuration.md"]);

    fs::write(&config, of_service("value_bytes = 3000000")).expect("it can be written");
    serve(&config).fails(2, &["service: value_bytes is 1 to 2097152 (2 MiB), not 3000000"]);

    fs::write(&config, with("front.telnet = { listen = \"127.0.0.1:23\" }")).expect("it can be written");
    serve(&config).fails(2, &["replica.toml", "front: there is no \"telnet\"", "etcd"]);

    for (line, key) in [("etcd = \"127.0.0.1:2379\"", "etcd"), ("kv = { key_bytes = 1 }", "kv")] {
        fs::write(&config, with(line)).expect("it can be written");
        serve(&config).fails(2, &["line 5", &format!("unknown field `{key}`"), "docs/configuration.md"]);
    }

    let section = "[service]\nname = \"kv\"\n";
    fs::write(&config, with("service = \"kv\"").replace(section, "")).expect("it can be written");
    serve(&config).fails(2, &["line 5", "write the section [service]"]);

    fs::write(&config, good.replace(section, "")).expect("it can be written");
    serve(&config).fails(2, &["service: name: say which runs", "\"kv\""]);

    fs::write(&config, with("sessions = { window = 0 }")).expect("it can be written");
    serve(&config).fails(2, &["sessions: window is 1 to 65536, not 0"]);

    fs::write(&config, with("limits = { connections = 0 }")).expect("it can be written");
    serve(&config).fails(2, &["limits: connections is at least 1"]);

    fs::write(&config, good.replace("data = \"data\"", "data = \"\"")).expect("it can be written");
    serve(&config).fails(2, &["data: name a directory"]);

    fs::write(&config, good.replace("\"kv\"", "\"sql\"")).expect("it can be written");
    serve(&config).fails(2, &["there is no \"sql\"", "kv"]);

    fs::remove_file(&config).expect("it can be removed");
    serve(&config).fails(2, &["can not read the configuration", "quorate init"]);
}

#[test]
fn an_address_that_can_not_be_listened_on() {
    let made = Made::three();
    let text = fs::read_to_string(made.config(1)).expect("it can be read");
    let port = text.split("127.0.0.1:").nth(1).and_then(|rest| rest.split('"').next()).expect("an address");
    let _taken = TcpListener::bind(format!("127.0.0.1:{port}")).expect("the port is free");
    serve(&made.config(1)).fails(1, &["can not listen on", port, "Another process uses this port"]);

    edit(&made.config(1), "data = \"data\"", "data = \"data\"\nlisten = \"192.0.2.1:7000\"");
    serve(&made.config(1)).fails(1, &["This machine has no such address"]);
}

#[test]
fn somebody_elses_data_directory() {
    let (made, other) = (Made::three(), Made::three());
    edit(&made.config(1), "data = \"data\"", "data = \"../replica-2/data\"");
    serve(&made.config(1)).fails(1, &["belongs to replica 2", "the configuration says replica 1", "correct"]);

    let foreign = other.data(2);
    edit(&made.config(2), "data = \"data\"", &format!("data = {foreign:?}"));
    serve(&made.config(2)).fails(1, &["belongs to replica 2 of cluster", "correct"]);
}

#[test]
fn a_data_directory_of_a_newer_program() {
    let made = Made::three();
    edit(&made.data(1).join("identity.toml"), "format = 1", "format = 99");
    serve(&made.config(1)).fails(1, &["format 99", "use the newer program"]);
    // Whatever else the newer program wrote there.
    fs::write(made.data(1).join("identity.toml"), "format = 99\nshape = \"round\"\n")
        .expect("it can be written");
    serve(&made.config(1)).fails(1, &["format 99", "use the newer program"]);
}

#[test]
fn a_data_directory_that_was_emptied() {
    let made = Made::three();
    let server = Server::start(&made.config(1));
    server.wait_until_it_says("is ready on");
    assert_eq!(server.stop().code, Some(0), "a clean stop");

    fs::remove_dir_all(made.data(1).join("log")).expect("it can be removed");
    serve(&made.config(1)).fails(1, &["was emptied", "the log is gone", "vote twice"]);
    // Failing once must not make it acceptable.
    serve(&made.config(1)).fails(1, &["was emptied", "the log is gone", "vote twice"]);

    fs::remove_dir_all(made.data(1)).expect("it can be removed");
    fs::create_dir(made.data(1)).expect("it can be made");
    serve(&made.config(1)).fails(1, &["was emptied", "identity.toml is gone", "vote twice"]);

    fs::remove_dir_all(made.data(1)).expect("it can be removed");
    serve(&made.config(1)).fails(1, &["there is no data directory", "quorate init"]);
}

#[test]
fn a_data_directory_in_use() {
    let made = Made::three();
    let server = Server::start(&made.config(1));
    server.wait_until_it_says("is ready on");
    serve(&made.config(1)).fails(1, &["in use by another process", "stop that one first"]);
    assert_eq!(server.stop().code, Some(0));
}

#[test]
fn a_data_directory_that_was_used_differently() {
    let made = Made::three();
    let config = made.config(1);
    let server = Server::start(&config);
    server.wait_until_it_says("is ready on");
    assert_eq!(server.stop().code, Some(0));
    let good = fs::read_to_string(&config).expect("it can be read");

    edit(&config, "mode = \"group\"", "mode = \"memory\"");
    serve(&config).fails(1, &["ran with durability \"group\"", "back to \"group\"", "needs a new cluster"]);
    for (line, with) in [
        ("data = \"data\"", "data = \"data\"\nsessions = { ttl_s = 61 }"),
        ("name = \"kv\"", "name = \"kv\"\nvalue_bytes = 1000"),
    ] {
        fs::write(&config, good.replace(line, with)).expect("it can be written");
        serve(&config)
            .fails(1, &["`[service]`, `[sessions]`, `[oracle]` or `interval_bytes`", "put them back"]);
    }
    fs::write(&config, good.replace("\"kv\"", "\"tally\"")).expect("it can be written");
    serve(&config).fails(1, &["`[service]`, `[sessions]`, `[oracle]` or `interval_bytes`", "put them back"]);

    fs::write(&config, good).expect("it can be written");
    let server = Server::start(&config);
    server.wait_until_it_says("is ready on");
    assert_eq!(server.stop().code, Some(0));
}

#[test]
fn the_limits_of_keys_and_values_are_configured() {
    let made = Made::new(&[(1, format!("127.0.0.1:{}", free_ports(1)[0]))]);
    edit(&made.config(1), "name = \"kv\"", "name = \"kv\"\nkey_bytes = 3\nvalue_bytes = 5");
    let server = Server::start(&made.config(1));
    let directory = made.path();
    let directory = directory.to_str().expect("UTF-8");
    let put = |key: &str, value: &str| quorate(&["kv", "put", key, value, "--dir", directory]);
    wait_until("it serves", || put("key", "value").code == Some(0));
    put("key2", "value").fails(1, &["key_bytes_max"]);
    put("key", "value2").fails(1, &["value_bytes_max"]);
    assert_eq!(server.stop().code, Some(0));
}

#[test]
fn a_replica_of_another_cluster_calls() {
    let cluster = Cluster::start(&[]);
    let port = free_ports(1)[0];
    let members = [(1, format!("127.0.0.1:{port}")), (2, cluster.address(2)), (3, cluster.address(3))];
    let foreign = Made::new(&members);
    let server = Server::start(&foreign.config(1));
    server.wait_until_it_says("no safe connection to r2");
    let id = cluster.ready["cluster"].as_str().expect("an id");
    assert!(server.log().contains(id), "it is told which cluster it met: {}", server.log());
    wait_until("the cluster says whom it refused", || cluster.log(2).contains("refused"));
    // It knows what is wrong itself, and says so when asked.
    let status = quorate(&["status", "--dir", foreign.path().to_str().expect("UTF-8")]);
    assert_eq!(status.code, Some(1), "{status:?}");
    assert!(status.out.contains("the connection to r2 is not safe"), "{}", status.out);

    assert_eq!(cluster.ok(&["kv", "put", "key", "value"]), "ok");
    assert_eq!(cluster.status()["healthy"], true);
    assert_eq!(server.stop().code, Some(0));
}

#[test]
fn a_copied_data_directory_runs_a_second_time() {
    let cluster = Cluster::start(&[]);
    cluster.ok(&["kv", "put", "key", "1"]);
    cluster.wait_until_equal();
    let leader = cluster.wait_for_leader();
    let follower = cluster.ids().into_iter().find(|id| *id != leader).expect("there are three");

    let copied = tempfile::tempdir().expect("a temporary directory");
    copy(&cluster.replica_directory(follower), copied.path());
    let config = copied.path().join("replica.toml");
    let [listen, health] = free_ports(2)[..] else { panic!("two ports") };
    let listen = format!("data = \"data\"\nlisten = \"127.0.0.1:{listen}\"");
    edit(&config, "data = \"data\"", &listen);
    let text = fs::read_to_string(&config).expect("it can be read");
    let before = text.lines().find(|line| line.starts_with("health")).expect("dev says where");
    edit(&config, before, &format!("health = \"127.0.0.1:{health}\""));
    let double = Server::start(&config);
    double.wait_until_it_says("two processes run under this id");

    for value in ["2", "3", "4"] {
        assert_eq!(cluster.ok(&["kv", "put", "key", value]), "ok");
    }
    cluster.wait_until_equal();
    let status = cluster.status();
    assert_eq!(status["healthy"], true, "{status}");
    assert_eq!(double.stop().code, Some(0));
}

/// Sessions that expire at another time would make replicas answer differently.
#[test]
fn a_replica_that_would_execute_differently() {
    let made = Made::three();
    let mut servers: Vec<Server> = (1..=3).map(|id| Server::start(&made.config(id))).collect();
    let directory = made.path();
    let directory = directory.to_str().expect("UTF-8");
    let serves = || quorate(&["kv", "put", "key", "value", "--dir", directory]).code == Some(0);
    // A cluster begins with all its members.
    wait_until("all three serve", serves);
    assert_eq!(servers.remove(2).stop().code, Some(0));
    edit(&made.config(3), "data = \"data\"", "data = \"data\"\nsessions = { ttl_s = 61 }");
    // It would notice by itself, if its directory knew with what its log was executed.
    let note = made.data(3).join("run.toml");
    let text = fs::read_to_string(&note).expect("it can be read");
    let kept: Vec<&str> = text.lines().filter(|line| !line.starts_with("parameters")).collect();
    fs::write(&note, kept.join("\n")).expect("it can be written");
    servers.push(Server::start(&made.config(3)));
    servers[2].wait_until_it_says("configured to execute differently");
    wait_until("the other two serve", serves);
    for server in servers {
        assert_eq!(server.stop().code, Some(0));
    }
}

/// A frame header with good checksums that announces this many bytes of this kind.
fn header(len: u32, kind: FrameKind) -> [u8; FRAME_HEADER] {
    let mut header = [0; FRAME_HEADER];
    header[..4].copy_from_slice(&len.to_le_bytes());
    header[4..6].copy_from_slice(&(kind as u16).to_le_bytes());
    let own = crc32c::crc32c(&header[..12]);
    header[12..].copy_from_slice(&own.to_le_bytes());
    header
}

/// Whether the other side closed the connection; what it sent before is of no interest.
fn is_closed(stream: &mut TcpStream) -> bool {
    stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a time-out can be set");
    loop {
        match stream.read(&mut [0; 4096]) {
            Ok(0) => return true,
            Ok(_) => {}
            Err(error) => return error.kind() == std::io::ErrorKind::ConnectionReset,
        }
    }
}

fn connect(address: &str) -> TcpStream {
    TcpStream::connect(address).expect("a replica listens")
}

/// A connection that a replica took for a client's.
fn greeted(cluster: &Cluster, id: u16) -> TcpStream {
    let mut stream = connect(&cluster.address(id));
    let name = ClusterId::parse(cluster.ready["cluster"].as_str().expect("an id")).expect("an id");
    let hello = Hello::new(name, Some(ReplicaId::new(id)), Role::Client(ClientId::new(7)));
    stream.write_all(&hello.frame().to_vec()).expect("it can be sent");
    let mut reader = FrameReader::new(1 << 20);
    let mut bytes = [0; 4096];
    loop {
        let len = stream.read(&mut bytes).expect("it answers");
        assert_ne!(len, 0, "it closed the connection");
        reader.push(&bytes[..len]);
        if let Some(frame) = reader.frame().expect("it sends frames") {
            Welcome::decode(frame.payload).expect("it welcomes us");
            return stream;
        }
    }
}

#[test]
fn garbage_on_the_port() {
    let cluster = Cluster::start(&["--plain"]);
    for id in cluster.ids() {
        let address = cluster.address(id);
        // Bytes that follow from the id, so that a failure repeats.
        let noise: Vec<u8> =
            (0..64_000_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> (id + 8)) as u8).collect();
        for bytes in [&noise[..], b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", &[0; 4096], &[0xff; 4096]] {
            let mut stream = connect(&address);
            // It may hang up in the middle.
            let _ = stream.write_all(bytes);
            assert!(is_closed(&mut stream), "replica {id} keeps a connection that sends garbage");
        }
        // 4 GiB are announced by a stranger, by a client, and by a client that names no kind that a client may send.
        let mut stranger = connect(&address);
        stranger.write_all(&header(u32::MAX, FrameKind::Hello)).expect("it can be sent");
        assert!(is_closed(&mut stranger));
        for kind in [FrameKind::Requests, FrameKind::Order] {
            let mut client = greeted(&cluster, id);
            client.write_all(&header(u32::MAX, kind)).expect("it can be sent");
            assert!(is_closed(&mut client), "{kind:?}");
        }
        let mut client = greeted(&cluster, id);
        client.write_all(&header(0, FrameKind::Order)).expect("it can be sent");
        assert!(is_closed(&mut client), "a client sends no ordering messages");
    }
    // Half a header, and nothing more: held open while the others work.
    let _half: Vec<TcpStream> = cluster
        .ids()
        .into_iter()
        .map(|id| {
            let mut stream = connect(&cluster.address(id));
            stream.write_all(&[1, 2, 3]).expect("it can be sent");
            stream
        })
        .collect();
    assert_eq!(cluster.ok(&["kv", "put", "key", "value"]), "ok");
    assert_eq!(cluster.ok(&["kv", "get", "key"]), "value");
    let status = cluster.status();
    assert_eq!(status["healthy"], true, "{status}");
    for replica in status["replicas"].as_array().expect("a list") {
        let memory = replica["status"]["process"]["memory_bytes"].as_u64().expect("a number");
        assert!(memory < 512 << 20, "room was made for what was merely announced: {replica}");
    }
    assert_eq!(cluster.pids().len(), 3, "all are the processes they were: {}", cluster.dev_said());
    assert_eq!(cluster.dev_said(), "");
}

#[test]
fn a_command_that_is_too_large_concerns_its_caller_only() {
    let cluster = Cluster::start(&[]);
    // Over the service's limit for a value, over the replicas' limit for a request, over the client's for a frame.
    for (mebibytes, says) in [(2, "value_bytes_max"), (5, "too large"), (12, "too large")] {
        let value = vec![b'v'; mebibytes << 20];
        let said = cluster.run_with_input(&["kv", "put", "big", "-"], &value).fails(1, &["not done", says]);
        assert!(!said.contains("unknown"), "{said}");
        assert_eq!(cluster.ok(&["kv", "put", "small", "value"]), "ok");
    }
    cluster.run(&["kv", "get", "big"]).fails(1, &["has no value"]);
    let key = "k".repeat(5000);
    cluster.run(&["kv", "put", &key, "value"]).fails(1, &["not done", "key_bytes_max"]);
    assert_eq!(cluster.status()["healthy"], true);
}
