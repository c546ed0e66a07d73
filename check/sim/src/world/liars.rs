//! Carries out what liars say in place of what their nodes want to send, and looks at whom honest replicas suspect.

use super::World;
use crate::checks::{Failure, suspects};
use crate::liars::{Saying, clients};
use crate::queue::Event;
use crate::trace::Level;
use quorate_types::{ConnId, SessionId};
use quorate_wire::{Frame, OutFrame};

impl World {
    /// Which process is at the other end of a connection.
    pub(super) fn other_end(&mut self, who: usize, id: ConnId) -> Option<usize> {
        let conn = *self.processes[who].conns.get(&id)?;
        let side = self.net.side(conn, who, id)?;
        Some(self.net.conn(conn)?.ends[1 - side].who)
    }

    /// A replica's node wants a frame sent.
    pub(super) fn say(&mut self, who: usize, conn: ConnId, frame: &OutFrame) {
        if !self.plan.is_liar(who) {
            return self.say_this(who, conn, frame);
        }
        let Some(to) = self.other_end(who, conn) else { return };
        if self.plan.is_liar(to) {
            // Liars do not deceive each other: what one adds to what it hears the next one would add to, without end.
            return self.say_this(who, conn, frame);
        }
        let healed = self.now >= self.plan.heal_at;
        let Some(liar) = self.liars.get_mut(&who) else { return };
        let sayings = liar.instead((self.now, healed), (to, conn), frame);
        for saying in sayings {
            // What is for the same process takes the same way: a process may have several connections.
            let way = if saying.to == to { Some(conn) } else { None };
            self.say_as_liar(who, way, saying);
        }
    }

    fn say_as_liar(&mut self, who: usize, way: Option<ConnId>, saying: Saying) {
        let Some(liar) = self.liars.get_mut(&who) else { return };
        if saying.after > 0 {
            let (at, life) = (self.now + saying.after, self.processes[who].life);
            let number = liar.hold(Saying { after: 0, ..saying });
            return self.queue.push(at, Event::Said { who, life, number });
        }
        if let Some(conn) = way.or(liar.way(saying.to)) {
            self.say_this(who, conn, &saying.said.frame());
        }
    }

    /// The time has come for something that was held up.
    pub(super) fn said_late(&mut self, who: usize, life: u32, number: u64) {
        if self.processes[who].life == life
            && self.processes[who].up
            && let Some(saying) = self.liars.get_mut(&who).and_then(|liar| liar.held(number))
        {
            self.say_as_liar(who, None, saying);
        }
    }

    fn say_this(&mut self, who: usize, conn: ConnId, frame: &OutFrame) {
        self.look_for_votes(who, conn, frame);
        self.look_for_claims(who, frame);
        let kind = frame.kind();
        self.trace
            .line(Level::All, self.now, Some(who), "send", || format!("{conn} {kind:?} {}", frame.len()));
        if !self.send_by_lane(who, conn, &frame.to_vec()) {
            self.send(who, conn, &frame.to_vec());
        }
    }

    /// A liar hears what its node hears.
    pub(super) fn overhear(&mut self, who: usize, id: ConnId, frame: &Frame) {
        if !self.plan.is_liar(who) {
            return;
        }
        let Some(from) = self.other_end(who, id).filter(|from| !self.plan.is_liar(*from)) else { return };
        let now = self.now;
        let Some(liar) = self.liars.get_mut(&who) else { return };
        for saying in liar.hears(now, from, frame) {
            self.say_as_liar(who, None, saying);
        }
    }

    /// What leaves in place of what a client's core wants to send.
    pub(super) fn client_frames(&mut self, who: usize, conn: ConnId, frame: OutFrame) -> Vec<OutFrame> {
        let Some(trick) = self.plan.client_trick(who - self.plan.replicas) else {
            let used = clients::session_of(&frame);
            let client = &mut self.clients[who - self.plan.replicas];
            client.used = used.or(client.used);
            return vec![frame];
        };
        let Some(to) = self.other_end(who, conn) else { return vec![frame] };
        let others = self.clients.iter().filter(|client| !client.lies());
        let sessions: Vec<SessionId> = others.filter_map(|client| client.used).collect();
        let client = &mut self.clients[who - self.plan.replicas];
        clients::instead(trick, client.rng(), to, &sessions, frame)
    }

    /// Nobody honest holds evidence against anybody honest.
    pub(super) fn look_at_suspects(&self, who: usize) -> Result<(), Failure> {
        let Some(node) = &self.replicas[who].node else { return Ok(()) };
        if self.plan.is_liar(who) {
            return Ok(());
        }
        let suspected = node.status().suspects;
        suspects::judge(&self.trace.name(who), &suspected, |replica| {
            self.plan.is_liar(usize::from(replica).saturating_sub(1))
        })
    }
}
