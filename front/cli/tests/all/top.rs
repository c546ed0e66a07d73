//! `quorate top`: what programs read of a cluster, and that the terminal is as it was however the view ends.

use crate::harness::{Cluster, pid, program, quorate, wait_until};
use rustix::fd::OwnedFd;
use rustix::process::{Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt};
use rustix::termios::{Termios, Winsize, tcgetattr, tcsetwinsize};
use serde_json::Value;
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::process::{Child, Stdio};
use std::sync::{Arc, Mutex};

fn lines(text: &str) -> Vec<Value> {
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|why| panic!("{why}: {line}")))
        .collect()
}

#[test]
fn a_cluster_under_load_and_without_a_replica() {
    let cluster = Cluster::start(&[]);
    let leader = cluster.wait_for_leader();
    let top = cluster
        .command(&["top", "--batch", "2", "--json", "--every", "700ms"])
        .stdout(Stdio::piped())
        .spawn();
    let top = top.expect("the program runs");
    for key in 0..12 {
        cluster.ok(&["kv", "put", &format!("k{key}"), "v"]);
    }
    let looks = lines(&String::from_utf8(top.wait_with_output().expect("it ends").stdout).expect("UTF-8"));
    assert_eq!(looks.len(), 2, "{looks:#?}");
    let busy = |look: &&Value| look["requests_per_s"].as_f64().is_some_and(|rate| rate > 0.0);
    let look = looks.iter().find(busy).unwrap_or_else(|| panic!("no load: {looks:#?}"));
    assert_eq!((&look["leader"], &look["answered"]), (&leader.into(), &3.into()), "{look:#}");
    assert!(look["ordering"]["p99"]["at_most_us"].as_u64() > Some(0), "{look:#}");
    for replica in look["replicas"].as_array().expect("a list") {
        let is_leader = replica["replica"] == leader;
        assert_eq!(replica["role"], if is_leader { "leader" } else { "follower" }, "{look:#}");
        assert!(replica["log_bytes_per_s"].as_f64() > Some(0.0), "{look:#}");
        assert!(replica["memory_bytes"].as_u64() > Some(1 << 20), "{look:#}");
        assert_eq!(replica["lag_bytes"].is_u64(), !is_leader, "{look:#}");
    }

    let gone = cluster.ids().into_iter().find(|id| *id != leader).expect("a follower");
    cluster.kill(gone);
    // Without a terminal there is one table.
    let table = cluster.ok(&["top", "--every", "100ms"]);
    assert!(table.contains("2 of 3 replicas answer"), "{table}");
    let row = table.lines().find(|line| line.contains("not answering: ")).expect("a row");
    assert!(row.trim_start().starts_with(&gone.to_string()) && !table.contains('\u{1b}'), "{table}");
    assert!(table.contains(&format!("`quorate chaos restart {gone}`")), "{table}");
}

#[test]
fn who_asks_for_tables_is_told_at_once_that_there_is_no_cluster() {
    let nowhere = tempfile::tempdir().expect("a temporary directory");
    let dir = nowhere.path().to_str().expect("UTF-8");
    quorate(&["top", "--dir", dir, "--batch", "1"]).fails(2, &["client.toml"]);
    quorate(&["top", "--dir", dir, "--every", "1ms"]).fails(2, &["--every is 100ms to 3600s"]);
}

/// `quorate top` in a terminal, with no cluster, for which it waits.
struct Screen {
    top: Child,
    keys: File,
    /// The other end of the terminal, as the program has it.
    terminal: OwnedFd,
    before: Termios,
    said: Arc<Mutex<Vec<u8>>>,
    _nowhere: tempfile::TempDir,
}

impl Screen {
    fn start() -> Self {
        let nowhere = tempfile::tempdir().expect("a temporary directory");
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY;
        let keys = openpt(flags).expect("a terminal");
        grantpt(&keys).and_then(|()| unlockpt(&keys)).expect("a terminal");
        let terminal = ioctl_tiocgptpeer(&keys, flags).expect("a terminal");
        let size = Winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&terminal, size).expect("a size");
        let before = tcgetattr(&terminal).expect("modes");
        let end = || Stdio::from(terminal.try_clone().expect("a terminal can be shared"));
        let mut top = program();
        top.args(["top", "--dir"]).arg(nowhere.path()).env("TERM", "xterm");
        let top = top.stdin(end()).stdout(end()).stderr(end()).spawn().expect("the program runs");
        let (keys, said) = (File::from(keys), Arc::new(Mutex::new(Vec::new())));
        let (mut reader, heard) = (keys.try_clone().expect("a terminal can be shared"), said.clone());
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(length @ 1..) = reader.read(&mut bytes) {
                heard.lock().expect("no panic").extend(&bytes[..length]);
            }
        });
        Self { top, keys, terminal, before, said, _nowhere: nowhere }
    }

    fn said(&self) -> String {
        String::from_utf8_lossy(&self.said.lock().expect("no panic")).into_owned()
    }

    /// Whether keys arrive as bytes, one by one, and are not shown.
    fn is_raw(&self) -> bool {
        let now = tcgetattr(&self.terminal).expect("modes");
        let changed = now.local_modes != self.before.local_modes;
        assert_eq!(changed, now.input_modes != self.before.input_modes);
        assert_eq!(changed, now.output_modes != self.before.output_modes);
        changed
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        let _ = self.top.kill();
        let _ = self.top.wait();
    }
}

#[test]
fn the_terminal_is_as_it_was_however_the_view_ends() {
    for end in ["q", "\u{3}", "SIGTERM", "SIGHUP"] {
        let mut screen = Screen::start();
        wait_until("it says that there is no cluster", || screen.said().contains("client.toml"));
        assert!(screen.said().starts_with("\u{1b}[?1049h\u{1b}[?25l"), "{:?}", screen.said());
        assert!(screen.is_raw());
        match end {
            "SIGTERM" => kill_process(pid(&screen.top), Signal::TERM).expect("a signal can be sent"),
            "SIGHUP" => kill_process(pid(&screen.top), Signal::HUP).expect("a signal can be sent"),
            key => screen.keys.write_all(key.as_bytes()).expect("a key can be pressed"),
        }
        wait_until("it ends", || {
            screen.top.try_wait().expect("it is ours").is_some_and(|ended| {
                assert!(ended.success(), "{end:?}: {ended}");
                true
            })
        });
        wait_until("it leaves its screen", || screen.said().ends_with("\u{1b}[?25h\u{1b}[?1049l"));
        assert!(!screen.is_raw(), "{end:?}");
    }
}
