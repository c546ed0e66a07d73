//! A bank gets its second release: processes of the old and the new program side by side, killed while a client pays, and back; then the level
//! is raised, and a backup becomes another cluster. The programs are the examples `bank` and `bank_next` of the library, as docs/evolution.md
//! tells it.

#[path = "../../../../host/quorate/examples/bank.rs"]
#[expect(dead_code, reason = "a program of its own")]
pub(crate) mod bank;
#[path = "../../../../host/quorate/examples/bank_next.rs"]
#[expect(dead_code, reason = "a program of its own")]
mod bank_next;

use crate::harness::{free_ports, quorate, wait_until};
use quorate::client::{ClientBuilder, ReadOptions};
use quorate::program::run_with;
use quorate::{Typed, TypedCallError};
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;

const PROGRAM: &str = "QUORATE_TEST_BANK_PROGRAM";
const ARGUMENT: &str = "QUORATE_TEST_BANK_ARGUMENT";
/// How this program becomes that of a bank.
const BECOME: [&str; 4] = ["evolution::the_replica_of_a_bank", "--exact", "--ignored", "--nocapture"];

/// A script that is the program of a bank, and leaves out what the test that it runs prints beside.
pub(crate) fn program_of_a_bank(directory: &Path, next: bool) -> PathBuf {
    let (file, program) = (directory.join("bank"), if next { "next" } else { "first" });
    let this = std::env::current_exe().expect("this program");
    let text = format!(
        "#!/bin/sh\nexport {PROGRAM}={program} {ARGUMENT}=\"$1\"\nset -- '{}' {}\n\
         case ${ARGUMENT} in -*) \"$@\" | grep '^bank ' ;; *) exec \"$@\" ;; esac\n",
        this.display(),
        BECOME.join(" ")
    );
    std::fs::write(&file, text).expect("a script");
    std::fs::set_permissions(&file, Permissions::from_mode(0o755)).expect("it can be run");
    file
}

/// The programs are in this one, as a test that another test runs in a process of its own.
#[test]
#[ignore = "the replicas of another test"]
fn the_replica_of_a_bank() -> ExitCode {
    let (Ok(program), Some(argument)) = (std::env::var(PROGRAM), std::env::var_os(ARGUMENT)) else {
        return ExitCode::SUCCESS;
    };
    match program.as_str() {
        "next" => run_with(Typed(bank_next::Bank::default()), [argument]),
        _ => run_with(Typed(bank::Bank::default()), [argument]),
    }
}

struct Banks {
    directory: PathBuf,
    replicas: [Option<Child>; 3],
}

impl Banks {
    fn config(&self, at: usize) -> PathBuf {
        self.directory.join(format!("replica-{}/replica.toml", at + 1))
    }

    fn command(&self, at: usize, next: bool) -> Command {
        let mut command = Command::new(std::env::current_exe().expect("this program"));
        command.args(BECOME);
        command.env(PROGRAM, if next { "next" } else { "first" }).env(ARGUMENT, self.config(at));
        command.stdin(Stdio::null()).stdout(Stdio::null());
        command
    }

    /// Kills the replica, if it runs, and starts it with this program.
    fn replace(&mut self, at: usize, next: bool) {
        self.kill(at);
        let child = self.command(at, next).stderr(Stdio::null()).spawn();
        self.replicas[at] = Some(child.expect("it can be started"));
    }

    fn kill(&mut self, at: usize) {
        if let Some(mut child) = self.replicas[at].take() {
            child.kill().expect("it can be killed");
            child.wait().expect("it ended");
        }
    }

    fn file(&self) -> String {
        self.directory.join("client.toml").display().to_string()
    }

    fn run(&self, arguments: &[&str]) -> crate::harness::Ran {
        quorate(&[arguments, &["--config", &self.file()]].concat())
    }

    fn all_answer(&self) {
        wait_until("all replicas answer", || {
            let shown: serde_json::Value =
                serde_json::from_str(&self.run(&["upgrade", "status", "--json"]).out).unwrap_or_default();
            shown["service_possible"].is_u64()
        });
    }
}

impl Drop for Banks {
    fn drop(&mut self) {
        (0..3).for_each(|at| self.kill(at));
    }
}

fn made(directory: &Path, by: &[&str]) -> Banks {
    let members: Vec<String> =
        free_ports(3).iter().zip(1..).map(|(port, id)| format!("{id}=127.0.0.1:{port}")).collect();
    quorate(&[by, &["--members", &members.join(",")]].concat()).ok();
    Banks { directory: directory.to_owned(), replicas: [None, None, None] }
}

