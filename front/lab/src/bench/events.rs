//! What happens to the replicas of a benchmark's own cluster while it is measured.
//!
//! Events are due at a moment, and happen when the cluster is next looked at ([`Target::check`]), which the load generators do every tenth
//! of a second.

use super::target::Target;
use quorate_command::failure::Outcome;
use quorate_types::ReplicaId;
use std::time::{Duration, Instant};

/// Something that happens to one replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// The replica that leads is killed, and starts again after this time.
    LeaderFalls(Duration),
    /// A follower is killed, and stays away.
    FollowerFalls,
    /// A follower sleeps for this time: its connections stay, and it does nothing.
    FollowerSleeps(Duration),
    /// The replica that sleeps goes on.
    Wakes,
    /// The replica that was stopped starts again.
    Returns,
}

/// What is due, and what has happened.
#[derive(Default)]
pub(super) struct Events {
    due: Vec<(Instant, Event)>,
    happened: Vec<(Instant, Event, ReplicaId)>,
}

impl Events {
    /// Lets this happen at that moment.
    pub(super) fn plan(&mut self, at: Instant, event: Event) {
        self.due.push((at, event));
    }

    /// When such events happened, and to which replicas, in order.
    pub(super) fn all(&self, which: impl Fn(Event) -> bool) -> impl Iterator<Item = (Instant, ReplicaId)> {
        let those = self.happened.iter().filter(move |(_, event, _)| which(*event));
        those.map(|(at, _, replica)| (*at, *replica))
    }

    /// When such an event happened last, and to which replica.
    pub(super) fn happened(&self, which: impl Fn(Event) -> bool) -> Option<(Instant, ReplicaId)> {
        let found = self.happened.iter().rev().find(|(_, event, _)| which(*event));
        found.map(|(at, _, replica)| (*at, *replica))
    }

    /// When the replica that was stopped started again.
    pub(super) fn returned(&self) -> Option<Instant> {
        self.happened(|event| event == Event::Returns).map(|(at, _)| at)
    }
}

impl Target {
    /// Lets happen what is due. What needs a leader while none is known is due again.
    pub(super) fn let_happen(&mut self, now: Instant) -> Outcome<()> {
        let due = self.events.due.extract_if(.., |(at, _)| *at <= now).collect::<Vec<_>>();
        for (at, event) in due {
            match self.happens(event, now)? {
                Some(replica) => self.events.happened.push((now, event, replica)),
                None => self.events.plan(at, event),
            }
        }
        Ok(())
    }

    /// Gives the replica that it happened to.
    fn happens(&mut self, event: Event, now: Instant) -> Outcome<Option<ReplicaId>> {
        let leader = self.client.client().leader();
        let Some(own) = &mut self.own else { return Ok(None) };
        let led = self.replicas.iter().position(|replica| Some(*replica) == leader);
        let follows =
            (0..self.replicas.len()).rfind(|at| led.is_some_and(|led| led != *at) && own.is_here(*at));
        let at = match event {
            Event::LeaderFalls(_) => led,
            Event::FollowerFalls | Event::FollowerSleeps(_) => follows,
            Event::Wakes => own.wake(),
            Event::Returns => own.bring_back()?,
        };
        let Some(at) = at else { return Ok(None) };
        match event {
            Event::LeaderFalls(away) => {
                own.kill(at);
                self.events.plan(now + away, Event::Returns);
            }
            Event::FollowerFalls => own.kill(at),
            Event::FollowerSleeps(time) => {
                own.put_to_sleep(at);
                self.events.plan(now + time, Event::Wakes);
            }
            Event::Wakes | Event::Returns => {}
        }
        if matches!(event, Event::LeaderFalls(_) | Event::FollowerFalls) {
            // What it used, and what it held, is not to be found any more.
            self.pids.clear();
        }
        Ok(Some(self.replicas[at]))
    }
}
