//! The other lanes as the main lane sees them: which lane has which connection, and how a connection moves.
//!
//! Items about a connection stay in order wherever it moves. When it moves to a lane it goes first, and frames for it follow in the same
//! queue. When it comes back it follows everything that was read of it, and frames for it wait until its new lane has it. Items of a lane
//! about a connection that the node has ended are dropped here. INV-LANE-1. Tests: `sides/tests.rs`, host/runtime/tests/all/lanes.rs.

use super::Lane;
use super::balance::Balance;
use super::neighbor::join;
use super::pillars::{News, Pillars, Post, Posts};
use super::placement::Placement;
use super::pressure::BufferStatus;
use super::queue::Sleeper;
use super::side::{Down, LaneStatus, Side, Up};
use super::sockets::{Core, Sockets};
use crate::connection::{Class, Connection};
use crate::disk_thread::{Mailbox, Watch};
use mio::Poll;
use quorate_node::{ConnClass, Effect, Input, Node, Part, link_of};
use quorate_types::{ConnId, InstanceId, Time};
use quorate_wire::OutFrame;
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

/// The lane of a connection that the main lane does not have.
pub(super) enum Home {
    On {
        lane: u16,
        link: u16,
        since: Time,
    },
    /// Its old lane is giving it back; then it goes to this lane, with the frames that wait for it.
    Between {
        to: u16,
        link: u16,
        words: Vec<Down>,
    },
}

/// The other lanes.
pub(super) struct Sides {
    /// Lane 1, 2, ...; lane 0 is the main one.
    list: Vec<Side>,
    homes: BTreeMap<ConnId, Home>,
    /// The main lane's own sleeper.
    sleeper: Sleeper,
    pub(super) balance: Balance,
    pub(super) placement: Placement,
    /// The pillars that have lanes.
    pub(super) posts: Posts,
    /// All that are in force, wherever they stand.
    known: Vec<Arc<Post>>,
    /// Those of them that stand on the main lane.
    pub(super) own: Pillars,
}

impl Sides {
    /// Starts the other lanes.
    ///
    /// # Errors
    /// The error of the system.
    pub(super) fn start(
        (others, placement): (Vec<(Poll, Sleeper)>, Placement),
        sleeper: Sleeper,
        mailbox: &Mailbox,
        sockets: impl Fn(Poll) -> Sockets,
    ) -> io::Result<Self> {
        let (polls, sleepers): (Vec<Poll>, Vec<Sleeper>) = others.into_iter().unzip();
        let ends = join(&sleeper, &sleepers, placement.is_staged());
        let start = |(lane, (poll, ends))| {
            let watch = Watch { mailbox: mailbox.clone(), why: "a lane panicked" };
            Side::start((lane, sockets(poll)), ends, watch)
        };
        let list = (1..).zip(polls.into_iter().zip(ends)).map(start).collect::<io::Result<Vec<Side>>>()?;
        Ok(Self {
            list,
            homes: BTreeMap::new(),
            sleeper,
            balance: Balance::default(),
            placement,
            posts: Posts::default(),
            known: Vec::new(),
            own: Pillars::default(),
        })
    }

    fn side(&mut self, lane: u16) -> Option<&mut Side> {
        self.list.get_mut(usize::from(lane).checked_sub(1)?)
    }

    fn put(&mut self, lane: u16, word: Down) {
        if let Some(side) = self.side(lane) {
            side.put(word);
        }
    }

    /// Sends an item to the lane that has the connection. Says whether there is one.
    fn say(&mut self, conn: ConnId, word: Down) -> bool {
        match self.homes.get_mut(&conn) {
            None => return false,
            Some(Home::Between { words, .. }) => words.push(word),
            Some(Home::On { lane, .. }) => {
                let lane = *lane;
                self.put(lane, word);
            }
        }
        true
    }

    /// The number of other lanes.
    pub(super) fn count(&self) -> usize {
        self.list.len()
    }

    /// The thousandths of its time in which each lane works.
    pub(super) fn busy(&self, now: Time) -> impl Iterator<Item = (u16, u64)> + Clone {
        self.list.iter().map(move |side| (side.lane, side.busy(now)))
    }

    /// The lane of each connection.
    pub(super) fn homes(&self) -> impl Iterator<Item = (&ConnId, &Home)> {
        self.homes.iter()
    }

    /// Sends a frame if another lane has the connection; else drops it.
    pub(super) fn send(&mut self, conn: ConnId, frame: OutFrame) {
        if !self.homes.is_empty() {
            self.say(conn, Down::Send(conn, frame));
        }
    }

    /// Ends a connection, if another lane has it.
    pub(super) fn close(&mut self, conn: ConnId) -> bool {
        let known = self.say(conn, Down::Close(conn));
        if let Some(Home::On { .. }) = self.homes.get(&conn) {
            self.homes.remove(&conn);
        }
        known
    }

