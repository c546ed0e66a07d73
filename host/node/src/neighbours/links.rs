//! Connections between the members of two services. A caller's members make them, to each member of the backend, as clients of its cluster.

use super::{Key, Line, Neighbours, Out};
use crate::config::NodeConfig;
use quorate_execute::ServiceId;
use quorate_types::{ClientId, ConnId, Reject, ReplicaId, Span, Time};
use quorate_wire::{
    Frame, FrameKind, Hello, MEMBER_OWN, Relation, Role, Welcome, member_client, read_copies, read_seen,
};
use std::collections::BTreeMap;

/// After this time a member that could not be reached is tried again.
const DIAL_AGAIN: Span = Span::from_millis(500);
/// How long a connection may take until it is welcome.
const PATIENCE: Span = Span::from_millis(5000);

/// The members of a neighbour that are connected.
#[derive(Debug, Default)]
pub(super) struct Links {
    /// The connection of each, and the position that it was told last.
    members: BTreeMap<ReplicaId, (ConnId, u64)>,
}

impl Links {
    pub(super) fn members(&self) -> impl Iterator<Item = ReplicaId> {
        self.members.keys().copied()
    }

    pub(super) fn conn(&self, member: ReplicaId) -> Option<ConnId> {
        self.members.get(&member).map(|(conn, _)| *conn)
    }

    /// The connections of members that do not know yet that this is the first open position.
    pub(super) fn tell(&mut self, next: u64) -> impl Iterator<Item = ConnId> {
        let late = self.members.values_mut().filter(move |(_, told)| *told != next);
        late.map(move |(conn, told)| {
            *told = next;
            *conn
        })
    }

    /// A member is connected. Gives the connection that it had before.
    fn up(&mut self, member: ReplicaId, conn: ConnId) -> Option<ConnId> {
        self.members.insert(member, (conn, 0)).map(|(before, _)| before)
    }

    fn down(&mut self, member: ReplicaId, conn: ConnId) -> bool {
        let is_it = self.conn(member) == Some(conn);
        is_it && self.members.remove(&member).is_some()
    }
}

/// The way to a member of a backend.
#[derive(Debug)]
enum Dial {
    /// It is tried at this time.
    Waits(Time),
    /// It is tried, or not welcome yet, until this time.
    Tries(Option<ConnId>, Time),
    /// It is connected.
    Up,
}

/// The ways to the members of all backends.
#[derive(Debug, Default)]
pub(super) struct Dials {
    all: BTreeMap<(u32, ReplicaId), Dial>,
}

impl Dials {
    pub(super) fn meet(&mut self, now: Time, members: impl Iterator<Item = (u32, ReplicaId)>) {
        let mut before = std::mem::take(&mut self.all);
        self.all = members
            .map(|member| {
                let dial = before.remove(&member).unwrap_or(Dial::Waits(now));
                (member, dial)
            })
            .collect();
    }

    /// Dials whoever is due.
    pub(super) fn step(&mut self, now: Time, lines: &BTreeMap<Key, Line>, out: &mut Vec<Out>) {
        for ((service, replica), dial) in &mut self.all {
            match dial {
                Dial::Tries(conn, until) if *until <= now => {
                    out.extend(conn.map(Out::Close));
                    *dial = Dial::Waits(now.plus(DIAL_AGAIN));
                }
                Dial::Waits(at) if *at <= now => {
                    let line = lines.get(&(Relation::Backend, *service));
                    let members = line.map(|line| &line.known.neighbour.members);
                    let Some((_, address)) =
                        members.and_then(|members| members.iter().find(|(id, _)| id == replica))
                    else {
                        continue;
                    };
                    let (service, replica, address) = (*service, *replica, address.clone());
                    out.push(Out::Dial { service, replica, address });
                    *dial = Dial::Tries(None, now.plus(PATIENCE));
                }
                Dial::Waits(_) | Dial::Tries(..) | Dial::Up => {}
            }
        }
    }

    pub(super) fn deadline(&self) -> Option<Time> {
        let at = |dial: &Dial| match dial {
            Dial::Waits(at) | Dial::Tries(_, at) => Some(*at),
            Dial::Up => None,
        };
        self.all.values().filter_map(at).min()
    }

    fn failed(&mut self, now: Time, member: (u32, ReplicaId)) {
        if let Some(dial) = self.all.get_mut(&member) {
            *dial = Dial::Waits(now.plus(DIAL_AGAIN));
        }
    }
}

/// Connections.
impl Neighbours {
    /// Whether this is a connection that this replica made to a member of a backend.
    pub(crate) fn made(&self, conn: ConnId) -> bool {
        self.conns.get(&conn).is_some_and(|((relation, _), _)| *relation == Relation::Backend)
    }

