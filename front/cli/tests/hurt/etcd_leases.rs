//! Leases are kept alive, and given up, while replicas are killed, paused, cut off, and once all of them are down: none ends before its
//! time by the meaning that etcd gives it, and none that was given up lives on.
//!
//! A lease lasts from the moment its last renewal was *called*. A long time without a majority counts for nobody: nobody could renew. Right after
//! such a time a lease may end by an election time-out early (docs/protocols/merge.md, "Agreed time").
//! QUORATE_KILLS=100 makes it longer, QUORATE_SEED repeats its choices (not the timing of the machine).

mod keepers;
mod timeline;

use crate::etcd_kills::clients::{Client, Shared};
use crate::rig::cluster::{Cluster, LIMIT, REPLICAS};
use crate::rig::links::Links;
use crate::rig::random::{self, Random};
use keepers::{Keeper, Told};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use timeline::Timeline;
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;

/// One keeper for each, in seconds.
const TTLS: [i64; 12] = [2, 2, 2, 2, 3, 3, 5, 5, 10, 20, 40, 60];
/// All are down for so long, once: more than most leases last.
const OUTAGE_MS: u64 = 15_000;

struct Load {
    shared: Arc<Shared>,
    runtime: Runtime,
    keepers: Vec<JoinHandle<Vec<Told>>>,
}

impl Load {
    fn start(addresses: &[String], random: &mut Random) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
        let runtime = runtime.expect("a runtime");
        let shared = Arc::new(Shared::new(addresses));
        let context = runtime.enter();
        let keepers = TTLS.iter().zip(1..).map(|(ttl, number)| {
            let client = Client::new(shared.clone(), number, random.fork());
            tokio::spawn(Keeper::new(client, *ttl).run())
        });
        let keepers = keepers.collect();
        drop(context);
        Self { shared, runtime, keepers }
    }

    /// Waits until so many more renewals were answered.
    fn wait_for_renewals(&self, more: u64, cluster: &mut Cluster) {
        let from = self.shared.held.load(Ordering::Relaxed);
        crate::rig::cluster::wait("leases are renewed", || {
            cluster.check_all_running();
            self.shared.held.load(Ordering::Relaxed) >= from + more
        });
    }

    fn stop(&mut self) -> Vec<Told> {
        self.shared.recorder.stop();
        let keepers = std::mem::take(&mut self.keepers);
        self.runtime.block_on(async {
            let mut all = Vec::new();
            for keeper in keepers {
                let told = tokio::time::timeout(LIMIT, keeper).await.expect("a keeper ends");
                all.extend(told.expect("a keeper does not panic"));
            }
            all
        })
    }
}

#[test]
fn leases_that_are_kept_alive_never_end_and_others_do() {
    keep_and_give_up("raft", 1);
}

#[test]
fn so_it_is_with_mod_smart_and_several_instances() {
    keep_and_give_up("mod-smart", 3);
}

fn keep_and_give_up(protocol: &str, instances: u16) {
    let mut random = Random::from_environment(&format!("leases under faults, {protocol}"));
    let arguments = ["--protocol", protocol, "--instances", &instances.to_string()];
    let (mut cluster, addresses) = Cluster::of_etcd_with("etcd-leases", &arguments, &mut random);
    let links = Links::between(&cluster);
    (0..REPLICAS).for_each(|at| cluster.start(at));
    cluster.wait_for_leader();
    let mut load = Load::start(&addresses, &mut random);
    load.wait_for_renewals(20, &mut cluster);
    let mut timeline = Timeline::default();
    let kills = random::number("QUORATE_KILLS", 4);
    for kill in 1..=kills {
        one_fault(&mut cluster, &links, &mut timeline, &mut random);
        load.wait_for_renewals(random.between(5, 30), &mut cluster);
        if kill == kills / 2 {
            an_outage(&mut cluster, &load, &mut timeline, &mut random);
        }
    }
    let told = load.stop();
    let ended = told.iter().filter(|told| told.is_gone()).count();
    let wrong: Vec<String> = told.iter().filter_map(|told| timeline.judge(told)).collect();
    println!("{kills} kills; {} leases, {ended} ended", told.len());
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(ended > 0, "no lease ended, so nothing was judged");
}

/// A replica is killed, and with it there may be a pause or a cut of another kind before.
fn one_fault(cluster: &mut Cluster, links: &Links, timeline: &mut Timeline, random: &mut Random) {
    let any = random.below(REPLICAS as u64) as usize;
    let at = cluster.leader().filter(|_| random.percent(60)).unwrap_or(any);
    match random.below(4) {
        0 => {
            timeline.disturbed();
            cluster.pause(at);
            nap(random, 100, 2500);
            cluster.resume(at);
        }
        1 => {
            timeline.disturbed();
            links.isolate(at);
            nap(random, 100, 2500);
            links.heal();
        }
        2 => {
            timeline.disturbed();
            links.cut(at, (at + 1) % REPLICAS);
            nap(random, 100, 2500);
            links.heal();
        }
        _ => {}
    }
    timeline.disturbed();
    cluster.kill(at);
    nap(random, 20, 2500);
    cluster.start(at);
    // The next one is killed when this one can stand in for it.
    cluster.wait_until_caught_up(at);
}

/// All but one are down for long, and mostly that one is not. Then somebody leads who saw no time pass, and after that the one who did.
fn an_outage(cluster: &mut Cluster, load: &Load, timeline: &mut Timeline, random: &mut Random) {
    let stays = random.below(REPLICAS as u64) as usize;
    let other = (stays + 1) % REPLICAS;
    timeline.disturbed();
    (0..REPLICAS).filter(|at| *at != stays).for_each(|at| cluster.kill(at));
    timeline.goes_down();
    if random.percent(25) {
        cluster.kill(stays);
    }
    nap(random, OUTAGE_MS, OUTAGE_MS + 1000);
    timeline.comes_up();
    cluster.heal();
    cluster.wait_for_leader();
    for leader in [other, stays, other] {
        timeline.disturbed();
        cluster.make_leader(leader);
        load.wait_for_renewals(30, cluster);
    }
}

fn nap(random: &mut Random, from_ms: u64, to_ms: u64) {
    std::thread::sleep(Duration::from_millis(random.between(from_ms, to_ms)));
}
