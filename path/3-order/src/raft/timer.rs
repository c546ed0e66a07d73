//! When a replica wants an election, and until when it promises not to vote. docs/protocols/raft.md L10-L17, L128-L130, L152, L153.
//!
//! A leader that has died without closing its connections is silent, and so is one whose machine is busy. How late the words of leaders came
//! lately tells the two apart: where they came in time, a short silence is enough.
//!
//! Tests: tests/timer.rs; tests/election.rs, tests/leases.rs.

use super::RaftConfig;
use quorate_types::{Random, Span, Time};

/// After failed elections in a row the next time-out is longer, at most this many times.
const BACK_OFF_MAX: u32 = 2;
/// Lateness counts for one to two windows of this many times the shortest time-out.
const WINDOW: u64 = 16;
/// By how many times the greatest lateness a silence must exceed two heartbeats.
const LATENESS: u64 = 3;
/// There will be no election.
const NEVER: Time = Time::from_nanos(u64::MAX);

/// The timer of one replica, with everything that it draws at random.
#[derive(Debug)]
pub(super) struct Timer {
    random: Random,
    /// A time-out is at least this and at most the next.
    min: Span,
    max: Span,
    /// After a hint that the leader died, the time-out is a random time up to this.
    hint: Span,
    /// Whether it promises not to vote, since leaders may have leases.
    promises: bool,
    /// How long the leader may be silent.
    silence: Silence,
    /// When it wants an election.
    due: Time,
    /// When the leader was last heard; none when nothing shows that it lives.
    heard: Option<Time>,
    /// Until when it promised to vote for no one.
    promised: Option<Time>,
    /// How many elections in a row failed.
    failures: u32,
}

/// How late the words of leaders came, and so how long a silence means that the leader is gone.
#[derive(Debug)]
struct Silence {
    adapts: bool,
    heartbeat: Span,
    /// It is never longer.
    min: Span,
    /// When a leader was heard last, of whatever view.
    word: Option<Time>,
    /// The greatest lateness in this window, and in the one before.
    late: [Span; 2],
    /// When this window ends.
    until: Time,
}

impl Silence {
    fn new(config: &RaftConfig) -> Self {
        let min = config.election_min;
        Self {
            adapts: config.adapts,
            heartbeat: config.heartbeat,
            min,
            word: None,
            late: [min; 2],
            until: Time::ZERO,
        }
    }

    /// A leader was heard. [raft L153]
    fn heard(&mut self, now: Time) {
        if let Some(before) = self.word.replace(now) {
            if now >= self.until {
                self.late = [Span::ZERO, self.late[0]];
                self.until = now.plus(self.min.times(WINDOW));
            }
            let late = now.since(before).nanos().saturating_sub(self.heartbeat.nanos());
            self.late[0] = self.late[0].max(Span::from_nanos(late));
        }
    }

    /// How long a leader may be silent. [raft L152]
    fn most(&self) -> Span {
        if !self.adapts {
            return self.min;
        }
        let late = self.late[0].max(self.late[1]).times(LATENESS);
        self.min.min(self.heartbeat.times(2).plus(late))
    }
}

impl Timer {
    pub(super) fn new(config: &RaftConfig) -> Self {
        Self {
            random: Random::new(config.seed),
            silence: Silence::new(config),
            min: config.election_min,
            max: config.election_max,
            hint: config.hint_delay_max,
            promises: config.lease_drift_percent.is_some(),
            due: Time::ZERO,
            heard: None,
            promised: None,
            failures: 0,
        }
    }

    /// When it wants an election, if ever.
    pub(super) fn due(&self) -> Option<Time> {
        Some(self.due).filter(|due| *due != NEVER)
    }
    /// Whether it wants an election now.
    pub(super) fn is_over(&self, now: Time) -> bool {
        now >= self.due
    }
    /// A random number below `many`.
    pub(super) fn draw(&mut self, many: u64) -> u64 {
        self.random.below(many)
    }

    /// A new random time-out, longer after failed elections, shorter while leaders are heard in time. [raft L11, L152]
    fn random_due(&mut self, now: Time) -> Time {
        let silence = self.silence.most();
        if self.failures == 0 && silence < self.min {
            let spread = silence.nanos() / 2;
            return now.plus(silence).plus(Span::from_nanos(self.random.below(spread)));
        }
        let longest = self.max.times(1 + u64::from(self.failures.min(BACK_OFF_MAX)));
        let spread = longest.nanos().saturating_sub(self.min.nanos());
        now.plus(self.min).plus(Span::from_nanos(self.random.below(spread)))
    }
    fn hint_delay(&mut self) -> Span {
        Span::from_nanos(self.random.below(self.hint.nanos()))
    }

    /// Begins to wait anew.
    pub(super) fn reset(&mut self, now: Time) {
        self.due = self.random_due(now);
    }
    /// A peer came back, so earlier failures are forgotten. [raft L11]
    pub(super) fn try_again(&mut self, now: Time) {
        self.failures = 0;
        let due = self.random_due(now);
        self.due = self.due.min(due);
    }
    /// The leader is probably dead. [raft L15]
    pub(super) fn lose_leader(&mut self, now: Time) {
        self.heard = None;
        let delay = self.hint_delay();
        self.due = self.due.min(self.free_at(now).plus(delay));
    }
    /// It promised not to stand for election yet. [raft L129]
    pub(super) fn wait_for_promise(&mut self, now: Time) {
        let delay = self.hint_delay();
        self.due = self.free_at(now).plus(delay);
    }
    /// Lets the replica that asked first go first, so that the votes do not split. [raft L17]
    pub(super) fn hold_back(&mut self, now: Time) {
        let wait = self.hint.nanos().saturating_add(self.random.below(self.hint.nanos()));
        self.due = self.due.max(now.plus(Span::from_nanos(wait)));
    }
    /// No election can follow.
    pub(super) fn stop(&mut self) {
        self.due = NEVER;
    }

    /// The leader of the view was heard: this replica votes for no other for a while, and begins to wait anew. [raft L128]
    pub(super) fn hear_leader(&mut self, now: Time) {
        self.silence.heard(now);
        self.heard = Some(now);
        self.promise(now);
        self.failures = 0;
        self.reset(now);
    }
    /// No leader is known.
    pub(super) fn forget_leader(&mut self) {
        self.heard = None;
    }
    /// Whether the leader is known to live. [raft L14]
    pub(super) fn hears_leader(&self, now: Time) -> bool {
        self.heard.is_some_and(|heard| now.since(heard) < self.silence.most())
    }
    /// An election failed.
    pub(super) fn fail(&mut self) {
        self.failures = self.failures.saturating_add(1);
    }
    /// This replica leads.
    pub(super) fn win(&mut self) {
        (self.failures, self.heard) = (0, None);
    }

    /// Promises to vote for no one for a while, where there are leases. [raft L128]
    pub(super) fn promise(&mut self, now: Time) {
        if self.promises {
            self.promised = Some(now.plus(self.min));
        }
    }
    /// Until when it promised not to vote, if that time has not passed. [raft L129]
    pub(super) fn bound(&self, now: Time) -> Option<Time> {
        self.promised.filter(|until| now < *until)
    }
    /// When it may stand for election at the earliest: some time after its promise ends, since the promises of others may end a little
    /// later. [raft L129]
    fn free_at(&self, now: Time) -> Time {
        self.bound(now).map_or(now, |until| until.plus(self.hint))
    }
}
