//! Everything of a cluster is replaced while clients work: every replica, every certificate and the authority, the program, and the
//! addresses at which clients find it. Nothing that was acknowledged is lost, the history is linearizable, and the longest time without an
//! acknowledged write is printed (measured by a release build, it stands in docs/performance.md).

use crate::rig::cluster::{Cluster, REPLICAS, wait};
use crate::rig::gaps::Steps;
use crate::rig::load::{Load, Plan};
use crate::rig::random::Random;
use crate::rig::verify;
use std::time::Duration;

/// Files of all members, and of clients.
fn files(cluster: &Cluster, of_replicas: &str, of_clients: &[&str]) -> Vec<String> {
    let replicas = cluster.all().into_iter().map(|at| cluster.home(at).join("tls").join(of_replicas));
    let clients = of_clients.iter().map(|name| cluster.root().join("clients").join(name));
    replicas.chain(clients).map(|file| file.to_str().unwrap().to_owned()).collect()
}

/// A command about certificates.
fn cert(cluster: &Cluster, arguments: &[&str], files: &[String]) {
    let (ca, mut command) = (cluster.root().join("ca"), crate::rig::cluster::quorate());
    command.arg("cert").arg(arguments[0]).arg("--ca").arg(ca).args(&arguments[1..]).args(files);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// How often a replica has read its certificates.
fn audited(cluster: &Cluster, at: usize) -> usize {
    let audit = std::fs::read_to_string(cluster.home(at).join("data/audit.jsonl")).unwrap_or_default();
    audit.matches("by a signal").count() + audit.matches("by changed files").count()
}

/// All replicas read their files, and clients have the time to.
fn reload(cluster: &Cluster, before: &[usize]) {
    cluster.all().into_iter().for_each(|at| cluster.reload(at));
    wait("all have read them", || {
        cluster.all().iter().zip(before).all(|(at, before)| audited(cluster, *at) > *before)
    });
    std::thread::sleep(Duration::from_millis(500));
}

fn serial(cluster: &Cluster, at: usize) -> Option<String> {
    Some(cluster.value(at, "/tls/serial")?.as_str()?.to_owned())
}

/// The authority and all certificates are replaced.
fn rotate(cluster: &Cluster, steps: &mut Steps) {
    let counts = || -> Vec<usize> { cluster.all().into_iter().map(|at| audited(cluster, at)).collect() };
    let serials =
        || -> Vec<Option<String>> { cluster.all().into_iter().map(|at| serial(cluster, at)).collect() };
    let (trusted, before, old) = (files(cluster, "ca.pem", &["ca.pem"]), counts(), serials());
    steps.begin("a new authority is trusted");
    cert(cluster, &["new-authority"], &[]);
    cert(cluster, &["trust"], &trusted);
    reload(cluster, &before);
    steps.begin("all certificates are renewed");
    let before = counts();
    cert(cluster, &["renew"], &files(cluster, "replica.pem", &["default.pem", "admin.pem"]));
    reload(cluster, &before);
    wait("all use new ones", || {
        let now = serials();
        now.iter().zip(&old).all(|(now, old)| now.is_some() && now != old)
    });
    steps.begin("the old authority is not trusted any more");
    let before = counts();
    cert(cluster, &["trust", "--current-only"], &trusted);
    reload(cluster, &before);
}

#[test]
fn everything_is_replaced_under_load() {
    let mut random = Random::from_environment("replace-all");
    let mut cluster = Cluster::new("replace-all", 20, &mut random);
    for at in 0..REPLICAS {
        // As an older program made it, so that there is a level to raise.
        let file = cluster.home(at).join("replica.toml");
        let text = std::fs::read_to_string(&file).unwrap();
        let text = text.replace(&format!("level = {}\n", quorate_wire::FEATURE_LEVEL), "level = 1\n");
        std::fs::write(&file, text).unwrap();
        cluster.limit_level(at, Some(1));
        cluster.start(at);
    }
    cluster.wait_for_leader();
    let plan = Plan { replicas: 2 * REPLICAS as u64, padding: 500, ..Plan::default() };
    let mut load = Load::start(&cluster, plan, &mut random);
    let mut steps = Steps::new(&load.recorder);
    load.wait_for_progress(300, &mut cluster);
    for old in 0..REPLICAS {
        // Whoever leads is replaced, too: at some time, and at least once.
        steps.begin(format!("r{} joins", old + 4));
        let new = cluster.join(&mut random);
        cluster.start(new);
        wait("it has caught up", || cluster.run(&["member", "list"]).said.contains("has caught up"));
        steps.begin(format!("r{} takes the place of r{}", new + 1, old + 1));
        cluster.replace(old, new);
        load.wait_for_progress(300, &mut cluster);
    }
    rotate(&cluster, &mut steps);
    load.wait_for_progress(300, &mut cluster);
    steps.begin("the level is raised");
    wait("it is raised", || cluster.run(&["upgrade", "raise"]).ok);
    load.wait_for_progress(300, &mut cluster);
    steps.begin("a leader hands over");
    let leader = cluster.wait_for_leader();
    let next = cluster.all().into_iter().find(|at| *at != leader).unwrap();
    cluster.make_leader(next);
    load.wait_for_progress(300, &mut cluster);
    steps.begin("the end");
    verify::finish(&mut cluster, &mut load, plan.keys);
    steps.print();
    let level = |at| cluster.value(at, "/level/cluster").and_then(|level| level.as_u64());
    assert_eq!(cluster.all(), [3, 4, 5]);
    assert!(cluster.all().into_iter().all(|at| level(at) == Some(u64::from(quorate_wire::FEATURE_LEVEL))));
    // Who connects now finds the cluster under addresses that did not exist at the start, with certificates of the new authority.
    cluster.ok(&["kv", "put", "after", "all"]);
}
