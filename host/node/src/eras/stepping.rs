//! Eras among the other parts of a node: when the part is stepped, and where its effects go.

use super::{Facts, In, NextEra, Out, lives_of};
use crate::effects::{Effect, Effects, Event};
use crate::group::FIRST;
use crate::keeping;
use crate::node::Node;
use quorate_types::{ConnId, ReplicaId, Time, planted};
use quorate_wire::{Era, EraNotice, StateMessage};
use std::collections::BTreeSet;

/// What a member of another era sends.
#[derive(Debug)]
pub(crate) enum Across {
    /// Which era it is in.
    Notice(Box<EraNotice>),
    /// Something about a checkpoint.
    State(StateMessage),
}

/// The command that ends the era was delivered, at this seq: nothing behind it is. [E5]
pub(crate) fn end_era(node: &mut Node, now: Time, era: Box<Era>, out: &mut Effects) {
    let seq = node.engine.agreed().seq();
    if !planted("era-ends-anywhere") {
        node.engine.stop();
    }
    step_eras(node, now, In::Ended(era, seq), out);
}

/// Steps the part and carries out its effects.
pub(crate) fn step_eras(node: &mut Node, now: Time, input: In, out: &mut Effects) {
    let (facts, mut outs) = (era_facts(node), Vec::new());
    node.eras.step(now, &facts, input, &mut outs);
    for wanted in outs {
        match wanted {
            Out::Send(to, message) => node.gate.tell(to, &message, out),
            Out::Reported(from, seq, digest) => {
                let message = StateMessage::Digest { seq, digest, held: false };
                node.keep(now, keeping::In::Heard { from, message }, out);
            }
            Out::Enter(notice, image) => {
                let lives = lives_of(node.gate.lives(), &notice);
                out.push(Effect::EnterEra(Box::new(NextEra { notice, image: *image, lives })));
            }
            Out::Say(text) => out.event(Event::Era { text }),
        }
    }
}

fn era_facts(node: &Node) -> Facts {
    let seq = node.eras.next().map(|(_, seq)| seq);
    let memberships = node.groups[FIRST].status().membership;
    let voters: BTreeSet<ReplicaId> = memberships.now().voters().collect();
    let count = u32::try_from(voters.len()).unwrap_or(u32::MAX).max(1);
    // A replica that joins knows others as the members of its configuration, which an operator wrote.
    let known = node.config.members.all().iter().map(|member| member.replica);
    let members = if voters.is_empty() { known.collect() } else { voters };
    Facts {
        trust: node.config.order.faults.among(count),
        members,
        agreed: seq.and_then(|seq| node.keeping.stable(seq)),
        own: seq.and_then(|seq| node.keeping.own_digest(seq)),
        objects: node.engine.executor().objects(),
        limits: node.config.fetch.clone(),
    }
}

/// A member of another era sends something.
pub(crate) fn on_across(node: &mut Node, now: Time, from: ReplicaId, says: Across, out: &mut Effects) {
    match says {
        Across::Notice(notice) => step_eras(node, now, In::Notice(from, notice), out),
        Across::State(message @ (StateMessage::FetchManifest { .. } | StateMessage::FetchChunks { .. })) => {
            node.keep_called_in(now, keeping::In::Heard { from, message }, out)
        }
        Across::State(message) => step_eras(node, now, In::Part(from, message), out),
    }
}

/// A member of another era is connected: it is told of this one, if that is later. [E10]
pub(crate) fn met_across(node: &mut Node, now: Time, member: ReplicaId, out: &mut Effects) {
    step_eras(node, now, In::Up(member), out);
    let Some(notice) = &node.config.era.notice else { return };
    node.gate.tell_frame(member, &notice.frame(), out);
    for (seq, digest, held) in node.keeping.reported() {
        node.gate.tell(member, &StateMessage::Digest { seq, digest, held }, out);
    }
}

/// A client that has just connected is told of the era. [E13]
pub(crate) fn tell_era(node: &Node, conn: ConnId, out: &mut Effects) {
    if let Some(notice) = &node.config.era.notice {
        out.send(conn, notice.frame());
    }
}

/// At the end of a turn: the end may be agreed on now.
pub(crate) fn look_at_eras(node: &mut Node, now: Time, out: &mut Effects) {
    let due = node.eras.deadline().is_some_and(|at| at <= now);
    if node.eras.has_ended() || due {
        step_eras(node, now, In::Look, out);
    }
}
