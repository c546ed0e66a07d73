//! What came in over the connections of a lane. The frames are offered to the pillars there; everything that no pillar takes goes to the main
//! lane, in order.
//!
//! A pillar takes frames of a connection once the main lane has told it whose connection that is. Earlier frames may still be on their way
//! over the main lane, and reach the pillar as its mail. So the lane counts what it passes on, and the main lane says how much of that it
//! has heard, after it has sent the mail that follows from it.
//!
//! Messages of several instances on one link need no order among them.
//!
//! INV-NODE-12: a pillar takes no frame of a connection while the main lane may have an earlier one. Tests: inbox/tests.rs, check/sim.

use super::Groups;
use crate::effects::{Effect, Effects, Input};
use crate::lanes::Part;
use quorate_types::{ConnId, InstanceId, Time, planted};
use quorate_wire::{Frame, FrameKind, read_order};
use std::collections::{BTreeMap, BTreeSet};

/// What came in on a lane; see the module.
#[derive(Debug, Default)]
pub struct Inbox {
    came: Vec<Input>,
    /// The bytes of the frames in it.
    bytes: usize,
    /// How much was passed on to the main lane.
    passed: u64,
    /// For each connection of which the main lane may not have heard everything: the number of the last frame that was passed on.
    unheard: BTreeMap<ConnId, u64>,
}

/// What a pillar does with a frame that it is offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Offered {
    Taken,
    /// It is for the main lane, and so are later frames of the same connection.
    Refused,
    /// It is for the pillar of another instance.
    Other,
}

impl Inbox {
    /// Adds an input.
    pub fn put(&mut self, input: Input) {
        self.bytes += bytes_of(&input);
        self.came.push(input);
    }

    /// How many frames of each connection came in: for checks.
    pub fn frames(&self) -> BTreeMap<ConnId, usize> {
        let mut frames = BTreeMap::new();
        for input in &self.came {
            if let Input::Frame { conn, .. } = input {
                *frames.entry(*conn).or_default() += 1;
            }
        }
        frames
    }

    /// Whether nothing came in.
    pub fn is_empty(&self) -> bool {
        self.came.is_empty()
    }

    /// The bytes of the frames that came in.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The main lane has heard this many of the inputs that were passed on to it, and what follows from them for a pillar is in its mail.
    pub fn heard(&mut self, count: u64) {
        if !self.unheard.is_empty() {
            self.unheard.retain(|_, last| *last > count);
        }
    }

    /// Everything that no pillar took, in order: the main lane must get it.
    pub fn pass_on(&mut self) -> impl Iterator<Item = Input> {
        self.bytes = 0;
        for input in &self.came {
            self.passed += 1;
            if let Input::Frame { conn, .. } = input {
                self.unheard.insert(*conn, self.passed);
            }
        }
        self.came.drain(..)
    }

    /// Offers the frames to a pillar.
    pub(super) fn offer(&mut self, mut take: impl FnMut(ConnId, &Frame) -> Offered) {
        let mut refused = BTreeSet::new();
        let (unheard, bytes) = (&self.unheard, &mut self.bytes);
        self.came.retain(|input| {
            let Input::Frame { conn, frame } = input else { return true };
            let waits = unheard.contains_key(conn) && !planted("frames-overtake");
            if waits || refused.contains(conn) {
                return true;
            }
            match take(*conn, frame) {
                Offered::Taken => {
                    assert!(
                        !unheard.contains_key(conn),
                        "INV-NODE-12 a frame of {conn} overtakes an earlier one"
                    );
                    *bytes -= bytes_of(input);
                    return false;
                }
                Offered::Refused => {
                    refused.insert(*conn);
                }
                Offered::Other => {}
            }
            true
        });
    }

    /// Whether frames of a connection are in it, or on their way to the main lane.
    fn has(&self, conn: ConnId) -> bool {
        let of_it = |input: &Input| matches!(input, Input::Frame { conn: of, .. } if *of == conn);
        self.unheard.contains_key(&conn) || self.came.iter().any(of_it)
    }
}

fn bytes_of(input: &Input) -> usize {
    match input {
        Input::Frame { frame, .. } => frame.payload.len(),
        _ => 0,
    }
}

