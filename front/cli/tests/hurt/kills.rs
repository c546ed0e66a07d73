//! Replicas are killed and paused while clients work: nothing acknowledged is lost, nothing runs twice, all agree in the end.
//!
//! QUORATE_KILLS=500 makes it longer, QUORATE_SEED repeats its choices (not the timing of the machine). When it fails, the
//! directory with all logs and the history stays, and is named.

use crate::rig::cluster::{Cluster, Life, REPLICAS};
use crate::rig::load::{Load, Plan};
use crate::rig::random::{self, Random};
use crate::rig::verify;
use std::time::{Duration, Instant};

#[test]
fn killed_and_paused_replicas_lose_nothing_and_repeat_nothing() {
    let mut random = Random::from_environment("kills");
    let mut cluster = Cluster::started("kills", &mut random);
    kill_and_pause(&mut cluster, random::number("QUORATE_KILLS", 8), &mut random);
}

/// Each replica leads about as many instances; whoever is killed leads some of them.
#[test]
fn killed_and_paused_replicas_lose_and_repeat_nothing_with_four_instances() {
    let mut random = Random::from_environment("kills of four");
    let mut cluster = Cluster::of_instances("kills-4", 20, (4, 1), &mut random);
    (0..REPLICAS).for_each(|at| cluster.start(at));
    cluster.wait_for_leader();
    kill_and_pause(&mut cluster, random::number("QUORATE_KILLS", 8), &mut random);
}

/// Each replica's connections are on four threads.
#[test]
fn killed_and_paused_replicas_lose_and_repeat_nothing_with_four_instances_on_four_lanes() {
    let mut random = Random::from_environment("kills of four lanes");
    let mut cluster = Cluster::of_instances("kills-4-4", 20, (4, 4), &mut random);
    cluster.configure("pillars = \"main\"");
    (0..REPLICAS).for_each(|at| cluster.start(at));
    cluster.wait_for_leader();
    kill_and_pause(&mut cluster, random::number("QUORATE_KILLS", 8), &mut random);
}

/// Each replica's instances agree on three threads, on one of which everything is merged and executed. Between the kills instances move to
/// other threads, and their number changes.
#[test]
fn killed_and_paused_replicas_lose_and_repeat_nothing_while_instances_move_between_lanes() {
    let mut random = Random::from_environment("kills of pillars");
    let mut cluster = Cluster::of_instances("kills-pillars", 20, (4, 3), &mut random);
    (0..REPLICAS).for_each(|at| cluster.start(at));
    cluster.wait_for_leader();
    kill_pause_and(move_instances, &mut cluster, random::number("QUORATE_KILLS", 8), &mut random);
}

/// Replicas that are down do not hear of it, and a change of the number may have to wait: both are as it should be.
fn move_instances(cluster: &Cluster, random: &mut Random) {
    let (instance, lane) = (1 + random.below(4), 1 + random.below(3));
    cluster.run(&["lanes", "set", &format!("{instance}={lane}")]);
    if random.percent(30) {
        cluster.run(&["instances", "set", &(1 + random.below(4)).to_string()]);
    }
}

/// Each step of a replica's work has a thread: execution, agreement, connections.
#[test]
fn killed_and_paused_replicas_lose_and_repeat_nothing_where_they_are_staged() {
    let mut random = Random::from_environment("kills of staged");
    let mut cluster = Cluster::of_instances("kills-staged", 20, (1, 3), &mut random);
    cluster.configure("placement = \"staged\"");
    (0..REPLICAS).for_each(|at| cluster.start(at));
    cluster.wait_for_leader();
    kill_and_pause(&mut cluster, random::number("QUORATE_KILLS", 8), &mut random);
}

/// Four replicas that trust no single one of them: three go on without any one.
#[test]
fn killed_and_paused_replicas_lose_and_repeat_nothing_where_one_may_lie() {
    let mut random = Random::from_environment("kills of byzantine");
    for instances in [1, 4] {
        let mut cluster = Cluster::byzantine("kills-byzantine", instances, &mut random);
        cluster.heal();
        cluster.wait_for_leader();
        kill_and_pause(&mut cluster, random::number("QUORATE_KILLS", 8), &mut random);
    }
}

fn kill_and_pause(cluster: &mut Cluster, wanted: u64, random: &mut Random) {
    kill_pause_and(|_, _| {}, cluster, wanted, random);
}

