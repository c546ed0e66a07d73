//! Each kind of service as the oracle: what all of them must do, and what becomes of an oracle that is away or no oracle at all.

mod etcd;
mod servers;
mod zookeeper;

use bytes::Bytes;
use quorate::client::Client;
use quorate::{InStore, LocalCluster, ReplicaId, Service};
use quorate_auth::{Authenticator, Ed25519};
use quorate_command::authority::{Destination, Office};
use quorate_oracle::Registers;
use quorate_order::mod_smart::Statements;
use quorate_order::visigoth::{Claim, Missing, Register};
use quorate_runtime::{Group, Oracle, OracleConfig, TlsFiles};
use quorate_skipped::skipped;
use quorate_types::{ClusterId, Holder, InstanceId, MembershipId, Name, View, Visigoth};
use servers::{address_of, garbage};
use std::net::TcpListener;
use std::path::Path;

fn bytes(text: &'static str) -> Bytes {
    Bytes::from_static(text.as_bytes())
}

/// What each oracle does. Two clients of one service see each other's swaps.
fn behaves(mut one: Box<dyn Oracle>, mut other: Box<dyn Oracle>) {
    let register = "quorate/00000000000000000000000000000007/1/1";
    assert_eq!(one.serve(register, None), Ok((0, Bytes::new())), "nobody wrote it");
    assert_eq!(one.serve(register, Some((0, bytes("first")))), Ok((1, bytes("first"))));
    assert_eq!(other.serve(register, Some((0, bytes("late")))), Ok((1, bytes("first"))), "it has changed");
    assert_eq!(other.serve(register, None), Ok((1, bytes("first"))));
    assert_eq!(other.serve(register, Some((1, bytes("second")))), Ok((2, bytes("second"))));
    assert_eq!(one.serve(register, Some((1, bytes("late")))), Ok((2, bytes("second"))));
    assert_eq!(one.serve(register, Some((7, bytes("ahead")))), Ok((2, bytes("second"))), "no such version");
    assert_eq!(one.serve(register, Some((2, Bytes::new()))), Ok((3, Bytes::new())));
    assert_eq!(one.serve("quorate/00000000000000000000000000000007/2/1", None), Ok((0, Bytes::new())));
    // A race of two: each version goes to one of them.
    let race = |mut oracle: Box<dyn Oracle>, name: &'static str| {
        let (mut won, mut held) = (0, oracle.serve(register, None).expect("an answer"));
        while held.0 < 60 {
            let wish = Bytes::from(format!("{name} {}", held.0));
            let (version, value) = oracle.serve(register, Some((held.0, wish.clone()))).expect("an answer");
            assert!(version > held.0, "either swapped");
            won += u64::from(value == wish);
            held = (version, value);
        }
        (won, held.0)
    };
    let [(one, last), (other, other_last)] = std::thread::scope(|scope| {
        let threads = [scope.spawn(|| race(one, "one")), scope.spawn(|| race(other, "other"))];
        threads.map(|thread| thread.join().expect("no panic"))
    });
    assert_eq!(3 + one + other, last.max(other_last), "one winner for each version");
}

