//! Drives the client cores.

use super::World;
use crate::checks::{acked, progress};
use crate::process::Arrival;
use crate::trace::Level;
use crate::trips::in_product;
use quorate_client::{Effect, Input};
use quorate_types::{ConnId, Time};

/// What a client takes from a replica.
const FRAME_MAX: u32 = 4 << 20;

impl World {
    fn client_step(&mut self, who: usize, local: Time, input: Input) {
        let client = &mut self.clients[who - self.plan.replicas];
        in_product(|| client.core.step(local, input, &mut client.effects));
    }

    /// Gives a client its turn; says when it wants the next, in virtual time.
    pub(super) fn client_turn(&mut self, who: usize, arrived: Vec<Arrival>) -> Option<u64> {
        let local = self.processes[who].clock.read(self.now);
        for arrival in arrived {
            self.client_arrival(who, local, arrival);
        }
        let index = who - self.plan.replicas;
        if self.clients[index].core.deadline().is_some_and(|deadline| deadline <= local) {
            self.client_step(who, local, Input::Deadline);
        }
        loop {
            let client = &mut self.clients[index];
            client.act(self.now, local);
            in_product(|| client.core.flush(local, &mut client.effects));
            let effects: Vec<Effect> = client.effects.drain().collect();
            if effects.is_empty() {
                break;
            }
            for effect in effects {
                self.client_effect(who, local, effect);
            }
        }
        let client = &self.clients[index];
        let core = client.core.deadline().map(|at| self.processes[who].clock.when(self.now, at));
        let own = client.next_at();
        [core, own].into_iter().flatten().min()
    }

    fn client_arrival(&mut self, who: usize, local: Time, arrival: Arrival) {
        match arrival {
            Arrival::Dialed(conn, ..) => {
                if let Some(number) = self.processes[who].conns.get(&conn).copied()
                    && let Some(side) = self.net.side(number, who, conn)
                    && let Some(found) = self.net.conn(number)
                {
                    found.ends[side].reader.set_limit(FRAME_MAX);
                }
                self.client_step(who, local, Input::Connected(conn));
            }
            Arrival::DialFailed(conn, ..) => {
                self.client_step(who, local, Input::Closed { conn, why: "no connection".into() });
            }
            Arrival::Bytes(conn, bytes) => self.client_bytes(who, local, conn, &bytes),
            Arrival::End(conn) => self.client_end(who, local, conn, "the connection ended"),
            Arrival::Left(conn, bytes) => self.client_step(who, local, Input::Written { conn, bytes }),
            _ => {}
        }
    }

    fn client_end(&mut self, who: usize, local: Time, conn: ConnId, why: &str) {
        if self.processes[who].conns.contains_key(&conn) {
            self.hang_up(who, conn);
            self.client_step(who, local, Input::Closed { conn, why: why.to_owned() });
        }
    }

    fn client_bytes(&mut self, who: usize, local: Time, id: ConnId, bytes: &[u8]) {
        let Some(conn) = self.processes[who].conns.get(&id).copied() else { return };
        let Some(side) = self.net.side(conn, who, id) else { return };
        let Some(found) = self.net.conn(conn) else { return };
        let reader = &mut found.ends[side].reader;
        reader.push(bytes);
        let mut frames = Vec::new();
        let ended = loop {
            match reader.frame() {
                Ok(None) => break false,
                Err(_) => break true,
                Ok(Some(frame)) => frames.push(frame),
            }
        };
        for frame in frames {
            let kind = frame.kind;
            self.trace.line(Level::All, self.now, Some(who), "frame", || format!("{id} {kind:?}"));
            self.client_step(who, local, Input::Frame { conn: id, frame });
        }
        if ended {
            self.client_end(who, local, id, "the bytes were damaged");
        }
    }

    fn client_effect(&mut self, who: usize, local: Time, effect: Effect) {
        match effect {
            Effect::Dial { conn, replica } => self.dial(who, conn, (replica, 0)),
            Effect::Address { .. } => {}
            Effect::Close(conn) => self.hang_up(who, conn),
            Effect::Send { conn, frame } => {
                for frame in self.client_frames(who, conn, frame) {
                    let kind = frame.kind();
                    self.trace.line(Level::All, self.now, Some(who), "send", || {
                        format!("{conn} {kind:?} {}", frame.len())
                    });
                    self.send(who, conn, &frame.to_vec());
                }
            }
            Effect::Completed { call, result } => {
                self.trace.mix(&[who as u64, call.0, u64::from(result.is_ok())]);
                let index = who - self.plan.replicas;
                let shown = format!("{result:?}");
                self.trace
                    .line(Level::Events, self.now, Some(who), "done", || format!("call {}: {shown}", call.0));
                let ended = self.clients[index].completed(self.now, local, call, result);
                if self.plan.client_trick(index).is_some() {
                    return;
                }
                for number in ended {
                    let done = &self.clients[index].done[number];
                    let checked = acked::ended(done, &self.once).and_then(|()| progress::patient(done));
                    if let Err(failure) = checked {
                        self.fail(failure);
                    }
                }
            }
            Effect::Problem { .. } | Effect::Leader(_) => {}
        }
    }
}
