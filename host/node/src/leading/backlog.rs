//! What a replica that has started must still execute.
//!
//! It learns soon what was decided while it was away, and executes that only as fast as its service is. If it leads meanwhile, because it was
//! its turn or because small quorums end, nobody is answered. So it gives way, and protocols do not count on it, as long as it has not once
//! been where the others are. From then on a backlog says that the service is slow, and others are as slow.
//!
//! Tests: backlog/tests.rs.

use quorate_types::{Span, Time};

/// Whether this replica has been where the others are; see the module.
#[derive(Debug, Default)]
pub(super) struct Backlog {
    /// Since when it executes from where it started.
    since: Option<Time>,
    /// It has been where the others are.
    was_there: bool,
    /// It has much to execute.
    busy: bool,
    /// When to look again.
    again: Time,
}

impl Backlog {
    /// Execution goes on from another state. What protocols were told holds until they are told otherwise.
    pub(super) fn restart(&mut self) {
        *self = Self { busy: self.busy, ..Self::default() };
    }

    /// Whether there is nothing to look at: it has been where the others are, or was looked at a moment ago.
    #[inline]
    pub(super) fn is_settled(&self, now: Time) -> bool {
        self.was_there || now < self.again
    }

    /// Whether it has much to execute, so that it gives way.
    #[inline]
    pub(super) const fn is_busy(&self) -> bool {
        self.busy
    }

    /// Notes by how much agreed time is ahead of execution. Soon after the start it may not have heard yet what it lacks. Gives whether it is
    /// busy, if that has changed: it has more to execute than it can in the time in which others wait for a silent leader.
    pub(super) fn look(&mut self, now: Time, patience: Span, behind: Span) -> Option<bool> {
        if self.was_there {
            return None;
        }
        let since = *self.since.get_or_insert(now);
        self.again = now.plus(patience.divided(8));
        let is_there = behind < patience.divided(2);
        self.was_there = is_there && now >= since.plus(patience.times(2));
        let busy = if self.busy { !is_there } else { behind > patience };
        (std::mem::replace(&mut self.busy, busy) != busy).then_some(busy)
    }

    /// When it gives way, if it leads. `before`: when it gave way last. Not again at once: the others may have as much to do.
    pub(super) fn gives_way_at(&self, before: Option<Time>, patience: Span, behind: Span) -> Option<Time> {
        let late = !self.was_there && behind > patience;
        late.then(|| before.map_or(Time::ZERO, |before| before.plus(patience.times(4))))
    }
}

#[cfg(test)]
mod tests;