/// For clusters whose replicas may lie it grants what is claimed by those that it was first told of.
fn judges(mut one: Box<dyn Oracle>, mut other: Box<dyn Oracle>) {
    let secret = |at: u16| [at as u8; 32];
    let key = |at: u16| (ReplicaId::new(at), Ed25519::public(secret(at)));
    let sizes = Visigoth { u: 2, s: 1, o: 1, t_ms: 1 };
    let group = Group { cluster: ClusterId::new(7), sizes, members: (1..=5).map(key).collect() };
    let (first, second) = (InstanceId::new(1), InstanceId::new(2));
    assert!(one.is_a_judge());
    assert_eq!(one.judge(&group, first, None), Ok((0, Bytes::new())));
    // Somebody who lies about the members comes too late.
    let forged = Group { members: (11..=15).map(key).collect(), ..group.clone() };
    let why = other.judge(&forged, first, None).expect_err("other members");
    assert!(why.contains("other members"), "{why}");

    let claim = |group: &Group, set: [u16; 3], instance: InstanceId| {
        let keys = || group.members.iter().copied();
        let missed: Vec<ReplicaId> =
            keys().map(|(id, _)| id).filter(|id| !set.contains(&id.number())).collect();
        let statements = Statements { cluster: group.cluster, membership: MembershipId::FIRST, instance };
        let said = set.map(|at| {
            let auth = Ed25519::new(ReplicaId::new(at), secret(at), keys()).expect("keys of ours");
            let signature = auth.sign(&statements.misses(View::new(2), 5, &missed));
            Missing { from: ReplicaId::new(at), misses: missed.clone(), signature }
        });
        let set = set.map(ReplicaId::new).to_vec();
        Claim { view: View::new(2), tag: 5, set, said: said.to_vec(), proof: None }.encode()
    };
    let (version, value) =
        other.judge(&group, first, Some(claim(&group, [1, 2, 3], first))).expect("an answer");
    assert_eq!((version, Register::read(value.clone()).expect("a register").grants().len()), (1, 1));
    let refused = [
        claim(&group, [3, 4, 5], first),
        claim(&group, [1, 2, 4], second),
        Bytes::from_static(b"no claim"),
        value.clone(),
    ];
    for claim in refused {
        assert_eq!(one.judge(&group, first, Some(claim)), Ok((1, value.clone())), "it stays as it is");
    }
    let forged_claim = claim(&forged, [11, 12, 13], first);
    assert!(one.judge(&forged, first, Some(forged_claim.clone())).is_err());
    assert_eq!(one.judge(&group, first, Some(forged_claim)), Ok((1, value.clone())));
    assert_eq!(one.judge(&group, second, None), Ok((0, Bytes::new())), "each instance has its own");
    // A register that takes whatever it is told is another one.
    let name = "quorate/00000000000000000000000000000007/1/1";
    let held = one.serve(name, None).expect("an answer");
    one.serve(name, Some((held.0, Bytes::new()))).expect("an answer");
    assert_eq!(other.judge(&group, first, None), Ok((1, value)));
}

fn connect(config: &OracleConfig) -> Box<dyn Oracle> {
    quorate_oracle::of(config).expect("nothing is wrong with the files").expect("there is one")
}

fn etcd_at(endpoints: &[String]) -> OracleConfig {
    OracleConfig::Etcd { endpoints: endpoints.to_vec(), tls: None }
}

fn zookeeper_at(servers: &[String]) -> OracleConfig {
    OracleConfig::Zookeeper { servers: servers.to_vec() }
}

/// Writes the `client.toml` of a cluster.
fn client_file(cluster: &LocalCluster, path: &Path) -> String {
    let id = &cluster.config(ReplicaId::new(1)).expect("a replica").cluster;
    let mut text = format!("cluster = \"{id}\"\nplain = true\n");
    for (replica, address) in cluster.members() {
        text.push_str(&format!("[[members]]\nreplica = {}\naddress = \"{address}\"\n", replica.number()));
    }
    std::fs::write(path, text).expect("written");
    id.clone()
}

#[test]
fn another_quorate_cluster() {
    let directory = tempfile::tempdir().expect("a directory");
    let service = || -> Box<dyn Service> { Box::new(InStore::new(Registers)) };
    let mut cluster = LocalCluster::start(directory.path(), 3, service).expect("a cluster");
    let file = directory.path().join("client.toml");
    let id = client_file(&cluster, &file);
    let config = OracleConfig::Quorate { cluster: id, client: file.clone() };
    // Until it leads, it does not answer.
    let client = Client::builder().members(cluster.members()).build_blocking().expect("a client");
    drop(client.open_session().expect("a session"));
    behaves(connect(&config), connect(&config));

    let mut oracle = connect(&config);
    let held = oracle.serve("quorate/1/1/1", Some((0, bytes("kept")))).expect("an answer");
    for id in (1..=3).map(ReplicaId::new) {
        drop(cluster.stop(id));
    }
    oracle.serve("quorate/1/1/1", None).expect_err("it is away");
    for id in (1..=3).map(ReplicaId::new) {
        cluster.restart(id).expect("it starts");
    }
    let again = (0..60).find_map(|_| oracle.serve("quorate/1/1/1", Some(held.clone())).ok());
    assert_eq!(again, Some((2, bytes("kept"))), "it is back, and forgot nothing");

    judges(connect(&config), connect(&config));
    let wrong = OracleConfig::Quorate { cluster: "0".repeat(32), client: file };
    let why = quorate_oracle::of(&wrong).err().expect("another cluster");
    assert!(why.contains("name the right one"), "{why}");
}