    /// A member of a backend was reached: this replica introduces itself.
    pub(crate) fn dialed(
        &mut self,
        now: Time,
        (conn, service, replica): (ConnId, u32, ReplicaId),
        (config, own): (&NodeConfig, Option<ServiceId>),
        out: &mut Vec<Out>,
    ) {
        let key = (Relation::Backend, service);
        let (Some(line), Some(dial)) = (self.lines.get(&key), self.dials.all.get_mut(&(service, replica)))
        else {
            return out.push(Out::Close(conn));
        };
        let me = own.and_then(|own| member_client(own.0, config.members.me()));
        let (Dial::Tries(None, _), Some(me)) = (&*dial, me) else { return out.push(Out::Close(conn)) };
        *dial = Dial::Tries(Some(conn), now.plus(PATIENCE));
        self.conns.insert(conn, (key, replica));
        let hello = Hello::new(line.known.neighbour.cluster, Some(replica), Role::Client(me));
        out.push(Out::Widen(conn));
        out.push(Out::Send(conn, hello.made_of(MEMBER_OWN).frame()));
    }

    /// It could not be reached.
    pub(crate) fn dial_failed(&mut self, now: Time, service: u32, replica: ReplicaId) {
        if let Some(Dial::Tries(None, _)) = self.dials.all.get(&(service, replica)) {
            self.dials.failed(now, (service, replica));
        }
    }

    /// A frame came in over a connection that this replica made. Whatever is wrong with it, the connection is made anew.
    pub(crate) fn framed(&mut self, now: Time, conn: ConnId, frame: Frame, out: &mut Vec<Out>) {
        let Some((key, replica)) = self.conns.get(&conn).copied() else { return };
        if self.read(key, (conn, replica), frame).is_err() {
            self.closed(now, conn);
            out.push(Out::Close(conn));
        }
    }

    fn read(&mut self, key: Key, (conn, replica): (ConnId, ReplicaId), frame: Frame) -> Result<(), Reject> {
        let Some(line) = self.lines.get_mut(&key) else { return Err(Reject::UnknownPeer) };
        if line.links.conn(replica) != Some(conn) {
            let welcome = match frame.kind {
                FrameKind::Welcome => Welcome::decode(frame.payload)?,
                _ => return Err(Reject::NotAllowed("anything before a welcome")),
            };
            if (welcome.cluster, welcome.replica) != (line.known.neighbour.cluster, replica) {
                return Err(Reject::UnknownPeer);
            }
            line.links.up(replica, conn);
            self.dials.all.insert((key.1, replica), Dial::Up);
            return Ok(());
        }
        match frame.kind {
            FrameKind::Copies => {
                for (position, message) in read_copies(frame.payload)? {
                    line.receiver.hear(replica, position, message);
                }
            }
            FrameKind::Seen => line.sender.seen(replica, read_seen(frame.payload)?),
            // What clients are told of members and leaders.
            _ => {}
        }
        Ok(())
    }

    /// The line of a caller's member that is connected as this client, which says something over this connection.
    pub(crate) fn caller(&mut self, conn: ConnId, client: ClientId) -> Result<Caller<'_>, &'static str> {
        let stranger = "only members of a service that may ask send copies of nested requests";
        let (service, replica) = *self.members.get(&client).ok_or(stranger)?;
        let key = (Relation::Caller, service);
        let line = self.lines.get_mut(&key).ok_or(stranger)?;
        if line.links.conn(replica) != Some(conn) {
            if let Some(before) = line.links.up(replica, conn) {
                self.conns.remove(&before);
                line.sender.lost(replica);
            }
            self.conns.insert(conn, (key, replica));
        }
        Ok(Caller { line, replica })
    }

    /// A connection is gone.
    pub(crate) fn closed(&mut self, now: Time, conn: ConnId) {
        let Some((key, replica)) = self.conns.remove(&conn) else { return };
        if let Some(line) = self.lines.get_mut(&key)
            && line.links.down(replica, conn)
        {
            line.sender.lost(replica);
        }
        if key.0 == Relation::Backend {
            self.dials.failed(now, (key.1, replica));
        }
    }
}

/// A member of a caller that is connected.
pub(crate) struct Caller<'a> {
    line: &'a mut Line,
    replica: ReplicaId,
}

impl Caller<'_> {
    /// It sends copies of nested requests.
    pub(crate) fn copies(self, list: Vec<(u64, bytes::Bytes)>) {
        for (position, message) in list {
            self.line.receiver.hear(self.replica, position, message);
        }
    }

    /// It is done with the answers before this position.
    pub(crate) fn seen(self, next: u64) {
        self.line.sender.seen(self.replica, next);
    }
}
