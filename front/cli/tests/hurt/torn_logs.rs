//! Power cuts: what was never synced is spoiled before a killed replica starts again, and nothing acknowledged is missing.
//! What was synced is never touched, but in the last three tests: there the replica must notice, and refuse to run where a vote
//! may be lost, or get from the others what it lost; or the leader notices, and sends it.
//!
//! QUORATE_ROUNDS=200 makes it longer, QUORATE_SEED repeats its choices.

use crate::rig::cluster::{Cluster, REPLICAS};
use crate::rig::load::{Load, Plan};
use crate::rig::random::{self, Random};
use crate::rig::scramble::{self, Damage, Spot};
use crate::rig::verify;
use std::time::Duration;

const FEW: Plan = Plan {
    waiting: 3,
    pipelined: 1,
    chains: 1,
    keys: 10,
    pause: Duration::from_millis(8),
    padding: 0,
    replicas: REPLICAS as u64,
};

#[test]
fn a_torn_tail_loses_nothing_that_was_acknowledged() {
    let mut random = Random::from_environment("torn_logs");
    let rounds = random::number("QUORATE_ROUNDS", 10);
    let mut cluster = Cluster::started("torn", &mut random);
    let plan = Plan { pause: Duration::from_millis(4), ..Plan::default() };
    let mut load = Load::start(&cluster, plan, &mut random);
    let (mut scrambled, mut everybody) = (0, 0);
    for _ in 0..rounds {
        load.wait_for_progress(random.between(50, 300), &mut cluster);
        // A moment at which a sync is at work as likely as not.
        std::thread::sleep(Duration::from_micros(random.below(5_000)));
        let first = random.below(REPLICAS as u64) as usize;
        let count = [1, 2, 3, 3][random.below(4) as usize];
        let down: Vec<usize> = (0..count).map(|step| (first + step) % REPLICAS).collect();
        everybody += u64::from(count == REPLICAS);
        down.iter().for_each(|at| cluster.kill(*at));
        for at in &down {
            scrambled += scramble::scramble(&cluster, *at, &mut random);
        }
        cluster.heal();
        if random.percent(20) {
            // The power comes back for a moment only.
            std::thread::sleep(Duration::from_millis(random.below(200)));
            down.iter().for_each(|at| cluster.kill(*at));
            for at in &down {
                scrambled += scramble::scramble(&cluster, *at, &mut random);
            }
            cluster.heal();
        }
    }
    let answered = verify::finish(&mut cluster, &mut load, plan.keys);
    println!(
        "{rounds} rounds, {everybody} with all replicas; {scrambled} segments spoiled; {answered} operations"
    );
    assert!(u64::from(scrambled) >= rounds, "only {scrambled} segments were spoiled in {rounds} rounds");
    let cuts = (0..REPLICAS).map(|at| cluster.printed(at).matches("was never synced and is ignored").count());
    assert!(
        cuts.sum::<usize>() > 0,
        "no replica ever found a torn tail: the test spoils nothing that matters"
    );
}

#[test]
fn damage_where_votes_may_stand_stops_that_replica_and_no_other() {
    let mut random = Random::from_environment("damage");
    let mut cluster = Cluster::started("damage", &mut random);
    let mut load = Load::start(&cluster, FEW, &mut random);
    load.wait_for_progress(400, &mut cluster);
    for _ in 0..4 {
        let victim = random.below(REPLICAS as u64) as usize;
        cluster.kill(victim);
        let damage = Damage::new(&cluster, victim, Spot::BehindVotes, &mut random);
        let before = cluster.printed(victim).len();
        cluster.start(victim);
        let status = cluster.wait_for_end(victim);
        let printed = cluster.printed(victim).split_off(before);
        assert_eq!(status.code(), Some(1), "{printed}");
        for part in [
            "the log is damaged at byte",
            "lies below data that was synced",
            "Do not delete the directory",
            "set up a replacement",
        ] {
            assert!(printed.contains(part), "it does not say \"{part}\":\n{printed}");
        }
        assert!(!printed.contains("is ready on"), "it must not have taken part:\n{printed}");
        // The other two go on.
        load.wait_for_progress(100, &mut cluster);
        damage.repair();
        cluster.start(victim);
        // So many that there is something behind its latest vote, whoever the next victim is.
        load.wait_for_progress(300, &mut cluster);
    }
    verify::finish(&mut cluster, &mut load, FEW.keys);
}

#[test]
fn damage_before_a_later_vote_is_passed_over_and_made_good() {
    let mut random = Random::from_environment("passed-over");
    let mut cluster = Cluster::started("passed-over", &mut random);
    let mut load = Load::start(&cluster, FEW, &mut random);
    let mut transfers = 0;
    for victim in 0..REPLICAS {
        load.wait_for_progress(300, &mut cluster);
        // With another leader everybody votes, or notes the view, once more.
        let leader = cluster.wait_for_leader();
        cluster.make_leader((leader + 1) % REPLICAS);
        load.wait_for_progress(300, &mut cluster);
        cluster.kill(victim);
        let _stays = Damage::new(&cluster, victim, Spot::BeforeVote, &mut random);
        let before = cluster.printed(victim).len();
        cluster.start(victim);
        cluster.wait_until_caught_up(victim);
        let printed = cluster.printed(victim).split_off(before);
        assert!(printed.contains("the log on this disk is damaged"), "it did not notice:\n{printed}");
        // Not where the checkpoint that it had holds what is damaged.
        transfers += u64::from(printed.contains("goes on from"));
        load.wait_for_progress(100, &mut cluster);
    }
    assert!(transfers > 0, "nobody had to get anything from the others");
    verify::finish(&mut cluster, &mut load, FEW.keys);
}

/// A disk that lied about its last syncs: nothing here shows that, and the replica begins further back than it had acknowledged. It is
/// sent what is missing, says so through its leader, and counts again.
#[test]
fn a_replica_that_lost_what_it_acknowledged_gets_it_again() {
    let mut random = Random::from_environment("lost-end");
    let mut cluster = Cluster::started("lost-end", &mut random);
    let mut load = Load::start(&cluster, FEW, &mut random);
    for _ in 0..3 {
        load.wait_for_progress(300, &mut cluster);
        let leader = cluster.wait_for_leader();
        let (victim, other) = ((leader + 1) % REPLICAS, (leader + 2) % REPLICAS);
        cluster.kill(victim);
        scramble::forget_end(&cluster, victim, 40);
        cluster.start(victim);
        load.wait_for_progress(50, &mut cluster);
        cluster.wait_until_caught_up(victim);
        if cluster.leader() == Some(leader) {
            let problems = cluster.status(leader).expect("it answers")["problems"].to_string();
            let told = format!("{} lost the end of its log", cluster.replica(victim));
            assert!(problems.contains(&told), "{problems}");
        }
        // With it the leader is a majority.
        cluster.kill(other);
        load.wait_for_progress(100, &mut cluster);
        cluster.start(other);
        cluster.wait_until_caught_up(other);
    }
    verify::finish(&mut cluster, &mut load, FEW.keys);
}
