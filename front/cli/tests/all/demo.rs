//! The tour, with real processes: all of it is told, nothing is lost, and nothing is left, also when it is ended in the middle.

use crate::harness::{Ran, is_alive, pid, program, wait_until};
use rustix::fs::{FlockOperation, flock};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use serde_json::Value;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Where tours are made that are not told where.
const HERE: &str = ".quorate/demo";

fn demo(place: &Path, arguments: &[&str]) -> Command {
    let mut command = program();
    command.arg("demo").args(arguments).current_dir(place);
    command
}

fn place() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temporary directory")
}

fn is_empty(place: &Path) -> bool {
    fs::read_dir(place).expect("it is there").next().is_none()
}

/// The processes whose command line names something below this directory.
fn processes(place: &Path) -> Vec<Pid> {
    let place = place.file_name().and_then(|name| name.to_str()).expect("UTF-8").to_owned();
    let entries = fs::read_dir("/proc").expect("/proc").flatten();
    let ids = entries.filter_map(|entry| Pid::from_raw(entry.file_name().to_str()?.parse().ok()?));
    let uses = |id: &Pid| {
        // Paths of the tour are relative: what tells it from others is where it runs.
        let link = fs::read_link(format!("/proc/{}/cwd", id.as_raw_nonzero()));
        link.is_ok_and(|cwd| cwd.to_string_lossy().contains(&place)) && is_alive(*id)
    };
    ids.filter(uses).collect()
}

/// The step with this name.
fn step<'a>(told: &'a Value, name: &str) -> &'a Value {
    let steps = told["steps"].as_array().expect("a list");
    steps.iter().find(|step| step["step"] == name).unwrap_or_else(|| panic!("no step {name} in {told}"))
}

#[test]
fn the_tour_shows_all_that_it_promises_and_leaves_nothing() {
    let place = place();
    // Somebody else's, and a tour that was interrupted.
    fs::create_dir_all(place.path().join(HERE).join("1")).expect("a directory");
    let ran: Ran = demo(place.path(), &["--fast", "--json"]).output().expect("it runs").into();
    let told: Value = serde_json::from_str(&ran.ok()).expect("one document");
    assert_eq!((&told["ok"], &told["interrupted"]), (&true.into(), &false.into()), "{told}");
    let names: Vec<&Value> =
        told["steps"].as_array().expect("a list").iter().map(|step| &step["step"]).collect();
    assert_eq!(names, ["start", "write", "kill", "lie", "partition", "disk", "check"]);
    for name in names {
        let step = step(&told, name.as_str().expect("a name"));
        assert_eq!(step["done"], true, "{step}");
        assert!(!step["said"].as_array().expect("a list").is_empty(), "{step}");
    }
    assert!(
        step(&told, "start")["left"].to_string().contains(".quorate/demo/1 is left from a tour"),
        "{told}"
    );

    let kill = step(&told, "kill");
    assert!(kill["gap_ms"].is_u64() && kill["caught_up_ms"].is_u64(), "{kill}");
    assert_ne!(kill["leader_before"], kill["leader_after"], "{kill}");
    let lie = step(&told, "lie");
    assert_eq!(lie["suspicion"]["replica"], lie["liar"], "{lie}");
    assert_ne!(lie["suspicion"]["by"], lie["liar"], "{lie}");
    assert!(lie["wrong_alone"].as_u64() > Some(0) && lie["honest_again"] == true, "{lie}");
    let partition = step(&told, "partition");
    assert!(partition["gap_ms"].is_u64() && partition["healed_ms"].is_u64(), "{partition}");
    let scrub = &step(&told, "disk")["scrub"];
    assert!(scrub["mended"].as_u64() >= Some(1) && scrub["damaged"] == 0, "{told}");

    let writes = &told["writes"];
    assert!(writes["acknowledged"].as_u64() > Some(0), "{writes}");
    assert_eq!(writes["found"], writes["acknowledged"], "{writes}");
    assert_eq!(writes["copies"], 4);
    for nothing in ["lost", "twice", "out_of_order", "wrong"] {
        assert_eq!(writes[nothing].as_array().map(Vec::len), Some(0), "{writes}");
    }

    // Only what was there before.
    fs::remove_dir(place.path().join(HERE).join("1")).expect("it is as it was");
    assert!(is_empty(&place.path().join(HERE)));
    assert!(processes(place.path()).is_empty());
}

/// Starts the tour, and waits until it says this.
fn until_it_says(place: &Path, arguments: &[&str], text: &str) -> (Child, BufReader<impl std::io::Read>) {
    // A group of its own, so that a test can do what Ctrl-C does.
    let mut command = demo(place, arguments);
    command.process_group(0).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("it starts");
    let mut out = BufReader::new(child.stdout.take().expect("its output is read"));
    let mut line = String::new();
    while !line.contains(text) {
        line.clear();
        assert_ne!(out.read_line(&mut line).expect("text"), 0, "it ended and never said {text}");
        // No colours where no terminal is.
        assert!(!line.contains('\x1b'), "{line}");
    }
    (child, out)
}

#[test]
fn who_ends_the_tour_in_the_middle_finds_nothing_left() {
    for text in ["1. Four replicas", "4. The leader lies"] {
        let place = place();
        let (mut child, mut out) = until_it_says(place.path(), &["--fast"], text);
        assert!(processes(place.path()).len() > 1, "a cluster runs");
        kill_process_group(pid(&child), Signal::INT).expect("it runs");
        let mut rest = String::new();
        out.read_to_string(&mut rest).expect("text");
        assert_eq!(child.wait().expect("it ends").code(), Some(1), "{rest}");
        assert!(rest.contains("Ended before its time") && !rest.contains("FAILED"), "{rest}");
        assert!(is_empty(place.path()), "{rest}");
        assert!(processes(place.path()).is_empty());
    }
}

#[test]
fn what_is_kept_goes_on_and_what_is_killed_takes_its_replicas_along() {
    let place = place();
    let (mut child, _out) = until_it_says(place.path(), &["--fast", "--keep"], "2. A write");
    kill_process(pid(&child), Signal::KILL).expect("it runs");
    child.wait().expect("it ends");
    wait_until("no process is left", || processes(place.path()).is_empty());
    let left = place.path().join(HERE).join("1");
    assert!(left.join("dev.toml").exists());
    // A process that ends is not seen any more before its files are closed.
    wait_until("nobody uses the directory", || {
        let lock = fs::File::open(left.join("dev.lock")).expect("it is there");
        flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok()
    });

    let ran: Ran = demo(place.path(), &["--fast", "--keep"]).output().expect("it runs").into();
    let said = ran.ok();
    assert!(said.contains(".quorate/demo/1 is left from a tour"), "{said}");
    assert!(said.contains("quorate dev --dir .quorate/demo/2") && said.contains("quorate init"), "{said}");
    assert!(processes(place.path()).is_empty());
    let cluster = crate::harness::Cluster::at(&place.path().join(HERE).join("2"));
    assert_eq!(cluster.ok(&["kv", "get", "greeting"]), "hello");
}

#[test]
fn a_tour_that_can_not_begin_says_why() {
    let place = place();
    fs::write(place.path().join("file"), "").expect("a file");
    let ran: Ran = demo(place.path(), &["--dir", "file"]).output().expect("it runs").into();
    ran.fails(1, &["can not make file"]);
    let ran: Ran = demo(place.path(), &["--slow"]).output().expect("it runs").into();
    ran.fails(2, &["--slow"]);
}
