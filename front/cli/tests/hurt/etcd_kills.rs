//! Replicas are killed and paused while clients of etcd write, watch and hold locks: watches lose and repeat nothing, no lock has two
//! holders, and what clients saw is one linearizable history.
//!
//! QUORATE_KILLS=200 and QUORATE_TRANSFERS=50 make it longer, QUORATE_SEED repeats its choices (not the timing of the machine). When it fails, the
//! directory with all logs and the history stays, and is named.

pub(crate) mod clients;
mod judge;
mod locks;
mod watchers;
mod writers;

use crate::filled::settings::Settings;
use crate::rig::cluster::{self, Cluster, LIMIT, REPLICAS};
use crate::rig::links::Links;
use crate::rig::random::{self, Random};
use clients::{Client, Shared};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;
use watchers::{Change, Seen, Watcher};

const WRITERS: u64 = 6;
const HOLDERS: u64 = 6;

/// Clients at work.
struct Load {
    shared: Arc<Shared>,
    runtime: Runtime,
    workers: Vec<JoinHandle<()>>,
    watchers: Vec<JoinHandle<Seen>>,
}

impl Load {
    fn start(addresses: &[String], random: &mut Random) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
        let runtime = runtime.expect("a runtime");
        let shared = Arc::new(Shared::new(addresses));
        let context = runtime.enter();
        let mut client = |number| Client::new(shared.clone(), number, random.fork());
        let writers: Vec<_> =
            (0..WRITERS).map(|number| tokio::spawn(writers::write(client(number)))).collect();
        let holders = (0..HOLDERS).map(|number| tokio::spawn(locks::hold(client(100 + number))));
        let workers = holders.collect::<Vec<_>>().into_iter().chain(writers).collect();
        let kinds = watchers::KINDS.iter().zip(200..);
        let watchers = kinds.map(|(kind, number)| tokio::spawn(Watcher::new(client(number), *kind).run()));
        let watchers = watchers.collect();
        drop(context);
        Self { shared, runtime, workers, watchers }
    }

    /// Waits until so many more operations of writers were answered.
    fn wait_for_progress(&self, more: u64, cluster: &mut Cluster) {
        let (from, until) = (self.shared.recorder.answered(), Instant::now() + LIMIT);
        while self.shared.recorder.answered() < from + more {
            cluster.check_all_running();
            let tails = || (0..REPLICAS).map(|at| cluster.tail(at)).collect::<Vec<_>>().join("\n---\n");
            assert!(Instant::now() < until, "no progress within {LIMIT:?}; last printed:\n{}", tails());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Waits until somebody took a lock after now.
    fn wait_for_a_holder(&self, cluster: &mut Cluster) {
        let from = self.shared.held.load(Ordering::Relaxed);
        cluster::wait("somebody takes a lock", || {
            cluster.check_all_running();
            self.shared.held.load(Ordering::Relaxed) > from
        });
    }

    /// Ends the writers and holders, then lets watchers go on until they know that they saw all.
    fn stop(&mut self) -> Vec<Seen> {
        self.shared.recorder.stop();
        let (workers, watchers) = (std::mem::take(&mut self.workers), std::mem::take(&mut self.watchers));
        self.runtime.block_on(async {
            for worker in workers {
                let ended = tokio::time::timeout(LIMIT, worker).await.expect("a client ends");
                ended.expect("a client does not panic");
            }
            self.shared.set_end(judge::revision(&self.shared).await);
            let mut seen = Vec::new();
            for watcher in watchers {
                let ended = tokio::time::timeout(LIMIT, watcher).await.expect("a watcher sees all");
                seen.push(ended.expect("a watcher does not panic"));
            }
            seen
        })
    }
}

#[test]
fn clients_of_etcd_lose_nothing_and_see_nothing_twice_while_replicas_are_killed() {
    let mut random = Random::from_environment("kills with clients of etcd");
    let (mut cluster, addresses) = Cluster::of_etcd("etcd-kills", &mut random);
    (0..REPLICAS).for_each(|at| cluster.start(at));
    cluster.wait_for_leader();
    let mut load = Load::start(&addresses, &mut random);
    load.wait_for_progress(100, &mut cluster);
    let wanted = random::number("QUORATE_KILLS", 10);
    let (kills, took) = kill_and_pause(&mut cluster, &load, wanted, &mut random);
    cluster.heal();
    cluster.wait_for_leader();
    load.wait_for_progress(200, &mut cluster);
    let seen = load.stop();
    cluster.wait_until_even();
    load.shared.recorder.write(&cluster.root().join("history.jsonl"));
    let said = load.runtime.block_on(judge::judge(&load.shared, &seen));
    println!("{kills} kills in {took:?}; {said}");
}

/// A replica that is cut off, with its clients, for so long that the others trim their logs, goes on from a checkpoint: whoever watches
/// there misses nothing of what that jumps over.
#[test]
fn watches_miss_nothing_at_replicas_that_jump_to_a_checkpoint() {
    let mut random = Random::from_environment("transfers with clients of etcd");
    let (mut cluster, addresses) = Cluster::of_etcd("etcd-transfers", &mut random);
    Settings::default().configure(&cluster);
    let links = Links::between(&cluster);
    (0..REPLICAS).for_each(|at| cluster.start(at));
    cluster.wait_for_leader();
    let mut load = Load::start(&addresses, &mut random);
    load.wait_for_progress(100, &mut cluster);
    let wanted = random::number("QUORATE_TRANSFERS", 2);
    let (mut jumps, mut rounds) = (0, 0);
    while jumps < wanted {
        let at = random.below(REPLICAS as u64) as usize;
        jumps += u64::from(leave_behind(&mut cluster, &links, at, &mut random));
        rounds += 1;
        assert!(rounds <= 10 * wanted, "{jumps} jumps in {rounds} rounds");
        load.wait_for_progress(40, &mut cluster);
    }
    let seen = load.stop();
    cluster.wait_until_even();
    let said = load.runtime.block_on(judge::judge(&load.shared, &seen));
    println!("{jumps} jumps in {rounds} rounds; {said}");
}

/// Cuts a replica off until the others trimmed what it lacks, and says whether it went on from a checkpoint: at times the log is still there.
fn leave_behind(cluster: &mut Cluster, links: &Links, at: usize, random: &mut Random) -> bool {
    let number = |cluster: &Cluster, at: usize, part: &str| {
        let status = cluster.status(at).unwrap_or_default();
        status.pointer(part).and_then(serde_json::Value::as_u64).unwrap_or_default()
    };
    let jumps = |cluster: &Cluster| cluster.printed(at).matches("goes on from the checkpoint of seq").count();
    let (had, before) = (number(cluster, at, "/executed"), jumps(cluster));
    links.isolate(at);
    cluster::wait("the others trim their logs", || {
        cluster.check_all_running();
        (0..REPLICAS).all(|other| other == at || number(cluster, other, "/checkpoints/trimmed") > had)
    });
    nap(random, 0, 800);
    links.heal();
    cluster.wait_until_caught_up(at);
    jumps(cluster) > before
}

fn kill_and_pause(cluster: &mut Cluster, load: &Load, wanted: u64, random: &mut Random) -> (u64, Duration) {
    let (begin, mut kills, mut rounds) = (Instant::now(), 0, 0);
    while kills < wanted {
        rounds += 1;
        let first = match cluster.leader() {
            Some(leader) if rounds % 2 == 0 => leader,
            _ => random.below(REPLICAS as u64) as usize,
        };
        if random.percent(20) {
            // Long enough at times for another one to lead, and for leases to end.
            cluster.pause(first);
            nap(random, 100, 2500);
            cluster.resume(first);
            continue;
        }
        let more = match random.below(100) {
            0..70 => 0,
            70..85 => 1,
            _ => 2,
        };
        for at in (0..=more).map(|step| (first + step) % REPLICAS) {
            cluster.kill(at);
            kills += 1;
        }
        if more == 0 && random.percent(50) {
            // Two of three go on.
            load.wait_for_progress(20, cluster);
        } else {
            nap(random, 20, 600);
        }
        if random.percent(25) {
            cluster.start(first);
            nap(random, 0, 120);
            cluster.kill(first);
            kills += 1;
        }
        cluster.heal();
        if random.percent(80) {
            load.wait_for_progress(40, cluster);
        }
        if random.percent(50) {
            load.wait_for_a_holder(cluster);
        }
    }
    (kills, begin.elapsed())
}

fn nap(random: &mut Random, from_ms: u64, to_ms: u64) {
    std::thread::sleep(Duration::from_millis(random.between(from_ms, to_ms)));
}

/// What a watch on all keys saw.
fn seen(changes: &[Change]) -> Seen {
    Seen { kind: watchers::KINDS[0], from: 1, changes: changes.to_vec() }
}

fn change(revision: i64, key: &str, value: Option<&str>) -> Change {
    let value = value.map(str::to_owned);
    let made = if value.is_some() { revision } else { 0 };
    Change { revision, key: key.to_owned(), value, made, before: None }
}

#[test]
fn the_judge_takes_a_line_of_holders() {
    let history = [
        change(2, "lock/a/1", Some("")),
        change(3, "lock/a/2", Some("")),
        change(4, "guarded/lock/a", Some("2/100/1")),
        change(5, "lock/a/1", None),
        change(6, "guarded/lock/a", Some("3/101/1")),
    ];
    assert_eq!(judge::judge_locks(&history), 2);
    assert_eq!(seen(&history).expected(&history), history);
}

#[test]
#[should_panic(expected = "who is first in the line")]
fn the_judge_finds_two_holders_of_a_lock() {
    judge::judge_locks(&[
        change(2, "lock/a/1", Some("")),
        change(3, "lock/a/2", Some("")),
        change(4, "guarded/lock/a", Some("3/101/1")),
    ]);
}

#[test]
#[should_panic(expected = "different from number 1 on")]
fn the_judge_finds_an_event_that_is_missing() {
    let history = [change(2, "w/k1", Some("a")), change(3, "w/k1", Some("b")), change(4, "w/k1", Some("c"))];
    judge::assert_same(&seen(&[]).expected(&history), &[history[0].clone(), history[2].clone()], "a watch");
}
