//! `quorate dev -- PROGRAM`: the replicas are processes of a program of one's own, with faults on request as those of `quorate serve`.

use crate::evolution::bank::{Bank, Command};
use crate::evolution::program_of_a_bank;
use crate::harness::{Cluster, free_ports, is_alive, quorate, wait_until};
use quorate::client::{ClientBuilder, ReadOptions};
use std::time::Duration;

fn pay(cluster: &Cluster) -> i64 {
    let builder = ClientBuilder::from_file(cluster.directory().join("client.toml")).expect("a file");
    let client = builder.service("bank").timeout(Duration::from_secs(30)).build_blocking().expect("a client");
    let bank = client.open::<Bank>().expect("a session");
    let paid = bank.call(&Command::Pay { to: "ada".into(), amount: 1 }).expect("a balance");
    let read = client.query::<Bank>(&"ada".into(), ReadOptions::default());
    assert_eq!(read, Ok(paid), "only this test pays");
    paid
}

fn apart(cluster: &Cluster, id: u16) -> bool {
    cluster.log(id).contains("is cut off from now on")
}

#[test]
fn a_bank_of_ones_own_runs_with_faults_on_request() {
    let place = tempfile::tempdir().expect("a temporary directory");
    let program = program_of_a_bank(place.path(), false);
    let program = program.to_str().expect("UTF-8");
    let mut cluster = Cluster::start_as_it_is(&["--no-web", "--", program]);
    assert_eq!(cluster.ready["service"], "bank", "the program said so");
    assert_eq!(pay(&cluster), 1);
    assert!(cluster.ok(&["status"]).contains("service bank"));

    let leader = cluster.wait_for_leader();
    cluster.ok(&["chaos", "partition", &leader.to_string()]);
    wait_until("the leader hears of it", || apart(&cluster, leader));
    assert_eq!(pay(&cluster), 2);
    cluster.ok(&["chaos", "heal"]);
    cluster.ok(&["chaos", "slow", "2", "--ms", "30"]);
    wait_until("it hears of it", || cluster.log(2).contains("30 ms late"));
    cluster.ok(&["chaos", "slow", "2", "--ms", "0"]);
    cluster.run(&["chaos", "lie", "1", "--how", "replies"]).fails(1, &["do not lie", "--service kv"]);
    let leader = cluster.wait_for_leader();
    cluster.kill(leader);
    assert_eq!(pay(&cluster), 3);
    cluster.restart(leader);
    cluster.wait_until_equal();

    // It can be brought to machines of its own.
    let (dir, deploy) =
        (cluster.directory().to_str().expect("UTF-8").to_owned(), place.path().join("deploy"));
    let out = deploy.to_str().expect("UTF-8");
    quorate(&["dev", "export", "--compose", "--dir", &dir, "--out", out])
        .fails(2, &["bank is a service of your own", "--systemd"]);
    quorate(&["dev", "export", "--systemd", "--dir", &dir, "--out", out]).ok();
    let read = |file: &str| std::fs::read_to_string(deploy.join(file)).expect("it is there");
    let runs = "ExecStart=\nExecStart=/usr/local/bin/bank /etc/quorate/replica-%i/replica.toml\n";
    assert!(read("quorate@.service.d/program.conf").ends_with(runs));
    assert!(read("README.md").contains("install -m 0755 bank /usr/local/bin/bank\n"));

    // What looks at files of replicas knows nothing of the service, and needs not to.
    let config = cluster.directory().join("replica-2/replica.toml");
    let config = config.to_str().expect("UTF-8").to_owned();
    cluster.ok(&["health", "--config", &config]);
    let said = cluster.run(&["doctor", "--seconds", "1"]);
    assert!(!said.out.contains("not usable") && !said.err.contains("not usable"), "{said:?}");

    // The next run needs the program again, and finds what was there.
    let pids = cluster.pids();
    assert_eq!(cluster.ctrl_c(), Some(0));
    quorate(&["dev", "--dir", &dir]).fails(2, &["runs bank, a service of your own", "-- PROGRAM"]);
    quorate(&["dev", "--dir", &dir, "--service", "shoes", "--", program])
        .fails(2, &["--service bank, not shoes"]);
    cluster.start_dev(&["--no-web", "--", program]);
    assert_eq!(pay(&cluster), 4);
    let (backup, out) = (place.path().join("bank.qbk"), place.path().join("again"));
    let (backup, shown) = (backup.to_str().expect("UTF-8"), out.to_str().expect("UTF-8"));
    cluster.ok(&["backup", "create", backup, "--fresh"]);
    let said = quorate(&["backup", "restore", backup, "--out", shown]).ok();
    assert!(said.contains(&format!("quorate dev --dir {shown} -- PROGRAM")), "{said}");
    let mut again = Cluster::at_with(&out, &["--no-web", "--", program]);
    assert_eq!(pay(&again), 5);
    assert_eq!(again.ctrl_c(), Some(0));
    // Whoever ends `dev` without a word ends the replicas, too.
    assert!(pids.iter().all(|pid| !is_alive(*pid)), "those of the first run have ended");
    let pids = cluster.pids();
    cluster.kill_dev();
    wait_until("the replicas end", || pids.iter().all(|pid| !is_alive(*pid)));
}

#[test]
fn programs_that_are_no_replicas_are_refused_with_a_way_out() {
    let place = tempfile::tempdir().expect("a temporary directory");
    let dir = place.path().join("dev");
    let dev = |more: &[&str]| quorate(&[&["dev", "--dir", dir.to_str().expect("UTF-8")], more].concat());
    dev(&["--", "./no-such-program"]).fails(2, &["can not start ./no-such-program", "build it first"]);
    dev(&["--", "true"]).fails(2, &["`true --service` said \"\"", "quorate::run(service)", "--service NAME"]);
    dev(&["--service", "kv", "--", "true"]).fails(2, &["kv is a service of `quorate serve`"]);
    dev(&["--service", "bank"]).fails(2, &["quorate dev --service bank -- ./bank"]);
    assert!(!dir.exists(), "nothing was made");
    // It is told which service it is, and ends at once.
    let said = dev(&["--no-web", "--service", "bank", "--", "false"]).fails(1, &["exit code 1"]);
    // Whichever of the two is seen first.
    let why = ["fewer than 2 replicas are left", "a new cluster begins only with all its replicas"];
    assert!(why.iter().any(|why| said.contains(why)), "{said}");
}

#[test]
fn a_replica_with_a_program_of_ones_own_joins() {
    let place = tempfile::tempdir().expect("a temporary directory");
    let program = program_of_a_bank(place.path(), false);
    let cluster = Cluster::start_as_it_is(&["--no-web", "--", program.to_str().expect("UTF-8")]);
    assert_eq!(pay(&cluster), 1);
    let (joiner, address) = (place.path().join("replica-4"), format!("127.0.0.1:{}", free_ports(1)[0]));
    let out = joiner.to_str().expect("UTF-8");
    let said = cluster.ok(&["member", "add", "4", "--address", &address, "--out", out]);
    assert!(said.contains("start the program of bank there") && !said.contains("quorate serve"), "{said}");
    let mut replica =
        std::process::Command::new(&program).arg(joiner.join("replica.toml")).spawn().expect("it starts");
    wait_until("it has caught up", || cluster.run(&["member", "promote", "4"]).code == Some(0));
    assert_eq!(pay(&cluster), 2);
    replica.kill().expect("it runs");
    replica.wait().expect("it ends");
}
