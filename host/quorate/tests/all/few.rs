//! A cluster on real sockets in which few replicas are slow: four survive two that stop, and an oracle decides between halves.

use crate::count::Count;
use bytes::Bytes;
use quorate::client::{Authentication, BlockingClient, Client, FaultModel};
use quorate::{Config, InStore, LocalCluster, Options, ReplicaId, Service};
use quorate_order::Protocol;
use quorate_runtime::{Group, Held, MemoryOracle, Oracle, OracleConfig};
use quorate_types::{InstanceId, Visigoth};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Two of four may stop; or two of five may, and one of them may lie.
const fn model(o: u32) -> FaultModel {
    FaultModel::Visigoth(Visigoth { u: 2, s: 1, o, t_ms: 40 })
}
/// Nothing here takes longer on a machine that does anything at all.
const PATIENCE: Duration = Duration::from_secs(60);

/// An oracle in this process that may be away, and counts its swaps.
#[derive(Clone, Default)]
struct Watched {
    registers: MemoryOracle,
    away: Arc<AtomicBool>,
    asked: Arc<AtomicU64>,
}

impl Oracle for Watched {
    fn serve(&mut self, register: &str, swap: Option<Held>) -> Result<Held, String> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        if self.away.load(Ordering::Relaxed) {
            return Err("it is away".to_owned());
        }
        self.registers.serve(register, swap)
    }
    fn judge(&mut self, group: &Group, instance: InstanceId, claim: Option<Bytes>) -> Result<Held, String> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        if self.away.load(Ordering::Relaxed) {
            return Err("it is away".to_owned());
        }
        self.registers.judge(group, instance, claim)
    }
    fn is_a_judge(&self) -> bool {
        true
    }
    fn name(&self) -> String {
        "a watched one".to_owned()
    }
}

fn cluster(directory: &std::path::Path, instances: u16, o: u32, oracle: &Watched) -> LocalCluster {
    let service = || -> Box<dyn Service> { Box::new(InStore::new(Count)) };
    let configure = |config: &mut Config| {
        (config.fault_model, config.protocol) = (model(o), Protocol::MOD_SMART);
        config.instances = instances;
    };
    let all = 4 + o as u16;
    let cluster = LocalCluster::start_with(directory, all, service, configure, |_| options(oracle));
    let cluster = cluster.expect("a cluster");
    // A new cluster begins once each replica has met all others: one that did not meet the leader would wait for it.
    let asks = client(&cluster, o);
    waits_for(|| (1..=all).all(|id| says_not(&asks, id, "\"leader\":null")));
    cluster
}

fn options(oracle: &Watched) -> Options {
    Options { oracle: Some(Box::new(oracle.clone())), ..Options::default() }
}

fn client(cluster: &LocalCluster, o: u32) -> BlockingClient {
    let builder = Client::builder().members(cluster.members()).fault_model(model(o));
    builder.timeout(PATIENCE).build_blocking().expect("a client")
}

fn leader(client: &BlockingClient) -> ReplicaId {
    let leads = |id: &ReplicaId| says(client, id.number(), "\"leading\":true");
    (1..=5).map(ReplicaId::new).find(leads).unwrap_or(ReplicaId::new(1))
}

/// Whether the status of this replica says so.
fn says(client: &BlockingClient, replica: u16, what: &str) -> bool {
    client.status(ReplicaId::new(replica)).is_ok_and(|status| status.contains(what))
}

fn says_not(client: &BlockingClient, replica: u16, what: &str) -> bool {
    client.status(ReplicaId::new(replica)).is_ok_and(|status| !status.contains(what))
}

