//! What happens to a cluster in the evaluation of BFT-SMaRt, with real processes and a replica that lies all the time: a replica joins, the leader
//! crashes and comes back, a replica is removed; and then the liar is replaced on the evidence of what it signed.
//!
//! Source: Bessani, Sousa, Alchieri, "State Machine Replication for the Masses with BFT-SMaRt", DSN 2014, section 6.3. A liar and a leader
//! that crashed are two faults, so there are seven replicas.

use crate::harness::kv::{client, has, put};
use crate::harness::{Ends, Made, Ran, Server, edit, free_ports, quorate, wait_until};
use quorate::client::BlockingClient;
use quorate_order::mod_smart::evidence::Evidence;
use quorate_types::ReplicaId;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The replica that lies, among seven.
const LIAR: u16 = 7;
const CLIENTS: usize = 3;
/// How many keys each client has.
const KEYS: u64 = 30;
/// For so long nobody may be answered after the crash: the paper's time, much less than which is ours with a release build on a quiet machine.
const GAP: Duration = Duration::from_secs(20);

/// The cluster, and its replicas that run.
struct Stage {
    made: Made,
    servers: BTreeMap<u16, Server>,
}

impl Stage {
    fn new() -> Self {
        let mut stage = Self { made: Made::byzantine_of(7), servers: BTreeMap::new() };
        std::fs::write(stage.lies(), "votes").expect("written");
        // What is measured here is not the disk. Nothing is lost when a process is killed.
        (1..=7).for_each(|id| edit(&stage.made.config(id), "mode = \"group\"", "mode = \"async\""));
        (1..=7).for_each(|id| stage.start(id));
        stage
    }

    fn lies(&self) -> PathBuf {
        self.made.path().join("lies")
    }

    /// The liar lies whenever it runs.
    fn start(&mut self, id: u16) {
        let lies = self.lies();
        let tells = ["--lies", lies.to_str().expect("UTF-8"), "--die-with-parent"];
        let more: &[&str] = if id == LIAR { &tells } else { &[] };
        self.servers.insert(id, Server::start_with(&self.made.config(id), more));
    }

    fn run(&self, arguments: &[&str]) -> Ran {
        let made = self.made.path();
        let mut all = arguments.to_vec();
        all.extend(["--dir", made.to_str().expect("UTF-8")]);
        quorate(&all)
    }

    fn json(&self, arguments: &[&str]) -> Value {
        let ran = self.run(&[arguments, &["--json"]].concat());
        serde_json::from_str(&ran.out).unwrap_or_default()
    }

    /// Members, and whether they have caught up.
    fn members(&self) -> BTreeMap<u16, bool> {
        let list = self.json(&["member", "list"]);
        let each = list["members"].as_array().into_iter().flatten();
        each.map(|m| (m["replica"].as_u64().unwrap_or_default() as u16, m["caught_up"] == true)).collect()
    }

    fn has_caught_up(&self, id: u16) -> bool {
        self.members().get(&id) == Some(&true)
    }

    /// How far each replica that answers has executed.
    fn executed(&self) -> BTreeMap<u64, u64> {
        let status = self.json(&["status"]);
        let replicas = status["replicas"].as_array().cloned().unwrap_or_default();
        let of = |one: &Value| Some((one["replica"].as_u64()?, one["status"]["executed"].as_u64()?));
        replicas.iter().filter_map(of).collect()
    }

    /// Waits until a replica that came back has what the others had then.
    fn is_back(&self, id: u16) {
        let had = self.executed().into_values().max().unwrap_or_default();
        wait_until("it has what the others had", || {
            self.executed().get(&u64::from(id)).is_some_and(|executed| *executed >= had)
        });
    }

    /// Adds a learner, starts it, and waits until it has everything.
    fn add(&mut self, id: u16) {
        let address = format!("127.0.0.1:{}", free_ports(1)[0]);
        self.run(&["member", "add", &id.to_string(), "--address", &address]).ok();
        self.start(id);
        wait_until("the new one has caught up", || self.has_caught_up(id));
    }

    /// Who leads, as soon as that is an honest one.
    fn leader(&self) -> u16 {
        let mut leader = None;
        wait_until("an honest leader", || {
            leader = self.json(&["status"])["leader"].as_u64().filter(|id| *id != u64::from(LIAR));
            leader.is_some()
        });
        leader.unwrap_or_default() as u16
    }

    /// The evidence against the liar that others hold.
    fn evidence(&self) -> Option<String> {
        let list = self.json(&["evidence", "list"]);
        let all = list["evidence"].as_array()?;
        all.iter().for_each(|one| assert_eq!(one["replica"], LIAR, "nobody else lies: {one}"));
        let liar = format!("r{LIAR}");
        let others =
            |one: &&Value| one["held_by"].as_array().is_some_and(|by| by.iter().any(|by| *by != *liar));
        all.iter().find(others)?["file"].as_str().map(str::to_owned)
    }
}

/// How far each client has come: the last number that was acknowledged to it.
#[derive(Default)]
struct Clients {
    acknowledged: [AtomicU64; CLIENTS],
    over: AtomicBool,
}

impl Clients {
    fn counts(&self) -> [u64; CLIENTS] {
        std::array::from_fn(|at| self.acknowledged[at].load(Ordering::Acquire))
    }

