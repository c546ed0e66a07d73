//! This part among the others of a replica.

use super::{Look, NeighbourStatus, Out};
use crate::effects::{Effect, Effects};
use crate::group::FIRST;
use crate::node::Node;
use bytes::Bytes;
use quorate_admit::Intake;
use quorate_types::{ClientId, ConnId, ReplicaId, Time};
use quorate_wire::{ClientMessage, Frame};

/// Looks at the final state, and tells the neighbours what follows from it. Twice in a turn: before proposals, for what was offered, and after
/// them, for what a replica that is alone executed at once.
pub(crate) fn step(node: &mut Node, now: Time, out: &mut Effects) {
    // Most services have none, and this comes twice in each turn.
    if node.gate.neighbours.has_none(node.engine.executor()) {
        return;
    }
    // Whoever diverged, or is in an era that is over, has nothing to say.
    if node.keeping.has_diverged() || node.eras.has_ended() {
        return;
    }
    let mut outs = Vec::new();
    let look = Look { config: &node.config, executor: node.engine.executor() };
    node.gate.neighbours.step(now, &look, &mut outs);
    carry_out(node, now, outs, out);
}

fn carry_out(node: &mut Node, now: Time, outs: Vec<Out>, out: &mut Effects) {
    for wanted in outs {
        match wanted {
            Out::Send(conn, frame) => out.send(conn, frame),
            Out::Offer(client, request) => offer(node, now, client, &request, out),
            Out::Dial { service, replica, address } => {
                out.push(Effect::DialService { service, replica, address });
            }
            Out::Widen(conn) => {
                out.push(Effect::FrameLimit { conn, bytes: node.config.frame_bytes_max });
            }
            Out::Close(conn) => out.push(Effect::Close(conn)),
        }
    }
}

/// Enough members of a neighbour said this: it comes in as a client's request does.
fn offer(node: &mut Node, now: Time, client: ClientId, request: &Bytes, out: &mut Effects) {
    match node.intake {
        Intake::Plain if node.groups[FIRST].standing().leading => node.admit(now, FIRST, None, request, out),
        Intake::Plain => {}
        Intake::Vouched(_) => {
            node.intake(now, out, |intake, facts, outs| {
                if let Intake::Vouched(vouched) = intake {
                    vouched.gathered(now, facts, client, request, outs);
                }
            });
        }
    }
}

/// A connection to a member of a backend is open.
pub(crate) fn dialed(
    node: &mut Node,
    now: Time,
    (conn, service, replica): (ConnId, u32, ReplicaId),
    out: &mut Effects,
) {
    let mut outs = Vec::new();
    let own = node.engine.executor().service_id();
    node.gate.neighbours.dialed(now, (conn, service, replica), (&node.config, own), &mut outs);
    carry_out(node, now, outs, out);
}

/// A frame of a member of a backend.
pub(crate) fn framed(node: &mut Node, now: Time, conn: ConnId, frame: Frame, out: &mut Effects) {
    let mut outs = Vec::new();
    node.gate.neighbours.framed(now, conn, frame, &mut outs);
    carry_out(node, now, outs, out);
}

/// A client says what only a member of a caller says.
pub(crate) fn said(
    node: &mut Node,
    now: Time,
    (conn, client): (ConnId, ClientId),
    message: ClientMessage,
    out: &mut Effects,
) {
    let done = node.gate.neighbours.caller(conn, client).map(|caller| match message {
        ClientMessage::Copies(list) => caller.copies(list),
        ClientMessage::Seen(next) => caller.seen(next),
        _ => {}
    });
    if let Err(why) = done {
        node.reject(now, conn, why.into(), out);
    }
}

/// The services that this one asks, and those that ask it, as this replica speaks with them.
pub fn neighbours(node: &Node) -> Vec<NeighbourStatus> {
    node.gate.neighbours.status()
}
