//! The connections to all members, all the time: dialed, greeted, and dialed again when they are lost.
//!
//! A member has a place, its link, for as long as it is one. Where there are 64 places, whoever joins takes that of one who left.
//!
//! INV-CLIENT-7: at most one connection per member, and no connection number is used twice.
//! Tests: links/tests.rs, tests/core.rs.

use crate::effects::Effect;
use crate::link::{Link, LinkState};
use crate::step::{NEVER, Step};
use bytes::Bytes;
use quorate_types::{ClusterId, ConnId, ReplicaId, Time};
use quorate_wire::{FORMAT_MAX, FORMAT_MIN, Hello, OutFrame, Role, Welcome};

/// No more members than this: sets of links are kept as bits.
pub(crate) const MEMBERS_MAX: usize = 64;

/// See the module.
#[derive(Debug)]
pub(crate) struct Links {
    list: Vec<Link>,
    next_conn: ConnId,
    /// The cluster that is meant, as far as it is known.
    cluster: Option<ClusterId>,
}

impl Links {
    pub(crate) fn new(members: &[ReplicaId], cluster: Option<ClusterId>) -> Self {
        let list = members.iter().map(|replica| Link::new(*replica)).collect();
        Self { list, next_conn: ConnId::FIRST, cluster }
    }

