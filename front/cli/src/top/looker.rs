//! Looks at a cluster again and again. Its `client.toml` is read each time, so that members that come are seen, and a cluster that is made
//! later, too.

use super::look::{Found, Known, Look, Seen, cut};
use crate::problems::{self, Problem};
use quorate_command::admin::{self, Admin};
use quorate_command::cluster::{Cluster, ClusterArgs};
use quorate_command::failure::Outcome;
use std::collections::BTreeMap;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// So many problems of one replica are taken: honest replicas have fewer.
const MOST: usize = 50;

/// Who looks.
pub(super) struct Looker {
    args: ClusterArgs,
    cluster: Option<(Cluster, Admin)>,
    first_seen: FirstSeen,
}

impl Looker {
    /// One that has not looked yet.
    pub(super) fn new(args: ClusterArgs) -> Self {
        Self { args, cluster: None, first_seen: FirstSeen::default() }
    }

    /// How it is now. It takes as long as the slowest replica, at most a second or so.
    ///
    /// # Errors
    /// When there is no cluster.
    pub(super) fn look(&mut self) -> Outcome<Look> {
        let (cluster, admin) = self.find()?;
        let answers = admin.ask_all();
        let problems = problems::of(&cluster, &answers, admin::leader(&answers));
        let found = Found {
            cluster: cluster.id.to_string(),
            model: cluster.fault_model.to_string(),
            replicas: answers.iter().map(Seen::of).collect(),
            problems: self.first_seen.note(problems, Instant::now()),
        };
        self.cluster = Some((cluster, admin));
        Ok(Look { time_ms: time_ms(), found: Ok(found) })
    }

    /// The cluster as its file says now, with connections that stay as long as the file does.
    fn find(&mut self) -> Outcome<(Cluster, Admin)> {
        let cluster = Cluster::find(&self.args)?;
        match self.cluster.take() {
            Some((old, admin)) if old == cluster => Ok((old, admin)),
            _ => {
                let admin = Admin::new(&cluster)?;
                Ok((cluster, admin))
            }
        }
    }
}

/// The time, in milliseconds since 1970.
pub(super) fn time_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_millis()).unwrap_or(u64::MAX)
}

/// Since when which problem is there.
#[derive(Default)]
pub(super) struct FirstSeen(BTreeMap<String, Instant>);

impl FirstSeen {
    /// These are the problems now; the newest come first. Others have ended.
    pub(super) fn note(&mut self, problems: Vec<Problem>, now: Instant) -> Vec<Known> {
        let before = std::mem::take(&mut self.0);
        let (mut since, mut said) = (Vec::new(), BTreeMap::<u16, usize>::new());
        let mut is_taken = |problem: &Problem| match problem {
            Problem::Said { replica, .. } => {
                let count = said.entry(*replica).or_default();
                *count += 1;
                *count <= MOST
            }
            Problem::Away { .. } | Problem::Whole(_) => true,
        };
        for problem in problems {
            if !is_taken(&problem) {
                continue;
            }
            let key = key(&problem);
            let first = *self.0.entry(key).or_insert_with_key(|key| before.get(key).copied().unwrap_or(now));
            since.push((first, cut(problem)));
        }
        since.sort_by(|(one, _), (other, _)| other.cmp(one));
        let known = |(first, problem): (Instant, Problem)| Known {
            problem,
            seconds: now.saturating_duration_since(first).as_secs(),
        };
        since.into_iter().map(known).collect()
    }
}

/// What stays the same of a problem while it lasts: its numbers may change.
fn key(problem: &Problem) -> String {
    let mut key = match problem {
        Problem::Said { replica, .. } => format!("said {replica} "),
        Problem::Away { replica, .. } => return format!("away {replica}"),
        Problem::Whole(_) => "whole ".to_owned(),
    };
    let (Problem::Said { text, .. } | Problem::Away { text, .. } | Problem::Whole(text)) = problem;
    let mut in_number = false;
    for char in text.chars() {
        let digit = char.is_ascii_digit();
        if !(digit && in_number) {
            key.push(if digit { '#' } else { char });
        }
        in_number = digit;
    }
    key
}

/// Looks so often, from now on, until nobody wants to hear it.
pub(super) fn repeat(mut looker: Looker, every: Duration, mut tell: impl FnMut(Look) -> bool) {
    loop {
        let began = Instant::now();
        let look = looker.look().unwrap_or_else(|why| Look::nothing(time_ms(), why.to_string()));
        if !tell(look) {
            return;
        }
        std::thread::sleep(every.saturating_sub(began.elapsed()));
    }
}