/// Pays one at a time until it is told to end. Counts what was acknowledged, and what may have been done.
fn pay_on(file: &str, end: &AtomicBool, (paid, unknown): (&AtomicI64, &AtomicI64)) {
    let builder = ClientBuilder::from_file(file).expect("a file").service("bank");
    let client = builder.timeout(Duration::from_secs(30)).build_blocking().expect("a client");
    let mut session = None;
    while !end.load(Ordering::Relaxed) {
        let Ok(open) = session.take().map_or_else(|| client.open::<bank::Bank>(), Ok) else { continue };
        match open.call(&bank::Command::Pay { to: "ada".into(), amount: 1 }) {
            Ok(_) => {
                paid.fetch_add(1, Ordering::Relaxed);
                session = Some(open);
            }
            Err(why) => {
                assert!(matches!(why, TypedCallError::Call(_)), "{why}");
                unknown.fetch_add(i64::from(why.is_outcome_unknown()), Ordering::Relaxed);
            }
        }
    }
}

#[test]
fn a_bank_gets_its_second_release_under_load_and_kills() {
    let home = tempfile::tempdir().expect("a temporary directory");
    let dir = home.path().join("prod");
    let shown = dir.display().to_string();
    let mut banks = made(&dir, &["init", "--service", "bank", "--health-port", "0", "--dir", &shown]);
    (0..3).for_each(|at| banks.replace(at, false));
    let (end, paid, unknown) = (AtomicBool::new(false), AtomicI64::new(0), AtomicI64::new(0));
    let file = banks.file();
    let next = std::thread::scope(|scope| {
        scope.spawn(|| pay_on(&file, &end, (&paid, &unknown)));
        let more = |what: &str| {
            let before = paid.load(Ordering::Relaxed);
            wait_until(what, || paid.load(Ordering::Relaxed) > before + 50);
        };
        more("it begins");
        // There, back, and there: each with a kill.
        for (at, next) in [(0, true), (1, true), (1, false), (0, false), (2, true), (0, true), (1, true)] {
            banks.replace(at, next);
            more("two of three go on");
            banks.all_answer();
            if (at, next) != (1, true) {
                let why = banks.run(&["upgrade", "raise", "--service", "2"]).fails(1, &[]);
                assert!(why.contains("does not have version 2"), "{why}");
            }
        }
        banks.run(&["kv", "put", "a", "b"]).fails(1, &["runs the service bank"]);
        let said = banks.run(&["upgrade", "status"]).ok();
        assert!(said.contains("service bank at version 1") && said.contains("have version 2"), "{said}");
        banks.run(&["upgrade", "raise", "--service"]).ok();
        more("at version 2");
        banks.kill(2);
        more("a new program is killed");
        let old = banks.command(2, false).output().expect("it runs");
        let text = String::from_utf8_lossy(&old.stderr).into_owned();
        banks.replace(2, true);
        more("it is back");
        banks.all_answer();
        end.store(true, Ordering::Relaxed);
        text
    });
    assert!(next.contains("this program has version 1 at most"), "an old program says so: {next}");
    let client = ClientBuilder::from_file(&file).expect("a file").build_blocking().expect("a client");
    let bank = client.open::<bank_next::Bank>().expect("a session");
    let note = bank_next::Command::Pay { to: "bob".into(), amount: 5, note: Some("rent".into()) };
    assert_eq!(bank.call(&note), Ok(5));
    let balance = client.query::<bank_next::Bank>(&"ada".into(), ReadOptions::default()).expect("a balance");
    let (paid, unknown) = (paid.into_inner(), unknown.into_inner());
    assert!((paid..=paid + unknown).contains(&balance), "{balance} of {paid} and perhaps {unknown}");
    assert!(banks.run(&["status"]).ok().contains("service bank at version 2"));

    // A backup of it becomes a cluster of the same service, and of no other.
    let (backup, again) = (home.path().join("bank.qbk"), home.path().join("again"));
    let (backup, out) = (backup.display().to_string(), again.display().to_string());
    banks.run(&["backup", "create", &backup, "--fresh"]).ok();
    assert!(quorate(&["backup", "verify", &backup]).ok().contains("\"bank\" at version 2"));
    let restore = ["backup", "restore", &backup, "--out", &out];
    quorate(&[&restore[..], &["--members", "1=a:1,2=b:2,3=c:3", "--service", "shop"]].concat())
        .fails(1, &["the service bank", "run shop"]);
    let mut restored = made(&again, &restore);
    (0..3).for_each(|at| restored.replace(at, true));
    let client =
        ClientBuilder::from_file(restored.file()).expect("a file").build_blocking().expect("a client");
    let again = client.query::<bank_next::Bank>(&"ada".into(), ReadOptions::default());
    assert_eq!(again, Ok(balance), "nothing is lost");
}
