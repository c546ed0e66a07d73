//! The lane with the pillars of a staged replica, between the lanes with the connections and the main lane. What they read comes into its
//! inbox, as if the connections were here: the pillars take what they may, and the main lane gets the rest, in order. What pillars send goes
//! to the lanes with the connections.
//!
//! What this lane and the main lane have not worked off counts with what waits of a lane with connections, so the whole way is bounded as it
//! is where connections and pillars share a lane. Tests: `relay/tests.rs`, host/runtime/tests/all/lanes.rs.

use super::placement::reader_of;
use super::side::{ANY_BYTES, CLIENT_BYTES, Down, SideLane, Up, WORD_BYTES};
use quorate_types::ConnId;
use quorate_wire::OutFrame;
use std::sync::atomic::{Ordering, fence};

impl SideLane {
    /// Takes what the lanes with the connections have read, while there is room for more.
    pub(super) fn hear_readers(&mut self) {
        for reader in &mut self.readers {
            if !reader.has_room() {
                continue;
            }
            for _ in 0..reader.pieces() {
                if self.away.bytes() >= ANY_BYTES {
                    break;
                }
                for word in reader.take().into_iter().flatten() {
                    match word {
                        Up::Input(input) => self.away.inbox.put(input),
                        // It must not overtake what was read of its connection.
                        word => self.away.later.push(word),
                    }
                }
            }
        }
    }

    /// Whether something waits that this lane may take.
    pub(super) fn readers_have_something(&self) -> bool {
        self.away.bytes() < ANY_BYTES
            && self.readers.iter().any(|reader| reader.pieces() > 0 && reader.has_room())
    }

    /// A pillar sends a frame over a connection that this lane does not have.
    pub(super) fn send_away(&mut self, conn: ConnId, frame: OutFrame) {
        match self.readers.len() {
            0 => {
                let bytes = frame.len();
                self.away.up.put(Up::Send(conn, frame), bytes + WORD_BYTES);
            }
            count => self.readers[reader_of(conn, count)].put(Down::Pass(conn, frame)),
        }
    }

    /// Ends a turn for the lanes with the connections: sends them the frames, and tells them how much waits for the main lane.
    pub(super) fn tell_readers(&mut self) {
        if self.readers.is_empty() {
            return;
        }
        self.told = self.away.bytes();
        for reader in &mut self.readers {
            reader.flush();
            // First the one, then the other: nothing is left out in between.
            reader.shared.ahead.store(self.told, Ordering::SeqCst);
            reader.worked_off();
            reader.goes_on();
        }
    }

    /// Whether lanes with connections were told to wait, and need not wait any longer. If they must, announces that this lane waits for the
    /// main one.
    pub(super) fn readers_may_go_on(&self) -> bool {
        if self.readers.is_empty() || self.told < CLIENT_BYTES {
            return false;
        }
        self.away.shared.waits.store(true, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        self.away.bytes() < CLIENT_BYTES
    }
}

#[cfg(test)]
mod tests;
