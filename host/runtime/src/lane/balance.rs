//! Moves links and clients from a lane with too much work to one with time, one at a time.
//!
//! If instances are used unevenly, or one client sends more than its lane can decrypt, other lanes would be idle. A link with its pillars
//! works on any lane, and so does a connection: the decision needs only how busy lanes were lately, and no agreement. What moved stays for a
//! while, so that the effect can show first. A client moves alone only where the main lane has all pillars. Tests: `balance/tests.rs`,
//! `placement/tests.rs`.

use super::Lane;
use super::placement::Busy;
use super::sides::Home;
use quorate_node::ConnClass;
use quorate_types::{ConnId, Span, Time};

/// How often lanes are compared.
const LOOK: Span = Span::from_millis(250);
/// How long a connection stays on its lane at least.
const STAY: Span = Span::from_secs(3);
/// Above this many thousandths of its time a lane has too much work; below the second number it has time.
const BUSY: u64 = 900;
const IDLE: u64 = 500;

/// When lanes are compared next, and how busy they were at the last comparisons.
#[derive(Debug, Default)]
pub(super) struct Balance {
    next: Time,
    /// For each lane, in thousandths of its time; the newest comparison counts for a quarter.
    busy: Vec<u64>,
}

impl Balance {
    fn is_due(&mut self, now: Time) -> bool {
        // The clock may have jumped back.
        let due = now >= self.next || self.next.since(now) > LOOK;
        if due {
            self.next = now.plus(LOOK);
        }
        due
    }

    /// Notes how busy each lane was just now, the main one first. Gives how busy they were lately.
    fn measured(&mut self, busy: impl Iterator<Item = u64>) -> Vec<Busy> {
        let before = std::mem::take(&mut self.busy);
        let smooth = |(at, now): (usize, u64)| before.get(at).map_or(now, |before| (3 * before + now) / 4);
        self.busy = busy.enumerate().map(smooth).collect();
        (0..).zip(self.busy.iter().copied()).collect()
    }
}

/// The lanes from and to which a client should move, given the thousandths of time in which each works.
fn wanted(busy: impl Iterator<Item = (u16, u64)> + Clone) -> Option<(u16, u16)> {
    let (most, least) = (busy.clone().max_by_key(|(_, busy)| *busy)?, busy.min_by_key(|(_, busy)| *busy)?);
    (most.1 >= BUSY && least.1 <= IDLE).then_some((most.0, least.0))
}

impl Lane {
    /// Moves a link or a client if one lane has too much work while another has time.
    pub(super) fn balance(&mut self, now: Time) {
        if self.sides.count() == 0 || !self.sides.balance.is_due(now) {
            return;
        }
        let others: Vec<u64> = self.sides.busy(now).map(|(_, busy)| busy).collect();
        let busy = self.sides.balance.measured(std::iter::once(self.sockets.pace.busy()).chain(others));
        if let Some((link, lane)) = self.sides.placement.wanted(now, &busy) {
            tracing::info!(
                "link {link} moves from lane {} to lane {}",
                self.sides.placement.of(link) + 1,
                lane + 1
            );
            self.move_link(now, link, lane);
        } else if self.sides.count() > 1 && self.sides.placement.clients_move() {
            self.move_a_client(now, &busy[1..]);
        }
        self.sides.flush();
    }

    fn move_a_client(&mut self, now: Time, busy: &[Busy]) {
        let Some((from, to)) = wanted(busy.iter().copied()) else { return };
        let node = &self.home.node;
        let movable = self.sides.homes().filter_map(|(conn, home)| match home {
            Home::On { lane, since, .. } if *lane == from && now.since(*since) >= STAY => {
                matches!(node.class(*conn), ConnClass::Client(_)).then_some((*since, *conn))
            }
            _ => None,
        });
        let longest: Option<(Time, ConnId)> = movable.min();
        if let Some((_, conn)) = longest {
            tracing::debug!("{conn} moves from lane {} to lane {}", from + 1, to + 1);
            self.move_to(now, conn, to);
        }
    }
}

#[cfg(test)]
mod tests;
