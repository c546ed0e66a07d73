//! The parts that need no cluster.

use super::checks::{self, System};
use super::disk::{SIZES, Speed, SyncSpeed, measure};
use super::subject::{Patient, Subject};
use super::{Args, Finding, Findings, Level, expect, own, place, ports};
use hdrhistogram::Histogram;
use quorate_runtime::{Config, Durability, MemberConfig};
use quorate_tls::{Authority, TlsFiles, Validity};
use quorate_types::{ClusterId, Holder, ReplicaId};
use std::path::{Path, PathBuf};
use std::time::Duration;

fn config() -> Config {
    let member = MemberConfig {
        replica: 1,
        address: "127.0.0.1:1".into(),
        links: Vec::new(),
        incarnation: "1".repeat(16),
        key: None,
    };
    Config::new(ClusterId::new(7), 1, "data".into(), vec![member])
}

fn subject(config: Config) -> Subject {
    Subject {
        patients: vec![Patient { config, file: "replica.toml".into() }],
        places: vec![".".into()],
        one: true,
    }
}

/// A disk whose syncs take so long.
fn speed(sync_us: u64) -> Speed {
    let mut times = Histogram::new(3).expect("a histogram");
    (0..1000).for_each(|_| times.record(sync_us * 1000).expect("it grows"));
    let length = Duration::from_micros(sync_us * 1000);
    let syncs = SIZES.map(|size| SyncSpeed::of(size, &times, length)).into();
    Speed { syncs, write_mb_s: 500.0, read_mb_s: 1000.0, file_bytes: 256 << 20 }
}

fn system() -> System {
    System { processors: 8, usable_processors: 8, clock_source: "tsc".into(), open_files_max: Some(1 << 20) }
}

fn judged(system: &System) -> Vec<Finding> {
    let mut findings = Findings::default();
    checks::judge(system, [config()].iter(), &mut findings);
    findings.0
}

#[test]
fn syncs_are_counted_as_they_were_measured() {
    let mut times = Histogram::new(3).expect("a histogram");
    (1..=1000_u64).for_each(|us| times.record(us * 1000).expect("it grows"));
    let speed = SyncSpeed::of(4096, &times, Duration::from_secs(2));
    assert_eq!((speed.bytes, speed.samples, speed.per_s), (4096, 1000, 500.0));
    for (found, expected) in
        [(speed.p50_us, 500.0), (speed.p99_us, 990.0), (speed.p99_9_us, 999.0), (speed.max_us, 1000.0)]
    {
        assert!((found - expected).abs() <= 1.0, "{found} and not {expected}");
    }
}

#[test]
fn a_measurement_leaves_nothing_behind() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut findings = Findings::default();
    let length = Duration::from_millis(50);
    let speed =
        measure(directory.path(), 64 << 20, length, &mut findings).expect("it works").expect("there is room");
    assert_eq!(speed.file_bytes, 16 << 20, "a quarter of what is free");
    assert_eq!(speed.syncs.iter().map(|sync| sync.bytes).collect::<Vec<_>>(), SIZES);
    for sync in &speed.syncs {
        assert!(
            sync.samples >= 20
                && sync.per_s > 0.0
                && sync.p50_us <= sync.p99_us
                && sync.p99_us <= sync.max_us
        );
    }
    assert!(speed.write_mb_s > 0.0 && speed.read_mb_s > 0.0 && findings.0.is_empty());
    assert_eq!(std::fs::read_dir(directory.path()).expect("it can be read").count(), 0);
    let none = measure(directory.path(), 16 << 20, length, &mut findings).expect("it works");
    assert!(none.is_none() && findings.0[0].text.contains("too little to measure"));
}

#[test]
fn locks_are_found_as_the_system_lists_them() {
    let locks = "1: POSIX  ADVISORY  WRITE 11 fe:00:500 0 EOF\n\
                 2: FLOCK  ADVISORY  READ 12 fe:00:500 0 EOF\n\
                 3: FLOCK  ADVISORY  WRITE 13 fe:00:501 0 EOF\n\
                 3: -> FLOCK  ADVISORY  WRITE 14 fe:00:500 0 EOF\n\
                 4: FLOCK  ADVISORY  WRITE 15 fe:00:500 0 EOF\n";
    assert_eq!(ports::holder(locks, 500), Some(15));
    assert_eq!(ports::holder(locks, 501), Some(13));
    assert_eq!(ports::holder(locks, 502), None);
    assert_eq!(ports::holder("nonsense\n1:\n", 1), None);
}

#[test]
fn file_systems_that_forget_are_named() {
    for kind in ["tmpfs", "ramfs", "overlay", "nfs4", "fuse.sshfs"] {
        assert!(place::judge(kind).is_some(), "{kind}");
    }
    assert!(place::judge("tmpfs").is_some_and(|(text, _)| text.contains("nothing in it survives")));
    for kind in ["ext4", "xfs", "btrfs", "zfs"] {
        assert!(place::judge(kind).is_none(), "{kind}");
    }
}

