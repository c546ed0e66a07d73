//! Replicas that lie, with the tricks of the simulator (`check/sim/src/liars`); for `quorate chaos lie`.
//!
//! A replica lies only if `serve` was started with `--lies FILE`, as only `dev` does, and only while that file says how. It runs the real
//! node: it executes, writes its log and answers operators correctly. Its messages to members and clients pass through a trick. The front
//! answers clients of etcd, and is told to lie as well. Tests: front/cli/tests/all/lies.rs.

use clap::ValueEnum;
use quorate::program::word;
use quorate_command::failure::{Doing as _, Failure, Outcome};
use quorate_runtime::{Config, Listener, Mouth, Saying};
use quorate_sim::liars::{self, Liar, Scene, Trick};
use quorate_sim::plan;
use quorate_sim::random::Rng;
use quorate_types::{ConnId, Span, Time};
use quorate_wire::{Frame, OutFrame};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// How a replica lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum How {
    /// Not at all, from now on
    None,
    /// Says nothing to anybody
    Silent,
    /// As the leader: proposes everything 200 ms late
    Slow,
    /// As the leader: proposes one request at a time, however many wait
    Small,
    /// As the leader: proposes different things to different replicas
    Equivocate,
    /// As the leader: alters requests, and makes some up
    Forge,
    /// As the leader: never proposes what half of the sessions ask for
    Censor,
    /// Votes for what nobody proposed
    Votes,
    /// Shows certificates of views that nobody asked for
    Views,
    /// Complains about every leader, all the time
    Complain,
    /// Says again what it or others said before
    Replay,
    /// Changes bytes of its messages at random
    Corrupt,
    /// Answers clients wrongly; clients of etcd, which ask one replica only, believe it
    Replies,
}

/// How late a slow leader proposes, in milliseconds: so little that no deadline passes.
const SLOW_MS: u64 = 200;
/// How many numbers clients are told apart by.
const CLIENTS: usize = 32;
/// The probability of a certain event, in thousandths.
const ALWAYS: u64 = 1000;

impl How {
    /// Whether only a leader lies so: a follower that is told to does nothing until it leads.
    pub const fn needs_leader(self) -> bool {
        matches!(self, Self::Slow | Self::Small | Self::Equivocate | Self::Forge | Self::Censor)
    }

    fn trick(self) -> Option<Trick> {
        Some(match self {
            Self::None => return None,
            Self::Silent => Trick::Silent,
            Self::Slow => Trick::SlowLeader(SLOW_MS),
            Self::Small => Trick::Small,
            Self::Equivocate => Trick::Equivocate,
            Self::Forge => Trick::Forge,
            Self::Censor => Trick::Censor,
            Self::Votes => Trick::FalseVotes,
            Self::Views => Trick::FalseViews,
            Self::Complain => Trick::Complains,
            Self::Replay => Trick::Replay,
            Self::Corrupt => Trick::Mutate,
            Self::Replies => Trick::Replies,
        })
    }

    /// The name on the command line and in the file.
    pub fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }

    /// Writes this into the file that a replica reads.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn tell(self, file: &Path) -> Outcome<()> {
        word::write(file, &self.name()).map_err(|why| Failure::new(why.to_string()))
    }
}

/// The present contents of a replica's file.
#[derive(Clone)]
pub struct Told(Arc<AtomicU8>);

impl Told {
    fn watch(file: PathBuf) -> io::Result<Self> {
        let told = Self(Arc::new(AtomicU8::new(How::None as u8)));
        let shared = told.clone();
        let hear = move |word: &str| {
            let how = How::from_str(word, false).unwrap_or(How::None);
            shared.0.store(how as u8, Ordering::Release);
        };
        word::listen("lies", file, hear)?;
        Ok(told)
    }

    /// Whether the replica is to lie like this now.
    pub fn is(&self, how: How) -> bool {
        self.now() == how
    }

