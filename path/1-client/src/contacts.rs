//! The connections to all members: each is dialed, greeted, and dialed again when it is lost.
//!
//! A member has a contact as long as it is a member; contacts are named by their index. There are at most 64. A replica that joins takes the
//! contact of one that left, if there is one.
//!
//! INV-CLIENT-7: at most one connection per member, and no connection number is used twice.
//! Tests: contacts/tests.rs, tests/core.rs.

use crate::contact::{Contact, ContactState};
use crate::effects::Effect;
use crate::step::{NEVER, Step};
use bytes::Bytes;
use quorate_types::{ClusterId, ConnId, ReplicaId, ServiceName, ServiceVersion, Time};
use quorate_wire::{FORMAT_MAX, FORMAT_MIN, Hello, OutFrame, Role, Welcome};

/// The most members: sets of contacts are kept as bits.
pub(crate) const MEMBERS_MAX: usize = 64;

/// See the module.
#[derive(Debug)]
pub(crate) struct Contacts {
    list: Vec<Contact>,
    next_conn: ConnId,
    /// The cluster, if it is known.
    cluster: Option<ClusterId>,
    /// What the member that was welcomed last calls its service.
    service: ServiceName,
}

impl Contacts {
    pub(crate) fn new(members: &[ReplicaId], cluster: Option<ClusterId>) -> Self {
        let list = members.iter().map(|replica| Contact::new(*replica)).collect();
        Self { list, next_conn: ConnId::FIRST, cluster, service: ServiceName::NONE }
    }