#[test]
fn limits_are_judged() {
    assert!(judged(&system()).is_empty());
    let few = judged(&System { open_files_max: Some(1000), ..system() });
    assert!(
        few[0].level == Level::Warning && few[0].text.contains("takes 500 connections, not 10000"),
        "{few:?}"
    );
    let none = judged(&System { open_files_max: Some(32), ..system() });
    assert!(none[0].level == Level::Problem && none[0].remedy.contains("at least 64"), "{none:?}");
    assert!(judged(&System { open_files_max: None, ..system() }).is_empty(), "no limit is enough");
    let clock = judged(&System { clock_source: "hpet".into(), ..system() });
    assert!(clock.len() == 1 && clock[0].text.contains("hpet"));
    assert_eq!(judged(&System { usable_processors: 1, ..system() }).len(), 1);
}

fn with_free(config: Config, free: u64, log_bytes: u64) -> Vec<Finding> {
    let subject = subject(config);
    let mut findings = Findings::default();
    let mut reports = ports::look(&subject, &mut Findings::default());
    // Nobody may listen on port 1, here or elsewhere.
    (reports[0].at, reports[0].log_bytes) = (ports::Where::Free, log_bytes);
    let groups = subject.disks().expect("there is a working directory");
    let disk = place::Disk {
        directory: PathBuf::from("."),
        file_system: "ext4".into(),
        free_bytes: free,
        total_bytes: 1 << 40,
        volatile_cache: None,
    };
    checks::room(&subject, &groups[0], &disk, &reports, &mut findings);
    findings.0
}

#[test]
fn room_is_counted_for_the_log() {
    // 6 GiB, and three segments of 32 MiB.
    let most = (6 << 30) + (96 << 20);
    assert_eq!(checks::log_bytes(&config()), most);
    assert!(with_free(config(), most, 0).is_empty());
    let little = with_free(config(), most - 1, 0);
    assert!(little[0].level == Level::Warning && little[0].remedy.contains("log_bytes_max"), "{little:?}");
    assert!(with_free(config(), most - (64 << 20), 64 << 20).is_empty(), "what is there need not be free");
    let none = with_free(config(), (64 << 20) - 1, 0);
    assert!(
        none[0].level == Level::Problem && none[0].text.contains("first files take 64.0 MiB"),
        "{none:?}"
    );
    let grown = with_free(config(), 0, 64 << 20);
    assert_eq!(grown[0].level, Level::Warning, "a log that exists lets a replica start");
    let mut memory = config();
    memory.durability.mode = Durability::Memory;
    assert!(with_free(memory, 0, 0).is_empty());
}

fn at_speed(config: Config, speed: &Speed) -> Vec<String> {
    let subject = subject(config);
    let groups = subject.disks().expect("there is a working directory");
    let mut findings = Findings::default();
    let disk = place::Disk {
        directory: PathBuf::from("."),
        file_system: "ext4".into(),
        free_bytes: 1 << 40,
        total_bytes: 1 << 40,
        volatile_cache: Some(true),
    };
    checks::speed(&subject, &groups[0], speed, &disk, &mut findings);
    findings.0.into_iter().map(|finding| finding.text).collect()
}

#[test]
fn disks_that_are_too_slow_or_too_good_are_named() {
    assert!(at_speed(config(), &speed(100)).is_empty());
    let good = at_speed(config(), &speed(3));
    assert!(good.len() == 1 && good[0].contains("faster than any disk"), "{good:?}");
    let slow = at_speed(config(), &speed(200_000));
    assert!(
        slow.len() == 1 && slow[0].contains("200 ms or more, and elections begin after 300 ms"),
        "{slow:?}"
    );
    let small = Speed { write_mb_s: 100.0, ..speed(100) };
    let rate = at_speed(config(), &small);
    assert!(rate.len() == 1 && rate[0].contains("checkpoints may write 64.0 MiB per second"), "{rate:?}");
}

#[test]
fn what_to_expect_follows_from_what_was_measured() {
    let said = |mode, delay, speed: &Speed| {
        let mut config = config();
        (config.durability.mode, config.durability.sync_delay_us) = (mode, delay);
        expect::say(&subject(config), Some(speed), &[]).join("\n")
    };
    let group = said(Durability::Group, 0, &speed(1000));
    assert!(
        group.contains("after about 1.0 ms") && group.contains("1.00 k group commits per second"),
        "{group}"
    );
    assert!(group.contains("300 to 602 ms") && group.contains("6.1 GiB of log"), "{group}");
    let delayed = said(Durability::Group, 1000, &speed(1000));
    assert!(
        delayed.contains("about 2.0 ms") && delayed.contains("the configured delay (1.0 ms)"),
        "{delayed}"
    );
    assert!(delayed.contains("500 group commits"), "{delayed}");
    let memory = said(Durability::Memory, 0, &speed(1000));
    assert!(memory.contains("waits for no disk") && !memory.contains("Room for"), "{memory}");
    assert!(said(Durability::Async, 0, &speed(1000)).contains("may lose the last writes"));
    assert!(expect::say(&subject(config()), None, &[]).is_empty(), "nothing is made up");
    assert_eq!([5.4, 999.0, 1500.0, 250_000.0].map(expect::time), ["5 us", "999 us", "1.5 ms", "250 ms"]);
}