/// Does the other thing at the beginning of each round, when all replicas run.
fn kill_pause_and(
    other: impl Fn(&Cluster, &mut Random),
    cluster: &mut Cluster,
    wanted: u64,
    random: &mut Random,
) {
    let plan = Plan { replicas: cluster.all().len() as u64, ..Plan::default() };
    let mut load = Load::start(cluster, plan, random);
    load.wait_for_progress(100, cluster);
    let (mut kills, mut leaders, mut rounds) = (0, 0, 0);
    let begin = Instant::now();
    while kills < wanted || leaders * 2 < wanted {
        rounds += 1;
        other(cluster, random);
        match random.below(100) {
            0..25 => pause(cluster, random),
            25..45 => outlast_the_leader(cluster, &load, random),
            45..60 => {
                kills += leave_the_leader_alone(cluster, &load, random);
                leaders += 1;
                continue;
            }
            _ => {}
        }
        let victims = choose(cluster, random, rounds);
        leaders += u64::from(victims.leader);
        for at in victims.replicas {
            cluster.kill(at);
            kills += 1;
        }
        if cluster.count(Life::Up) >= cluster.quorum() && random.percent(50) {
            // Those go on.
            load.wait_for_progress(20, cluster);
        } else {
            nap(random, 20, 600);
        }
        if cluster.count(Life::Down) > 0 && random.percent(20) {
            kills += kill_while_it_starts(cluster, random);
        }
        cluster.heal();
        if random.percent(80) {
            load.wait_for_progress(40, cluster);
        } else {
            nap(random, 0, 300);
        }
    }
    let took = begin.elapsed();
    let answered = verify::finish(cluster, &mut load, plan.keys);
    println!("{kills} kills, {leaders} of leaders, in {took:?}; {answered} operations answered");
    assert!(answered > 20 * kills, "only {answered} operations were answered between {kills} kills");
}

struct Victims {
    replicas: Vec<usize>,
    leader: bool,
}

/// Who is killed: the leader every second time, else somebody, sometimes two of them, sometimes all.
fn choose(cluster: &mut Cluster, random: &mut Random, round: u64) -> Victims {
    let leader = cluster.leader();
    let first = match leader {
        Some(leader) if round.is_multiple_of(2) => leader,
        _ => cluster.any(random),
    };
    let more = match random.below(100) {
        0..70 => 0,
        70..88 => 1,
        _ => 2,
    };
    let replicas: Vec<usize> = (0..=more).map(|step| (first + step) % cluster.all().len()).collect();
    let leader = leader.is_some_and(|leader| replicas.contains(&leader));
    Victims { replicas, leader }
}

/// Somebody stands still for a while, at times long enough for another to lead meanwhile.
fn pause(cluster: &mut Cluster, random: &mut Random) {
    let at = match cluster.leader() {
        Some(leader) if random.percent(50) => leader,
        _ => cluster.any(random),
    };
    cluster.pause(at);
    nap(random, 50, 1500);
    // If not, it is killed as it stands, or goes on when the others were killed.
    if random.percent(70) {
        cluster.resume(at);
    }
}

/// The leader stands still until another one leads and writes go on, and comes back while clients wait for its answers: what it
/// still takes for the latest is not.
fn outlast_the_leader(cluster: &mut Cluster, load: &Load, random: &mut Random) {
    let leader = cluster.wait_for_leader();
    cluster.pause(leader);
    load.wait_for_progress(60, cluster);
    nap(random, 50, 500);
    cluster.resume(leader);
    load.wait_for_progress(20, cluster);
}

/// The leader is left without followers and killed, too; then those go on without it. What it decided alone would be lost.
fn leave_the_leader_alone(cluster: &mut Cluster, load: &Load, random: &mut Random) -> u64 {
    let leader = cluster.wait_for_leader();
    let others: Vec<usize> = cluster.all().into_iter().filter(|at| *at != leader).collect();
    others.iter().for_each(|at| cluster.kill(*at));
    nap(random, 20, 400);
    cluster.kill(leader);
    others.iter().for_each(|at| cluster.start(*at));
    load.wait_for_progress(40, cluster);
    cluster.heal();
    load.wait_for_progress(20, cluster);
    others.len() as u64 + 1
}

/// Starts a replica and kills it while it reads its log back, or soon after.
fn kill_while_it_starts(cluster: &mut Cluster, random: &mut Random) -> u64 {
    let down = cluster.all().into_iter().find(|at| cluster.life(*at) == Life::Down);
    let Some(at) = down else { return 0 };
    cluster.start(at);
    nap(random, 0, 120);
    cluster.kill(at);
    1
}

fn nap(random: &mut Random, from_ms: u64, to_ms: u64) {
    std::thread::sleep(Duration::from_millis(random.between(from_ms, to_ms)));
}
