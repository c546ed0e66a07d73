//! The lanes of a replica other than the main one, which has the node. Each has connections, gets turns of its own, and may be late.
//!
//! As in host/runtime/src/lane/side.rs: a lane cuts what arrives into frames and passes them to the main lane; it sends what the main lane
//! gives it, in order; and it gives a connection back when the main lane wants it elsewhere.

use super::pillars::{OnLane, Post, Standing};
use super::process::Arrival;
use super::{MS, Processes};
use crate::queue::Event;
use crate::timeline::Timeline;
use crate::trace::Level;
use quorate_node::Input;
use quorate_types::{ConnId, planted};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// In this many of 10000 cases a lane does not get its turn for long.
const LATE: u64 = 20;

/// What the main lane gives to another one, in order.
#[derive(Clone, Debug)]
pub(super) enum Word {
    Send(ConnId, Vec<u8>),
    Close(ConnId),
    GiveBack(ConnId),
    /// A pillar comes.
    Pillar(Arc<Post>),
    /// A pillar goes to another lane.
    Without(Arc<Post>),
}

/// One lane.
#[derive(Debug, Default)]
struct Lane {
    arrived: VecDeque<Arrival>,
    words: VecDeque<Word>,
    scheduled: bool,
    /// Its pillars, if pillars stand on lanes.
    on: OnLane,
}

/// Where a connection is.
#[derive(Debug)]
enum Home {
    On(u16),
    Between(Between),
}

/// A connection on its way from one lane to another; with what must be sent, and what arrives meanwhile.
#[derive(Debug)]
struct Between {
    from: u16,
    to: u16,
    /// Whether the old lane has given it up.
    left: bool,
    words: VecDeque<Word>,
    arrived: VecDeque<Arrival>,
}

/// A replica's lanes.
#[derive(Debug, Default)]
pub(super) struct Lanes {
    homes: BTreeMap<ConnId, Home>,
    lanes: BTreeMap<u16, Lane>,
    /// Which lane has which link, if pillars stand on lanes.
    pub(super) standing: Option<Standing>,
}

impl Lanes {
    /// Whether a lane other than the main one reads a connection.
    pub(super) fn has(&self, conn: ConnId) -> bool {
        self.homes.contains_key(&conn)
    }

    /// Whether this lane has a connection.
    pub(super) fn is_on(&self, conn: ConnId, lane: u16) -> bool {
        matches!(self.homes.get(&conn), Some(Home::On(at)) if *at == lane)
    }

    /// The pillars of a lane, if pillars stand on lanes.
    pub(super) fn on_lane(&mut self, lane: u16) -> Option<&mut OnLane> {
        self.standing.is_some().then(|| &mut self.lanes.entry(lane).or_default().on)
    }

    pub(super) fn put_on_lane(&mut self, lane: u16, on: OnLane) {
        self.lanes.entry(lane).or_default().on = on;
    }
}

fn about(arrival: &Arrival) -> Option<ConnId> {
    match arrival {
        Arrival::Bytes(conn, _) | Arrival::End(conn) => Some(*conn),
        _ => None,
    }
}

impl Processes {
    /// Gives something that arrived to the lane that has its connection, if there is one.
    pub(super) fn arrives_at_lane(
        &mut self,
        who: usize,
        arrival: Arrival,
        time: &mut Timeline,
    ) -> Option<Arrival> {
        let lanes = &mut self.list[who].lanes;
        let Some(home) = about(&arrival).and_then(|conn| lanes.homes.get_mut(&conn)) else {
            return Some(arrival);
        };
        match home {
            Home::On(lane) | Home::Between(Between { from: lane, left: false, .. }) => {
                let lane = *lane;
                lanes.lanes.entry(lane).or_default().arrived.push_back(arrival);
                self.schedule_lane(who, lane, time);
            }
            Home::Between(Between { arrived, .. }) => arrived.push_back(arrival),
        }
        None
    }

    /// The main lane sends something, if another lane has the connection.
    pub(super) fn send_by_lane(
        &mut self,
        who: usize,
        conn: ConnId,
        bytes: &[u8],
        time: &mut Timeline,
    ) -> bool {
        self.tell_lane(who, conn, Word::Send(conn, bytes.to_vec()), time)
    }

