//! The `quorate dev` that looks after the cluster of a tour.

use quorate_command::failure::{Doing as _, Failure, Outcome};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, ChildStderr, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

/// How long it may take to stop all replicas.
const STOP: Duration = Duration::from_secs(15);
const LOOK: Duration = Duration::from_millis(5);

/// The process. It ends with this one, however this one ends, and its replicas end with it.
pub(super) struct Supervisor {
    child: Child,
}

/// What it says.
pub(super) struct Said {
    out: Option<ChildStdout>,
    errors: Option<ChildStderr>,
}

impl Supervisor {
    /// Starts it on this directory. From the first thread only: it ends with the thread that started it.
    ///
    /// # Errors
    /// When the system refuses.
    pub(super) fn start(directory: &Path) -> Outcome<Self> {
        let program = std::env::current_exe().doing("find this program's own file")?;
        let child = Command::new(program)
            .args(["dev", "--json", "--fault-model", "byzantine", "--service", "etcd"])
            // Small files of the log are quickly made.
            .args(["--set", "durability.segment_mib=20"])
            .arg(format!("--die-with-parent={}", std::process::id()))
            .arg("--dir")
            .arg(directory)
            // Ctrl-C in a terminal is for this process, which then stops the other one.
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .doing("start a cluster")?;
        Ok(Self { child })
    }

    /// What it says; once.
    pub(super) fn said(&mut self) -> Said {
        Said { out: self.child.stdout.take(), errors: self.child.stderr.take() }
    }

    /// Stops it, and all replicas with it.
    pub(super) fn stop(&mut self) {
        let _ = kill_process(Pid::from_child(&self.child), Signal::TERM);
        let until = Instant::now() + STOP;
        while self.child.try_wait().is_ok_and(|ended| ended.is_none()) && Instant::now() < until {
            std::thread::sleep(LOOK);
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Said {
    /// Waits until the cluster is ready, and gives what `dev --json` says of it.
    ///
    /// # Errors
    /// When it ended instead; with its own words.
    pub(super) fn ready(self) -> Outcome<Value> {
        let mut line = String::new();
        if let Some(out) = self.out {
            BufReader::new(out).read_line(&mut line).doing("hear from the cluster")?;
        }
        let Some(mut errors) = self.errors else { return Err(Failure::new("the cluster can not be heard")) };
        if line.is_empty() {
            let mut why = String::new();
            let _ = errors.read_to_string(&mut why);
            return Err(Failure::new(format!(
                "the cluster did not start: {}",
                why.trim().trim_start_matches("error: ")
            )));
        }
        // A pipe that nobody empties would stop it one day.
        let drain = move || drop(std::io::copy(&mut errors, &mut std::io::sink()));
        std::thread::Builder::new().name("errors".into()).spawn(drain).doing("start a thread")?;
        serde_json::from_str(&line).doing("understand what the cluster says")
    }
}
