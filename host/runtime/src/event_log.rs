//! The lines of the log for what a node says of itself. A connection that comes and goes again and again gets a few lines, and then their
//! number. Tests: `event_log/tests.rs`.

use crate::throttle::Throttle;
use quorate_node::Event;
use quorate_types::{ReplicaId, Span, Time};
use std::collections::BTreeMap;

/// So many times within [`WINDOW`] a replica is said to be connected, or not to be.
const TURNS: u32 = 6;
const WINDOW: Span = Span::from_secs(60);

/// How often a replica came and went lately.
#[derive(Debug)]
struct Turns {
    since: Time,
    shown: u32,
    /// The turns that have no line, and whether the replica is connected after the last of them.
    hidden: u32,
    is_up: bool,
}

/// What was written lately.
#[derive(Debug, Default)]
pub(crate) struct EventLog {
    turns: BTreeMap<ReplicaId, Turns>,
}

impl EventLog {
    /// Writes an event. `refusals` counts lines on connections of strangers.
    pub(crate) fn write(&mut self, event: &Event, refusals: &mut Throttle, now: Time) {
        match event {
            Event::Refused { .. } | Event::Rejected { .. } if !refusals.allows(now) => {}
            Event::PeerUp(replica) => self.turned((*replica, true), now),
            Event::PeerDown(replica) => self.turned((*replica, false), now),
            event => write(event),
        }
    }

    /// When [`Self::sum_up`] has something to say.
    pub(crate) fn due(&self) -> Option<Time> {
        let hidden = self.turns.values().filter(|turns| turns.hidden > 0);
        hidden.map(|turns| turns.since.plus(WINDOW)).min()
    }

    /// Says how many lines were left out, once their time is over.
    pub(crate) fn sum_up(&mut self, now: Time) {
        if self.turns.is_empty() {
            return;
        }
        self.turns.retain(|replica, turns| {
            let is_over = now.since(turns.since) >= WINDOW;
            if is_over && turns.hidden > 0 {
                let state = if turns.is_up { "it is connected" } else { "it is not connected" };
                tracing::warn!(
                    "{replica} came and went {} more times; {state} now",
                    turns.hidden.div_ceil(2)
                );
            }
            !is_over
        });
    }

    fn turned(&mut self, (replica, is_up): (ReplicaId, bool), now: Time) {
        self.sum_up(now);
        let new = || Turns { since: now, shown: 0, hidden: 0, is_up };
        let turns = self.turns.entry(replica).or_insert_with(new);
        turns.is_up = is_up;
        if turns.shown == TURNS {
            if turns.hidden == 0 {
                tracing::warn!(
                    "{replica} comes and goes again and again; its turns are only counted from here on"
                );
            }
            turns.hidden += 1;
            return;
        }
        turns.shown += 1;
        if is_up {
            tracing::info!("{replica} is connected");
        } else {
            tracing::info!("{replica} is not connected any more");
        }
    }
}

fn write(event: &Event) {
    match event {
        Event::Unsafe { replica, text } => tracing::error!("no safe connection to {replica}: {text}"),
        Event::Leader { view, leader, instance } => {
            let of = instance.map_or_else(String::new, |instance| format!(" of instance {instance}"));
            match leader {
                Some(leader) => tracing::info!("{leader} leads view {view}{of}"),
                None => tracing::info!("nobody leads view {view}{of}"),
            }
        }
        Event::RefusedBy { replica, text } => tracing::error!("{replica} refuses this replica: {text}"),
        Event::Overdue { session, number } => {
            tracing::warn!("request {number} of {session} waits for too long; all replicas were told of it")
        }
        Event::Refused { text } => tracing::warn!("refused a connection: {text}"),
        Event::Rejected { conn, text } => tracing::warn!("closed {conn}: {text}"),
        // Told by their turns.
        Event::PeerUp(_) | Event::PeerDown(_) => {}
        Event::DiskFull => {
            tracing::error!("the disk is full: writes are refused; free space, they resume by themselves");
        }
        Event::Members { text } | Event::Instances { text } | Event::Era { text } => tracing::info!("{text}"),
        Event::ServiceLevel { level, end: None } => {
            tracing::info!("the service is being raised to version {level}")
        }
        Event::ServiceLevel { level, end: Some(Ok(())) } => {
            tracing::info!("the service is at version {level}: older programs are refused from now on")
        }
        Event::ServiceLevel { level, end: Some(Err(why)) } => {
            tracing::error!(
                "the service was not raised to version {level}, and its state is as before: {why}"
            )
        }
        Event::Level { level, begun: true } => tracing::info!("the feature level is being raised to {level}"),
        Event::Level { level, begun: false } => tracing::info!("the cluster works at feature level {level}"),
        Event::State { text, bad: true } => tracing::error!("{text}"),
        Event::State { text, bad: false } => tracing::info!("{text}"),
        Event::DiskStalls => {
            tracing::error!("the disk finishes nothing; if this replica leads, it hands over")
        }
        Event::DiskWorks => tracing::info!("the disk finishes its work again"),
        Event::DiskHasRoom => tracing::info!("the disk has room again"),
    }
}

#[cfg(test)]
mod tests;
