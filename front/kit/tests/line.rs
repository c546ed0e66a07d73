//! Tests of the front in `examples/line.rs`, with clients that connect as `nc` does.

#[allow(dead_code)]
#[path = "../examples/line.rs"]
mod line;

use quorate::{LocalCluster, ReplicaId};
use quorate_kit::Running;
use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// The most time for any step, even on a very slow machine.
const PATIENCE: Duration = Duration::from_secs(60);

struct World {
    // Ends before the replicas do.
    fronts: Vec<Running>,
    cluster: LocalCluster,
    _directory: tempfile::TempDir,
}

impl World {
    fn start() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let (cluster, fronts) = line::start(&directory.path().join("cluster")).expect("a cluster");
        Self { fronts, cluster, _directory: directory }
    }

    fn client(&self, member: usize) -> Client {
        Client::connect(self.fronts[member].address())
    }
}

struct Client {
    out: TcpStream,
    lines: BufReader<TcpStream>,
}

impl Client {
    fn connect(address: SocketAddr) -> Self {
        let out = TcpStream::connect(address).expect("it listens");
        out.set_read_timeout(Some(PATIENCE)).expect("it can be set");
        let lines = BufReader::new(out.try_clone().expect("it can be cloned"));
        Self { out, lines }
    }

    fn say(&mut self, line: &str) {
        self.out.write_all(format!("{line}\n").as_bytes()).expect("it listens");
    }

    /// The next line; none at the end.
    fn hear(&mut self) -> Option<String> {
        let mut line = String::new();
        self.lines.read_line(&mut line).expect("an answer in time");
        (!line.is_empty()).then(|| line.trim_end_matches('\n').to_owned())
    }

    fn ask(&mut self, line: &str) -> String {
        self.say(line);
        self.hear().expect("an answer")
    }
}

#[test]
fn keys_are_set_read_and_deleted_at_any_member() {
    let world = World::start();
    let [mut one, mut two, mut three] = [0, 1, 2].map(|member| world.client(member));
    assert_eq!(one.ask("SET greeting hello, world"), "OK");
    assert_eq!(two.ask("GET greeting"), "VALUE hello, world", "acknowledged there, so it is read here");
    assert_eq!((three.ask("GET other"), three.ask("DEL other")), ("NONE".to_owned(), "NONE".to_owned()));
    assert_eq!(three.ask("DEL greeting"), "OK");
    assert_eq!(one.ask("GET greeting"), "NONE");
    let until = Instant::now() + PATIENCE;
    while two.ask("LOOK greeting") != "NONE" {
        assert!(Instant::now() < until, "it comes here in the end");
    }
    assert_eq!(two.ask("HEALTH"), "OK");
    assert_eq!(two.ask("FETCH greeting"), "ERROR no such command");
    // As with `echo ... | nc -N`: the command is answered, though the client sends nothing more.
    one.say("SET last word\nGET last");
    one.out.shutdown(std::net::Shutdown::Write).expect("it can be shut");
    assert_eq!((one.hear(), one.hear(), one.hear()), (Some("OK".into()), Some("VALUE word".into()), None));
}

#[test]
fn whoever_watches_sees_every_change_once_and_in_order() {
    let world = World::start();
    let mut writer = world.client(0);
    assert_eq!((writer.ask("SET a/old 1"), writer.ask("SET b 1")), ("OK".into(), "OK".into()));
    // Members execute a change one after the other: the watch begins with the state of this one.
    let mut watcher = world.client(2);
    while watcher.ask("LOOK b") != "VALUE 1" {}
    assert_eq!(watcher.ask("WATCH a/"), "WATCHING");
    assert_eq!(watcher.hear(), Some("IS a/old 1".into()));
    // Many clients at once: their commands are collected, and ordered as one request or several.
    let members: Vec<SocketAddr> = world.fronts.iter().map(Running::address).collect();
    std::thread::scope(|scope| {
        for (number, address) in members.into_iter().cycle().take(12).enumerate() {
            scope.spawn(move || {
                let mut client = Client::connect(address);
                for round in 0..20 {
                    assert_eq!(client.ask(&format!("SET a/{number} {round}")), "OK");
                    assert_eq!(client.ask(&format!("SET b {round}")), "OK");
                }
            });
        }
    });
    assert_eq!(writer.ask("DEL a/old"), "OK");
    let mut seen = BTreeMap::<String, u32>::new();
    loop {
        let line = watcher.hear().expect("an event");
        if line == "DEL a/old" {
            break;
        }
        let (key, value) = line.strip_prefix("SET ").and_then(|rest| rest.split_once(' ')).expect(&line);
        let next = seen.entry(key.to_owned()).or_default();
        assert_eq!(value, next.to_string(), "{line}");
        *next += 1;
    }
    assert!(seen.len() == 12 && seen.values().all(|count| *count == 20), "{seen:?}");
}

/// Nobody waits for it, and in the end it knows what is there.
#[test]
fn whoever_does_not_read_begins_again() {
    let world = World::start();
    let mut watcher = world.client(1);
    assert_eq!(watcher.ask("WATCH k"), "WATCHING");
    let value = "v".repeat(16 << 10);
    let mut writer = world.client(0);
    for round in 0..100 {
        (0..10).for_each(|key| writer.say(&format!("SET k{key} {round}{value}")));
        (0..10).for_each(|_| assert_eq!(writer.hear(), Some("OK".into())));
    }
    // This key is the last of every list.
    assert_eq!(writer.ask("SET kz 1"), "OK");
    let (mut known, mut again) = (BTreeMap::new(), 0);
    while !known.contains_key("kz") {
        let line = watcher.hear().expect("a line");
        match line.splitn(3, ' ').collect::<Vec<_>>()[..] {
            ["AGAIN"] => (known, again) = (BTreeMap::new(), again + 1),
            ["SET" | "IS", key, value] => drop(known.insert(key.to_owned(), value.to_owned())),
            _ => panic!("{}", &line[..40.min(line.len())]),
        }
    }
    assert!(again > 0, "16 MiB are more than waits for one client");
    assert_eq!(known.len(), 11);
    let last = format!("99{value}");
    assert!((0..10).all(|key| known[&format!("k{key}")] == last), "what was set last");
}

#[test]
fn the_others_serve_on_when_a_member_stops() {
    let mut world = World::start();
    assert_eq!(world.client(0).ask("SET before 1"), "OK");
    let mut watcher = world.client(2);
    assert_eq!(watcher.ask("WATCH after"), "WATCHING");
    drop(world.fronts.remove(0));
    assert_eq!(world.cluster.stop(ReplicaId::new(1)), None);
    let mut client = world.client(0);
    assert_eq!(client.ask("GET before"), "VALUE 1");
    assert_eq!(client.ask("SET after 2"), "OK");
    while watcher.hear().expect("a line") != "SET after 2" {}
}