#[test]
fn an_etcd() {
    let Some(server) = servers::etcd(None) else {
        return skipped("there is no etcd; front/cli/tests/all/etcd/build.sh builds one where Go is");
    };
    // The first address is dead.
    let config = etcd_at(&["127.0.0.1:1".to_owned(), server.address()]);
    server.wait(|| connect(&config));
    behaves(connect(&config), connect(&config));
}

/// The certificates of a server and of a client.
fn certificates(place: &Path) -> [TlsFiles; 2] {
    let office = Office::create(&place.join("ca"), ClusterId::new(7)).expect("an authority");
    let issue = |name: &'static str, holder: Holder| {
        let to = Destination { directory: place, name };
        let files = office.issue(&to, &holder, &["127.0.0.1".to_owned()], 1).expect("a certificate");
        TlsFiles { ca: files.ca, certificate: files.certificate, key: files.key }
    };
    [
        issue("server", Holder::Replica(ReplicaId::new(1))),
        issue("client", Holder::Client(Name::parse("oracle").expect("a name"))),
    ]
}

/// Both sides show certificates. Without one the server is not reached.
#[test]
fn an_etcd_with_certificates() {
    let place = tempfile::tempdir().expect("a directory");
    let [served, tls] = certificates(place.path());
    let Some(server) = servers::etcd(Some(&served)) else {
        return skipped("there is no etcd; front/cli/tests/all/etcd/build.sh builds one where Go is");
    };
    let config = OracleConfig::Etcd { endpoints: vec![server.address()], tls: Some(tls) };
    server.wait(|| connect(&config));
    behaves(connect(&config), connect(&config));
    connect(&etcd_at(&[server.address()])).serve("quorate/1/1/1", None).expect_err("no certificate");
}

#[test]
fn a_zookeeper() {
    let Some(server) = servers::zookeeper() else {
        return skipped("there is no ZooKeeper: name the folder of its jars in ZOOKEEPER");
    };
    let config = zookeeper_at(&["127.0.0.1:1".to_owned(), server.address()]);
    server.wait(|| connect(&config));
    behaves(connect(&config), connect(&config));
}

/// Nobody listens there, or somebody who is no oracle: an error that names the address, and no panic.
#[test]
fn what_is_no_oracle_gives_an_error() {
    for answer in [&b""[..], b"HTTP/1.1 400 Bad Request\r\n\r\n", &[0; 64], &[255; 64], &[0, 0, 0, 20, 7]] {
        let address = garbage(answer);
        let servers = [address.clone()];
        for config in [etcd_at(&servers), zookeeper_at(&servers)] {
            for swap in [None, Some((0, bytes("a"))), Some((u64::MAX, bytes("a")))] {
                let why = connect(&config).serve("quorate/1/1/1", swap).expect_err("no oracle");
                assert!(why.contains(&address), "{why}");
            }
        }
    }
    // Somebody takes the connection, and never says a word.
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let (address, place) = (address_of(&silent), tempfile::tempdir().expect("a directory"));
    let [_, tls] = certificates(place.path());
    let servers = [address.clone()];
    let safe = OracleConfig::Etcd { endpoints: servers.to_vec(), tls: Some(tls) };
    for config in [etcd_at(&servers), safe, zookeeper_at(&servers)] {
        let why = connect(&config).serve("quorate/1/1/1", None).expect_err("no answer");
        assert!(why.contains(&address), "{why}");
    }
    for config in [etcd_at(&["127.0.0.1:1".to_owned()]), zookeeper_at(&["127.0.0.1:1".to_owned()])] {
        let why = connect(&config).serve("quorate/1/1/1", None).expect_err("nobody listens");
        assert!(why.contains("127.0.0.1:1: ") && why.contains("refused"), "{why}");
    }
}