    fn now(&self) -> How {
        let number = self.0.load(Ordering::Acquire);
        How::value_variants().iter().copied().find(|how| *how as u8 == number).unwrap_or(How::None)
    }
}

/// Sends a replica's messages as its file says.
struct Lies {
    told: Told,
    config: Config,
    how: How,
    liar: Option<Liar>,
    /// The connections to clients, by the numbers that the liar knows them by.
    clients: BTreeMap<usize, ConnId>,
}

/// Watches the file that tells a replica how to lie.
///
/// # Errors
/// When replicas do not lie in this cluster, or the system refuses.
pub fn told(config: &Config, file: PathBuf) -> Outcome<Told> {
    if !config.fault_model.may_lie() {
        return Err(Failure::usage(
            "--lies: only replicas of a cluster that survives byzantine faults may lie",
        ));
    }
    Told::watch(file).doing("start a thread")
}

/// The sender of messages for a replica that may be told to lie.
pub fn mouth(config: &Config, told: Told) -> Box<dyn Mouth> {
    Box::new(Lies { told, config: config.clone(), how: How::None, liar: None, clients: BTreeMap::new() })
}

fn liar(config: &Config, trick: Trick, now: Time) -> Option<Liar> {
    let keys = config.signing_keys().ok()?;
    let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as u64;
    let scene = Scene {
        replicas: config.members.len(),
        clients: CLIENTS,
        cluster: config.cluster_id().ok()?,
        start_time: unix.saturating_sub(now.nanos()),
        auth: keys.build(),
    };
    let who = usize::from(config.replica).checked_sub(1)?;
    let of = plan::Liar { who, tricks: vec![trick], often: ALWAYS, since: 0 };
    Some(Liar::of(scene, &of, Rng::of(unix, 0)))
}

impl Lies {
    /// Adopts what the file said last.
    fn listen(&mut self, now: Time) {
        let how = self.told.now();
        if how != self.how {
            match how {
                How::None => tracing::warn!("this replica lies no more"),
                _ => tracing::warn!("this replica lies from now on: {}", how.name()),
            }
            self.how = how;
            self.liar = how.trick().and_then(|trick| liar(&self.config, trick, now));
        }
    }

    /// The number by which the liar knows a receiver.
    fn number(&mut self, of: Listener) -> usize {
        match of.member {
            Some(member) => usize::from(member.number()).saturating_sub(1),
            None => {
                let number = self.config.members.len() + (of.conn.number() % CLIENTS as u64) as usize;
                self.clients.insert(number, of.conn);
                number
            }
        }
    }

    fn sayings(&self, list: Vec<liars::Saying>, same: Option<(usize, ConnId)>) -> Vec<Saying> {
        let way = |to: usize| {
            let known = same.filter(|(number, _)| *number == to).map(|(_, conn)| conn);
            known.or_else(|| self.liar.as_ref()?.way(to)).or_else(|| self.clients.get(&to).copied())
        };
        let say = |saying: liars::Saying| {
            let conn = way(saying.to)?;
            Some(Saying { conn, after: Span::from_nanos(saying.after), frame: saying.said.frame() })
        };
        list.into_iter().filter_map(say).collect()
    }
}

impl Mouth for Lies {
    fn instead(&mut self, now: Time, to: Listener, frame: OutFrame) -> Vec<Saying> {
        self.listen(now);
        let number = self.number(to);
        let Some(liar) = &mut self.liar else {
            return vec![Saying { conn: to.conn, after: Span::ZERO, frame }];
        };
        let list = liar.instead((now.nanos(), false), (number, to.conn), &frame);
        self.sayings(list, Some((number, to.conn)))
    }

    fn hears(&mut self, now: Time, from: Listener, frame: &Frame) -> Vec<Saying> {
        let number = self.number(from);
        let Some(liar) = &mut self.liar else { return Vec::new() };
        let list = liar.hears(now.nanos(), number, frame);
        self.sayings(list, None)
    }
}
