//! The problems of a cluster, each with what to do, as `quorate status` and `quorate top` show them. Tests: `problems/tests.rs`.

use crate::control::{self, Action, ChildReport, Life, Request};
use quorate_command::admin::{self, Answer};
use quorate_command::cluster::{self, Cluster};
use quorate_types::ReplicaId;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

#[cfg(test)]
mod tests;

/// A problem, as text of one line. Some of it may come from a replica, so it is not for a terminal as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Problem {
    /// A replica says it of itself or of others.
    Said { replica: u16, text: String },
    /// A replica does not answer.
    Away { replica: u16, text: String },
    /// The cluster does not work as a whole.
    Whole(String),
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Said { replica, text } => write!(f, "replica {replica}: {text}"),
            Self::Away { replica, text } => write!(f, "replica {replica} is unreachable {text}"),
            Self::Whole(text) => f.write_str(text),
        }
    }
}

/// All problems, as the answers of the replicas show them.
pub(crate) fn of(cluster: &Cluster, answers: &[Answer], leader: Option<ReplicaId>) -> Vec<Problem> {
    let mut problems = Vec::new();
    let lives = lives(cluster, answers);
    let suspicions = Suspicions::of(answers, cluster.truth());
    for answer in answers {
        let replica = answer.replica.number();
        match &answer.status {
            Ok(status) => {
                let said = |text: &String| Problem::Said { replica, text: suspicions.weighed(replica, text) };
                problems.extend(status.problems.iter().map(said));
            }
            Err(why) => {
                let remedy = if cluster.is_dev() {
                    remedy_in_dev(replica, lives.as_deref(), &cluster::dir_option(&cluster.directory))
                } else {
                    "start it with `quorate serve`, or check the network".to_owned()
                };
                let text = format!("at {}: {why}; {remedy}", answer.address);
                problems.push(Problem::Away { replica, text });
            }
        }
    }
    let answered = answers.iter().filter(|answer| answer.status.is_ok()).count();
    let majority = cluster.majority();
    if answered < majority {
        problems.push(Problem::Whole(format!(
            "{answered} of {} replicas answer, {majority} are needed: writes and strong reads wait until then",
            answers.len()
        )));
    } else if leader.is_none() {
        let text = "nobody leads now; an election takes less than a second, so ask again";
        problems.push(Problem::Whole(text.to_owned()));
    }
    // It comes first: what the replicas say of their disks is the reason.
    problems.splice(0..0, admin::refuses_writes(answers, leader).map(refused));
    problems
}

/// Which replicas are suspected, and by whom. A replica that lies may also say that honest ones do.
struct Suspicions {
    by: BTreeMap<u64, BTreeSet<u64>>,
    /// How many replicas do not all lie.
    truth: usize,
}

impl Suspicions {
    fn of(answers: &[Answer], truth: usize) -> Self {
        let mut suspicions = Self { by: BTreeMap::new(), truth };
        for answer in answers {
            if let Ok(status) = &answer.status {
                suspicions.add(answer.replica.number().into(), &status.raw["suspects"]);
            }
        }
        suspicions
    }

    /// What this replica says of others.
    fn add(&mut self, from: u64, suspects: &Value) {
        for suspect in suspects.as_array().into_iter().flatten() {
            if let Some(whom) = suspect["replica"].as_u64().filter(|whom| *whom != from) {
                self.by.entry(whom).or_default().insert(from);
            }
        }
    }

    /// The text of a problem that this replica tells, with what it is worth if it accuses another replica.
    fn weighed(&self, from: u16, text: &str) -> String {
        let whom = text.strip_prefix('r').and_then(|rest| rest.split_once(" is suspected:"));
        let Some(whom) = whom.and_then(|(whom, _)| whom.parse::<u64>().ok()) else { return text.to_owned() };
        let (many, itself) = (self.count(whom), self.count(from.into()));
        let accused = |by_whom: u64| self.by.values().filter(|by| by.contains(&by_whom)).count();
        let (accuses, turns) = (accused(from.into()), accused(whom));
        if many >= self.truth {
            format!("{text}. {many} replicas say so, and so many do not all lie")
        } else if itself >= self.truth {
            format!(
                "do not act on this: this replica is itself suspected by {itself} others. It says: {text}"
            )
        } else if accuses >= self.truth {
            format!(
                "do not act on this: this replica accuses {accuses} others, and so many do not all lie. It says: {text}"
            )
        } else if turns >= self.truth {
            format!("{text}. r{whom} accuses {turns} others itself, and so many do not all lie: it does")
        } else if itself > many {
            format!("{text}. This replica is itself suspected by more replicas: look at it first")
        } else {
            format!("{text}. Too few say so to know which of them lies: look at both before you stop one")
        }
    }

    fn count(&self, whom: u64) -> usize {
        self.by.get(&whom).map_or(0, BTreeSet::len)
    }
}

/// Too many disks are full, those of these replicas among them.
fn refused(full: &[u16]) -> Problem {
    let names: Vec<String> = full.iter().map(u16::to_string).collect();
    let plural = if full.len() == 1 { "" } else { "s" };
    Problem::Whole(format!(
        "writes are refused: too few replicas have room on their disks (full: replica{plural} {}). Reads go on, and deletes while there is \
         a little room; free space on those disks, and writes resume by themselves",
        names.join(", ")
    ))
}

/// The processes of a `dev` cluster, if a replica does not answer; `None`: no `dev` runs.
fn lives(cluster: &Cluster, answers: &[Answer]) -> Option<Vec<ChildReport>> {
    let needed = cluster.is_dev() && answers.iter().any(|answer| answer.status.is_err());
    let list = Request { action: Action::List, replicas: vec![] };
    needed.then(|| control::call(&cluster.directory, &list).ok())?.map(|done| done.replicas)
}

/// What to do about a replica that does not answer. `dir`: what commands need to be about this cluster.
fn remedy_in_dev(replica: u16, lives: Option<&[ChildReport]>, dir: &str) -> String {
    let Some(lives) = lives else {
        return "no `quorate dev` runs there: start it, and all replicas run".to_owned();
    };
    let Some(report) = lives.iter().find(|report| report.replica == replica) else {
        return "`quorate dev` did not start it: start it with `quorate serve`, as when it was added"
            .to_owned();
    };
    match report.life {
        Life::Paused => format!("it is paused: `quorate chaos resume {replica}{dir}`"),
        _ => report.ended(dir).unwrap_or_else(|| format!("`quorate chaos restart {replica}{dir}`")),
    }
}