/// The inboxes of a node that keeps the pillars of lanes itself: one for each pillar, as if each had its own lane and all its connections
/// there.
#[derive(Debug, Default)]
pub(super) struct Inboxes {
    of: BTreeMap<InstanceId, Inbox>,
    /// Frames that pillars did not take, on their way to the main lane.
    passed: Vec<(InstanceId, Input)>,
    /// How many of them the main lane has heard since it sent mail.
    hearing: BTreeMap<InstanceId, u64>,
    /// How many it had heard before.
    heard: BTreeMap<InstanceId, u64>,
}

/// Lanes that the node keeps.
impl Groups {
    /// The node keeps the pillars of lanes, and so their connections, too.
    pub(crate) fn keep_inboxes(&mut self) {
        self.inboxes = Some(Inboxes::default());
    }

    /// A frame comes in. If its connection is known on the lane of a pillar, it waits there for a turn. Whether it does.
    pub(crate) fn comes_in(&mut self, conn: ConnId, frame: &Frame, out: &mut Effects) -> bool {
        let Some(inboxes) = &mut self.inboxes else { return false };
        let instance = match frame.kind {
            FrameKind::Order => read_order(frame.payload.clone()).ok().map(|(instance, ..)| instance),
            _ => inboxes.of.iter().find(|(_, inbox)| inbox.has(conn)).map(|(id, _)| *id),
        };
        let knows = |group: &&super::Group| group.knows_on_lane(conn, frame);
        let known = || self.in_force.iter().find(knows).map(super::Group::id);
        let waits = instance.filter(|id| inboxes.of.get(id).is_some_and(|inbox| inbox.has(conn)));
        let Some(id) = waits.or_else(known) else { return false };
        inboxes.of.entry(id).or_default().put(Input::Frame { conn, frame: frame.clone() });
        out.push(Effect::Run(Part::Group(id)));
        true
    }

    /// A connection ends. What waits of it is lost.
    pub(crate) fn lose(&mut self, conn: ConnId) {
        let Some(inboxes) = &mut self.inboxes else { return };
        for inbox in inboxes.of.values_mut() {
            inbox.came.retain(|input| !matches!(input, Input::Frame { conn: of, .. } if *of == conn));
            inbox.bytes = inbox.came.iter().map(bytes_of).sum();
        }
    }

    /// A lane that the node keeps has a turn: its pillar takes its mail and its frames.
    pub(crate) fn run_lane(&mut self, now: Time, id: InstanceId, out: &mut Effects) {
        let inboxes = self.inboxes.as_mut().filter(|inboxes| inboxes.of.contains_key(&id));
        let Some(inboxes) = inboxes else {
            if let Some(group) = self.of_mut(id) {
                group.take_turn(now, &mut Inbox::default(), out);
            }
            return;
        };
        let mut inbox = inboxes.of.remove(&id).unwrap_or_default();
        inbox.heard(inboxes.heard.get(&id).copied().unwrap_or_default());
        if let Some(group) = self.of_mut(id) {
            group.take_turn(now, &mut inbox, out);
        }
        if let Some(inboxes) = &mut self.inboxes {
            inboxes.passed.extend(inbox.pass_on().map(|input| (id, input)));
            inboxes.of.insert(id, inbox);
        }
    }

    /// The main lane hears the frames that lanes did not take.
    pub(crate) fn hear_frames(&mut self) -> Vec<(ConnId, Frame)> {
        let Some(inboxes) = &mut self.inboxes else { return Vec::new() };
        let mut frames = Vec::new();
        for (id, input) in inboxes.passed.drain(..) {
            *inboxes.hearing.entry(id).or_default() += 1;
            if let Input::Frame { conn, frame } = input {
                frames.push((conn, frame));
            }
        }
        frames
    }

    /// The main lane has sent all mail that follows from the frames that it heard.
    pub(super) fn answered_frames(&mut self) {
        let Some(inboxes) = &mut self.inboxes else { return };
        for (id, count) in std::mem::take(&mut inboxes.hearing) {
            *inboxes.heard.entry(id).or_default() += count;
        }
    }
}

#[cfg(test)]
mod tests;