    /// The main lane ends a connection, if another lane has it.
    pub(super) fn close_by_lane(&mut self, who: usize, conn: ConnId, time: &mut Timeline) -> bool {
        if let Some(Home::Between(Between { words, .. })) = self.list[who].lanes.homes.get_mut(&conn) {
            // The receiver ends it.
            words.push_back(Word::Close(conn));
            return true;
        }
        let told = self.tell_lane(who, conn, Word::Close(conn), time);
        self.list[who].lanes.homes.remove(&conn);
        told
    }

    fn tell_lane(&mut self, who: usize, conn: ConnId, word: Word, time: &mut Timeline) -> bool {
        let lanes = &mut self.list[who].lanes;
        match lanes.homes.get_mut(&conn) {
            None => return false,
            Some(Home::Between(Between { words, .. })) => words.push_back(word),
            Some(Home::On(lane)) => {
                let lane = *lane;
                lanes.lanes.entry(lane).or_default().words.push_back(word);
                self.schedule_lane(who, lane, time);
            }
        }
        true
    }

    /// The main lane wants another lane to have a connection.
    pub fn move_to_lane(&mut self, who: usize, conn: ConnId, lane: u16, time: &mut Timeline) {
        time.note(Level::Events, Some(who), "move", || format!("{conn} to lane {}", lane + 1));
        let process = &mut self.list[who];
        if !process.conns.contains_key(&conn) {
            return;
        }
        match process.lanes.homes.get_mut(&conn) {
            None if lane == 0 => {}
            None => {
                // What has not been read yet is read there.
                let (there, here) = process
                    .inbox
                    .drain(..)
                    .partition::<VecDeque<_>, _>(|arrival| about(arrival) == Some(conn));
                process.inbox = here;
                process.lanes.homes.insert(conn, Home::On(lane));
                process.lanes.lanes.entry(lane).or_default().arrived.extend(there);
                self.schedule_lane(who, lane, time);
            }
            Some(Home::On(from)) if *from == lane => {}
            Some(Home::On(from)) => {
                let from = *from;
                self.tell_lane(who, conn, Word::GiveBack(conn), time);
                let (words, arrived) = (VecDeque::new(), VecDeque::new());
                let between = Between { from, to: lane, left: false, words, arrived };
                self.list[who].lanes.homes.insert(conn, Home::Between(between));
            }
            Some(Home::Between(Between { to, .. })) => *to = lane,
        }
    }

    /// A lane gave a connection back, and its new one gets it.
    pub fn given_back(&mut self, who: usize, conn: ConnId, time: &mut Timeline) {
        let lanes = &mut self.list[who].lanes;
        if let Some(Home::Between(Between { to, words, arrived, .. })) = lanes.homes.remove(&conn) {
            let closes = words.iter().any(|word| matches!(word, Word::Close(_)));
            if to == 0 {
                return self.comes_home(who, (words, arrived), time);
            }
            if !closes {
                lanes.homes.insert(conn, Home::On(to));
            }
            let lane = lanes.lanes.entry(to).or_default();
            lane.words.extend(words);
            lane.arrived.extend(arrived);
            self.schedule_lane(who, to, time);
        }
    }

    /// A connection comes to the main lane, with what must be sent and what arrived meanwhile.
    fn comes_home(
        &mut self,
        who: usize,
        (words, arrived): (VecDeque<Word>, VecDeque<Arrival>),
        time: &mut Timeline,
    ) {
        arrived.into_iter().for_each(|arrival| self.arrive_at_main(who, arrival, time));
        for word in words {
            match word {
                Word::Send(conn, bytes) => self.send_at_once((who, 0), conn, &bytes, time),
                Word::Close(conn) => self.hang_up(who, conn, time),
                _ => {}
            }
        }
    }

    /// The main lane tells a lane something that concerns no connection.
    pub(super) fn tell(&mut self, who: usize, lane: u16, word: Word, time: &mut Timeline) {
        self.list[who].lanes.lanes.entry(lane).or_default().words.push_back(word);
        self.schedule_lane(who, lane, time);
    }

    /// A connection of another lane has ended, so the lane no longer reads it.
    pub(super) fn forget_at_lane(&mut self, who: usize, conn: ConnId) {
        self.list[who].lanes.homes.remove(&conn);
    }

