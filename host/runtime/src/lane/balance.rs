//! Moves clients from a lane with too much work to one with time, one at a time.
//!
//! If instances are used unevenly, or one client sends more than its lane can decrypt, other lanes would be idle. A connection works on any
//! lane, so the decision needs only how busy lanes were lately, and no agreement. A moved client stays for a while, so that the effect can
//! show first. Tests: `balance/tests.rs`.

use super::Lane;
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

/// When lanes are compared next.
#[derive(Debug, Default)]
pub(super) struct Balance {
    next: Time,
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
}

/// The lanes from and to which a client should move, given the thousandths of time in which each works.
fn wanted(busy: impl Iterator<Item = (u16, u64)> + Clone) -> Option<(u16, u16)> {
    let (most, least) = (busy.clone().max_by_key(|(_, busy)| *busy)?, busy.min_by_key(|(_, busy)| *busy)?);
    (most.1 >= BUSY && least.1 <= IDLE).then_some((most.0, least.0))
}

impl Lane {
    /// Moves a client if one lane has too much work while another has time.
    pub(super) fn balance(&mut self, now: Time) {
        if self.sides.count() < 2 || !self.sides.balance.is_due(now) {
            return;
        }
        let Some((from, to)) = wanted(self.sides.busy()) else { return };
        let node = &self.home.node;
        let movable = self.sides.homes().filter_map(|(conn, home)| match home {
            Home::On { lane, since } if *lane == from && now.since(*since) >= STAY => {
                matches!(node.class(*conn), ConnClass::Client(_)).then_some((*since, *conn))
            }
            _ => None,
        });
        let longest: Option<(Time, ConnId)> = movable.min();
        if let Some((_, conn)) = longest {
            tracing::debug!("{conn} moves from lane {} to lane {}", from + 1, to + 1);
            self.move_to(now, conn, to);
            self.sides.flush();
        }
    }
}

#[cfg(test)]
mod tests;
