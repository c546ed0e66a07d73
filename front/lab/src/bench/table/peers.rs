//! Other programs, which a file names and which measure themselves: one line of JSON for each measurement.

use crate::bench::median::Median;
use serde::{Deserialize, Serialize};
use std::process::{Command, Stdio};

/// The last lines of what a program said that are shown when it fails.
const LAST_LINES: usize = 3;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Peers {
    peer: Vec<Peer>,
}

/// One of them.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Peer {
    pub(super) name: String,
    /// For sh.
    command: String,
}

/// One measurement.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub(super) struct Measured {
    /// What was measured.
    pub(super) name: String,
    pub(super) per_s: f64,
    pub(super) per_cpu_s: Option<f64>,
    pub(super) p50_us: Option<f64>,
    pub(super) p99_us: Option<f64>,
}

/// The measurements of a program in a round, or why there are none.
pub(super) type Said = Result<Vec<Measured>, String>;

/// The medians of one kind of measurement; or why a program has none.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct PeerRow {
    pub(super) peer: String,
    /// What was measured; empty for a program that failed.
    pub(super) name: String,
    pub(super) per_s: Option<Median>,
    pub(super) per_cpu_s: Option<Median>,
    pub(super) p50_us: Option<Median>,
    pub(super) p99_us: Option<Median>,
    pub(super) failed: Option<String>,
}

/// The programs that a file names.
pub(super) fn parse(text: &str) -> Result<Vec<Peer>, String> {
    let Peers { peer: peers } = toml::from_str(text).map_err(|why| why.to_string())?;
    for (at, peer) in peers.iter().enumerate() {
        if peer.name.trim().is_empty() || peer.command.trim().is_empty() {
            return Err("a peer has a name and a command, which are not empty".into());
        }
        if peers[..at].iter().any(|other| other.name == peer.name) {
            return Err(format!("two peers have the name {:?}", peer.name));
        }
    }
    Ok(peers)
}

impl Peer {
    /// Runs it, and reads what it prints.
    pub(super) fn ask(&self) -> Said {
        let ran = Command::new("sh").args(["-c", &self.command]).stdin(Stdio::null()).output();
        let ran = ran.map_err(|why| format!("can not run sh: {why}"))?;
        let (out, told) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
        if !ran.status.success() {
            return Err(format!("{}: {}", ran.status, last(&told)));
        }
        let measured = measured(&out)?;
        if measured.is_empty() {
            return Err(format!("it printed no line of JSON: {}", last(&told)));
        }
        Ok(measured)
    }
}

/// The last lines, as one.
fn last(told: &str) -> String {
    let lines: Vec<&str> = told.lines().filter(|line| !line.trim().is_empty()).collect();
    lines[lines.len().saturating_sub(LAST_LINES)..].join("; ")
}

/// Reads a program's output.
pub(super) fn measured(out: &str) -> Said {
    let lines = out.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let read = |(at, line): (usize, &str)| {
        let measured: Measured =
            serde_json::from_str(line).map_err(|why| format!("line {} of its output: {why}", at + 1))?;
        let Measured { per_s, per_cpu_s, p50_us, p99_us, .. } = &measured;
        let figures = [Some(*per_s), *per_cpu_s, *p50_us, *p99_us];
        if figures.into_iter().flatten().any(|figure| figure < 0.0) {
            return Err(format!("line {} of its output: a figure is below 0", at + 1));
        }
        Ok(measured)
    };
    lines.map(read).collect()
}

/// The medians of what programs said in each round. A failure of a program is a row of its own.
pub(super) fn rows(peers: &[Peer], said: &[Vec<Said>]) -> Vec<PeerRow> {
    let mut rows = Vec::new();
    for (at, peer) in peers.iter().enumerate() {
        let own: Vec<&Said> = said.iter().filter_map(|round| round.get(at)).collect();
        let all: Vec<&Measured> = own.iter().filter_map(|said| said.as_ref().ok()).flatten().collect();
        let mut names: Vec<&str> = Vec::new();
        for measured in &all {
            if !names.contains(&measured.name.as_str()) {
                names.push(&measured.name);
            }
        }
        rows.extend(names.into_iter().map(|name| row(&peer.name, name, &all)));
        let failed: Vec<&String> = own.iter().filter_map(|said| said.as_ref().err()).collect();
        if let Some(why) = failed.first() {
            let failed =
                Some(format!("{} of {} rounds failed, the first one: {why}", failed.len(), own.len()));
            rows.push(PeerRow { failed, ..row(&peer.name, "", &[]) });
        }
    }
    rows
}

fn row(peer: &str, name: &str, all: &[&Measured]) -> PeerRow {
    let own = || all.iter().filter(|measured| measured.name == name);
    let median = |of: fn(&Measured) -> Option<f64>| Median::of(own().filter_map(|one| of(one)).collect());
    PeerRow {
        peer: peer.into(),
        name: name.into(),
        per_s: median(|one| Some(one.per_s)),
        per_cpu_s: median(|one| one.per_cpu_s),
        p50_us: median(|one| one.p50_us),
        p99_us: median(|one| one.p99_us),
        failed: None,
    }
}
