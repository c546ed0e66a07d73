//! etcd's own Go client with its recipes of concurrency, and two Python libraries: skipped where `build.sh` did not build them.

use super::World;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Where a program is that `build.sh` makes.
fn built(name: &str) -> Option<PathBuf> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/etcd-clients").join(name);
    let is_there = file.is_file();
    if !is_there {
        quorate_skipped::skipped(format!(
            "there is no {name}; front/cli/tests/all/etcd/build.sh builds it where Go and Python are"
        ));
    }
    is_there.then_some(file)
}

/// Runs the recipes; when all have done something, the leader is killed, and then they must do more.
fn recipes(arguments: &[&str]) {
    let Some(program) = built("recipes") else { return };
    let Some(world) = World::start_with(arguments) else { return };
    let clients = world.cluster.directory().join("clients");
    let mut command = Command::new(program);
    command.args(["--endpoints", &world.endpoints]);
    if world.is_safe() {
        command.arg("--cacert").arg(clients.join("ca.pem"));
        command.arg("--cert").arg(clients.join("default.pem")).arg("--key").arg(clients.join("default.key"));
    }
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the recipes run");
    let mut output = BufReader::new(child.stdout.take().expect("a pipe"));
    let mut line = String::new();
    output.read_line(&mut line).expect("it can be read");
    if line == "halfway\n" {
        world.cluster.ok(&["chaos", "kill", "leader"]);
        child.stdin.take().expect("a pipe").write_all(b"go on\n").expect("it reads");
    }
    let mut said = String::new();
    output.read_to_string(&mut said).expect("it can be read");
    let ended = child.wait_with_output().expect("it ends");
    assert!(ended.status.success(), "{line}{said}{}", String::from_utf8_lossy(&ended.stderr));
    for part in ["transactions", "watches", "leases", "mutexes", "elections", "memory"] {
        assert!(said.contains(&format!("{part}: ")), "{part} is missing in {said}");
    }
    println!("{said}");
}

#[test]
fn recipes_of_the_go_client_with_certificates() {
    recipes(&[]);
}

#[test]
fn recipes_of_the_go_client_without_certificates() {
    recipes(&["--plain"]);
}

/// Runs what the Python libraries can do, at one member.
fn python(arguments: &[&str]) {
    let Some(program) = built("python/bin/python") else { return };
    let Some(world) = World::start_with(arguments) else { return };
    let clients = world.cluster.directory().join("clients");
    let first = world.endpoints.split(',').next().expect("a member");
    let (_, address) = first.split_once("://").expect("a URL");
    let (host, port) = address.rsplit_once(':').expect("a port");
    let mut command = Command::new(program);
    command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/all/etcd/libraries.py")).args([host, port]);
    // They would count for more than what the script says.
    command.env_remove("REQUESTS_CA_BUNDLE").env_remove("CURL_CA_BUNDLE");
    if world.is_safe() {
        command.args(["ca.pem", "default.pem", "default.key"].map(|name| clients.join(name)));
    }
    let said = super::printed(command);
    assert_eq!(said, "etcd3: all\netcd3gw: all");
}

#[test]
fn python_libraries_with_certificates() {
    python(&[]);
}

#[test]
fn python_libraries_without_certificates() {
    python(&["--plain"]);
}