fn waits_for(what: impl Fn() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !what() {
        assert!(Instant::now() < until, "it never comes");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Two replicas stop, one of them the leader, and come back; then two others do. Nothing is lost, and nothing is done twice. Where one may
/// lie, the others say whom they miss, and three of five go on.
#[test]
fn two_replicas_fewer_go_on() {
    for (instances, o) in [(1, 0), (4, 0), (1, 1), (4, 1)] {
        let (directory, oracle) = (tempfile::tempdir().expect("a directory"), Watched::default());
        let mut cluster = cluster(directory.path(), instances, o, &oracle);
        let (client, all) = (client(&cluster, o), 4 + o as u16);
        let session = client.open_session().expect("a session");
        let mut count = 0;
        let mut counts = |times: u64| {
            for _ in 0..times {
                let replies = session.call_one(b"count").expect("an answer");
                let reply = replies.first().and_then(|reply| reply.first_chunk());
                count += 1;
                assert_eq!(u64::from_le_bytes(*reply.expect("a number")), count);
            }
        };
        counts(10);
        let said = "may have gone on by a grant of the oracle";
        let first = leader(&client);
        let second = (1..=all).map(ReplicaId::new).find(|id| *id != first).expect("others");
        for stopped in [[first, second], [ReplicaId::new(3), ReplicaId::new(4)]] {
            stopped.iter().for_each(|id| drop(cluster.stop(*id)));
            counts(10);
            waits_for(|| (1..=all).any(|id| says(&client, id, said)));
            for id in stopped {
                cluster.restart_with(id, options(&oracle)).expect("it starts");
            }
            counts(10);
            // Until the leader has changed, those that went on are needed.
            waits_for(|| (1..=all).all(|id| says_not(&client, id, said)));
        }
        assert!(oracle.asked.load(Ordering::Relaxed) > 0);
    }
}

/// There is no oracle, as the operator wrote down: two of four go on by themselves. Who comes back counts again after a moment, and then the
/// others may stop. T is so long that no replica here stands still for it.
#[test]
fn two_of_four_go_on_without_an_oracle() {
    let directory = tempfile::tempdir().expect("a directory");
    let service = || -> Box<dyn Service> { Box::new(InStore::new(Count)) };
    let configure = |config: &mut Config| {
        config.fault_model = FaultModel::Visigoth(Visigoth { u: 2, s: 1, o: 0, t_ms: 700 });
        config.protocol = Protocol::MOD_SMART;
        (config.timing.election_min_ms, config.timing.election_max_ms) = (1500, 3000);
        config.oracle = Some(OracleConfig::None { because: "all is in one process".into() });
        config.instances = 2;
    };
    let with = |_| Options::default();
    let mut cluster =
        LocalCluster::start_with(directory.path(), 4, service, configure, with).expect("a cluster");
    let client = client(&cluster, 0);
    let session = client.open_session().expect("a session");
    let counts = |expected: u64| {
        let replies = session.call_one(b"count").expect("an answer");
        assert_eq!(replies.first(), Some(&expected.to_le_bytes()[..]));
    };
    counts(1);
    let all_count = || (1..=4).all(|id| says_not(&client, id, "\"counts\":false"));
    waits_for(all_count);
    let first = leader(&client);
    let second = (1..=4).map(ReplicaId::new).find(|id| *id != first).expect("others");
    for (expected, stopped) in [(2, [first, second]), (3, [ReplicaId::new(3), ReplicaId::new(4)])] {
        stopped.iter().for_each(|id| drop(cluster.stop(*id)));
        counts(expected);
        stopped.iter().for_each(|id| cluster.restart(*id).expect("it starts"));
        waits_for(all_count);
    }
}

/// While two of five are away, one of which led, a client that signs comes and opens a session: those that are left are enough to spread
/// the opening.
#[test]
fn clients_that_sign_come_while_two_are_away() {
    let (directory, oracle) = (tempfile::tempdir().expect("a directory"), Watched::default());
    let mut cluster = cluster(directory.path(), 1, 1, &oracle);
    let leads = leader(&client(&cluster, 1));
    let config = cluster.config(leads).expect("a replica");
    let id = config.cluster_id().expect("an id");
    let second = (1..=5).map(ReplicaId::new).find(|id| *id != leads).expect("others");
    let mut count = 0;
    for stopped in [leads, second] {
        drop(cluster.stop(stopped));
        let builder = Client::builder().members(cluster.members()).fault_model(model(1)).cluster(id);
        let builder = builder.authentication(Authentication::Signatures).timeout(PATIENCE);
        let client = builder.build_blocking().expect("a client");
        let session = client.open_session().expect("a session");
        let replies = session.call_one(b"count").expect("an answer");
        count += 1;
        assert_eq!(replies.first(), Some(&u64::to_le_bytes(count)[..]));
    }
}

/// Two oracles would each grant a half: a replica that had one of the caller's gets no other.
#[test]
fn a_replica_keeps_its_oracle() {
    let (directory, oracle) = (tempfile::tempdir().expect("a directory"), Watched::default());
    let mut cluster = cluster(directory.path(), 1, 0, &oracle);
    let one = ReplicaId::new(1);
    let why = cluster.restart(one).expect_err("another oracle").to_string();
    assert!(why.contains("give it the one that it had"), "{why}");
    cluster.restart_with(one, options(&oracle)).expect("it starts");
}

/// The oracle is away while half of the replicas are: nothing is decided, the status says why, and nothing is lost.
#[test]
fn without_the_oracle_half_of_the_replicas_wait() {
    let (directory, oracle) = (tempfile::tempdir().expect("a directory"), Watched::default());
    let mut cluster = cluster(directory.path(), 1, 0, &oracle);
    let client = client(&cluster, 0);
    let session = client.open_session().expect("a session");
    session.call_one(b"count").expect("an answer");
    oracle.away.store(true, Ordering::Relaxed);
    let leader = leader(&client);
    let stopped: Vec<ReplicaId> = (1..=4).map(ReplicaId::new).filter(|id| *id != leader).take(2).collect();
    stopped.iter().for_each(|id| drop(cluster.stop(*id)));
    std::thread::scope(|scope| {
        let call = scope.spawn(|| session.call_one(b"count").expect("an answer"));
        waits_for(|| says(&client, leader.number(), "the oracle, a watched one, does not answer"));
        assert!(!call.is_finished(), "two of four decide nothing by themselves");
        oracle.away.store(false, Ordering::Relaxed);
        let replies = call.join().expect("no panic");
        assert_eq!(replies.first(), Some(&2u64.to_le_bytes()[..]));
    });
}