    pub(super) fn schedule_lane(&mut self, who: usize, lane: u16, time: &mut Timeline) {
        let life = self.list[who].life;
        let found = self.list[who].lanes.lanes.entry(lane).or_default();
        if std::mem::replace(&mut found.scheduled, true) {
            return;
        }
        let late = !self.net.is_healed() && time.rng().below(10_000) < LATE;
        let wait = if late { time.rng().spread(MS, 500 * MS) } else { 1_000 + time.rng().below(20_000) };
        let at = self.works_until(who, lane).max(time.now() + wait);
        time.at(at, Event::Lane { who, life, lane });
    }

    /// A lane has its turn.
    pub fn lane_turn(&mut self, who: usize, life: u32, lane: u16, time: &mut Timeline) {
        if !self.lives(who, life) {
            return;
        }
        if self.is_paused(who) {
            return time.after(5 * MS, Event::Lane { who, life, lane });
        }
        let Some(found) = self.list[who].lanes.lanes.get_mut(&lane) else { return };
        found.scheduled = false;
        let (arrived, words) = (std::mem::take(&mut found.arrived), std::mem::take(&mut found.words));
        time.mix(&[who as u64, u64::from(lane), arrived.len() as u64, words.len() as u64]);
        let (posts, words): (Vec<_>, Vec<_>) =
            words.into_iter().partition(|word| matches!(word, Word::Pillar(_) | Word::Without(_)));
        // Pillars that go may have one more turn here, although their new lane has them already.
        let late = !posts.is_empty()
            && posts.iter().all(|word| matches!(word, Word::Without(_)))
            && time.rng().chance(500);
        let (gone, come) = if late { (posts, Vec::new()) } else { (Vec::new(), posts) };
        come.into_iter().for_each(|word| self.post_moves(who, lane, word, time));
        self.lane_reads_all(who, lane, arrived, time);
        self.turn_pillars(who, lane, time);
        gone.into_iter().for_each(|word| self.post_moves(who, lane, word, time));
        for word in words {
            match word {
                Word::Send(conn, bytes) => self.send_at_once((who, lane), conn, &bytes, time),
                Word::Close(conn) => self.hang_up(who, conn, time),
                Word::GiveBack(conn) => {
                    if let Some(Home::Between(Between { left, .. })) =
                        self.list[who].lanes.homes.get_mut(&conn)
                    {
                        *left = true;
                        if planted("moves-past-the-main-lane") {
                            self.given_back(who, conn, time);
                        } else {
                            self.arrive(who, Arrival::GivenBack(conn), time);
                        }
                    }
                }
                Word::Pillar(_) | Word::Without(_) => {}
            }
        }
    }

    /// A lane reads what arrived; if that takes long, the rest waits for its next turn.
    fn lane_reads_all(&mut self, who: usize, lane: u16, arrived: VecDeque<Arrival>, time: &mut Timeline) {
        let mut arrived = arrived.into_iter();
        while !self.has_read_enough(who, lane, time.now())
            && let Some(arrival) = arrived.next()
        {
            self.lane_reads(who, lane, arrival, time);
        }
        if arrived.len() > 0 {
            let lanes = &mut self.list[who].lanes.lanes;
            lanes.entry(lane).or_default().arrived = arrived.collect();
            self.schedule_lane(who, lane, time);
        }
    }

    fn lane_reads(&mut self, who: usize, lane: u16, arrival: Arrival, time: &mut Timeline) {
        let Arrival::Bytes(id, bytes) = arrival else {
            if let (Arrival::End(id), Some(on)) = (&arrival, self.list[who].lanes.on_lane(lane)) {
                return on.put(Input::Closed(*id));
            }
            return self.arrive_at_main(who, arrival, time);
        };
        let Some((frames, damaged)) = self.read(who, id, &bytes) else { return };
        frames.iter().for_each(|frame| self.pay_for(who, lane, frame, time.now()));
        if let Some(on) = self.list[who].lanes.on_lane(lane) {
            frames.into_iter().for_each(|frame| on.put(Input::Frame { conn: id, frame }));
            if damaged {
                on.put(Input::Closed(id));
            }
            return;
        }
        for frame in frames {
            self.arrive_at_main(who, Arrival::Frame(id, frame), time);
        }
        if damaged {
            self.arrive_at_main(who, Arrival::End(id), time);
        }
    }
}
