//! `quorate doctor visigoth` and `quorate bench figure visigoth-2` with real processes, as short as they can be.

use crate::harness::{Ran, free_ports, program};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::Stdio;

fn run_in(directory: &Path, arguments: &str) -> Ran {
    let mut command = program();
    command.args(arguments.split_whitespace()).current_dir(directory);
    command.output().expect("the program runs").into()
}

/// As the group is measured here: quickly.
const SHORT: &str = "--seconds 0.3 --every-ms 20 --bytes 2000 --risk 20 --election-min-ms 60000";

#[test]
fn one_machine_gives_a_first_look() {
    let directory = tempfile::tempdir().expect("a directory");
    let said = run_in(directory.path(), &format!("doctor visigoth --processes 3 {SHORT}")).ok();
    let parts = [
        "3 processes on one machine, 2000 bytes every 20 ms: 45 rounds",
        "2 of 2 replies",
        "with s = 1",
        "recommended: --fault-model visigoth --faults u=2,s=1,o=0,t=",
        "measure on the machines",
        "drawn: doctor-visigoth.html",
    ];
    for part in parts {
        assert!(said.contains(part), "`{part}` is missing in: {said}");
    }
    let page = fs::read_to_string(directory.path().join("doctor-visigoth.html")).expect("a page");
    assert!(page.contains("<svg") && page.contains("1 of 2 replies"), "{page}");
    let names: Vec<_> = fs::read_dir(directory.path()).expect("a directory").flatten().collect();
    assert_eq!(names.len(), 1, "nothing else is left: {names:?}");
    // What is recommended is what a cluster takes.
    let line = said.lines().find(|line| line.starts_with("recommended")).expect("a recommendation");
    let numbers = line.split_whitespace().find(|word| word.starts_with("u=2")).expect("numbers");
    let dev = format!("dev --dir dev --fault-model visigoth --faults {numbers} --replicas 3");
    let refused = run_in(directory.path(), &dev);
    assert!(refused.err.contains("u + min(u,s) + o + 1 = 2 + 1 + 0 + 1 = 4"), "{refused:?}");
}

#[test]
fn processes_of_a_group_measure_each_other() {
    let directory = tempfile::tempdir().expect("a directory");
    fs::write(directory.path().join("key"), "a secret").expect("a file");
    let group: Vec<String> = free_ports(3).iter().map(|port| format!("127.0.0.1:{port}")).collect();
    let start = |at: usize| {
        let arguments = format!(
            "doctor visigoth --listen {} --group {} --key key --json --plot {at}.html {SHORT}",
            group[at],
            group.join(",")
        );
        let mut command = program();
        command.args(arguments.split_whitespace()).current_dir(directory.path());
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program runs")
    };
    let started: Vec<_> = (0..3).map(start).collect();
    for (at, child) in started.into_iter().enumerate() {
        let said = Ran::from(child.wait_with_output().expect("it ends")).ok();
        let document: Value = serde_json::from_str(&said).expect("one document");
        let measured = &document["measured"];
        assert_eq!((&measured["members"], &measured["processes"]), (&Value::from(3), &Value::from(1)));
        assert_eq!(measured["replies"].as_array().map(Vec::len), Some(2));
        assert_eq!(document["advice"]["recommended"], 1, "{document}");
        fs::write(directory.path().join(format!("{at}.json")), said).expect("it is written");
        assert!(directory.path().join(format!("{at}.html")).exists());
    }
    let read = "doctor visigoth --read 0.json,1.json,2.json --risk 20 --election-min-ms 60000";
    let said = run_in(directory.path(), &format!("{read} --u 1 --o 1")).ok();
    assert!(said.contains("45 rounds") && said.contains("u=1,s=1,o=1 with 4 replicas"), "{said}");
    assert!(!said.contains("put the results of all together"), "{said}");
    let said =
        run_in(directory.path(), "bench figure visigoth-2 --results 0.json,1.json,2.json --out drawn").ok();
    assert!(said.contains("45 rounds") && said.contains("visigoth-2.html"), "{said}");
    let drawn = fs::read_to_string(directory.path().join("drawn/visigoth-2.json")).expect("the numbers");
    let drawn: Value = serde_json::from_str(&drawn).expect("JSON");
    assert_eq!(drawn["measured"]["processes"], 3);
    // The figure's own numbers can be read again.
    run_in(directory.path(), "bench figure visigoth-2 --results drawn/visigoth-2.json --out again").ok();
}

#[test]
fn the_figure_measures_a_group_of_its_own() {
    let directory = tempfile::tempdir().expect("a directory");
    let arguments =
        "bench figure visigoth-2 --processes 4 --secs 0.2 --every-ms 20 --out drawn --scratch scratch";
    let said = run_in(directory.path(), arguments).ok();
    assert!(said.contains("50000 bytes every 20 ms: 40 rounds") && said.contains("3 of 3 replies"), "{said}");
    run_in(directory.path(), "bench figure visigoth-2 --processes 1").fails(2, &["--processes is 2 to 32"]);
}

#[test]
fn wrong_groups_are_refused_with_the_reason() {
    let directory = tempfile::tempdir().expect("a directory");
    let doctor = |arguments: &str| run_in(directory.path(), &format!("doctor visigoth {arguments}"));
    let help = doctor("--help").ok();
    assert!(help.contains("--group") && help.contains("--read") && help.contains("Examples"), "{help}");
    doctor("--processes 1").fails(2, &["2 to 32 processes, and not 1"]);
    doctor("--listen 127.0.0.1:1").fails(2, &["--group"]);
    doctor("--group 127.0.0.1:1,127.0.0.1:2").fails(2, &["--listen"]);
    doctor("--listen a:1 --group b:1,c:1").fails(2, &["a:1 is no address of the group"]);
    doctor("--listen a:1 --group a:1,b:1,a:1").fails(2, &["--group has a:1 twice"]);
    doctor("--bytes 0").fails(2, &["--bytes is 1 to"]);
    doctor("--risk 0").fails(2, &["--risk is 0.0001 to 50"]);
    doctor("--u 1 --o 2").fails(2, &["no more than --u 1 are"]);
    doctor("--seconds 0").fails(2, &["--seconds is 0.05"]);
    doctor("--read none.json").fails(1, &["none.json"]);
    fs::write(directory.path().join("wrong.json"), "{\"measured\":{}}").expect("a file");
    doctor("--read wrong.json").fails(2, &["wrong.json has no results", "quorate doctor visigoth --json"]);
    doctor("--disk nowhere --seconds 0.1 --every-ms 10").fails(1, &["nowhere"]);
    let port = free_ports(2);
    let (mine, other) = (format!("127.0.0.1:{}", port[0]), format!("127.0.0.1:{}", port[1]));
    doctor(&format!("--listen {mine} --group {mine},{other} --wait 0.2"))
        .fails(1, &[&format!("{other} did not answer within"), "the same --group"]);
}
