//! The sending half: what each receiver is sent, and when again.

use bytes::Bytes;
use quorate_types::{ReplicaId, Span, Time};
use std::collections::{BTreeMap, BTreeSet};

/// Settings of a sender.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SendConfig {
    /// How many positions from the one on at which a receiver is it may be sent. At least 1; the same as the receivers' window.
    pub window: u64,
    /// What is sent together has at most this many bytes, or is one message.
    pub bytes_at_once: usize,
    /// After this time what a receiver is not done with is sent to it again.
    pub again: Span,
    /// A message waits for so long before it is first sent: other senders may send it before. Zero where all send.
    pub behind: Span,
}

/// Messages for one receiver, in the order of their positions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Copies {
    /// The receiver.
    pub to: ReplicaId,
    /// Positions and messages.
    pub list: Vec<(u64, Bytes)>,
}

/// One receiver, as the sender knows it.
#[derive(Clone, Debug)]
struct Lane {
    /// The first position that it is not done with; it says so when it is connected.
    next: u64,
    /// What was not sent to it since then.
    unsent: BTreeSet<u64>,
    /// When to send again what it is not done with.
    again: Option<Time>,
}

/// One member of the cluster that sends; see the crate.
#[derive(Clone, Debug)]
pub struct Sender {
    config: SendConfig,
    /// What was put and not taken out, with the time from which on it is sent.
    messages: BTreeMap<u64, (Time, Bytes)>,
    /// The receivers that are connected and said how far they are.
    lanes: BTreeMap<ReplicaId, Lane>,
    bytes: usize,
}

impl Sender {
    /// With nothing to send.
    pub const fn new(config: SendConfig) -> Self {
        Self { config, messages: BTreeMap::new(), lanes: BTreeMap::new(), bytes: 0 }
    }

    /// The owner has a message for this position. A position has one message for ever: what is there stays.
    pub fn put(&mut self, now: Time, position: u64, message: Bytes) {
        if self.messages.contains_key(&position) {
            return;
        }
        self.bytes += message.len();
        self.messages.insert(position, (now.plus(self.config.behind), message));
        for lane in self.lanes.values_mut().filter(|lane| position >= lane.next) {
            lane.unsent.insert(position);
        }
    }

    /// Takes out every message for whose position this is false: nobody needs it any more.
    pub fn keep(&mut self, mut is_needed: impl FnMut(u64) -> bool) {
        let bytes = &mut self.bytes;
        let lanes = &mut self.lanes;
        self.messages.retain(|position, (_, message)| {
            let stays = is_needed(*position);
            if !stays {
                *bytes -= message.len();
                for lane in lanes.values_mut() {
                    lane.unsent.remove(position);
                }
            }
            stays
        });
    }

    /// Whether there is a message for this position.
    pub fn has(&self, position: u64) -> bool {
        self.messages.contains_key(&position)
    }

    /// How many messages there are.
    pub fn len(&self) -> usize {
        self.messages.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// Bytes of all messages.
    pub const fn byte_len(&self) -> usize {
        self.bytes
    }

    /// A receiver is done with everything before this position. The first time since it was connected it gets everything from there on. A
    /// receiver that lies only changes what it is sent itself, and nothing is sent to it more often.
    pub fn seen(&mut self, receiver: ReplicaId, next: u64) {
        match self.lanes.get_mut(&receiver) {
            Some(lane) => {
                lane.next = next;
                lane.unsent = lane.unsent.split_off(&next);
            }
            None => {
                let unsent = self.messages.range(next..).map(|(position, _)| *position).collect();
                self.lanes.insert(receiver, Lane { next, unsent, again: None });
            }
        }
    }

    /// A receiver is not connected any more: what it was sent may be lost.
    pub fn lost(&mut self, receiver: ReplicaId) {
        self.lanes.remove(&receiver);
    }

    /// What is to be sent now.
    pub fn step(&mut self, now: Time) -> Vec<Copies> {
        let Self { config, messages, lanes, .. } = self;
        let mut out = Vec::new();
        for (to, lane) in lanes {
            let end = lane.next.saturating_add(config.window);
            if lane.again.is_some_and(|again| again <= now) {
                lane.again = None;
                lane.unsent = messages.range(lane.next..end).map(|(position, _)| *position).collect();
                lane.unsent.extend(messages.range(end..).map(|(position, _)| *position));
            }
            let due: Vec<u64> = lane
                .unsent
                .range(..end)
                .copied()
                .filter(|position| messages.get(position).is_some_and(|(from, _)| *from <= now))
                .collect();
            if due.is_empty() {
                continue;
            }
            let (mut list, mut bytes) = (Vec::new(), 0);
            for position in due {
                lane.unsent.remove(&position);
                let Some((_, message)) = messages.get(&position) else { continue };
                if bytes > 0 && bytes + message.len() > config.bytes_at_once {
                    out.push(Copies { to: *to, list: std::mem::take(&mut list) });
                    bytes = 0;
                }
                bytes += message.len();
                list.push((position, message.clone()));
            }
            out.push(Copies { to: *to, list });
            lane.again.get_or_insert(now.plus(config.again));
        }
        out
    }

    /// When to call [`Self::step`], if nothing else happens.
    pub fn deadline(&self) -> Option<Time> {
        let of_lane = |lane: &Lane| {
            let end = lane.next.saturating_add(self.config.window);
            let waits = lane.unsent.range(..end).filter_map(|position| self.messages.get(position));
            let first = waits.map(|(from, _)| *from).min();
            // What was sent and is not done with is sent again.
            let open = self.messages.range(lane.next..end).next().is_some();
            first.into_iter().chain(lane.again.filter(|_| open)).min()
        };
        self.lanes.values().filter_map(of_lane).min()
    }
}