    /// How many contacts there are.
    pub(crate) fn len(&self) -> usize {
        self.list.len()
    }
    /// All contacts, by index.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Contact> {
        self.list.iter()
    }
    /// The contact with this index, which must exist.
    pub(crate) fn at(&self, contact: usize) -> &Contact {
        &self.list[contact]
    }
    /// The connection of a member, if it was welcomed.
    pub(crate) fn up(&self, contact: usize) -> Option<ConnId> {
        self.list.get(contact).and_then(Contact::up)
    }
    /// The contact of a member.
    pub(crate) fn of(&self, replica: ReplicaId) -> Option<usize> {
        self.list.iter().position(|contact| contact.replica == replica && !contact.left)
    }
    /// The contact to which this connection belongs.
    pub(crate) fn of_conn(&self, conn: ConnId) -> Option<usize> {
        self.list.iter().position(|contact| contact.conn() == Some(conn))
    }
    /// All that are connected, as bits.
    pub(crate) fn up_bits(&self) -> u64 {
        let up = |(at, contact): (usize, &Contact)| contact.up().map(|_| 1 << at);
        self.list.iter().enumerate().filter_map(up).sum()
    }

    /// How many members may still become connected.
    pub(crate) fn may_come(&self) -> usize {
        self.list.iter().filter(|contact| !contact.refused).count()
    }

    /// When to look at the contacts again.
    pub(crate) fn deadline(&self) -> Option<Time> {
        self.list.iter().filter_map(Contact::due).min()
    }

    /// Appends why members are not connected, for people.
    pub(crate) fn problems(&self, text: &mut String) {
        for contact in &self.list {
            if let Some(problem) = &contact.problem {
                text.push_str(&format!("; {}: {problem}", contact.replica));
            }
        }
    }

    /// Hands a frame to a member that is connected.
    pub(crate) fn send(&mut self, step: &mut Step<'_>, contact: usize, frame: OutFrame) {
        let contact = &mut self.list[contact];
        if let Some(conn) = contact.up() {
            contact.out_bytes += frame.len();
            step.out.push(Effect::Send { conn, frame });
        }
    }

    /// This many bytes were written to the socket.
    pub(crate) fn written(&mut self, conn: ConnId, bytes: usize) {
        if let Some(contact) = self.of_conn(conn) {
            let contact = &mut self.list[contact];
            contact.out_bytes = contact.out_bytes.saturating_sub(bytes);
        }
    }

    /// A frame came.
    pub(crate) fn heard(&mut self, now: Time, contact: usize) {
        self.list[contact].heard = now;
    }

    /// A contact's time has come: it is dialed; or, if its connection must be dropped, the reason is returned.
    pub(crate) fn due(&mut self, step: &mut Step<'_>, contact: usize) -> Option<&'static str> {
        if self.list[contact].due().is_none_or(|due| due > step.now) {
            return None;
        }
        match self.list[contact].state {
            ContactState::Down { .. } => {
                self.dial(step, contact);
                None
            }
            ContactState::Dialing { .. } => Some("no connection in time"),
            ContactState::Greeting { .. } => Some("no welcome in time"),
            ContactState::Up { .. } => None,
        }
    }

    fn dial(&mut self, step: &mut Step<'_>, contact: usize) {
        let conn = self.next_conn;
        self.next_conn = conn.next();
        let contact = &mut self.list[contact];
        contact.state = ContactState::Dialing { conn, give_up: step.now.plus(step.config.dial_timeout) };
        step.out.push(Effect::Dial { conn, replica: contact.replica });
    }

    /// A dialed connection exists, so the client says who it is.
    pub(crate) fn connected(&mut self, step: &mut Step<'_>, conn: ConnId) {
        let Some(contact) = self.of_conn(conn) else { return };
        let contact = &mut self.list[contact];
        if !matches!(contact.state, ContactState::Dialing { .. }) {
            return;
        }
        contact.state = ContactState::Greeting { conn, give_up: step.now.plus(step.config.dial_timeout) };
        let role = Role::Client(step.config.client);
        let hello = Hello::new(self.cluster.unwrap_or_default(), Some(contact.replica), role);
        let means = ServiceVersion { name: step.config.service, ..ServiceVersion::UNNAMED };
        let frame = hello.made_of(step.config.own).of_service(means).frame();
        contact.out_bytes += frame.len();
        step.out.push(Effect::Send { conn, frame });
    }

    /// Checks a member's answer to that.
    ///
    /// # Errors
    /// Why the connection is of no use, for people.
    pub(crate) fn check_welcome(&self, contact: usize, payload: Bytes) -> Result<Welcome, String> {
        let welcome = Welcome::decode(payload).map_err(|why| format!("sent a bad welcome: {why}"))?;
        let contact = &self.list[contact];
        if welcome.replica != contact.replica {
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

    /// What the member that was welcomed last calls its service.
    pub(crate) const fn service(&self) -> ServiceName {
        self.service
    }

    /// A member accepted the connection; it runs this service.
    pub(crate) fn welcomed(&mut self, now: Time, contact: usize, service: ServiceName) {
        self.service = service;
        let contact = &mut self.list[contact];
        if let Some(conn) = contact.conn() {
            contact.state = ContactState::Up { conn, since: now };
        }
        contact.heard = now;
        contact.problem = None;
        contact.refused = false;
    }

    /// From now on this is the client's cluster.
    pub(crate) fn belong_to(&mut self, cluster: ClusterId) {
        self.cluster = Some(cluster);
    }

    /// A member refused the connection; `passing`: for a reason that may go away.
    pub(crate) fn refused(&mut self, contact: usize, passing: bool) {
        self.list[contact].refused = !passing;
    }

    /// The client ends a connection; [`Self::lost`] follows.
    pub(crate) fn hang_up(&self, step: &mut Step<'_>, contact: usize) {
        if let Some(conn) = self.list[contact].conn() {
            step.out.push(Effect::Close(conn));
        }
    }

    /// A connection is lost. Returns whether the member was connected.
    pub(crate) fn lost(&mut self, step: &mut Step<'_>, contact: usize, why: String) -> bool {
        let contact = &mut self.list[contact];
        let was_up = contact.up().is_some();
        contact.lost(step);
        step.out.push(Effect::Problem { replica: contact.replica, text: why.clone() });
        contact.problem = Some(why);
        was_up
    }

    /// A member left the cluster, and is not dialed any more.
    pub(crate) fn leave(&mut self, contact: usize) {
        let contact = &mut self.list[contact];
        (contact.state, contact.left, contact.refused) = (ContactState::Down { retry_at: NEVER }, true, true);
    }

    /// A replica joined the cluster. Returns its new contact, unless it has one or there is no room.
    pub(crate) fn join(&mut self, replica: ReplicaId) -> Option<usize> {
        if self.of(replica).is_some() {
            return None;
        }
        if let Some(free) = self.list.iter().position(|contact| contact.left) {
            self.list[free] = Contact::new(replica);
            return Some(free);
        }
        let has_room = self.list.len() < MEMBERS_MAX;
        has_room.then(|| {
            self.list.push(Contact::new(replica));
            self.list.len() - 1
        })
    }

    /// All connections end, and none is made again.
    pub(crate) fn stop(&mut self, step: &mut Step<'_>) {
        for contact in &mut self.list {
            if let Some(conn) = contact.conn() {
                step.out.push(Effect::Close(conn));
            }
            contact.state = ContactState::Down { retry_at: NEVER };
        }
    }

    /// Checks INV-CLIENT-7.
    pub(crate) fn check(&self) {
        let mut conns: Vec<ConnId> = self.list.iter().filter_map(Contact::conn).collect();
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