    /// Asks for a turn of the pillar of an instance.
    pub(super) fn run(&mut self, id: InstanceId) {
        self.place_pillars();
        self.ask(id);
    }

    /// Gives a turn to the pillar of an instance, wherever it stands now.
    fn ask(&mut self, id: InstanceId) {
        match self.placement.of_instance(id) {
            0 => self.own.ask(id),
            lane => self.put(lane, Down::Run(id)),
        }
    }

    /// Tells the lanes of new pillars, and of those to which the main lane gave a turn.
    pub(super) fn place_pillars(&mut self) {
        let News { posts, stirred } = self.posts.news();
        for post in posts {
            self.known.retain(|known| !known.is_over() && !Arc::ptr_eq(known, &post));
            self.known.push(post.clone());
            self.place(post);
        }
        for id in stirred {
            self.ask(id);
        }
    }

    fn place(&mut self, post: Arc<Post>) {
        match self.placement.of_instance(post.id) {
            0 => self.own.add(post),
            lane => self.put(lane, Down::Pillar(post)),
        }
    }

    /// A link stands on another lane from now on: its pillars go there. Gives its connections, which must follow.
    fn move_pillars(&mut self, now: Time, link: u16, lane: u16) -> Vec<ConnId> {
        self.place_pillars();
        let old = self.placement.of(link);
        self.placement.put(now, link, lane);
        let links = self.placement.links();
        let posts: Vec<Arc<Post>> =
            self.known.iter().filter(|post| link_of(post.id, links) == link).cloned().collect();
        for post in posts {
            match old {
                0 => self.own.remove(&post),
                old => self.put(old, Down::Without(post.clone())),
            }
            self.place(post);
        }
        let of_it = |home: &Home| match home {
            Home::On { link: of, .. } | Home::Between { link: of, .. } => *of == link,
        };
        self.homes.iter().filter(|(_, home)| of_it(home)).map(|(conn, _)| *conn).collect()
    }

    /// Sends the added items.
    pub(super) fn flush(&mut self) {
        self.list.iter_mut().for_each(Side::flush);
    }

    /// Tells all lanes how much the node takes.
    pub(super) fn tell(&self, node: &Node) {
        if !self.list.is_empty() {
            let takes = u8::from(node.takes_more(false)) | u8::from(node.takes_more(true)) << 1;
            self.list.iter().for_each(|side| side.tell(takes));
        }
    }

    /// Whether a lane has sent something; asked when the main lane is about to sleep.
    pub(super) fn have_something(&self) -> bool {
        if self.list.is_empty() {
            return false;
        }
        self.sleeper.dozes();
        (0..self.list.len()).any(|at| self.pieces(at) > 0)
    }

    /// The number of pieces that may be taken from a lane now. In a staged replica frames for any lane follow from what one lane passes on.
    fn pieces(&self, at: usize) -> usize {
        let pieces = self.list[at].pieces();
        let has_room = match self.placement.is_staged() {
            false => self.list[at].has_room(),
            true => self.list.iter().all(Side::has_room),
        };
        if has_room { pieces } else { 0 }
    }

    pub(super) fn woke(&self) {
        if !self.list.is_empty() {
            self.sleeper.woke();
        }
    }

    /// The status of each lane, the main lane first.
    pub(super) fn status(&self, main: &Sockets) -> Vec<LaneStatus> {
        let connections = main.connections.len();
        let now = main.clock.now();
        let (busy, member_bytes) = (main.pace.busy(), main.member_bytes);
        let main = LaneStatus { lane: 1, connections, busy, member_bytes, ..LaneStatus::default() };
        let all = std::iter::once(main).chain(self.list.iter().map(|side| side.status(now)));
        let placed = |status: LaneStatus| {
            let lane = status.lane - 1;
            LaneStatus { links: self.placement.on(lane).collect(), step: self.placement.step(lane), ..status }
        };
        all.map(placed).collect()
    }

    /// What connections hold on all lanes.
    pub(super) fn with_buffers(&self, mut all: BufferStatus) -> BufferStatus {
        for (bytes, slow_readers, cut) in self.list.iter().map(Side::holds) {
            all.bytes += bytes;
            all.slow_readers += slow_readers;
            all.cut += cut;
        }
        all.bytes_max *= 1 + self.list.len();
        all
    }
}

impl Drop for Sides {
    /// Stops all lanes before it waits for any.
    fn drop(&mut self) {
        self.list.iter_mut().for_each(Side::stop);
    }
}

/// The connection that an input of another lane concerns.
fn about(input: &Input) -> Option<ConnId> {
    match input {
        Input::Frame { conn, .. } | Input::Unsafe { conn, .. } | Input::Closed(conn) => Some(*conn),
        _ => None,
    }
}

