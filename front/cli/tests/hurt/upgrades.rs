//! Programs are replaced one by one by newer ones, back again, and forward for good, while clients work.
//!
//! The older program is this one, told to work at feature level 1 at most: it says so in handshakes, and stops where a newer one would
//! go on. That level is made up: it differs by its number only, which is in every checkpoint.

use crate::rig::cluster::{Cluster, REPLICAS, wait};
use crate::rig::gaps::Steps;
use crate::rig::load::{Load, Plan};
use crate::rig::random::Random;
use crate::rig::verify;

const OLD: Option<u32> = Some(1);
const NEW: Option<u32> = None;

/// A cluster that was made by the older program, with it.
fn old_cluster(name: &str, random: &mut Random) -> Cluster {
    let mut cluster = Cluster::new(name, 20, random);
    for at in 0..REPLICAS {
        let file = cluster.home(at).join("replica.toml");
        let text = std::fs::read_to_string(&file).unwrap();
        let level = format!("level = {}\n", quorate_wire::FEATURE_LEVEL);
        assert!(text.contains(&level), "{text}");
        // Checkpoints come often, so that they are compared all the time.
        let text = text.replace(&level, "level = 1\n") + "\n[checkpoints]\ninterval_bytes = 1048576\n";
        std::fs::write(&file, text).unwrap();
        cluster.limit_level(at, OLD);
    }
    (0..REPLICAS).for_each(|at| cluster.start(at));
    cluster.wait_for_leader();
    cluster
}

fn level(cluster: &Cluster, at: usize) -> Option<u64> {
    cluster.value(at, "/level/cluster")?.as_u64()
}

#[test]
fn programs_go_forward_and_back_and_forward_until_the_level_is_raised() {
    let mut random = Random::from_environment("upgrades");
    let mut cluster = old_cluster("upgrades", &mut random);
    let plan = Plan { padding: 2000, ..Plan::default() };
    let mut load = Load::start(&cluster, plan, &mut random);
    let mut steps = Steps::new(&load.recorder);
    load.wait_for_progress(100, &mut cluster);
    cluster.fails(&["upgrade", "raise"], "at feature level 1 already");

    steps.begin("one of three is newer");
    cluster.change_program(2, NEW);
    load.wait_for_progress(200, &mut cluster);
    cluster.fails(&["upgrade", "raise", "2"], "can work at 1 at most");

    steps.begin("all are newer");
    (0..2).for_each(|at| cluster.change_program(at, NEW));
    load.wait_for_progress(200, &mut cluster);
    assert!((0..REPLICAS).all(|at| level(&cluster, at) == Some(1)), "nobody raised it");

    steps.begin("all go back");
    (0..REPLICAS).for_each(|at| cluster.change_program(at, OLD));
    load.wait_for_progress(200, &mut cluster);

    steps.begin("all are newer again");
    (0..REPLICAS).for_each(|at| cluster.change_program(at, NEW));
    load.wait_for_progress(100, &mut cluster);
    assert!(cluster.ok(&["upgrade", "status"]).contains("All replicas can work at level 3"));
    cluster.stop(1);
    cluster.fails(&["upgrade", "raise"], "r2 is not connected");
    cluster.start(1);
    cluster.wait_until_caught_up(1);

    steps.begin("the level is raised");
    wait("all are connected, and the level is raised", || cluster.run(&["upgrade", "raise"]).ok);
    wait("all work at it", || {
        (0..REPLICAS).all(|at| level(&cluster, at) == Some(u64::from(quorate_wire::FEATURE_LEVEL)))
    });
    load.wait_for_progress(200, &mut cluster);
    cluster.fails(&["upgrade", "raise"], "at feature level 3 already");

    steps.begin("an older program comes back");
    cluster.stop(0);
    cluster.limit_level(0, OLD);
    cluster.start(0);
    assert_eq!(cluster.wait_for_end(0).code(), Some(1));
    assert!(
        cluster.tail(0).contains("the cluster works at feature level 3, this program can work at 1 to 1")
    );
    cluster.limit_level(0, NEW);
    cluster.start(0);
    load.wait_for_progress(200, &mut cluster);

    steps.begin("a replica with an older program joins");
    let late = cluster.join(&mut random);
    cluster.limit_level(late, OLD);
    cluster.start(late);
    wait("it is refused", || {
        cluster.printed(late).contains("refuses this replica: the cluster works at feature level 3")
    });
    cluster.ok(&["member", "remove", "4"]);
    cluster.leave(late);

    verify::finish(&mut cluster, &mut load, plan.keys);
    steps.print();
    // Checkpoints of either level were compared, and nobody was found to differ.
    let agreed = |at| cluster.value(at, "/checkpoints/agreed_seq").and_then(|seq| seq.as_u64());
    assert!((0..REPLICAS).all(|at| agreed(at) > Some(0)), "checkpoints were agreed on");
    assert!((0..REPLICAS).all(|at| !cluster.printed(at).contains("diverged")));
}

/// Leaders raise the level by themselves where the configuration says so, once nothing changed for a while.
#[test]
fn a_leader_raises_the_level_by_itself_where_it_may() {
    let mut random = Random::from_environment("automatic");
    let mut cluster = old_cluster("automatic", &mut random);
    for at in 0..REPLICAS {
        cluster.stop(at);
        let file = cluster.home(at).join("replica.toml");
        let text = std::fs::read_to_string(&file).unwrap() + "\n[upgrade]\nautomatic = true\nsettle_s = 1\n";
        std::fs::write(&file, text).unwrap();
        cluster.limit_level(at, if at == 0 { OLD } else { NEW });
        cluster.start(at);
    }
    cluster.wait_for_leader();
    std::thread::sleep(std::time::Duration::from_secs(3));
    assert!((0..REPLICAS).all(|at| level(&cluster, at) == Some(1)), "one can not do it");
    cluster.change_program(0, NEW);
    wait("it is raised", || {
        (0..REPLICAS).all(|at| level(&cluster, at) == Some(u64::from(quorate_wire::FEATURE_LEVEL)))
    });
}