#[test]
fn a_finding_is_told_once() {
    let mut findings = Findings::default();
    findings.warning("the same", "do this");
    findings.warning("the same", "do that");
    findings.problem("another", "do this");
    assert_eq!(findings.0.len(), 2);
}

#[test]
fn what_is_not_there_can_not_be_looked_at() {
    let args = |dir: Option<&str>, config: Option<&str>| Args {
        dir: dir.map(Into::into),
        config: config.map(Into::into),
        seconds: 1.0,
        json: false,
        command: None,
    };
    for args in [args(Some("/does/not/exist"), None), args(None, Some("/does/not/exist.toml"))] {
        assert!(Subject::find(&args, &mut Findings::default()).is_err());
    }
}

/// What is found of one replica alone. `files`: what lies in its data directory.
fn alone(files: &[&str], change: impl FnOnce(&Path, &mut Config)) -> Vec<Finding> {
    let place = tempfile::tempdir().expect("a directory");
    let mut config = config();
    config.data = place.path().join("replica-1/data");
    std::fs::create_dir_all(&config.data).expect("made");
    files.iter().for_each(|name| std::fs::write(config.data.join(name), "").expect("written"));
    change(place.path(), &mut config);
    let mut findings = Findings::default();
    own::look(&Patient { config, file: place.path().join("replica-1/replica.toml") }, &mut findings);
    findings.0
}

#[test]
fn a_data_directory_that_was_emptied_is_a_problem() {
    let nothing = |_: &Path, _: &mut Config| {};
    assert!(alone(&["identity.toml", "fresh"], nothing).is_empty(), "never started");
    assert!(alone(&["identity.toml", "log"], nothing).is_empty(), "started");
    for (files, gone) in [(&[][..], "identity.toml is gone"), (&["identity.toml"], "its log is gone")] {
        let found = alone(files, nothing);
        assert!(found[0].level == Level::Problem && found[0].text.contains(gone), "{found:?}");
        assert!(found[0].remedy.contains("vote twice"));
    }
    let memory = |_: &Path, config: &mut Config| config.durability.mode = Durability::Memory;
    assert!(alone(&["identity.toml"], memory).is_empty(), "it has no log");
}

#[test]
fn the_certificate_of_another_replica_is_a_problem() {
    let with = |replica: u16, cluster: u128| {
        alone(&["identity.toml", "log"], move |place, config| {
            let own = Holder::Replica(ReplicaId::new(replica));
            let made = Authority::create(ClusterId::new(cluster), Validity::days(2)).expect("an authority");
            let made = Authority::read(&made).expect("it is one");
            let issued = made.issue(&own, &[], Validity::days(2)).expect("a certificate");
            let files = ["ca", "certificate", "key"].map(|name| place.join(name));
            std::fs::write(&files[1], issued.certificate).expect("written");
            let [ca, certificate, key] = files;
            config.tls = Some(TlsFiles { ca, certificate, key });
        })
    };
    assert!(with(1, 7).is_empty());
    for (replica, cluster) in [(2, 7), (1, 8)] {
        let found = with(replica, cluster);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].level == Level::Problem && found[0].text.contains("does not start"), "{found:?}");
        assert!(found[0].remedy.contains("quorate cert issue --replica 1"), "{found:?}");
    }
    let none = alone(&["identity.toml", "log"], |place, config| {
        let [ca, certificate, key] = ["ca", "certificate", "key"].map(|name| place.join(name));
        config.tls = Some(TlsFiles { ca, certificate, key });
    });
    assert!(none[0].level == Level::Problem && none[0].text.contains("is not usable"), "{none:?}");
}

#[test]
fn a_disk_that_is_full_on_purpose_is_named_while_dev_runs() {
    let found = |runs: bool| {
        alone(&["identity.toml", "log"], move |place, _| {
            std::fs::write(place.join("replica-1/hurt"), "{\"disk_mib\":0}\n").expect("written");
            if runs {
                std::fs::write(place.join("control.sock"), "").expect("written");
            }
        })
    };
    assert!(found(false).is_empty());
    assert!(found(true)[0].text.contains("full on purpose"));
}

#[test]
fn one_that_stopped_among_others_that_run_is_named() {
    let report = |replica, at| ports::ReplicaReport {
        replica,
        listen: "127.0.0.1:1".into(),
        durability: "group".into(),
        at,
        pid: None,
        log_bytes: 0,
        checkpoint_bytes: 0,
        reached_us: Default::default(),
        not_reached: Vec::new(),
    };
    let said = |ats: [ports::Where; 3]| {
        let reports: Vec<_> = (1..).zip(ats).map(|(replica, at)| report(replica, at)).collect();
        let mut findings = Findings::default();
        ports::stopped(&reports, &mut findings);
        findings.0
    };
    let (free, running) = (ports::Where::Free, ports::Where::Running);
    assert!(said([free; 3]).is_empty(), "a new cluster");
    let found = said([running, free, running]);
    assert!(found.len() == 1 && found[0].text.contains("replica 2 does not run"), "{found:?}");
}