impl Lane {
    /// A connection belongs to a link from now on, and goes to its lane.
    pub(super) fn belongs(&mut self, now: Time, conn: ConnId, link: u16) {
        match self.sides.homes.get_mut(&conn) {
            None => {
                let Some(connection) = self.sockets.connections.get_mut(&conn) else { return };
                connection.link = link;
            }
            Some(Home::On { link: of, .. } | Home::Between { link: of, .. }) => *of = link,
        }
        self.move_to(now, conn, self.sides.placement.of_connection(conn, link));
    }

    /// Moves a link to another lane: its pillars and its connections.
    pub(super) fn move_link(&mut self, now: Time, link: u16, lane: u16) {
        let here = self.sockets.connections.iter().filter(|(_, connection)| connection.link == link);
        let mut conns: Vec<ConnId> = here.map(|(conn, _)| *conn).collect();
        conns.extend(self.sides.move_pillars(now, link, lane));
        conns.into_iter().for_each(|conn| self.move_to(now, conn, lane));
    }

    /// Moves a connection to another lane.
    pub(super) fn move_to(&mut self, now: Time, conn: ConnId, lane: u16) {
        match self.sides.homes.get_mut(&conn) {
            None if lane == 0 => {}
            None => {
                // What it still says before it closes leaves from here.
                if self.sockets.connections.get(&conn).is_none_or(|connection| connection.closing) {
                    return;
                }
                let Some(connection) = self.sockets.release(conn) else { return };
                self.give(now, conn, lane, Box::new(connection));
            }
            Some(Home::On { lane: at, .. }) if *at == lane => {}
            Some(Home::On { link, .. }) => {
                let link = *link;
                self.sides.say(conn, Down::GiveBack(conn));
                self.sides.homes.insert(conn, Home::Between { to: lane, link, words: Vec::new() });
            }
            Some(Home::Between { to, .. }) => *to = lane,
        }
    }

    fn give(&mut self, now: Time, conn: ConnId, lane: u16, mut connection: Box<Connection>) {
        match self.home.class(conn) {
            ConnClass::Member => {
                (connection.class, connection.member) = (Class::Member, self.home.member(conn));
            }
            ConnClass::Client(owner) => connection.class = Class::Client(owner),
            ConnClass::Stranger => {}
        }
        self.sides.homes.insert(conn, Home::On { lane, link: connection.link, since: now });
        self.sides.put(lane, Down::Take(conn, connection));
    }

    /// Takes what the other lanes have read until now.
    pub(super) fn hear_sides(&mut self) {
        for at in 0..self.sides.list.len() {
            for _ in 0..self.sides.pieces(at) {
                let Some(words) = self.sides.list[at].take() else { break };
                // Read after the frames in it had arrived.
                let now = self.sockets.clock.now();
                for word in words {
                    match word {
                        Up::Input(input) => {
                            self.sides.list[at].heard();
                            let Some(conn) = about(&input).filter(|conn| self.sides.homes.contains_key(conn))
                            else {
                                continue;
                            };
                            if !matches!(input, Input::Frame { .. }) {
                                self.sides.homes.remove(&conn);
                            }
                            self.step(now, input);
                        }
                        Up::Back(conn, connection) => self.came_back(now, conn, connection),
                        Up::Turned => self.step(now, Input::Run(Part::Main)),
                        Up::Without(id) => self.sides.ask(id),
                        Up::Send(conn, frame) => self.pass_on(conn, frame),
                    }
                }
                self.sides.list[at].done();
            }
        }
    }

    /// A pillar sends a frame over a connection that its lane does not have.
    fn pass_on(&mut self, conn: ConnId, frame: OutFrame) {
        self.home.effects.push(Effect::Send { conn, frame });
    }

    /// A connection comes to the main lane, with the frames that wait for it.
    fn comes_home(&mut self, now: Time, conn: ConnId, connection: Connection, words: Vec<Down>) {
        if !self.sockets.receive(now, conn, connection, &mut self.home) {
            return;
        }
        for word in words {
            match word {
                Down::Send(_, frame) => drop(self.sockets.send(conn, frame, &mut Vec::new())),
                Down::Close(_) => self.sockets.close(now, conn),
                _ => {}
            }
        }
        self.sockets.write(now, conn, &mut self.home);
    }

    /// A lane gave a connection back, which now goes to its new lane.
    fn came_back(&mut self, now: Time, conn: ConnId, mut connection: Box<Connection>) {
        let Some(Home::Between { to, link, words }) = self.sides.homes.remove(&conn) else { return };
        connection.link = link;
        if to == 0 {
            return self.comes_home(now, conn, *connection, words);
        }
        self.give(now, conn, to, connection);
        for word in words {
            let closes = matches!(word, Down::Close(_));
            self.sides.put(to, word);
            if closes {
                self.sides.homes.remove(&conn);
            }
        }
    }
}

#[cfg(test)]
mod tests;
