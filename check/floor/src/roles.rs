//! What parent and children tell each other, and how a child starts.
//!
//! A child is the host program itself, started with [`VARIABLE`] set to a [`Task`]. It answers on its standard
//! output, one [`Word`] a line.

use crate::{Config, Doing, Error, Latency, Result};
use rustix::process::Signal;
use serde::{Deserialize, Serialize};
use std::io::Write;
use std::net::SocketAddr;

/// The hidden environment variable that makes the host program a child.
pub(crate) const VARIABLE: &str = "QUORATE_FLOOR_TASK";

/// What a child is to do.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Task {
    pub(crate) role: Role,
    pub(crate) config: Config,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Role {
    Follower {
        number: usize,
    },
    Leader {
        followers: Vec<SocketAddr>,
    },
    /// A replica of a cluster with Byzantine faults, and the addresses of the replicas before it.
    Agree {
        number: u8,
        earlier: Vec<SocketAddr>,
    },
    /// The load generator. The addresses are those of the replicas that answer, the leader first.
    Load {
        replicas: Vec<SocketAddr>,
    },
}

impl Role {
    /// The name of the role in reports and errors.
    pub(crate) fn name(&self) -> String {
        match self {
            Role::Follower { number } => replica(*number),
            Role::Leader { .. } => replica(0),
            Role::Agree { number, .. } => replica(usize::from(*number)),
            Role::Load { .. } => "load generator".into(),
        }
    }
}

/// The name of a replica in reports and errors; number 0 leads.
pub(crate) fn replica(number: usize) -> String {
    match number {
        0 => "leader".into(),
        _ => format!("follower {number}"),
    }
}

/// One line from a child to its parent.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Word {
    /// A replica listens here.
    Ready(SocketAddr),
    /// The load generator's warm-up is over.
    Measuring,
    /// The load generator's measured time is over.
    Measured,
    /// A replica's last word.
    Replica(Done),
    /// The load generator's last word.
    Load(Measured),
    /// Any child's last word when it failed.
    Failed(String),
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Done {
    pub(crate) commands: u64,
    pub(crate) sum: u64,
    pub(crate) writes: u64,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Measured {
    /// Commands sent in the whole run, all of them answered.
    pub(crate) sent: u64,
    pub(crate) commits: u64,
    pub(crate) seconds: f64,
    pub(crate) latency: Latency,
}

/// Sends a line to the parent.
pub(crate) fn say(word: &Word) -> Result<()> {
    let mut line = serde_json::to_vec(word).map_err(std::io::Error::from).doing("encode a report")?;
    line.push(b'\n');
    let mut out = std::io::stdout().lock();
    out.write_all(&line).and_then(|()| out.flush()).doing("report to the parent")
}

/// Call this first in `main`, before anything is printed. In a process that [`crate::run`] started it does that
/// process's part of the run and does not return; in any other it does nothing.
pub fn maybe_child() {
    let Some(task) = std::env::var_os(VARIABLE) else { return };
    // a child without its parent has nothing to do; when a run fails the parent kills the remaining children
    let bound = rustix::process::set_parent_process_death_signal(Some(Signal::KILL));
    let done = bound.doing("bind this process to its parent").and_then(|()| child(&task.to_string_lossy()));
    if let Err(error) = done {
        // the parent may be gone; the exit code tells the rest
        let _ = say(&Word::Failed(error.to_string()));
        std::process::exit(1);
    }
    std::process::exit(0);
}

fn child(task: &str) -> Result<()> {
    let task: Task = serde_json::from_str(task)
        .map_err(|e| Error::Config(format!("{VARIABLE} is set, but not by this program: {e}")))?;
    match task.role {
        Role::Follower { number } => crate::follower::run(&task.config, number),
        Role::Leader { followers } => crate::leader::run(&task.config, &followers),
        Role::Agree { number, earlier } => crate::agree::run(&task.config, number, &earlier),
        Role::Load { replicas } => crate::load::run(&task.config, &replicas),
    }
}
