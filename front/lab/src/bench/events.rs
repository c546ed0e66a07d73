//! What happens to the replicas of a benchmark's own cluster while it is measured.
//!
//! Events are due at a moment, and happen when the cluster is next looked at ([`Target::check`]), which the load generators do every tenth
//! of a second.

use super::operator::{Act, Change};
use super::target::{Target, who_leads};
use quorate_command::failure::Outcome;
use quorate_types::ReplicaId;
use std::sync::mpsc::{Receiver, TryRecvError, channel};
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
    /// A new replica joins: it is added, started, and promoted once it has caught up.
    Joins,
    /// The replica that joined votes.
    Votes,
    /// A replica is removed: a follower that neither lies nor was killed.
    Leaves,
    /// The replica that was removed is no member any more.
    Left,
}

/// What is due, and what has happened.
#[derive(Default)]
pub(super) struct Events {
    due: Vec<(Instant, Event)>,
    happened: Vec<(Instant, Event, ReplicaId)>,
    /// The change of the members that is under way, and what happened once it is over.
    change: Option<(Change, Event)>,
    /// A thread that asks the replicas who leads.
    asked: Option<Receiver<Option<ReplicaId>>>,
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
    /// Lets happen what is due. What needs a leader while none is known is due again; so is what begins while the members change.
    pub(super) fn let_happen(&mut self, now: Instant) -> Outcome<()> {
        self.go_on_changing(now)?;
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
        if matches!(event, Event::Joins | Event::Leaves) {
            return self.begins(event, now);
        }
        let begins = matches!(event, Event::LeaderFalls(_) | Event::FollowerFalls | Event::FollowerSleeps(_));
        if begins && self.events.change.is_some() {
            return Ok(None);
        }
        let leader = if begins { self.leader_now() } else { None };
        let Some(own) = &mut self.own else { return Ok(None) };
        let led = self.replicas.iter().position(|replica| Some(*replica) == leader);
        let follows =
            (0..self.replicas.len()).rfind(|at| led.is_some_and(|led| led != *at) && own.is_here(*at));
        let at = match event {
            Event::LeaderFalls(_) => led,
            Event::FollowerFalls | Event::FollowerSleeps(_) => follows,
            Event::Wakes => own.wake(),
            Event::Returns => own.bring_back()?,
            Event::Joins | Event::Votes | Event::Leaves | Event::Left => None,
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
            Event::Wakes | Event::Returns | Event::Joins | Event::Votes | Event::Leaves | Event::Left => {}
        }
        if matches!(event, Event::LeaderFalls(_) | Event::FollowerFalls) {
            // What it used, and what it held, is not to be found any more.
            self.pids.clear();
        }
        Ok(Some(self.replicas[at]))
    }

    /// Who leads. Where replicas may lie a client believes none of them alone, and may know late who leads: there the replicas are asked, by a
    /// thread, since calls are due meanwhile. `None`: nobody does, or it is not known yet.
    fn leader_now(&mut self) -> Option<ReplicaId> {
        if !self.order.fault_model.may_lie() {
            return self.client.client().leader();
        }
        let Some(answer) = &self.events.asked else {
            let (sender, answer) = channel();
            let (client, here) = (self.client.clone(), self.here().collect::<Vec<_>>());
            std::thread::spawn(move || {
                // Who does not wait any more has ended.
                let _ = sender.send(who_leads(&client, &here));
            });
            self.events.asked = Some(answer);
            return None;
        };
        match answer.try_recv() {
            Err(TryRecvError::Empty) => None,
            answered => {
                self.events.asked = None;
                answered.ok().flatten()
            }
        }
    }

    /// Begins to change the members, if none of them is away and no other change is under way. Gives the replica that joins or leaves.
    fn begins(&mut self, event: Event, now: Instant) -> Outcome<Option<ReplicaId>> {
        if self.events.change.is_some() || self.own.as_ref().is_none_or(|own| !own.all_here()) {
            return Ok(None);
        }
        let leader = if event == Event::Leaves { self.leader_now() } else { None };
        let Some(own) = &self.own else { return Ok(None) };
        let (change, then) = if event == Event::Joins {
            let last = self.replicas.iter().map(|replica| replica.number()).max().unwrap_or_default();
            (Change::joins(ReplicaId::new(last + 1), now)?, Event::Votes)
        } else {
            let Some(leader) = leader else { return Ok(None) };
            let killed: Vec<ReplicaId> = self
                .events
                .all(|event| matches!(event, Event::LeaderFalls(_)))
                .map(|(_, replica)| replica)
                .collect();
            let joined: Vec<ReplicaId> =
                self.events.all(|event| event == Event::Votes).map(|(_, replica)| replica).collect();
            let may = |at: &usize| {
                let replica = self.replicas[*at];
                own.is_here(*at)
                    && !own.lies(*at)
                    && replica != leader
                    && !killed.contains(&replica)
                    && !joined.contains(&replica)
            };
            let Some(at) = (0..self.replicas.len()).rfind(may) else { return Ok(None) };
            (Change::leaves(self.replicas[at], now), Event::Left)
        };
        let replica = change.replica;
        self.events.change = Some((change, then));
        Ok(Some(replica))
    }

    /// Goes on with the change that is under way.
    fn go_on_changing(&mut self, now: Instant) -> Outcome<()> {
        let (Some((change, then)), Some(own)) = (&mut self.events.change, &mut self.own) else {
            return Ok(());
        };
        let (replica, then) = (change.replica, *then);
        let directory = own.cluster.directory.clone();
        match change.step(&directory, now)? {
            Some(Act::Start(replica, address)) => {
                own.join(replica, address)?;
                self.replicas.push(replica);
            }
            Some(Act::Stop(replica)) => {
                let at = self.replicas.iter().position(|known| *known == replica);
                at.into_iter().for_each(|at| own.leave(at));
            }
            None => {}
        }
        if change.is_over() {
            self.events.change = None;
            self.events.happened.push((now, then, replica));
        }
        // Processes came or went.
        self.pids.clear();
        Ok(())
    }
}