    /// How many places there are.
    pub(crate) fn len(&self) -> usize {
        self.list.len()
    }
    /// All, by place.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Link> {
        self.list.iter()
    }
    /// The one at a place that there is.
    pub(crate) fn at(&self, link: usize) -> &Link {
        &self.list[link]
    }
    /// The connection of a member, if it was welcomed.
    pub(crate) fn up(&self, link: usize) -> Option<ConnId> {
        self.list.get(link).and_then(Link::up)
    }
    /// The place of a member.
    pub(crate) fn of(&self, replica: ReplicaId) -> Option<usize> {
        self.list.iter().position(|link| link.replica == replica && !link.left)
    }
    /// Whose connection this is.
    pub(crate) fn of_conn(&self, conn: ConnId) -> Option<usize> {
        self.list.iter().position(|link| link.conn() == Some(conn))
    }
    /// All that are connected, as bits.
    pub(crate) fn up_bits(&self) -> u64 {
        let up = |(at, link): (usize, &Link)| link.up().map(|_| 1 << at);
        self.list.iter().enumerate().filter_map(up).sum()
    }

    /// How many members may still be connected to some day.
    pub(crate) fn may_come(&self) -> usize {
        self.list.iter().filter(|link| !link.refused).count()
    }

    /// When to look at them again.
    pub(crate) fn deadline(&self) -> Option<Time> {
        self.list.iter().filter_map(Link::due).min()
    }

    /// Appends why members are not connected, for people.
    pub(crate) fn problems(&self, text: &mut String) {
        for link in &self.list {
            if let Some(problem) = &link.problem {
                text.push_str(&format!("; {}: {problem}", link.replica));
            }
        }
    }

    /// Hands a frame to a member that is connected.
    pub(crate) fn send(&mut self, step: &mut Step<'_>, link: usize, frame: OutFrame) {
        let link = &mut self.list[link];
        if let Some(conn) = link.up() {
            link.out_bytes += frame.len();
            step.out.push(Effect::Send { conn, frame });
        }
    }

    /// So many bytes left for the socket.
    pub(crate) fn written(&mut self, conn: ConnId, bytes: usize) {
        if let Some(link) = self.of_conn(conn) {
            let link = &mut self.list[link];
            link.out_bytes = link.out_bytes.saturating_sub(bytes);
        }
    }

    /// A frame came.
    pub(crate) fn heard(&mut self, now: Time, link: usize) {
        self.list[link].heard = now;
    }

    /// The time of a link is up: it is dialed, or why it is to be dropped is returned.
    pub(crate) fn due(&mut self, step: &mut Step<'_>, link: usize) -> Option<&'static str> {
        if self.list[link].due().is_none_or(|due| due > step.now) {
            return None;
        }
        match self.list[link].state {
            LinkState::Down { .. } => {
                self.dial(step, link);
                None
            }
            LinkState::Dialing { .. } => Some("no connection in time"),
            LinkState::Greeting { .. } => Some("no welcome in time"),
            LinkState::Up { .. } => None,
        }
    }

    fn dial(&mut self, step: &mut Step<'_>, link: usize) {
        let conn = self.next_conn;
        self.next_conn = conn.next();
        let link = &mut self.list[link];
        link.state = LinkState::Dialing { conn, give_up: step.now.plus(step.config.dial_timeout) };
        step.out.push(Effect::Dial { conn, replica: link.replica });
    }

    /// A connection that was dialed exists: the client says who it is.
    pub(crate) fn connected(&mut self, step: &mut Step<'_>, conn: ConnId) {
        let Some(link) = self.of_conn(conn) else { return };
        let link = &mut self.list[link];
        if !matches!(link.state, LinkState::Dialing { .. }) {
            return;
        }
        link.state = LinkState::Greeting { conn, give_up: step.now.plus(step.config.dial_timeout) };
        let role = Role::Client(step.config.client);
        let hello = Hello::new(self.cluster.unwrap_or_default(), Some(link.replica), role);
        let frame = hello.made_of(step.config.own).frame();
        link.out_bytes += frame.len();
        step.out.push(Effect::Send { conn, frame });
    }

    /// What a member answered to that.
    ///
    /// # Errors
    /// Why the connection is of no use, for people.
    pub(crate) fn check_welcome(&self, link: usize, payload: Bytes) -> Result<Welcome, String> {
        let welcome = Welcome::decode(payload).map_err(|why| format!("sent a bad welcome: {why}"))?;
        let link = &self.list[link];
        if welcome.replica != link.replica {
            return Err(format!("{} answers at this address; check the list of members", welcome.replica));
        }
        if !(FORMAT_MIN..=FORMAT_MAX).contains(&welcome.format) {
            return Err(format!(
                "speaks format {}, this program {FORMAT_MIN} to {FORMAT_MAX}",
                welcome.format
            ));
        }
        match self.cluster {
            Some(ours) if ours != welcome.cluster => {
                Err(format!("belongs to cluster {}, not {ours}; check the list of members", welcome.cluster))
            }
            _ => Ok(welcome),
        }
    }

    /// A member lets us in.
    pub(crate) fn welcomed(&mut self, now: Time, link: usize) {
        let link = &mut self.list[link];
        if let Some(conn) = link.conn() {
            link.state = LinkState::Up { conn, since: now };
        }
        link.heard = now;
        link.problem = None;
        link.refused = false;
    }

    /// This cluster is meant, and no other.
    pub(crate) fn belong_to(&mut self, cluster: ClusterId) {
        self.cluster = Some(cluster);
    }

    /// A member does not let us in; `passing`: it may do so later.
    pub(crate) fn refused(&mut self, link: usize, passing: bool) {
        self.list[link].refused = !passing;
    }

    /// We end a connection; [`Self::lost`] comes next.
    pub(crate) fn hang_up(&self, step: &mut Step<'_>, link: usize) {
        if let Some(conn) = self.list[link].conn() {
            step.out.push(Effect::Close(conn));
        }
    }

    /// A connection is gone. Whether the member was connected.
    pub(crate) fn lost(&mut self, step: &mut Step<'_>, link: usize, why: String) -> bool {
        let link = &mut self.list[link];
        let was_up = link.up().is_some();
        link.lost(step);
        step.out.push(Effect::Problem { replica: link.replica, text: why.clone() });
        link.problem = Some(why);
        was_up
    }

    /// A member left the cluster, and is not dialed any more.
    pub(crate) fn leave(&mut self, link: usize) {
        let link = &mut self.list[link];
        (link.state, link.left, link.refused) = (LinkState::Down { retry_at: NEVER }, true, true);
    }

    /// A replica joined the cluster: its place, unless it has one or there is none.
    pub(crate) fn join(&mut self, replica: ReplicaId) -> Option<usize> {
        if self.of(replica).is_some() {
            return None;
        }
        if self.list.len() < MEMBERS_MAX {
            self.list.push(Link::new(replica));
            return Some(self.list.len() - 1);
        }
        let free = self.list.iter().position(|link| link.left)?;
        self.list[free] = Link::new(replica);
        Some(free)
    }

    /// All connections end, and none is made any more.
    pub(crate) fn stop(&mut self, step: &mut Step<'_>) {
        for link in &mut self.list {
            if let Some(conn) = link.conn() {
                step.out.push(Effect::Close(conn));
            }
            link.state = LinkState::Down { retry_at: NEVER };
        }
    }

    /// Checks INV-CLIENT-7.
    pub(crate) fn check(&self) {
        let mut conns: Vec<ConnId> = self.list.iter().filter_map(Link::conn).collect();
        conns.sort_unstable();
        assert!(
            conns.windows(2).all(|pair| pair[0] != pair[1])
                && conns.last().is_none_or(|conn| *conn < self.next_conn),
            "INV-CLIENT-7: every connection has a number of its own"
        );
    }
}

#[cfg(test)]
mod tests;