    /// Waits until each of them was answered again.
    fn go_on(&self) {
        let before = self.counts();
        wait_until("all clients go on", || {
            self.counts().iter().zip(before).all(|(now, before)| *now > before)
        });
    }

    /// Writes numbers one after the other, under some names in turns, and checks that each is there once it is acknowledged.
    fn write(&self, at: usize, client: &BlockingClient) {
        let session = client.open_session().expect("a session");
        for number in 1.. {
            if self.over.load(Ordering::Acquire) {
                break;
            }
            session.call_one(&put(&name(at, number), &number.to_string())).expect("it is written");
            assert!(has(client, &name(at, number), &number.to_string()), "it is there at once");
            self.acknowledged[at].store(number, Ordering::Release);
        }
        session.close().expect("closed");
    }
}

fn name(at: usize, number: u64) -> String {
    format!("{at}/{}", number % KEYS)
}

/// Nobody is replaced on evidence against another one, or on what somebody made up.
fn made_up_evidence_is_refused(stage: &Stage, proof: &Path) {
    let replace = |old: &str, file: &Path| {
        stage.run(&["member", "replace", old, "9", "--evidence", file.to_str().expect("UTF-8")])
    };
    replace("2", proof)
        .fails(1, &["r2 is not replaced on the evidence", "it is against r7, and says nothing of r2"]);
    let bytes = std::fs::read(proof).expect("it was fetched");
    let mut forged = Evidence::decode(bytes.into()).expect("evidence");
    forged.accused = ReplicaId::new(2);
    let file = proof.with_extension("forged");
    std::fs::write(&file, forged.encode()).expect("written");
    replace("2", &file)
        .fails(1, &["it was signed with another key than the one in the membership", "proves nothing"]);
    replace("7", &proof.with_extension("gone")).fails(2, &["there is no file"]);
    assert!(stage.members().contains_key(&2), "nothing was changed");
}

/// The liar is replaced by r9, and everybody says why.
fn replace_the_liar(stage: &mut Stage) {
    let mut found = None;
    wait_until("what the liar signs proves that it lies", || {
        found = stage.evidence();
        found.is_some()
    });
    let (file, place) = (found.expect("it was found"), tempfile::tempdir().expect("a directory"));
    let to = place.path().to_str().expect("UTF-8");
    stage.run(&["evidence", "fetch", &file, "--to", to]).ok();
    stage.add(9);
    let proof = place.path().join(&file);
    made_up_evidence_is_refused(stage, &proof);
    assert!(stage.run(&["status"]).out.contains(": proved"), "it is a problem until it is gone");
    let said = stage.run(&["member", "replace", "7", "9", "--evidence", proof.to_str().expect("UTF-8")]).ok();
    let reason = format!("r9 replaces r7 on the evidence {file}: r7 signed ");
    assert!(said.contains("r9 has taken the place of r7") && said.contains(&reason), "{said}");
    drop(stage.servers.remove(&LIAR));
    let noted = stage.servers.keys().filter(|id| {
        let log = std::fs::read_to_string(stage.made.data(**id).join("audit.jsonl")).unwrap_or_default();
        log.lines().any(|line| line.contains("of administrators: ") && line.contains(&reason))
    });
    assert!(noted.count() > 2, "more replicas than may lie recorded it");
    let again =
        stage.run(&["member", "replace", "7", "9", "--evidence", proof.to_str().expect("UTF-8")]).ok();
    assert!(again.contains("already"), "{again}");
    wait_until("nothing is wrong any more", || {
        let status = stage.json(&["status"]);
        let replicas = status["replicas"].as_array().map_or(0, Vec::len);
        status["healthy"] == true && status["problems"] == serde_json::json!([]) && replicas == 7
    });
    assert_eq!(stage.evidence(), Some(file), "the file is kept");
}

#[test]
fn a_liar_is_there_all_the_time_and_replaced_on_its_evidence() {
    let mut stage = Stage::new();
    wait_until("the cluster answers", || stage.run(&["kv", "put", "begin", "now"]).code == Some(0));
    let (clients, reader) = (Clients::default(), client(&stage.made.path()));
    std::thread::scope(|scope| {
        let ends = Ends(&clients.over);
        for at in 0..CLIENTS {
            let (clients, client) = (&clients, client(&stage.made.path()));
            scope.spawn(move || clients.write(at, &client));
        }
        clients.go_on();
        stage.add(8);
        stage.run(&["member", "promote", "8"]).ok();
        clients.go_on();

        let leader = stage.leader();
        // Its end is sudden.
        drop(stage.servers.remove(&leader));
        let crashed = Instant::now();
        clients.go_on();
        assert!(crashed.elapsed() < GAP, "nobody was answered for {:?}", crashed.elapsed());
        stage.start(leader);
        stage.is_back(leader);
        clients.go_on();

        let led = stage.leader();
        let leaves = (1..LIAR).rfind(|id| ![leader, led].contains(id)).expect("a follower");
        stage.run(&["member", "remove", &leaves.to_string()]).ok();
        drop(stage.servers.remove(&leaves));
        clients.go_on();

        replace_the_liar(&mut stage);
        clients.go_on();
        drop(ends);
    });
    for (at, last) in clients.counts().into_iter().enumerate() {
        // Older ones were written over.
        for number in last.saturating_sub(KEYS - 1).max(1)..=last {
            assert!(
                has(&reader, &name(at, number), &number.to_string()),
                "{number} of client {at} of {last}"
            );
        }
    }
}
